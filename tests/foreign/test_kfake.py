"""Commands on franz-go's kfake, which has no ``__consumer_offsets`` and few manners."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgtool import GroupAdmin
from kgtool.client.cluster import find_coordinators
from kgtool.client.ops import call
from kgtool.config import Settings, parse_bootstrap
from kgtool.model import CommittedOffset
from kgtool.net.session import Session
from kgtool.protocol.api import (
    delete_groups,
    describe_acls,
    describe_configs,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from tests.support import clients, kfake
from tests.support.faulty import kgtool
from tests.support.kfake import Kfake


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))


def test_a_group_that_offsetfetch_does_not_know_has_no_offsets(franz: Kfake) -> None:
    """69 made a reset with ``--create`` and the undo of a deletion fail."""
    group = clients.unique("new")
    at = ["--bootstrap-server", franz.bootstrap, "-o", "json", "--yes"]
    argv = ["reset-offsets", "--group", group, "--topic", "payments:0", "--to-offset", "0"]
    made = kgtool(*argv, "--create", "--execute", *at)
    assert made.status == 0, made
    gone = kgtool("delete", "--group", group, *at)
    assert gone.status == 0, gone
    undone = kgtool("undo", "last", *at)
    assert undone.status == 0, undone
    assert clients.committed(franz.bootstrap, group) == {("payments", 0): 0}


@pytest.mark.parametrize("end", ["", "-\udcff"], ids=["metadata", "name"])
def test_what_is_no_text_comes_back(franz: Kfake, end: str) -> None:
    """These brokers keep its bytes. Was: the journal was written, and undo could not read it."""
    name, odd = clients.unique("bytes"), b"\xff\x00\xfe".decode("utf-8", "surrogateescape")
    group = f"{name}{end}"
    row = offset_commit.RequestPartition(partition=0, offset=3, leader_epoch=-1, metadata=odd)
    request = offset_commit.Request(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[offset_commit.RequestTopic(name="payments", partitions=[row])],
    )
    with Session(Settings(parse_bootstrap(franz.bootstrap))) as session:
        home = session.run(find_coordinators(session.cluster, [group]))[group]
        assert isinstance(home, int)
        session.run(call(home, request, 8))
    at = ["--bootstrap-server", franz.bootstrap, "-o", "json", "--yes"]
    with GroupAdmin(franz.bootstrap) as admin:
        before = admin.committed_offsets(group)
        (value,) = before.values()
        assert isinstance(value, CommittedOffset) and value.metadata == odd
        deleted = kgtool("delete", "--match", f"{name}*", *at)
        assert deleted.status == 0, deleted
        assert admin.committed_offsets(group) == {}
        undone = kgtool("undo", "last", *at)
        assert undone.status == 0, undone
        assert admin.committed_offsets(group) == before


@pytest.mark.parametrize("command", ["coordinator", "explain", "describe --expiry", "export"])
def test_no_offsets_topic_is_named(franz: Kfake, tmp_path: Path, command: str) -> None:
    """It was "does not host this topic-partition", or "no group has ever committed anything"."""
    argv = ["export", "--out", str(tmp_path / "out")]
    if command != "export":
        argv = [*command.split(), *([] if command == "coordinator" else ["--group"]), "known-001"]
        argv = [word for word in argv if word != "--group"] if command == "explain" else argv
    done = kgtool(*argv, "--bootstrap-server", franz.bootstrap, "--timeout", "8000")
    assert "has no topic __consumer_offsets" in done.err + done.out, done
    assert "does not host this" not in done.err + done.out, done


def test_an_empty_offsetfetch_is_no_group_without_offsets(franz: Kfake) -> None:
    franz.fail(offset_fetch.Request.KEY, empty=True)
    done = kgtool(
        "describe", "--group", "known-001", "--bootstrap-server", franz.bootstrap, "-o", "json"
    )
    assert franz.struck()
    (error,) = done.document["errors"]
    assert (done.status, error["name"], error["code"]) == (1, "INCOMPLETE_ANSWER", None), done


def test_doctor_says_what_it_is_and_lacks(franz: Kfake) -> None:
    """It took it for Kafka 4.1: its retention, its rules, an upgrade."""
    done = kgtool(
        "doctor", "--bootstrap-server", franz.bootstrap, "-o", "json", "--ignore", "beyond-end"
    )
    found = {row["finding"]: row for row in done.document["results"]}
    assert found.keys() <= {"not-kafka", "denied", "topic-gone", "piling-up"}, done
    lacks = found["not-kafka"]["evidence"]["lacks"]
    assert lacks[0] == "__consumer_offsets" and "OffsetDelete" not in lacks, done
    assert "Upgrade" not in done.out


@pytest.mark.parametrize(
    "command", ["describe --expiry", "list --expiring-within 48h", "explain", "keep --dry-run"]
)
def test_expiry_is_never_a_guess(franz: Kfake, command: str) -> None:
    """They showed Kafka's seven days and its rules, ``keep`` even a new date."""
    name, *options = command.split()
    group = ["known-001"] if name != "list" else []
    done = kgtool(name, *group, *options, "--bootstrap-server", franz.bootstrap)
    said = done.out + done.err
    assert "not Apache Kafka: when they remove offsets is unknown" in said, done
    assert "Offsets are kept for" not in said and "rules of brokers" not in said, done
    assert "T" not in "".join(re.findall(r"\d{4}-\d\d-\d\dT", said)), done


LACKED = (list_groups, delete_groups, offset_delete, leave_group, describe_configs, describe_acls)


@pytest.fixture(scope="module")
def poor() -> Iterator[Kfake]:
    """Brokers that offer less than kfake: it is what some clouds leave out."""
    with kfake.running(*(api.Request.KEY for api in LACKED)) as cluster:
        cluster.seed("known", 3)
        yield cluster


@pytest.mark.parametrize(
    ("command", "status", "api"),
    [
        ("list", 1, "ListGroups"),
        ("describe --all-groups", 1, "ListGroups"),
        ("list --expiring-within 48h", 1, "ListGroups"),
        ("doctor", 3, "ListGroups"),
        ("delete known-001 --yes", 1, "DeleteGroups"),
        ("delete known-001 --dry-run", 1, "DeleteGroups"),
        ("--delete --group known-001", 1, "DeleteGroups"),
        ("cleanup plan --group known-001", 0, "DeleteGroups"),
        ("delete-offsets known-001 --topic payments:0 --yes", 1, "OffsetDelete"),
        ("delete-offsets known-001 --topic payments:0 --dry-run", 1, "OffsetDelete"),
        ("remove-members known-001 --all --dry-run", 1, "LeaveGroup"),
        ("configs --describe known-001", 1, "DescribeConfigs"),
        ("request DescribeAcls", 1, "DescribeAcls"),
    ],
)
def test_what_brokers_lack_is_one_sentence(
    poor: Kfake, command: str, status: int, api: str
) -> None:
    """Dry runs too: they said "would be deleted", and ``list`` the same of each broker."""
    done = kgtool(*command.split(), "--bootstrap-server", poor.bootstrap)
    assert done.status == status, done
    assert done.err.count(f" {api}") == 1 and "used for: " in done.err, done
    assert "would" not in done.out.lower() and "Traceback" not in done.err, done


def test_what_needs_none_of_it_works(poor: Kfake) -> None:
    """Groups that are named are looked at, reset and put back."""
    at = ["--bootstrap-server", poor.bootstrap, "-o", "json"]
    rows = kgtool("describe", "known-000", *at).document["results"]
    committed = [row["current_offset"] is not None for row in rows]
    assert committed == [True] * 2 + [False] * 4, "of the topic's six partitions"
    argv = ["reset-offsets", "known-000", "--topic", "payments:0", "--to-earliest", "--execute"]
    done = kgtool(*argv, "--yes", *at)
    assert done.status == 0, done
    undone = kgtool("undo", "last", "--yes", *at)
    assert undone.status == 0, undone
    explained = kgtool("explain", "known-001", "--bootstrap-server", poor.bootstrap)
    assert explained.out.count("doesn't offer DeleteGroups") == 1, explained
    assert explained.err.count("not Apache Kafka: when they remove") == 1, explained
