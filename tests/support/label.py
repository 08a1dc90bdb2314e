"""A kind of change that kgtool does not have, with its command: ``kgtool label GROUP --label X``.

It writes a text into the metadata of every committed offset. Nothing here knows of locks, journal,
policy or undo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kgtool.changes.driver import Before
from kgtool.changes.offsets.verify import Write
from kgtool.changes.offsets.write import write_offsets
from kgtool.changes.plan import compared, each_open, failed, open_rows
from kgtool.changes.snapshot import GroupChange, GroupImage, GroupReading, read_groups
from kgtool.cli.change import confirm
from kgtool.cli.change.run import ChangeRun
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import declare, option
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import group_arguments, open_session
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.columns import Column
from kgtool.columns.changes import ERROR
from kgtool.columns.groups import GROUP, PARTITION, TOPIC
from kgtool.config import Settings
from kgtool.errors import KgError
from kgtool.model import CommittedOffset, ItemError, Target, TopicPartition

COLUMNS = (GROUP, TOPIC, PARTITION, Column("status", "STATUS", json="string"), ERROR)


class Labelled(NamedTuple):
    """One committed offset."""

    group: str
    topic: str
    partition: int
    old: CommittedOffset
    status: str = "would-label"
    error: ItemError | None = None

    @property
    def is_open(self) -> bool:
        return self.status == "would-label"

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class LabelledGroup(NamedTuple):
    image: GroupImage
    rows: list[Labelled]
    error: ItemError | None = None

    @property
    def group(self) -> str:
        return self.image.group


class Label(NamedTuple):
    """Writes a text into the metadata of all committed offsets of groups."""

    text: str

    def weigh(self, group: LabelledGroup) -> int:
        return len(group.rows)

    def look(self, cluster: Cluster, groups: Sequence[str]) -> Operation[list[LabelledGroup]]:
        found = yield from read_groups(cluster, groups)
        return [self._plan(found[group]) for group in groups]

    def _plan(self, found: GroupReading) -> LabelledGroup:
        image = found.image
        if not image.offsets:
            error = ItemError.of(KgError("It has no offsets."), Target(group=image.group))
            return LabelledGroup(image, [], error)
        old = ((at, image.offsets[at].committed) for at in sorted(image.offsets))
        return LabelledGroup(image, [Labelled(image.group, *at, was) for at, was in old if was])

    def look_again(
        self, cluster: Cluster, plan: Sequence[LabelledGroup]
    ) -> Operation[list[LabelledGroup]]:
        found = yield from read_groups(cluster, [group.group for group in plan])

        def checked(row: Labelled) -> Labelled:
            now = found[row.group].image.offsets.get(row.at)
            return compared(row, row.old, now and now.committed, None)

        return [each_open(group, checked) for group in plan]

    def before(self, cluster: Cluster, going: Sequence[LabelledGroup]) -> Operation[Before]:
        yield from ()
        return Before(
            [GroupChange(g.image, {row.at: self._new(row) for row in g.rows}) for g in going]
        )

    def _new(self, row: Labelled) -> CommittedOffset:
        return row.old._replace(metadata=self.text) if row.is_open else row.old

    def send(
        self, cluster: Cluster, going: Sequence[LabelledGroup]
    ) -> Operation[list[LabelledGroup]]:
        writes = {
            group.group: {row.at: Write(row.old, self._new(row)) for row in open_rows(group)}
            for group in going
        }
        errors = yield from write_offsets(cluster, writes)

        def done(row: Labelled) -> Labelled:
            error = errors[row.group][row.at]
            return failed(row, error) if error is not None else row._replace(status="labelled")

        return [each_open(group, done) for group in going]


@declare("label", "kgtool label billing --label audited")
@group_arguments
@option("--label", "TEXT", "The text.", required=True)
@change_options(all_or_nothing=True)
def command(
    settings: Settings, output: Output, selection: Selection, label: str, change: ChangeOptions
) -> None:
    """Write a text into the metadata of committed offsets."""
    confirm.require(change)
    with open_session(settings) as session:
        groups = choose(session, output, selection, COLUMNS).groups
        _LabelRun(session, output, Label(label), groups, change).run()


class _LabelRun(ChangeRun[LabelledGroup]):
    doing = "Labelling"

    def question(self) -> str:
        return f"Label {self.plan.offsets} offsets?"

    def report(self, wave: list[LabelledGroup]) -> None:
        for group in wave:
            if group.error is not None:
                self.output.failed(group.error)
            for row in group.rows:
                self.output.item(build_row(row, COLUMNS), row.error)
