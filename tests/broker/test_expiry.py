"""kgtool says when offsets will expire; then real brokers decide.

Three brokers side by side, each with a retention of a minute and a check every five seconds, and
clients of every kind on them. What is said by then is held to the tombstones that the brokers
write a minute later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.broker.live_world import CONFIG, HELD, INTERVAL_MS, LEFT, RETENTION_MS, At, World
from tests.cli.run import kgtool

SLACK_MS = 4_000
"""What a check may take on a busy machine, beyond its interval."""


class Kind(NamedTuple):
    """A broker and what its coordinator can."""

    name: str
    version: str
    config: dict[str, str]
    consumer_protocol: str
    """The version of KIP-848's heartbeat that its broker speaks; "" if none."""
    pending_protects: bool


KINDS = (
    Kind("new-4.3", "4.3.1", {}, "v1", True),
    Kind(
        "new-3.9",
        "3.9.1",
        {"group.coordinator.rebalance.protocols": "classic,consumer"},
        "v0",
        True,
    ),
    Kind("scala-3.9", "3.9.1", {}, "", False),
)


class Story(NamedTuple):
    """What was said of one broker's offsets, and what became of them."""

    kind: Kind
    said: dict[At, dict[str, Any]]
    kept: dict[At, dict[str, Any]]
    """What ``kgtool keep --join`` answered, a little later."""
    removed: dict[At, list[int]]
    left: dict[At, int]
    """What a second look at the end still finds: the committed offset."""
    gone: dict[str, dict[str, Any]]
    """What ``kgtool explain`` says at the end of groups that are no more."""
    ended_ms: int


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Story]:
    """Live through it once, with all brokers at the same time."""
    root = tmp_path_factory.mktemp("brokers")
    told: dict[str, Story] = {}
    failures: list[BaseException] = []

    def live(kind: Kind) -> None:
        try:
            told[kind.name] = _live(kind, root)
        except BaseException as error:  # noqa: BLE001 - it is raised again where pytest sees it
            failures.append(error)

    threads = [threading.Thread(target=live, args=(kind,)) for kind in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(900)
        assert not thread.is_alive(), thread
    if failures:
        raise failures[0]
    return told


def _live(kind: Kind, root: Path) -> Story:
    with _broker(kind, root) as cluster:
        world = World(cluster.bootstrap, consumer_protocol=kind.consumer_protocol)
        try:
            world.settle()
            said = _describe(cluster.bootstrap)
            time.sleep((INTERVAL_MS + 2 * SLACK_MS) / 1000)
            kept = _keep(cluster.bootstrap, root / f"journal-{kind.name}")
            horizon = now_ms() + RETENTION_MS
            times = [row["expires_at_ms"] for row in said.values() if row["expires_at_ms"]]
            last = max(at for at in times if at <= horizon)
            time.sleep((last + INTERVAL_MS + SLACK_MS - now_ms()) / 1000)
            ended_ms = now_ms()
            left = {at: row["current_offset"] for at, row in _describe(cluster.bootstrap).items()}
            gone = _explain(cluster.bootstrap)
            return Story(kind, said, kept, world.removed(), left, gone, ended_ms)
        finally:
            world.close()


@contextmanager
def _broker(kind: Kind, root: Path) -> Iterator[Sandbox]:
    config = {**CONFIG, **kind.config}
    with Sandbox.start(kind.name, version=kind.version, config=config, root=root) as cluster:
        ready.wait_for_coordinators(cluster.state)
        yield cluster


def now_ms() -> int:
    return int(time.time() * 1000)


GROUPS = (
    "standalone",
    "explicit",
    "pending",
    "classic-empty",
    "classic-live",
    "classic-dropped",
    "connect-live",
    "kept-standalone",
    "kept-classic",
    "kept-consumer",
    "consumer-empty",
    "consumer-live",
    "consumer-regex",
)


def _describe(bootstrap: str) -> dict[At, dict[str, Any]]:
    """``kgtool describe --expiry``, of every group by name: some types are listed no other way."""
    names = [word for group in GROUPS for word in ("--group", group)]
    done = kgtool("describe", "--bootstrap-server", bootstrap, "--expiry", "-o", "json", *names)
    rows = {(row["group"], row["topic"], row["partition"]): row for row in done.json["results"]}
    return {at: row for at, row in rows.items() if row["current_offset"] is not None}


def _keep(bootstrap: str, journal: Path) -> dict[At, dict[str, Any]]:
    names = ("kept-standalone", "kept-classic", "kept-consumer")
    done = kgtool(
        "keep",
        *names,
        "--join",
        "--yes",
        "--bootstrap-server",
        bootstrap,
        "-o",
        "json",
        env={"KGTOOL_JOURNAL_DIR": str(journal)},
    )
    return {(row["group"], row["topic"], row["partition"]): row for row in done.json["results"]}


def _explain(bootstrap: str) -> dict[str, dict[str, Any]]:
    done = kgtool(
        "explain", "standalone", "classic-empty", "--bootstrap-server", bootstrap, "-o", "json"
    )
    return {row["group"]: row for row in done.json["results"]}


# ---------------------------------------------------------------------------------------------


@pytest.mark.starts_first
def test_offsets_go_when_kgtool_said_and_no_others(stories: dict[str, Story]) -> None:
    for story in stories.values():
        due = 0
        for at, row in story.said.items():
            times = story.removed.get(at, [])
            where = (story.kind.name, at, row["rule"])
            expires = row["expires_at_ms"]
            if at in story.kept:
                continue
            if expires is None or expires > story.ended_ms:
                assert times == [], where
                assert story.left[at] == row["current_offset"], where
                continue
            due += 1
            assert len(times) == 1, where
            assert expires <= times[0] <= expires + INTERVAL_MS + SLACK_MS, (where, times, expires)
            assert at not in story.left, where
        assert due >= 8
        assert set(story.removed) <= set(story.said), story.kind.name


@pytest.mark.starts_first
def test_each_offset_has_the_rule_of_its_kind_of_group(stories: dict[str, Story]) -> None:
    for story in stories.values():
        kind = story.kind
        found = {at: row["rule"] for at, row in story.said.items()}
        alive = {HELD: "subscribed", LEFT: "commit"}
        expected = {
            "standalone": {HELD: "commit", LEFT: "commit"},
            "explicit": {HELD: "explicit"},
            "classic-empty": {HELD: "empty-since", LEFT: "empty-since"},
            "classic-live": alive,
            "classic-dropped": alive,
            "connect-live": {LEFT: "live-group"},
            "kept-standalone": {HELD: "commit"},
            "kept-classic": {HELD: "empty-since", LEFT: "empty-since"},
        }
        if kind.consumer_protocol:
            expected["kept-consumer"] = {HELD: "commit", LEFT: "commit"}
            expected["consumer-empty"] = {HELD: "commit", LEFT: "commit"}
            expected["consumer-live"] = alive
        if kind.consumer_protocol == "v1":
            expected["consumer-regex"] = alive
        pending = "pending-transaction" if kind.pending_protects else "commit"
        assert found.pop(("pending", HELD, 0)) == pending, kind.name
        assert found.pop(("pending", HELD, 1)) == "commit", kind.name
        assert {group for group, _, _ in found} == set(expected), kind.name
        for (group, topic, partition), rule in found.items():
            assert rule == expected[group][topic], (kind.name, group, topic, partition)


@pytest.mark.starts_first
def test_what_was_kept_outlives_its_time(stories: dict[str, Story]) -> None:
    for story in stories.values():
        expected = {at for at in story.said if at[0].startswith("kept-")}
        assert set(story.kept) == expected, story.kind.name
        for at, row in story.kept.items():
            assert (row["status"], row["how"]) == (
                "kept",
                "join" if at[0] == "kept-classic" else "commit",
            ), row
            old = story.said[at]["expires_at_ms"]
            assert row["old_expires_at_ms"] == old
            # It was still there when it would have been gone.
            times = story.removed.get(at, [])
            assert all(time >= row["new_expires_at_ms"] for time in times), (at, times, row)
            assert row["new_expires_at_ms"] > old + INTERVAL_MS + SLACK_MS
            assert times or story.left[at] == story.said[at]["current_offset"]


@pytest.mark.starts_first
def test_afterwards_it_is_explained(stories: dict[str, Story]) -> None:
    for story in stories.values():
        for group, row in story.gone.items():
            where = (story.kind.name, group)
            assert row["exists"] is False, where
            removals = {(item["topic"], item["partition"]): item for item in row["removals"]}
            said = {at[1:]: found for at, found in story.said.items() if at[0] == group}
            own = removals.pop((None, None), None)
            assert set(removals) == set(said), where
            for at, item in removals.items():
                assert item["cause"] == "expired", (*where, *at)
                assert item["expires_at_ms"] == said[at]["expires_at_ms"], (*where, *at)
                assert item["removed_at_ms"] in story.removed[(group, *at)], (*where, *at)
            # The Scala coordinator leaves no tombstone of a group that never had a member.
            assert (own is None) == (not story.kind.consumer_protocol and group == "standalone")
            assert own is None or own["cause"] == "group-empty"
