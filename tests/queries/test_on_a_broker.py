"""The admin operations on a real Kafka; confluent-kafka and Kafka's own tool say what is right."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.client.ops import Call
from kgtool.config import Settings, parse_bootstrap
from kgtool.model import GroupOffsets, TopicSpec
from kgtool.model import TopicPartition as Partition
from kgtool.net.session import Session
from kgtool.queries.groups.describe import describe_groups
from kgtool.queries.groups.list import list_groups
from kgtool.queries.offsets import list_offsets
from kgtool.queries.offsets.describe import describe_offsets
from kgtool.queries.offsets.lag import LogEnds
from kgtool.sandbox.cluster import Sandbox as Kafka
from tests.support import clients
from tests.support.changing import delete_groups, delete_offsets

pytestmark = pytest.mark.broker

Unique = Callable[[str], str]
PROTOCOLS = ("classic", "consumer")


def member(bootstrap: str, group: str, topics: list[str], protocol: str, **more: Any) -> Consumer:
    return clients.join(bootstrap, group, topics, group_protocol=protocol, client_id="cli", **more)


def rows_of(session: Session, group: str, **options: Any) -> dict[tuple[str, int], Any]:
    (found,) = session.run(describe_offsets(session.cluster, [group], **options))
    assert found.description.error is None
    return {(row.topic, row.partition): row for row in found.rows}


def test_list_shows_what_confluent_kafka_lists(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    names = [unique("list") for _ in range(3)]
    for name in names:
        clients.commit(bootstrap, name, {(topic, 0): 0})
    listing = session.run(list_groups(session.cluster))
    assert listing.errors == []
    # The others are other tests', and come and go.
    assert sorted(row.group for row in listing.groups if row.group in names) == sorted(names)
    assert set(names) <= clients.group_ids(bootstrap)
    row = next(row for row in listing.groups if row.group == names[0])
    assert (row.type, row.state, row.protocol_type) == ("classic", "Empty", "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_filters_are_applied(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str], protocol: str
) -> None:
    topic, group = new_topic(), unique("filter")
    client = member(bootstrap, group, [topic], protocol)
    try:
        for states, types, found in (
            (["stable"], [protocol.upper()], True),
            (["Empty"], [], False),
            ([], ["share"], False),
        ):
            listing = session.run(list_groups(session.cluster, states, types))
            assert (group in {row.group for row in listing.groups}) is found
    finally:
        client.close()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_living_group_is_described_with_its_members(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str], protocol: str
) -> None:
    topic, group = new_topic(partitions=3), unique("living")
    client = member(bootstrap, group, [topic], protocol, group_instance_id="static-1")
    try:
        (found,) = session.run(describe_groups(session.cluster, [group]))
    finally:
        client.close()
    assert (found.state, found.type, found.error) == ("Stable", protocol, None)
    (only,) = found.members
    assert only.client_id == "cli"
    assert only.instance_id == "static-1"
    assert only.host.startswith("/127.0.0.1")
    assert only.assignment == ((topic, (0, 1, 2)),)
    assert only.subscribed == (topic,)
    assert (only.epoch is not None) == (protocol == "consumer")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_that_was_converted_since_it_was_listed_is_found(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str], protocol: str
) -> None:
    topic, group = new_topic(), unique("converted")
    client = member(bootstrap, group, [topic], protocol)
    other = {"classic": "consumer", "consumer": "classic"}[protocol]
    try:
        (found,) = session.run(describe_groups(session.cluster, [group], {group: other}))
    finally:
        client.close()
    assert (found.type, found.state, found.error) == (protocol, "Stable", None)


def test_a_missing_group_does_not_hide_the_others(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str]
) -> None:
    topic, group = new_topic(), unique("there")
    clients.commit(bootstrap, group, {(topic, 0): 0})
    missing, there = session.run(describe_groups(session.cluster, ["no-such-group", group]))
    assert missing.error is not None
    assert missing.error.name == "GROUP_ID_NOT_FOUND"
    assert there.state == "Empty"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_lag_and_owners(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str], protocol: str
) -> None:
    topic, other, group = new_topic(partitions=2), new_topic(), unique("lag")
    for partition, count in ((0, 10), (1, 20)):
        clients.produce(bootstrap, topic, count, partition=partition)
    clients.commit(bootstrap, group, {(topic, 0): 4, (other, 0): 0}, metadata="m")
    client = member(bootstrap, group, [topic], protocol)
    try:
        rows = rows_of(session, group)
    finally:
        client.close()
    assert set(rows) == {(topic, 0), (topic, 1), (other, 0)}
    first, second, left = rows[topic, 0], rows[topic, 1], rows[other, 0]
    assert (first.current_offset, first.log_end_offset, first.lag) == (4, 10, 6)
    # confluent-kafka puts a NUL behind the metadata.
    assert (first.status, first.metadata.rstrip("\0"), first.subscribed) == ("ok", "m", True)
    assert first.client_id == "cli"
    assert (second.current_offset, second.lag, second.status) == (None, None, "no-commit")
    assert (left.member_id, left.subscribed, left.status) == (None, False, "ok")


def test_commits_outside_the_log_are_named(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str]
) -> None:
    topic, group = new_topic(partitions=2), unique("outside")
    for partition in (0, 1):
        clients.produce(bootstrap, topic, 10, partition=partition)
    clients.commit(bootstrap, group, {(topic, 0): 2, (topic, 1): 15})
    client = clients.admin(bootstrap)
    for future in client.delete_records([TopicPartition(topic, 0, 5)]).values():
        future.result(30)
    rows = rows_of(session, group)
    assert (rows[topic, 0].status, rows[topic, 0].lag) == ("before-start", 8)
    assert (rows[topic, 1].status, rows[topic, 1].lag) == ("beyond-end", -5)


def test_a_pending_transaction_shows_with_the_old_value(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str]
) -> None:
    topic, group = new_topic(), unique("txn")
    clients.produce(bootstrap, topic, 10)
    clients.commit(bootstrap, group, {(topic, 0): 3})
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("tid")})
    producer.init_transactions(30)
    producer.begin_transaction()
    reader = clients.consumer(bootstrap, group)
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, 7)], reader.consumer_group_metadata(), 30
    )
    try:
        row = rows_of(session, group)[topic, 0]
        assert (row.current_offset, row.status) == (3, "pending-transaction")
    finally:
        producer.commit_transaction(30)
        reader.close()
    after = clients.wait_for(
        lambda: (row := rows_of(session, group)[topic, 0]).status == "ok" and row, "the commit"
    )
    assert after.current_offset == 7


def test_only_the_topics_asked_for(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str]
) -> None:
    topic, other, group = new_topic(partitions=3), new_topic(), unique("some")
    clients.commit(bootstrap, group, {(topic, 0): 0, (topic, 2): 0, (other, 0): 0})
    rows = rows_of(session, group, topics=[TopicSpec(topic, (1, 2))])
    assert set(rows) == {(topic, 2)}


def test_many_groups_in_a_handful_of_requests(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    clients.produce(bootstrap, topic, 5)
    groups = [unique("many") for _ in range(40)]
    for group in groups:
        clients.commit(bootstrap, group, {(topic, 0): 2})
    emitted: list[GroupOffsets] = []
    session.run(describe_offsets(session.cluster, groups, emit=emitted.append))
    assert session.loop.requests_sent < 15
    found = session.run(describe_offsets(session.cluster, groups))
    assert [part.description.group for part in found] == groups
    assert found == emitted
    assert all(part.rows[0].lag == 3 for part in found)


# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_delete_offsets_tells_four_outcomes_apart(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str], protocol: str
) -> None:
    held, dropped, group = new_topic(), new_topic(partitions=2), unique("doff")
    clients.produce(bootstrap, held, 1)
    clients.commit(bootstrap, group, {(held, 0): 0, (dropped, 0): 0})
    client = member(bootstrap, group, [held], protocol)
    specs = [
        TopicSpec(held, (0,)),
        TopicSpec(dropped),
        TopicSpec(dropped, (99,)),
        TopicSpec("nosuch"),
    ]
    try:
        for dry_run in (True, False):
            asked = {group: specs}
            if dry_run:
                (done,) = session.run(DeleteOffsets(asked).look(session.cluster, [group]))
            else:
                (done,) = session.run(delete_offsets(session.cluster, asked))
            assert done.error is None
            rows = {(row.topic, row.partition): row for row in done.rows}
            expected = {
                (held, 0): ("failed", "GROUP_SUBSCRIBED_TO_TOPIC"),
                (dropped, 0): ("would-delete" if dry_run else "deleted", None),
                (dropped, 1): ("no-offset", None),
                (dropped, 99): ("failed", "UNKNOWN_TOPIC_OR_PARTITION"),
                ("nosuch", None): ("failed", "UNKNOWN_TOPIC_OR_PARTITION"),
            }
            found = {at: (r.status, r.error.name if r.error else None) for at, r in rows.items()}
            assert found == expected
            assert "cli" in (rows[held, 0].error.hint or "")
            left = clients.committed(bootstrap, group)
            assert left == ({(held, 0): 0, (dropped, 0): 0} if dry_run else {(held, 0): 0})
    finally:
        client.close()


def test_delete_offsets_of_several_groups_fail_alone(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str]
) -> None:
    topic, group = new_topic(), unique("doff")
    clients.commit(bootstrap, group, {(topic, 0): 0})
    spec = [TopicSpec(topic, (0,))]
    found = session.run(delete_offsets(session.cluster, {"no-such-group": spec, group: spec}))
    done = {one.group: one for one in found}
    assert done["no-such-group"].error is not None
    assert done["no-such-group"].error.name == "GROUP_ID_NOT_FOUND"
    assert [row.status for row in done["no-such-group"].rows] == ["failed"]
    assert [row.status for row in done[group].rows] == ["deleted"]
    assert clients.committed(bootstrap, group) == {}


def test_delete_removes_the_empty_and_spares_the_living(
    session: Session, bootstrap: str, unique: Unique, new_topic: Callable[..., str]
) -> None:
    topic, empty, alive = new_topic(), unique("del"), unique("del")
    clients.commit(bootstrap, empty, {(topic, 0): 0})
    client = member(bootstrap, alive, [topic], "classic")
    names = [alive, "no-such-group", empty]
    try:
        planned = session.run(DeleteGroups(names).look(session.cluster, names))
        assert [row.status for row in planned] == ["failed", "failed", "would-delete"]
        assert {empty, alive} <= clients.group_ids(bootstrap)
        done = session.run(delete_groups(session.cluster, names))
    finally:
        client.close()
    assert [(row.group, row.status) for row in done] == [
        (alive, "failed"),
        ("no-such-group", "failed"),
        (empty, "deleted"),
    ]
    assert done[0].error is not None
    assert done[0].error.name == "NON_EMPTY_GROUP"
    assert "cli" in (done[0].error.hint or "")
    assert empty not in clients.group_ids(bootstrap)


def test_kafkas_own_tool_sees_the_same_offsets(
    session: Session,
    bootstrap: str,
    unique: Unique,
    new_topic: Callable[..., str],
    kafka_tool: Callable[..., Any],
) -> None:
    topic, group = new_topic(partitions=3), unique("oracle")
    clients.produce(bootstrap, topic, 9, partition=1)
    clients.commit(bootstrap, group, {(topic, 0): 0, (topic, 1): 4, (topic, 2): 0})
    printed = kafka_tool("--describe", "--group", group).stdout
    theirs = {
        (words[1], int(words[2])): tuple(words[3:6])
        for line in printed.splitlines()
        if (words := line.split()) and words[0] == group
    }
    ours = {
        at: (str(row.current_offset), str(row.log_end_offset), str(row.lag))
        for at, row in rows_of(session, group).items()
    }
    assert ours == theirs


def test_the_ends_of_logs_as_listoffsets_v0_tells_them(
    kafka_391: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is a list, which was not read: a lag of -501."""
    topic = clients.create_topic(kafka_391.bootstrap, clients.unique("old"))
    clients.produce(kafka_391.bootstrap, topic, 5)
    monkeypatch.setattr(list_offsets, "Call", functools.partial(Call, max_version=0))
    partition = Partition(topic, 0)
    settings = Settings(parse_bootstrap(kafka_391.bootstrap), 20_000)
    with Session(settings) as session:
        assert session.run(list_offsets.log_ends(session.cluster, [partition])) == {
            partition: LogEnds(0, 5)
        }
