"""APIs and their fields, in the words of Kafka's message JSON: what ``kgtool request`` shows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from kgtool.protocol.as_json import carries, element, is_struct
from kgtool.protocol.schema import Field


def about(module: Any) -> str:
    """Return an API's summary: the first line of its file, without the name."""
    first = (module.__doc__ or "").split("\n\n")[0]
    return " ".join(first.split()).partition(": ")[2].rstrip(".")


def field_rows(
    message: str, cls: Any, version: int | None, flexible: bool | None = None, depth: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield a row for each field of a message, nested ones after the one that holds them.

    :param version: only the fields of this version; ``flexible``: whether it has tagged fields.
    """
    said = _notes(cls)
    if flexible is None:
        flexible = version is not None and version in cls.FLEXIBLE
    for field in cls.FIELDS:
        if version is not None and not carries(field, version, flexible):
            continue
        yield {
            "message": message,
            "depth": depth,
            "field": field.wire,
            "type": _type_of(field),
            "versions": str(field.versions),
            "nullable": None if field.nullable.low > field.nullable.high else str(field.nullable),
            "tag": field.tag,
            "default": _default(field),
            "ignorable": field.ignorable,
            "note": said.get(field.name),
        }
        if field.kind == "struct" or (field.kind == "array" and is_struct(field.of)):
            yield from field_rows(message, field.of, version, flexible, depth + 1)


@cache
def _notes(cls: type) -> dict[str, str]:
    """Return the comments above a schema's fields; none if there is no source."""
    import inspect

    try:
        lines = inspect.getsource(cls).splitlines()
    except (OSError, TypeError):
        return {}
    found: dict[str, str] = {}
    said: list[str] = []
    for line in map(str.strip, lines):
        name, colon, _ = line.partition(":")
        if line.startswith("#"):
            said.append(line.lstrip("# "))
        elif colon and name.isidentifier() and said:
            found[name] = " ".join(said)
            said = []
        else:
            said = []
    return found


def _type_of(field: Field) -> str:
    """Return a field's type as Kafka's message JSON writes it: ``[]int32``, ``Topic``."""
    if field.kind == "struct":
        return str(field.of.__name__)
    if field.kind == "array":
        return f"[]{field.of.__name__ if is_struct(field.of) else element(field).kind}"
    return field.kind


def _default(field: Field) -> Any:
    value = field.default_value()
    if field.kind in ("struct", "array"):
        return None if value is None else ([] if field.kind == "array" else {})
    if field.kind == "uuid":
        return "AAAAAAAAAAAAAAAAAAAAAA"
    return value.decode("ascii") if isinstance(value, bytes) else value
