"""What to connect to, and how: flags > environment > context > client.properties → ``Settings``.

Reading files, JAAS lines and contexts is left to modules that are imported when there is one.

>>> settings(bootstrap="b1:9092,[::1]:9093", environ={}).bootstrap
(('b1', 9092), ('::1', 9093))
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kgtool.errors import UsageError

if TYPE_CHECKING:
    from kgtool.config.properties import Properties
    from kgtool.config.security import Security

BOOTSTRAP_VARIABLE = "KGTOOL_BOOTSTRAP_SERVER"
DEFAULT_TIMEOUT_MS = 30_000
"""``--timeout`` of Kafka's tool since 4.0 (3.9.1: 5000)."""

_ADDRESS = re.compile(r"^(?:[A-Za-z0-9\-%._]*://)?\[?([0-9A-Za-z\-%._:]*)\]?:([0-9]+)$")
"""``HOST_PORT_PATTERN`` of org.apache.kafka.common.utils.Utils, anchored at the end."""


class Settings(NamedTuple):
    """How to reach a cluster: ``(host, port)`` pairs, and the time a command may take, in ms.

    ``properties`` are the client's own, secrets included; their repr hides those. ``security`` is
    None for plain connections without a login.
    """

    bootstrap: tuple[tuple[str, int], ...]
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    client_id: str = "kgtool"
    properties: Mapping[str, str] = {}
    security: Security | None = None


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
    if command_config is None:
        servers = bootstrap or environ.get(BOOTSTRAP_VARIABLE)
        if bootstrap is None and not servers:
            return None
        return Settings(parse_bootstrap(servers or ""), timeout_ms or DEFAULT_TIMEOUT_MS)
    properties = _read(command_config, environ)
    return _combine(properties, command_config, bootstrap, timeout_ms, environ)


def _read(path: str, environ: Mapping[str, str]) -> Properties:
    from kgtool.config.properties import read_properties
    from kgtool.config.providers import resolve

    return resolve(read_properties(path), environ, path)


def _combine(
    properties: Properties,
    where: str,
    bootstrap: str | None,
    timeout_ms: int | None,
    environ: Mapping[str, str],
) -> Settings | None:
    from kgtool.config.security import security

    secured = security(properties, where)
    servers = bootstrap
    if servers is None:
        servers = environ.get(BOOTSTRAP_VARIABLE) or properties.value("bootstrap.servers")
    if servers is None:
        return None
    return Settings(
        parse_bootstrap(servers),
        DEFAULT_TIMEOUT_MS if timeout_ms is None else timeout_ms,
        properties.value("client.id") or "kgtool",
        properties,
        secured,
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
