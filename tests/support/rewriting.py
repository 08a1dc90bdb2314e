"""Makes other answers of a broker's, with kgtool's own schemas, for ``proxy.Fault.rewrite``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kgtool.protocol.frame import skip_response_header
from kgtool.protocol.plan import decode, encode


def rewriting(
    api: Any, change: Callable[[Any], Any], version: int | None = None
) -> Callable[[bytes], bytes]:
    """Return a rewrite of an API's answers; asked in the highest version, if none is given."""
    request = api.Request
    version = request.VERSIONS.high if version is None else version

    def rewrite(frame: bytes) -> bytes:
        start = 4 + skip_response_header(frame[4:], request.KEY, version in request.FLEXIBLE)
        body = frame[4:start] + encode(
            change(decode(api.Response, version, frame[start:])), version
        )
        return len(body).to_bytes(4, "big") + body

    return rewrite
