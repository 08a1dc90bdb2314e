"""An error as one sentence on stderr, and as an object in JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kgtool.errors import KgError
from kgtool.model import ItemError, Target
from kgtool.protocol import codes
from kgtool.text import escape

_GENERAL_GROUP = codes.code(codes.GROUP_ID_NOT_FOUND).message
_GENERAL_TOPIC = codes.code(codes.UNKNOWN_TOPIC_OR_PARTITION).message
_KAFKAS_PARTITIONS = 'The partitions "'


def error_object(error: ItemError) -> dict[str, Any]:
    """Return an error as the JSON document has it."""
    return {
        "target": error.target._asdict(),
        "code": error.code,
        "name": error.name,
        "message": error.message,
        "hint": error.hint,
    }


def sentence(error: ItemError | KgError, prefix: str = "Error: ") -> str:
    """Return one line for stderr: what failed, why, and what to do about it."""
    message = error.message
    if isinstance(error, ItemError):
        where = place(error.target)
        if where and not _names(error.target, message):
            message = f"{where}: {message}"
    if error.hint:
        message = f"{message.rstrip('.')}. {error.hint}"
    return prefix + escape(message)


_NOTHING_OF_GROUP = ("NO_COMMIT", "NO_TRACE")
"""Errors of a group without offsets: its name may have a slip."""


def is_unknown_name(error: ItemError) -> bool:
    """Whether it is about a group or a topic that does not exist, as far as the error can tell."""
    if error.code == codes.GROUP_ID_NOT_FOUND or error.name in _NOTHING_OF_GROUP:
        return bool(error.target.group)
    return error.code == codes.UNKNOWN_TOPIC_OR_PARTITION and bool(error.target.topic)


def in_own_words(error: ItemError) -> ItemError:
    """Say plainly what does not exist, where the broker's message is the general one."""
    target = error.target
    if error.code is None or not is_unknown_name(error):
        return error
    if error.code == codes.GROUP_ID_NOT_FOUND:
        said = f"Group {target.group} does not exist."
        is_general = error.message in (said, f"Group {target.group} not found.", _GENERAL_GROUP)
    else:
        what = place(target._replace(group=None, broker=None))
        named = "Topic" if target.partition is None else "Partition"
        # A topic's name has no blank: these are several partitions of one.
        said = f"{what} do not exist." if " " in what else f"{named} {what} does not exist."
        is_general = error.message == _GENERAL_TOPIC or error.message.startswith(_KAFKAS_PARTITIONS)
    return error._replace(message=said, target=Target()) if is_general else error


def together(errors: Iterable[ItemError]) -> list[ItemError]:
    """Return errors that differ only by the partition as one for each topic, with the count."""
    alike: dict[ItemError, list[ItemError]] = {}
    for error in errors:
        target = error.target._replace(partition=None)
        alike.setdefault(error._replace(target=target), []).append(error)
    return [
        same[0] if len(same) == 1 else _of_topic(of_topic, len(same))
        for of_topic, same in alike.items()
    ]


def _of_topic(error: ItemError, count: int) -> ItemError:
    topic = f"{count:,} partitions of {error.target.topic}"
    return error._replace(target=error.target._replace(topic=topic))


def hint_of(error: ItemError) -> str:
    """Return the hint after a blank, or nothing."""
    return f" {error.hint}" if error.hint else ""


def place(target: Target) -> str:
    """Return ``group g, t1:0, broker 2``: the parts of a target that are known."""
    parts = []
    if target.group is not None:
        parts.append("group " + (target.group or "''"))
    if target.topic is not None:
        partition = "" if target.partition is None else f":{target.partition}"
        parts.append(f"{target.topic}{partition}")
    if target.broker is not None:
        parts.append(f"broker {target.broker}")
    return ", ".join(parts)


def _names(target: Target, message: str) -> bool:
    """Whether the message names the target."""
    if target.topic is not None:
        return target.topic in message and (target.group or "") in message
    if target.group is not None:
        return f" {target.group} " in f" {message} " or f"'{target.group}'" in message
    return False
