"""The cluster to connect to, and the client's configuration: ``Settings``.

``--bootstrap-server`` > a context chosen by flag or ``KGTOOL_CONTEXT`` >
``KGTOOL_BOOTSTRAP_SERVER`` > the context in use > ``bootstrap.servers`` of a file. A context's
login goes to that context's own brokers, or to a ``--bootstrap-server`` typed beside ``--context``.

Files, JAAS lines and contexts are read by modules that are imported only where needed.

>>> settings(bootstrap="b1:9092,[::1]:9093", environ={}).bootstrap
(('b1', 9092), ('::1', 9093))
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kgtool.config.paths import contexts_file
from kgtool.config.properties import Properties, read_properties
from kgtool.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from kgtool.config.contexts import Context
    from kgtool.config.security import Security

BOOTSTRAP_VARIABLE = "KGTOOL_BOOTSTRAP_SERVER"
CONTEXT_VARIABLE = "KGTOOL_CONTEXT"
DEFAULT_TIMEOUT_MS = 30_000
"""``--timeout`` of Kafka's tool since 4.0 (3.9.1: 5000)."""

_ADDRESS = re.compile(r"^(?:[A-Za-z0-9\-%._]*://)?\[?([0-9A-Za-z\-%._:]*)\]?:([0-9]+)$")
"""``HOST_PORT_PATTERN`` of org.apache.kafka.common.utils.Utils, anchored at the end."""


class Settings(NamedTuple):
    """The configuration of a client.

    ``bootstrap`` has (host, port) pairs, ``timeout_ms`` is the time of a whole command.
    ``properties`` include secrets, which their repr hides. ``security`` is None for PLAINTEXT.
    ``context`` is the profile in use, if any: it refuses other clusters than its own, and may
    protect it; ``is_own_address``: the address is the profile's own, so the profile may be pinned
    to the cluster that answers. ``trace`` gets a line for each message on the wire, secrets masked.
    ``setup_ms`` is ``socket.connection.setup.timeout.ms``, ``request_ms`` ``request.timeout.ms``
    (None: not given), ``canonical_names`` stands for
    ``client.dns.lookup=resolve_canonical_bootstrap_servers_only``. ``notes`` are sentences about
    the configuration for the user.
    """

    bootstrap: tuple[tuple[str, int], ...]
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    client_id: str = "kgtool"
    properties: Mapping[str, str] = {}
    security: Security | None = None
    context: Context | None = None
    trace: Callable[[str], None] | None = None
    setup_ms: int | None = None
    request_ms: int | None = None
    canonical_names: bool = False
    notes: tuple[str, ...] = ()
    is_own_address: bool = True


def settings(
    bootstrap: str | None = None,
    command_config: str | None = None,
    timeout_ms: int | None = None,
    environ: Mapping[str, str] | None = None,
    context: str | None = None,
) -> Settings | None:
    """Combine arguments, variables, files and contexts; None where nothing names a cluster.

    A login for one cluster is never sent to another by accident: the context in use counts only
    where nothing else names a cluster, and ``KGTOOL_BOOTSTRAP_SERVER`` never redirects a context
    that was chosen. Only an address typed beside ``context`` does.

    :raises UsageError: a malformed address.
    :raises ConfigError: a file that can't be used.
    """
    environ = os.environ if environ is None else environ
    variable = environ.get(BOOTSTRAP_VARIABLE) or None
    is_typed = context is not None
    if context is None and bootstrap is None:
        context = environ.get(CONTEXT_VARIABLE) or None
    servers = variable if bootstrap is None and context is None else bootstrap
    profile = _profile(context, servers, command_config)
    if profile is None and command_config is None:
        if servers is None:
            return None
        return Settings(parse_bootstrap(servers), timeout_ms or DEFAULT_TIMEOUT_MS)
    given = None if command_config is None else read_properties(command_config, timeout_ms)
    found = _combine(servers, command_config, given, profile, environ, is_typed=is_typed)
    if found is None:
        return None
    chosen = found.context if bootstrap is None and context is not None else None
    if chosen is not None and variable not in (None, chosen.bootstrap):
        ignored = f"{BOOTSTRAP_VARIABLE} is ignored: the context {context} names its brokers."
        found = found._replace(notes=(ignored, *found.notes))
    return found._replace(timeout_ms=timeout_ms or DEFAULT_TIMEOUT_MS)


def _combine(
    servers: str | None,
    command_config: str | None,
    given: Properties | None,
    profile: Context | None,
    environ: Mapping[str, str],
    *,
    is_typed: bool = False,
) -> Settings | None:
    """Combine a file and a profile; ``servers`` takes precedence over both.

    :param given: what is in the file.
    :param is_typed: the profile was named on the command line.
    """
    where = command_config or f"the context {profile.name if profile else ''}"
    file = command_config or (profile.command_config if profile else None)
    if given is None:
        given = Properties() if file is None else read_properties(file)
    properties = _resolve(given, file, profile, environ)
    named = properties.value("bootstrap.servers")
    own = _own_address(profile, named, command_config)
    servers = servers or own or named
    if servers is None:
        return None
    if profile is not None and servers != own and not is_typed:
        # Another file names another cluster: it gets nothing of the context.
        return _combine(servers, command_config, given, None, environ)
    found = settings_from_properties(properties, servers, where, environ)
    return found._replace(context=profile, is_own_address=servers == own)


def settings_from_properties(
    properties: Properties, servers: str, where: str, environ: Mapping[str, str]
) -> Settings:
    """Make settings from client properties with their variables resolved.

    :param where: the file or context that they come from, for messages.
    :raises ConfigError: a property has a value that can't be used.
    """
    from kgtool.config.known_properties import suspicious_names, unused_properties
    from kgtool.config.security import canonical_names, security

    if "sasl.jaas.config" not in properties and "KAFKA_OPTS" in environ:
        from kgtool.config.jaas import from_kafka_opts

        properties = from_kafka_opts(properties, environ["KAFKA_OPTS"])
    return Settings(
        parse_bootstrap(servers),
        client_id=properties.value("client.id") or "kgtool",
        properties=properties,
        security=security(properties, where),
        setup_ms=setup_ms(properties, where),
        request_ms=milliseconds(properties, "request.timeout.ms", where),
        canonical_names=canonical_names(properties, where),
        notes=(*suspicious_names(properties, where), *unused_properties(properties, where)),
    )


def _own_address(
    profile: Context | None, named: str | None, command_config: str | None
) -> str | None:
    """Return a profile's own address; ``named`` is the one of all files together."""
    if profile is None or profile.bootstrap:
        return profile and profile.bootstrap
    is_own = command_config is None or "bootstrap.servers" in profile.properties
    return named if is_own else None


def has_cluster() -> bool:
    """Whether a variable or a context names a cluster."""
    named = os.environ.get(BOOTSTRAP_VARIABLE) or os.environ.get(CONTEXT_VARIABLE)
    return bool(named or _profile(None, None, None))


def _profile(name: str | None, servers: str | None, command_config: str | None) -> Context | None:
    if name is None and (servers is not None or command_config is not None):
        return None
    if name is None and not os.path.exists(contexts_file()):  # noqa: PTH110
        return None
    from kgtool.config.contexts import load

    known = load()
    chosen = name or known.current
    return None if chosen is None else known.get(chosen)


def _resolve(
    properties: Properties, path: str | None, profile: Context | None, environ: Mapping[str, str]
) -> Properties:
    """Put a profile's own properties over those of a file, and resolve variables."""
    from kgtool.config.providers import resolve

    where = path or "the context"
    if profile is None:
        return resolve(properties, environ, where)
    from kgtool.config.contexts import properties_of

    # Secrets are taken literally: variables in them are not expanded.
    own = resolve(Properties({**properties, **profile.properties}), environ, where)
    return properties_of(profile, own, environ)


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


# ---------------------------------------------------------------------------------------------
# Timeouts of the client properties


_SETUP = "socket.connection.setup.timeout"
SETUP_MS = 10_000
"""Kafka's default for ``socket.connection.setup.timeout.ms``."""


def milliseconds(properties: Properties, key: str, where: str) -> int | None:
    """Return a number of milliseconds; None where it is not given.

    :param where: the file or context, for the message.
    :raises ConfigError: it is not a positive number.
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
    """Return the time for setting a connection up; None where it is not configured.

    ``socket.connection.setup.timeout.ms``, at most ``socket.connection.setup.timeout.max.ms``.

    :raises ConfigError: one of them is not a positive number.
    """
    first = milliseconds(properties, f"{_SETUP}.ms", where)
    most = milliseconds(properties, f"{_SETUP}.max.ms", where)
    if most is None or (first is None and most >= SETUP_MS):
        return first
    return min(first or SETUP_MS, most)
