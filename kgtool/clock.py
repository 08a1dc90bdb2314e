"""The current time, and random tokens for ids."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the time in ms since the epoch."""
    return time.time_ns() // 1_000_000


def token() -> str:
    """Return a random token, which makes ids of the same second unique."""
    import secrets

    return secrets.token_hex(4)
