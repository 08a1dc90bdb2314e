"""The columns of ``list``, ``describe`` and ``explain``."""

from __future__ import annotations

from kgtool.columns import (
    FLAG_OR_NULL,
    INT,
    INT_OR_NULL,
    LAG,
    NAME,
    STATUS,
    TEXT,
    TEXT_OR_NULL,
    Column,
    Row,
    Text,
    age,
    duration,
    keys,
    machine,
    shown,
)
from kgtool.text import moment

NEVER, UNKNOWN, EARLIER = "never", "unknown", "earlier"


def committed_text(row: Row) -> str | None:
    """Return the cell of COMMITTED-AT; ``earlier`` was not read, because nothing depends on it."""
    at = row.get("committed_at_ms")
    if at is not None:
        return moment(at)
    return EARLIER if row.get("rule") is not None else None


def expires_text(row: Row) -> str | None:
    """Return the cell of EXPIRES-AT: a time, ``never`` (as things stand) or ``unknown``."""
    at = row.get("expires_at_ms")
    if at is not None:
        return moment(at)
    if row.get("rule") is not None:
        return NEVER
    return UNKNOWN if row.get("current_offset") is not None else None


def _coordinator(row: Row) -> str | None:
    broker = row.get("coordinator")
    return None if broker is None else f"{broker} ({row.get('coordinator_id')})"


def _all(key: str) -> Text:
    return lambda row: "(all)" if row[key] is None else row[key]


def _type(row: Row) -> str:
    kind = row.get("type")
    return kind[:1].upper() + kind[1:] if kind else "Unknown"


GROUP = Column("group", "GROUP", NAME, json=TEXT)
TOPIC = Column("topic", "TOPIC", NAME, json=TEXT)
PARTITION = Column("partition", "PARTITION", json=INT)
RULE = Column("rule", "RULE")
EXPIRES = Column("expires_at_ms", "EXPIRES-AT", text=expires_text, json=INT_OR_NULL)
TYPE = Column("type", "TYPE", text=_type)
TIME_LAG = Column("lag_ms", "TIME-LAG", text=age("lag_ms"), json=INT_OR_NULL)

LIST = (
    GROUP,
    TYPE,
    Column("state", "STATE", STATUS, text=lambda row: row.get("state") or "Unknown"),
    Column(
        "protocol_type",
        "PROTOCOL",
        NAME,
        text=lambda row: row.get("protocol_type") or None,
        spare=1,
    ),
    Column("coordinator", "COORDINATOR", json=INT),
)
EXPIRING = (*LIST, Column("expiring_offsets", "EXPIRING", json=INT), EXPIRES, RULE)
"""Of ``list --expiring-within``."""

OFFSETS = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("current_offset", "CURRENT-OFFSET", spare=7, json=INT_OR_NULL),
    Column("log_start_offset", "LOG-START-OFFSET", json=INT_OR_NULL),
    Column("log_end_offset", "LOG-END-OFFSET", spare=6, json=INT_OR_NULL),
    Column("lag", "LAG", LAG, json=INT_OR_NULL),
    TIME_LAG,
    Column("leader_epoch", "LEADER-EPOCH", json=INT_OR_NULL),
    Column("metadata", "METADATA", NAME, lambda row: row.get("metadata") or None, spare=4),
    Column("member_id", "CONSUMER-ID", NAME, spare=3),
    Column("host", "HOST", NAME, spare=2),
    Column("client_id", "CLIENT-ID", NAME, spare=1),
    Column("subscribed", "SUBSCRIBED", spare=5, json=FLAG_OR_NULL),
    Column(
        "status", "STATUS", STATUS, json=TEXT,
        words=(
            "ok", "no-commit", "beyond-end", "before-start", "unknown-topic", "no-leader",
            "pending-transaction", "denied", "error",
        ),
    ),
)  # fmt: skip
STABLE_END = Column("last_stable_offset", "LAST-STABLE-OFFSET", json=INT_OR_NULL)
"""Of ``--read-committed``."""
EXPIRY = (
    Column("committed_at_ms", "COMMITTED-AT", text=committed_text, spare=8, json=INT_OR_NULL),
    EXPIRES,
    RULE,
)
OFFSETS_TEXT = shown(
    (*OFFSETS, STABLE_END, *EXPIRY),
    "group topic partition leader_epoch current_offset log_start_offset log_end_offset "
    "last_stable_offset lag lag_ms metadata member_id host client_id subscribed status "
    "committed_at_ms expires_at_ms rule",
)
"""In the order of Kafka's table."""
MEMBERS = (
    GROUP,
    Column("consumer_id", "CONSUMER-ID", NAME, spare=6, json=TEXT),
    Column("group_instance_id", "GROUP-INSTANCE-ID", NAME, spare=5),
    Column("host", "HOST", NAME, spare=2, json=TEXT),
    Column("client_id", "CLIENT-ID", NAME, spare=1, json=TEXT),
    Column("partitions", "#PARTITIONS", json=INT),
    Column("current_epoch", "CURRENT-EPOCH", json=INT_OR_NULL),
    Column("current_assignment", "CURRENT-ASSIGNMENT", NAME, spare=4),
    Column("target_epoch", "TARGET-EPOCH", json=INT_OR_NULL),
    Column("target_assignment", "TARGET-ASSIGNMENT", NAME, spare=3),
    Column("upgraded", "UPGRADED", json=FLAG_OR_NULL),
)
STATE = (
    GROUP,
    Column("coordinator", "COORDINATOR (ID)", NAME, _coordinator, spare=2),
    Column("coordinator_id", "COORDINATOR-ID", json=INT_OR_NULL),
    Column("assignment_strategy", "ASSIGNMENT-STRATEGY", NAME, spare=1),
    Column("state", "STATE", STATUS),
    Column("group_epoch", "GROUP-EPOCH", json=INT_OR_NULL),
    Column("target_assignment_epoch", "TARGET-ASSIGNMENT-EPOCH", json=INT_OR_NULL),
    Column("members", "#MEMBERS", json=INT),
)
STATE_TYPE = Column(
    "type", "TYPE", text=lambda row: "Classic" if row.get("group_epoch") is None else "Consumer"
)
"""Of a row of ``STATE``, for people: only KIP-848 groups have epochs, and the other types have
tables of their own."""
TOTALS = (
    Column("group", "GROUP", NAME, text=_all("group")),
    Column("topic", "TOPIC", NAME, text=_all("topic")),
    Column("partitions", "PARTITIONS", json=INT),
    Column("lagging", "LAGGING", json=INT),
    Column("unknown", "UNKNOWN", json=INT),
    Column("lag", "LAG", LAG, json=INT),
    TIME_LAG,
)
_SUMS = (
    Column("partitions", "PARTITIONS", json=INT),
    Column("lag", "LAG", LAG, json=INT),
    Column("max_lag", "MAX-LAG", json=INT_OR_NULL),
    TIME_LAG,
)
BY_GROUP = (GROUP, *_SUMS)
BY_TOPIC = (TOPIC, *_SUMS)
CHANGE = Column("change", "CHANGE", NAME)
"""Of ``--watch``, as are these."""


def _rate(key: str) -> Text:
    def text(row: Row) -> str | None:
        rate = row.get(key)
        return None if rate is None else f"{rate:.0f}" if abs(rate) >= 10 else f"{rate:g}"

    return text


def _catch_up(row: Row) -> str | None:
    if row.get("catch_up_ms") is not None:
        return duration(row["catch_up_ms"]) if row["catch_up_ms"] else None
    came, went = row.get("in_per_s"), row.get("out_per_s")
    if came is None or went is None or not row.get("lag"):
        return None
    return "falling behind" if went < came else "never"


RATES = (
    Column("in_per_s", "IN/S", text=_rate("in_per_s"), spare=7, json="number?"),
    Column("out_per_s", "OUT/S", text=_rate("out_per_s"), spare=8, json="number?"),
    Column("catch_up_ms", "CATCH-UP", text=_catch_up, spare=9, json=INT_OR_NULL),
)

# -- share and streams groups ---------------------------------------------------------------------

_MORE_OFFSETS = (
    Column("type", json=TEXT, words=("share", "streams")),
    Column("start_offset", "START-OFFSET", json=INT_OR_NULL),
)
OTHER_OFFSETS = (*OFFSETS, *_MORE_OFFSETS)
"""JSON rows; the tables below are what people see of them."""
_TOPOLOGY = Column("topology_epoch", "TOPOLOGY-EPOCH", json=INT_OR_NULL)
_PROCESS = Column("process_id", "PROCESS", NAME, spare=2)
_KIND = Column("type", json=TEXT, words=("share", "streams"))
OTHER_MEMBERS = (*MEMBERS, _KIND, _PROCESS, _TOPOLOGY)
OTHER_STATE = (*STATE, TYPE, _TOPOLOGY, Column("subtopologies", json=INT_OR_NULL))


def _renamed(known: tuple[Column, ...], names: str, **headers: str) -> tuple[Column, ...]:
    """Return columns of the text table, some of them under another name."""
    return tuple(
        column._replace(header=headers.get(column.key, column.header))
        for column in shown(known, names)
    )


SHARE_OFFSETS = shown(
    OTHER_OFFSETS, "group topic partition leader_epoch start_offset log_end_offset lag status"
)
STREAMS_OFFSETS = _renamed(
    OTHER_OFFSETS,
    "group topic partition leader_epoch current_offset log_end_offset lag member_id client_id "
    "status",
    member_id="MEMBER",
)
SHARE_MEMBERS = _renamed(
    OTHER_MEMBERS,
    "group consumer_id host client_id partitions current_epoch current_assignment",
    current_epoch="MEMBER-EPOCH", current_assignment="ASSIGNMENT",
)  # fmt: skip
STREAMS_MEMBERS = _renamed(
    OTHER_MEMBERS,
    "group consumer_id host client_id process_id topology_epoch current_epoch current_assignment "
    "target_assignment",
    consumer_id="MEMBER", current_epoch="MEMBER-EPOCH", current_assignment="TASKS",
    target_assignment="TARGET-TASKS",
)  # fmt: skip
OTHER_STATES = _renamed(
    OTHER_STATE,
    "group type coordinator assignment_strategy state group_epoch target_assignment_epoch "
    "topology_epoch members",
    target_assignment_epoch="ASSIGNMENT-EPOCH",
)

# -- explain --------------------------------------------------------------------------------------

_ACTION = machine(allowed="boolean", error="error?")
EXPLAIN = (
    GROUP,
    Column("exists", json="boolean"),
    TYPE,
    *machine(state=TEXT_OR_NULL, state_since_ms=INT_OR_NULL, protocol_type=TEXT_OR_NULL),
    *machine(coordinator=INT_OR_NULL, offsets_partition=INT_OR_NULL),
    Column(
        "members", json="rows",
        inner=machine(
            member_id=TEXT, instance_id=TEXT_OR_NULL, client_id=TEXT, host=TEXT, partitions=INT,
            subscribed="strings?", subscribed_regex=TEXT_OR_NULL,
        ),
    ),
    Column(
        "topics", json="rows",
        inner=(
            TOPIC,
            Column("offsets", "OFFSETS", json=INT),
            Column("subscribed", json=FLAG_OR_NULL),
            Column("holders", json="strings"),
            Column("delete-offsets", json="object", inner=_ACTION),
        ),
    ),
    Column(
        "offsets", json="rows?",
        inner=(TOPIC, PARTITION, Column("current_offset", "OFFSET", json=INT), *EXPIRY),
    ),
    Column(
        "actions", json="object",
        inner=(
            Column("delete", json="object", inner=_ACTION),
            Column("reset-offsets", json="object", inner=_ACTION),
        ),
    ),
    *machine(retention_ms=INT_OR_NULL, check_interval_ms=INT_OR_NULL, rules=TEXT_OR_NULL),
    *machine(next_expires_at_ms=INT_OR_NULL),
    Column(
        "removals", json="rows?",
        inner=machine(
            topic=TEXT_OR_NULL, partition=INT_OR_NULL, removed_at_ms=INT, cause=TEXT,
            expires_at_ms=INT_OR_NULL, latency_ms=INT_OR_NULL,
        ),
    ),
    Column("removals_since_ms", json=INT_OR_NULL),
    Column(
        "missing_acls", json="rows",
        inner=machine(operation=TEXT, resource_type=TEXT, resource=TEXT, purpose=TEXT),
    ),
    Column("next", json="strings"),
)  # fmt: skip

EXPIRY_KEYS = keys(EXPIRY)
