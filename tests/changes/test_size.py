"""Changes of many groups go in waves: what memory holds does not grow with their number."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgtool.changes import plan
from kgtool.changes.journal.change import Change
from kgtool.cli.app.main import main
from kgtool.cli.change import confirm, impact
from kgtool.config import settings
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.net.session import Session
from kgtool.queries.offsets import fetch
from tests.support import clients
from tests.support.offsets import first_commits

pytestmark = pytest.mark.broker

FEW, MANY, PARTITIONS, WAVE = 10, 40, 12, 5


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic in which many groups have offsets; their names begin with its own."""
    topic = clients.create_topic(bootstrap, clients.unique("size"), PARTITIONS)
    for number in range(PARTITIONS):
        clients.produce(bootstrap, topic, 5, partition=number)
    names = [f"{topic}-{'few' if n < FEW else 'more'}-{n:03}" for n in range(MANY)]
    value = CommittedOffset(3, None, "m" * 4000)  # so that few offsets take a lot
    offsets = {TopicPartition(topic, number): value for number in range(PARTITIONS)}
    found = settings(bootstrap)
    assert found is not None
    with Session(found) as session:
        session.run(first_commits(session.cluster, dict.fromkeys(names, offsets)))
    return topic


@pytest.fixture
def kgtool(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs kgtool in this process with small waves; what it says is not held in memory."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    monkeypatch.setattr(fetch, "FIRST", WAVE)
    monkeypatch.setattr(fetch.AdaptiveBatches.__init__, "__defaults__", (WAVE * PARTITIONS,))
    monkeypatch.setattr(plan, "MEMORY_BYTES", 1000)
    monkeypatch.setattr("kgtool.held.IN_MEMORY", 1000)

    def call(*argv: str) -> int:
        with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:  # noqa: SIM117
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = main(["--bootstrap-server", bootstrap, *argv])
        assert status == 0, (argv, (tmp_path / "err").read_text()[:1000])
        return status

    return call


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], int]], float]:
    """Measures how many MiB a command holds whenever it writes down a part of its change."""
    real = Change.before
    seen: list[int] = []

    def before(change: Change, changes: Any, *more: Any) -> None:
        gc.collect()
        seen.append(tracemalloc.get_traced_memory()[0])
        real(change, changes, *more)

    monkeypatch.setattr(Change, "before", before)

    def measure(work: Callable[[], int]) -> float:
        seen.clear()
        tracemalloc.start()
        try:
            work()
        finally:
            tracemalloc.stop()
        return max(seen) / 2**20

    return measure


CHANGES = {
    "reset-offsets": ["reset-offsets", "--all-topics", "--to-latest", "--execute", "--yes"],
    "--reset-offsets": ["--reset-offsets", "--all-topics", "--to-earliest", "--execute"],
    "keep": ["keep", "--yes"],
    "delete-offsets": ["delete-offsets", "--topic", "{topic}", "--yes"],
    "delete": ["delete", "--yes"],
}


@pytest.mark.parametrize("name", CHANGES)
def test_memory_does_not_grow_with_the_number_of_groups(
    topic: str, kgtool: Callable[..., int], held: Any, tmp_path: Path, name: str
) -> None:
    """Each change, and what takes one of them back."""
    change = [word.format(topic=topic) for word in CHANGES[name]]
    backup = str(tmp_path / "backup.jsonl")
    used: list[list[float]] = []
    for pattern in (f"{topic}-few-*", f"{topic}-*"):
        kgtool("backup", "--match", pattern, "--out", backup, "--overwrite")
        steps = [[*change, "--match", pattern]]
        if name == "reset-offsets":
            steps += [["undo", "last", "--yes"], steps[0], ["restore", backup, "--yes"]]
        used.append([held(lambda argv=argv: kgtool(*argv, "-o", "ndjson")) for argv in steps])  # type: ignore[misc]
    for less, more, argv in zip(*used, steps, strict=True):
        assert more < less + 0.5, (argv, less, more)


@pytest.mark.parametrize("name", ["delete", "delete-offsets"])
def test_what_the_question_tells_is_looked_up_in_waves(
    topic: str, kgtool: Callable[..., int], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """On a terminal; it looked at all groups at once, with all that their log says."""
    real, peaks = impact.show, []

    def show(*args: Any) -> Any:
        gc.collect()
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        real(*args)
        peaks.append((tracemalloc.get_traced_memory()[1] - before) / 2**20)

    monkeypatch.setattr(impact, "show", show)
    monkeypatch.setattr(confirm, "is_interactive", lambda: True)
    monkeypatch.setattr(confirm, "_ask", lambda *_: None)
    change = [word.format(topic=topic) for word in CHANGES[name] if word != "--yes"]
    tracemalloc.start()
    try:
        for pattern in (f"{topic}-few-*", f"{topic}-*"):
            kgtool(*change, "--match", pattern, "-o", "ndjson")
            kgtool("undo", "last", "--yes")
    finally:
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 0.5, peaks


def test_an_interruption_between_two_waves_can_be_undone(
    topic: str, kgtool: Callable[..., int], bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the journal has is what was changed."""
    names = [f"{topic}-few-{number:03}" for number in range(FEW)]

    def places() -> list[int | None]:
        return [clients.committed(bootstrap, name).get((topic, 0)) for name in names]

    real, parts = Change.before, iter(range(100))

    def before(change: Change, changes: Any, *more: Any) -> None:
        if next(parts) == 1:
            raise KeyboardInterrupt
        real(change, changes, *more)

    argv = ["--match", f"{topic}-few-*", "--all-topics", "--execute", "--yes"]
    kgtool("reset-offsets", *argv, "--to-offset", "3")
    monkeypatch.setattr(Change, "before", before)
    with pytest.raises(AssertionError, match="assert 130 == 0"):
        kgtool("reset-offsets", *argv, "--to-offset", "4")
    assert places() == WAVE * [4] + WAVE * [3]
    kgtool("undo", "last", "--yes")
    assert places() == FEW * [3]
