"""230 runs of Kafka's own tool 4.3.1, those that kgtool's tables and refusals are held to.

``tables`` reads a recorded table back into domain records; rendering them must give the recorded
bytes again, which holds widths, placeholders, order and line ends, whatever the reader believes.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import NamedTuple

from kgtool.model import Broker, GroupDescription, Member, OffsetDeletion, OffsetRow

FILE = Path(__file__).parents[1] / "data" / "cli" / "kafka-consumer-groups-4.3.1.jsonl"


class Run(NamedTuple):
    name: str
    argv: list[str]
    exit: int
    stdout: str
    stderr: str


def runs() -> list[Run]:
    found = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        argv = shlex.split(row["command"])[1:]
        found.append(Run(row["name"], argv, row["exit"], row["stdout"], row["stderr"]))
    return found


def blocks(stdout: str) -> list[list[dict[str, str]]]:
    """Split stdout into tables: one dict a row, by header. Cells hold no blanks here."""
    tables: list[list[dict[str, str]]] = []
    for text in stdout.split("\n\n"):
        lines = [line for line in text.split("\n") if line.strip()]
        if not lines:
            continue
        names = lines[0].replace("COORDINATOR (ID)", "COORDINATOR(ID)").split()
        tables.append([_cells(names, lines[0], line) for line in lines[1:]])
    return tables


def _cells(names: list[str], header: str, line: str) -> dict[str, str]:
    cells = line.replace("  (", "(").split() if "COORDINATOR" in header else line.split()
    if "GROUP-INSTANCE-ID" in names and len(cells) < len(names):
        cells.insert(names.index("GROUP-INSTANCE-ID"), "")
    assert len(cells) == len(names), (names, cells)
    return dict(zip(names, cells, strict=True))


def number(text: str | None) -> int | None:
    return None if text in (None, "-") else int(text)


def word(text: str) -> str | None:
    return None if text == "-" else text


def offset_rows(table: list[dict[str, str]]) -> list[OffsetRow]:
    return [
        OffsetRow(
            row["GROUP"],
            row["TOPIC"],
            int(row["PARTITION"]),
            number(row["CURRENT-OFFSET"]),
            None,
            number(row["LOG-END-OFFSET"]),
            number(row["LAG"]),
            number(row.get("LEADER-EPOCH")),
            None,
            word(row["CONSUMER-ID"]),
            word(row["HOST"]),
            word(row["CLIENT-ID"]),
            None,
            "ok",
        )
        for row in table
    ]


def _assignment(text: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    parts = [part.split(":") for part in text.split(";") if part != "-"]
    return tuple(sorted((t, tuple(map(int, numbers.split(",")))) for t, numbers in parts))


def described(name: str, table: list[dict[str, str]], state: str = "Stable") -> GroupDescription:
    """Make the group whose members were shown."""
    members = []
    for row in table:
        count = int(row["#PARTITIONS"])
        assignment = _assignment(row.get("CURRENT-ASSIGNMENT", "-"))
        if "CURRENT-ASSIGNMENT" not in row and count:
            assignment = (("t", tuple(range(count))),)
        modern = row.get("CURRENT-EPOCH", "-") != "-"
        upgraded = {"true": False, "false": True}.get(row.get("UPGRADED", ""))
        members.append(
            Member(
                row["CONSUMER-ID"],
                row.get("GROUP-INSTANCE-ID") or None,
                row["CLIENT-ID"],
                row["HOST"],
                assignment,
                None,
                epoch=number(row.get("CURRENT-EPOCH")),
                target=_assignment(row["TARGET-ASSIGNMENT"]) if modern else None,
                is_classic=upgraded,
            )
        )
    epochs = [number(row.get("TARGET-EPOCH")) for row in table]
    return GroupDescription(
        name,
        None,
        state,
        "consumer",
        "range",
        None,
        tuple(members),
        assignment_epoch=epochs[0] if epochs else None,
    )


def state_of(row: dict[str, str]) -> GroupDescription:
    address, broker_id = row["COORDINATOR(ID)"].rstrip(")").split("(")
    host, port = address.split(":")
    strategy = row["ASSIGNMENT-STRATEGY"]
    member = Member("m", None, "c", "h", (), None)
    return GroupDescription(
        row["GROUP"],
        None,
        row["STATE"],
        "consumer",
        "" if strategy == "-" else strategy,
        Broker(int(broker_id), host, int(port)),
        (member,) * int(row["#MEMBERS"]),
        number(row.get("GROUP-EPOCH")),
        number(row.get("TARGET-ASSIGNMENT-EPOCH")),
    )


def deletions(stdout: str, codes: dict[str, tuple[int, str]]) -> list[OffsetDeletion]:
    """Read a table of --delete-offsets; ``codes``: Java class → code and name."""
    from kgtool.model import ItemError, Target

    lines = stdout.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith("TOPIC "))
    found = []
    for line in lines[start + 1 :]:
        if not line:
            continue
        topic, partition, status = line.split(None, 2)
        error = None
        if status.startswith("Error: "):
            java, _, message = status.removeprefix("Error: ").partition(": ")
            code, name = codes[java.rpartition(".")[2]]
            error = ItemError(Target("g", topic), code, name, message.rstrip())
        outcome = "failed" if error else "deleted"
        found.append(OffsetDeletion("g", topic, number(partition), outcome, error))
    return found
