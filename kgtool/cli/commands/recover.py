"""``kgtool recover``: restore offsets that are gone, from ``__consumer_offsets``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kgtool import timespec
from kgtool.changes.driver import Driver
from kgtool.changes.restore.backup import BackupWriter, header_of
from kgtool.changes.restore.decide import DesiredGroup, RestoreGroup, RestorePolicy, RestoreRow
from kgtool.changes.restore.from_journal import check_cluster
from kgtool.changes.restore.recover import (
    Gone,
    RecoverOffsets,
    check_moment,
    desired_groups,
    no_trace,
    read_living,
    status,
)
from kgtool.changes.snapshot import GroupImage
from kgtool.cli.change import confirm
from kgtool.cli.change.restore import RestoreRun, Shape, restore_options
from kgtool.cli.commands.undo import living_options
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import FILE, declare, flag, option
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import group_arguments, no_cluster, open_session, topics_option
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import looking
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import TableStream
from kgtool.clock import now_ms
from kgtool.columns import Row, duration, shown
from kgtool.columns.changes import RECOVER
from kgtool.config import Settings
from kgtool.errors import ConfigError, KgError
from kgtool.model import ItemError, Target, TopicSpec
from kgtool.net.session import Session
from kgtool.queries.cluster.topics import missing_topics
from kgtool.queries.log.gone import GoneGroup, GoneOffset, compaction
from kgtool.queries.log.log_files import LogFiles
from kgtool.text import counted, escape, moment, shell_word


@declare(
    "recover",
    "kgtool recover billing --dry-run",
    "kgtool recover billing --topic orders:0,1",
    "kgtool recover billing --at 2026-11-24T18:00",
    "kgtool recover billing --from /backup/export --out billing.jsonl",
)
@group_arguments
@topics_option("Only this topic, or some of its partitions; repeatable.")
@option("--at", "TIME", "What stood at that time, also where it was overwritten since.")
@option(
    "--from source", "PATH", "An export, or copied segments, instead of the live log.", type=FILE
)
@option("--out", "FILE", "Write a backup for kgtool restore; change nothing.", type=FILE)
@flag("--force", "Even if the topic was re-created or the offset is out of range.")
@living_options
@change_options(required=False)
def command(
    settings: Settings | None,
    output: Output,
    selection: Selection,
    topics: tuple[TopicSpec, ...],
    at: str | None,
    source: Path | None,
    out: Path | None,
    force: bool,
    as_member: bool,
    wait_empty: str | None,
    change: ChangeOptions,
) -> None:
    """Restore offsets that expired or were deleted by any tool.

    For each partition without an offset, the last committed value before its tombstone in
    __consumer_offsets, with metadata and leader epoch. Pending and aborted transactions are no
    commits. An offset that another client has committed since is left alone. Offsets of re-created
    topics, or out of their log's range, are refused with the reason. It has a journal: kgtool undo
    takes it back.
    """
    groups = [*selection.groups, *selection.ambiguous, *selection.noun]
    at_ms = None if at is None else timespec.time_ms(at, now_ms())
    if out is not None:
        _check_out(out)
        change = change._replace(dry_run=True)
    # A file may be written whoever is a member now.
    policy = RestorePolicy(force=force, as_member=as_member or out is not None)
    options = restore_options(policy, change, wait_empty)
    files = None if source is None else LogFiles(source)
    output.begin(RECOVER)
    if settings is None:
        if files is None or out is None:
            raise no_cluster()
        gone = _known(output, groups, dict(files.read(groups, at_ms)), at_ms, topics)
        _note_holes(output, files)
        _write_unchecked(output, gone, _wanted(gone, topics), files.cluster_id, out)
        return
    confirm.require(change)
    with open_session(settings, progress=True) as session:
        session.connect()
        output.begin(RECOVER, session.cluster_id)
        if files is not None:
            _check_same(files, session, force=policy.force)
            if files.cluster_id is None:
                said = f"Note: {source} has no cluster.json: whose log it is can't be checked."
                output.note(escape(said))
            read: dict[str, GoneGroup | KgError] = dict(files.read(groups, at_ms))
            _note_holes(output, files)
        else:
            with looking(output, session):
                read = session.run(read_living(session.cluster, groups, at_ms))
        gone = _known(output, groups, read, at_ms, topics)
        found = [at for group in gone.values() for at in group.offsets]
        for error in session.run(missing_topics(session.cluster, topics, found)):
            output.failed(error)
        _say_extent(output, session, gone, is_live=files is None)
        wanted = _wanted(gone, topics, any_left=at_ms is not None)
        if not wanted:
            return
        with RecoverOffsets(options.policy, wanted, gone, verify=options.verify) as kind:
            if out is not None:
                _write(output, gone, Driver(session, kind).preview(kind.groups), session, out)
                return
            shape = Shape(RECOVER, lambda group, row: _row(gone, group, row))
            RestoreRun(session, output, options, kind, shape).run()


def _check_same(files: LogFiles, session: Session, *, force: bool) -> None:
    if files.cluster_id is not None and not force:
        check_cluster(files.path, files.cluster_id, session.cluster_id)


def _note_holes(output: Output, files: LogFiles) -> None:
    for number, (first, last) in files.holes.items():
        place = f"__consumer_offsets-{number}"
        output.note(
            f"Warning: no segment has offsets {first:,}–{last:,} of {place}: later commits than "
            "these may be missing."
        )


def _check_out(out: Path) -> None:
    if out.is_dir():
        raise ConfigError(f"{out} is a folder: name a file for the backup.")
    if out.exists():
        raise ConfigError(f"The file {out} exists.", hint="Name a new one for --out.")
    if not out.parent.is_dir():
        raise ConfigError(f"There is no folder {out.parent} for the backup.")


def _known(
    output: Output,
    groups: list[str],
    read: dict[str, GoneGroup | KgError],
    at_ms: int | None,
    topics: tuple[TopicSpec, ...],
) -> Gone:
    """Return the groups that the log has; name the others."""
    found = {name: gone for name, gone in read.items() if isinstance(gone, GoneGroup)}
    check_moment(found, at_ms)
    known = {}
    for name in groups:
        gone = read[name]
        if isinstance(gone, GoneGroup) and not gone.seen:
            gone = no_trace(name, gone)
        if isinstance(gone, KgError):
            output.failed(ItemError.of(gone, Target(group=name)))
            continue
        known[name] = gone
        if not any(map(_covers(topics), gone.offsets)):
            output.done += not topics  # where topics are asked for, they count
            what = "had no offset then" if at_ms is not None else "has lost no offset"
            of = " of these topics" if topics else ""
            output.note(escape(f"Note: group {name} {what}{of} that the log knows of."))
    return known


def _covers(topics: tuple[TopicSpec, ...]) -> Any:
    return lambda at: not topics or any(spec.covers(*at) for spec in topics)


def _wanted(
    gone: Gone, topics: tuple[TopicSpec, ...], *, any_left: bool = False
) -> list[DesiredGroup]:
    return desired_groups(gone, _covers(topics), any_left=any_left)


def _say_extent(output: Output, session: Session, gone: Gone, *, is_live: bool) -> None:
    """Say how far back the log goes, and what compaction has taken."""
    for number in sorted({one.partition for one in gone.values()}):
        first = next(one.first for one in gone.values() if one.partition == number)
        if first is not None:
            output.note(
                f"__consumer_offsets-{number} goes back to {moment(first[1])} (offset {first[0]})."
            )
    lost = sum(one.lost for one in gone.values())
    if lost:
        output.note(f"{counted(lost, 'tombstone')} without a value: compacted away.")
    configs = session.run(compaction(session.cluster)) if is_live and gone else {}
    if configs:
        output.note(
            "Segments are closed after segment.ms "
            f"{_span(configs.get('segment.ms'))} or segment.bytes {configs.get('segment.bytes')}, "
            "and may then be compacted (min.cleanable.dirty.ratio "
            f"{configs.get('min.cleanable.dirty.ratio')}); tombstones stay for delete.retention.ms "
            f"{_span(configs.get('delete.retention.ms'))}."
        )


def _span(text: str | None) -> str:
    return duration(int(text)) if text is not None and text.isdecimal() else str(text)


def _row(gone: Gone, group: RestoreGroup, row: RestoreRow) -> Row:
    now = group.reading.image.offsets.get(row.at)
    return {
        **_gone_row(gone[row.group].offsets[row.at]),
        **{"group": row.group, "topic": row.topic, "partition": row.partition},
        "current_offset": row.old.offset if row.old else None,
        "log_start_offset": now.log_start if now else None,
        "log_end_offset": now.log_end if now else None,
        **build_row(row, RECOVER[-1:]),
        "status": status(row),
    }


def _gone_row(one: GoneOffset) -> Row:
    value = one.value
    return {
        "offset": None if value is None else value.offset,
        "metadata": None if value is None else value.metadata,
        "committed_at_ms": None if value is None else value.commit_timestamp,
        "removed_at_ms": one.removed_at_ms,
        "cause": one.cause,
        "rule": one.rule,
    }


# ---------------------------------------------------------------------------------------------
# --out


def _write(
    output: Output, gone: Gone, groups: list[RestoreGroup], session: Session, out: Path
) -> None:
    """Write what could be restored, and report each offset."""
    with TableStream(output, shown(RECOVER), folds=True) as table:
        for group in groups:
            rows = [_row(gone, group, row) for row in group.rows]
            table.add(rows)
            for row, line in zip(group.rows, rows, strict=True):
                output.item(line, row.error)
    wanted = {one.group: one for one in _wanted(gone, ())}
    kept = [(wanted[g.group], {row.at for row in g.rows if row.is_open}) for g in groups]
    _save(output, kept, session.cluster_id, out)


def _write_unchecked(
    output: Output, gone: Gone, wanted: list[DesiredGroup], cluster_id: str | None, out: Path
) -> None:
    """Write everything that has a value: there is no cluster to compare it with."""
    with TableStream(output, shown(RECOVER), folds=True) as table:
        for group in wanted:
            for at, one in group.offsets.items():
                is_lost = one.then.committed is None
                row = {
                    **dict.fromkeys(column.key for column in RECOVER),
                    **_gone_row(gone[group.group].offsets[at]),
                    **{"group": group.group, "topic": at.topic, "partition": at.partition},
                    "status": "not-in-log" if is_lost else "would-restore",
                }
                output.item(row)
                table.add([row])
    _save(
        output,
        [(g, {at for at, one in g.offsets.items() if one.then.committed}) for g in wanted],
        cluster_id,
        out,
    )


def _save(
    output: Output, groups: list[tuple[DesiredGroup, set[Any]]], cluster_id: str | None, out: Path
) -> None:
    if not any(keep for _, keep in groups):
        output.note("Nothing to write.")
        return
    names = [group.group for group, _ in groups]
    with BackupWriter(out, header_of(cluster_id, now_ms(), {"groups": names})) as writer:
        for group, keep in groups:
            images = {at: one.then for at, one in group.offsets.items() if at in keep}
            if images:
                writer.group(GroupImage(*group.then[:5], images))
        writer.finish()
    output.note(
        escape(
            f"Wrote {counted(writer.offsets, 'offset')} of {counted(writer.groups, 'group')}. "
            f"Next: kgtool restore {shell_word(str(out))} --dry-run"
        )
    )
