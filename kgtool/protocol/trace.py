"""A line for each message, for ``--debug``: what it is, and as much of it as may be shown."""

from __future__ import annotations

from kgtool.protocol.schema import Struct

WIDTH = 300
"""Characters of a message's content that are shown."""

_SECRET = {36}
"""SaslAuthenticate: passwords, tokens and proofs. Nothing of them is shown, in no direction."""


def line(
    arrow: str, peer: str, number: int, request: Struct, version: int, message: Struct, size: int
) -> str:
    """Describe a message.

    :param arrow: ``→`` for what was sent, ``←`` for what was received.
    :param number: the correlation id.
    :param request: names the API; ``message`` is the request itself or its reply.
    :param size: bytes of the frame, without its length.
    """
    content = "[hidden]" if request.KEY in _SECRET else repr(message)
    if len(content) > WIDTH:
        content = f"{content[:WIDTH]}…"
    return f"{arrow} {peer} #{number} {request.NAME} v{version}, {size} bytes: {content}"
