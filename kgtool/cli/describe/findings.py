"""Findings as rows, with command lines that reach the cluster: for ``doctor`` and ``explain``."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

from kgtool.cli.options.shared import given_connection
from kgtool.cli.output.errors import place
from kgtool.cli.output.rows import build_row
from kgtool.columns.groups import DOCTOR
from kgtool.config import Settings
from kgtool.config.logins import PasswordLogin
from kgtool.model import Target
from kgtool.queries.doctor.finding import KINDS, Finding
from kgtool.text import addresses

YOU = "User:YOU"


class FixConnection(NamedTuple):
    """What the suggested commands need to reach the cluster.

    ``own``: the options that were typed, for kgtool. Kafka's tools know neither contexts nor the
    environment: they get the ``brokers`` and the file (``config``). ``principal``: the login's,
    if the configuration has it.
    """

    own: tuple[str, ...]
    brokers: str
    config: str | None
    principal: str


def fix_connection(settings: Settings) -> FixConnection:
    """Return how the suggested commands reach the cluster, and this login's principal."""
    given = given_connection()
    given.pop("timeout", None)
    own = (word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value))
    brokers, config = addresses(settings.bootstrap), given.get("command_config")
    security, principal = settings.security, YOU
    login = security.sasl.login if security is not None and security.sasl is not None else None
    if security is None:
        principal = "User:ANONYMOUS"
    elif isinstance(login, PasswordLogin) and not login.is_token:
        principal = f"User:{login.username}"
    return FixConnection(tuple(own), brokers, config, principal)


def fix_of(finding: Finding, connection: FixConnection) -> tuple[str, ...]:
    """Return the words of a finding's command line, ready to be run; empty: there is none."""
    if not finding.fix:
        return ()
    program, *rest = finding.fix
    if program == "kgtool":
        return (*finding.fix, *connection.own)
    # A login that lacks an ACL can't add it.
    config = "ADMIN.properties" if program == "kafka-acls.sh" else connection.config
    reach = ["--bootstrap-server", connection.brokers]
    if connection.config is not None:
        reach += ["--command-config", str(config)]
    who = [connection.principal if word == YOU else word for word in rest]
    return (program, *reach, *who)


def instead_of(finding: Finding, connection: FixConnection) -> tuple[str, ...]:
    """Return the words of the command of kgtool that does the same; empty: there is none."""
    return (*finding.instead, *connection.own) if finding.instead else ()


def finding_row(finding: Finding, connection: FixConnection) -> dict[str, Any]:
    """Return a finding's row in the machine formats; ``instead`` is in its evidence."""
    instead = shlex.join(instead_of(finding, connection))
    return build_row(
        finding,
        DOCTOR,
        finding=finding.kind,
        message=message_of(finding),
        evidence={**finding.evidence, **({"instead": instead} if instead else {})},
        fix=shlex.join(fix_of(finding, connection)) or None,
    )


def message_of(finding: Finding) -> str:
    """Return a finding as one sentence: what, where, and the detail."""
    title, _ = KINDS[finding.kind]
    where = place(Target(finding.group, finding.topic, finding.partition, finding.broker))
    parts = [title[0].upper() + title[1:], where, finding.detail]
    return ": ".join(part for part in parts if part) + "."
