"""A broker that refuses to list its groups, or to show its log: unknown is never "not there"."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool import GroupAdmin
from kgtool.protocol.api import fetch, list_groups
from tests.support import clients, faulty
from tests.support.faulty import FaultyKafka, client_config, kgtool
from tests.support.proxy import Fault, Plan, Proxies
from tests.support.rewriting import rewriting

pytestmark = pytest.mark.broker

CLUSTER_AUTHORIZATION_FAILED, DENIED = 31, 29


def refused(answer: Any) -> Any:
    return type(answer)(error_code=CLUSTER_AUTHORIZATION_FAILED, groups=[])


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[FaultyKafka, Proxies]]:
    kafka = faulty.shared()
    with kafka.proxies() as proxies:
        yield kafka, proxies


class Scene:
    """A group with one offset, and a client to which no broker tells its groups."""

    def __init__(self, kafka: FaultyKafka, proxies: Proxies, folder: Path) -> None:
        self.bootstrap, self.folder, self.proxies = kafka.cluster.bootstrap, folder, proxies
        self.name = clients.unique("silent")
        self.topic = clients.create_topic(self.bootstrap, self.name)
        clients.produce(self.bootstrap, self.topic, 5)
        self.commit()
        rewrite = rewriting(list_groups, refused)
        self.plan = Plan(
            *(Fault("rewrite", b, api=16, times=99, rewrite=rewrite) for b in kafka.ports)
        )

    def commit(self) -> None:
        clients.commit(self.bootstrap, self.name, {(self.topic, 0): 3})

    def offset(self, group: str | None = None) -> int | None:
        return clients.committed(self.bootstrap, group or self.name).get((self.topic, 0))

    def run(self, *argv: str, silent: bool = True) -> faulty.Run:
        if silent:
            self.proxies.plans[self.name] = self.plan
        config = client_config(self.folder, self.name)
        address = ["--bootstrap-server", self.proxies.bootstrap, "--command-config", config]
        environ = {"KGTOOL_JOURNAL_DIR": str(self.folder / "journal")}
        done = kgtool(*argv, *address, "--timeout", "9000", "-o", "json", environ=environ)
        self.proxies.plans.pop(self.name, None)
        assert self.plan.struck > 0 or not silent, done
        return done


@pytest.fixture
def scene(proxied: tuple[FaultyKafka, Proxies], tmp_path: Path) -> Scene:
    return Scene(*proxied, tmp_path)


def test_a_group_of_unknown_state_is_not_one_of_that_state(scene: Scene) -> None:
    done = scene.run("delete", "--group", scene.name, "--state", "Stable", "--yes")
    assert scene.offset() == 3
    assert done.status != 0
    said = f"Whether group '{scene.name}' has that state and type is not known"
    assert any(said in error["message"] for error in done.document["errors"]), done


def test_a_name_of_which_nothing_is_known_is_not_made_a_group(scene: Scene) -> None:
    """It may be a share group: only the listing tells."""
    new = f"{scene.name}-new"
    reset = ["reset-offsets", "--group", new, "--create", "--topic", scene.topic, "--to-latest"]
    done = scene.run(*reset, "--execute", "--yes")
    (error,) = done.document["errors"]
    assert (done.status, error["code"]) == (1, CLUSTER_AUTHORIZATION_FAILED), done
    assert scene.offset(new) is None
    assert scene.run(*reset, "--execute", "--yes", silent=False).status == 0


def test_what_a_plan_has_deleted_may_be_there_again(scene: Scene) -> None:
    plan = str(scene.folder / "plan.json")
    planned = scene.run("cleanup", "plan", "--group", scene.name, "--out", plan, silent=False)
    assert planned.status == 0, planned
    assert scene.run("cleanup", "apply", plan, "--yes", silent=False).status == 0
    assert scene.offset() is None
    scene.commit()
    done = scene.run("cleanup", "apply", plan, "--yes")
    (row,) = done.document["results"]
    assert (done.status, row["status"]) == (1, "failed"), done
    assert "whether it exists again is unknown" in done.err
    assert scene.offset() == 3


def test_a_plan_of_all_groups_names_the_brokers_that_it_lacks(scene: Scene) -> None:
    scene.proxies.plans[scene.name] = scene.plan
    properties = {"client.id": scene.name}
    with GroupAdmin(scene.proxies.bootstrap, properties=properties) as admin:
        plan = admin.cleanup_plan(idle_ms=1)
    scene.proxies.plans.pop(scene.name)
    assert plan.items == ()
    assert {error.code for error in plan.errors} == {CLUSTER_AUTHORIZATION_FAILED}


def unreadable(answer: Any) -> Any:
    return answer.replace(
        topics=[
            topic.replace(
                partitions=[row.replace(error_code=DENIED, records=b"") for row in topic.partitions]
            )
            for topic in answer.topics
        ]
    )


def test_only_the_groups_whose_log_can_not_be_read_are_left_alone(scene: Scene) -> None:
    """One broker refuses Fetch: nothing tells if its groups were used since the plan was made."""
    groups = [f"{scene.name}-{number}" for number in range(12)]
    for group in groups:
        clients.commit(scene.bootstrap, group, {(scene.topic, 0): 3})
    admin = clients.admin(scene.bootstrap)
    described = admin.describe_consumer_groups(groups)
    homes = {group: described[group].result(30).coordinator.id for group in groups}
    blind = {group for group, broker in homes.items() if broker == homes[groups[0]]}
    assert blind < set(groups), "other brokers have some, too"
    plan = str(scene.folder / "plan.json")
    words = [word for group in groups for word in ("--group", group)]
    assert scene.run("cleanup", "plan", *words, "--out", plan, silent=False).status == 0
    rewrite = rewriting(fetch, unreadable, version=12)  # topics by name
    scene.plan = Plan(Fault("rewrite", homes[groups[0]], api=1, times=99, rewrite=rewrite))
    done = scene.run("cleanup", "apply", plan, "--yes")
    assert done.status == 3, done
    rows = {row["group"]: row["status"] for row in done.document["results"]}
    assert {group for group, status in rows.items() if status != "deleted"} == blind, done
    assert {error["name"] for error in done.document["errors"]} == {"BLIND"}
    assert {group for group in groups if scene.offset(group) == 3} == blind
