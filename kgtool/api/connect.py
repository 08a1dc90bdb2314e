"""Settings from the arguments of ``GroupAdmin``, as the command line makes them of its options."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kgtool import config
from kgtool.config import Settings
from kgtool.errors import UsageError

WHERE = "the properties that were given"


def make_settings(
    bootstrap_server: str | None,
    command_config: str | None,
    context: str | None,
    properties: Mapping[str, str] | None,
    timeout_ms: int,
) -> Settings:
    """Combine what was given with the environment, as ``kgtool.config`` does.

    :raises UsageError: nothing names a cluster, or two things do that exclude each other.
    :raises ConfigError: a file, context or property can't be used.
    """
    if timeout_ms < 1:
        raise UsageError(f"timeout_ms takes at least 1 ms, not {timeout_ms}.")
    if properties is not None:
        if command_config is not None or context is not None:
            raise UsageError("Give properties, or command_config, or context: one of them.")
        return _of_properties(bootstrap_server, properties, timeout_ms)
    found = config.settings(bootstrap_server, command_config, timeout_ms, context=context)
    if found is None:
        raise _missing()
    return found


def _of_properties(
    bootstrap_server: str | None, given: Mapping[str, str], timeout_ms: int
) -> Settings:
    from kgtool.config.properties import Properties
    from kgtool.config.providers import resolve

    properties = resolve(Properties(given), os.environ, WHERE)
    servers = bootstrap_server or properties.value("bootstrap.servers")
    if servers is None:
        raise _missing()
    made = config.of_properties(properties, servers, WHERE, os.environ)
    return made._replace(timeout_ms=timeout_ms)


def _missing() -> UsageError:
    return UsageError(
        "Nothing names a cluster: give bootstrap_server or a context, or set "
        f"{config.BOOTSTRAP_VARIABLE}."
    )
