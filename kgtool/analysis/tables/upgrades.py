"""What moving a classic group to KIP-848 costs: the offsets that it does not commit any more.

A classic group's offsets share one date, the time at which it became Empty + retention. Those of a
KIP-848 group each have their own, commit + retention, and only subscriptions protect them
(``facts``: ``ConsumerGroup.offsetExpirationCondition``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, plus
from kgtool.analysis.fold.scene import Scene, choice
from kgtool.analysis.tables.live import Live
from kgtool.retention import rules as r


def table(scene: Scene, found: Live) -> Any:
    """Rows of ``schema.UPGRADES``: every classic consumer group with offsets."""
    plan, log, size = scene.plan, scene.log, scene.log.size
    of = scene.states.of.at(scene.states.latest)
    classic = of.known & (of.type == rc.TYPE[r.TYPE_CLASSIC]) & (of.protocol == rc.CONSUMER)
    rows = np.flatnonzero(classic[found.group] & ~found.pending)
    group, stored = found.group[rows], found.stored[rows]
    commit, own = log.offsets.commit_ms[stored], log.offsets.expire_ms[stored]
    dated = (own != NONE) & (own != -1)
    due = np.where(dated, own, plus(commit, plan.wrote.phases[-1][1]))
    lost = due <= plan.end_ms
    topic = np.unique(group[lost] * (len(log.topics) + 1) + log.keys.topic[found.key[rows[lost]]])
    oldest = np.full(size, MAX)
    np.minimum.at(oldest, group, commit)
    some = np.unique(group)
    columns = {
        "group": log.groups.take(some),
        "group_state": choice(rc.STATES, of.state[some]),
        "live_offsets": np.bincount(group, minlength=size)[some],
        "lost_offsets": np.bincount(group[lost], minlength=size)[some],
        "lost_topics": np.bincount(topic // (len(log.topics) + 1), minlength=size)[some],
        "oldest_commit_ms": oldest[some],
    }
    return scene.table("upgrades", columns)
