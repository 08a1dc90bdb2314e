"""One of three brokers doesn't answer one API: whatever is read, what is missing is an error.

A missing answer never means "nothing there": each read command with each API that it asks, whose
answers are lost at broker 2 (or at all, where any broker may be asked).
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.client.cluster import find_coordinators
from kgtool.config import Settings, parse_bootstrap
from kgtool.net.session import Session
from kgtool.protocol.api import load
from tests.net.test_wrong_answers import groups_of
from tests.support import clients, faulty
from tests.support.faulty import FaultyKafka, Run, client_config, kgtool
from tests.support.proxy import Fault, Plan

pytestmark = pytest.mark.broker
ALL = (1, 2, 3)

READS = {
    "list": ("ListGroups",),
    "describe ALL": ("OffsetFetch", "DescribeGroups", "ConsumerGroupDescribe", "ListOffsets"),
    "describe ALL --members": ("DescribeGroups", "ConsumerGroupDescribe"),
    "describe ALL --state": ("DescribeGroups",),
    "describe ALL --expiry": ("Fetch", "DescribeConfigs"),
    "describe ALL --time-lag": ("Fetch",),
    "describe BARE": ("ListTransactions", "OffsetFetch"),
    "lag ALL": ("OffsetFetch",),
    "backup ALL --out OUT": ("OffsetFetch", "DescribeGroups"),
    "diff SAVED": ("OffsetFetch", "DescribeGroups"),
    "export --out OUT": ("ListGroups", "DescribeConfigs", "ListOffsets", "Fetch"),
    "doctor ALL": ("OffsetFetch", "Fetch", "ListOffsets", "DescribeConfigs", "DescribeGroups"),
    "doctor BARE": ("DescribeCluster", "DescribeGroups"),
    "explain GROUP": ("Fetch", "ListOffsets", "DescribeConfigs", "DescribeCluster"),
    "coordinator ALL": ("DescribeGroups",),
    "configs BARE": ("ConsumerGroupDescribe",),
}
CASES = [(command, api) for command, apis in READS.items() for api in apis]
ANY_BROKER = {"DescribeCluster"}
unstruck: set[tuple[str, str]] = set()


class World(NamedTuple):
    """Where everything is; ``groups`` by coordinator."""

    kafka: FaultyKafka
    groups: dict[int, str]
    bare: str
    """A living group of broker 2 that has committed nothing."""
    topic: str

    def words(self, command: str, folder: Path) -> list[str]:
        named = {
            "ALL": [*self.groups.values(), self.bare],
            "BARE": [self.bare],
            "GROUP": [self.groups[2]],
            "OUT": [str(folder / "out")],
            "SAVED": [str(folder.parent / "saved")],
        }
        return [word for one in command.split() for word in named.get(one, [one])]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    kafka = faulty.shared()
    at = kafka.cluster.bootstrap
    topic = clients.create_topic(at, clients.unique("lost"), 3, replication=3)
    for partition in range(3):
        clients.produce(at, topic, 3, partition=partition)
    groups = groups_of(kafka, topic)
    with Session(Settings(parse_bootstrap(at), 20_000)) as session:
        home = None
        while home != 2:
            bare = clients.unique("bare")
            (home,) = session.run(find_coordinators(session.cluster, [bare])).values()
    member = clients.join(at, bare, [topic], group_protocol="consumer")
    yield World(kafka, groups, bare, topic)
    member.close()


@pytest.fixture(scope="module")
def runs(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Run]:
    """All cases, some at a time: most of what they do is to wait."""
    root = tmp_path_factory.mktemp("lost")
    saved = kgtool(
        "backup",
        *world.groups.values(),
        "--out",
        str(root / "saved"),
        "--bootstrap-server",
        world.kafka.cluster.bootstrap,
    )
    assert saved.status == 0, saved
    unstruck.clear()
    with world.kafka.proxies() as proxies:

        def run(case: tuple[str, str]) -> Run:
            command, api = case
            client = clients.unique("lost")
            key, brokers = load(api).Request.KEY, ALL if api in ANY_BROKER else (2,)
            faults = (Fault("lost-answer", broker, times=99, api=key) for broker in brokers)
            proxies.plans[client] = Plan(*faults)
            folder = root / client
            folder.mkdir()
            done = kgtool(
                *world.words(command, folder),
                "-o",
                "json",
                "--timeout",
                "6000",
                "--bootstrap-server",
                proxies.bootstrap,
                "--command-config",
                client_config(folder, client),
            )
            if not proxies.plans[client].struck:
                unstruck.add(case)
            return done

        with ThreadPoolExecutor(3) as pool:
            return dict(zip(CASES, pool.map(run, CASES), strict=True))


@pytest.mark.parametrize("case", CASES, ids=" × ".join)
def test_what_a_broker_did_not_answer_is_an_error(
    case: tuple[str, str], world: World, runs: dict[tuple[str, str], Run]
) -> None:
    done = runs[case]
    assert case not in unstruck, f"{case[0]} does not ask {case[1]}: {done}"
    errors = done.document["errors"]
    peer = f"127.0.0.1:{world.kafka.ports[2]}"
    assert done.status == 3 and errors, done
    assert "bug in kgtool" not in done.err, done
    if case[1] not in ANY_BROKER:
        assert any(peer in error["message"] for error in errors), done
    concerned = {error["target"]["group"] for error in errors} - {None}
    assert concerned.isdisjoint({world.groups[1], world.groups[3]}) or case[1] not in OF_GROUPS


OF_GROUPS = {"OffsetFetch", "DescribeGroups", "ConsumerGroupDescribe"}
"""Asked of the coordinator: the groups of the other brokers have nothing to do with it."""


def rows(done: Run) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = done.document["results"]
    return found


@pytest.mark.parametrize("api", ["OffsetFetch", "ListTransactions"])
def test_what_is_not_known_is_no_missing_commit(api: str, runs: dict[tuple[str, str], Run]) -> None:
    """The partitions that members hold had the status ``no-commit``."""
    assert {row["status"] for row in rows(runs["describe BARE", api])} == {"error"}


def test_a_group_that_nobody_could_describe_is_not_missing(
    runs: dict[tuple[str, str], Run],
) -> None:
    """It was "there is no group … now", after its coordinator had kept silent."""
    assert "there is no group" not in runs["configs BARE", "ConsumerGroupDescribe"].err


@pytest.mark.parametrize("api", ["Fetch", "ListOffsets", "DescribeConfigs"])
def test_the_doctor_tells_what_it_could_find_out(
    api: str, runs: dict[tuple[str, str], Run]
) -> None:
    """It ended with 4 and one sentence: "The cluster was not asked"."""
    done = runs["doctor ALL", api]
    assert done.status == 3, done
