"""JSON Schemas of ``-o json``, one for each command, made of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kgtool.columns import Column, Results, changes, groups, tools

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ERROR = {"$ref": "#/$defs/error"}
_NULL = {"type": "null"}


_OFFSETS = {
    f"offsets{name}": (*first, *middle, *last, *rates)
    for kind, first in (("", groups.OFFSETS), ("-of-other-types", groups.OTHER_OFFSETS))
    for stable, middle in (("", ()), ("-read-committed", (groups.STABLE_END,)))
    for expiry, last in (("", ()), ("-expiry", groups.EXPIRY))
    for moving, rates in (("", ()), ("-rates", groups.FIRST_RATES))
    for name in [kind + stable + expiry + moving]
}
_DESCRIBE = Results(
    {
        **_OFFSETS,
        "members": groups.MEMBERS,
        "members-of-other-types": groups.OTHER_MEMBERS,
        "state": groups.STATE,
        "state-of-other-types": groups.OTHER_STATE,
        "topology": groups.TOPOLOGY,
        "totals": groups.TOTALS,
        "by-group": groups.BY_GROUP,
        "by-group-rates": groups.BY_GROUP_TEXT,
        "by-topic": groups.BY_TOPIC,
    },
    # The last of two with the same key applies: the one that may be null.
    chosen=sorted(
        (
            *(*groups.OFFSETS_TEXT, *groups.MEMBERS, *groups.STATE, *groups.TOTALS),
            *(*groups.BY_GROUP_TEXT, *groups.TOPOLOGY),
        ),
        key=lambda column: column.json.endswith("?"),
    ),
)
RESULTS: Mapping[str, Results] = {
    "list": Results(
        {"groups": groups.LIST, "expiring": groups.EXPIRING},
        (*groups.EXPIRING, groups.LIST_MEMBERS),
    ),
    "describe": _DESCRIBE,
    "lag": _DESCRIBE,
    "explain": Results({"groups": groups.EXPLAIN}),
    "doctor": Results({"findings": groups.DOCTOR, "kinds": groups.FINDINGS}),
    **changes.RESULTS,
    **tools.RESULTS,
}
"""By command."""


def schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of a command's document (contract, section 4)."""
    results = RESULTS[command]
    kinds = {kind: _object(columns) for kind, columns in results.kinds.items()}
    if results.chosen:
        kinds["chosen-columns"] = {**_object(results.chosen, needed=False), "minProperties": 1}
    if results.is_open:
        kinds["table-or-summary"] = {"type": "object"}
    rows = [{"$ref": f"#/$defs/{kind}"} for kind in kinds]
    return {
        "$schema": DIALECT,
        "title": f"kgtool {command} -o json",
        **_closed(
            {
                "command": {"const": command},
                "version": {"const": 1},
                "cluster_id": {"type": ["string", "null"]},
                "results": {
                    "type": "array",
                    **({"items": {"anyOf": rows}} if rows else {"maxItems": 0}),
                },
                "errors": {"type": "array", "items": _ERROR},
            }
        ),
        "$defs": {"error": _error(), **kinds},
    }


def _error() -> dict[str, Any]:
    text, number = {"type": ["string", "null"]}, {"type": ["integer", "null"]}
    target = {"group": text, "topic": text, "partition": number, "broker": number}
    word = {"type": "string"}
    return _closed(
        {"target": _closed(target), "code": number, "name": word, "message": word, "hint": text}
    )


def _object(columns: Sequence[Column], *, needed: bool = True) -> dict[str, Any]:
    return _closed({column.key: _value(column) for column in columns}, needed=needed)


def _closed(properties: dict[str, Any], *, needed: bool = True) -> dict[str, Any]:
    required = {"required": list(properties)} if needed else {}
    return {"type": "object", "properties": properties, **required, "additionalProperties": False}


def _value(column: Column) -> dict[str, Any]:
    kind = column.json.removesuffix("?")
    may_be_null = kind != column.json
    if column.words:
        words: list[str | None] = [*column.words, *([None] if may_be_null else [])]
        return {"enum": words}
    inner = _object(column.inner) if column.inner else {"type": "object"}
    special = {
        "any": {},
        "error": _ERROR,
        "object": inner,
        "rows": {"type": "array", "items": inner},
        "strings": {"type": "array", "items": {"type": "string"}},
        "integers": {"type": "array", "items": {"type": "integer"}},
    }
    if kind in special:
        return {"anyOf": [special[kind], _NULL]} if may_be_null else special[kind]
    return {"type": [kind, "null"] if may_be_null else kind}
