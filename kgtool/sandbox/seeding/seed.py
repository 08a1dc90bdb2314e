"""Make the world that ``world`` describes, with real clients."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kgtool.errors import SandboxError
from kgtool.records.subscription import encode_topics
from kgtool.sandbox import broker, processes, ready
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.paths import locked, make_dir
from kgtool.sandbox.reporter import QUIET, Reporter
from kgtool.sandbox.seeding import world
from kgtool.sandbox.seeding.group_client import GroupClient, assignment
from kgtool.sandbox.seeding.members import GroupMembers, commit, consumer, pend, transactional

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")
WAIT_S = 60.0
_TOO_EARLY = {
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
}


def seed(cluster: Sandbox, reporter: Reporter = QUIET) -> None:
    """Fill a running sandbox, unless it is seeded already.

    SandboxError when a step fails; running it again goes on from there.
    """
    if cluster.state.seeded and processes.pid_of(cluster.state.members_dir) is not None:
        reporter.say(f"The sandbox {cluster.name!r} is already seeded")
        return
    from confluent_kafka import KafkaException

    with locked(cluster.folder / "seed.lock"):
        processes.end([cluster.state.members_dir])
        try:
            Seeder(cluster, reporter).run()
        except KafkaException as error:
            raise SandboxError(
                f"The sandbox {cluster.name!r} could not be seeded: {error.args[0].str()}",
                hint="Run it again; it goes on from where it stopped.",
            ) from error
        cluster.remember_seed()


class Seeder:
    """The steps of seeding, each of which may be repeated."""

    def __init__(self, cluster: Sandbox, reporter: Reporter) -> None:
        self._cluster = cluster
        self._bootstrap = cluster.bootstrap
        self._modern = not cluster.version.startswith("3.")
        self._say = reporter.say
        self._admin: AdminClient = ready.admin(self._bootstrap)

    def run(self) -> None:
        """Run all steps, each after those that it needs."""
        self._say("Creating topics and records")
        ready.wait_for_coordinators(self._cluster.state)
        for topic, (partitions, records) in world.TOPICS.items():
            self._fill(topic, partitions, records)
        self._trim_audit()
        self._say("Creating groups: standalone, beyond the end, transactional, console consumers")
        self._standalone()
        self._recreate_inventory()
        self._transactions()
        self._console_consumers()
        self._say("Starting groups with members")
        members = self._start_members()
        self._went_empty()
        self._await_members(members)

    # -- topics --------------------------------------------------------------------------------

    def _fill(self, topic: str, partitions: int, records: int) -> None:
        """Create a topic if need be and bring each partition to ``records`` records."""
        from confluent_kafka import Producer

        self._create(topic, partitions)
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0, "linger.ms": 20})
        for partition, end in enumerate(self._ends(topic, partitions)):
            for number in range(end, records):
                value = f'{{"topic": "{topic[:20]}", "number": {number}}}'
                producer.produce(topic, value, key=f"key-{number}", partition=partition)
        if producer.flush(WAIT_S):
            raise SandboxError(f"The records of {topic!r} could not be written")

    def _create(self, topic: str, partitions: int) -> None:
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import NewTopic

        replicas = min(3, len(self._cluster.nodes))

        def is_created() -> bool:
            request = [NewTopic(topic, partitions, replicas)]
            try:
                self._admin.create_topics(request)[topic].result(timeout=WAIT_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise SandboxError(f"The topic {topic!r} can't be created: {error}") from None
            found = self._admin.list_topics(timeout=WAIT_S).topics.get(topic)
            leaders = [] if found is None else [part.leader for part in found.partitions.values()]
            return len(leaders) == partitions and min(leaders) >= 0

        complaint = f"The topic {topic!r} got no leaders within {WAIT_S:.0f} s"
        ready.wait_until(is_created, WAIT_S, complaint, pause=0.05)

    def _ends(self, topic: str, partitions: int) -> list[int]:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        wanted = [TopicPartition(topic, number) for number in range(partitions)]

        def ask() -> list[int]:
            futures = self._admin.list_offsets({part: OffsetSpec.latest() for part in wanted})
            ends = {part.partition: future.result().offset for part, future in futures.items()}
            return [ends[number] for number in range(partitions)]

        return _when_ready(ask)

    def _trim_audit(self) -> None:
        from confluent_kafka import TopicPartition

        row = TopicPartition("audit", 0, world.AUDIT_START)
        _when_ready(lambda: self._admin.delete_records([row])[row].result(timeout=WAIT_S))

    def _recreate_inventory(self) -> None:
        """A consumer that outlives its topic goes on committing its old position."""
        topic = world.INVENTORY
        if not self._was_recreated():
            self._fill(topic, 2, world.INVENTORY_BEFORE)
            self._delete(topic)
            self._fill(topic, 2, world.INVENTORY_NOW)
        self._commit_alone("stock-sync", {(topic, n): world.INVENTORY_BEFORE for n in range(2)})

    def _was_recreated(self) -> bool:
        known = world.INVENTORY in self._admin.list_topics(timeout=WAIT_S).topics
        return known and self._ends(world.INVENTORY, 2) == [world.INVENTORY_NOW] * 2

    def _delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(timeout=WAIT_S)
        ready.wait_until(
            lambda: topic not in self._admin.list_topics(timeout=WAIT_S).topics,
            WAIT_S,
            f"The topic {topic!r} is not gone after {WAIT_S:.0f} s",
            pause=0.05,
        )

    # -- groups without members ----------------------------------------------------------------

    def _standalone(self) -> None:
        for group, offsets in world.standalone_offsets().items():
            self._commit_alone(group, offsets)
        texts = world.ODD_METADATA
        offsets = {("orders", number): 10 * number for number in range(len(texts))}
        self._commit_alone("checkpointer", offsets, texts)

    def _commit_alone(
        self, group: str, offsets: world.SeededOffsets, metadata: Sequence[str] = ()
    ) -> None:
        from confluent_kafka import TopicPartition

        reader = consumer(self._bootstrap, group)
        try:
            reader.assign([TopicPartition(topic, number) for topic, number in offsets])
            commit(reader, offsets, metadata)
        finally:
            reader.close()

    def _transactions(self) -> None:
        """One transaction committed, one aborted; the open one belongs to the members."""
        topic = world.TRANSFERS
        self._create(topic, 2)
        if self._ends(topic, 2)[1] == 0:
            producer = transactional(self._bootstrap, "transfers-done")
            producer.begin_transaction()
            # The commit marker takes an offset of its own: the last of the hundred.
            for number in range(2 * (world.TRANSFERS_RECORDS - 1)):
                producer.produce(topic, f"transfer {number}".encode(), partition=number % 2)
            pend(producer, self._bootstrap, "transfers", {(topic, 0): 50, (topic, 1): 50})
            producer.commit_transaction(WAIT_S)
        self._commit_alone("transfers-aborted", {(topic, 0): 10})
        producer = transactional(self._bootstrap, "transfers-aborted")
        producer.begin_transaction()
        pend(producer, self._bootstrap, "transfers-aborted", {(topic, 0): 60})
        producer.abort_transaction(WAIT_S)

    def _console_consumers(self) -> None:
        """Join, commit and leave like a console consumer that was ended with Ctrl-C."""
        host, _, port = self._bootstrap.split(",")[0].rpartition(":")
        by_coordinator: dict[tuple[str, int], list[str]] = {}
        with GroupClient(host, int(port), "seed") as first:
            for group in world.console_groups():
                by_coordinator.setdefault(first.coordinator(group), []).append(group)
        shares = [(at, groups[i::4]) for at, groups in by_coordinator.items() for i in range(4)]
        with ThreadPoolExecutor(len(shares)) as pool:
            for done in [pool.submit(_join_commit_leave, *share) for share in shares]:
                done.result()

    # -- groups with members -------------------------------------------------------------------

    def _went_empty(self) -> None:
        groups = [live for live in world.WENT_EMPTY if self._modern or not live.is_848]
        members = GroupMembers(self._bootstrap, groups)
        members.join_and_commit()
        members.leave()

    def _start_members(self) -> Path:
        folder = make_dir(self._cluster.state.members_dir)
        (folder / "ready").unlink(missing_ok=True)
        module = [sys.executable, "-m", "kgtool.sandbox.seeding.members", str(folder)]
        command = [*module, self._bootstrap, self._cluster.version]
        processes.spawn(command, folder, folder / "console.log", environ=_importable())
        return folder

    def _await_members(self, folder: Path) -> None:
        deadline = time.monotonic() + 2 * WAIT_S
        while not (folder / "ready").exists():
            dead = processes.pid_of(folder) is None
            if dead or time.monotonic() > deadline:
                words = broker.log_errors(folder)
                processes.end([folder])
                raise SandboxError(f"The members of the seeded groups failed: {words}")
            time.sleep(0.1)


def _when_ready(ask: Callable[[], T]) -> T:
    """Ask until the leaders that metadata names know that they are leaders."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].name() not in _TOO_EARLY or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def _join_commit_leave(coordinator: tuple[str, int], groups: Sequence[str]) -> None:
    with GroupClient(*coordinator, "console-consumer") as client:
        for group in groups:
            partitions = range(world.TOPICS["clicks"][0])
            member = client.join(group, "consumer", "range", encode_topics(["clicks"]))
            client.sync(member, assignment("clicks", partitions))
            offset = int(group[-5:]) % 51
            client.commit(member, "clicks", dict.fromkeys(partitions, offset))
            client.leave(member)


def _importable() -> Mapping[str, str]:
    """The environment in which another Python imports this kgtool, installed or not."""
    package: Any = sys.modules["kgtool"]
    home = str(Path(package.__file__).parent.parent)
    older = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([home, older] if older else [home])}
