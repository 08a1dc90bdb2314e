"""The columns of coordinator, peek, doctor, request, and of commands about this machine."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from kgtool.columns import NAME, Column, Results, Row, Text, machine, shown, written
from kgtool.columns.changes import ERROR
from kgtool.columns.groups import GROUP, PARTITION, TOPIC
from kgtool.text import moment

# -- coordinator ----------------------------------------------------------------------------------


def _joined(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


def _yes(key: str, no: str) -> Text:
    return lambda row: "yes" if row[key] else no


def _address(row: Row) -> str | None:
    return None if row["host"] is None else f"{row['host']}:{row['port']}"


COORDINATOR = (
    GROUP,
    Column("hash", json="integer"),
    Column("partition", "PARTITION", json="integer?"),
    Column("coordinator", "COORDINATOR", json="integer?"),
    Column("host", "ADDRESS", NAME, _address),
    Column("port", json="integer?"),
    Column("leader", "LEADER", json="integer?"),
    Column("leader_epoch", json="integer?"),
    Column("replicas", "REPLICAS", text=written("replicas", _joined), spare=1, json="integers?"),
    Column("isr", "ISR", text=written("isr", _joined), json="integers?"),
    Column("loading", "LOADING", json="boolean?"),
    ERROR,
)
COORDINATOR_TEXT = shown(
    COORDINATOR, "group partition coordinator host leader isr replicas loading"
)

# -- peek -----------------------------------------------------------------------------------------

NULL = "(null)"


def _decoded(key: str) -> Text:
    def text(row: Row) -> str | None:
        value, encoding = row[key], row[f"{key}_encoding"]
        if encoding is None:
            return NULL
        if encoding == "json":
            return json.dumps(value)
        return f"0x{value}" if encoding == "hex" else value or '""'

    return text


def _headers(row: Row) -> str | None:
    found = []
    for header in row["headers"]:
        value = header["value"] if header["encoding"] is not None else NULL
        found.append(f"{header['name']}={'0x' if header['encoding'] == 'hex' else ''}{value}")
    return " ".join(found) or None


_ENCODINGS = ("text", "json", "hex")
PEEK = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("offset", "OFFSET", json="integer"),
    Column("committed_offset", json="integer"),
    Column("is_next", text=lambda row: "->" if row["is_next"] else "", json="boolean"),
    Column(
        "timestamp_ms",
        "TIME",
        json="integer?",
        text=written("timestamp_ms", partial(moment, precision="milliseconds")),
    ),
    Column("timestamp_type"),
    Column("leader_epoch", json="integer?"),
    Column("key", "KEY", NAME, _decoded("key"), json="any"),
    Column("key_encoding", words=_ENCODINGS),
    Column("value", "VALUE", NAME, _decoded("value"), json="any"),
    Column("value_encoding", words=_ENCODINGS),
    Column(
        "headers",
        "HEADERS",
        NAME,
        _headers,
        1,
        "rows",
        inner=(Column("name", json="string"), Column("value", json="any"), Column("encoding")),
    ),
)
PEEK_TEXT = shown(PEEK, "is_next offset timestamp_ms key headers value")

# -- request --------------------------------------------------------------------------------------


def _default(row: Row) -> str | None:
    value: Any = row["default"]
    return None if value in (None, [], {}) else json.dumps(value)


APIS = (
    Column("api", "API", json="string"),
    Column("api_key", "KEY", json="integer"),
    Column("versions", "VERSIONS", json="string"),
    Column("flexible", "FLEXIBLE"),
    Column("route", "GOES TO", json="string"),
    Column("changes", "CHANGES", text=_yes("changes", "-"), json="boolean"),
    Column("about", "WHAT IT IS", NAME, spare=1, json="string"),
)
FIELDS = (
    Column("message", json="string", words=("request", "response")),
    Column("depth", json="integer"),
    Column("field", "FIELD", NAME, lambda row: "  " * row["depth"] + row["field"], json="string"),
    Column("type", "TYPE", NAME, json="string"),
    Column("versions", "VERSIONS"),
    Column("nullable", "NULL"),
    Column("tag", "TAG", json="integer?"),
    Column("default", "DEFAULT", NAME, _default, json="any"),
    Column("ignorable", json="boolean"),
    Column("note", "NOTE", NAME, spare=1),
)
REQUEST = (
    *machine(api="string", api_key="integer", version="integer", broker="integer?"),
    *machine(request="any", response="any"),
    *machine(header_hex="string?", request_hex="string?", response_hex="string?"),
    ERROR,
)

# -- this machine ---------------------------------------------------------------------------------

REGEX = machine(regex="string", valid="boolean", message="string?")
EXPORT = machine(
    path="string", partitions="integer", bytes="integer", resumed="boolean", seconds="number"
)
CONTEXTS = (
    Column("context", "CONTEXT", NAME, json="string"),
    Column("current", "CURRENT", text=lambda row: "*" if row["current"] else None, json="boolean"),
    Column("bootstrap", "BOOTSTRAP", NAME, lambda row: row["bootstrap"] or row["command_config"]),
    Column("command_config"),
    Column("protected", "PROTECTED", text=_yes("protected", "no"), json="boolean"),
    Column("cluster_id", "CLUSTER", NAME, spare=1),
)
CONTEXT = (
    *CONTEXTS,
    *machine(user="string?", policy="string?", properties="object", secrets="object"),
)
"""Of ``context show``."""
SANDBOX = machine(
    name="string",
    state="string",
    bootstrap="string?",
    kafka_version="string?",
    cluster_id="string?",
    started_at_ms="integer?",
    directory="string?",
    seeded="boolean",
    brokers="rows",
)
VERSION = machine(version="string")

RESULTS = {
    "validate-regex": Results({"regex": REGEX}),
    "request": Results({"request": REQUEST, "apis": APIS, "fields": FIELDS}),
    "peek": Results({"records": PEEK}),
    "coordinator": Results({"groups": COORDINATOR}),
    "export": Results({"folder": EXPORT}),
    "analyze": Results({}, is_open=True),
    "context": Results({"contexts": CONTEXTS, "context": CONTEXT}),
    "sandbox": Results({"sandbox": SANDBOX}),
    "version": Results({"program": VERSION}),
    "exporter": Results({}),
    "mcp": Results({}),
}
"""``analyze`` prints its summary or one of its tables, servers print errors only."""
