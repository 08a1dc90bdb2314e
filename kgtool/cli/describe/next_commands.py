"""What ``explain`` says to type next: what ``doctor`` says, and else nothing that does harm."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from kgtool.changes.journal import history
from kgtool.changes.journal.journal import DONE, INTERRUPTED
from kgtool.cli.describe.findings import FixConnection, fix_of
from kgtool.client.ops import grouped
from kgtool.model import TopicPartition
from kgtool.protocol.codes import COORDINATOR_NOT_AVAILABLE
from kgtool.queries.doctor.finding import Finding
from kgtool.queries.explain import Explanation
from kgtool.queries.groups.describe import UNKNOWN_TO_COORDINATOR
from kgtool.retention import rules as r
from kgtool.retention.writes import Removal

Quote = Callable[[str], str]

LOST = {"beyond-end", "before-start", "topic-recreated", "topic-gone"}
"""Findings of offsets that keep would only preserve."""


def next_commands(
    found: Explanation,
    connection: FixConnection,
    undo: str | None = None,
    quote: Quote = shlex.quote,
) -> list[str]:
    """Return commands for the state of the group, the most likely one first.

    :param undo: the journal of kgtool that has removed what is gone.
    """
    name = quote(found.description.group)
    commands = [_allow(*acl[:3], quote) for acl in found.missing]
    if undo is not None:
        commands.append(f"kgtool undo {quote(undo)}")
    elif lost := lost_offsets(found):
        commands.append(_recover(lost, name, quote))
    if not found.exists:
        commands += _of_absent(found, name, undo)
    else:
        commands += _fixes(found.findings, connection, quote)
        of_state = _of_empty if found.description.is_empty else _of_living
        commands += of_state(found, name)
        if found.description.type == r.TYPE_STREAMS:
            commands.append(f"kgtool describe --group {name} --topology")
    return list(dict.fromkeys(commands))


def _allow(operation: str, kind: str, resource: str, quote: Quote) -> str:
    where = "--cluster" if kind == "cluster" else f"--{kind} {quote(resource)}"
    what = "".join(part.capitalize() for part in operation.split("_"))
    return f"kafka-acls.sh --add --allow-principal User:YOU --operation {what} {where}"


def _fixes(findings: Iterable[Finding], connection: FixConnection, quote: Quote) -> list[str]:
    """Return the findings' commands; what a login lacks is named already."""
    found = []
    for finding in findings:
        if finding.fix and finding.kind != "denied":
            is_own = finding.fix[0] == "kgtool"
            words = finding.fix if is_own else fix_of(finding, connection)
            found.append(" ".join(map(quote, words)))
    return found


def _of_absent(found: Explanation, name: str, undo: str | None) -> list[str]:
    error = found.description.error
    if error is not None and error.name == UNKNOWN_TO_COORDINATOR:
        return [f"kgtool doctor --group {name}"]
    if error is not None and error.code == COORDINATOR_NOT_AVAILABLE:
        return [f"kgtool coordinator {name}"]
    if undo is not None:
        return []
    if not found.was_there:
        return ["kgtool list"]
    return []


def lost_offsets(found: Explanation) -> list[Removal]:
    """Return the last removal of each partition that has no offset now, where its value is known.

    What expired or went with a topic, and what a client deleted: the log tells no difference.
    """
    last: dict[TopicPartition, Removal] = {}
    for row in found.past.removals if found.past is not None else ():
        if row.topic is not None and row.stored is not None:
            last[TopicPartition(row.topic, row.partition or 0)] = row
    return [row for at, row in sorted(last.items()) if at not in found.committed and found.is_read]


def _recover(lost: Iterable[Removal], name: str, quote: Quote) -> str:
    topics = grouped((str(row.topic), str(row.partition)) for row in lost)
    specs = (" --topic " + quote(f"{topic}:{','.join(p)}") for topic, p in topics.items())
    return f"kgtool recover {name}{''.join(specs)}"


def _of_empty(found: Explanation, name: str) -> list[str]:
    group, commands = found.description, []
    kinds = {finding.kind for finding in found.findings}
    # keep leaves alone what a transaction is about to change.
    expires = any(
        each.expires_at_ms is not None and not each.is_pending for each in found.expiries.values()
    )
    if expires and not kinds & {"expiring", "retention-gap", *LOST}:
        is_classic = group.type in (None, r.TYPE_CLASSIC)
        join = " --join" if group.protocol_type and is_classic else ""
        commands.append(f"kgtool keep --group {name}{join}")
    commands.append(f"kgtool describe --group {name}")
    if found.delete_refusal is None:
        nothing = found.is_read and not found.committed
        commands.append(f"kgtool delete --group {name}{'' if nothing else ' --dry-run'}")
    return commands


def _of_living(_found: Explanation, name: str) -> list[str]:
    return [f"kgtool describe --group {name} --members --verbose"]


def removed_by(found: Explanation, folder: Path, cluster_id: str | None) -> str | None:
    """Return the newest journal of kgtool that has removed what the group lacks now, to undo it."""
    group = found.description.group
    for entry in history.entries(folder, lambda _error: None):
        is_done = entry.state in (DONE, INTERRUPTED) and entry.undoes is None
        if not is_done or not entry.changes or entry.cluster_id != cluster_id:
            continue
        for change in history.changed_groups(entry.path):
            if change.image.group == group:
                gone = {at for at, value in change.after.items() if value is None}
                return entry.id if gone - found.committed.keys() else None
    return None
