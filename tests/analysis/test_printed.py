"""What Kafka's tools of 2.0 to 4.3 printed of known logs, read back and held to those logs."""

from __future__ import annotations

import base64
import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis.decode.batches import RecordBlock
from kgtool.analysis.decode.segments import Note
from kgtool.analysis.input.readers import text_ranges
from kgtool.analysis.input.readers.ranges import TEXT_READERS, parts, ranges, read_block
from tests.retention.truth import raw, truth

DATA = Path(__file__).parents[1] / "data"
PRINTED = DATA / "printed"
OFFSET_TYPES = (0, 1)


def read(path: Path, kind: str, start: int = 0, end: int | None = None) -> list[RecordBlock]:
    size = path.stat().st_size
    row = {
        "path": str(path),
        "partition": 0,
        "start": start,
        "end": size if end is None else end,
        "format": kind,
        "missing": 0,
        "order": 0,
    }
    pieces = []
    for part in parts(row):
        assert isinstance(part, RecordBlock)
        pieces.append(part)
    return pieces


def rows_of(pieces: list[RecordBlock]) -> list[dict[str, Any]]:
    """Every record as a dictionary, in the order of the file."""
    found = []
    for piece in pieces:
        records, data = piece.records, piece.records.view.bytes.tobytes()
        for i in range(len(records.log_offset)):
            at, size = int(records.value_at[i]), int(records.value_size[i])
            key_at = int(records.key_at[i])
            found.append(
                {
                    "offset": int(records.log_offset[i]),
                    "timestamp": int(records.timestamp_ms[i]),
                    "producerId": int(records.producer_id[i]),
                    "transactional": bool(records.transactional[i]),
                    "control": bool(records.control[i]),
                    "key": data[key_at : key_at + int(records.key_size[i])],
                    "value": None if size < 0 else data[at : at + size],
                }
            )
    return found


def reasons(pieces: list[RecordBlock]) -> dict[str, int]:
    found: dict[str, int] = {}
    for piece in pieces:
        for note in piece.notes:
            found[note.reason] = found.get(note.reason, 0) + note.records
    return found


def known(run: str, **wanted: Any) -> list[dict[str, Any]]:
    """The recorded log's records; unknown tagged fields are no tool's business."""
    return [row for row in truth(run).records if all(row[k] == v for k, v in wanted.items())]


def without_unknown_tags(row: dict[str, Any]) -> bytes | None:
    """The value; two records were injected with tags 7 and 9, which no schema has."""
    value = raw(row, "value")
    group = row["decoded"].get("key", {}).get("group")
    if value is not None and group == "inj-gm4-empty":
        return value.replace(b"\x01\x07\x03xyz", b"\x00")
    if value is not None and group == "inj-val4":
        return value.replace(b"\x02\x00\x10", b"\x01\x00\x10")[:-4]
    return value


# --- all that a record holds ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "run", "partition"), [("3.8.1", "3.9.1-old", 1), ("4.3.1", "4.3.1", 5)]
)
def test_dump_in_json_is_the_log_itself(version: str, run: str, partition: int) -> None:
    pieces = read(PRINTED / f"{version}.{run}.dump-{partition}.txt", "dump-json")
    expected = known(run, partition=partition)
    found = rows_of(pieces)
    assert len(found) == len(expected) > 15
    names = ("offset", "timestamp", "producerId", "transactional", "control")
    for row, record in zip(found, expected, strict=True):
        assert {name: row[name] for name in names} == {name: record[name] for name in names}
        if record["control"]:
            assert row["key"] == raw(record, "key")
        else:
            assert (row["key"], row["value"]) == (raw(record, "key"), raw(record, "value"))
    assert epochs(pieces) == [(row["leaderEpoch"], row["producerEpoch"]) for row in expected]
    assert reasons(pieces) == {}


def epochs(pieces: list[RecordBlock]) -> list[tuple[int, int]]:
    """Of the leader and of the producer, of each record."""
    found: list[tuple[int, int]] = []
    for piece in pieces:
        leader, producer = piece.records.leader_epoch, piece.records.producer_epoch
        assert leader is not None and producer is not None
        found += zip(leader.tolist(), producer.tolist(), strict=True)
    return found


@pytest.mark.parametrize(("version", "run"), [("3.9.1", "3.9.1-old"), ("4.3.1", "4.3.1")])
@pytest.mark.parametrize("what", ["offsets", "groups"])
def test_formatters_in_json_give_every_byte_of_their_records(
    version: str, run: str, what: str
) -> None:
    path = PRINTED / f"{version}.{run}.{what}.json"
    assert b"\n" not in path.read_bytes()
    wanted = OFFSET_TYPES if what == "offsets" else (2,)
    expected = [
        (raw(row, "key"), without_unknown_tags(row))
        for row in known(run, control=False)
        if row["decoded"].get("keyVersion") in wanted
    ]
    pieces = read(path, f"{what}-json")
    found = [(row["key"], row["value"]) for row in rows_of(pieces)]
    assert len(expected) > 60
    if version == "3.9.1":  # it does not know the topic id of a value v4
        expected = [(key, without_topic_id(value)) for key, value in expected]
    assert found == expected
    assert reasons(pieces) == {}


def without_topic_id(value: bytes | None) -> bytes | None:
    if value is not None and value[:2] == b"\0\4" and value[-19:-16] == b"\x01\x00\x10":
        return value[:-19] + b"\0"
    return value


@pytest.mark.parametrize("what", ["offsets", "groups"])
def test_records_that_the_json_formatters_of_3_9_do_not_know(what: str) -> None:
    """Of KIP-848 records they print "unknown" for a key, and garbage for a value."""
    path = PRINTED / f"3.9.1.4.3.1.{what}.json"
    assert path.read_bytes().count(b'"data":"unknown"') > 70
    wanted = OFFSET_TYPES if what == "offsets" else (2,)
    expected = [
        raw(row, "key")
        for row in known("4.3.1", control=False)
        if row["decoded"].get("keyVersion") in wanted
    ]
    pieces = read(path, f"{what}-json")
    assert [row["key"] for row in rows_of(pieces)] == expected
    assert reasons(pieces) == {}


# --- the old text forms --------------------------------------------------------------------------


def offset_facts(value: dict[str, Any] | None) -> tuple[Any, ...] | None:
    if value is None:
        return None
    return (value["offset"], value["commitTimestamp"], value.get("expireTimestamp"))


def parsed_offset(key: bytes, value: bytes | None) -> tuple[str, str, int, Any]:
    """By hand: OffsetCommitKey, OffsetCommitValue v1 and v3 without metadata."""
    size = struct.unpack_from(">h", key, 2)[0]
    group, rest = key[4 : 4 + size].decode(), key[4 + size :]
    size = struct.unpack_from(">h", rest)[0]
    topic, partition = rest[2 : 2 + size].decode(), struct.unpack(">i", rest[2 + size :])[0]
    if value is None:
        return group, topic, partition, None
    if value[:2] == b"\0\1":
        _, offset, _, commit, expire = struct.unpack(">hqhqq", value)
        return group, topic, partition, (offset, commit, expire)
    _, offset, _, _, commit = struct.unpack(">hqihq", value)
    return group, topic, partition, (offset, commit, None)


def expected_offsets(run: str, newest_value: int) -> list[tuple[Any, ...]]:
    rows = []
    for record in known(run, control=False):
        decoded = record["decoded"]
        if decoded.get("keyVersion") not in OFFSET_TYPES:
            continue
        if (decoded.get("valueVersion") or 0) <= newest_value:
            key = decoded["key"]
            facts = offset_facts(decoded.get("value"))
            rows.append((key["group"], key["topic"], key["partition"], facts))
    return rows


@pytest.mark.parametrize(
    ("version", "run", "newest"),
    [
        ("2.0.1", "2.0.1", 1),
        ("2.1.1", "2.0.1", 3),
        ("2.4.1", "3.9.1-old", 3),
        ("2.8.2", "3.9.1-old", 3),
        ("3.4.1", "3.9.1-old", 4),
        ("3.8.1", "3.9.1-old", 4),
    ],
)
def test_offsets_in_text(version: str, run: str, newest: int) -> None:
    pieces = read(PRINTED / f"{version}.{run}.offsets.txt", "offsets-text")
    found = [parsed_offset(row["key"], row["value"]) for row in rows_of(pieces)]
    expected = expected_offsets(run, newest)
    if version == "2.0.1":
        # A value without an expire time prints the same -1 as one with it.
        expected = [
            (*key, facts and (facts[0], facts[1], -1 if facts[2] is None else facts[2]))
            for *key, facts in expected
        ]
    else:
        # From 2.3 on -1 is printed as None: both mean that there is none.
        expected = [
            (
                *key,
                facts and (facts[0], facts[1], None if _is_none(facts[2], version) else facts[2]),
            )
            for *key, facts in expected
        ]
    assert len(expected) > 150
    assert found == expected
    assert reasons(pieces) == {}


def _is_none(expire: int | None, version: str) -> bool:
    return expire is None or (expire == -1 and version != "2.1.1")


@pytest.mark.parametrize(
    ("version", "run", "newest"),
    [
        ("2.0.1", "2.0.1", 1),
        ("2.1.1", "2.0.1", 2),
        ("2.4.1", "3.9.1-old", 3),
        ("2.8.2", "3.9.1-old", 3),
        ("3.4.1", "3.9.1-old", 4),
        ("3.8.1", "3.9.1-old", 4),
    ],
)
def test_groups_in_text(version: str, run: str, newest: int) -> None:
    from kgtool.records import decode

    expected = []
    for record in known(run, control=False):
        decoded = record["decoded"]
        if decoded.get("keyVersion") != 2 or (decoded.get("valueVersion") or 0) > newest:
            continue
        value = decoded.get("value")
        expected.append(
            (
                decoded["key"]["group"],
                value and (value["protocolType"], value["generation"], len(value["members"])),
            )
        )
    pieces = read(PRINTED / f"{version}.{run}.groups.txt", "groups-text")
    found = []
    for row in rows_of(pieces):
        group = decode(row["key"], row["value"])
        value = getattr(group, "value", None)
        found.append(
            (group.key.group, value and (value.protocol_type, value.generation, len(value.members)))
        )
    assert len(expected) > 40
    assert found == expected
    assert reasons(pieces) == {}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("2.0.1.2.0.1", "dump-old"),
        ("2.1.1.2.0.1", "dump-old"),
        ("2.3.1.3.9.1-old", "dump-old"),
        ("2.4.1.3.9.1-old", "dump-text"),
        ("2.8.2.3.9.1-old", "dump-text"),
        ("3.7.2.3.9.1-old", "dump-text"),
    ],
)
def test_old_dumps_tell_which_offset_and_when(name: str, kind: str) -> None:
    from kgtool.records import decode

    run = "2.0.1" if name.endswith("2.0.1") else "3.9.1-old"
    log = {row["offset"]: row for row in known(run, partition=2)}
    pieces = read(PRINTED / f"{name}.dump-2.txt", kind)
    found = rows_of(pieces)
    assert len(found) >= 6
    for row in found:
        record = log[row["offset"]]
        assert row["timestamp"] == record["timestamp"]
        assert (row["producerId"], row["transactional"]) == (
            record["producerId"],
            record["transactional"],
        )
        assert row["key"] == raw(record, "key")
        assert (row["value"] is None) == (record["value"] is None)
        if row["value"] is None:
            continue
        value, wanted = decode(row["key"], row["value"]).value, record["decoded"]["value"]
        if record["decoded"]["keyVersion"] == 1:
            assert value.offset == wanted["offset"]
        else:
            assert value.protocol_type == wanted["protocolType"]
            assert value.generation == wanted["generation"]
            assert len(value.members) == len(wanted["members"])
    lost = reasons(pieces)
    if kind == "dump-old":
        # Up to 2.3 nothing is printed of a tombstone but its size.
        assert lost == {
            "tombstone without a key (kafka-dump-log before 2.4)": len(lost) and 6
            if run == "2.0.1"
            else 4
        }
        assert not any(note.damage for piece in pieces for note in piece.notes)
    else:
        assert lost == {}
        assert sum(row["value"] is None for row in found) >= 4


def test_records_that_an_old_dump_tool_does_not_know() -> None:
    pieces = read(PRINTED / "3.7.2.4.3.1.dump-5.txt", "dump-text")
    unknown = [row["decoded"]["keyVersion"] for row in known("4.3.1", partition=5, control=False)]
    lost = reasons(pieces)
    for number in (3, 5, 8):
        reason = f"key type {number} that this kafka-dump-log did not decode"
        assert 0 < lost[reason] <= unknown.count(number)
    # What kgtool makes no use of either is not missed.
    assert not any("type 7 " in reason or "type 6 " in reason for reason in lost)


# --- cuts, noise and damage ----------------------------------------------------------------------

FILES = [
    ("4.3.1.4.3.1.offsets.json", "offsets-json"),
    ("4.3.1.4.3.1.groups.json", "groups-json"),
    ("4.3.1.4.3.1.dump-5.txt", "dump-json"),
    ("2.0.1.2.0.1.dump-2.txt", "dump-old"),
    ("3.8.1.3.9.1-old.offsets.txt", "offsets-text"),
    ("3.8.1.3.9.1-old.groups.txt", "groups-text"),
]


@pytest.mark.parametrize(("name", "kind"), FILES)
@pytest.mark.parametrize("block", [97, 5000])
def test_every_record_once_wherever_a_file_is_cut(
    name: str, kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = PRINTED / name
    expected = rows_of(read(path, kind))
    monkeypatch.setattr(text_ranges, "BLOCK_BYTES", block)
    rng = random.Random(block)
    size = path.stat().st_size
    cuts = sorted({0, size, *(rng.randrange(size) for _ in range(25))})
    found = []
    for start, end in zip(cuts[:-1], cuts[1:], strict=True):
        found += rows_of(read(path, kind, start, end))
    assert found == expected


@pytest.mark.parametrize(("name", "kind"), FILES)
def test_line_ends_of_windows_and_other_programs_output_around(
    name: str, kind: str, tmp_path: Path
) -> None:
    text = (PRINTED / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(
        b"[2026-11-21 13:08:25,104] WARN something (kafka.Some)\n"
        b"SLF4J: Failed to load class\n" + text + b"\nProcessed a total of 58 messages\n"
    )
    pieces = read(path, kind)
    plain = [(row["key"], row["value"]) for row in rows_of(read(PRINTED / name, kind))]
    assert [(row["key"], row["value"]) for row in rows_of(pieces)] == plain
    harmless = {"tombstone without a key (kafka-dump-log before 2.4)"}
    assert set(reasons(pieces)) <= harmless
    path.write_bytes(text.replace(b"\n", b"\r\n"))
    assert [(row["key"], row["value"]) for row in rows_of(read(path, kind))] == plain
    path.write_bytes(b"\xef\xbb\xbf" + text)  # as PowerShell writes UTF-8
    pieces = read(path, kind)
    assert [(row["key"], row["value"]) for row in rows_of(pieces)] == plain
    assert set(reasons(pieces)) <= harmless


def test_json_with_blanks_line_breaks_and_garbage_between(tmp_path: Path) -> None:
    whole = (PRINTED / "4.3.1.4.3.1.offsets.json").read_text()
    decoder, at, objects = json.JSONDecoder(), 0, []
    while at < len(whole):
        found, at = decoder.raw_decode(whole, at)
        objects.append(found)
    expected = rows_of(read(PRINTED / "4.3.1.4.3.1.offsets.json", "offsets-json"))
    path = tmp_path / "indented.json"
    path.write_text("\n".join(json.dumps(each, indent=2) for each in objects))
    assert [row["key"] for row in rows_of(read(path, "offsets-json"))] == [
        row["key"] for row in expected
    ]
    lines = [json.dumps(each) for each in objects]
    lines[3] = lines[3][:-7]
    lines[5] = lines[5].replace('"partition"', '"partitions"')
    path.write_text("\n".join(lines) + "\nhello\n")
    pieces = read(path, "offsets-json")
    assert len(rows_of(pieces)) == len(expected) - 2
    assert reasons(pieces) == {"text that is not a record": 2, "malformed key": 1}


def test_a_file_that_ends_in_a_record_is_no_damage(tmp_path: Path) -> None:
    for name, kind in FILES:
        if kind == "groups-text":
            continue  # a group's line that is cut may be anything
        text = (PRINTED / name).read_bytes().rstrip()
        path = tmp_path / name
        path.write_bytes(text[:-9])
        pieces = read(path, kind)
        notes = [note for piece in pieces for note in piece.notes]
        assert not any(note.damage for note in notes), (name, notes)
        assert "record cut off at the end" in {note.reason for note in notes}, name


def test_names_with_everything_in_them(tmp_path: Path) -> None:
    groups = [
        "a,b",
        "[x,t,0]::NULL",
        "o ::p",
        "q payload: x",
        "g,partition=u-1",
        "\u20ac\U0001f600",
        "k=v, commitTimestamp=5",
        ' "quoted" \\ ',
    ]
    offsets = tmp_path / "offsets.txt"
    offsets.write_text(
        "".join(
            f"[{group},t.x-1_y,7]::OffsetAndMetadata(offset=4, leaderEpoch=Optional[2], "
            "metadata=a\nb, commitTimestamp=1, commitTimestamp=9, expireTimestamp=Some(11))\n"
            for group in groups
        )
    )
    found = [
        parsed_offset(row["key"], row["value"]) for row in rows_of(read(offsets, "offsets-text"))
    ]
    assert found == [(group, "t.x-1_y", 7, (4, 9, 11)) for group in groups]
    dump = tmp_path / "dump.txt"
    head = (
        "baseOffset: 0 lastOffset: 9 count: 1 producerId: -1 isTransactional: false "
        "isControl: false position: 0 CreateTime: 5 isvalid: true\n"
    )
    line = "| offset: {} CreateTime: 5 keysize: 1 valuesize: 1 sequence: -1 headerKeys: [] {}\n"
    key = "key: offset_commit::group={},partition=t.x-1_y-7 payload: offset=4,metadata=m payload: z"
    dump.write_text(
        head + "".join(line.format(n, key.format(group)) for n, group in enumerate(groups))
    )
    found = [parsed_offset(r["key"], r["value"])[:3] for r in rows_of(read(dump, "dump-text"))]
    assert found == [(group, "t.x-1_y", 7) for group in groups]
    printed = tmp_path / "dump-json.txt"
    value = {"offset": 4, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 9}
    pair = "key: {} payload: " + json.dumps({"version": "3", "data": value})
    bodies = [
        pair.replace(
            "{}", json.dumps({"type": "1", "data": {"group": group, "topic": "t", "partition": 7}})
        )
        for group in groups
    ]
    printed.write_text(
        head + "".join(line.format(n, body) for n, body in enumerate(bodies)), encoding="utf-8"
    )
    found = [parsed_offset(r["key"], r["value"]) for r in rows_of(read(printed, "dump-json"))]
    assert found == [(group, "t", 7, (4, 9, None)) for group in groups]


@pytest.mark.parametrize(
    ("name", "kind", "records", "damaged"),
    [
        ("2.0.1.OffsetsMessageFormatter.txt", "offsets-text", 115, True),
        ("2.0.1.GroupMetadataMessageFormatter.txt", "groups-text", 47, True),
        ("2.1.1.dump-log-offsets-decoder.txt", "dump-old", 5, True),
        ("3.9.1-old.dump-log-offsets-decoder.txt", "dump-json", 54, False),
        ("3.9.1-old.offsets-formatter.txt", "offsets-json", 115, False),
        ("4.3.1.groupmetadata-formatter.txt", "groups-json", 120, False),
    ],
)
def test_whole_outputs_of_the_tools(name: str, kind: str, records: int, damaged: bool) -> None:
    pieces = read(DATA / "export-samples" / name, kind)
    assert len(rows_of(pieces)) == records
    assert any(note.damage for piece in pieces for note in piece.notes) is damaged
    if damaged:
        assert any(
            reason.startswith("the tool stopped with an error: org.apache.kafka.")
            for reason in reasons(pieces)
        )


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_dump_of_several_segments_is_cut_where_the_next_begins(mark: str, tmp_path: Path) -> None:
    body = (PRINTED / "4.3.1.4.3.1.dump-5.txt").read_text().split("\n", 1)[1]
    names = [
        "/kafka/__consumer_offsets-5/00000000000000000000.log",
        "/kafka/orders-1/00000000000000000000.log",
        "C:\\kafka\\__consumer_offsets-44\\00000000000000000007.log",
        "00000000000000000000.log",
    ]
    path = tmp_path / "dump.txt"
    path.write_text(mark + "".join(f"Dumping {name}\n{body}" for name in names))
    row = {
        "path": str(path),
        "partition": -2,
        "start": 0,
        "end": path.stat().st_size,
        "format": "dump-json",
        "missing": 0,
        "order": 0,
    }
    cut = ranges(row)
    assert [(each["format"], each["partition"]) for each in cut] == [
        ("dump-json", 5),
        ("other-topic", -2),
        ("dump-json", 44),
        ("dump-json", -2),
    ]
    assert cut[0]["start"] == 0 and cut[-1]["end"] == path.stat().st_size
    assert [each["end"] for each in cut[:-1]] == [each["start"] for each in cut[1:]]
    counts = []
    for each in cut:
        some = list(parts(each))
        if each["format"] == "other-topic":
            assert isinstance(some[0], Note) and some[0].damage
        else:
            counts.append(len(rows_of([part for part in some if isinstance(part, RecordBlock)])))
    assert counts == [len(known("4.3.1", partition=5))] * 3


def test_blocks_know_every_text_format() -> None:
    for kind in TEXT_READERS:
        assert read_block([text_ranges.TextRecord(0, b"\n")], kind, 0, 1).notes == []


def test_base64_of_the_recorded_run_is_what_was_on_disk() -> None:
    row = truth("4.3.1").records[0]
    assert base64.b64decode(row["key"]) == raw(row, "key")
