"""The columns of ``list``, ``describe``, ``doctor`` and ``explain``."""

from __future__ import annotations

from kgtool.columns import (
    COUNT,
    LAG,
    NAME,
    STATUS,
    Column,
    Row,
    Text,
    duration,
    keys,
    machine,
    shown,
    written,
)
from kgtool.text import moment

NEVER, UNKNOWN, EARLIER = "never", "unknown", "earlier"


def committed_text(row: Row) -> str | None:
    """Return the cell of COMMITTED-AT; ``earlier``: not read, because nothing depends on it."""
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


def type_name(type_: str | None) -> str:
    """Return a group's type as Kafka's tool writes it."""
    return type_[:1].upper() + type_[1:] if type_ else "Unknown"


def _unusual_protocol(row: Row) -> str | None:
    """Return the cell of PROTOCOL: only where it is not that of the group's type."""
    protocol = row.get("protocol_type") or None
    return None if protocol in ("consumer", row.get("type")) else protocol


GROUP = Column("group", "GROUP", NAME, json="string")
TOPIC = Column("topic", "TOPIC", NAME, json="string")
PARTITION = Column("partition", "PARTITION", json="integer")
RULE = Column("rule", "RULE")
EXPIRES = Column("expires_at_ms", "EXPIRES-AT", text=expires_text, json="integer?")
TYPE = Column("type", "TYPE", text=lambda row: type_name(row.get("type")))
TIME_LAG = Column("lag_ms", "TIME-LAG", text=written("lag_ms", duration), json="integer?")
LOST_AT = Column("lost_at_ms", "LOST-AT", text=written("lost_at_ms", moment), json="integer?")

LIST = (
    GROUP,
    TYPE,
    Column("state", "STATE", STATUS, text=lambda row: row.get("state") or "Unknown"),
    Column("protocol_type", "PROTOCOL", NAME, _unusual_protocol, 1),
    Column("coordinator", "COORDINATOR", COUNT, spare=3, json="integer"),
)
LIST_MEMBERS = Column("members", "MEMBERS", COUNT, spare=2, json="integer?")
LIST_TEXT = (*LIST[:3], LIST_MEMBERS, *LIST[3:])
"""The table, and what ``--columns`` chooses from: members cost a request for each coordinator."""
EXPIRING = (*LIST, Column("expiring_offsets", "EXPIRING", json="integer"), EXPIRES, RULE)
"""Of ``list --expiring-within``."""


def _topics(row: Row) -> str | None:
    topics = row.get("subscribed_topics")
    return None if topics is None else ", ".join(topics)


def _rate(rate: float) -> str:
    return f"{rate:.0f}" if abs(rate) >= 10 else f"{rate:.2g}"


def _eta(row: Row) -> str | None:
    """Return the cell of ETA; ``-``: nothing is left to read, or it is not known."""
    if row.get("stuck_since_ms") is not None:
        return "stuck"
    if row.get("eta_ms") is not None:
        return duration(row["eta_ms"]) if row["eta_ms"] else None
    produced, consumed = row.get("in_per_s"), row.get("out_per_s")
    if produced is None or consumed is None or not row.get("lag") or consumed > produced:
        return None
    return "falling behind" if consumed < produced else "never"


RATES = (
    Column("in_per_s", "IN/S", text=written("in_per_s", _rate), json="number?"),
    Column("out_per_s", "OUT/S", text=written("out_per_s", _rate), json="number?"),
    Column("eta_ms", "ETA", text=_eta, json="integer?"),
)
STUCK = Column(
    "stuck_since_ms",
    "STUCK-SINCE",
    text=written("stuck_since_ms", moment),
    spare=9,
    json="integer?",
)
FIRST_RATES = (*RATES, STUCK)
"""Of ``--rates``; ``--watch`` has the first three."""


OFFSETS = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("current_offset", "CURRENT-OFFSET", spare=7, json="integer?"),
    Column("log_start_offset", "LOG-START-OFFSET", json="integer?"),
    Column("log_end_offset", "LOG-END-OFFSET", spare=6, json="integer?"),
    Column("lag", "LAG", LAG, json="integer?"),
    Column("readable", "READABLE", COUNT, spare=8, json="integer?"),
    TIME_LAG,
    Column("leader_epoch", "LEADER-EPOCH", json="integer?"),
    Column("metadata", "METADATA", NAME, lambda row: row.get("metadata") or None, spare=4),
    Column("member_id", "CONSUMER-ID", NAME, spare=3),
    Column("host", "HOST", NAME, spare=2),
    Column("client_id", "CLIENT-ID", NAME, spare=1),
    Column("subscribed", "SUBSCRIBED", spare=5, json="boolean?"),
    Column(
        "status",
        "STATUS",
        STATUS,
        json="string",
        words=(
            "ok",
            "no-commit",
            "beyond-end",
            "before-start",
            "unknown-topic",
            "no-leader",
            "pending-transaction",
            "denied",
            "error",
        ),
    ),
    LOST_AT,
)
STABLE_END = Column("last_stable_offset", "LAST-STABLE-OFFSET", json="integer?")
"""Of ``--read-committed``."""
EXPIRY = (
    Column("committed_at_ms", "COMMITTED-AT", text=committed_text, spare=8, json="integer?"),
    EXPIRES,
    RULE,
)
OFFSETS_TEXT = shown(
    (*OFFSETS, STABLE_END, *EXPIRY, *FIRST_RATES),
    "group topic partition leader_epoch current_offset log_start_offset log_end_offset "
    "last_stable_offset lag readable lag_ms lost_at_ms in_per_s out_per_s eta_ms stuck_since_ms "
    "metadata member_id host client_id subscribed status committed_at_ms expires_at_ms rule",
)
"""In the order of Kafka's table."""
MEMBERS = (
    GROUP,
    Column("consumer_id", "CONSUMER-ID", NAME, spare=5, json="string"),
    Column("group_instance_id", "GROUP-INSTANCE-ID", NAME, spare=5),
    Column("host", "HOST", NAME, spare=1, json="string"),
    Column("client_id", "CLIENT-ID", NAME, spare=6, json="string"),
    Column("partitions", "#PARTITIONS", json="integer?"),
    Column("current_epoch", "CURRENT-EPOCH", spare=3, json="integer?"),
    Column("current_assignment", "CURRENT-ASSIGNMENT", NAME, spare=8),
    Column("target_epoch", "TARGET-EPOCH", spare=3, json="integer?"),
    Column("target_assignment", "TARGET-ASSIGNMENT", NAME, spare=3),
    Column("subscribed_topics", "SUBSCRIBED-TOPICS", NAME, _topics, spare=4, json="strings?"),
    Column("subscribed_regex", "SUBSCRIBED-REGEX", NAME, spare=4),
    Column("assignor", "ASSIGNOR", NAME, spare=2),
    Column("rack", "RACK", NAME, spare=2),
    Column("upgraded", "UPGRADED", json="boolean?"),
)
SUBSCRIPTION = ("subscribed_topics", "subscribed_regex", "assignor", "rack")
"""Keys of members that Kafka's table has no columns for."""
STATE = (
    GROUP,
    Column("coordinator", "COORDINATOR (ID)", NAME, _coordinator, spare=2),
    Column("coordinator_id", "COORDINATOR-ID", json="integer?"),
    Column("assignment_strategy", "ASSIGNMENT-STRATEGY", NAME, spare=1),
    Column("state", "STATE", STATUS),
    Column("group_epoch", "GROUP-EPOCH", json="integer?"),
    Column("target_assignment_epoch", "TARGET-ASSIGNMENT-EPOCH", json="integer?"),
    Column("members", "#MEMBERS", json="integer"),
)
STATE_TYPE = Column(
    "type", "TYPE", text=lambda row: "Classic" if row.get("group_epoch") is None else "Consumer"
)
"""In the text table: only KIP-848 groups have epochs, and other types have their own tables."""
TOTALS = (
    Column("group", "GROUP", NAME, text=_all("group")),
    Column("topic", "TOPIC", NAME, text=_all("topic")),
    Column("partitions", "PARTITIONS", json="integer"),
    Column("lagging", "LAGGING", json="integer"),
    Column("unknown", "UNKNOWN", json="integer"),
    Column("lag", "LAG", LAG, json="integer"),
    TIME_LAG,
)
_SUMS = (
    Column("partitions", "PARTITIONS", spare=2, json="integer"),
    Column("lag", "LAG", LAG, json="integer"),
    Column("max_lag", "MAX-LAG", COUNT, spare=3, json="integer?"),
    TIME_LAG,
)
BY_GROUP = (
    GROUP,
    Column("state", "STATE", STATUS),
    Column("members", "MEMBERS", COUNT, spare=1, json="integer"),
    *_SUMS,
    LOST_AT,
)
"""Also the first view of ``lag``."""
BY_GROUP_TEXT = (*BY_GROUP, *FIRST_RATES)
BY_TOPIC = (TOPIC, *_SUMS)
CHANGE = Column("change", "CHANGE", NAME)
"""Of ``--watch``."""

# -- share and streams groups ---------------------------------------------------------------------

_KIND = Column("type", json="string", words=("share", "streams"))
OTHER_OFFSETS = (*OFFSETS, _KIND, Column("start_offset", "START-OFFSET", json="integer?"))
"""Of JSON rows; the text tables are below."""
_TOPOLOGY = Column("topology_epoch", "TOPOLOGY-EPOCH", json="integer?")
OTHER_MEMBERS = (*MEMBERS, _KIND, Column("process_id", "PROCESS", NAME, spare=2), _TOPOLOGY)
OTHER_STATE = (*STATE, TYPE, _TOPOLOGY, Column("subtopologies", json="integer?"))


SHARE_OFFSETS = shown(
    OTHER_OFFSETS, "group topic partition leader_epoch start_offset log_end_offset lag status"
)
STREAMS_OFFSETS = shown(
    OTHER_OFFSETS,
    "group topic partition leader_epoch current_offset log_end_offset lag member_id client_id "
    "status",
    member_id="MEMBER",
)
SHARE_MEMBERS = shown(
    OTHER_MEMBERS,
    "group consumer_id host client_id partitions current_epoch current_assignment",
    current_epoch="MEMBER-EPOCH",
    current_assignment="ASSIGNMENT",
)
STREAMS_MEMBERS = shown(
    OTHER_MEMBERS,
    "group consumer_id host client_id process_id topology_epoch current_epoch current_assignment "
    "target_assignment",
    consumer_id="MEMBER",
    current_epoch="MEMBER-EPOCH",
    current_assignment="TASKS",
    target_assignment="TARGET-TASKS",
)
OTHER_STATES = shown(
    OTHER_STATE,
    "group type coordinator assignment_strategy state group_epoch target_assignment_epoch "
    "topology_epoch members",
    target_assignment_epoch="ASSIGNMENT-EPOCH",
)

# -- topology -------------------------------------------------------------------------------------


def _place(row: Row) -> str | None:
    """Return the cell of NAME: a topic, the client that has tasks, or a node."""
    return row.get("topic") or row.get("client_id") or row.get("node")


def _detail(row: Row) -> str | None:
    """Return the cell of TASKS-OR-NEXT: task numbers, or a node's topics, stores and successors."""
    if row.get("tasks") is not None:
        return ",".join(map(str, row["tasks"]))
    parts = (("topics", ""), ("stores", "stores "), ("successors", "-> "))
    return "; ".join(word + ",".join(row[key]) for key, word in parts if row.get(key)) or None


TOPOLOGY = (
    GROUP,
    _TOPOLOGY,
    Column("subtopology", "SUBTOPOLOGY", json="string"),
    Column(
        "role",
        "ROLE",
        json="string",
        words=(
            *("source", "repartition-source", "repartition-sink", "changelog"),
            *("active", "standby", "warmup"),
            *("source-node", "processor-node", "sink-node", "node"),
            *("global-source-node", "global-processor-node"),
        ),
    ),
    Column("topic"),
    Column("partitions", "PARTITIONS", json="integer?"),
    Column("replication_factor", json="integer?"),
    *machine(member_id="string?", client_id="string?", host="string?", tasks="integers?"),
    *machine(node="string?", topics="strings?", stores="strings?", successors="strings?"),
)
"""Of ``describe --topology``: a row for each topic, member with tasks, and stored node."""
TOPOLOGY_TEXT = (
    GROUP,
    *TOPOLOGY[2:4],
    Column("topic", "NAME", NAME, _place),
    TOPOLOGY[5],
    Column("tasks", "TASKS", NAME, _detail, json="integers?"),
)

# -- explain --------------------------------------------------------------------------------------

_ACTION = machine(allowed="boolean", error="error?")
EXPLAIN_MEMBER = machine(
    member_id="string",
    instance_id="string?",
    client_id="string",
    host="string",
    partitions="integer?",
    subscribed="strings?",
    subscribed_regex="string?",
)
EXPLAIN_TOPIC = (
    TOPIC,
    Column("offsets", "OFFSETS", json="integer"),
    Column("subscribed", json="boolean?"),
    Column("holders", json="strings"),
    Column("delete-offsets", json="object", inner=_ACTION),
)
EXPLAIN_OFFSET = (TOPIC, PARTITION, Column("current_offset", "OFFSET", json="integer"), *EXPIRY)
EXPLAIN_REMOVAL = machine(
    topic="string?",
    partition="integer?",
    removed_at_ms="integer",
    cause="string?",
    expires_at_ms="integer?",
    latency_ms="integer?",
    offset="integer?",
    commit_timestamp_ms="integer?",
    rule="string?",
)
DOCTOR = (
    Column("finding", json="string"),
    Column("severity", json="string", words=("problem", "warning", "note")),
    *machine(group="string?", topic="string?", partition="integer?", broker="integer?"),
    *machine(message="string", evidence="object", fix="string?"),
)
FINDINGS = machine(finding="string", title="string", meaning="string")
"""Of ``doctor --findings``."""

EXPLAIN = (
    GROUP,
    Column("findings", json="rows", inner=DOCTOR),
    Column("exists", json="boolean"),
    TYPE,
    *machine(state="string?", state_since_ms="integer?", protocol_type="string?"),
    *machine(coordinator="integer?", offsets_partition="integer?"),
    Column("members", json="rows", inner=EXPLAIN_MEMBER),
    Column("topics", json="rows", inner=EXPLAIN_TOPIC),
    Column("offsets", json="rows?", inner=EXPLAIN_OFFSET),
    Column(
        "actions",
        json="object",
        inner=(
            Column("delete", json="object", inner=_ACTION),
            Column("reset-offsets", json="object", inner=_ACTION),
        ),
    ),
    *machine(retention_ms="integer?", check_interval_ms="integer?", rules="string?"),
    *machine(next_expires_at_ms="integer?"),
    Column("removals", json="rows?", inner=EXPLAIN_REMOVAL),
    Column("removals_since_ms", json="integer?"),
    Column(
        "missing_acls",
        json="rows",
        inner=machine(
            operation="string", resource_type="string", resource="string", purpose="string"
        ),
    ),
    Column("next", json="strings"),
)

EXPIRY_KEYS = keys(EXPIRY)
