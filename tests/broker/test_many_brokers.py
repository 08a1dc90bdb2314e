"""Three brokers, one of which is killed, paused or restarted while kgtool is at work."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import ElectionType, TopicPartition

from kgtool.config import Settings, parse_bootstrap
from kgtool.net.session import Session
from kgtool.queries.groups.list import list_groups
from kgtool.queries.offsets.describe import describe_offsets
from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.paths import locked
from tests.support import brokers, clients
from tests.support.faulty import SMALL, Run, kgtool
from tests.support.outcomes import Outcome

pytestmark = [
    pytest.mark.starts_first,
    pytest.mark.timed,
    pytest.mark.timeout(1800),  # one test at a time has the brokers, and the others wait for them
]
TABLE = "kgtool while one of three brokers fails"
GROUPS = 90
_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
BEFORE = {("bulk", 0): 3, ("bulk", 1): 4}


class Three(NamedTuple):
    """The cluster, and what was committed in it."""

    cluster: Sandbox
    groups: list[str]

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def commit(self, prefix: str, count: int = GROUPS) -> list[str]:
        """Make groups, spread over all coordinators."""
        names = [f"{prefix}-{number:03}" for number in range(count)]
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda name: clients.commit(self.bootstrap, name, BEFORE), names))
        return names

    def settle(self) -> None:
        """Bring every broker back, and wait until each leads its share again."""
        self.cluster.resume()
        for node in self.cluster.nodes:
            ready.wait_until_ready(self.cluster.state, only=node.id)
        # No election makes a leader of a replica that is still catching up.
        clients.wait_for(self._in_sync, "every replica to be in sync")
        done = self.cluster.run_tool(
            "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"
        )
        assert done.returncode == 0, done.stderr
        clients.wait_for(self._all_lead, "every broker to lead something")
        self.commit_known()

    def commit_known(self) -> None:
        """Write to every partition of the log.

        A coordinator that took over keeps showing the offsets below the high watermark it had while
        loading, and answers no stable read, if that moves on before it listens: until the next
        write, which a live cluster has at once (4.3.1, two runs of thirteen).
        """
        self.commit("known")

    def rotate(self) -> list[TopicPartition]:
        """Make the second replica of every partition the preferred one; return the partitions."""
        topics = clients.admin(self.bootstrap).list_topics(timeout=10).topics
        rows = [
            {
                "topic": name,
                "partition": part.id,
                "replicas": [*part.replicas[1:], part.replicas[0]],
            }
            for name in ("__consumer_offsets", "bulk")
            for part in topics[name].partitions.values()
        ]
        plan = self.cluster.folder / "rotated.json"
        plan.write_text(json.dumps({"version": 1, "partitions": rows}))
        done = self.cluster.run_tool(_REASSIGN, "--reassignment-json-file", str(plan), "--execute")
        assert done.returncode == 0, done.stdout + done.stderr
        return [TopicPartition(row["topic"], row["partition"]) for row in rows]

    def elect(self, partitions: list[TopicPartition]) -> None:
        """Let the preferred replicas take over, which moves leaders and coordinators at once."""
        admin = clients.admin(self.bootstrap)
        found = admin.elect_leaders(ElectionType.PREFERRED, partitions).result(30)
        moved = [p for p, error in found.items() if error is None]
        assert len(moved) > len(partitions) // 2, found

    def offsets(self, groups: list[str]) -> dict[str, dict[tuple[str, int], int]]:
        """What groups have committed, as Kafka's own tool sees it."""
        told = clients.wait_for(self._described, "what all groups have committed")
        found: dict[str, dict[tuple[str, int], int]] = {group: {} for group in groups}
        for line in told.splitlines():
            words = line.split()
            if len(words) > 3 and words[0] in found:
                found[words[0]][words[1], int(words[2])] = int(words[3])
        return found

    def _described(self) -> str:
        printed = self.cluster.run_tool("kafka-consumer-groups", "--describe", "--all-groups")
        return "" if "Error" in printed.stdout else printed.stdout

    def _in_sync(self) -> bool:
        topics = clients.admin(self.bootstrap).list_topics(timeout=10).topics.values()
        parts = [part for topic in topics for part in topic.partitions.values()]
        return all(len(part.isrs) == len(part.replicas) for part in parts)

    def _all_lead(self) -> bool:
        found = clients.admin(self.bootstrap).list_topics("__consumer_offsets", timeout=10)
        parts = found.topics["__consumer_offsets"].partitions.values()
        return len({part.leader for part in parts}) == 3


@pytest.fixture
def settled() -> Iterator[Three]:
    """The run's three brokers, all well; one test at a time has them, in whatever worker."""
    root = Path(os.environ[brokers.VARIABLE])
    with locked(root / "three.lock", timeout=1800.0):
        cluster = Sandbox.attach("three", root=root)
        known = [f"known-{number:03}" for number in range(GROUPS)]
        if cluster is None:
            cluster = Sandbox.start("three", brokers=3, root=root, config=SMALL)
            ready.wait_for_coordinators(cluster.state)
            clients.create_topic(cluster.bootstrap, "bulk", 3, replication=3)
            clients.create_topic(cluster.bootstrap, "solo", 3, replication=1)
            # Long before a broker dies: whoever takes over as coordinator shows what was below the
            # high watermark when it followed, up to half a second behind.
            clients.commit(cluster.bootstrap, "solo", {("solo", p): 0 for p in range(3)})
            for partition in range(3):
                clients.produce(cluster.bootstrap, "bulk", 10, partition=partition)
        made = Three(cluster, known)
        made.settle()
        yield made


@contextlib.contextmanager
def paused(three: Three, node: int) -> Iterator[None]:
    pid = three.cluster.pid(node)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def run(three: Three, *argv: str, first: int = 1) -> Run:
    """Run kgtool with broker ``first`` in front of the bootstrap list."""
    places = three.bootstrap.split(",")
    places = places[first - 1 :] + places[: first - 1]
    return kgtool(*argv, "--bootstrap-server", ",".join(places), "-o", "json")


def lags(done: Run) -> set[tuple[str, int, int | None]]:
    return {(row["group"], row["partition"], row["lag"]) for row in done.document["results"]}


def known_lags(three: Three) -> set[tuple[str, int, int | None]]:
    """What ``lags`` are of 10 records in each of 3 partitions, one of them without a commit."""
    found = {0: 10 - BEFORE["bulk", 0], 1: 10 - BEFORE["bulk", 1], 2: None}
    return {(group, *lag) for group in three.groups for lag in found.items()}


def test_what_a_killed_broker_had_is_found_again_without_a_storm(
    settled: Three, outcome: Outcome
) -> None:
    """The survivors' first answers leave out a third of the groups without any error."""
    settings = Settings(parse_bootstrap(settled.bootstrap), timeout_ms=30_000)
    settled.cluster.kill(2)
    with Session(settings) as session:
        with outcome(TABLE, "list", "kill -9") as cell:
            began = time.monotonic()
            listing = session.run(list_groups(session.cluster))
            assert listing.errors == []
            assert {row.group for row in listing.groups} >= set(settled.groups)
            cell.says(f"complete after {time.monotonic() - began:.0f} s")
            # A look takes four requests, and there is one a second until others have taken over.
            assert session.loop.requests_sent < 4 * 25
        before = session.loop.requests_sent
        found = session.run(describe_offsets(session.cluster, settled.groups))
        assert not [group for group in found if group.errors]
        assert session.loop.requests_sent - before < 40


def test_a_full_disk_is_no_reader_who_has_seen_enough(settled: Three) -> None:
    """Several leaders answer at once: it shows in the middle of one answer, and others follow."""
    argv = ["describe", "--match", "known-*", "-o", "ndjson", "-b", settled.bootstrap]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kgtool.cli", *argv],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr == (
        "Error: The output can't be written: No space left on device. Output is incomplete.\n"
    )


def test_coordinators_that_do_not_answer_are_followed(settled: Three, outcome: Outcome) -> None:
    with outcome(TABLE, "describe", "SIGSTOP") as cell, paused(settled, 3):
        # Half of it is for listing, and the others take over after seven to ten seconds.
        argv = ["describe", "--match", "known-*", "--timeout", "30000"]
        done = run(settled, *argv, first=3)
        assert done.status == 0, done
        assert lags(done) == known_lags(settled)
        cell.says(f"complete after {done.seconds:.0f} s")


def test_a_partition_that_only_the_dead_broker_had_costs_only_its_rows(
    settled: Three, outcome: Outcome
) -> None:
    admin = clients.admin(settled.bootstrap)

    def leaders() -> dict[int, int]:
        found = admin.list_topics("solo", timeout=10).topics["solo"]
        return {part.id: part.leader for part in found.partitions.values()}

    home = leaders()
    with outcome(TABLE, "describe, no replica left", "kill -9") as cell:
        victim = home[0]
        settled.cluster.kill(victim)
        clients.wait_for(lambda: -1 in leaders().values(), "the controller to notice")
        done = run(settled, "describe", "--group", "solo", "--timeout", "30000")
        status = {row["partition"]: row["status"] for row in done.document["results"]}
        expected = {p: "no-leader" if home[p] == victim else "ok" for p in home}
        assert status == expected, done
        cell.says("no-leader, the others ok")


def test_a_broker_that_stays_away_is_named_within_the_timeout(settled: Three) -> None:
    """Before its time is up nobody takes over: 3 s of --timeout against 6 s of session."""
    with paused(settled, 1):
        done = run(settled, "list", "--timeout", "3000", first=1)
        assert done.status == 3, done
        assert done.seconds < 8
        (error,) = done.document["errors"]
        assert error["target"]["broker"] == 1
        port = settled.cluster.nodes[0].port
        assert f"127.0.0.1:{port}" in error["message"]
        listed = {row["group"] for row in done.document["results"]}
        assert listed & set(settled.groups)


# ---------------------------------------------------------------------------------------------
# In the middle of a change


MOVED = "leaders and coordinators moved"
APIS = {"describe": 16, "delete": 42, "delete-offsets": 47, "reset-offsets": 8}
"""The first request that a failure comes in the middle of."""


PAUSES = """
import os, signal, socket, struct, sys
from kgtool.cli.app.main import main

send, api = socket.socket.send, int(sys.argv.pop(1))

def apis(data):
    while len(data) >= 6:
        length, key = struct.unpack_from(">ih", data)
        yield key
        data = data[4 + length:]

def sent(peer, data, *flags):
    count = send(peer, data, *flags)
    if api in apis(bytes(data)):
        socket.socket.send = send
        os.kill(os.getpid(), signal.SIGSTOP)
    return count

socket.socket.send = sent
sys.exit(main())
"""
"""Stops once the first request of an API has left, until it is told to go on."""


def in_the_middle(three: Three, argv: list[str], fail: Callable[[], Any], api: int) -> Run:
    """Run a command, and let something happen to a broker once it has sent a request of an API."""
    command = [sys.executable, "-c", PAUSES, str(api), *argv]
    command += ["--bootstrap-server", three.bootstrap, "-o", "json"]
    began = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process,
        ThreadPoolExecutor(1) as pool,
    ):
        how = os.WSTOPPED | os.WNOHANG
        clients.wait_for(lambda: os.waitid(os.P_PID, process.pid, how), "its middle")
        failed = pool.submit(fail)
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=90)
        took = time.monotonic() - began
        failed.result()
        said.seek(0)
        return Run(tuple(argv[:3]), process.returncode, out, said.read(), took)


@pytest.mark.parametrize(
    ("command", "failure"),
    [
        ("delete", "kill -9"),
        ("delete-offsets", "restart"),
        ("reset-offsets", "SIGSTOP"),
        ("reset-offsets", MOVED),
    ],
)
def test_a_bulk_change_tells_exactly_what_was_done(
    settled: Three,
    command: str,
    failure: str,
    outcome: Outcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    groups = settled.commit(clients.unique("bulk"))
    argv = [command, "--yes", *(word for group in groups for word in ("--group", group))]
    if command != "delete":
        argv += ["--topic", "bulk:0"]
    if command == "reset-offsets":
        argv += ["--to-offset", "9", "--execute"]
    with outcome(TABLE, command, failure) as cell:
        with failing(settled, failure) as fail:
            done = in_the_middle(settled, argv, fail, APIS[command])
        settled.settle()
        _compare(done, settled.offsets(groups), command)
        if failure == MOVED:
            assert done.status == 0, done  # nobody was away: it all can be done
        statuses = [row["status"] for row in done.document["results"]]
        good = statuses.count(GOOD[command])
        cell.says(f"{good} of {len(groups)} in {done.seconds:.0f} s")


@contextlib.contextmanager
def failing(three: Three, failure: str) -> Iterator[Callable[[], Any]]:
    """What is to happen to broker 2 or to all of them, and the end of it."""
    if failure == MOVED:
        partitions = three.rotate()

        def move() -> None:
            three.elect(partitions)
            three.commit_known()

        yield move
        return
    pid = three.cluster.pid(2)
    assert pid is not None
    yield {
        "kill -9": lambda: three.cluster.kill(2),
        "SIGSTOP": lambda: os.kill(pid, signal.SIGSTOP),
        "restart": lambda: three.cluster.restart(2),
    }[failure]
    if failure == "SIGSTOP":
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("failure", ["kill -9", MOVED])
def test_what_moves_while_it_is_described_is_followed(
    settled: Three, failure: str, outcome: Outcome
) -> None:
    argv = ["describe", "--match", "known-*", "--timeout", "30000"]
    with outcome(TABLE, "describe, in the middle", failure) as cell:
        with failing(settled, failure) as fail:
            done = in_the_middle(settled, argv, fail, APIS["describe"])
        assert done.status == 0, done
        assert lags(done) == known_lags(settled)
        cell.says(f"complete after {done.seconds:.0f} s")


GOOD = {"delete": "deleted", "delete-offsets": "deleted", "reset-offsets": "reset"}
AFTER: dict[str, dict[tuple[str, int], int]] = {
    "delete": {},
    "delete-offsets": {("bulk", 1): BEFORE["bulk", 1]},
    "reset-offsets": {**BEFORE, ("bulk", 0): 9},
}


def _compare(done: Run, now: dict[str, dict[tuple[str, int], int]], command: str) -> None:
    """Hold what was said to what is there."""
    after = AFTER[command]
    rows = done.document["results"]
    assert {row["group"] for row in rows} == set(now), done
    for row in rows:
        found = now[row["group"]]
        if row["status"] == GOOD[command]:
            assert found == after, (row, found)
        elif _error_of(done, row)["name"] == "OUTCOME_UNKNOWN":
            assert found in (BEFORE, after), (row, found)
        else:
            assert row["status"] == "failed", (row, _error_of(done, row), found)
            assert found == BEFORE, (row, found)
    good = sum(row["status"] == GOOD[command] for row in rows)
    errors = done.document["errors"]
    assert done.status == (0 if not errors else 3 if good else 4), done
    assert done.seconds < 40
    assert json.loads(done.out)["command"] == command


def _error_of(done: Run, row: dict[str, Any]) -> Any:
    """Rows of a reset have no error of their own: it is in the document's list."""
    own = row.get("error")
    return own or next(e for e in done.document["errors"] if e["target"]["group"] == row["group"])
