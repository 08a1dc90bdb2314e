"""``kgtool delete-offsets``: delete committed offsets of groups (KIP-496)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.offsets import delete as deletion
from kgtool.changes.plan_rows import skip
from kgtool.changes.snapshot import Agreed
from kgtool.cli.change import confirm, impact
from kgtool.cli.change.canary import Canary, not_reached
from kgtool.cli.change.journaled import UNDO_NOTE, CommandChange
from kgtool.cli.change.plan import DiskList, can_all_be_done
from kgtool.cli.options.declare import declare, flag
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import change_options, group_options, open_session, topics_option
from kgtool.cli.options.types import parse_topic
from kgtool.cli.output import kafka_tables
from kgtool.cli.output.errors import hint_of, in_own_words, sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import draw
from kgtool.columns import Column, shown
from kgtool.columns.changes import DELETE_OFFSETS
from kgtool.columns.groups import GROUP, PARTITION, TOPIC
from kgtool.config import Settings
from kgtool.errors import UsageError
from kgtool.model import (
    CommittedOffset,
    GroupOffsetDeletions,
    OffsetDeletion,
    TopicSpec,
    has_failed,
)
from kgtool.net.session import Session
from kgtool.protocol.codes import CODES
from kgtool.queries.offsets.adaptive_batches import AdaptiveBatches
from kgtool.queries.offsets.lag import lag
from kgtool.text import counted, escape, listed

PARTITION_ERROR = "Error: Encountered some partition-level error, see the follow-up details."

PARTITIONS = re.compile(r"[^:]+:\d+(,\d+)*", re.ASCII)
"""An argument that is a topic with partitions, where no ``--topic`` says what to delete."""

_PREVIEW = (GROUP, TOPIC, PARTITION, Column("offset", "CURRENT-OFFSET"), Column("lag", "LAG"))


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
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    topics: Sequence[TopicSpec],
    force: bool,
    all_or_nothing: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Delete committed offsets of groups, active ones too (KIP-496).

    Topics may also follow the groups: kgtool delete-offsets billing payments:0,1
    """
    if not topics:
        selection, topics = with_topics(selection)
    selection.check("delete-offsets")
    if not topics:
        raise UsageError("Which offsets? --topic TOPIC or --topic TOPIC:0,1.")
    confirm.require(yes, dry_run)
    with open_session(settings) as session:
        groups = choose(session, output, selection, DELETE_OFFSETS).groups
        run = _DeleteRun(session, output, topics, force, all_or_nothing)
        agreed = run.plan(groups, dry_run)
        if agreed is None:
            return
        names, count = _count(agreed)
        if names:
            used = None
            if not yes:
                used = impact.show(
                    session, output, names, selection, lambda g: agreed[g].partitions
                )
            question = f"Delete {counted(count, 'committed offset')}?"
            confirm.ask(session, output, question, yes, used, groups=names, offsets=count)
        change = run.delete(groups, agreed, yes=yes)
    change.say()


def with_topics(selection: Selection) -> tuple[Selection, Sequence[TopicSpec]]:
    """Return what follows the first group and looks like ``payments:0,1`` as topics."""
    is_first_a_group = not selection._replace(groups=()).is_given
    others = selection.groups[is_first_a_group:]
    words = [word for word in others if PARTITIONS.fullmatch(word)]
    groups = tuple(name for name in selection.groups if name not in words)
    return selection._replace(groups=groups), tuple(map(parse_topic, words))


def _count(agreed: Mapping[str, Agreed]) -> tuple[list[str], int]:
    counts = {group: found.offsets for group, found in agreed.items() if found.offsets}
    return list(counts), sum(counts.values())


class _DeleteRun(NamedTuple):
    """One run of the command, batch by batch."""

    session: Session
    output: Output
    topics: Sequence[TopicSpec]
    force: bool
    all_or_nothing: bool

    def plan(self, groups: Sequence[str], dry_run: bool) -> dict[str, Agreed] | None:
        """Show the offsets to delete on stderr.

        Report and return None if this is a dry run, or anything fails of all or nothing.
        """
        agreed: dict[str, Agreed] = {}
        members: dict[str, int] = {}
        # Patterns without a match and brokers that did not list their groups are errors already.
        is_off = self.all_or_nothing and bool(self.output.errors)
        with DiskList[list[GroupOffsetDeletions]]() as seen:
            for plan in self._plans(groups):
                results = list(plan.results.values())
                is_off |= self.all_or_nothing and any(map(has_failed, results))
                if not is_off:
                    self._show(plan)
                if self.all_or_nothing:
                    seen.append(results)
                elif dry_run:
                    self._report(results, is_dry=True)
                agreed.update(plan.agreed)
                members.update({g: n for g, n in plan.members.items() if agreed[g].offsets})
            for results in seen if is_off or dry_run else ():
                self._report(skip(results) if is_off else results, is_dry=dry_run)
        if is_off:
            return None
        names, count = _count(agreed)
        if dry_run:
            confirm.note_refusal(self.session, self.output, names, count, removes=True)
            return None
        if names and not self.output.is_kafka_form:
            self._warn(members)
        return agreed

    def _plans(self, groups: Sequence[str]) -> Iterator[deletion.OffsetsPlan]:
        batches = AdaptiveBatches(groups)
        with Meter(self.output, "Looking", len(groups)) as meter:
            while names := batches.next():
                requests = dict.fromkeys(names, list(self.topics))
                looked = deletion.plan_offset_deletions(
                    self.session.cluster, requests, force=self.force
                )
                plan: deletion.OffsetsPlan = self.session.run(looked)
                meter.add(len(names))
                yield plan
                batches.learn(len(names), sum(len(one.digests) for one in plan.agreed.values()))

    def _show(self, plan: deletion.OffsetsPlan) -> None:
        if self.output.is_kafka_form:
            return
        places = [(group, at) for group, one in plan.agreed.items() for at in one.partitions]
        if not places:
            return
        ends = self.session.run(deletion.ends_of(self.session.cluster, {at for _, at in places}))
        self.output.note_once("Committed offsets to delete:")
        found = [
            {
                "group": group,
                **at._asdict(),
                "offset": value.offset,
                "lag": lag(value.offset, ends[at]),
            }
            for group, at in places
            if isinstance(value := plan.committed[group][at], CommittedOffset)
        ]
        self.output.note(draw(_PREVIEW, found), end="")

    def _warn(self, members: Mapping[str, int]) -> None:
        self.output.note(UNDO_NOTE)
        for group, count in members.items():
            self.output.note(
                f"Warning: group {escape(group)} has {counted(count, 'member')}: this can be "
                "undone only while it is empty."
            )

    def delete(
        self, groups: Sequence[str], agreed: Mapping[str, Agreed] | None = None, *, yes: bool = True
    ) -> CommandChange:
        """Delete offsets, with a journal of them, and report.

        :param agreed: the plan that was shown; offsets that differ now are left alone.
        """
        session, output = self.session, self.output
        canary = Canary(session, output, len(groups), yes=yes)
        meter = Meter(output, "Deleting", len(groups))
        with CommandChange(session, output) as change, meter:

            def delete(part: list[str]) -> list[bool]:
                return list(self._delete(change, meter, part, agreed))

            def skip_group(group: str) -> bool:
                self._report([GroupOffsetDeletions(group, [], not_reached(group))])
                return True

            def count() -> tuple[list[str], int]:
                seen: dict[str, Agreed] = {}
                for plan in self._plans(groups):
                    seen.update(plan.agreed)
                return _count(seen)

            change.lock(groups)
            if agreed is None:
                change.foresee(count)
            looked = self._look_again(groups, agreed)
            is_long = self.all_or_nothing and AdaptiveBatches(groups).are_many
            if not is_long or can_all_be_done(looked, self._report):
                canary.run(list(groups), delete, skip_group, failed=bool)
        return change

    def _look_again(
        self, groups: Sequence[str], agreed: Mapping[str, Agreed] | None
    ) -> Iterator[list[GroupOffsetDeletions]]:
        """Yield the groups of each batch, compared with the plan."""
        batches = AdaptiveBatches(groups)
        while names := batches.next():
            requests = dict.fromkeys(names, list(self.topics))
            looked = deletion.look_again(self.session.cluster, requests, agreed, self.force)
            results: list[GroupOffsetDeletions] = list(self.session.run(looked).values())
            yield results
            batches.learn(len(names), sum(len(result.rows) for result in results))

    def _delete(
        self,
        change: CommandChange,
        meter: Meter,
        groups: Sequence[str],
        agreed: Mapping[str, Agreed] | None,
    ) -> Iterator[bool]:
        """Yield for each group whether anything failed; its rows are reported, and not held."""
        batches = AdaptiveBatches(groups)
        while names := batches.next():
            deleting = deletion.delete_offsets(
                self.session.cluster,
                dict.fromkeys(names, list(self.topics)),
                agreed=agreed,
                force=self.force,
                all_or_nothing=self.all_or_nothing,
                before_change=change.before,
            )
            results: list[GroupOffsetDeletions] = list(self.session.run(deleting).values())
            for result in results:
                change.results(result.rows)
            meter.add(len(names))
            self._report(results)
            batches.learn(len(names), sum(len(result.rows) for result in results))
            yield from map(has_failed, results)

    def _report(self, results: Sequence[GroupOffsetDeletions], *, is_dry: bool = False) -> None:
        output = self.output
        is_off = any(row.status == "skipped" for result in results for row in result.rows)
        for result in results:
            _headline(output, result, is_dry=is_dry, is_off=is_off)
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


def kafka_form(
    settings: Settings, output: Output, selection: Selection, given: dict[str, Any]
) -> None:
    """Delete as ``kafka-consumer-groups.sh --delete-offsets`` does: without asking."""
    with open_session(settings) as session:
        groups = choose(session, output, selection, DELETE_OFFSETS).groups
        run = _DeleteRun(session, output, given["topic"], given["force"], given["all_or_nothing"])
        is_planned = given["dry_run"] or run.all_or_nothing
        if is_planned and run.plan(groups, given["dry_run"]) is None:
            return
        change = run.delete(groups)
    change.say()


def _empty(result: GroupOffsetDeletions) -> dict[str, object]:
    row = OffsetDeletion(result.group, "", None, "failed", result.error)
    return build_row(row, DELETE_OFFSETS, topic=None)


def _headline(output: Output, result: GroupOffsetDeletions, *, is_dry: bool, is_off: bool) -> None:
    """Report a group in the words of Kafka's tool, but call no failure a success (F9)."""
    group = escape(result.group)
    if result.error is not None:
        known = CODES.get(result.error.code) if result.error.code is not None else None
        if known is None:
            output.note(sentence(result.error))
        else:
            output.note(f"Error: {known.message} (group {group}){hint_of(result.error)}")
        return
    failed = [row.error for row in result.rows if row.error is not None]
    if failed:
        if output.is_kafka_form:
            output.note(PARTITION_ERROR)
        for error in failed:
            said = error if output.is_kafka_form else in_own_words(error)
            output.note(sentence(said, prefix="* " if output.is_kafka_form else "Error: "))
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
