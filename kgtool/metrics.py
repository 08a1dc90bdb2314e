"""The metrics of groups in Prometheus' text format, for ``describe --prometheus`` and the exporter.

Names, help and labels are declared here once. Times are in seconds, as usual there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.model import GroupDescription

Groups = Sequence[tuple[GroupDescription, Sequence[Mapping[str, Any]]]]
"""Groups with the rows of ``describe --offsets``; keys that a row lacks are unknown."""


class Metric(NamedTuple):
    """A metric and its samples: labels and value."""

    name: str
    help: str
    samples: Sequence[tuple[Mapping[str, Any], float]]
    kind: str = "gauge"


_ROWS = (
    ("kgtool_group_lag", "Records between the committed offset and the end of the log.", "lag", 1),
    (
        "kgtool_group_lag_seconds",
        "Age of the first unread record (with --time-lag).",
        "lag_ms",
        1000,
    ),
    (
        "kgtool_group_records_lost_timestamp_seconds",
        "When the first unread record may go by its topic's retention.ms (with --time-lag).",
        "lost_at_ms",
        1000,
    ),
    ("kgtool_group_committed_offset", "The committed offset.", "current_offset", 1),
    (
        "kgtool_group_offset_committed_timestamp_seconds",
        "When the offset was committed.",
        "committed_at_ms",
        1000,
    ),
    (
        "kgtool_group_offset_expires_timestamp_seconds",
        "When the broker may remove the committed offset (with --expiry).",
        "expires_at_ms",
        1000,
    ),
)
"""Metrics with one sample a partition of a group: name, help, key of the row, divisor."""


def of_groups(groups: Groups) -> Iterator[Metric]:
    """Return the metrics of groups and their offsets."""
    for name, help_, key, divisor in _ROWS:
        yield Metric(
            name,
            help_,
            [
                ({k: row[k] for k in ("group", "topic", "partition")}, row[key] / divisor)
                for _, rows in groups
                for row in rows
                if row.get(key) is not None
            ],
        )
    yield _log_ends(groups)
    yield Metric(
        "kgtool_group_members",
        "Members of the group.",
        [({"group": group.group}, len(group.members)) for group, _ in groups],
    )
    yield Metric(
        "kgtool_group_state",
        "1 for the state that the group is in.",
        [({"group": g.group, "state": g.state, "type": g.type or ""}, 1) for g, _ in groups],
    )


def _log_ends(groups: Groups) -> Metric:
    ends = {
        (row["topic"], row["partition"]): row["log_end_offset"]
        for _, found in groups
        for row in found
        if row["log_end_offset"] is not None
    }
    return Metric(
        "kgtool_log_end_offset",
        "Where the log of a partition ends.",
        [({"topic": t, "partition": p}, end) for (t, p), end in sorted(ends.items())],
    )


def of_poll(errors: int, now_ms: int) -> Iterator[Metric]:
    """Return the number of errors and the time of the poll."""
    yield Metric(
        "kgtool_errors", "Groups and partitions that could not be looked at.", [({}, errors)]
    )
    yield Metric(
        "kgtool_last_poll_timestamp_seconds", "When this was found out.", [({}, now_ms / 1000)]
    )


_LOG = (
    (
        "kgtool_offset_commits_total",
        "offset_commits",
        "Committed offsets since the exporter began (KIP-496).",
    ),
    (
        "kgtool_offset_expirations_total",
        "offset_expirations",
        "Offsets that brokers removed because they were due (KIP-496).",
    ),
    (
        "kgtool_offset_deletions_total",
        "offset_deletions",
        "Offsets that clients deleted, not with their group (KIP-496).",
    ),
    (
        "kgtool_group_completed_rebalances_total",
        "group_completed_rebalances",
        "Completed rebalances of classic groups (KIP-496).",
    ),
)


def of_log(counts: Mapping[str, int]) -> list[Metric]:
    """Return the counters of KIP-496, from the tail of ``__consumer_offsets``."""
    return [Metric(name, said, [({}, counts[key])], "counter") for name, key, said in _LOG]


def of_ghost_topics(groups: Groups) -> Metric:
    """Return the topics with offsets that no member of an active group subscribes to."""
    ghosts = {
        (row["group"], row["topic"])
        for group, rows in groups
        for row in rows
        if row["subscribed"] is False and not group.is_empty
    }
    return Metric(
        "kgtool_group_ghost_topic",
        "1 for a topic with offsets that no member subscribes to.",
        [({"group": group, "topic": topic}, 1) for group, topic in sorted(ghosts)],
    )


def counted(name: str, help_: str, labels: Sequence[str], items: Iterable[Sequence[str]]) -> Metric:
    """Return a metric that counts items by their labels."""
    counts = Counter(map(tuple, items))
    found = [(dict(zip(labels, at, strict=True)), n) for at, n in sorted(counts.items())]
    return Metric(name, help_, found)


def render(metrics: Iterable[Metric], common: Mapping[str, Any]) -> str:
    r"""Return metrics as text; those without samples are left out.

    >>> print(render([Metric("m", "Help.", [({"group": 'a"b\\'}, 5.0)])], {}), end="")
    # HELP m Help.
    # TYPE m gauge
    m{group="a\"b\\"} 5
    """
    lines = []
    for metric in metrics:
        if metric.samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            named = ",".join(f'{k}="{_escaped(v)}"' for k, v in {**common, **labels}.items())
            lines.append(f"{metric.name}{{{named}}} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(value: object) -> str:
    text = str(value).encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
