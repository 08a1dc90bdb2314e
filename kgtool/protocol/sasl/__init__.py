"""SASL: one file per mechanism, each a small state machine of bytes.

A mechanism begins with ``start``, and answers each challenge with ``step``; None: there is nothing
left to send. ``is_done``: the login is complete from its point of view; SCRAM has then verified
that the server knows the password too. Randomness, clocks and tokens come in as arguments. A
mechanism refuses with an ``AuthenticationError`` without secrets.
"""

from __future__ import annotations

from typing import Protocol

from kgtool.errors import AuthenticationError


class Mechanism(Protocol):
    """One login on one connection."""

    @property
    def name(self) -> str:
        """The mechanism's name in SaslHandshake."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is missing for a login."""

    def start(self) -> bytes:
        """Return the first message."""

    def step(self, challenge: bytes) -> bytes | None:
        """Answer a challenge; None where there is nothing left to say."""


class Unknown:
    """A mechanism that kgtool does not have: it is asked for, so that the broker names its own."""

    is_done = False

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self._known = known

    def start(self) -> bytes:
        """Refuse: the broker would go on, but kgtool can't."""
        raise AuthenticationError(
            f"The broker offers sasl.mechanism={self.name}, but kgtool does not have it.",
            hint=f"kgtool has {', '.join(self._known)}.",
        )

    def step(self, challenge: bytes) -> bytes | None:
        """Never called: ``start`` has refused."""
        return None
