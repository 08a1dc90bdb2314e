"""Our schema tables against the message JSON inside the real jars: every field, every version."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from kgtool.protocol import api
from kgtool.protocol.schema import NO_UUID, Field, Struct, StructMeta, VersionRange, parse_versions
from kgtool.sandbox.install.jars import DEFAULT_VERSION
from tests.protocol.conftest import Documents
from tests.protocol.messages import classes

BY_NAME = {f"{name}{kind}": cls for name, kind, cls in classes()}

DEPARTURES = {
    # Kafka's client clears the field by hand before v7: OffsetFetchRequest.Builder.build
    ("OffsetFetchRequest", "requireStable", "ignorable")
}


RENAMED = {
    ("TxnOffsetCommitRequest", "generationId"): "generationIdOrMemberEpoch",
    ("StreamsGroupHeartbeatResponse", "acceptableRecoveryLag"): "acceptableRecoveryLagLegacy",
}
"""What 4.4 calls a field of older jars: the place on the wire is the same."""


class Row(NamedTuple):
    """What there is to say about a field at one version."""

    path: str
    type: str
    reached: bool
    present: bool
    nullable: bool
    default: Any
    tag: int | None
    ignorable: bool


def rows_of_document(document: dict[str, Any], version: int) -> Iterator[Row]:
    """All fields of a message JSON, nested ones included, in the order of the file."""
    commons = {common["name"]: common["fields"] for common in document.get("commonStructs", ())}

    def rows(fields: list[dict[str, Any]], prefix: str, outer: bool) -> Iterator[Row]:
        for field in fields:
            path = prefix + field["name"][0].lower() + field["name"][1:]
            base = field["type"].removeprefix("[]")
            nested = field.get("fields") or commons.get(base)
            here = outer and version in parse_versions(field["versions"])
            tagged = version in parse_versions(field.get("taggedVersions", "none"))
            yield Row(
                path,
                field["type"].replace(base, "struct") if nested else field["type"],
                outer,
                here,
                version in parse_versions(field.get("nullableVersions", "none")),
                default_of_document(field),
                field["tag"] if tagged else None,
                str(field.get("ignorable", False)).lower() == "true",
            )
            if nested:
                yield from rows(nested, path + ".", here)

    return rows(document["fields"], "", True)


def default_of_document(field: dict[str, Any]) -> Any:
    """The default as a Python value; ``{}`` stands for a struct of defaults."""
    kind, text = field["type"], field.get("default")
    if kind.startswith("[]"):
        return None if text == "null" else []
    if kind == "records":
        return None
    if text == "null":
        return None
    if kind == "bool":
        return str(text).lower() == "true"
    if kind in ("string", "bytes"):
        empty: str | bytes = "" if kind == "string" else b""
        return text if text is not None else empty
    if kind == "uuid":
        return NO_UUID
    if kind[0].isupper():
        return {}
    return int(str(text or 0), 0)


def rows_of_class(cls: type[Struct], version: int, prefix: str = "", outer: bool = True) -> Any:
    """The same rows of one of our classes."""
    for field in cls.FIELDS:
        path = f"{prefix}{field.wire}"
        here = outer and version in field.versions
        yield Row(
            path,
            type_of_field(field),
            outer,
            here,
            version in field.nullable,
            {} if field.kind == "struct" and field.default is not None else field.default_value(),
            field.tag if version in field.tagged else None,
            field.ignorable,
        )
        if field.kind in ("array", "struct") and isinstance(field.of, type):
            yield from rows_of_class(field.of, version, path + ".", here)


def type_of_field(field: Field) -> str:
    if field.kind != "array":
        return field.kind
    return "[]struct" if isinstance(field.of, type) else f"[]{field.of().kind}"


def differences(name: str, cls: type[Struct], document: dict[str, Any]) -> list[str]:
    """What a class says otherwise than Kafka's JSON, for all versions of the JSON."""
    found = []
    if cls.KEY not in (-1, document["apiKey"]):
        found.append(f"key {cls.KEY}")
    valid = parse_versions(document["validVersions"])
    flexible = parse_versions(document["flexibleVersions"])
    for version in range(valid.low, valid.high + 1):
        if version not in cls.VERSIONS:
            found.append(f"v{version} is missing")
        if (version in flexible) != (version in cls.FLEXIBLE):
            found.append(f"v{version} flexible")
        theirs = list(rows_of_document(document, version))
        if not {row.path for row in theirs} & set(RENAMED.values()):
            theirs = [row._replace(path=RENAMED.get((name, row.path), row.path)) for row in theirs]
        ours = list(rows_of_class(cls, version))
        found += [f"v{version} {text}" for text in compare(name, ours, theirs)]
    return found


def meaningful(row: Row) -> tuple[str, ...]:
    """What matters only where a field is present, and only where it is left out."""
    if row.present:
        return "nullable", "tag"
    return ("ignorable",) if row.reached else ()


def compare(name: str, ours: list[Row], theirs: list[Row]) -> Iterator[str]:
    """Compare the rows of one version: what is on the wire, and what is assumed if it isn't."""
    known = {row.path: row for row in ours}
    for row in theirs:
        mine = known.get(row.path)
        if mine is None:
            yield f"{row.path} is missing"
            continue
        for what in ("type", "present", "default", *meaningful(row)):
            if getattr(mine, what) == getattr(row, what) or (name, row.path, what) in DEPARTURES:
                continue
            yield f"{row.path}: {what} {getattr(mine, what)!r}, not {getattr(row, what)!r}"
    extra = {row.path for row in ours if row.present} - {row.path for row in theirs}
    yield from (f"{path} is not Kafka's" for path in sorted(extra))
    order = [
        [row.path for row in rows if row.present and row.tag is None] for rows in (ours, theirs)
    ]
    if order[0] != order[1]:
        yield f"order {order[0]}, not {order[1]}"


@pytest.mark.parametrize("name", BY_NAME)
def test_every_field_at_every_version_is_what_the_jars_say(
    name: str, documents: dict[str, Documents]
) -> None:
    found = [each[name] for each in documents.values() if name in each]
    assert found, f"neither jar has {name}"
    for document in found:
        assert differences(name, BY_NAME[name], document) == []


@pytest.mark.parametrize("name", BY_NAME)
def test_versions_are_the_union_of_both_jars(name: str, documents: dict[str, Documents]) -> None:
    ranges = [
        parse_versions(each[name]["validVersions"]) for each in documents.values() if name in each
    ]
    union = VersionRange(min(low for low, _ in ranges), max(high for _, high in ranges))
    assert union == BY_NAME[name].VERSIONS


@pytest.mark.parametrize("name", api.names())
def test_a_request_knows_its_name_its_key_and_its_reply(
    name: str, documents: dict[str, Documents]
) -> None:
    module = api.load(name)
    assert module.Request.NAME == module.Response.NAME == name
    assert documents[DEFAULT_VERSION][f"{name}Request"]["apiKey"] == module.Request.KEY
    assert module.Request.REPLY is module.Response
    assert module.Request.ROUTE in ("any", "all", "coordinator", "leader", "controller")


def test_the_apis_that_the_commands_need_are_there() -> None:
    needed = {
        "ApiVersions",
        "Metadata",
        "FindCoordinator",
        "ListGroups",
        "DescribeGroups",
        "ConsumerGroupDescribe",
        "OffsetFetch",
        "OffsetCommit",
        "OffsetDelete",
        "DeleteGroups",
        "ListOffsets",
        "Fetch",
        "DescribeConfigs",
        "SaslHandshake",
        "SaslAuthenticate",
        "DescribeCluster",
        "IncrementalAlterConfigs",
        "DescribeTopicPartitions",
    }
    assert needed <= set(api.names())
    with pytest.raises(KeyError):
        api.load("NoSuchApi")


def _set(attribute: str, value: Any) -> Callable[[list[Field]], None]:
    def change(fields: list[Field]) -> None:
        setattr(fields[1], attribute, value)

    return change


MISTAKES: dict[str, Callable[[list[Field]], None]] = {
    "name": _set("wire", "generation"),
    "type": _set("kind", "int64"),
    "first version": _set("versions", VersionRange(2, 32767)),
    "last version": _set("versions", VersionRange(1, 9)),
    "nullable": _set("nullable", VersionRange(8, 32767)),
    "default": _set("default", 0),
    "ignorable": _set("ignorable", False),
    "missing": lambda fields: fields.__delitem__(1),
    "order": lambda fields: fields.insert(0, fields.pop(1)),
    "tag": lambda fields: fields.insert(1, _tagged(fields.pop(1))),
    "extra": lambda fields: fields.append(_extra()),
}


def _tagged(field: Field) -> Field:
    field.tag, field.tagged = 0, VersionRange(8, 32767)
    return field


def _extra() -> Field:
    field = Field("int32", "0+", 0)
    field.name = field.wire = "extra"
    return field


def rebuilt(cls: type[Struct], change: Callable[[list[Field]], None], **message: Any) -> Any:
    """A copy of a message class with something changed."""
    fields = [copy.copy(field) for field in cls.FIELDS]
    change(fields)
    said = {
        "key": cls.KEY,
        "versions": str(cls.VERSIONS),
        "flexible": str(cls.FLEXIBLE),
        "changes": cls.CHANGES,
    }
    made = StructMeta("Request", (Struct,), {"__module__": cls.__module__}, **(said | message))
    made.FIELDS = tuple(fields)
    return made


def test_the_checker_accepts_a_faithful_copy(documents: dict[str, Documents]) -> None:
    copied = rebuilt(BY_NAME["OffsetCommitRequest"], lambda fields: None)
    for each in documents.values():
        assert differences("", copied, each["OffsetCommitRequest"]) == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_checker_sees_a_wrong_field(mistake: str, documents: dict[str, Documents]) -> None:
    broken = rebuilt(BY_NAME["OffsetCommitRequest"], MISTAKES[mistake])
    found = [differences("", broken, each["OffsetCommitRequest"]) for each in documents.values()]
    assert any(found), f"a wrong {mistake} goes unseen"


@pytest.mark.parametrize(
    "message", [{"key": 9}, {"versions": "0-9"}, {"flexible": "9+"}, {"flexible": "none"}], ids=str
)
def test_the_checker_sees_a_wrong_message(
    message: dict[str, Any], documents: dict[str, Documents]
) -> None:
    broken = rebuilt(BY_NAME["OffsetCommitRequest"], lambda fields: None, **message)
    assert differences("", broken, documents[DEFAULT_VERSION]["OffsetCommitRequest"])


def test_the_checker_looks_into_nested_structs(documents: dict[str, Documents]) -> None:
    document = copy.deepcopy(documents[DEFAULT_VERSION]["FetchResponse"])
    assert differences("", BY_NAME["FetchResponse"], document) == []
    partition = document["fields"][3]["fields"][2]["fields"]
    partition[2]["type"] = "int32"
    assert differences("", BY_NAME["FetchResponse"], document)


def test_our_departures_are_needed(documents: dict[str, Documents]) -> None:
    for name, path, what in DEPARTURES:
        found = differences("", BY_NAME[name], documents[DEFAULT_VERSION][name])
        assert any(f" {path}: {what} " in text for text in found)
