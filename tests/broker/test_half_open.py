"""A broker that accepts connections and says nothing costs its own groups, and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kgtool.config import Settings, parse_bootstrap
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.net.session import Session
from tests.support import clients, faulty
from tests.support.faulty import Run, client_config, kgtool
from tests.support.offsets import first_commits
from tests.support.outcomes import Outcome
from tests.support.proxy import Fault, Plan, Proxies

pytestmark = pytest.mark.timed

TABLE = "kgtool while one of three brokers says nothing"
GROUPS = 12


class Silent(NamedTuple):
    """Groups by their coordinator, and the broker that says nothing."""

    bootstrap: str
    proxies: Proxies
    topic: str
    homes: dict[str, int]
    silent: int
    partition: int
    """A partition that another broker leads."""

    @property
    def named(self) -> list[str]:
        return [word for group in self.homes for word in ("--group", group)]

    @property
    def healthy(self) -> set[str]:
        return {group for group, home in self.homes.items() if home != self.silent}

    def run(self, config: str, *argv: str, timeout_ms: int = 6000) -> Run:
        login = ("--bootstrap-server", self.proxies.bootstrap, "--command-config", config)
        return kgtool(*argv, *login, "-o", "json", "--timeout", str(timeout_ms))


@pytest.fixture(scope="module")
def topic() -> str:
    at = faulty.shared().cluster.bootstrap
    topic = clients.create_topic(at, clients.unique("half"), 3, replication=3)
    for partition in range(3):
        clients.produce(at, topic, 5, partition=partition)
    return topic


@pytest.fixture
def here(topic: str) -> Iterator[Silent]:
    kafka = faulty.shared()
    at = kafka.cluster.bootstrap
    groups = [clients.unique("half") for _ in range(GROUPS)]
    offsets = {TopicPartition(topic, number): CommittedOffset(2, None, "") for number in range(3)}
    with Session(Settings(parse_bootstrap(at), 20_000)) as session:
        done = session.run(first_commits(session.cluster, dict.fromkeys(groups, offsets)))
    assert {error for parts in done.values() for error in parts.values()} == {None}
    admin = clients.admin(at)
    homes = {
        group: future.result(30).coordinator.id
        for group, future in admin.describe_consumer_groups(groups).items()
    }
    parts = admin.list_topics(topic, timeout=10).topics[topic].partitions
    leaders = {number: part.leader for number, part in parts.items()}
    # The last group's: a group of another broker then comes before one of the silent broker's.
    silent = homes[max(homes)]
    partition = next(number for number, leader in leaders.items() if leader != silent)
    assert {b for b in homes.values() if b != silent}, "one broker coordinates all the groups"
    with kafka.proxies() as proxies:
        yield Silent(at, proxies, topic, homes, silent, partition)


@pytest.fixture
def config(here: Silent, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> str:
    """A client for which one broker falls silent after its first answer."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", f"{tmp_path}/journal")
    client = clients.unique("half-open")
    here.proxies.plans[client] = Plan(Fault("hole", here.silent, at=1, times=99))
    return client_config(tmp_path, client)  # type: ignore[arg-type]


def good_groups(done: Run, status: str) -> set[str]:
    return {row["group"] for row in done.document["results"] if row["status"] == status}


def check(here: Silent, done: Run, good: set[str]) -> None:
    assert done.status == 3, done
    assert good == here.healthy, done
    assert done.seconds < 11
    failed = {error["target"]["group"] for error in done.document["errors"]}
    assert failed == set(here.homes) - here.healthy
    port = dict(zip((1, 2, 3), here.proxies.bootstrap.split(","), strict=True))[here.silent]
    assert all(port in error["message"] for error in done.document["errors"]), done


def test_describe(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "describe", "outcome") as cell:
        topic = f"{here.topic}:{here.partition}"
        done = here.run(config, "describe", *here.named, "--topic", topic)
        check(here, done, good_groups(done, "ok"))
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


def test_delete(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "delete", "outcome") as cell:
        done = here.run(config, "delete", *here.named, "--yes")
        check(here, done, good_groups(done, "deleted"))
        left = {group for group in here.homes if clients.committed(here.bootstrap, group)}
        assert left == set(here.homes) - here.healthy
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


def test_delete_offsets(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "delete-offsets", "outcome") as cell:
        argv = ["--topic", f"{here.topic}:{here.partition}", "--yes"]
        done = here.run(config, "delete-offsets", *here.named, *argv)
        check(here, done, good_groups(done, "deleted"))
        at = (here.topic, here.partition)
        left = {group for group in here.homes if at in clients.committed(here.bootstrap, group)}
        assert left == set(here.homes) - here.healthy
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


def test_reset_offsets(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "reset-offsets", "outcome") as cell:
        argv = ["--topic", f"{here.topic}:{here.partition}", "--to-latest", "--execute", "--yes"]
        done = here.run(config, "reset-offsets", *here.named, *argv)
        check(here, done, good_groups(done, "reset"))
        at = (here.topic, here.partition)
        moved = {g for g in here.homes if clients.committed(here.bootstrap, g)[at] == 5}
        assert moved == here.healthy
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


def test_list(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "list", "outcome") as cell:
        done = here.run(config, "list")
        assert done.status == 3, done
        assert done.seconds < 11
        listed = {row["group"] for row in done.document["results"]} & set(here.homes)
        assert listed == here.healthy
        (error,) = done.document["errors"]
        assert error["target"]["broker"] == here.silent
        cell.says(f"{len(here.healthy)} of {GROUPS}, the broker named")


def test_coordinator(here: Silent, config: str, outcome: Outcome) -> None:
    """Any broker knows who coordinates what; only whether it is loading has to be its own word."""
    with outcome(TABLE, "coordinator", "outcome") as cell:
        done = here.run(config, "coordinator", *here.homes)
        assert done.status == 3, done
        rows = done.document["results"]
        assert {row["group"]: row["coordinator"] for row in rows} == here.homes
        assert {row["coordinator"] for row in rows if row["loading"] is None} == {here.silent}
        assert [error["target"]["broker"] for error in done.document["errors"]] == [here.silent]
        cell.says(f"{GROUPS} of {GROUPS}, the broker named")


def test_explain(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "explain", "outcome") as cell:
        sick = next(group for group, home in here.homes.items() if home == here.silent)
        done = here.run(config, "explain", sick)
        assert done.status == 4, done
        assert done.seconds < 11
        well = here.run(config, "explain", next(iter(here.healthy)))
        assert well.seconds < 11
        assert [row["exists"] for row in well.document["results"]] == [True], well
        cell.says("a group of another broker as always, one of its own: 4")


def test_backup_and_restore(here: Silent, config: str, outcome: Outcome, tmp_path: Path) -> None:
    with outcome(TABLE, "backup", "outcome") as cell:
        done = here.run(config, "backup", *here.named, "--out", str(tmp_path / "partly.jsonl"))
        assert done.status == 3, done
        assert done.seconds < 11
        lines = map(json.loads, (tmp_path / "partly.jsonl").read_text().splitlines())
        assert {line["group"] for line in lines if line["kind"] == "group"} == here.healthy
        failed = {error["target"]["group"] for error in done.document["errors"]}
        assert failed == set(here.homes) - here.healthy
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")
    with outcome(TABLE, "restore", "outcome") as cell:
        whole = str(tmp_path / "whole.jsonl")
        direct = ("--bootstrap-server", here.bootstrap)
        assert kgtool("backup", *here.named, "--out", whole, *direct).status == 0
        for group in here.homes:
            clients.commit(here.bootstrap, group, {(here.topic, here.partition): 4})
        done = here.run(config, "restore", whole, "--yes", "--topic", here.topic)
        assert done.status == 3, done
        assert done.seconds < 18  # long work: --timeout is the longest time without progress
        at = (here.topic, here.partition)
        back = {g for g in here.homes if clients.committed(here.bootstrap, g)[at] == 2}
        assert back == here.healthy, done
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


def test_undo(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "undo", "outcome") as cell:
        at = (here.topic, here.partition)
        argv = ["delete-offsets", *here.named, "--topic", f"{here.topic}:{here.partition}", "--yes"]
        assert kgtool(*argv, "--bootstrap-server", here.bootstrap).status == 0
        done = here.run(config, "undo", "last", "--yes")
        assert done.status == 3, done
        assert done.seconds < 18  # as long as restore
        back = {g for g in here.homes if at in clients.committed(here.bootstrap, g)}
        assert back == here.healthy, done
        again = kgtool("undo", "last", "--yes", "--bootstrap-server", here.bootstrap)
        assert again.seconds < 11
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


def test_keep(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "keep", "outcome") as cell:
        done = here.run(config, "keep", *here.homes, "--yes")
        assert done.status == 3, done
        assert done.seconds < 18
        assert good_groups(done, "kept") == here.healthy
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


@pytest.mark.parametrize("more", ["--expiry", "--time-lag"])
def test_describe_with_what_is_in_logs(
    here: Silent, config: str, outcome: Outcome, more: str
) -> None:
    """The silent broker leads the log of its own groups, and perhaps nothing else that counts."""
    with outcome(TABLE, f"describe {more}", "outcome") as cell:
        topic = f"{here.topic}:{here.partition}"
        done = here.run(config, "describe", *here.named, "--topic", topic, more)
        assert done.status == 3, done
        assert good_groups(done, "ok") == here.healthy, done
        assert done.seconds < 11
        key = "expires_at_ms" if more == "--expiry" else "lag_ms"
        assert all(row[key] is not None for row in done.document["results"]), done
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


def test_list_with_what_expires(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "list --expiring-within", "outcome") as cell:
        done = here.run(config, "list", "--expiring-within", "8d")
        assert done.status == 5, done
        assert done.seconds < 11
        found = {row["group"] for row in done.document["results"]} & set(here.homes)
        assert found == here.healthy, done
        assert done.document["errors"], done
        cell.says(f"{len(here.healthy)} of {GROUPS}, the broker named")


def test_configs(here: Silent, config: str, outcome: Outcome) -> None:
    """The controller has them, not the coordinators: nothing is missing."""
    with outcome(TABLE, "configs", "outcome") as cell:
        change = ("--alter", "--add-config", "consumer.session.timeout.ms=50000", "--yes")
        done = here.run(config, "configs", *here.named, *change)
        assert done.status == 0, done
        assert {row["group"] for row in done.document["results"]} == set(here.homes)
        cell.says(f"{GROUPS} of {GROUPS}")


def test_export(here: Silent, config: str, outcome: Outcome, tmp_path: Path) -> None:
    with outcome(TABLE, "export", "outcome") as cell:
        done = here.run(config, "export", "--out", str(tmp_path / "export"))
        assert done.status == 3, done
        assert done.seconds < 18
        led = clients.admin(here.bootstrap).list_topics("__consumer_offsets", timeout=10)
        leaders = led.topics["__consumer_offsets"].partitions.values()
        missing = {part.id for part in leaders if part.leader == here.silent}
        assert missing
        errors = [error["target"] for error in done.document["errors"]]
        assert {e["partition"] for e in errors} - {None} == missing
        assert {e["broker"] for e in errors} - {None} == {here.silent}  # its groups and configs
        manifest = json.loads((tmp_path / "export" / "cluster.json").read_text())
        whole = {row["partition"] for row in manifest["partitions"] if row["complete"]}
        assert whole == {part.id for part in leaders} - missing
        cell.says(f"{len(whole)} of {len(leaders)} partitions, the others named")


def test_cleanup(here: Silent, config: str, outcome: Outcome, tmp_path: Path) -> None:
    with outcome(TABLE, "cleanup plan, apply", "outcome") as cell:
        plan = str(tmp_path / "plan.json")
        planned = here.run(config, "cleanup", "plan", *here.named, "--idle", "1ms", "--out", plan)
        assert planned.seconds < 18
        assert planned.status == 3, planned
        assert {row["group"] for row in planned.document["results"]} == here.healthy, planned
        assert f"{GROUPS - len(here.healthy)} groups" in planned.err or "1 group" in planned.err
        done = here.run(config, "cleanup", "apply", plan, "--yes")
        assert done.status == 0, done
        left = {group for group in here.homes if clients.committed(here.bootstrap, group)}
        assert left == set(here.homes) - here.healthy
        cell.says(f"{len(here.healthy)} of {GROUPS}, the others named")


def test_peek(here: Silent, config: str, outcome: Outcome) -> None:
    with outcome(TABLE, "peek", "outcome") as cell:
        sick = next(group for group, home in here.homes.items() if home == here.silent)
        topic = f"{here.topic}:{here.partition}"
        group = next(iter(here.healthy))
        well = here.run(config, "peek", group, "--topic", topic, timeout_ms=20_000)
        assert well.status == 0, well
        assert len(well.document["results"]) == 5
        done = here.run(config, "peek", sick, "--topic", topic)
        assert done.status == 4, done
        assert done.seconds < 18
        cell.says("a group of another broker as always, one of its own: 4")


@pytest.mark.parametrize("form", ["text", "ndjson"])
def test_rows_come_before_the_last_broker_has_answered(
    here: Silent, config: str, form: str
) -> None:
    first = min(here.healthy) if form == "text" else ""
    named = [word for group in sorted(here.homes) if group >= first for word in ("--group", group)]
    login = ("--bootstrap-server", here.proxies.bootstrap, "--command-config", config)
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kgtool.cli",
            "describe",
            *named,
            *login,
            "-o",
            form,
            "--topic",
            f"{here.topic}:{here.partition}",
            "--timeout",
            "6000",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
    )
    assert process.stdout is not None
    with process:
        lines = iter(process.stdout.readline, "")
        row = next(line for line in lines if any(group in line for group in here.healthy))
        seen = time.monotonic()
        assert here.topic in row
        rest = list(lines)
    assert process.returncode == 3
    assert time.monotonic() - seen > 1, rest
