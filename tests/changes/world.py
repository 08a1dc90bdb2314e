"""Groups to change and to take back, and what an independent client sees of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions

from tests.support import clients
from tests.support.warm_kgtool import may_be_warm, run_warm

ROOT = Path(__file__).parents[2]

Seen = dict[tuple[str, int], tuple[int, str, int | None]]
"""What a group has: offset, metadata and leader epoch by partition."""


class Run(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.json["results"]


def seen(bootstrap: str, *groups: str) -> dict[str, Seen]:
    """What confluent-kafka says that groups have committed."""
    client = clients.admin(bootstrap)
    found = {}
    for group in groups:
        request = [ConsumerGroupTopicPartitions(group)]
        answer = client.list_consumer_group_offsets(request)[group].result(timeout=30)
        found[group] = {
            (part.topic, part.partition): (part.offset, part.metadata or "", part.leader_epoch)
            for part in answer.topic_partitions or []
            if part.error is None and part.offset >= 0
        }
    return found


def commit(
    bootstrap: str,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    metadata: str = "",
    leader_epoch: int | None = 0,
) -> None:
    """Commit with metadata and a leader epoch, as a consumer does that has read so far."""
    epoch = {} if leader_epoch is None else {"leader_epoch": leader_epoch}
    clients.commit(bootstrap, group, offsets, metadata, **epoch)


def environment(journal: Path, **more: str) -> dict[str, str]:
    env = {**os.environ, "KGTOOL_JOURNAL_DIR": str(journal), **more}
    env.pop("KGTOOL_BOOTSTRAP_SERVER", None)
    return env


def kgtool(journal: Path, *argv: str, timeout: float = 120, **options: Any) -> Run:
    """Run kgtool as a process of its own, with its journal in a folder."""
    env = environment(journal, **options.pop("env", {}))
    if not options and may_be_warm(env):
        done = run_warm(argv, env, timeout)
        return Run(done.status, done.out, done.err)
    command = options.pop("command", [sys.executable, "-m", "kgtool.cli"])
    apart = subprocess.run(
        [*command, *argv],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )
    return Run(apart.returncode, apart.stdout, apart.stderr)


def crash(journal: Path, step: int | str, argv: Sequence[str]) -> Run:
    """Run kgtool and kill it at a step."""
    command = [sys.executable, "-m", "tests.changes.crash", str(step), str(journal / "steps.json")]
    return kgtool(journal, *argv, command=command)


def steps(journal: Path, argv: Sequence[str]) -> list[str]:
    """Run kgtool to its end and return the steps that it took."""
    journal.mkdir(exist_ok=True)
    done = crash(journal, 0, argv)
    assert done.status == 0, done.err
    found: list[str] = json.loads((journal / "steps.json").read_text(encoding="utf-8"))
    return found


def history(journal: Path) -> list[dict[str, Any]]:
    done = kgtool(journal, "history", "-o", "json")
    assert done.status == 0, done.err
    return done.rows


def stop(journal: Path, number: int, argv: Sequence[str]) -> Run:
    """Run kgtool and send it a signal when its journal is ready and its request has left."""
    return kgtool(journal, *argv, command=[sys.executable, "-m", "tests.changes.stop", str(number)])
