"""The findings of ``doctor`` as rows for programs and as one page for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.cli.output import rows as rows_of
from kgtool.cli.output import terminal
from kgtool.cli.output.errors import place
from kgtool.cli.output.output import Output
from kgtool.cli.output.terminal import columns_of
from kgtool.client.ops import grouped
from kgtool.columns.tools import DOCTOR
from kgtool.model import Target
from kgtool.text import counted, escape, shell_word

if TYPE_CHECKING:
    from kgtool.queries.doctor.examine import Diagnosis
    from kgtool.queries.doctor.finding import Finding

MOST = 20
"""So many findings of a kind are shown to people; the rest is counted."""
WIDTH = 80
_TARGET, _DETAIL = 36, 40
"""A longer name gets a line of its own, and so does what is said of it where there is less room."""
_COLORS = {"problem": terminal.RED, "warning": terminal.ORANGE, "note": terminal.BOLD}


YOU = "User:YOU"


class Connection(NamedTuple):
    """What commands need to reach the cluster that was looked at.

    ``own``: the options that were typed, for kgtool. Kafka's tools know neither contexts nor the
    environment: they get the ``brokers`` and the file (``config``). ``principal``: who is logged
    in, as far as the configuration tells.
    """

    own: tuple[str, ...] = ()
    brokers: str = ""
    config: str | None = None
    principal: str = YOU


def fix_of(finding: Finding, connection: Connection) -> tuple[str, ...]:
    """Return the command line of a finding, word by word, ready to be run; empty: there is none."""
    if not finding.fix:
        return ()
    program, *rest = finding.fix
    if program == "kgtool":
        return (*finding.fix, *connection.own)
    # Who lacks an ACL can't give it to himself.
    config = "ADMIN.properties" if program == "kafka-acls.sh" else connection.config
    reach = ["--bootstrap-server", connection.brokers]
    if connection.config is not None:
        reach += ["--command-config", str(config)]
    who = [connection.principal if word == YOU else word for word in rest]
    return (program, *reach, *who)


def row(finding: Finding, connection: Connection) -> dict[str, Any]:
    """Return a finding as a row of the machine formats: the same keys always."""
    return rows_of.of(
        finding, DOCTOR, finding=finding.kind, message=_message(finding),
        evidence=dict(finding.evidence), fix=shlex.join(fix_of(finding, connection)) or None,
    )  # fmt: skip


def _message(finding: Finding) -> str:
    from kgtool.queries.doctor.finding import KINDS

    title, _ = KINDS[finding.kind]
    where = place(Target(finding.group, finding.topic, finding.partition, finding.broker))
    parts = [title[0].upper() + title[1:], where, finding.detail]
    return ": ".join(part for part in parts if part) + "."


# ---------------------------------------------------------------------------------------------
# The page


class _Line(NamedTuple):
    """Findings that one command fixes: the partitions of a topic, mostly."""

    first: Finding
    partitions: tuple[int, ...]

    @property
    def group(self) -> str:
        """The group's name, if it is about one."""
        return escape(self.first.group or "")

    @property
    def topic(self) -> str:
        """The topic, with partitions as ``--topic`` takes them."""
        topic = self.first.topic or ""
        return escape(
            f"{topic}:{','.join(map(str, self.partitions))}" if self.partitions else topic
        )

    @property
    def detail(self) -> str:
        """What there is to say; of several partitions the first stands for all."""
        more = len(self.partitions) - 1
        alike = f" (and {more} more)" if more > 0 else ""
        return escape(self.first.detail) + alike


def page(output: Output, findings: Sequence[Finding], connection: Connection) -> str:
    """Return all findings, the worst first, a paragraph for each kind."""
    kinds = grouped(((finding.severity, finding.kind), finding) for finding in findings)
    width = min(output.table_width or WIDTH, 2 * WIDTH)
    paragraphs = [
        _paragraph(found, connection, width, output.is_colored) for found in kinds.values()
    ]
    return "\n".join(paragraphs)


def _paragraph(
    findings: Sequence[Finding], connection: Connection, width: int, colored: bool
) -> str:
    from kgtool.queries.doctor.finding import KINDS

    first = findings[0]
    title, meaning = KINDS[first.kind]
    label = first.severity.upper()
    shown = terminal.paint(label, _COLORS[first.severity]) if colored else label
    count = f" ({len(findings)})" if len(findings) > 1 else ""
    head = _wrapped(f"{label} {first.kind}{count}: {title}", width, "  ")
    lines = [head[0].replace(label, shown, 1), *head[1:], *_wrapped(f"  {meaning}", width, "  ")]
    merged = _merged(findings)
    targets = _aligned(merged[:MOST])
    room = max((size for t in targets if (size := columns_of(t)) <= _TARGET), default=0)
    for each, target in zip(merged[:MOST], targets, strict=True):
        lines += _entry(each, _padded(target, room), room, width)
        lines += _command(fix_of(each.first, connection), width)
    if len(merged) > MOST:
        left = sum(max(len(each.partitions), 1) for each in merged[MOST:])
        lines.append(f"  and {left} more: -o json")
    return "".join(f"{line}\n" for line in lines)


def _merged(findings: Sequence[Finding]) -> list[_Line]:
    """Put the partitions of one topic of one group into one line."""
    merged: dict[tuple[object, ...], _Line] = {}
    for number, finding in enumerate(findings):
        at = finding.partition
        # What has no partition, or no command, stands for itself.
        alone = at is None or not finding.fix
        key = (number,) if alone else (finding.group, finding.topic, finding.fix)
        known = merged.get(key)
        if known is None:
            merged[key] = _Line(finding, () if at is None else (at,))
        elif at is not None:
            merged[key] = known._replace(partitions=(*known.partitions, at))
    return list(merged.values())


def _aligned(merged: Sequence[_Line]) -> list[str]:
    """Return group and topic of each line; topics stand under each other where groups are short."""
    sizes = [size for each in merged if (size := columns_of(each.group)) <= _TARGET // 2]
    room = max(sizes, default=0)
    return [
        f"{_padded(each.group, room)}  {each.topic}" if each.group and each.topic else
        each.group or each.topic
        for each in merged
    ]  # fmt: skip


def _padded(text: str, size: int) -> str:
    return text + " " * (size - columns_of(text))


def _entry(each: _Line, target: str, room: int, width: int) -> Iterator[str]:
    if not target.strip():
        yield from _wrapped(f"  - {each.detail}", width, "    ")
    elif columns_of(target) > room or room + 4 + _DETAIL > width:
        yield f"  {target.rstrip()}"
        yield from _wrapped(f"    {each.detail}", width, "    ")
    else:
        yield from _wrapped(f"  {target}  {each.detail}", width, " " * (room + 4))


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    """Break a line between words; a word that is too long stays whole, and so do wide gaps."""
    lines = []
    while len(text) > width:
        least = len(text) - len(text.lstrip()) + 1
        cut = text.rfind(" ", least, width + 1)
        cut = cut if cut > 0 else text.find(" ", width)
        if cut < 0:
            break
        lines.append(text[:cut].rstrip())
        text = indent + text[cut:].lstrip()
    return [*lines, text]


def _command(words: Iterable[str], width: int) -> Iterator[str]:
    """Break a command line between its words, as a shell lets one."""
    indent = "    "
    line = indent
    for word in words:
        text = shell_word(word)
        if line.strip() and len(line) + len(text) + 3 > width:
            yield f"{line}\\"
            line = indent + "  "
        line += f"{text} "
    if line.strip():
        yield line.rstrip()


def summary(found: Diagnosis, failed: int) -> str:
    """Say in a line how much there is; ``failed``: how much could not be looked at."""
    from kgtool.queries.doctor.finding import SEVERITIES

    of = counted(found.groups, "group")
    if found.is_whole:
        of += f" on {counted(found.brokers, 'broker')}"
    counts = [
        counted(count, severity)
        for severity in SEVERITIES
        if (count := sum(finding.severity == severity for finding in found.findings))
    ]
    said = f"Looked at {of}: {', '.join(counts) or 'nothing found'}."
    return f"{said} Incomplete: {counted(failed, 'error')}." if failed else said


def catalogue() -> str:
    """Return what can be found, and what it means."""
    from kgtool.queries.doctor.finding import KINDS

    lines: list[str] = []
    for kind, (title, meaning) in KINDS.items():
        lines += _wrapped(f"{kind}: {title}.", WIDTH, "  ")
        lines += _wrapped(f"  {meaning}", WIDTH, "  ")
    return "".join(f"{line}\n" for line in lines)
