"""Routing and retries, as scripts: which broker is asked what, and when it is asked again."""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.client.cluster import Cluster, call_any, fetch_metadata, fetch_topic, find_coordinators
from kgtool.client.ops import ANY, DeadlineExceeded, backoff, call
from kgtool.client.routing import by_coordinator, by_leader
from kgtool.errors import (
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    IncompleteAnswer,
    NotKafka,
    ResolveFailed,
    TlsFailed,
    UnsupportedVersion,
    WrongCluster,
)
from kgtool.model import Broker, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import find_coordinator, incremental_alter_configs, list_groups, metadata
from kgtool.protocol.codes import broker_error
from tests.support.script import ALL_VERSIONS, Script, living


def two_brokers() -> Cluster:
    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092), 2: Broker(2, "two", 9092)}
    return cluster


def coordinator(key: str, node: int, error: int = 0) -> find_coordinator.Coordinator:
    return find_coordinator.Coordinator(key=key, node_id=node, host="h", port=1, error_code=error)


def ask(broker: int, groups: list[str]) -> Any:
    reply = yield from call(broker, list_groups.Request())
    if isinstance(reply, Exception):
        return dict.fromkeys(groups, reply)
    return dict.fromkeys(groups, reply)


def answers(coordinators: list[dict[str, int]], work: list[Any]) -> Any:
    """Answer FindCoordinator from ``coordinators`` and work from ``work``, each in turn."""

    def answer(_to: int, request: Any) -> Any:
        if isinstance(request, find_coordinator.Request):
            known = coordinators.pop(0) if len(coordinators) > 1 else coordinators[0]
            rows = [coordinator(key, known[key]) for key in request.coordinator_keys]
            return find_coordinator.Response(coordinators=rows)
        reply = work.pop(0)
        return reply(_to) if callable(reply) else reply

    return answer


def test_groups_are_asked_of_their_own_coordinators() -> None:
    script = Script(answers([{"a": 1, "b": 2, "c": 1}], [lambda to: to] * 2))
    found = script.run(by_coordinator(two_brokers(), ["a", "b", "c"], ask))
    assert found == {"a": 1, "b": 2, "c": 1}
    assert [to for to, _ in script.calls] == [ANY, 1, 2]


def test_a_coordinator_that_moved_is_looked_up_again() -> None:
    moved = broker_error(codes.NOT_COORDINATOR)
    script = Script(answers([{"a": 1}, {"a": 2}], [moved, lambda to: to]))
    assert script.run(by_coordinator(two_brokers(), ["a"], ask)) == {"a": 2}
    assert [to for to, _ in script.calls] == [ANY, 1, ANY, 2]
    assert script.pauses == [0.1]


def test_a_coordinator_that_loads_is_asked_again_without_looking_it_up() -> None:
    loading = broker_error(codes.COORDINATOR_LOAD_IN_PROGRESS)
    script = Script(answers([{"a": 1}], [loading, loading, lambda to: to]))
    assert script.run(by_coordinator(two_brokers(), ["a"], ask)) == {"a": 1}
    assert [to for to, _ in script.calls] == [ANY, 1, 1, 1]
    assert script.pauses == [0.1, 0.2]


def test_what_is_unanswered_at_the_end_keeps_its_real_reason() -> None:
    refused = ConnectFailed("Nothing listens on two:9092.")
    script = Script(answers([{"a": 2}], [refused, DeadlineExceeded("too late")]))
    found = script.run(by_coordinator(two_brokers(), ["a"], ask))
    assert found == {"a": refused}


def test_a_group_that_may_not_be_seen_does_not_hide_the_others() -> None:
    def answer(to: int, request: Any) -> Any:
        if isinstance(request, find_coordinator.Request):
            rows = [coordinator("a", -1, codes.GROUP_AUTHORIZATION_FAILED), coordinator("b", 2)]
            return find_coordinator.Response(coordinators=rows)
        return to

    found = Script(answer).run(by_coordinator(two_brokers(), ["a", "b"], ask))
    assert isinstance(found["a"], BrokerError)
    assert found["a"].code == codes.GROUP_AUTHORIZATION_FAILED
    assert found["b"] == 2


@pytest.mark.parametrize("version", [2, 3])
def test_brokers_before_3_0_are_asked_for_one_coordinator_at_a_time(version: int) -> None:
    def answer(to: int, request: Any) -> Any:
        if isinstance(request, find_coordinator.Request):
            assert request.coordinator_keys == []
            return find_coordinator.Response(node_id=1, host="h", port=1)
        return request

    script = Script(answer, {**ALL_VERSIONS, 10: (0, version)})
    script.run(by_coordinator(two_brokers(), ["a", "b"], ask))
    assert [r.key for _, r in script.calls if isinstance(r, find_coordinator.Request)] == ["a", "b"]


def test_brokers_since_3_0_are_asked_for_several_at_once() -> None:
    rows = {"a": 1, "b": 2}
    script = Script(answers([rows], ["from 1", "from 2"]), {**ALL_VERSIONS, 10: (0, 4)})
    assert script.run(find_coordinators(two_brokers(), list(rows))) == rows
    assert len(script.calls) == 1


def test_a_coordinator_that_does_not_exist_yet_is_waited_for() -> None:
    replies = [codes.COORDINATOR_NOT_AVAILABLE, codes.COORDINATOR_NOT_AVAILABLE, 0]

    def answer(to: int, request: Any) -> Any:
        if isinstance(request, find_coordinator.Request):
            error = replies.pop(0)
            return find_coordinator.Response(coordinators=[coordinator("a", 1, error)])
        if isinstance(request, metadata.Request):
            return metadata.Response(brokers=living(1, 2), topics=[topic("__consumer_offsets", 1)])
        return to

    script = Script(answer)
    assert script.run(by_coordinator(two_brokers(), ["a"], ask)) == {"a": 1}
    assert [request.NAME for _, request in script.calls] == [
        *["FindCoordinator"] * 2,
        "Metadata",  # of __consumer_offsets: a partition without a leader has no coordinator
        *["FindCoordinator", "ListGroups"],
    ]
    assert script.pauses == [0.1, 0.2]


def test_groups_are_asked_for_in_bounded_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgtool.client.routing.GROUPS_PER_REQUEST", 4)
    groups = [f"g{n}" for n in range(10)]
    sizes: list[int] = []

    def work(broker: int, ids: list[str]) -> Any:
        sizes.append(len(ids))
        yield []
        return dict.fromkeys(ids, broker)

    script = Script(answers([dict.fromkeys(groups, 1)], []))
    script.run(by_coordinator(two_brokers(), groups, work))
    assert sizes == [4, 4, 2]


# ---------------------------------------------------------------------------------------------


def topic(name: str, *leaders: int, error: int = 0) -> metadata.Topic:
    rows = [metadata.Partition(partition=n, leader_id=to) for n, to in enumerate(leaders)]
    return metadata.Topic(name=name, partitions=rows, error_code=error)


def read(broker: int, partitions: list[TopicPartition]) -> Any:
    reply = yield from call(broker, list_groups.Request())
    return dict.fromkeys(partitions, reply)


def leader_script(topics: list[list[metadata.Topic]], replies: list[Any]) -> Script:
    def answer(to: int, request: Any) -> Any:
        if isinstance(request, metadata.Request):
            rows = topics.pop(0) if len(topics) > 1 else topics[0]
            return metadata.Response(brokers=living(1, 2), topics=rows)
        return replies.pop(0)

    return Script(answer)


def test_a_leader_that_moved_is_looked_up_again() -> None:
    moved = broker_error(codes.NOT_LEADER_OR_FOLLOWER)
    script = leader_script([[topic("t", 1)], [topic("t", 2)]], [moved, "ok"])
    found = script.run(by_leader(two_brokers(), [TopicPartition("t", 0)], read))
    assert found == {TopicPartition("t", 0): "ok"}
    assert [to for to, _ in script.calls] == [ANY, 1, ANY, 2]


def test_an_unknown_partition_is_final_after_one_refresh() -> None:
    """The Java client asks 18,510 times in 4 s for a partition that is not there."""
    script = leader_script([[topic("t", 1)]], [])
    found = script.run(by_leader(two_brokers(), [TopicPartition("t", 7)], read))
    assert found[TopicPartition("t", 7)].code == codes.UNKNOWN_TOPIC_OR_PARTITION
    assert len(script.calls) == 2


def test_a_partition_without_leader_does_not_hide_the_others() -> None:
    script = leader_script([[topic("t", 1, -1)]], ["ok"])
    parts = [TopicPartition("t", 0), TopicPartition("t", 1)]
    found = script.run(by_leader(two_brokers(), parts, read))
    assert found[parts[0]] == "ok"
    assert found[parts[1]].code == codes.LEADER_NOT_AVAILABLE


def test_a_partition_that_nobody_told_of_has_the_leader_of_one_without() -> None:
    """The protocol's own word for it: -1 is what Metadata says, and what ANY stands for."""
    cluster = two_brokers()
    leader_script([[topic("t", 1, -1)]], []).run(fetch_metadata(cluster, ["t"]))
    assert [cluster.leader(TopicPartition("t", number)) for number in range(3)] == [1, -1, -1]
    assert cluster.leader(TopicPartition("u", 0)) == -1


def test_metadata_never_creates_topics() -> None:
    script = leader_script([[topic("t", 1)]], [])
    script.run(fetch_metadata(two_brokers(), ["t"]))
    assert script.calls[0][1].allow_auto_topic_creation is False


def test_no_broker_at_all_is_an_error_of_the_whole() -> None:
    def answer(to: int, request: Any) -> Any:
        return ConnectionLost("gone")

    script = Script(answer)
    with pytest.raises(ConnectionLost):
        script.run(fetch_metadata(Cluster(), []))
    assert len(script.calls) == 4


class Lasting:
    """Answers with a passing error until the thousandth request, as four minutes of it are."""

    def __init__(self, error: Any, last: Any) -> None:
        self.left, self.error, self.last = 1000, error, last

    def __call__(self, _to: int, request: Any) -> Any:
        if isinstance(request, find_coordinator.Request):
            rows = [coordinator(key, 1) for key in request.coordinator_keys]
            return find_coordinator.Response(coordinators=rows)
        if isinstance(request, metadata.Request):
            return one_topic()
        self.left -= 1
        return self.error if self.left else self.last


def one_topic() -> metadata.Response:
    part = metadata.Partition(partition=0, leader_id=1)
    return metadata.Response(
        brokers=living(1), topics=[metadata.Topic(name="t", partitions=[part])]
    )


def test_a_coordinator_that_loads_for_long_is_no_recursion() -> None:
    """After 248 tries, four minutes, a RecursionError ended the command."""
    loading = broker_error(codes.COORDINATOR_LOAD_IN_PROGRESS)
    assert Script(Lasting(loading, "done")).run(by_coordinator(two_brokers(), ["a"], ask)) == {
        "a": "done"
    }


def test_a_leader_that_is_away_for_long_is_no_recursion() -> None:
    partition = TopicPartition("t", 0)

    def work(broker: int, partitions: list[TopicPartition]) -> Any:
        reply = yield from call(broker, list_groups.Request())
        return dict.fromkeys(partitions, reply)

    away = broker_error(codes.NOT_LEADER_OR_FOLLOWER)
    script = Script(Lasting(away, "done"))
    assert script.run(by_leader(two_brokers(), [partition], work)) == {partition: "done"}


@pytest.mark.parametrize("error", [TlsFailed, ResolveFailed, NotKafka])
def test_what_is_wrong_with_a_coordinators_address_is_final_soon(error: Any) -> None:
    """It was tried until --timeout was over."""
    wrong = error("wrong")
    script = Script(Lasting(wrong, "done"))
    assert script.run(by_coordinator(two_brokers(), ["a"], ask)) == {"a": wrong}
    assert sum(script.pauses) < 1


@pytest.mark.parametrize("answer", ["REBOOTSTRAP_REQUIRED", "the same with brokers", "no brokers"])
def test_metadata_without_brokers_or_with_an_error_is_asked_for_again(answer: str) -> None:
    """It was taken for a cluster without topics."""
    bad = metadata.Response(error_code=codes.REBOOTSTRAP_REQUIRED)
    if answer == "no brokers":
        bad = metadata.Response()
    if answer == "the same with brokers":
        bad = bad.replace(brokers=living(1, 2))
    left = [bad, bad, one_topic()]
    cluster = two_brokers()
    script = Script(lambda _to, _request: left.pop(0))
    script.run(fetch_metadata(cluster, ["t"]))
    assert (cluster.topics["t"].error, list(cluster.brokers)) == (None, [1])
    assert cluster.must_bootstrap is (answer != "no brokers")


def test_another_cluster_that_answers_in_the_middle_is_refused() -> None:
    """Addresses that lead to two clusters: journal, locks and policy are those of the first."""
    theirs = one_topic().replace(cluster_id="theirs", brokers=living(2))
    left = [one_topic().replace(cluster_id="ours"), theirs]
    cluster = Cluster()
    script = Script(lambda _to, _request: left.pop(0))
    script.run(fetch_metadata(cluster, ["t"]))
    with pytest.raises(WrongCluster, match="theirs"):
        script.run(fetch_metadata(cluster, ["t"]))
    assert (cluster.cluster_id, list(cluster.brokers)) == ("ours", [1])


def test_another_cluster_behind_a_leader_that_moved_ends_it() -> None:
    theirs = one_topic().replace(cluster_id="theirs")
    script = Script(lambda _to, _request: theirs)
    cluster = two_brokers()
    cluster.cluster_id = "ours"
    (error,) = script.run(by_leader(cluster, [TopicPartition("t", 0)], ask)).values()
    assert isinstance(error, WrongCluster)
    assert script.pauses == []


def test_a_topic_that_metadata_leaves_out_is_not_said_to_be_unknown() -> None:
    cluster = two_brokers()
    Script(lambda _to, _request: one_topic()).run(fetch_metadata(cluster, ["t", "u"]))
    error = cluster.topics["u"].error
    assert isinstance(error, IncompleteAnswer)
    assert error.code is None


def test_a_group_that_findcoordinator_leaves_out_is_not_waited_for() -> None:
    script = Script(lambda _to, _request: find_coordinator.Response())
    found = script.run(by_coordinator(two_brokers(), ["a"], ask))
    assert isinstance(found["a"], IncompleteAnswer)
    assert len(script.pauses) == 3


def test_what_a_coordinator_or_leader_leaves_out_is_an_error_of_its_own() -> None:
    """It was a KeyError, for share groups whose offsets were left out."""

    def nothing(_broker: int, _asked: list[Any]) -> Any:
        yield from call(ANY, list_groups.Request())
        return {}

    script = Script(Lasting(None, None))
    (error,) = script.run(by_coordinator(two_brokers(), ["a"], nothing)).values()
    assert isinstance(error, IncompleteAnswer)
    (error,) = script.run(by_leader(two_brokers(), [TopicPartition("t", 0)], nothing)).values()
    assert isinstance(error, IncompleteAnswer)
    assert len(script.pauses) == 6


def test_a_coordinator_that_metadata_did_not_name_is_known_by_its_answer() -> None:
    """A broker that has just joined, and one that has another address now."""
    cluster = two_brokers()
    script = Script(answers([{"a": 3, "b": 1}], [lambda to: to] * 2))
    assert script.run(by_coordinator(cluster, ["a", "b"], ask)) == {"a": 3, "b": 1}
    assert (cluster.brokers[3], cluster.brokers[1]) == (Broker(3, "h", 1), Broker(1, "h", 1))


def test_the_brokers_are_known_before_their_groups_are() -> None:
    def answer(_to: int, request: Any) -> Any:
        if isinstance(request, metadata.Request):
            return metadata.Response(brokers=living(1, 2))
        return find_coordinator.Response(coordinators=[coordinator("a", 1)])

    cluster = Cluster()
    assert Script(answer).run(find_coordinators(cluster, ["a"])) == {"a": 1}
    assert cluster.brokers[2] == Broker(2, "two", 9092)


def test_a_version_that_both_lack_is_final_at_once() -> None:
    lacking = UnsupportedVersion("no version in common")
    script = Script(answers([{"a": 1}], [lacking, "done"]))
    assert script.run(by_coordinator(two_brokers(), ["a"], ask)) == {"a": lacking}


@pytest.mark.parametrize(("sent", "calls"), [(False, 4), (True, 1)])
def test_a_change_is_sent_again_only_if_it_was_not_sent(sent: bool, calls: int) -> None:
    lost = ConnectionLost("gone")
    lost = lost.after_sending() if sent else lost
    script = Script(lambda _to, _request: lost)
    assert isinstance(script.run(call_any(incremental_alter_configs.Request())), ConnectionLost)
    assert len(script.calls) == calls


def test_a_coordinator_that_is_left_out_is_asked_for_three_times_more() -> None:
    script = Script(lambda _to, _request: find_coordinator.Response())
    found = script.run(find_coordinators(two_brokers(), ["a"]))
    assert isinstance(found["a"], IncompleteAnswer)
    assert script.pauses == [backoff(attempt).seconds for attempt in range(3)]


def test_what_a_broker_says_of_a_topic_is_its_error() -> None:
    refused = metadata.Topic(name="t", error_code=codes.TOPIC_AUTHORIZATION_FAILED)
    reply = metadata.Response(brokers=living(1), topics=[refused])
    found = Script(lambda _to, _request: reply).run(fetch_topic(two_brokers(), "t"))
    assert isinstance(found.error, BrokerError)
    assert found.error.code == codes.TOPIC_AUTHORIZATION_FAILED
