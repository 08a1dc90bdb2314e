"""PLAIN (RFC 4616): user name and password as they are; for connections with TLS."""

from __future__ import annotations


class Plain:
    """One login; the broker's SaslAuthenticate answer says whether it was accepted."""

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self.is_done = False
        # The empty part is the authorisation id: PlainSaslServer accepts none, or the same name.
        self._message = f"\0{username}\0{password}".encode()

    def start(self) -> bytes:
        """Return ``NUL user NUL password``."""
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        """Take the broker's empty answer."""
        self.is_done = True
        return None
