"""``kgtool doctor``: what is wrong with a cluster's groups, and the command that fixes it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kgtool.cli.app import exits
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import (
    cluster_options,
    group_options,
    no_cluster,
    open_session,
    typed,
)
from kgtool.cli.options.types import Named, duration
from kgtool.cli.output import terminal
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.reports import doctor
from kgtool.cli.reports.doctor import YOU, Connection
from kgtool.client.ops import grouped
from kgtool.clock import now_ms
from kgtool.columns.tools import DOCTOR, FINDINGS
from kgtool.config import Settings
from kgtool.config.logins import PasswordLogin
from kgtool.model import ItemError
from kgtool.queries.doctor import examine
from kgtool.queries.doctor.examine import Diagnosis
from kgtool.queries.doctor.facts import SETTLE_S
from kgtool.queries.doctor.finding import KINDS, SEVERITIES
from kgtool.retention.generated_names import family
from kgtool.text import addresses, counted

NEVER = "none"


# fmt: off
@declare(
    "doctor",
    "kgtool doctor",
    "kgtool doctor --match 'billing-*' --within 7d",
    "kgtool doctor --fail-on problem --ignore piling-up -o json",
)
@group_options
@option("--within", "TIME", "Report offsets that expire within this time (default: 48h).",
        type=duration(), default="48h")
@option("--fail-on", "SEVERITY", "Exit with status 5 from this severity up: problem, warning "
        "(default), note, none.", type=Named([*SEVERITIES, NEVER]), default="warning")
@repeatable("--ignore ignored", "FINDING", "Skip findings of this kind (beyond-end, ghost-topic, "
            "...); repeatable.",
            type=Named(list(KINDS), "a word that kgtool doctor --findings shows"))
@flag("--findings", "List the kinds of findings and what they mean; needs no cluster.")
@cluster_options(required=False)
# fmt: on
def command(
    settings: Settings | None, output: Output, selection: Selection, within: int, fail_on: str,
    ignored: tuple[str, ...], findings: bool,
) -> int:  # fmt: skip
    """Find what is wrong with groups, and the command that fixes it.

    Without a selection the brokers and __consumer_offsets are checked too. Groups are those that
    Kafka's own tool lists. A problem loses data or blocks someone, a warning may become a problem,
    a note is good to know. Nothing is changed; the suggested commands show a plan first.

    In JSON, NDJSON, CSV and YAML each row has finding (a word that never changes), severity, group,
    topic, partition, broker, message, evidence (numbers) and fix (a command line); null where a
    part does not apply. What this login may not read is a note, denied, with the findings that may
    be missing.
    """
    if findings:
        output.begin(FINDINGS)
        output.text(doctor.catalogue(), end="")
        for kind, (title, meaning) in KINDS.items():
            output.item({"finding": kind, "title": title, "meaning": meaning})
        return output.finish()
    if settings is None:
        raise no_cluster()
    if selection.is_given:
        selection.check("doctor")
    selection.predicate()
    connection = _connection(settings)
    found = _examine(settings, output, selection, within)
    found = found._replace(findings=[f for f in found.findings if f.kind not in ignored])
    _show(output, found, connection)
    status = output.finish()
    until = -1 if fail_on == NEVER else SEVERITIES.index(fail_on)
    is_found = any(SEVERITIES.index(each.severity) <= until for each in found.findings)
    return exits.FOUND if is_found else status


def _connection(settings: Settings) -> Connection:
    """Return what the commands of findings need: the options, as far as they were typed, and how
    brokers call this login, where its name is its principal's."""
    given = typed()
    given.pop("timeout", None)
    own = (word for name, value in given.items()
           for word in (f"--{name.replace('_', '-')}", value))  # fmt: skip
    brokers, config = addresses(settings.bootstrap), given.get("command_config")
    security, principal = settings.security, YOU
    login = security.sasl.login if security is not None and security.sasl is not None else None
    if security is None:
        principal = "User:ANONYMOUS"
    elif isinstance(login, PasswordLogin) and not login.is_token:
        principal = f"User:{login.username}"
    return Connection(tuple(own), brokers, config, principal)


def _examine(
    settings: Settings, output: Output, selection: Selection, within_ms: int
) -> Diagnosis:
    is_whole = selection.all_groups or not selection.is_given

    def generated(name: str) -> str | None:
        """Return the family of a name that a tool made up, but of what was asked for by name."""
        return None if name in selection.groups else family(name)

    def waiting(count: int) -> None:
        """Tell somebody at a terminal what takes so long."""
        if terminal.is_terminal(sys.stderr):
            what = counted(count, "group")
            output.note(f"Looking again in {SETTLE_S:.0f} s: {what} in the middle of a rebalance.")

    if not selection.is_given:  # --exclude and --state alone narrow all groups here
        selection = selection._replace(all_groups=True)
    with open_session(settings) as session:
        chosen = choose(session, output, selection, DOCTOR)
        ask = examine.Ask(now_ms(), within_ms, is_whole, generated, waiting)
        return session.run(examine.diagnose(session.cluster, chosen.groups, chosen.kinds, ask))


def _fail(output: Output, errors: Sequence[ItemError]) -> None:
    """Name failures, on stderr each reason once: a broker that is down is one for many groups."""
    reasons = grouped((error.message, error) for error in errors)
    for alike in reasons.values():
        more = len({error.target.group for error in alike}) - 1
        said = sentence(alike[0])
        output.note(f"{said} (And {more} more: -o json.)" if more > 0 else said)
        for error in alike:
            output.failed(error, quiet=True)


def _show(output: Output, found: Diagnosis, connection: Connection) -> None:
    for finding in found.findings:
        output.row(doctor.row(finding, connection))
    _fail(output, [error for error in found.errors if error not in output.errors])
    output.done += found.groups + (found.is_whole and found.brokers > 0)
    if output.is_text:
        output.page()
        if found.findings:
            output.text(doctor.page(output, found.findings, connection))
        output.text(doctor.summary(found, len(output.errors)))
