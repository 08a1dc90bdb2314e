"""``kgtool delete-offsets``: delete committed offsets of groups (KIP-496)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kgtool.changes.kinds import delete_offsets as deletion
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.changes.plan import each_open, failed, open_rows
from kgtool.changes.reset.targets import GroupReset
from kgtool.cli.change import confirm, impact
from kgtool.cli.change.run import ChangeRun, Used
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import declare, flag
from kgtool.cli.options.group_selection import SHARE, Selection, choose
from kgtool.cli.options.shared import group_options, line_of, open_session, topics_option
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.errors import hint_of, sentence, together
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import TableStream, draw, preview
from kgtool.client.cluster import fetch_topic
from kgtool.columns import COUNT, Column, shown
from kgtool.columns.changes import DELETE_OFFSETS
from kgtool.columns.groups import GROUP, PARTITION, TOPIC
from kgtool.config import Settings
from kgtool.errors import KgError, UsageError
from kgtool.model import (
    GroupDescription,
    GroupOffsetDeletions,
    ItemError,
    OffsetDeletion,
    Target,
    TopicPartition,
    TopicSpec,
)
from kgtool.net.session import Session
from kgtool.protocol import codes
from kgtool.protocol.codes import CODES, broker_error
from kgtool.queries.groups.list import list_groups
from kgtool.queries.offsets.fetch import Committed
from kgtool.queries.offsets.lag import lag
from kgtool.text import counted, escape, listed, shell_word

PARTITION_ERROR = "Error: Encountered some partition-level error, see the follow-up details."

_WHICH = "Which offsets? --topic TOPIC or --topic TOPIC:0,1."

PARTITIONS = re.compile(r"[^:]+:\d+(,\d+)*", re.ASCII)
"""An argument that is a topic with partitions, where no ``--topic`` says what to delete."""

_PREVIEW = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("offset", "CURRENT-OFFSET", COUNT),
    Column("lag", "LAG", COUNT),
)


class Line(NamedTuple):
    """The command's own options, as they were given."""

    selection: Selection
    topics: Sequence[TopicSpec]
    force: bool


@declare(
    "delete-offsets",
    "kgtool delete-offsets --group billing --topic payments:0,1",
    "kgtool delete-offsets --match 'billing-*' --topic payments --dry-run",
    "kgtool delete-offsets --all-groups --topic payments --yes -o json",
)
@group_options
@topics_option("A topic, or some of its partitions; repeatable.")
@flag(
    "--force",
    "Also groups of other protocol types (connect), and offsets with a transaction pending.",
)
@change_options(all_or_nothing=True)
@line_of(Line)
def command(settings: Settings, output: Output, line: Line, change: ChangeOptions) -> None:
    """Delete committed offsets, of living groups too (KIP-496).

    Topics may also follow the groups: kgtool delete-offsets billing payments:0,1. Without
    partitions it is a topic if there is no group of that name.
    """
    if not line.topics:
        selection, topics = with_topics(line.selection)
        line = line._replace(selection=selection, topics=topics)
    line.selection.check("delete-offsets")
    if not (line.topics or _after_first(line.selection)):
        raise UsageError(_WHICH)
    confirm.require(change)
    kafka_form(settings, output, line, change)


def kafka_form(settings: Settings, output: Output, line: Line, change: ChangeOptions) -> None:
    """Delete as ``kafka-consumer-groups.sh --delete-offsets`` does, or with a question."""
    selection, topics, force = line
    asks_broker = output.is_kafka_form and not (change.dry_run or change.all_or_nothing)
    with open_session(settings) as session:
        if not topics:
            selection, topics = with_bare_topics(session, selection)
            if not topics:
                raise UsageError(_WHICH)
        groups = choose(session, output, selection, DELETE_OFFSETS).groups
        check = refuse_share if output.is_kafka_form else None
        kind = DeleteOffsets(dict.fromkeys(groups, topics), force, check, asks_broker=asks_broker)
        run = _DeleteRun(session, output, kind, groups, change)
        run.selection, run.topics = selection, topics
        run.run()


def with_topics(selection: Selection) -> tuple[Selection, Sequence[TopicSpec]]:
    """Return what follows the first group and looks like ``payments:0,1`` as topics."""
    return _as_topics(selection, list(filter(PARTITIONS.fullmatch, _after_first(selection))))


def with_bare_topics(
    session: Session, selection: Selection
) -> tuple[Selection, Sequence[TopicSpec]]:
    """Return what follows the first group, and names a topic and no group, as topics."""
    asked = [(word, fetch_topic(session.cluster, word)) for word in _after_first(selection)]
    words = [word for word, look in asked if session.run(look).error is None]
    if words:
        listing = session.run(list_groups(session.cluster, share=SHARE))
        groups = {row.group for row in listing.groups}
        # A broker that does not answer may have groups of these names.
        words = [word for word in words if word not in groups and not listing.errors]
    return _as_topics(selection, words)


def _after_first(selection: Selection) -> Sequence[str]:
    """Return the arguments but the first, unless something else chooses groups too."""
    named = tuple(name for name in selection.groups if name not in selection.words)
    return selection.words[not selection._replace(groups=named).is_given :]


def _as_topics(selection: Selection, words: Sequence[str]) -> tuple[Selection, Sequence[TopicSpec]]:
    groups = tuple(name for name in selection.groups if name not in words)
    given = tuple(word for word in selection.words if word not in words)
    return selection._replace(groups=groups, words=given), tuple(map(TopicSpec.parse, words))


class _DeleteRun(ChangeRun[GroupOffsetDeletions]):
    _deleted = 0
    """Offsets of results that are shown as one total."""
    doing, removes = "Deleting", True
    selection: Selection
    topics: Sequence[TopicSpec]

    def begin(self) -> None:
        self._members: dict[str, int] = {}
        self._refused: set[tuple[str, TopicPartition]] = set()

    def show(self, wave: list[GroupOffsetDeletions]) -> None:
        rows = open_rows(*wave)
        if self.output.is_kafka_form or self.plan.is_off:
            return
        for group in wave:
            if group.description is not None and group.description.members and open_rows(group):
                self._members[group.group] = len(group.description.members)
            self._refused.update(
                (r.group, r.at) for r in group.rows if r.error and r.partition is not None
            )
        if not rows:
            return
        ends = self.session.run(deletion.ends_of(self.session.cluster, {row.at for row in rows}))
        self.output.note_once(f"{self.offset_word.capitalize()}s to delete:")
        found = [
            {
                "group": row.group,
                **row.at._asdict(),
                "offset": row.old.offset,
                "lag": lag(row.old.offset, ends[row.at]),
            }
            for row in rows
            if row.old is not None
        ]
        preview(self.output, _PREVIEW, found)

    def show_plan(self) -> None:
        self.note_undo()
        for group, count in self._members.items():
            self.output.note(
                f"Warning: group {escape(group)} has {counted(count, 'member')}: this can be "
                "undone only while it is empty."
            )

    def used(self) -> Used | None:
        def deleted(group: str, at: TopicPartition) -> bool:
            is_meant = any(spec.covers(*at) for spec in self.topics)
            return is_meant and (group, at) not in self._refused

        names = list(self.plan.groups)
        return impact.show(self.session, self.output, names, self.selection, deleted)

    def question(self) -> str:
        return f"Delete {counted(self.plan.offsets, self.offset_word)}?"

    def report(self, wave: list[GroupOffsetDeletions]) -> None:
        output = self.output
        is_off = any(row.status == "skipped" for result in wave for row in result.rows)
        if (
            output.folds_results
            and self.plan.offsets > TableStream.FOLDED
            and not self.options.dry_run
        ):
            self._report_folded(wave)
            return
        for result in wave:
            _headline(output, result, is_dry=self.options.dry_run, is_off=is_off)
            found = [build_row(row, DELETE_OFFSETS) for row in result.rows]
            if output.is_kafka_form:
                output.text(kafka_tables.offset_deletions(result.rows), end="")
            elif found:
                output.text("\n" + draw(shown(DELETE_OFFSETS), found), end="")
            if result.error is not None:  # one error for the whole group
                first, *others = found or [_empty(result)]
                output.failed(result.error, row=first, quiet=True)
                for other in others:
                    output.row(other)
                continue
            for row, fields in zip(result.rows, found, strict=True):
                output.item(fields, row.error, quiet=True)

    def _report_folded(self, wave: list[GroupOffsetDeletions]) -> None:
        """Report failures; the total comes at the end."""
        for result in wave:
            if result.error is not None:
                self.output.failed(result.error)
                continue
            _say_failed(self.output, [row.error for row in result.rows if row.error is not None])
            for row in result.rows:
                self.output.item(build_row(row, DELETE_OFFSETS), row.error, quiet=True)
                self._deleted += row.status == "deleted"

    def finish(self, *, is_whole: bool = True) -> None:
        if self._deleted:
            groups = counted(len(self.plan.groups), "group")
            said = f"Deleted {counted(self._deleted, 'offset')} of {groups} (-v shows all)."
            self.output.text(said)
        super().finish(is_whole=is_whole)


def _empty(result: GroupOffsetDeletions) -> dict[str, object]:
    row = OffsetDeletion(result.group, "", None, "failed", result.error)
    return build_row(row, DELETE_OFFSETS, topic=None)


def _say_failed(output: Output, errors: Iterable[ItemError]) -> None:
    for error in together(errors):
        output.note(output.sentence(error))


def _headline(output: Output, result: GroupOffsetDeletions, *, is_dry: bool, is_off: bool) -> None:
    """Report a group in the words of Kafka's tool, but call no failure a success (F9)."""
    group = escape(result.group)
    if result.error is not None:
        known = CODES.get(result.error.code) if result.error.code is not None else None
        if known is None or not output.is_kafka_form:
            output.note(output.sentence(result.error))
        else:
            output.note(f"Error: {known.message} (group {group}){hint_of(result.error)}")
        return
    failed = [row.error for row in result.rows if row.error is not None]
    if failed:
        if output.is_kafka_form:
            output.note(PARTITION_ERROR)
            for error in failed:
                output.note(sentence(error, prefix="* "))
        else:
            _say_failed(output, failed)
    elif is_dry:
        output.text(f"Dry run: nothing was deleted from group {group}.")
    elif is_off:
        output.note(f"Nothing was deleted from group {group}, as all or nothing was asked for.")
    elif output.is_kafka_form:
        output.text(f"Request succeeded for deleting offsets from group {group}.")
    else:
        deleted = sum(row.status == "deleted" for row in result.rows)
        output.text(f"Deleted {counted(deleted, 'offset')} of {group}.")
    missing = [f"{row.topic}:{row.partition}" for row in result.rows if row.status == "no-offset"]
    if missing:
        places = escape(listed(missing, 10, " and {} more"))
        output.note(f"Note: group {group} had no committed offset for {places}.")


# ---------------------------------------------------------------------------------------------
# Share groups in Kafka's form: kafka-consumer-groups.sh can only delete them.


def refuse_share(
    description: GroupDescription, _committed: Committed | KgError | None = None
) -> ItemError | None:
    """Refuse a share group as the broker does, which finds no offsets of it to commit or delete."""
    if description.type != "share" or description.error is not None:
        return None
    group = description.group
    hint = f"It is a share group, which kgtool reset-offsets {shell_word(group)} takes."
    return ItemError.of(broker_error(codes.GROUP_ID_NOT_FOUND, hint=hint), Target(group=group))


def refuse_share_resets(resets: list[GroupReset]) -> list[GroupReset]:
    """Refuse the share groups of a plan."""
    return [_refused(reset) for reset in resets]


def _refused(reset: GroupReset) -> GroupReset:
    error = None if reset.description is None else refuse_share(reset.description)
    if error is None:
        return reset
    return each_open(reset, lambda row: failed(row, error))._replace(error=error)
