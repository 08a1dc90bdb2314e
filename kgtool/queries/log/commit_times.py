"""When offsets were committed, and for which topic: only ``__consumer_offsets`` tells.

OffsetFetch has no commit times. The records do (OffsetCommitValue: commitTimestamp, and since v4
topicId), so the groups' own partitions of the log are read: all of it where they are small, else
from a given time on; what is not there was committed before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.errors import KgError
from kgtool.model import TopicPartition
from kgtool.protocol.wire import id_text
from kgtool.queries.log.expiry import denied_log
from kgtool.queries.log.reader import LogReader, Stretch

SMALL_LOG = 500_000
"""Partitions of the log with at most this many records are read from their beginning."""


class CommitTime(NamedTuple):
    """The last commit of one offset: ms since the epoch, and the topic's id where it is kept."""

    at_ms: int
    topic_id: str | None = None


class CommitTimes(NamedTuple):
    """One group's last commits.

    ``before_ms``: where reading began, so what is not in ``at`` was committed before; None: all
    of the log was read, and what is not in it has no commit any more. ``changed_ms``: when the
    group's own records last changed (a member joined or left); None: not in what was read.
    ``is_pending``: an open transaction holds commits of the group.
    """

    at: Mapping[TopicPartition, CommitTime]
    before_ms: int | None
    changed_ms: int | None = None
    is_pending: bool = False


def read_log(
    cluster: Cluster, groups: Sequence[str], since_ms: int
) -> Operation[dict[str, Stretch | KgError]]:
    """Read the log of groups, for ``commit_times`` and ``find_expiries``.

    :param since_ms: where reading begins in a partition with more than ``SMALL_LOG`` records.
    """
    return LogReader(groups, since_ms, small=SMALL_LOG).read(cluster, groups)


def commit_times(
    stretches: Mapping[str, Stretch | KgError], groups: Mapping[str, Collection[TopicPartition]]
) -> dict[str, CommitTimes | KgError]:
    """Return the last commits of groups in what was read of their log."""
    return {name: _times(stretches[name], name, groups[name]) for name in groups}


def _times(
    stretch: Stretch | KgError, group: str, partitions: Collection[TopicPartition]
) -> CommitTimes | KgError:
    if isinstance(stretch, KgError):
        return denied_log(stretch)
    at = {}
    for partition in partitions:
        try:
            committed = stretch.log.commit(group, partition)
        except KgError as error:
            return error
        if committed is not None:
            topic_id = id_text(stretch.log.topic_id(group, partition))
            at[partition] = CommitTime(committed.commit_timestamp_ms, topic_id)
    is_pending = bool(stretch.log.holders(group))
    return CommitTimes(at, stretch.before_ms, stretch.log.changed_ms(group), is_pending)
