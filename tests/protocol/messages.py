"""Every message that kgtool knows, at every version, and random ones to try the codec with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kgtool.protocol import api
from kgtool.protocol.schema import Field, Struct

TEXTS = ("", "g", "orders", "größe-\N{SNOWMAN}", "𝕜afka", "a\x00b\n", "x" * 127, "y" * 200)
RANGES = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class Message(NamedTuple):
    """One message at one version."""

    api: str
    kind: str
    cls: type[Struct]
    version: int

    def __str__(self) -> str:
        return f"{self.api}{self.kind}-v{self.version}"

    @property
    def flexible(self) -> bool:
        return self.version in self.cls.FLEXIBLE


def classes() -> list[tuple[str, str, type[Struct]]]:
    """All requests and responses: API, ``Request`` or ``Response``, class."""
    return [
        (name, kind, getattr(api.load(name), kind))
        for name in api.names()
        for kind in ("Request", "Response")
    ]


def every_message() -> list[Message]:
    """All requests and responses at all their versions."""
    return [
        Message(name, kind, cls, version)
        for name, kind, cls in classes()
        for version in range(cls.VERSIONS.low, cls.VERSIONS.high + 1)
    ]


EVERY = every_message()


def present(field: Field, version: int, flexible: bool) -> bool:
    """Whether a field is carried at a version, in its place or as a tag."""
    return version in field.versions or (flexible and version in field.tagged)


class Maker:
    """Makes random messages that a version can carry, from the schema table alone.

    :param tame: only values that kio's richer types can express (known error codes, times).
    """

    def __init__(self, seed: object, *, tame: bool = False, unknown_tags: bool = False) -> None:
        self.rng = random.Random(str(seed))
        self.tame = tame
        self.unknown_tags = unknown_tags

    def message(self, message: Message) -> Any:
        return self.struct(message.cls, message.version, message.flexible)

    def struct(self, cls: type[Struct], version: int, flexible: bool, depth: int = 0) -> Any:
        values = {
            field.name: self.field(field, version, flexible, depth)
            for field in cls.FIELDS
            if present(field, version, flexible)
        }
        made = cls(**values)
        if flexible and self.unknown_tags and self.rng.random() < 0.3:
            tags = sorted(self.rng.sample(range(100, 70000), self.rng.randint(1, 3)))
            unknown = tuple((tag, self.rng.randbytes(self.rng.choice((0, 1, 5)))) for tag in tags)
            made = tuple.__new__(cls, (*tuple(made)[:-1], unknown))
        return made

    def field(self, field: Field, version: int, flexible: bool, depth: int) -> Any:
        roll = self.rng.random()
        if field.tag is not None and flexible and version in field.tagged and roll < 0.4:
            return field.default_value()
        if version in field.nullable and roll < 0.2:
            return None
        if field.kind == "array":
            most = 3 if depth < 2 else 2
            return [
                self.element(field, version, flexible, depth)
                for _ in range(self.rng.randint(0, most))
            ]
        if field.kind == "struct":
            return self.struct(field.of, version, flexible, depth + 1)
        return self.scalar(field.kind, field.name)

    def element(self, field: Field, version: int, flexible: bool, depth: int) -> Any:
        if isinstance(field.of, type):
            return self.struct(field.of, version, flexible, depth + 1)
        return self.scalar(field.of().kind, field.name)

    def scalar(self, kind: str, name: str) -> Any:
        rng = self.rng
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "string":
            return rng.choice(TEXTS)
        if kind in ("bytes", "records"):
            return rng.randbytes(rng.choice((0, 1, 5, 130)))
        if kind == "uuid":
            return UUID(int=rng.getrandbits(128) if rng.random() < 0.8 else 0)
        if kind == "uint16":
            return rng.choice((0, 1, 9092, 0x8000, 0xFFFF))
        return self.integer(RANGES[kind], name)

    def integer(self, bits: int, name: str) -> int:
        rng = self.rng
        if self.tame and name.endswith("error_code"):
            return rng.choice((-1, 0, 3, 14, 16, 25, 69, 86, 88, 113))
        if self.tame and (name.endswith("_ms") or "time" in name):
            return rng.randint(0, 2**31 - 1)
        limit = 2 ** (bits - 1)
        return rng.choice((0, 1, -1, limit - 1, -limit, rng.randint(-limit, limit - 1)))


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over the scalars of a message with their paths, for messages of failures."""
    if isinstance(value, Struct):
        for name, inner in value.items():
            yield from walk(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from walk(inner, f"{path}[{at}]")
    else:
        yield path, value
