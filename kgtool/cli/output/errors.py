"""An error as one sentence on stderr, and as an object in JSON."""

from __future__ import annotations

from typing import Any

from kgtool.errors import KgError
from kgtool.model import ItemError, Target
from kgtool.text import escape


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


def hint_of(error: ItemError) -> str:
    """Return the hint after a blank, or nothing."""
    return f" {error.hint}" if error.hint else ""


def place(target: Target) -> str:
    """Return ``group g, t1-0, broker 2``: the parts of a target that are known."""
    parts = []
    if target.group is not None:
        parts.append("group " + (target.group or "''"))
    if target.topic is not None:
        partition = "" if target.partition is None else f"-{target.partition}"
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
