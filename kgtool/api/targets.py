"""Between the arguments of ``GroupAdmin`` and the operations of ``queries`` and ``changes``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kgtool.changes.journal.journal import ConfigChange
from kgtool.changes.reset.targets import GroupReset, ResetRow, Strategy
from kgtool.errors import KgError, UsageError
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    GroupOffsets,
    ItemError,
    Member,
    Target,
    TopicPartition,
    TopicSpec,
)
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND

if TYPE_CHECKING:
    from kgtool.changes.groups.members import Choice
    from kgtool.changes.snapshot import GroupChange
    from kgtool.client.cluster import Cluster
    from kgtool.client.ops import Operation
    from kgtool.queries.log.expiry import Expiry

Topics: TypeAlias = "Iterable[str | TopicPartition | TopicSpec]"
"""Topics by name, single partitions, or topics with some of their partitions."""
Goal: TypeAlias = "str | int | datetime"
"""``"earliest"``, ``"latest"``, ``"current"``, an offset, or a time (with a time zone)."""


def names(given: Iterable[str], argument: str = "groups") -> list[str]:
    """Return the names that an argument takes, of groups for instance, each once.

    :raises UsageError: it is one name, whose letters would be taken for names, or holds others.
    """
    if isinstance(given, str):
        kind = argument.replace("_", " ")
        raise UsageError(f"{argument} takes several {kind}: ['{given}'], not '{given}'.")
    found = list(dict.fromkeys(given))
    for name in found:
        if not isinstance(name, str):
            raise UsageError(f"{argument} takes strings, not {name!r}.")
    return found


def specs(topics: Topics) -> list[TopicSpec]:
    """Return topics and partitions as operations take them."""
    if isinstance(topics, str):
        raise UsageError(f"topics takes several topics: ['{topics}'], not '{topics}'.")
    return [_spec(topic) for topic in topics]


def _spec(topic: str | TopicPartition | TopicSpec) -> TopicSpec:
    if isinstance(topic, TopicSpec):
        return topic
    if isinstance(topic, TopicPartition):
        return TopicSpec(topic.topic, (topic.partition,))
    if isinstance(topic, str):
        return TopicSpec(topic)
    raise UsageError(f"A topic is a name, a TopicPartition or a TopicSpec, not {topic!r}.")


def number(at: TopicPartition, value: int | CommittedOffset) -> int:
    """Return the offset to commit at a partition.

    :raises UsageError: there is none, or it is negative; ``at`` is something else.
    """
    if not isinstance(at, TopicPartition):
        raise UsageError(f"Offsets are given by TopicPartition, not by {at!r}.")
    offset = value.offset if isinstance(value, CommittedOffset) else value
    return whole("An offset", offset)


def whole(name: str, value: Any, *, may_be_negative: bool = False) -> int:
    """Return a whole number (UsageError)."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and (may_be_negative or value >= 0):
        return int(value)
    least = "" if may_be_negative else " from 0 on"
    raise UsageError(f"{name} is a whole number{least}, not {value!r}.")


_WORDS = ("earliest", "latest", "current")


def strategy(to: Goal | None, shift_by: int | None, like: str | None) -> Strategy:
    """Return how new offsets are found.

    :raises UsageError: not exactly one of the three was given, or ``to`` is something else.
    """
    if sum(value is not None for value in (to, shift_by, like)) != 1:
        raise UsageError("Give one of to, shift_by and like.")
    if shift_by is not None:
        return Strategy("shift-by", whole("shift_by", shift_by, may_be_negative=True))
    if like is not None:
        return Strategy("like", like=like)
    if isinstance(to, str) and to in _WORDS:
        return Strategy(f"to-{to}")
    if isinstance(to, datetime):
        if to.tzinfo is None:
            raise UsageError("A time needs a time zone: datetime(…, tzinfo=timezone.utc).")
        return Strategy("to-datetime", int(to.timestamp() * 1000))
    if isinstance(to, int) and not isinstance(to, bool):
        return Strategy("to-offset", to)
    raise UsageError(f"to takes {', '.join(_WORDS)}, an offset or a datetime, not {to!r}.")


class Options(NamedTuple):
    """How to reset. ``is_exact``: an offset that had to be fitted into the log is a failure;
    ``values`` bring their own leader epoch and metadata."""

    create: bool
    force: bool
    all_or_nothing: bool
    dry_run: bool
    is_exact: bool = False
    values: Mapping[TopicPartition, CommittedOffset] = {}

    def refine(self, plan: Sequence[GroupReset]) -> list[GroupReset]:
        """Make a plan exact, if that is asked for."""
        if not self.is_exact:
            return list(plan)
        return [group._replace(rows=[self._refined(row) for row in group.rows]) for group in plan]

    def _refined(self, row: ResetRow) -> ResetRow:
        if row.status != "would-reset" or row.partition is None:
            return row
        if row.clamp is not None and row.log is not None:
            said = (
                f"The offset {row.asked} is outside of the log of {row.at}, which has "
                f"{row.log.start.offset} to {row.log.end.offset}."
            )
            target = Target(row.group, *row.at)
            error = ItemError(target, None, "OUT_OF_RANGE", said)
            return row._replace(status="failed", error=error, new=None)
        return row._replace(new=self.values.get(row.at, row.new))


# ---------------------------------------------------------------------------------------------
# Operations


def describe(cluster: Cluster, groups: list[str]) -> Operation[dict[str, GroupDescription]]:
    """Describe groups of any type."""
    from kgtool.queries.groups.describe import describe_groups
    from kgtool.queries.groups.share_and_streams import OtherGroup, describe_other_groups

    described = yield from describe_groups(cluster, groups)
    found = {one.group: one for one in described}
    missing = [name for name, one in found.items() if _is_missing(one)]
    if missing:
        others = yield from describe_other_groups(cluster, missing)
        for name, other in others.items():
            if isinstance(other, OtherGroup):
                found[name] = other.description
    return found


def _is_missing(description: GroupDescription) -> bool:
    return description.error is not None and description.error.code == GROUP_ID_NOT_FOUND


def offsets(
    cluster: Cluster,
    groups: list[str],
    topics: list[TopicSpec] | None,
    *,
    committed: bool,
    clock: Callable[[], int] | None,
) -> Operation[dict[str, GroupOffsets]]:
    """Describe the offsets of groups of any type."""
    from kgtool.queries.groups.share_and_streams import (
        OtherGroup,
        describe_other_groups,
        describe_other_offsets,
    )
    from kgtool.queries.offsets.describe import describe_offsets

    listed = yield from describe_offsets(cluster, groups, topics, committed=committed, clock=clock)
    found = {one.description.group: one for one in listed}
    missing = [name for name, one in found.items() if _is_missing(one.description)]
    if missing:
        answers = yield from describe_other_groups(cluster, missing)
        others = [other for other in answers.values() if isinstance(other, OtherGroup)]
        for one in (yield from describe_other_offsets(cluster, others)):
            rows = [
                row
                for row in one.rows
                if topics is None or any(spec.covers(row.topic, row.partition) for spec in topics)
            ]
            found[one.description.group] = one._replace(rows=rows)
    return found


def expiries(
    cluster: Cluster, groups: list[str], now_ms: int
) -> Operation[dict[str, dict[TopicPartition, Expiry]]]:
    """Say of all committed offsets of groups when they expire."""
    from kgtool.queries.log.expiry import Question, find_expiries
    from kgtool.queries.offsets.fetch import fetch_committed

    described = yield from describe(cluster, groups)
    committed = yield from fetch_committed(cluster, groups)
    questions = [
        Question.of(description, committed[group])
        for group, description in described.items()
        if description.error is None and isinstance(committed[group], dict)
    ]
    if not questions:
        return {}
    found = yield from find_expiries(cluster, questions, now_ms)
    return {name: one.offsets for name, one in found.groups.items()}


def members(
    cluster: Cluster, group: str, choice: Choice
) -> Operation[tuple[list[Member], GroupChange]]:
    """Find members of a group; with them what a journal keeps of the group.

    :raises KgError: there is no such group, or its members can't be removed.
    """
    from kgtool.changes.groups.members import refusals
    from kgtool.changes.snapshot import GroupChange, image_of
    from kgtool.queries.groups.describe import describe_with_type

    (found,) = yield from describe_with_type(cluster, [group])
    problem = (yield from refusals(cluster, [found])).get(group)
    if problem is not None:
        raise KgError(problem.message, hint=problem.hint)
    chosen = [member for member in found.members if choice.fits(member)]
    return chosen, GroupChange(image_of(found, {}), {})


def alter(
    cluster: Cluster,
    group: str,
    changes: Mapping[str, str | None],
    before: Callable[[Sequence[ConfigChange]], None] | None,
) -> Operation[dict[str, KgError | None]]:
    """Check and make changes of a group's configs; without ``before``, only check them.

    :raises KgError: the configs that are there can't be read.
    """
    from kgtool.changes.groups.configs import (
        alter_group_configs,
        check_group_configs,
        describe_group_configs,
    )

    there = (yield from describe_group_configs(cluster, [group]))[group]
    if isinstance(there, KgError):
        raise there
    unknown = [name for name in changes if name not in there]
    if unknown:
        raise UsageError(f"There is no config '{unknown[0]}' of groups.")
    checked = yield from check_group_configs(cluster, {group: changes})
    answers = {name: checked[group, name] for name in changes}
    if before is None or any(answers.values()) or not changes:
        return answers
    images = [ConfigChange(group, name, there[name].own, value) for name, value in changes.items()]
    had = {name: there[name].own for name in changes}
    done = yield from alter_group_configs(
        cluster, {group: changes}, {group: had}, lambda: before(images)
    )
    return {name: done[group, name] for name in changes}
