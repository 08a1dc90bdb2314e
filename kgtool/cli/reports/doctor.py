"""The findings of ``doctor`` as rows for programs and as one page for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from kgtool.cli.output import rows as rows_of
from kgtool.cli.output import terminal
from kgtool.cli.output.errors import place
from kgtool.cli.output.output import Output
from kgtool.cli.output.terminal import columns_of
from kgtool.client.ops import grouped
from kgtool.columns.tools import DOCTOR
from kgtool.model import Target, TopicSpec
from kgtool.queries.doctor.examine import Diagnosis
from kgtool.queries.doctor.finding import KINDS, SEVERITIES, Finding
from kgtool.text import counted, escape, shell_word

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
    title, _ = KINDS[finding.kind]
    where = place(Target(finding.group, finding.topic, finding.partition, finding.broker))
    parts = [title[0].upper() + title[1:], where, finding.detail]
    return ": ".join(part for part in parts if part) + "."


# ---------------------------------------------------------------------------------------------
# The page


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
    first = findings[0]
    title, meaning = KINDS[first.kind]
    label = first.severity.upper()
    shown = terminal.paint(label, _COLORS[first.severity]) if colored else label
    count = f" ({len(findings)})" if len(findings) > 1 else ""
    head = _wrapped(f"{label} {first.kind}{count}: {title}", width, "  ")
    lines = [head[0].replace(label, shown, 1), *head[1:], *_wrapped(f"  {meaning}", width, "  ")]
    merged = _merged(findings)
    lines_of = [_words(alike) for alike in merged[:MOST]]
    targets = _aligned(lines_of)
    room = max((size for t in targets if (size := columns_of(t)) <= _TARGET), default=0)
    for alike, (*_, detail), target in zip(merged, lines_of, targets, strict=False):
        lines += _entry(detail, _padded(target, room), room, width)
        lines += _command(fix_of(alike[0], connection), width)
    if len(merged) > MOST:
        lines.append(f"  and {sum(map(len, merged[MOST:]))} more: -o json")
    return "".join(f"{line}\n" for line in lines)


def _merged(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Put together what one command fixes: the partitions of one topic of one group."""

    def key(number: int, one: Finding) -> tuple[object, ...]:
        # What has no partition, or no command, stands for itself.
        alone = one.partition is None or not one.fix
        return (number,) if alone else (one.group, one.topic, one.fix)

    return list(grouped((key(number, one), one) for number, one in enumerate(findings)).values())


def _words(alike: Sequence[Finding]) -> tuple[str, str, str]:
    """Return the group, the topic with partitions as ``--topic`` takes them, and what there is to
    say; of several partitions the first stands for all."""
    first, more = alike[0], len(alike) - 1
    partitions = tuple(one.partition for one in alike if one.partition is not None)
    topic = str(TopicSpec(first.topic or "", partitions or None))
    detail = escape(first.detail) + (f" (and {more} more)" if more else "")
    return escape(first.group or ""), escape(topic), detail


def _aligned(lines: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return group and topic of each line; topics stand under each other where groups are short."""
    sizes = [size for group, *_ in lines if (size := columns_of(group)) <= _TARGET // 2]
    room = max(sizes, default=0)
    return [
        f"{_padded(group, room)}  {topic}" if group and topic else group or topic
        for group, topic, _ in lines
    ]


def _padded(text: str, size: int) -> str:
    return text + " " * (size - columns_of(text))


def _entry(detail: str, target: str, room: int, width: int) -> Iterator[str]:
    if not target.strip():
        yield from _wrapped(f"  - {detail}", width, "    ")
    elif columns_of(target) > room or room + 4 + _DETAIL > width:
        yield f"  {target.rstrip()}"
        yield from _wrapped(f"    {detail}", width, "    ")
    else:
        yield from _wrapped(f"  {target}  {detail}", width, " " * (room + 4))


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    """Break a line between words; a word that is too long stays whole, and so do wide gaps."""
    if len(text) <= width:
        return [text]
    words = text.lstrip()
    return wrap(
        words, width, initial_indent=text[: -len(words)], subsequent_indent=indent,
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip


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
    lines: list[str] = []
    for kind, (title, meaning) in KINDS.items():
        lines += _wrapped(f"{kind}: {title}.", WIDTH, "  ")
        lines += _wrapped(f"  {meaning}", WIDTH, "  ")
    return "".join(f"{line}\n" for line in lines)
