"""The columns of the commands that look closer, and of those that are about this machine."""

from __future__ import annotations

import json
from typing import Any

from kgtool.columns import (
    FLAG,
    FLAG_OR_NULL,
    INT,
    INT_OR_NULL,
    NAME,
    PLAIN,
    TEXT,
    TEXT_OR_NULL,
    Column,
    Row,
    Text,
    machine,
    shown,
)
from kgtool.columns.changes import ERROR
from kgtool.columns.groups import GROUP, PARTITION, TOPIC
from kgtool.text import moment

# -- coordinator ----------------------------------------------------------------------------------


def _joined(key: str) -> Text:
    return lambda row: None if row[key] is None else ",".join(map(str, row[key]))


def _address(row: Row) -> str | None:
    return None if row["host"] is None else f"{row['host']}:{row['port']}"


COORDINATOR = (
    GROUP,
    Column("hash", json=INT),
    Column("partition", "PARTITION", json=INT_OR_NULL),
    Column("coordinator", "COORDINATOR", json=INT_OR_NULL),
    Column("host", "ADDRESS", NAME, _address),
    Column("port", json=INT_OR_NULL),
    Column("leader", "LEADER", json=INT_OR_NULL),
    Column("leader_epoch", json=INT_OR_NULL),
    Column("replicas", "REPLICAS", PLAIN, _joined("replicas"), 1, "integers?"),
    Column("isr", "ISR", PLAIN, _joined("isr"), json="integers?"),
    Column("loading", "LOADING", json=FLAG_OR_NULL),
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


def _time(row: Row) -> str | None:
    at_ms = row["timestamp_ms"]
    if at_ms is None:
        return None
    text = moment(at_ms)
    return f"{text[:-1]}.{at_ms % 1000:03d}Z" if text.endswith("Z") else text


_ENCODINGS = ("text", "json", "hex")
PEEK = (
    GROUP,
    TOPIC,
    PARTITION,
    Column("offset", "OFFSET", json=INT),
    Column("committed_offset", json=INT),
    Column("is_next", "", PLAIN, lambda row: "->" if row["is_next"] else "", json=FLAG),
    Column("timestamp_ms", "TIME", PLAIN, _time, json=INT_OR_NULL),
    Column("timestamp_type"),
    Column("leader_epoch", json=INT_OR_NULL),
    Column("key", "KEY", NAME, _decoded("key"), json="any"),
    Column("key_encoding", words=_ENCODINGS),
    Column("value", "VALUE", NAME, _decoded("value"), json="any"),
    Column("value_encoding", words=_ENCODINGS),
    Column("headers", "HEADERS", NAME, _headers, 1, "rows",
           inner=(Column("name", json=TEXT), Column("value", json="any"), Column("encoding"))),
)  # fmt: skip
PEEK_TEXT = shown(PEEK, "is_next offset timestamp_ms key headers value")

# -- doctor ---------------------------------------------------------------------------------------

DOCTOR = (
    Column("finding", json=TEXT),
    Column("severity", json=TEXT, words=("problem", "warning", "note")),
    *machine(group=TEXT_OR_NULL, topic=TEXT_OR_NULL, partition=INT_OR_NULL, broker=INT_OR_NULL),
    *machine(message=TEXT, evidence="object", fix=TEXT_OR_NULL),
)
FINDINGS = machine(finding=TEXT, title=TEXT, meaning=TEXT)
"""Of ``doctor --findings``."""

# -- request --------------------------------------------------------------------------------------


def _default(row: Row) -> str | None:
    value: Any = row["default"]
    return None if value in (None, [], {}) else json.dumps(value)


APIS = (
    Column("api", "API", json=TEXT),
    Column("api_key", "KEY", json=INT),
    Column("versions", "VERSIONS", json=TEXT),
    Column("flexible", "FLEXIBLE"),
    Column("route", "GOES TO", json=TEXT),
    Column("changes", "CHANGES", PLAIN, lambda row: "yes" if row["changes"] else "-", json=FLAG),
    Column("about", "WHAT IT IS", NAME, spare=1, json=TEXT),
)
FIELDS = (
    Column("message", json=TEXT, words=("request", "response")),
    Column("depth", json=INT),
    Column("field", "FIELD", NAME, lambda row: "  " * row["depth"] + row["field"], json=TEXT),
    Column("type", "TYPE", NAME, json=TEXT),
    Column("versions", "VERSIONS"),
    Column("nullable", "NULL"),
    Column("tag", "TAG", json=INT_OR_NULL),
    Column("default", "DEFAULT", NAME, _default, json="any"),
    Column("ignorable", json=FLAG),
    Column("note", "NOTE", NAME, spare=1),
)
REQUEST = (
    *machine(api=TEXT, api_key=INT, version=INT, broker=INT_OR_NULL, request="any", response="any"),
    *machine(header_hex=TEXT_OR_NULL, request_hex=TEXT_OR_NULL, response_hex=TEXT_OR_NULL),
    ERROR,
)

# -- this machine ---------------------------------------------------------------------------------

REGEX = machine(regex=TEXT, valid=FLAG, message=TEXT_OR_NULL)
EXPORT = machine(path=TEXT, partitions=INT, bytes=INT, resumed=FLAG, seconds="number")
CONTEXTS = (
    Column("context", "CONTEXT", NAME, json=TEXT),
    Column("current", "CURRENT", PLAIN, lambda row: "*" if row["current"] else None, json=FLAG),
    Column("bootstrap", "BOOTSTRAP", NAME,
           lambda row: row["bootstrap"] or row["command_config"]),
    Column("command_config"),
    Column("protected", "PROTECTED", PLAIN, lambda row: "yes" if row["protected"] else "no",
           json=FLAG),
    Column("cluster_id", "CLUSTER", NAME, spare=1),
)  # fmt: skip
CONTEXT = (
    *CONTEXTS,
    *machine(user=TEXT_OR_NULL, policy=TEXT_OR_NULL, properties="object", secrets="object"),
)
"""Of ``context show``."""
SANDBOX = machine(
    name=TEXT, state=TEXT, bootstrap=TEXT_OR_NULL, kafka_version=TEXT_OR_NULL,
    cluster_id=TEXT_OR_NULL, started_at_ms=INT_OR_NULL, directory=TEXT_OR_NULL, seeded=FLAG,
    brokers="rows",
)  # fmt: skip
VERSION = machine(version=TEXT)
