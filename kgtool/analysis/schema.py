"""The columns of every table, declared once.

Each schema is a tuple of ``(name, type)`` with Spark's SQL type names; ``ddl`` turns one into what
``mapInArrow`` wants, ``arrow`` into the schema that the Arrow batches have.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

Schema = tuple[tuple[str, str], ...]


def _columns(text: str) -> Schema:
    """Columns as Spark's SQL spells them: ``name type``, and a comma behind all but the last."""
    return tuple((name, kind) for name, kind in (each.split() for each in re.split(r",\s", text)))


KIND_OFFSET: Final = "offset"
KIND_GROUP: Final = "group"
KIND_MARKER: Final = "marker"
KIND_QUALITY: Final = "quality"
KIND_COUNT: Final = "count"
KIND_EPOCH: Final = "epoch"

SPLITS: Final = _columns("""
    path string, partition int, start bigint, end bigint, format string, missing int, order bigint,
    layout string
""")
"""Byte ranges of files, cut between record batches; of a live cluster: ranges of offsets. The
others are as in ``input_files.InputFile``."""

GROUP_DETAIL: Final = _columns("""
    protocol_type string, generation int, state_since_ms bigint, members int, member string,
    topics array<string>, regex string, is_static boolean
""")
"""What a group's own record says; which fields are set depends on the key type. ``topics`` is
null where a subscription is not known; ``is_static``: a member has a group.instance.id."""

RECORDS: Final[dict[str, Schema]] = {
    # Commits and tombstones. An ordinary commit has no producer_id.
    KIND_OFFSET: _columns("""
        log_offset bigint, timestamp_ms bigint, key_type int, group string, tombstone boolean,
        producer_id bigint, producer_epoch int, topic string, topic_partition int, offset bigint,
        commit_timestamp_ms bigint, expire_timestamp_ms bigint, topic_id string, commits bigint,
        first_ms bigint, creates_group boolean, bytes bigint
    """),
    # The groups' own records.
    KIND_GROUP: (
        *_columns("""
            log_offset bigint, timestamp_ms bigint, key_type int, group string, tombstone boolean
        """),
        ("detail", "struct<" + ",".join(f"{n}:{t}" for n, t in GROUP_DETAIL) + ">"),
        ("bytes", "bigint"),
    ),
    # The end of a transaction.
    KIND_MARKER: _columns("""
        log_offset bigint, timestamp_ms bigint, producer_id bigint, committed boolean
    """),
    # The first record of each epoch of the partition's leader.
    KIND_EPOCH: _columns("log_offset bigint, timestamp_ms bigint, leader_epoch int"),
    # What a group wrote in a time bucket: offsets committed, all records, and their bytes.
    KIND_COUNT: _columns("""
        bucket_start_ms bigint, group string, commits bigint, records bigint, bytes bigint
    """),
    # What was read of a file (no reason), or was not and why, at a position of the file.
    KIND_QUALITY: _columns("""
        path string, partition int, reason string, records bigint, bytes bigint, position bigint,
        damage boolean, missing int, first_offset bigint, last_offset bigint, oldest_ms bigint,
        newest_ms bigint, future_records bigint, newest_future_ms bigint, value_kind int
    """),
}
"""What is decoded, by kind: a row for each record that matters, and the notes about each file.

Of a commit: ``commits`` counts the records that the row stands for (superseded ones are dropped
while decoding), the first of which was made at ``first_ms``; ``creates_group``: the first commit of
its group in a chunk, or behind a tombstone of the group there. ``bytes`` are those of keys and
values. Of a note: ``newest_ms`` leaves out ``future_records``; ``missing`` is what the input can't
tell (bits of ``missing_data``); ``value_kind`` is that of ``decode.written_by``."""

LIVE: Final = _columns("""
    group string, topic string, partition int, offset bigint, commit_timestamp_ms bigint,
    expire_timestamp_ms bigint, topic_id string, group_type string, group_state string,
    state_since_ms bigint, subscribed boolean, pending_transaction boolean, rule string,
    expires_at_ms bigint
""")
"""Every committed offset at the end of the log."""

REMOVALS: Final = _columns("""
    group string, topic string, partition int, removed_at_ms bigint, cause string,
    expires_at_ms bigint, latency_ms bigint, offset bigint, commit_timestamp_ms bigint, rule string
""")
"""Every tombstone of an offset or a group; the last three are of the offset that was removed, null
for a group and where its record is missing."""

QUALITY: Final = _columns("""
    path string, partition int, bytes bigint, records bigint, decoded bigint, skipped bigint,
    damaged boolean, first_offset bigint, last_offset bigint,
    problems array<struct<reason:string,records:bigint,bytes:bigint,position:bigint,damage:boolean>>
""")
"""One row a file."""

OVERDUE: Final = _columns("""
    group string, topic string, partition int, offset bigint, commit_timestamp_ms bigint,
    group_type string, group_state string, rule string, expires_at_ms bigint, overdue_ms bigint,
    log_partition int
""")
"""What a check ought to have removed before the log ends; topic, partition and the rest of the
offset are null for a group. ``overdue_ms`` counts from the end of the check interval that begins
at ``expires_at_ms``; ``log_partition`` is that of ``__consumer_offsets``."""

GROUPS: Final = _columns("""
    group string, family string, group_type string, group_state string, protocol_type string,
    members int, commits bigint, rebalances bigint, first_seen_ms bigint, last_seen_ms bigint,
    last_commit_ms bigint, live_offsets bigint, live_topics bigint, expired_offsets bigint,
    next_expiry_ms bigint, bytes bigint, log_partition int
""")
"""Every group that the log names. ``group_state`` is Dead where the coordinator does not have it
(any more); ``bytes`` is the size of its newest records, which the coordinator keeps."""

METRICS: Final = _columns("""
    bucket_start_ms bigint, bucket_ms bigint, offset_commits bigint, offset_expirations bigint,
    offset_deletions bigint, group_completed_rebalances bigint
""")
"""What brokers count since KIP-496, for each time bucket in which anything happened."""

_SCENARIO: Final = _columns("rules string, retention_ms bigint, check_interval_ms bigint")

DAY: Final = ("day_ms", "removed_offsets", "removed_groups", "live_offsets", "live_groups")
WHATIF: Final = (
    _SCENARIO
    + _columns("""
    removed_offsets bigint, removed_groups bigint, live_offsets bigint, live_groups bigint,
    missed_offsets bigint, missed_groups bigint, next_offsets bigint, next_groups bigint,
    first_removal_ms bigint, last_removal_ms bigint
""")
    + (("days", "array<struct<" + ",".join(f"{name}:bigint" for name in DAY) + ">>"),)
)
"""One row a scenario: what checks would have removed until the log ends, and what would be left.
``missed`` are removed offsets that were committed again later, and the groups that lost one: their
consumers came back. ``next`` are removals within the horizon if there are no more commits. A day
begins at ``day_ms`` (UTC); its live counts are those at its end."""

WHATIF_FAMILIES: Final = _SCENARIO + _columns("""
    family string, removed_offsets bigint, removed_groups bigint, missed_offsets bigint,
    live_offsets bigint, live_groups bigint
""")
"""The same by family of groups."""

LOSSES: Final = _SCENARIO + _columns("""
    group string, topic string, partition int, offset bigint, commit_timestamp_ms bigint,
    lost_at_ms bigint, rule string, ahead boolean, committed_again_ms bigint, lag bigint,
    replayed_records bigint, skipped_records bigint
""")
"""Every offset that a scenario loses, until the log ends or (``ahead``) within the horizon if
nobody commits any more. With auto.offset.reset=earliest a consumer that comes back then reads
``replayed_records`` again, with latest it never reads ``skipped_records``, the lag: both as the
log ends of the export tell, so they are known for what is ahead only."""

PARTITIONS: Final = _columns("""
    log_partition int, bytes bigint, records bigint, live_keys bigint, groups bigint,
    coordinator_moves bigint, first_offset bigint, last_offset bigint, newest_record_ms bigint
""")
"""One row a partition of ``__consumer_offsets``. ``bytes`` are those of its batches as stored,
``live_keys`` its committed offsets, ``groups`` those that have some; many records a live key show
that the log cleaner is behind."""

WRITERS: Final = _columns("""
    bucket_ms bigint, family string, groups bigint, commits bigint, records bigint, bytes bigint
""")
"""Who fills ``__consumer_offsets``: what groups wrote in the time bucket that starts at
``bucket_ms``. ``commits`` are offsets; ``records`` include null values and the groups' own;
``bytes`` are those of keys and values."""

TRANSACTIONS: Final = _columns("""
    group string, producer_id bigint, producer_epoch int, since_ms bigint, topics array<string>,
    partitions bigint
""")
"""Transactions that hold commits of a group at the end of the log: those of ``partitions``
offsets of ``topics``, the oldest of them since ``since_ms``."""

ORPHANS: Final = _columns("""
    group string, topic string, partition int, offset bigint, topic_id string, reason string
""")
"""Live offsets of topics that cluster.json lacks (topic-gone), or has under another id than that
of the commit (topic-recreated)."""

GAPS: Final = _columns("""
    family string, groups bigint, keys bigint, longest_gap_ms bigint, safe_retention_ms bigint
""")
"""Of committed offsets: the longest time between two commits of one, or from its last commit to its
expiry or the end of the log, and the smallest retention with which no check removes it meanwhile
(0: any does, the group held on to its offsets)."""

UPGRADES: Final = _columns("""
    group string, group_state string, live_offsets bigint, lost_offsets bigint, lost_topics bigint,
    oldest_commit_ms bigint
""")
"""Classic groups with members' metadata, as if they were KIP-848 groups: ``lost_offsets`` are
older than the retention, so they go at the first check after the last member has left. A classic
group keeps all of its offsets for the whole retention from then on."""

BLOBS: Final = _columns("partition int, kind string, data binary")
"""Rows of a kind of RECORDS, or of a table of that name, as an Arrow stream."""

CLEANUP: Final = _columns("group string, decision binary")
"""What ``tables.cleanup`` decides about a group; no table that a user sees."""


class Table(NamedTuple):
    """A table that users see; every log partition gives some of its rows."""

    columns: Schema
    option: str | None = None
    """The field of ``TableOptions`` without which there is no such table."""
    is_empty_if_blind: bool = False
    """Whether it has no rows if anything of ``missing_data.BLIND`` is missing."""
    by_driver: bool = False
    """Whether the driver builds it from small tables of all log partitions."""
    sum_by: tuple[str, ...] = ()
    """Rows that are equal in these columns are added up, ..."""
    max_of: tuple[str, ...] = ()
    """... with the greatest value of these."""

    @property
    def names(self) -> list[str]:
        """The column names, in order."""
        return names(self.columns)

    def arrow(self) -> Any:
        """The ``pyarrow.Schema``."""
        return arrow(self.columns)


TABLES: Final = {
    "live": Table(LIVE),
    "removals": Table(REMOVALS),
    "overdue": Table(OVERDUE, is_empty_if_blind=True),
    "whatif": Table(WHATIF, "scenarios", is_empty_if_blind=True, by_driver=True),
    "whatif_families": Table(
        WHATIF_FAMILIES,
        "scenarios",
        is_empty_if_blind=True,
        sum_by=("rules", "retention_ms", "check_interval_ms", "family"),
    ),
    "losses": Table(LOSSES, "scenarios", is_empty_if_blind=True),
    "groups": Table(GROUPS),
    "metrics": Table(METRICS, "bucket_ms", is_empty_if_blind=True, by_driver=True),
    "partitions": Table(PARTITIONS),
    "writers": Table(WRITERS, "bucket_ms", sum_by=("bucket_ms", "family")),
    "transactions": Table(TRANSACTIONS),
    "orphans": Table(ORPHANS),
    "gaps": Table(
        GAPS,
        "gaps",
        is_empty_if_blind=True,
        sum_by=("family",),
        max_of=("longest_gap_ms", "safe_retention_ms"),
    ),
    "upgrades": Table(UPGRADES, is_empty_if_blind=True),
    "quality": Table(QUALITY, by_driver=True),
}


def ddl(schema: Schema) -> str:
    """The schema as Spark's SQL spells it."""
    return ", ".join(f"`{name}` {kind}" for name, kind in schema)


def names(schema: Schema) -> list[str]:
    """The column names, in order."""
    return [name for name, _ in schema]


def arrow(schema: Schema) -> Any:
    """The ``pyarrow.Schema`` with the same columns."""
    import pyarrow as pa  # type: ignore[import-untyped]

    return pa.schema([(name, _arrow_type(kind)) for name, kind in schema])


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    simple = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
    }
    if kind.startswith("array<"):
        return pa.list_(_arrow_type(kind[len("array<") : -1]))
    if kind.startswith("struct<"):
        fields = re.findall(r"(\w+):(\w+(?:<[^<>]*>)?)", kind[len("struct<") : -1])
        return pa.struct([(name, _arrow_type(each)) for name, each in fields])
    return simple[kind]
