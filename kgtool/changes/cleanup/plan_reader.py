"""Reading a cleanup plan that was edited by hand: errors are reported with their line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from kgtool.changes.cleanup.plan_file import (
    ACTIONS,
    DELETE_GROUP,
    DELETE_OFFSETS,
    KEEP_OFFSETS,
    REBUILD_GROUP,
    VERSION,
    WAIT,
    CleanupPlan,
    LeftOut,
    PlanHeader,
    PlanItem,
    PlannedOffset,
)
from kgtool.errors import ConfigError
from kgtool.held import SILENT_MS, HeldFile, NotText, hold
from kgtool.json_rows import LONGEST_NAME, shown, unique


class BadPlan(ConfigError):
    """A plan that can't be applied as it stands."""


def read(path: Path, timeout_ms: int | None = SILENT_MS) -> CleanupPlan:
    """Read a plan.

    :param timeout_ms: how long a pipe may be silent.
    :raises BadPlan: it is not a plan, or has an error; line and item are named.
    """
    return read_held(hold(path, timeout_ms), path)


def read_held(file: HeldFile, path: Path, actions: Sequence[str] = ACTIONS) -> CleanupPlan:
    """Read a plan from a file that was read.

    :param path: its name in messages.
    :param actions: those that are known to who applies it.
    :raises BadPlan: as ``read``.
    """
    try:
        text = file.text()
    except NotText as error:
        raise _no_plan(path, "it is not UTF-8 text") from error
    try:
        head, found = _parse(text)
    except json.JSONDecodeError as error:
        if "kgtool_plan" not in text:  # a backup or a journal, line by line
            why = "it has no kgtool_plan" if text.strip() else "it is empty"
            raise _no_plan(path, why) from error
        raise BadPlan(
            f"{path}, line {error.lineno}: not JSON ({error.msg}, column {error.colno})."
        ) from error
    except ValueError as error:  # a key twice, a number of thousands of digits
        raise BadPlan(f"{path}: {error}.") from error
    except RecursionError as error:
        raise _no_plan(path, "it is nested too deep") from error
    return CleanupPlan(
        _header(path, head, text), _items(path, text, found, actions), _left_out(path, head)
    )


def _no_plan(path: Path, why: str) -> BadPlan:
    return BadPlan(f"{path} is not a kgtool plan: {why}.")


def _parse(text: str) -> tuple[dict[str, Any], list[tuple[int, Any]] | None]:
    """Parse the document; return the items with their positions.

    ``json.loads`` alone has no positions.
    """
    decode = json.JSONDecoder(object_pairs_hook=unique).raw_decode
    whole = json.loads(text, object_pairs_hook=unique)
    if not isinstance(whole, dict) or not isinstance(whole.get("items"), list):
        return (whole if isinstance(whole, dict) else {}), None
    head = {key: value for key, value in whole.items() if key != "items"}
    at = _skip(text, 0) + 1
    found: list[tuple[int, Any]] = []
    while text[at := _skip(text, at)] != "}":
        key, at = decode(text, at)
        at = _skip(text, at)
        if key != "items":
            _, at = decode(text, at)
            continue
        found, at = [], at + 1
        while text[at := _skip(text, at)] != "]":
            value, end = decode(text, at)
            found.append((at, value))
            at = end
        at += 1
    return head, found


def _skip(text: str, at: int) -> int:
    """Return the position of what comes after blanks and separators; the text is valid JSON."""
    while text[at] in " \t\r\n,:":
        at += 1
    return at


def _header(path: Path, head: dict[str, Any], text: str) -> PlanHeader:
    version = head.get("kgtool_plan")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise _no_plan(path, "it has no kgtool_plan")
    if version > VERSION:
        raise BadPlan(
            f"{path} was made by a newer kgtool (format {shown(version)}).",
            hint="Use that version of kgtool, or a newer one.",
        )
    try:
        # Another tool's plan need only have its cluster and time.
        return PlanHeader(
            _maybe(head, "id", str) or sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
            _value(head, "cluster_id", str, none=True),
            _number(head, "made_at_ms", 2**53),
            _maybe(head, "made_at", str) or "?",
            _maybe(head, "made_by", str) or "?",
            _maybe(head, "source", str) or "?",
            _maybe(head, "criteria", dict) or {},
            _maybe(head, "kgtool", str) or "",
            _optional_number(head, "as_of_ms"),
        )
    except ValueError as error:
        raise BadPlan(f"{path}: {error}.") from error


def _items(
    path: Path, text: str, found: list[tuple[int, Any]] | None, actions: Sequence[str]
) -> tuple[PlanItem, ...]:
    if found is None:
        raise BadPlan(f"{path}: items is missing or not a list.")
    items: list[PlanItem] = []
    groups: dict[str, int] = {}
    line, counted = 1, 0
    for number, (at, value) in enumerate(found, 1):
        line += text.count("\n", counted, at)
        counted = at
        try:
            item = _item(value, actions)._replace(line=line)
            if item.changes and item.group in groups:
                raise ValueError(f"the group is in item {groups[item.group]} already")
        except ValueError as error:
            group = value.get("group") if isinstance(value, dict) else None
            named = f", group {shown(group)}" if isinstance(group, str) else ""
            raise BadPlan(f"{path}, line {line} (item {number}{named}): {error}.") from error
        if item.changes:
            groups[item.group] = number
        items.append(item)
    return tuple(items)


def _item(value: Any, actions: Sequence[str]) -> PlanItem:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    action = _value(value, "action", str)
    if action not in actions:
        raise ValueError(f"action is none of {', '.join(actions)}: {shown(action)}")
    item = PlanItem(
        action,
        _text(value, "group"),
        _maybe(value, "type", str),
        _maybe(value, "state", str),
        tuple(str(reason) for reason in _maybe(value, "why", list) or ()),
        _offsets(value, "offsets"),
        _offsets(value, "keep") if "keep" in value else (),
        _lag(value),
        _optional_number(value, "last_commit_ms"),
        _optional_number(value, "committed_before_ms"),
        _optional_number(value, "expires_at_ms"),
        _optional_number(value, "last_change_ms"),
    )
    _check(item)
    return item


def _check(item: PlanItem) -> None:
    if item.type == "share" and item.action not in (DELETE_GROUP, WAIT):
        raise ValueError(f"{item.action} is not for a share group: only delete-group is")
    if item.action in (DELETE_OFFSETS, KEEP_OFFSETS) and not item.offsets:
        raise ValueError("offsets is empty, and there is nothing else to change")
    if item.keep and item.action != REBUILD_GROUP:
        raise ValueError(f"keep has no meaning for {item.action}: only rebuild-group restores")
    if any(offset.offset is None for offset in item.keep):
        raise ValueError("an offset to keep has no offset, so it can't be restored")
    seen = set()
    for offset in (*item.offsets, *item.keep):
        if offset.at in seen:
            raise ValueError(f"{offset.at} appears twice")
        seen.add(offset.at)


def _offsets(value: dict[str, Any], key: str) -> tuple[PlannedOffset, ...]:
    return tuple(_offset(each, key) for each in _value(value, key, list))


def _offset(value: Any, key: str) -> PlannedOffset:
    if not isinstance(value, dict):
        raise ValueError(f"{key} has something that is not an object: {shown(value)}")
    return PlannedOffset(
        _text(value, "topic"),
        _number(value, "partition", 2**31),
        _optional_number(value, "offset"),
        _optional_number(value, "leader_epoch"),
        _maybe_text(value, "metadata"),
        _maybe(value, "topic_id", str),
        _lag(value),
        _optional_number(value, "committed_at_ms"),
        _optional_number(value, "expires_at_ms"),
        _maybe(value, "rule", str),
        _maybe(value, "problem", str),
    )


def _left_out(path: Path, head: dict[str, Any]) -> tuple[LeftOut, ...]:
    found = []
    for each in head.get("left_out") or ():
        if not isinstance(each, dict):
            raise BadPlan(f"{path}: left_out has something that is not an object.")
        found.append(LeftOut(str(each.get("group")), str(each.get("why"))))
    return tuple(found)


def _value(record: Mapping[str, Any], key: str, kind: type, *, none: bool = False) -> Any:
    if key not in record:
        raise ValueError(f"{key} is missing")
    value = record[key]
    if value is None and none:
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{key} is not of the right type: {shown(value)}")
    return value


def _maybe(record: Mapping[str, Any], key: str, kind: type) -> Any:
    return None if record.get(key) is None else _value(record, key, kind)


def _text(record: Mapping[str, Any], key: str) -> str:
    """Return a name that can be sent."""
    value: str = _value(record, key, str)
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise ValueError(f"{key} is not valid text: {shown(value)}") from None
    if size > LONGEST_NAME:
        raise ValueError(f"{key} is longer than {LONGEST_NAME:,} bytes")
    return value


def _maybe_text(record: Mapping[str, Any], key: str) -> str | None:
    return None if record.get(key) is None else _text(record, key)


def _lag(record: Mapping[str, Any]) -> int | None:
    """Return a lag, which is negative where the offset is beyond the end."""
    lag: int | None = _maybe(record, "lag", int)
    if lag is not None and not abs(lag) < 2**63:
        raise ValueError(f"lag is not a number of 64 bits: {shown(lag)}")
    return lag


def _number(record: Mapping[str, Any], key: str, limit: int) -> int:
    value: int = _value(record, key, int)
    if not 0 <= value < limit:
        raise ValueError(f"{key} is not a whole number of 0 or more: {shown(value)}")
    return value


def _optional_number(record: Mapping[str, Any], key: str) -> int | None:
    """Return a whole number from 0 on, or None where it is missing or null."""
    return None if record.get(key) is None else _number(record, key, 2**63)
