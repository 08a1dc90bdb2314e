"""``keep`` and the options about expiry, on the shared brokers (a retention of seven days).

That kept offsets really live longer is shown in ``test_expiry``; here is what else a user notices.
"""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kgtool.sandbox.cluster import Sandbox
from tests.broker.conftest import Kgtool
from tests.support import clients

WEEK_MS = 7 * 86_400_000


@pytest.fixture
def topic(cluster: Sandbox) -> str:
    name = clients.create_topic(cluster.bootstrap, clients.unique("topic"), 2)
    clients.produce(cluster.bootstrap, name, 5)
    return name


def simple(cluster: Sandbox, topic: str, **options: Any) -> str:
    group = clients.unique("simple")
    clients.commit(cluster.bootstrap, group, {(topic, 0): 2, (topic, 1): 0}, **options)
    return group


def emptied(cluster: Sandbox, topic: str) -> str:
    """A classic group that had a member."""
    group = clients.unique("emptied")
    member = clients.join(cluster.bootstrap, group, [topic])
    member.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
    member.close()
    return group


def rows(kgtool: Kgtool, group: str) -> dict[int, dict[str, Any]]:
    found = kgtool("describe", "--group", group, "--expiry", "-o", "json")
    assert found.status == 0, found.err
    return {row["partition"]: row for row in found.json["results"]}


def around_now(ms: int) -> bool:
    return abs(ms - time.time() * 1000) < 60_000


class TestKeep:
    def test_the_same_offset_is_committed_again(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str, tmp_path: Path
    ) -> None:
        group = simple(cluster, topic, metadata="note")
        before = rows(kgtool, group)
        result = kgtool("keep", group, "--yes", "-o", "json")
        assert result.status == 0, result.err
        for row in result.json["results"]:
            assert (row["group"], row["topic"], row["rule"]) == (group, topic, "commit")
            assert (row["how"], row["status"], row["error"]) == ("commit", "kept", None)
            old = before[row["partition"]]
            assert row["offset"] == old["current_offset"]
            assert row["old_expires_at_ms"] == old["expires_at_ms"]
        after = rows(kgtool, group)
        for partition, row in after.items():
            assert row["committed_at_ms"] > before[partition]["committed_at_ms"]
            changed = {"committed_at_ms", "expires_at_ms"}
            assert {k: v for k, v in row.items() if k not in changed} == {
                k: v for k, v in before[partition].items() if k not in changed
            }
        (journal,) = (tmp_path / "journal").glob("*.jsonl")
        assert '"note' in journal.read_text()
        lines = map(json.loads, journal.read_text().splitlines())
        noted = {line["partition"]: line["status"] for line in lines if line["kind"] == "result"}
        assert noted == dict.fromkeys(before, "kept")

    def test_a_dry_run_and_no_answer_change_nothing(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str, tmp_path: Path
    ) -> None:
        group = simple(cluster, topic)
        before = rows(kgtool, group)
        planned = kgtool("keep", group, "--dry-run", "-o", "json")
        assert planned.status == 0
        for row in planned.json["results"]:
            assert (row["status"], row["how"]) == ("would-keep", "commit")
            assert row["new_expires_at_ms"] > row["old_expires_at_ms"]
        shown = kgtool("keep", group, "--dry-run")
        each = len(planned.json["results"])
        assert (shown.out + shown.err).count("would-keep") == each, "each offset once, not twice"
        unasked = kgtool("keep", group)
        assert unasked.status == 2
        assert "--yes" in unasked.err
        assert rows(kgtool, group) == before
        assert not (tmp_path / "journal").exists()

    def test_a_group_whose_emptiness_counts_needs_to_be_joined(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str
    ) -> None:
        group = emptied(cluster, topic)
        before = rows(kgtool, group)[0]
        assert before["rule"] == "empty-since"
        refused = kgtool("keep", group, "--yes", "-o", "json")
        assert refused.status == 1
        (error,) = refused.json["errors"]
        assert error["name"] == "NEEDS_JOIN"
        assert "--join" in error["hint"]
        assert rows(kgtool, group)[0] == before
        joined = kgtool("keep", group, "--join", "--yes", "-o", "json")
        assert joined.status == 0, joined.err
        (row,) = joined.json["results"]
        assert (row["status"], row["how"]) == ("kept", "join")
        after = rows(kgtool, group)[0]
        assert after["expires_at_ms"] == row["new_expires_at_ms"] > before["expires_at_ms"]
        assert after["committed_at_ms"] == before["committed_at_ms"]
        (state,) = kgtool("describe", "--group", group, "--state", "-o", "json").json["results"]
        assert (state["state"], state["members"]) == ("Empty", 0)
        # Its own consumers still get in, and go on where they were.
        member = clients.join(cluster.bootstrap, group, [topic])
        try:
            assert member.committed([TopicPartition(topic, 0)], timeout=30)[0].offset == 3
        finally:
            member.close()

    def test_a_living_group_is_refused_and_its_members_are_named(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str
    ) -> None:
        other = clients.create_topic(cluster.bootstrap, clients.unique("other"))
        group = clients.unique("living")
        member = clients.join(cluster.bootstrap, group, [topic], client_id="reader")
        try:
            offsets = [TopicPartition(topic, 0, 1), TopicPartition(other, 0, 0)]
            member.commit(offsets=offsets, asynchronous=False)
            result = kgtool("keep", group, "--yes", "-o", "json")
        finally:
            member.close()
        by_topic = {row["topic"]: row for row in result.json["results"]}
        # What a member subscribes to is safe; the rest can't be written from outside.
        assert by_topic[topic]["status"] == "not-needed"
        assert by_topic[other]["status"] == "failed"
        assert by_topic[other]["error"]["name"] == "NON_EMPTY_GROUP"
        assert "reader" in by_topic[other]["error"]["message"]
        assert result.status == 3

    def test_one_bad_group_does_not_hide_the_others(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str
    ) -> None:
        group = simple(cluster, topic)
        result = kgtool("keep", "no-such-group", group, "--yes")
        assert result.status == 3
        assert "no-such-group" in result.err
        assert [line.split()[-1] for line in result.out.splitlines()] == ["STATUS", "kept", "kept"]


class TestExpiring:
    def test_cron_is_warned_of_what_is_about_to_go(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str
    ) -> None:
        group = simple(cluster, topic)
        argv = ("list", "--match", group, "-o", "json", "--expiring-within")
        found = kgtool(*argv, "169h")
        assert found.status == 5
        (row,) = found.json["results"]
        assert (row["group"], row["state"], row["expiring_offsets"]) == (group, "Empty", 2)
        assert row["rule"] == "commit"
        assert around_now(row["expires_at_ms"] - WEEK_MS)
        assert found.json["errors"] == []
        calm = kgtool(*argv, "6d")
        assert calm.status == 0
        assert calm.json["results"] == []
        assert "Nothing expires within 6d. Checked 1 group." in calm.err

    def test_living_groups_warn_of_nothing_they_hold(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str
    ) -> None:
        group = clients.unique("living")
        member = clients.join(cluster.bootstrap, group, [topic])
        try:
            member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            assert kgtool("list", "--match", group, "--expiring-within", "365d").status == 0
        finally:
            member.close()

    def test_kafkas_form_knows_the_option_too(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str
    ) -> None:
        group = simple(cluster, topic)
        result = kgtool("--list", "--match", group, "--expiring-within", "169h")
        assert result.status == 5
        header, line = result.out.splitlines()
        assert header.split()[-3:] == ["EXPIRING", "EXPIRES-AT", "RULE"]
        assert line.split()[0] == group

    @pytest.mark.parametrize("text", ["5", "soon", "-1h", ""])
    def test_a_time_that_is_none_is_a_usage_error(self, kgtool: Kgtool, text: str) -> None:
        result = kgtool("list", f"--expiring-within={text}")
        assert result.status == 2
        assert "--expiring-within takes a duration" in result.err


class TestDescribe:
    def test_every_format_has_the_three_columns(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str
    ) -> None:
        group = simple(cluster, topic)
        argv = ("describe", "--group", group, "--expiry")
        shown = kgtool(*argv)
        assert shown.out.split("\n")[1].split()[-3:] == ["COMMITTED-AT", "EXPIRES-AT", "RULE"]
        committed, expires, rule = shown.out.split("\n")[2].split()[-3:]
        assert rule == "commit"
        assert [len(committed), len(expires)] == [20, 20]
        assert "7d" in shown.err
        as_csv = list(csv.DictReader(io.StringIO(kgtool(*argv, "-o", "csv").out)))
        as_lines = [json.loads(line) for line in kgtool(*argv, "-o", "ndjson").out.splitlines()]
        for row in (*as_csv, *as_lines):
            assert around_now(int(row["committed_at_ms"]))
            assert int(row["expires_at_ms"]) - int(row["committed_at_ms"]) == WEEK_MS
        plain = kgtool("describe", "--group", group, "-o", "json").json["results"][0]
        assert "rule" not in plain

    def test_kafkas_form_and_chosen_columns(
        self, cluster: Sandbox, kgtool: Kgtool, topic: str
    ) -> None:
        group = simple(cluster, topic)
        drop_in = kgtool("--describe", "--group", group, "--expiry")
        assert drop_in.out.split("\n")[1].split()[-1] == "RULE"
        chosen = kgtool("describe", "--group", group, "--columns", "partition,RULE,expires-at")
        assert chosen.out.split("\n")[0].split() == ["PARTITION", "RULE", "EXPIRES-AT"]
        assert chosen.out.split("\n")[1].split()[:2] == ["0", "commit"]

    @pytest.mark.parametrize("option", ["--members", "--state", "--totals"])
    def test_it_is_about_offsets(self, kgtool: Kgtool, option: str) -> None:
        assert kgtool("describe", "--group", "g", "--expiry", option).status == 2
