"""KIP-496's four metrics: what ``analyze`` counts in the log is what the brokers counted (JMX).

One broker of either coordinator, and everything that they count or must not count: plain and
transactional commits, expiry, OffsetDelete, DeleteGroups, a topic's deletion, rebalances.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer, TopicPartition

from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.readers.cluster import find_cluster
from kgtool.analysis.pipeline import Analysis, TableOptions
from kgtool.analysis.spark.engine import SparkEngine
from kgtool.config import Settings
from kgtool.sandbox import broker as sandbox_broker
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.seeding import group_client
from tests.broker.live_world import HELD, _commit_with_retention
from tests.cli.run import kgtool
from tests.support import clients
from tests.support.tables import rows_of

pytestmark = [pytest.mark.spark, pytest.mark.broker]
BEAN = "kafka.server:type=group-coordinator-metrics"
NAMES = ("offset-commit", "offset-expiration", "offset-deletion", "group-completed-rebalance")
EXPLICIT_MS = 1_500
OFFSETS, REQUESTS = 15, 10
DOOMED = "doomed-topic"
CONFIG = {
    "offsets.retention.check.interval.ms": "500",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


class Counted(NamedTuple):
    """How often, by the broker or by the log."""

    commits: int
    expirations: int
    deletions: int
    rebalances: int


class Watched(NamedTuple):
    """A broker whose metrics can be read."""

    kafka: Sandbox
    jmx_port: int

    def counts(self) -> Counted:
        """Ask Kafka's own JmxTool."""
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self.jmx_port}/jmxrmi"
        shown = self.kafka.run_tool(
            "org.apache.kafka.tools.JmxTool",
            "--object-name",
            BEAN,
            "--one-time",
            "--jmx-url",
            url,
            "--report-format",
            "properties",
            bootstrap=False,
        )
        assert shown.returncode == 0, shown.stderr
        lines = [line.rpartition("=") for line in shown.stdout.splitlines() if BEAN in line]
        values = {key.rpartition(":")[2]: value for key, _, value in lines}
        return Counted(*[round(float(values[f"{name}-count"])) for name in NAMES])


@pytest.fixture(params=["3.9.1", "4.3.1"])
def watched(
    request: pytest.FixtureRequest, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Watched]:
    (port,) = sandbox_broker.free_ports(1)
    jmx = "-Dcom.sun.management.jmxremote"
    flags = [
        jmx,
        f"{jmx}.port={port}",
        f"{jmx}.rmi.port={port}",
        f"{jmx}.local.only=true",
        f"{jmx}.authenticate=false",
        f"{jmx}.ssl=false",
        f"{jmx}.host=127.0.0.1",
        "-Djava.rmi.server.hostname=127.0.0.1",
    ]
    monkeypatch.setenv("KAFKA_HEAP_OPTS", " ".join(flags))
    with Sandbox.start("metered", version=request.param, config=CONFIG, root=tmp_path) as kafka:
        monkeypatch.delenv("KAFKA_HEAP_OPTS")
        yield Watched(kafka, port)


def test_the_log_tells_what_the_broker_counted(spark: Any, watched: Watched, tmp_path: Any) -> None:
    bootstrap = watched.kafka.bootstrap
    live(bootstrap, str(tmp_path / "journal"))
    # "explicit" has lost both of its offsets, and its group with them.
    clients.wait_for(lambda: not clients.committed(bootstrap, "explicit"), "expiry", 60)
    time.sleep(1.5)
    told = watched.counts()
    host, _, port = bootstrap.partition(":")
    settings = Settings(((host, int(port)),))
    inputs = find_cluster(settings, int(time.time() * 1000))
    basis = broker_settings.settings_from(inputs.manifest, "auto", None, None)
    options = TableOptions(bucket_ms=60_000)
    analysis = Analysis(SparkEngine(spark, settings), inputs.files, basis, None, options)
    rows = rows_of(analysis, "metrics")
    found = Counted(
        sum(row.offset_commits for row in rows),
        sum(row.offset_expirations for row in rows),
        sum(row.offset_deletions for row in rows),
        sum(row.group_completed_rebalances for row in rows),
    )
    assert found == Counted(OFFSETS, expirations=2, deletions=1, rebalances=2)
    if basis.rules.name == "4.1":
        # 4.1 to 4.3 count the records of a check again and again (facts, 2.7).
        assert told.expirations >= found.expirations
        told = told._replace(expirations=found.expirations)
    else:
        # The Scala coordinator of 3.9 counts requests, however many offsets each has.
        assert told.commits == REQUESTS
        told = told._replace(commits=OFFSETS)
    assert found == told


def live(bootstrap: str, journal: str) -> None:
    """Do all of it: OFFSETS in REQUESTS."""
    clients.create_topic(bootstrap, HELD, 2)
    clients.create_topic(bootstrap, DOOMED)
    for number in (1, 2):
        clients.commit(bootstrap, "standalone", {(HELD, 0): number, (HELD, 1): number})
    clients.commit(bootstrap, "standalone", {(DOOMED, 0): 1})
    clients.commit(bootstrap, "dropped", {(HELD, 0): 1, (HELD, 1): 1, (DOOMED, 0): 1})
    members = [clients.join(bootstrap, "living", [HELD])]
    clients.commit(bootstrap, "other", {(HELD, 0): 1})
    in_a_transaction(bootstrap, "transactional")
    members[0].poll(0.1)
    rows = [TopicPartition(HELD, number, 3) for number in (0, 1)]
    members[0].commit(offsets=rows, asynchronous=False)
    for member in members:
        member.close()
    rejoined = clients.join(bootstrap, "living", [HELD])
    rejoined.close()
    change = ("--bootstrap-server", bootstrap, "--yes")
    env = {"KGTOOL_JOURNAL_DIR": journal}
    done = kgtool(
        "delete-offsets", *change, "--group", "standalone", "--topic", f"{HELD}:1", env=env
    )
    assert done.status == 0, done.err
    done = kgtool("delete", *change, "--group", "dropped", env=env)
    assert done.status == 0, done.err
    clients.commit(bootstrap, "other", {(DOOMED, 0): 1})
    clients.delete_topics(bootstrap, DOOMED)
    clients.wait_for(lambda: len(clients.committed(bootstrap, "other")) == 1, "the topic's end")
    with group_client.connect(bootstrap, "explicit", "old-client") as socket:
        for version, number in ((2, 0), (4, 1)):
            _commit_with_retention(socket, version, number, EXPLICIT_MS)


def in_a_transaction(bootstrap: str, group: str) -> None:
    reader = clients.consumer(bootstrap, group)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "log_level": 0, "transactional.id": f"of-{group}"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    member = reader.consumer_group_metadata()
    producer.send_offsets_to_transaction([TopicPartition(HELD, 0, 7)], member, 60)
    producer.commit_transaction(60)
    reader.close()
