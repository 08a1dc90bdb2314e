"""The declarative schema language: a class body is the table of a message.

::

    class Partition(Struct):
        partition: int = int32(wire="partitionIndex")
        leader_epoch: int = int32("5+", default=-1, wire="committedLeaderEpoch")
        metadata: str | None = string(nullable="0+")

    class Response(Struct, versions="0-10", flexible="6+"):
        topics: list[Topic] = array(Topic, "0-7")

    class Request(Struct, key=9, reply=Response, route="coordinator", changes=False):
        ...

A request has the versions of its reply. Version ranges are Kafka's own notation (``"3+"``,
``"2-7"``, ``"4"``, ``"none"``), the order of the fields is the order on the wire, so that a file
can be laid beside Kafka's message JSON. Names are ours; ``wire`` gives Kafka's where camel case of
ours is not it.

A struct is an immutable tuple with named fields: ``Partition(partition=3)`` fills in defaults and
refuses unknown names. The last, hidden element keeps tagged fields that the schema does not know,
so that they are written back as they came. Encoding a value other than the default in a field that
the version lacks is an ``EncodeError`` unless the field is ``ignorable``, which is Kafka's rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from typing_extensions import Self

NO_UUID = UUID(int=0)
MAX_VERSION = 32767


class VersionRange(NamedTuple):
    """An inclusive range of versions; empty when ``low`` is above ``high``."""

    low: int
    high: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.low <= version <= self.high

    def __str__(self) -> str:
        if self.low > self.high:
            return "none"
        if self.high == MAX_VERSION:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


NO_VERSIONS = VersionRange(0, -1)


def parse_versions(text: str) -> VersionRange:
    """Read a range in the notation of Kafka's message JSON.

    >>> parse_versions("3+"), parse_versions("2-7"), parse_versions("4"), parse_versions("none")
    (VersionRange(low=3, high=32767), VersionRange(low=2, high=7), VersionRange(low=4, high=4), VersionRange(low=0, high=-1))
    """  # noqa: E501
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), MAX_VERSION)
    low, _, high = text.partition("-")
    return VersionRange(int(low), int(high or low))


class Field:
    """One row of a schema table."""

    __slots__ = (
        "kind",
        "versions",
        "nullable",
        "default",
        "tag",
        "tagged",
        "ignorable",
        "of",
        "wire",
        "name",
    )

    def __init__(
        self,
        kind: str,
        versions: str,
        default: Any,
        *,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str | None = None,
        ignorable: bool = False,
        of: Any = None,
        wire: str | None = None,
    ) -> None:
        self.kind = kind
        self.versions = parse_versions(versions)
        self.nullable = parse_versions(nullable)
        self.default = default
        self.tag = tag
        self.tagged = NO_VERSIONS if tag is None else parse_versions(tagged or versions)
        self.ignorable = ignorable
        self.of = of
        self.wire = wire
        self.name = ""

    def default_value(self) -> Any:
        """Return the value of the field where a message does not carry it."""
        if self.kind == "array" and self.default is not None:
            return []
        if self.kind == "struct" and self.default is not None:
            return self.of()
        return self.default


def _kind(kind: str, empty: Any) -> Any:
    def specify(versions: str = "0+", *, default: Any = empty, **rest: Any) -> Any:
        return Field(kind, versions, default, **rest)

    specify.__doc__ = f"Declare a field of type {kind}; the arguments are those of ``Field``."
    return specify


int8 = _kind("int8", 0)
int16 = _kind("int16", 0)
uint16 = _kind("uint16", 0)
int32 = _kind("int32", 0)
int64 = _kind("int64", 0)
float64 = _kind("float64", 0.0)
boolean = _kind("bool", False)
uuid = _kind("uuid", NO_UUID)
string = _kind("string", "")
bytestring = _kind("bytes", b"")
records = _kind("records", None)


def _composite(kind: str) -> Any:
    def specify(of: Any, versions: str = "0+", *, default: Any = (), **rest: Any) -> Any:
        return Field(kind, versions, default, of=of, **rest)

    specify.__doc__ = f"Declare a field of type {kind} of the given Struct or specifier."
    return specify


array = _composite("array")
struct = _composite("struct")


def camel(name: str) -> str:
    """Turn ``member_epoch`` into ``memberEpoch``, the notation of Kafka's message JSON."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


class StructMeta(type):
    """Turns the ``Field`` rows of a class body into properties of a tuple."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **message: Any
    ) -> Any:
        """Collect the fields in the order of the class body."""
        fields: list[Field] = []
        for attribute, value in list(namespace.items()):
            if not isinstance(value, Field):
                continue
            if attribute in ("index", "count"):
                raise TypeError(f"{name}.{attribute}: tuple has a method of that name")
            value.name = attribute
            value.wire = value.wire or camel(attribute)
            namespace[attribute] = property(itemgetter(len(fields)))
            fields.append(value)
        namespace["FIELDS"] = tuple(fields)
        namespace.setdefault("__slots__", ())
        _describe_message(namespace, message)
        return super().__new__(mcs, name, bases, namespace)


def _describe_message(namespace: dict[str, Any], message: dict[str, Any]) -> None:
    """Add the attributes of a whole message, from the keywords of the class statement."""
    if not message:
        return
    reply = message.get("reply")
    if reply is not None and "changes" not in message:
        raise TypeError(f"{namespace['__module__']}: say whether the request changes the cluster")
    if reply is not None:
        namespace["VERSIONS"], namespace["FLEXIBLE"] = reply.VERSIONS, reply.FLEXIBLE
    else:
        namespace["VERSIONS"] = parse_versions(message["versions"])
        namespace["FLEXIBLE"] = parse_versions(message.get("flexible", "none"))
    namespace["KEY"] = message.get("key", -1)
    namespace["REPLY"] = reply
    namespace["ROUTE"] = message.get("route", "any")
    namespace["CHANGES"] = message.get("changes", False)
    module = namespace["__module__"].rpartition(".")[2]
    namespace["NAME"] = message.get("name") or "".join(p.capitalize() for p in module.split("_"))


def changes(request: Any) -> bool:
    """Whether a request may change the cluster, according to its schema."""
    declared = type(request).CHANGES
    return bool(declared(request)) if callable(declared) else bool(declared)


class Struct(tuple[Any, ...], metaclass=StructMeta):
    """Base of every message and every part of one."""

    if TYPE_CHECKING:
        FIELDS: tuple[Field, ...]
        VERSIONS: VersionRange
        FLEXIBLE: VersionRange
        KEY: int
        NAME: str
        REPLY: Any
        ROUTE: str
        CHANGES: bool | Callable[[Any], bool]

    __slots__ = ()

    def __new__(cls, **values: Any) -> Self:
        """Build a struct from keywords; other fields take their defaults."""
        items = []
        for field in cls.FIELDS:
            items.append(values.pop(field.name) if field.name in values else field.default_value())
        if values:
            raise TypeError(f"{cls.__qualname__} has no field {', '.join(sorted(values))}")
        items.append(())
        return tuple.__new__(cls, items)

    @property
    def unknown_tags(self) -> tuple[tuple[int, bytes], ...]:
        """Tagged fields that the schema does not know, as (tag, bytes)."""
        return self[-1]  # type: ignore[no-any-return]

    def replace(self, **values: Any) -> Self:
        """Return a copy with some fields changed."""
        items = list(self)
        names = {field.name: at for at, field in enumerate(self.FIELDS)}
        for name, value in values.items():
            items[names[name]] = value
        return tuple.__new__(type(self), items)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Iterate over (name, value) in wire order."""
        for at, field in enumerate(self.FIELDS):
            yield field.name, self[at]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.items())
        return f"{type(self).__qualname__}({inner})"
