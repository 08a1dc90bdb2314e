"""The time of this machine, as Kafka tells times, and the letters that ids have behind it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def token() -> str:
    """Return letters that no journal or plan of the same second has."""
    import secrets

    return secrets.token_hex(4)
