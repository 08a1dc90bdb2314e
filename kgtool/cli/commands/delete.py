"""``kgtool delete``: delete groups with all their committed offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.cli.change import confirm, impact
from kgtool.cli.change.journaled import SHARE_NOTE, UNDO_NOTE_GROUPS, bare_note
from kgtool.cli.change.run import ChangeRun, Used
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import declare, flag
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import group_options, line_of, open_session
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.errors import hint_of
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import TableStream
from kgtool.columns.changes import DELETE, DELETE_TOPICS
from kgtool.config import Settings
from kgtool.model import GroupDeletion, InternalTopic
from kgtool.text import counted, escape, listed


class Line(NamedTuple):
    """The command's own options, as they were given."""

    selection: Selection
    force: bool
    internal_topics: bool = False


@declare(
    "delete",
    "kgtool delete --group billing",
    "kgtool delete --match 'console-consumer-*' --state Empty --dry-run",
    "kgtool delete --regex 'test-[0-9]+' --exclude test-1 --yes --reason cleanup",
)
@group_options
@flag("--force", "Also groups of other types (connect), and with a transaction pending.")
@flag("--internal-topics", "Also the internal topics of streams groups; no undo for topics.")
@change_options(all_or_nothing=True)
@line_of(Line)
def command(settings: Settings, output: Output, line: Line, change: ChangeOptions) -> None:
    """Delete groups that have no members."""
    line.selection.check("delete")
    confirm.require(change)
    kafka_form(settings, output, line, change)


def kafka_form(settings: Settings, output: Output, line: Line, change: ChangeOptions) -> None:
    """Delete, without a question as ``kafka-consumer-groups.sh --delete`` does, or with one."""
    is_kafka_form, force = output.is_kafka_form, line.force
    with open_session(settings) as session:
        groups = choose(session, output, line.selection, DELETE).groups
        refuse = not (force or is_kafka_form)
        hidden = HiddenOffsets(groups, output.note_once, refuse=refuse, is_long=not is_kafka_form)
        kind = DeleteGroups(
            groups, force=force, hidden=hidden, internal_topics=line.internal_topics
        )
        run = _DeleteRun(session, output, kind, groups, change)
        run.hidden, run.selection = hidden, line.selection
        run.run()


class _DeleteRun(ChangeRun[GroupDeletion]):
    doing, removes = "Deleting", True
    kind: DeleteGroups
    hidden: HiddenOffsets
    selection: Selection

    def begin(self) -> None:
        self._rows: list[GroupDeletion] = []
        self._is_preview = False

    def show_plan(self) -> None:
        """Show the plan on stderr; failures are repeated in the report."""
        output, names = self.output, list(self.plan.groups)
        output.note(f"This deletes {counted(len(names), 'group')} with all offsets:")
        for group in names:
            output.note(f"  {escape(group)}")
        for row in (row for wave in self.plan for row in wave):
            if row.error is not None:
                said = f"{row.error.message}{hint_of(row.error)}"
                output.note(f"  {escape(row.group)}: will not be deleted: {escape(said)}")
        bare = [r.group for wave in self.plan for r in wave if r.is_open and not r.offsets]
        if self.plan.offsets:
            output.note(UNDO_NOTE_GROUPS)
        if bare:
            output.note(bare_note(bare))
        self._say_types()
        going = self._topics("would-delete")
        if going:
            output.note(f"Also {counted(len(going), 'internal topic')}, which undo can't restore:")
            for topic in going:
                size = counted(topic.partitions, "partition")
                output.note(f"  {escape(topic.topic)} ({size}) of {escape(topic.group)}")
        if left := self._topics("kept"):
            topics = escape(listed([topic.topic for topic in left], 5, " and {} more"))
            output.note(f"Note: {topics} are left; --internal-topics deletes internal topics too.")

    def _say_types(self) -> None:
        """Say what is particular to share and streams groups."""
        if self.kind.has_share:
            self.output.note(SHARE_NOTE)
        rows = [row for wave in self.plan for row in wave if row.is_open]
        if self.kind.deletes_topics and rows and not any(row.topics for row in rows):
            self.output.note(
                "Note: --internal-topics: there are none. Only streams groups have such topics."
            )

    def _topics(self, status: str) -> list[InternalTopic]:
        rows = (row for wave in self.plan for row in wave if row.is_open)
        return [topic for row in rows for topic in row.topics if topic.status == status]

    def ask(self) -> None:
        """Ask for the groups, then for each internal topic."""
        super().ask()
        for topic in () if self.options.yes else self._topics("would-delete"):
            size = counted(topic.partitions, "partition")
            asked = f"Delete internal topic {escape(topic.topic)} ({size})? It does not come back."
            if not confirm.agree(self.session, self.output, asked):
                self.kind.kept_topics.add(topic.topic)

    def used(self) -> Used | None:
        return impact.show(self.session, self.output, list(self.plan.groups), self.selection)

    def question(self) -> str:
        self.hidden.warn(self.plan.groups)
        return f"Delete {counted(len(self.plan.groups), 'group')}?"

    def is_blind(self, group: str) -> bool:
        return self.hidden.is_blind(group)

    def preview(self) -> None:
        self._is_preview = self.options.dry_run or len(self.plan) > 0
        self.hidden.warn([] if self.plan.is_off else self.plan.groups)
        if not self.output.is_kafka_form:
            self._say_types()
        super().preview()

    def report(self, wave: list[GroupDeletion]) -> None:
        self._rows += wave

    def finish(self, *, is_whole: bool = True) -> None:
        if self._rows or is_whole:
            _report(self.output, self._rows, is_all=is_whole, is_preview=self._is_preview)


def _report(
    output: Output, done: Sequence[GroupDeletion], *, is_all: bool = True, is_preview: bool = False
) -> None:
    """Report the outcome; in text, with the sentences of Kafka's tool."""
    failed = [row for row in done if row.error is not None]
    if failed and output.is_kafka_form:
        output.note("Error: Deletion of some consumer groups failed:")
    for row in done:
        if row.error is None:
            output.item(build_row(row, DELETE))
            if row.status != "skipped":
                _report_topics(output, row.topics)
            continue
        if output.is_kafka_form:
            said = escape(f"{kafka_tables.java_error(row.error)}{hint_of(row.error)}")
            output.note(f"* Group '{escape(row.group)}' could not be deleted due to: {said}")
        output.failed(row.error, row=build_row(row, DELETE), quiet=output.is_kafka_form)
    skipped = [escape(row.group) for row in done if row.status == "skipped"]
    if skipped:
        output.note(f"Skipped, as all or nothing was asked for: {', '.join(skipped)}")
    names = [row for row in done if row.error is None and row.status != "skipped"]
    if output.folds_results and len(names) > TableStream.FOLDED and not is_preview:
        output.text(f"Deleted {counted(len(names), 'group')} (-v names them).")
    else:
        is_whole = not (failed or skipped) and bool(names or output.is_kafka_form)
        good = [escape(row.group) for row in names]
        if output.is_kafka_form or is_preview:
            _conclude(output, good, is_whole, is_all=is_all, is_preview=is_preview)
        elif good:
            what = "group" if len(good) == 1 else f"{len(good):,} groups:"
            output.text(f"Deleted {what} {', '.join(good)}.")


def _report_topics(output: Output, topics: Sequence[InternalTopic]) -> None:
    """Report what became of a group's internal topics, in text also of those that are left."""
    for topic in (topic for topic in topics if topic.status != "kept"):
        row = build_row(topic, DELETE_TOPICS)
        if topic.error is not None:
            output.failed(topic.error, row=row)
        else:
            output.item(row)
    said = {
        "deleted": "Deleted internal topics: {}",
        "would-delete": "Dry run: these internal topics would be deleted: {}",
    }
    for status, words in said.items():
        if names := [topic.topic for topic in topics if topic.status == status]:
            output.text(words.format(escape(", ".join(names))))
    if left := [topic.topic for topic in topics if topic.status == "kept"]:
        output.note(f"Internal topics that are left: {escape(listed(left, 5, ' and {} more'))}")


def _conclude(
    output: Output, names: Sequence[str], is_whole: bool, *, is_all: bool, is_preview: bool
) -> None:
    """Name the groups in the sentences of Kafka's tool."""
    good = ", ".join(f"'{name}'" for name in names)
    what = "consumer group" if output.is_kafka_form else "group"
    if is_preview and good:
        output.text(f"Dry run: these {what}s would be deleted: {good}")
    elif is_preview and is_whole:
        output.text(f"Dry run: no {what} would be deleted.")
    elif is_all and is_whole:
        output.text(f"Deletion of requested consumer groups ({good}) was successful.")
    elif good:
        output.text(f"\nThese consumer groups were deleted successfully: {good}")
