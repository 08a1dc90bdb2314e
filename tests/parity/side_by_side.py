"""kafka-share-groups.sh and kafka-streams-groups.sh beside kgtool: the runs, and their world.

``python -m tests.parity.side_by_side 4.4.0 [share|streams]`` records Kafka's tools of a release,
with a broker of that release, to tests/data/cli; ``test_side_by_side.py`` holds kgtool to them.
Names are placeholders: ``{A}``, ``{B}`` and ``{N}`` are topics, ``{G}`` is the run's own group,
``{L}`` one with a member, ``{X}`` nothing, ``{F}`` a file of offsets. What a run leaves behind is
read by neither of the two.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import ShareConsumer

from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.support import brokers, clients
from tests.support.share import get_starts, set_starts
from tests.support.streams import StreamsMember
from tests.support.warm import warm_tools

DATA = Path(__file__).parents[1] / "data" / "cli"
VERSIONS = ("4.3.1", "4.4.0")
TOOLS = ("share", "streams")
BASE_MS, MINUTE_MS = 1_700_000_000_000, 60_000
GROUP_AT = {"A:0": 4, "A:1": 2, "B:0": 1}
"""Where each run's group begins: of 10, 6 and 5 records, one a minute."""


class Run(NamedTuple):
    """One command line of Kafka's tool and the same thing of kgtool."""

    name: str
    theirs: str
    ours: str


def _runs(text: str) -> Iterator[Run]:
    """Read pairs of lines: ``name | theirs``, and ours below."""
    lines = [line.strip() for line in text.splitlines() if line]
    for first, ours in zip(lines[::2], lines[1::2], strict=True):
        name, theirs = first.split(" | ")
        yield Run(name, theirs, ours)


RESETS = """
earliest-dry | {r} {A} --to-earliest --dry-run
    reset-offsets {G} --topic {A} --to-earliest
earliest | {r} {A} --to-earliest --execute
    reset-offsets {G} --topic {A} --to-earliest --execute
latest | {r} {A} --to-latest --execute
    reset-offsets {G} --topic {A} --to-latest --execute
datetime | {r} {A} --to-datetime {T} --execute
    reset-offsets {G} --topic {A} --to-datetime {T} --execute
datetime-late | {r} {A} --to-datetime 2026-01-01T00:00:00.000 --execute
    reset-offsets {G} --topic {A} --to-datetime 2026-01-01T00:00:00.000 --execute
current | {r} {A} --to-current --execute
    reset-offsets {G} --topic {A} --to-current --execute
offset | {r} {A}:0 --to-offset 7 --execute
    reset-offsets {G} --topic {A}:0 --to-offset 7 --execute
offset-beyond | {r} {A}:1 --to-offset 99 --execute
    reset-offsets {G} --topic {A}:1 --to-offset 99 --execute
one-partition | {r} {A}:1 --to-earliest --execute
    reset-offsets {G} --topic {A}:1 --to-earliest --execute
two-topics | {r} {A} {o} {B} --to-latest --execute
    reset-offsets {G} --topic {A} --topic {B} --to-latest --execute
all | {a} --to-latest --execute
    reset-offsets {G} --all-topics --to-latest --execute
all-dry | {a} --to-earliest --dry-run
    reset-offsets {G} --all-topics --to-earliest
from-file | --reset-offsets --group {G} --from-file {F} --execute
    reset-offsets {G} --from-file {F} --execute
export | {r} {A} --to-earliest --export --dry-run
    reset-offsets {G} --topic {A} --to-earliest --export
neither | {r} {A} --to-earliest
    reset-offsets {G} --topic {A} --to-earliest
both | {r} {A} --to-earliest --dry-run --execute
    reset-offsets {G} --topic {A} --to-earliest --dry-run --execute
no-scope | --reset-offsets --group {G} --to-earliest --execute
    reset-offsets {G} --to-earliest --execute
no-strategy | {r} {A} --execute
    reset-offsets {G} --topic {A} --execute
two-strategies | {r} {A} --to-earliest --to-latest --execute
    reset-offsets {G} --topic {A} --to-earliest --to-latest --execute
bad-datetime | {r} {A} --to-datetime yesterday --execute
    reset-offsets {G} --topic {A} --to-datetime yesterday --execute
unknown-topic | {r} {A} {o} {X}-t --to-earliest --execute
    reset-offsets {G} --topic {A} --topic {X}-t --to-earliest --execute
unknown-partition | {r} {A}:0,9 --to-earliest --execute
    reset-offsets {G} --topic {A}:0,9 --to-earliest --execute
never-read | {r} {N} --to-latest --execute
    reset-offsets {G} --topic {N} --to-latest --execute
no-group | --reset-offsets --group {X} {o} {A} --to-earliest --execute
    reset-offsets {X} --topic {A} --to-earliest --execute
members | --reset-offsets --group {L} {o} {A} --to-earliest --execute
    reset-offsets {L} --topic {A} --to-earliest --execute
members-dry | --reset-offsets --group {L} {o} {A} --to-earliest --dry-run
    reset-offsets {L} --topic {A} --to-earliest
"""
SHIFTS = """
shift-back | {r} {A} --shift-by -2 --execute
    reset-offsets {G} --topic {A} --shift-by -2 --execute
shift-far | {r} {A} --shift-by 100 --execute
    reset-offsets {G} --topic {A} --shift-by 100 --execute
duration | {r} {A} --by-duration PT1M --execute
    reset-offsets {G} --topic {A} --by-duration PT1M --execute
"""
OTHERS = """
list | --list
    list --type {K}
list-state | --list --state
    list --type {K}
list-empty | --list --state Empty
    list --type {K} --state Empty
list-bad-state | --list --state Idle
    list --type {K} --state Idle
describe | --describe --group {G}
    describe {G}
describe-verbose | --describe --group {G} --verbose
    describe {G}
describe-members | --describe --group {L} --members
    describe {L} --members
describe-members-verbose | --describe --group {L} --members --verbose
    describe {L} --members
describe-members-empty | --describe --group {G} --members
    describe {G} --members
describe-state | --describe --group {L} --state
    describe {L} --state
describe-state-verbose | --describe --group {L} --state --verbose
    describe {L} --state
describe-state-empty | --describe --group {G} --state
    describe {G} --state
describe-no-group | --describe --group {X}
    describe {X}
describe-no-group-members | --describe --group {X} --members
    describe {X} --members
delete-offsets | {d} {A}
    delete-offsets {G} --topic {A}
delete-offsets-two | {d} {A} {o} {B}
    delete-offsets {G} --topic {A} --topic {B}
delete-offsets-partition | {d} {A}:0
    delete-offsets {G} --topic {A}:0
delete-offsets-unknown-topic | {d} {A} {o} {X}-t
    delete-offsets {G} --topic {A} --topic {X}-t
delete-offsets-never-read | {d} {N}
    delete-offsets {G} --topic {N}
delete-offsets-no-group | --delete-offsets --group {X} {o} {A}
    delete-offsets {X} --topic {A}
delete-offsets-members | --delete-offsets --group {L} {o} {A}
    delete-offsets {L} --topic {A}
delete-offsets-no-topic | --delete-offsets --group {G}
    delete-offsets {G}
delete | --delete --group {G}
    delete {G}
delete-no-group | --delete --group {X}
    delete {X}
delete-members | --delete --group {L}
    delete {L}
delete-mixed | --delete --group {G} --group {X} --group {L}
    delete {G} {X} {L}
delete-nothing | --delete
    delete
"""
OF_STREAMS = """
delete-offsets-all | --delete-offsets --group {G} --all-input-topics
    delete-offsets {G} --topic {A} --topic {B}
delete-internal | --delete --group {G} --delete-all-internal-topics
    delete {G} --internal-topics
reset-internal | {r} {A} --to-earliest --execute --delete-all-internal-topics
    reset-offsets {G} --topic {A} --to-earliest --execute
topology | --describe --group {L} --topology
    describe {L} --topology
"""
SCOPES = {"share": ("--topic", "--all-topics"), "streams": ("--input-topic", "--all-input-topics")}


def runs(tool: str) -> list[Run]:
    """All runs of a tool, in the order in which they were recorded."""
    one, every = SCOPES[tool]
    words = {
        "r": f"--reset-offsets --group {{G}} {one}",
        "a": f"--reset-offsets --group {{G}} {every}",
        "d": f"--delete-offsets --group {{G}} {one}",
        "o": one,
        "K": tool,
        "T": "2023-11-14T22:18:20.000",
    }
    text = RESETS + OTHERS
    if tool == "streams":
        text += SHIFTS + OF_STREAMS
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", value)
    return list(_runs(text))


class World:
    """Topics that nobody changes, and groups: one with a member, and one for each run."""

    def __init__(self, kafka: Sandbox, tool: str, folder: Path) -> None:
        self.kafka, self.tool, self._folder = kafka, tool, folder
        self.bootstrap = kafka.bootstrap
        forever = {"retention.ms": "-1"}
        self.names: dict[str, str] = {}
        for letter, sizes in {"A": (10, 6), "B": (5,), "N": (5,)}.items():
            topic = clients.unique(f"side-{letter.lower()}")
            clients.create_topic(self.bootstrap, topic, len(sizes), config=forever)
            for partition, size in enumerate(sizes):
                for number in range(size):
                    at_ms = BASE_MS + number * MINUTE_MS
                    clients.produce(
                        self.bootstrap, topic, 1, partition=partition, timestamp_ms=at_ms
                    )
            self.names[letter] = topic
        self.names["F"] = str(folder / "offsets.csv")
        Path(self.names["F"]).write_text(f"{self.names['A']},0,3\n{self.names['A']},1,1\n")

    @contextmanager
    def member(self) -> Iterator[None]:
        """Have a group ``{L}`` with a member meanwhile."""
        name = self.names["L"] = clients.unique("side-living")
        if self.tool == "streams":
            topics = [self.names["A"], self.names["B"]]
            with StreamsMember(self.bootstrap, name, topics) as living, _beating(living):
                yield
            return
        set_starts(self.bootstrap, name, self._at())
        sharer = ShareConsumer(
            {"bootstrap.servers": self.bootstrap, "group.id": name, "client.id": "streamer"}
            | {"log_level": 0}
        )
        sharer.subscribe([self.names["A"], self.names["B"]])
        with closing(sharer):
            clients.wait_for(lambda: sharer.poll(0.2), "the member's first records")
            yield

    def fresh(self) -> None:
        """Make another empty group ``{G}``, at ``GROUP_AT``."""
        self.names["X"] = clients.unique("side-nothing")
        name = self.names["G"] = clients.unique("side-group")
        if self.tool == "share":
            set_starts(self.bootstrap, name, self._at())
            return
        inner, store = f"{name}-by-key-repartition", f"{name}-counts-changelog"
        topics = [self.names["A"], self.names["B"]]
        parts = {"repartitions": (inner,), "changelogs": (store,)}
        with StreamsMember(self.bootstrap, name, topics, **parts):  # type: ignore[arg-type]
            pass
        clients.commit(self.bootstrap, name, self._at())

    def _at(self) -> dict[tuple[str, int], int]:
        at = [(key.split(":"), offset) for key, offset in GROUP_AT.items()]
        return {(self.names[letter], int(number)): offset for (letter, number), offset in at}

    def after(self) -> dict[str, Any]:
        """Return the offsets of ``{G}``, and its internal topics that are there."""
        group, letters = self.names["G"], {self.names[key]: key for key in "ABN"}
        read = clients.committed if self.tool == "streams" else get_starts
        found = read(self.bootstrap, group)
        at = {f"{letters[topic]}:{number}": offset for (topic, number), offset in found.items()}
        if self.tool == "share":
            return {"offsets": at}
        known = clients.admin(self.bootstrap).list_topics(timeout=30).topics
        inner = sorted("{G}" + one.removeprefix(group) for one in known if one.startswith(group))
        return {"offsets": at, "internal": inner}

    def argv(self, line: str) -> list[str]:
        for key, name in self.names.items():
            line = line.replace(f"{{{key}}}", name)
        return shlex.split(line)

    def plain(self, text: str) -> str:
        """Put the placeholders into a text, and leave out what is listed of other runs."""
        for key, name in self.names.items():
            text = text.replace(name, f"{{{key}}}")
        lines = text.replace(self.bootstrap, "{HOST}").splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("side-"))


@contextmanager
def _beating(member: StreamsMember) -> Iterator[None]:
    """Send its heartbeats meanwhile, however long a run takes."""
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(3):
            member.beat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def path_of(tool: str, version: str) -> Path:
    return DATA / f"kafka-{tool}-groups-{version}.jsonl"


def _record(tool: str, kafka: Sandbox, folder: Path) -> Iterator[dict[str, Any]]:
    world = World(kafka, tool, folder)
    with world.member(), warm_tools() as warm:
        tools = warm(kafka)
        for run in runs(tool):
            world.fresh()
            done = tools.run_tool(f"kafka-{tool}-groups", *world.argv(run.theirs))
            stderr = [line for line in done.stderr.splitlines() if not line.startswith("\tat ")]
            yield {
                "name": run.name,
                "command": f"kafka-{tool}-groups {run.theirs}",
                "exit": done.returncode,
                "stdout": world.plain(done.stdout),
                "stderr": world.plain("\n".join(stderr[:3])),
                "after": world.after(),
            }


def main(version: str, *tools: str) -> None:
    """Record a release; a broker of it is started, and stopped at the end."""
    with tempfile.TemporaryDirectory() as folder:
        kafka = Sandbox.start("side", version=version, root=Path(folder), config=brokers.KEEP)
        try:
            ready.wait_for_coordinators(kafka.state)
            for tool in tools or TOOLS:
                with path_of(tool, version).open("w", encoding="utf-8") as out:
                    for row in _record(tool, kafka, Path(folder)):
                        print(json.dumps(row), file=out, flush=True)
        finally:
            kafka.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
