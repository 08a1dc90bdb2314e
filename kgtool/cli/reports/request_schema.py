"""The protocol on paper: lists of APIs, field tables, and bytes as hexadecimal numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from kgtool.protocol import api
from kgtool.protocol.as_json import carries, element, is_struct
from kgtool.protocol.schema import Field, changes
from kgtool.text import counted

GOES_TO = {
    "any": "any broker", "all": "every broker", "coordinator": "coordinator",
    "leader": "leader", "controller": "controller",
}  # fmt: skip


def about(module: Any) -> str:
    """Return what an API's file says of it in its first line."""
    first = (module.__doc__ or "").split("\n\n")[0]
    return " ".join(first.split()).partition(": ")[2].rstrip(".")


def api_rows() -> list[dict[str, Any]]:
    """Return a row for each API that kgtool knows."""
    rows = []
    for name in api.names():
        module = api.load(name)
        request = module.Request
        rows.append(
            {
                "api": name,
                "api_key": request.KEY,
                "versions": str(request.VERSIONS),
                "flexible": str(request.FLEXIBLE),
                "route": GOES_TO[request.ROUTE],
                "changes": changes(request()),
                "about": about(module),
            }
        )
    return rows


def field_rows(
    message: str, cls: Any, version: int | None, flexible: bool | None = None, depth: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield a row for each field of a message, those inside behind the one that holds them.

    :param version: only the fields of this version; ``flexible``: whether it has tagged ones.
    """
    said = notes(cls)
    if flexible is None:
        flexible = version is not None and version in cls.FLEXIBLE
    for field in cls.FIELDS:
        if version is not None and not carries(field, version, flexible):
            continue
        yield {
            "message": message,
            "depth": depth,
            "field": field.wire,
            "type": type_of(field),
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
def notes(cls: type) -> dict[str, str]:
    """Return what the comments above a schema's fields say of them; nothing without the source."""
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


def type_of(field: Field) -> str:
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


def hexdump(title: str, data: bytes) -> str:
    """Return bytes, sixteen a line, with what can be read of them.

    >>> print(hexdump("Body", b"kgtool"), end="")
    Body, 6 bytes
      0000  6b 67 74 6f 6f 6c                                 kgtool
    """
    lines = [f"{title}, {counted(len(data), 'byte')}"]
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"  {at:04x}  {part.hex(' '):<47}   {text}")
    return "\n".join(lines) + "\n"
