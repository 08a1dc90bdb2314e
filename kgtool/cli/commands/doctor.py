"""``kgtool doctor``: problems of a cluster's groups, and the commands that fix them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from kgtool.cli.app import exits
from kgtool.cli.describe.findings import (
    FixConnection,
    finding_row,
    fix_connection,
    fix_of,
    instead_of,
)
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import cluster_options, group_options, no_cluster, open_session
from kgtool.cli.options.types import OneOf, duration
from kgtool.cli.output import terminal
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import looking
from kgtool.cli.output.terminal import columns_of
from kgtool.client.ops import grouped
from kgtool.clock import now_ms
from kgtool.columns.groups import DOCTOR, FINDINGS
from kgtool.config import Settings
from kgtool.model import ItemError, TopicSpec
from kgtool.queries.doctor import examine
from kgtool.queries.doctor.examine import Diagnosis
from kgtool.queries.doctor.facts import SETTLE_S
from kgtool.queries.doctor.finding import KINDS, SEVERITIES, Finding
from kgtool.retention.generated_names import family
from kgtool.text import counted, escape, shell_word

NEVER = "none"
MOST = 20
"""Findings of a kind in the text format; the rest is counted."""
WIDTH = 80
_TARGET, _DETAIL = 36, 40
"""A longer name has a line of its own, and so has a detail with less room."""
_COLORS = {"problem": terminal.RED, "warning": terminal.ORANGE, "note": terminal.BOLD}


@declare(
    "doctor",
    "kgtool doctor",
    "kgtool doctor --match 'billing-*' --within 7d",
    "kgtool doctor --fail-on problem --ignore piling-up -o json",
)
@group_options
@option(
    "--within",
    "TIME",
    "Report offsets that expire within this time (default: 48h).",
    type=duration(),
    default="48h",
)
@option(
    "--fail-on",
    "SEVERITY",
    "Exit with status 5 from this severity up: problem, warning (default), note, none.",
    type=OneOf([*SEVERITIES, NEVER]),
    default="warning",
)
@repeatable(
    "--ignore ignored",
    "FINDING",
    "Skip findings of this kind (beyond-end, ghost-topic, ...); repeatable.",
    type=OneOf(list(KINDS), "a word that kgtool doctor --findings shows"),
)
@flag("--findings", "List the kinds of findings and what they mean; needs no cluster.")
@cluster_options(required=False)
def command(
    settings: Settings | None,
    output: Output,
    selection: Selection,
    within: int,
    fail_on: str,
    ignored: tuple[str, ...],
    findings: bool,
) -> int:
    """Find what is wrong, and the command that fixes it.

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
        output.text(_catalogue(), end="")
        for kind, (title, meaning) in KINDS.items():
            output.item({"finding": kind, "title": title, "meaning": meaning})
        return output.finish()
    if settings is None:
        raise no_cluster()
    if selection.is_given:
        selection.check("doctor")
    selection.predicate()
    connection = fix_connection(settings)
    found = _examine(settings, output, selection, within)
    found = found._replace(findings=[f for f in found.findings if f.kind not in ignored])
    _show(output, found, connection)
    status = output.finish()
    until = -1 if fail_on == NEVER else SEVERITIES.index(fail_on)
    is_found = any(SEVERITIES.index(each.severity) <= until for each in found.findings)
    return exits.FOUND if is_found else status


def _examine(settings: Settings, output: Output, selection: Selection, within_ms: int) -> Diagnosis:
    is_whole = selection.all_groups or not selection.is_given

    def generated(name: str) -> str | None:
        """Return the family of a generated name, unless the group was asked for by name."""
        return None if name in selection.groups else family(name)

    def waiting(count: int) -> None:
        """Say on a terminal why it takes so long."""
        if terminal.is_terminal(sys.stderr):
            what = counted(count, "group")
            output.note(f"Looking again in {SETTLE_S:.0f} s: {what} in the middle of a rebalance.")

    if not selection.is_given:  # --exclude and --state alone narrow all groups here
        selection = selection._replace(all_groups=True)
    with open_session(settings) as session:
        chosen = choose(session, output, selection, DOCTOR)
        ask = examine.DoctorOptions(now_ms(), within_ms, is_whole, generated, waiting)
        with looking(output, session):
            found = session.run(examine.diagnose(session.cluster, chosen.groups, chosen.kinds, ask))
        _report_errors(output, [error for error in found.errors if error not in output.errors])
        return found


def _report_errors(output: Output, errors: Sequence[ItemError]) -> None:
    """Report failures, each reason once on stderr: a broker that is down fails many groups."""
    reasons = grouped((error.message, error) for error in errors)
    for alike in reasons.values():
        more = len({error.target.group for error in alike}) - 1
        said = output.sentence(alike[0])
        output.note(f"{said} (And {more} more: -o json.)" if more > 0 else said)
        for error in alike:
            output.failed(error, quiet=True)


def _show(output: Output, found: Diagnosis, connection: FixConnection) -> None:
    for finding in found.findings:
        output.row(finding_row(finding, connection))
    output.done += found.groups + (found.is_whole and found.brokers > 0)
    if output.is_text:
        output.page()
        if found.findings:
            output.text(_page(output, found.findings, connection))
        output.text(_summary(found, len(output.errors)))


# ---------------------------------------------------------------------------------------------
# The text format


def _page(output: Output, findings: Sequence[Finding], connection: FixConnection) -> str:
    """Return all findings, the worst first, in a paragraph for each kind."""
    kinds = grouped(((finding.severity, finding.kind), finding) for finding in findings)
    width = min(output.table_width or WIDTH, 2 * WIDTH)
    paragraphs = [
        _paragraph(found, connection, width, output.is_colored) for found in kinds.values()
    ]
    return "\n".join(paragraphs)


def _paragraph(
    findings: Sequence[Finding], connection: FixConnection, width: int, colored: bool
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
        if instead := instead_of(alike[0], connection):
            lines += ["    or, without Kafka's tools:", *_command(instead, width)]
    if len(merged) > MOST:
        lines.append(f"  and {sum(map(len, merged[MOST:]))} more: -o json")
    return "".join(f"{line}\n" for line in lines)


def _merged(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Merge findings with the same command: the partitions of one topic of one group."""

    def key(number: int, one: Finding) -> tuple[object, ...]:
        # Findings without partition or command are not merged.
        alone = one.partition is None or not one.fix
        return (number,) if alone else (one.group, one.topic, one.fix)

    return list(grouped((key(number, one), one) for number, one in enumerate(findings)).values())


def _words(alike: Sequence[Finding]) -> tuple[str, str, str]:
    """Return group, topic with partitions as ``--topic`` takes them, and the first's detail."""
    first, more = alike[0], len(alike) - 1
    partitions = tuple(one.partition for one in alike if one.partition is not None)
    topic = str(TopicSpec(first.topic or "", partitions or None))
    detail = escape(first.detail) + (f" (and {more} more)" if more else "")
    return escape(first.group or ""), escape(topic), detail


def _aligned(lines: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return group and topic of each line, topics in a column if the groups are short."""
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
    """Break a line between words; long words and wide gaps stay whole."""
    if len(text) <= width:
        return [text]
    words = text.lstrip()
    return wrap(
        words,
        width,
        initial_indent=text[: -len(words)],
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _command(words: Iterable[str], width: int) -> Iterator[str]:
    """Break a command line between its words, with backslashes."""
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


def _summary(found: Diagnosis, failed: int) -> str:
    """Return the last line: totals, and how much ``failed`` to be looked at."""
    of = counted(found.groups, "group")
    if found.is_whole:
        of += f" on {counted(found.brokers, 'broker')}"
    counts = [
        counted(count, severity)
        for severity in SEVERITIES
        if (count := sum(finding.severity == severity for finding in found.findings))
    ]
    said = f"Checked {of}: {', '.join(counts) or 'nothing found'}."
    return f"{said} Incomplete: {counted(failed, 'error')}." if failed else said


def _catalogue() -> str:
    lines: list[str] = []
    for kind, (title, meaning) in KINDS.items():
        lines += _wrapped(f"{kind}: {title}.", WIDTH, "  ")
        lines += _wrapped(f"  {meaning}", WIDTH, "  ")
    return "".join(f"{line}\n" for line in lines)
