"""What to connect to, and how: flags > environment > client.properties → ``Settings``.

First cut: of the file that ``--command-config`` names, ``bootstrap.servers``, ``client.id`` and
``security.protocol`` are understood; other keys are carried along in ``Settings.properties``.

>>> settings(bootstrap="b1:9092,[::1]:9093", environ={}).bootstrap
(('b1', 9092), ('::1', 9093))
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from kgtool.errors import ConfigError, UsageError

BOOTSTRAP_VARIABLE = "KGTOOL_BOOTSTRAP_SERVER"
DEFAULT_TIMEOUT_MS = 30_000
"""``--timeout`` of Kafka's tool since 4.0 (3.9.1: 5000)."""

_ADDRESS = re.compile(r"^(?:[A-Za-z0-9\-%._]*://)?\[?([0-9A-Za-z\-%._:]*)\]?:([0-9]+)$")
"""``HOST_PORT_PATTERN`` of org.apache.kafka.common.utils.Utils, anchored at the end."""

_NOT_YET = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Settings(NamedTuple):
    """How to reach a cluster: ``(host, port)`` pairs, and the time a command may take, in ms."""

    bootstrap: tuple[tuple[str, int], ...]
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    client_id: str = "kgtool"
    properties: Mapping[str, str] = {}


def settings(
    bootstrap: str | None = None,
    command_config: str | None = None,
    timeout_ms: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings | None:
    """Combine what was given; None where nothing names a cluster.

    Raises UsageError for a malformed address, ConfigError for a file that can't be used.
    """
    environ = os.environ if environ is None else environ
    properties = read_properties(command_config) if command_config is not None else {}
    _check_protocol(properties, command_config)
    servers = bootstrap
    if servers is None:
        servers = environ.get(BOOTSTRAP_VARIABLE) or properties.get("bootstrap.servers")
    if servers is None:
        return None
    return Settings(
        parse_bootstrap(servers),
        DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
        properties.get("client.id", "kgtool"),
        properties,
    )


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """Read ``host:port,host:port``; IPv6 addresses stand in brackets."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise UsageError("No bootstrap server is given: --bootstrap-server takes host:port.")
    return tuple(_address(part) for part in parts)


def _address(text: str) -> tuple[str, int]:
    match = _ADDRESS.match(text)
    if not match or not match[1]:
        raise UsageError(f"Invalid url in bootstrap.servers: {text} (host:port is expected)")
    port = int(match[2])
    if not 0 < port < 65536:
        raise UsageError(f"Invalid port in bootstrap.servers: {text}")
    return match[1], port


def read_properties(path: str) -> dict[str, str]:
    """Read the plain ``key=value`` lines of a Java properties file."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs start-up time
            lines = file.read().splitlines()
    except OSError as error:
        raise ConfigError(f"Can't read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"Can't read {path}: it is no text file.") from error
    pairs: dict[str, str] = {}
    for line in lines:
        line = line.strip()
        if line and line[0] not in "#!":
            key, value = (re.split(r"\s*[=:]\s*", line, maxsplit=1) + [""])[:2]
            pairs[key] = value
    return pairs


def _check_protocol(properties: Mapping[str, str], path: str | None) -> None:
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol in _NOT_YET:
        raise ConfigError(
            f"security.protocol={protocol} in {path} is not supported yet: "
            "this version of kgtool connects with PLAINTEXT only."
        )
    if protocol != "PLAINTEXT":
        raise ConfigError(
            f"Invalid value {protocol} for configuration security.protocol in {path}: it must be "
            "one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."
        )
