"""Changes of many groups go in waves: what memory holds does not grow with their number."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.changes.restore import run
from kgtool.cli.app.main import main
from kgtool.cli.flows import spool
from kgtool.config import settings
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.net.session import Session
from kgtool.queries.offsets import adaptive_batches
from tests.support import clients
from tests.support.offsets import first_commits

pytestmark = pytest.mark.broker

FEW, MANY, PARTITIONS, WAVE = 10, 40, 24, 5
PREFIX = clients.unique("size")


@pytest.fixture(scope="module")
def topic(bootstrap: str) -> str:
    """A topic in which many groups have offsets."""
    topic = clients.create_topic(bootstrap, clients.unique("size"), PARTITIONS)
    for number in range(PARTITIONS):
        clients.produce(bootstrap, topic, 5, partition=number)
    names = [f"{PREFIX}-{'few' if n < FEW else 'more'}-{n:03}" for n in range(MANY)]
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
    monkeypatch.setattr(adaptive_batches, "FIRST", WAVE)
    monkeypatch.setattr(adaptive_batches.Waves.__init__, "__defaults__", (WAVE * PARTITIONS,))
    monkeypatch.setattr(run, "_GROUPS_AT_ONCE", WAVE)
    monkeypatch.setattr(spool, "MEMORY_BYTES", 1000)

    def call(*argv: str) -> int:
        with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:  # noqa: SIM117
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = main(["--bootstrap-server", bootstrap, *argv])
        assert status == 0, (argv, (tmp_path / "err").read_text()[:1000])
        return status

    return call


def peak(work: Callable[[], int]) -> float:
    """Return how many MiB were held at most while something was done, beyond what was before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


CHANGES = {
    "reset-offsets": ["reset-offsets", "--all-topics", "--to-latest", "--execute", "--yes"],
    "--reset-offsets": ["--reset-offsets", "--all-topics", "--to-earliest", "--execute"],
    "keep": ["keep", "--yes"],
    "delete-offsets": ["delete-offsets", "--topic", "{topic}", "--yes"],
    "delete": ["delete", "--yes"],
}


@pytest.mark.parametrize("name", CHANGES)
def test_memory_does_not_grow_with_the_number_of_groups(
    topic: str, kgtool: Callable[..., int], tmp_path: Path, name: str
) -> None:
    """Each change, and what takes it back."""
    change = [word.format(topic=topic) for word in CHANGES[name]]
    backup = str(tmp_path / "backup.jsonl")
    used: list[list[float]] = []
    for pattern in (f"{PREFIX}-few-*", f"{PREFIX}-*"):
        kgtool("backup", "--match", pattern, "--out", backup, "--overwrite")
        steps = [[*change, "--match", pattern]]
        if change[0] != "keep":
            steps += [["undo", "last", "--yes"], steps[0], ["restore", backup, "--yes"]]
        used.append([peak(lambda argv=argv: kgtool(*argv, "-o", "ndjson")) for argv in steps])  # type: ignore[misc]
    for less, more, argv in zip(*used, steps, strict=True):
        assert more < less + 0.5, (argv, less, more)
