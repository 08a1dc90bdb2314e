"""The kinds of findings of ``doctor``, and one finding with its evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.text import DAY_MS

PROBLEM, WARNING, NOTE = "problem", "warning", "note"
SEVERITIES = (PROBLEM, WARNING, NOTE)
"""``problem``: data is lost or unreachable, or is about to be read twice; ``warning``: it may
become a problem, or lags are wrong; ``note``: good to know, nothing is wrong."""

IDLE = {
    "2d": 2 * DAY_MS,
    "1d": DAY_MS,
    "6h": DAY_MS // 4,
    "1h": DAY_MS // 24,
    "10m": 600_000,
    "1m": 60_000,
    "10s": 10_000,
}
"""Idle times in suggested cleanups, in ms: the first is long enough for daily jobs, and well within
the retention, after which brokers delete offsets by themselves; the others are for what nobody
starts again."""

KINDS: Mapping[str, tuple[str, str]] = {
    "broker-down": (
        "brokers that don't answer",
        "Start those that are down: groups whose coordinator has no other replica can't commit. "
        "Where one runs, correct what its error names: its advertised.listeners, the network, TLS.",
    ),
    "offsets-no-leader": (
        "partitions of __consumer_offsets without a leader",
        "The groups in them can't commit, and can't be listed.",
    ),
    "coordinator-loading": (
        "coordinators that are still loading",
        "Their groups can't commit until they have read their partitions.",
    ),
    "offsets-not-compacted": (
        "__consumer_offsets is not compacted",
        "The log cleaner deletes committed offsets of healthy groups.",
    ),
    "unknown-to-coordinator": (
        "groups that are listed, and that their coordinator does not know",
        "Their records are in another partition of __consumer_offsets than their names': its "
        "partition count was changed. Consumers of them start where auto.offset.reset says; kgtool "
        "export saves the old offsets.",
    ),
    "offsets-not-cleaned": (
        "brokers that clean no log",
        "log.cleaner.enable=false: __consumer_offsets grows for ever, and a coordinator reads all "
        "of it when it starts, before its groups can commit.",
    ),
    "offsets-segments": (
        "__consumer_offsets has segments of an odd size",
        "Only closed segments are cleaned: huge ones let the log grow, tiny ones cost files and "
        "memory. Kafka's default is 100 MB.",
    ),
    "offsets-growth": (
        "partitions of __consumer_offsets that grow fast",
        "A client commits far too often (after each record?): the coordinator, its cleaner and its "
        "next start pay for it.",
    ),
    "offsets-under-replicated": (
        "partitions of __consumer_offsets with replicas out of sync",
        "If one more broker fails, their groups may stop.",
    ),
    "offsets-replication": (
        "__consumer_offsets has few replicas",
        "Its groups stop whenever a broker fails.",
    ),
    "no-leader": ("partitions without a leader", "They can't be read, and their lag is unknown."),
    "topic-recreated": (
        "topics that were re-created since the commit",
        "The offset belongs to records of the old topic: records are skipped or read twice.",
    ),
    "beyond-end": (
        "committed beyond the end of the log",
        "Truncated or re-created; consumers fall back on auto.offset.reset.",
    ),
    "before-start": (
        "committed before the start of the log",
        "Records were removed before they were read; auto.offset.reset decides what follows.",
    ),
    "at-risk": (
        "unread records that are removed soon",
        "Their topic's retention.ms is nearly over; retention.bytes may remove them sooner, which "
        "is not foreseen. Read them in time, or keep them longer: kafka-configs.sh --alter "
        "--entity-type topics with a larger retention.ms.",
    ),
    "uncommitted": (
        "partitions without a commit, of topics that a group reads",
        "A consumer starts there where auto.offset.reset says: latest skips what is there already.",
    ),
    "pending-transaction": (
        "transactions that hold back committed offsets",
        "Consumers that join with read_committed wait until they end.",
    ),
    "expiring": (
        "offsets that expire soon",
        "Without them a consumer starts where auto.offset.reset says.",
    ),
    "loses-when-empty": (
        "offsets that go when the last member leaves",
        "KIP-848 groups have no grace: commits older than the retention go at the next check.",
    ),
    "retention-gap": (
        "commits almost as far apart as the retention is long",
        "A partition with little traffic loses its offset while the group keeps running.",
    ),
    "retention-short": (
        "offsets are kept for a short time",
        "Consumers that are down for a long weekend lose their position.",
    ),
    "retention-differs": (
        "brokers have different retentions",
        "When an offset goes depends on which broker coordinates the group.",
    ),
    "check-interval": (
        "brokers rarely check for expired offsets",
        "Offsets and their lag stay that much longer than the retention.",
    ),
    "ghost-topic": (
        "offsets of topics that no member subscribes to",
        "No member reads them; their lag grows and alerts fire.",
    ),
    "topic-gone": (
        "offsets of topics or partitions that don't exist",
        "They can't be deleted one by one: brokers refuse it for topics that are gone.",
    ),
    "rebalancing": (
        "groups stuck in a rebalance",
        "No member reads. The coordinator evicts members that do not rejoin in time: within "
        "max.poll.interval.ms (default 5m). remove-members is for members still stuck after that.",
    ),
    "member-behind": (
        "members that don't follow the target assignment",
        "The new owner can't read what they keep (KIP-848). The coordinator evicts them after "
        "their max.poll.interval.ms (default 5m); remove-members does it at once.",
    ),
    "piling-up": (
        "many groups of one kind without members",
        "They fill the coordinator's memory and every listing.",
    ),
    "broker-old": ("brokers that are too old for what groups need", "Upgrade them."),
    "not-kafka": (
        "brokers that are not Apache Kafka",
        "Expiry is unknown there; commands that need more than they offer say so.",
    ),
    "brokers-mixed": (
        "brokers of different versions",
        "Finish the upgrade: what works depends on the broker that answers.",
    ),
    "denied": ("what this login may not see", "Findings may be missing because of it."),
}
"""Each kind with its title and why it matters, in the order of the page. Scripts look for the
keys, so they never change."""


def idle_step(idle_ms: Iterable[int | None], steps: Sequence[str] = tuple(IDLE)) -> str | None:
    """Return the longest step for which any of some groups has been idle; None: for none of them.

    :param idle_ms: for how long each has been idle at least; None where that is unknown.
    """
    longest = max((ms for ms in idle_ms if ms is not None), default=0)
    return next((step for step in steps if IDLE[step] <= longest), None)


class Finding(NamedTuple):
    """One thing that is wrong, or worth knowing.

    ``detail`` says it in words, ``evidence`` in numbers (JSON values; times in ms since the epoch
    or spans in ms). ``fix`` is a command line, word by word, without connection options; empty
    where no single command helps. ``TIME`` and ``User:YOU`` in it are for a person to fill in.
    ``instead`` is a command of kgtool that does the same.
    """

    kind: str
    severity: str
    detail: str
    evidence: Mapping[str, Any]
    fix: tuple[str, ...] = ()
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    instead: tuple[str, ...] = ()


def file_name(text: str, otherwise: str) -> str:
    """Return a name for a JSON file, made from the name of a group or family.

    >>> file_name("team a: orders/v2-*", "groups")
    'teamaordersv2.json'
    """
    return (re.sub(r"[^\w.-]+", "", text).strip("-._")[:100] or otherwise) + ".json"
