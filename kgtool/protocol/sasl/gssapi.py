"""GSSAPI (RFC 4752): Kerberos tokens, then the agreement that no security layer is put on top.

The tokens are made by a security context that ``kgtool.net`` brings along (python-gssapi).
"""

from __future__ import annotations

from typing import Protocol

from kgtool.errors import AuthenticationError

NO_LAYER = 1


class SecurityContext(Protocol):
    """A GSS-API security context; errors are ``AuthenticationError``."""

    @property
    def complete(self) -> bool:
        """Whether both sides know each other."""

    def step(self, token: bytes | None) -> bytes | None:
        """Take the peer's token and return the next one of ours."""

    def wrap(self, data: bytes) -> bytes:
        """Protect a message's integrity."""

    def unwrap(self, data: bytes) -> bytes:
        """Check and open the peer's message."""


class Gssapi:
    """One login."""

    name = "GSSAPI"

    def __init__(self, context: SecurityContext) -> None:
        self.is_done = False
        self._context = context
        self._layers_answered = False

    def start(self) -> bytes:
        """Return the first token."""
        return self._context.step(None) or b""

    def step(self, challenge: bytes) -> bytes | None:
        """Go on until both sides know each other, then choose no security layer."""
        if self._layers_answered:
            self.is_done = True
            return None
        if not self._context.complete:
            # The last token may be empty, but the server waits for the message.
            return self._context.step(challenge) or b""
        offer = self._context.unwrap(challenge)
        if len(offer) != 4 or not offer[0] & NO_LAYER:
            raise AuthenticationError(
                "The broker insists on a GSSAPI security layer, which Kafka does not have."
            )
        self._layers_answered = True
        # A layer, the size of its buffer (none), and no other name than the ticket's.
        return self._context.wrap(bytes((NO_LAYER, 0, 0, 0)))
