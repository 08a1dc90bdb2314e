"""How long the parts of a conversation may take, as the client properties say."""

from __future__ import annotations

from kgtool.config.properties import Properties
from kgtool.errors import ConfigError

_SETUP = "socket.connection.setup.timeout"
SETUP_MS = 10_000
"""Kafka's default for ``socket.connection.setup.timeout.ms``."""


def milliseconds(properties: Properties, key: str, where: str) -> int | None:
    """Return a number of milliseconds; None where it is not given.

    :param where: the file or context, for the message.
    :raises ConfigError: it is no positive number.
    """
    value = properties.value(key)
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and 0 < len(value) < 19 and int(value) > 0):
        raise ConfigError(
            f"Invalid value {value} for configuration {key} in {where}: it must be a number of "
            "milliseconds, at least 1."
        )
    return int(value)


def setup_ms(properties: Properties, where: str) -> int | None:
    """Return how long a connection may take to be ready; None where nothing is said of it.

    ``socket.connection.setup.timeout.ms``, at most ``socket.connection.setup.timeout.max.ms``.

    :raises ConfigError: one of them is no positive number.
    """
    first = milliseconds(properties, f"{_SETUP}.ms", where)
    most = milliseconds(properties, f"{_SETUP}.max.ms", where)
    if most is None or (first is None and most >= SETUP_MS):
        return first
    return min(first or SETUP_MS, most)
