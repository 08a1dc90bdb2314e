"""The columns of every frame, declared once.

Each schema is a list of ``(name, type)`` with Spark's SQL type names; ``ddl`` turns one into what
``mapInArrow`` wants, ``arrow`` into the schema that the Arrow batches have.
"""

from __future__ import annotations

from typing import Any, Final

Schema = tuple[tuple[str, str], ...]

KIND_OFFSET: Final = "offset"
KIND_GROUP: Final = "group"
KIND_MARKER: Final = "marker"
KIND_QUALITY: Final = "quality"
KIND_COUNT: Final = "count"

SPLITS: Final[Schema] = (
    ("path", "string"),
    ("partition", "int"),
    ("start", "bigint"),
    ("end", "bigint"),
)
"""Byte ranges of segments, cut between record batches."""

GROUP_DETAIL: Final[Schema] = (
    ("protocol_type", "string"),
    ("generation", "int"),
    ("state_since_ms", "bigint"),
    ("members", "int"),
    ("member", "string"),
    ("topics", "array<string>"),
    ("regex", "string"),
)
"""What a group's own record says; which fields are set depends on the key type. ``topics`` is
null where a subscription is not known."""

RECORDS: Final[Schema] = (
    ("kind", "string"),
    ("partition", "int"),
    ("log_offset", "bigint"),
    ("base_offset", "bigint"),
    ("timestamp_ms", "bigint"),
    ("key_type", "int"),
    ("group", "string"),
    ("tombstone", "boolean"),
    # offsets: null producer_id is an ordinary commit; commits counts the records that the row
    # stands for (superseded ones are dropped while decoding); creates_group marks the first
    # commit of its group that a chunk, or a chunk behind a group's tombstone, has
    ("producer_id", "bigint"),
    ("topic", "string"),
    ("topic_partition", "int"),
    ("offset", "bigint"),
    ("commit_timestamp_ms", "bigint"),
    ("expire_timestamp_ms", "bigint"),
    ("topic_id", "string"),
    ("commits", "bigint"),
    # when the first of those was made
    ("first_ms", "bigint"),
    ("creates_group", "boolean"),
    # the group's own records
    ("detail", "struct<" + ",".join(f"{n}:{t}" for n, t in GROUP_DETAIL) + ">"),
    # transaction markers
    ("committed", "boolean"),
    # count: `commits` offsets were committed in the time bucket that starts at timestamp_ms
    # quality: what was read of path (reason null; log_offset to offset, records of them there),
    # or why `records` of it, or `bytes` at `position`, were not; of offsets and groups `bytes` is
    # the size of the record's key and value
    ("path", "string"),
    ("reason", "string"),
    ("records", "bigint"),
    ("position", "bigint"),
    ("bytes", "bigint"),
    ("damage", "boolean"),
)
"""One row for each record that matters, and the notes about each file."""

TIMELINE: Final[Schema] = (
    ("partition", "int"),
    ("group", "string"),
    ("log_offset", "bigint"),
    ("timestamp_ms", "bigint"),
    ("known", "boolean"),
    ("group_type", "string"),
    ("group_state", "string"),
    ("protocol_type", "string"),
    ("generation", "int"),
    ("state_since_ms", "bigint"),
    ("entered_ms", "bigint"),
    ("topics", "array<string>"),
    ("judged_since_ms", "bigint"),
    ("released", "map<string,bigint>"),
    ("dated_before_ms", "bigint"),
    ("dated_until_ms", "bigint"),
    ("converted_from", "bigint"),
    ("converted_at_once", "boolean"),
)
"""A group's state from one log offset on. ``known`` is false where the coordinator does not have
the group; ``state_since_ms`` is currentStateTimestamp, ``entered_ms`` the time of the record that
brought the state; ``topics`` null means not known. An offset of a topic has been judged by its
time alone since ``released[topic]``, or else since ``judged_since_ms`` (null: always).
Until ``dated_until_ms`` all offsets shared a date, ``dated_before_ms``, that no longer counts.
``converted_from`` is the log offset of the tombstone that ended this group's life as another type,
``converted_at_once`` whether that was in the same write."""

LIVE: Final[Schema] = (
    ("group", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("offset", "bigint"),
    ("commit_timestamp_ms", "bigint"),
    ("expire_timestamp_ms", "bigint"),
    ("topic_id", "string"),
    ("group_type", "string"),
    ("group_state", "string"),
    ("state_since_ms", "bigint"),
    ("subscribed", "boolean"),
    ("pending_transaction", "boolean"),
    ("rule", "string"),
    ("expires_at_ms", "bigint"),
)
"""Every committed offset at the end of the log."""

REMOVALS: Final[Schema] = (
    ("group", "string"),
    ("topic", "string"),
    ("partition", "int"),
    ("removed_at_ms", "bigint"),
    ("cause", "string"),
    ("expires_at_ms", "bigint"),
    ("latency_ms", "bigint"),
)
"""Every tombstone of an offset or a group."""

QUALITY: Final[Schema] = (
    ("path", "string"),
    ("partition", "int"),
    ("bytes", "bigint"),
    ("records", "bigint"),
    ("decoded", "bigint"),
    ("skipped", "bigint"),
    ("damaged", "boolean"),
    ("first_offset", "bigint"),
    ("last_offset", "bigint"),
    (
        "problems",
        "array<struct<reason:string,records:bigint,bytes:bigint,position:bigint,damage:boolean>>",
    ),
)
"""One row a file."""

TABLES: Final = {"live": LIVE, "removals": REMOVALS, "quality": QUALITY}


def ddl(schema: Schema) -> str:
    """The schema as Spark's SQL spells it."""
    return ", ".join(f"`{name}` {kind}" for name, kind in schema)


def names(schema: Schema) -> list[str]:
    """The column names, in order."""
    return [name for name, _ in schema]


def arrow(schema: Schema) -> Any:
    """The ``pyarrow.Schema`` with the same columns."""
    import pyarrow as pa  # type: ignore[import-untyped]

    details = pa.struct([(name, _arrow_type(kind)) for name, kind in GROUP_DETAIL])
    fields = [
        (name, details if kind.startswith("struct<") else _arrow_type(kind))
        for name, kind in schema
    ]
    return pa.schema(fields)


def _arrow_type(kind: str) -> Any:
    import pyarrow as pa

    simple = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "array<string>": pa.list_(pa.string()),
        "map<string,bigint>": pa.map_(pa.string(), pa.int64()),
    }
    return simple[kind]
