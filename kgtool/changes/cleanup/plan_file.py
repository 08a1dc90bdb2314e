"""A cleanup plan: what to remove, why, and what would be lost; a file to review and edit.

One JSON document with one item a line, so that ``diff`` and ``grep`` are useful::

    {"kgtool_plan": 1, "id": "20260131-120000-1f2e3d4c", "cluster_id": "…", "made_at_ms": …,
     "made_at": "…", "made_by": "ann@host", "source": "cluster", "criteria": {"idle_ms": …},
     "summary": {"items": 2, "groups": 1, "offsets": 3, "lag": 40, "waiting": 1, "left_out": 1},
     "left_out": [{"group": "g3", "why": "…"}],
     "items": [
    {"action": "delete-group", "group": "g1", …, "why": ["…"], "offsets": [{…}, …]},
    {"action": "wait", "group": "g2", …}
    ]}

To leave something alone, remove its line, or make its action ``wait``. Actions:

``delete-group``    the group with everything it has committed; it must have no members.
``delete-offsets``  these offsets of the group (KIP-496), which may have members.
``rebuild-group``   brokers refuse OffsetDelete for deleted topics and partitions
                    (UNKNOWN_TOPIC_OR_PARTITION), so the group is deleted and ``keep`` restored.
``wait``            nothing: the broker removes the offsets by itself at ``expires_at_ms``.
``keep``            only of ``kgtool retention``: the offsets are committed again.

Times are milliseconds since the epoch, null where they are unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.durable import replace
from kgtool.errors import ConfigError
from kgtool.model import ItemError, TopicPartition

VERSION = 1

DELETE_GROUP, DELETE_OFFSETS, REBUILD_GROUP, WAIT = (
    "delete-group",
    "delete-offsets",
    "rebuild-group",
    "wait",
)
ACTIONS = (DELETE_GROUP, DELETE_OFFSETS, REBUILD_GROUP, WAIT)
KEEP_OFFSETS = "keep"
"""Only in plans of ``kgtool retention``: commits these offsets again."""


class PlannedOffset(NamedTuple):
    """One committed offset, as it was when the plan was made.

    ``offset`` None: unknown, so any value is taken for unchanged.
    """

    topic: str
    partition: int
    offset: int | None
    leader_epoch: int | None = None
    metadata: str | None = None
    topic_id: str | None = None
    lag: int | None = None
    committed_at_ms: int | None = None
    expires_at_ms: int | None = None
    rule: str | None = None
    """The rule by which it expires; None: unknown. With a rule and no time it never does."""
    problem: str | None = None
    """``unsubscribed``, ``topic-gone``, ``partition-gone``, ``topic-recreated``, ``beyond-end``."""

    @property
    def at(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class PlanItem(NamedTuple):
    """The action for one group, and its reasons.

    ``committed_before_ms`` bounds the last commit where its time itself was not read; ``lag`` is
    that of ``offsets``, None where a part of it is unknown. ``last_change_ms`` is when a member
    last joined or left. ``line`` is its line in the file.
    """

    action: str
    group: str
    type: str | None
    state: str | None
    why: tuple[str, ...]
    offsets: tuple[PlannedOffset, ...]
    keep: tuple[PlannedOffset, ...] = ()
    lag: int | None = None
    last_commit_ms: int | None = None
    committed_before_ms: int | None = None
    expires_at_ms: int | None = None
    last_change_ms: int | None = None
    line: int = 0

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return self.action != WAIT

    @property
    def key(self) -> str:
        """Its identity: all that it changes, in whatever place of the plan it stands."""
        parts = [[offset[:6] for offset in each] for each in (self.offsets, self.keep)]
        text = json.dumps([self.action, self.group, parts])
        return sha256(text.encode()).hexdigest()[:16]


class PlanHeader(NamedTuple):
    """The maker, time, cluster and criteria of a plan.

    ``as_of_ms``: the end of the data it was made from, where that is older than the plan.
    """

    id: str
    cluster_id: str | None
    made_at_ms: int
    made_at: str
    made_by: str
    source: str
    criteria: Mapping[str, Any]
    kgtool: str = ""
    as_of_ms: int | None = None

    @property
    def since_ms(self) -> int:
        """The time since which nothing is known."""
        return self.made_at_ms if self.as_of_ms is None else min(self.as_of_ms, self.made_at_ms)


class LeftOut(NamedTuple):
    """A group that meets, or may meet, the criteria and is not in the plan, and why."""

    group: str
    why: str


class CleanupPlan(NamedTuple):
    """A whole plan."""

    header: PlanHeader
    items: tuple[PlanItem, ...]
    left_out: tuple[LeftOut, ...] = ()
    errors: tuple[ItemError, ...] = ()
    """The brokers and groups that could not be read; not in the file."""


class Totals(NamedTuple):
    """What items remove. ``lag``: of what is known. ``youngest_ms``: the last commit of all."""

    groups: int
    offsets: int
    lag: int
    youngest_ms: int | None


def totals(items: Sequence[PlanItem]) -> Totals:
    """Sum up the items that remove anything."""
    going = [item for item in items if item.changes and item.action != KEEP_OFFSETS]
    times = [item.last_commit_ms for item in going if item.last_commit_ms is not None]
    return Totals(
        len({item.group for item in going}),
        sum(len(item.offsets) for item in going),
        sum(item.lag or 0 for item in going),
        max(times, default=None),
    )


# ---------------------------------------------------------------------------------------------
# Writing


def lines(plan: CleanupPlan) -> Iterator[str]:
    """Yield a plan's file, an item a line."""
    summed = totals(plan.items)
    head: dict[str, Any] = {"kgtool_plan": VERSION, **plan.header._asdict()}
    head["summary"] = {
        "items": len(plan.items),
        **{key: value for key, value in summed._asdict().items() if key != "youngest_ms"},
        "waiting": sum(not item.changes for item in plan.items),
        "left_out": len(plan.left_out),
    }
    head["left_out"] = [each._asdict() for each in plan.left_out]
    yield json.dumps(head)[:-1] + ',\n "items": ['
    for index, item in enumerate(plan.items):
        yield (",\n" if index else "\n") + json.dumps(_item_object(item))
    yield "\n]}\n"


def _item_object(item: PlanItem) -> dict[str, Any]:
    fields = item._asdict()
    del fields["line"]
    for key in ("offsets", "keep"):
        fields[key] = [offset._asdict() for offset in fields[key]]
    if item.action != REBUILD_GROUP:
        del fields["keep"]
    return fields


def write(plan: CleanupPlan, path: Path) -> None:
    """Write a plan's file, complete or not at all.

    :raises ConfigError: it can't be written.
    """
    try:
        replace(path, (line.encode("ascii") for line in lines(plan)))
    except OSError as error:
        raise ConfigError(f"The plan {path} can't be written: {error.strerror}.") from error
