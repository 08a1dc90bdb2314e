"""What is done after an answer got lost, and when brokers fail while groups are listed: scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgtool.changes.journal.journal import outcome_of
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.client.cluster import Cluster
from kgtool.client.ops import DeadlineExceeded
from kgtool.errors import ConnectFailed, ConnectionLost
from kgtool.model import Broker, TopicSpec
from kgtool.protocol import codes
from kgtool.protocol.api import (
    consumer_group_describe,
    describe_acls,
    describe_groups,
    find_coordinator,
    list_offsets,
    list_transactions,
    metadata,
    offset_delete,
    offset_fetch,
)
from kgtool.protocol.api import delete_groups as delete_groups_api
from kgtool.protocol.api import list_groups as list_groups_api
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.list import list_groups
from tests.support.changing import delete_groups, delete_offsets
from tests.support.script import ALL_VERSIONS, Script, living

LOST = ConnectionLost("one:9092 closed the connection.").after_sending()
NEVER_SENT = ConnectFailed("Nothing listens on one:9092.")
LATE = DeadlineExceeded("too late")


def one_broker() -> Cluster:
    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092)}
    return cluster


class Coordinator:
    """Holds the offsets of one group; its answers to changes go where ``fate`` says."""

    def __init__(self, offsets: dict[int, int], fate: list[str]) -> None:
        self.offsets: dict[int, int] | None = dict(offsets)
        self.fate = fate
        self.changes = 0

    def __call__(self, _to: int, request: Any) -> Any:
        answers: dict[type, Callable[[Any], Any]] = {
            find_coordinator.Request: self._coordinator,
            metadata.Request: self._metadata,
            describe_groups.Request: self._describe,
            consumer_group_describe.Request: self._no_modern_group,
            offset_fetch.Request: self._fetch,
            list_transactions.Request: lambda _request: list_transactions.Response(),
            describe_acls.Request: lambda _request: describe_acls.Response(
                error_code=codes.SECURITY_DISABLED
            ),
            list_groups_api.Request: self._list,
            list_offsets.Request: self._log_ends,
        }
        if type(request) in answers:
            return answers[type(request)](request)
        return self._change(request)

    def _coordinator(self, request: Any) -> Any:
        rows = [
            find_coordinator.Coordinator(key=key, node_id=1, host="one", port=9092)
            for key in request.coordinator_keys
        ]
        return find_coordinator.Response(coordinators=rows)

    def _metadata(self, request: Any) -> Any:
        rows = [
            metadata.Topic(
                name=row.name,
                partitions=[metadata.Partition(partition=n, leader_id=1) for n in range(3)],
            )
            for row in request.topics or ()
        ]
        return metadata.Response(brokers=living(1), topics=rows)

    def _list(self, _request: Any) -> Any:
        names = [] if self.offsets is None else ["g"]
        rows = [list_groups_api.Group(group_id=name, group_state="Empty") for name in names]
        return list_groups_api.Response(groups=rows)

    def _log_ends(self, request: Any) -> Any:
        topics = [
            list_offsets.Topic(
                name=topic.name,
                partitions=[
                    list_offsets.Partition(partition=row.partition, offset=100)
                    for row in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return list_offsets.Response(topics=topics)

    def _describe(self, request: Any) -> Any:
        state = "Dead" if self.offsets is None else "Empty"
        groups = [
            describe_groups.Group(group_id=name, group_state=state) for name in request.groups
        ]
        return describe_groups.Response(groups=groups)

    def _no_modern_group(self, request: Any) -> Any:
        code = codes.GROUP_ID_NOT_FOUND
        groups = [
            consumer_group_describe.Group(group_id=name, error_code=code)
            for name in request.group_ids
        ]
        return consumer_group_describe.Response(groups=groups)

    def _fetch(self, request: Any) -> Any:
        if self.fate and self.fate[0] == "gone away":
            return LATE
        parts = [
            offset_fetch.GroupPartition(partition=n, offset=offset)
            for n, offset in (self.offsets or {}).items()
        ]
        topic = offset_fetch.GroupTopic(name="t", partitions=parts)
        rows = [offset_fetch.Group(group_id=row.group_id, topics=[topic]) for row in request.groups]
        return offset_fetch.Response(groups=rows)

    def _change(self, request: Any) -> Any:
        fate = self.fate.pop(0) if self.fate else "answered"
        if fate == "never sent":
            return NEVER_SENT
        if fate == "left out, not done":
            return offset_delete.Response() if _is_about_offsets(request) else EMPTY
        if not fate.startswith(("lost before", "refused")):
            answer = self._do(request)
            self.changes += 1
        if fate.endswith("then committed"):
            self.offsets = {**(self.offsets or {}), 0: 99}
        if fate.startswith(("unsettled", "refused")):
            return self._trouble(request)
        if fate.startswith("left out"):
            return type(answer)()
        return answer if fate == "answered" else LOST

    def _trouble(self, request: Any) -> Any:
        """What a coordinator says that did not hear of its followers, or is none any more."""
        code = codes.COORDINATOR_NOT_AVAILABLE
        if isinstance(request, offset_delete.Request):
            return offset_delete.Response(error_code=code)
        rows = [delete_groups_api.Result(group_id=g, error_code=code) for g in request.group_ids]
        return delete_groups_api.Response(results=rows)

    def _do(self, request: Any) -> Any:
        if isinstance(request, delete_groups_api.Request):
            code = codes.NONE if self.offsets is not None else codes.GROUP_ID_NOT_FOUND
            self.offsets = None
            rows = [
                delete_groups_api.Result(group_id=g, error_code=code) for g in request.group_ids
            ]
            return delete_groups_api.Response(results=rows)
        assert isinstance(request, offset_delete.Request)
        wanted = [part.partition for part in request.topics[0].partitions]
        self.offsets = {n: o for n, o in (self.offsets or {}).items() if n not in wanted}
        parts = [offset_delete.Partition(partition=n) for n in wanted]
        return offset_delete.Response(topics=[offset_delete.Topic(name="t", partitions=parts)])


EMPTY = delete_groups_api.Response()


def _is_about_offsets(request: Any) -> bool:
    return isinstance(request, offset_delete.Request)


CASES = [
    # what becomes of the answers, the status, the error's name, how often it was really done
    (["answered"], "deleted", None, 1),
    (["lost after"], "deleted", None, None),
    (["lost before"], "deleted", None, 1),
    (["never sent", "answered"], "deleted", None, 1),
    (["lost before", "lost before", "answered"], "deleted", None, 1),
    (["lost, then committed"], "changed-meanwhile", "CHANGED_MEANWHILE", 1),
    (["lost after", "gone away"], "unknown", "OUTCOME_UNKNOWN", 1),
    (["left out"], "deleted", None, 1),
    (["left out, not done", "answered"], "deleted", None, 1),
    (["left out, not done"] * 99, "failed", "INCOMPLETE_ANSWER", 0),
    (["left out, then committed"], "changed-meanwhile", "CHANGED_MEANWHILE", 1),
    (["left out", "gone away"], "unknown", "OUTCOME_UNKNOWN", 1),
    (["unsettled"], "deleted", None, None),
    (["refused"], "deleted", None, 1),
    (["unsettled", "refused", "unsettled"], "deleted", None, None),
    (["unsettled, then committed"], "changed-meanwhile", "CHANGED_MEANWHILE", 1),
    (["lost before, then committed"], "changed-meanwhile", "CHANGED_MEANWHILE", 0),
]


@pytest.mark.parametrize(("fate", "status", "name", "changes"), CASES)
def test_a_group_is_deleted_once(
    fate: list[str], status: str, name: str | None, changes: int | None
) -> None:
    coordinator = Coordinator({0: 5, 1: 7}, list(fate))
    (row,) = Script(coordinator).run(delete_groups(one_broker(), ["g"]))
    if name == "CHANGED_MEANWHILE" and changes:
        # What nobody has committed to is gone: so the deletion was made, and undo gives that back.
        assert coordinator.offsets == {0: 99}
        status, name = "deleted", None
    assert (row.status, row.error.name if row.error else None) == (status, name)
    assert changes is None or coordinator.changes == changes
    if name == "CHANGED_MEANWHILE":
        assert coordinator.offsets == {0: 99, 1: 7}
        # It may still be on its way, or was done before the other commit: nobody knows.
        assert outcome_of(row.status, row.error) == "unknown"


@pytest.mark.parametrize(("fate", "status", "name", "changes"), CASES)
def test_offsets_are_deleted_once(
    fate: list[str], status: str, name: str | None, changes: int | None
) -> None:
    coordinator = Coordinator({0: 5, 1: 7}, list(fate))
    specs = {"g": [TopicSpec("t", (0,))]}
    (done,) = Script(coordinator).run(delete_offsets(one_broker(), specs))
    (row,) = done.rows
    assert (row.status, row.error.name if row.error else None) == (status, name)
    assert changes is None or coordinator.changes == changes
    assert coordinator.offsets is not None
    assert coordinator.offsets[1] == 7
    if name == "CHANGED_MEANWHILE":
        assert coordinator.offsets[0] == 99
        assert outcome_of(row.status, row.error) == "unknown"


def test_partitions_that_are_gone_are_told_from_those_that_were_committed_again() -> None:
    coordinator = Coordinator({0: 5, 1: 7}, ["lost, then committed"])
    specs = {"g": [TopicSpec("t", (0, 1, 2))]}
    (done,) = Script(coordinator).run(delete_offsets(one_broker(), specs))
    assert {row.partition: row.status for row in done.rows} == {
        0: "changed-meanwhile",
        1: "deleted",
        2: "no-offset",
    }


@pytest.mark.parametrize("fate", ["lost after", "left out", "lost before", "left out, not done"])
def test_a_group_without_offsets_is_looked_for_in_the_list(fate: str) -> None:
    coordinator = Coordinator({}, [fate])
    (row,) = Script(coordinator).run(delete_groups(one_broker(), ["g"]))
    assert (row.status, coordinator.offsets, coordinator.changes) == ("deleted", None, 1)


class Polite(Coordinator):
    """Describes every name as an Empty group, as Tansu does."""

    def _describe(self, request: Any) -> Any:
        rows = [describe_groups.Group(group_id=g, group_state="Empty") for g in request.groups]
        return describe_groups.Response(groups=rows)


def test_a_group_that_is_not_listed_is_not_deleted() -> None:
    coordinator = Polite({}, [])
    coordinator.offsets = None
    script = Script(coordinator)
    plan = script.run(DeleteGroups(["g"]).look(one_broker(), ["g"]))
    assert [row.status for row in plan] == ["failed"]
    (row,) = script.run(delete_groups(one_broker(), ["g"]))
    assert row.error is not None
    assert (row.status, row.error.name) == ("failed", "GROUP_ID_NOT_FOUND")
    assert coordinator.changes == 0


def test_a_partition_that_does_not_exist_is_no_success() -> None:
    """Some brokers say of any partition that its offset is deleted."""
    coordinator = Coordinator({0: 5}, [])
    specs = {"g": [TopicSpec("t", (0, 7))]}
    (done,) = Script(coordinator).run(delete_offsets(one_broker(), specs))
    found = {row.partition: (row.status, row.error and row.error.name) for row in done.rows}
    assert found == {0: ("deleted", None), 7: ("failed", "UNKNOWN_TOPIC_OR_PARTITION")}


# ---------------------------------------------------------------------------------------------
# Listing while brokers fail


class Brokers:
    """Three brokers; each look sees the next of the given situations, the last one for ever.

    A situation is ``(leader of each partition, {broker: groups or error})``.
    """

    def __init__(self, *looks: tuple[list[int], dict[int, Any]]) -> None:
        self.is_seen = True
        self.looks = list(looks)
        self.now = self.looks[0]
        self.looked = 0

    def __call__(self, to: int, request: Any) -> Any:
        if isinstance(request, metadata.Request):
            self.now = self.looks[min(self.looked, len(self.looks) - 1)]
            self.looked += 1
            leaders, brokers = self.now
            parts = [
                metadata.Partition(
                    partition=n, leader_id=leader, replicas=[1], isr=[leader if leader > 0 else 2]
                )
                for n, leader in enumerate(leaders)
            ]
            return metadata.Response(
                brokers=[
                    metadata.Broker(node_id=b, host=f"b{b}", port=9092) for b in sorted(brokers)
                ],
                topics=[self._topic(parts)],
            )
        answer = self.now[1][to]
        if isinstance(answer, Exception):
            return answer
        rows = [
            list_groups_api.Group(group_id=name, group_state="Empty", group_type="classic")
            for name in answer
        ]
        return list_groups_api.Response(groups=rows)

    def _topic(self, parts: list[Any]) -> Any:
        if self.is_seen:
            return metadata.Topic(name="__consumer_offsets", partitions=parts)
        code = codes.TOPIC_AUTHORIZATION_FAILED
        return metadata.Topic(name="__consumer_offsets", error_code=code)


def listed(brokers: Brokers) -> tuple[list[str], list[Any], Script]:
    script = Script(brokers, ALL_VERSIONS)
    listing = script.run(list_groups(Cluster()))
    return [row.group for row in listing.groups], listing.errors, script


REFUSED = ConnectFailed("Nothing listens on b2:9092.")
WELL = ([1, 2, 3], {1: ["a"], 2: ["b"], 3: ["c"]})


def test_where_all_is_well_everybody_is_asked_once() -> None:
    names, errors, script = listed(Brokers(WELL))
    assert (names, errors) == (["a", "b", "c"], [])
    assert len(script.calls) == 4
    assert script.pauses == []


def test_a_dead_brokers_groups_are_waited_for() -> None:
    """As measured: 399 of 600 without any error, then for a moment 597, then all."""
    brokers = Brokers(
        ([1, 2, 3], {1: ["a"], 2: REFUSED, 3: ["c"]}),
        ([1, 2, 3], {1: ["a"], 2: REFUSED, 3: ["c"]}),
        ([1, 3, 3], {1: ["a"], 3: ["c"]}),
        ([1, 3, 3], {1: ["a"], 3: ["b", "c"]}),
    )
    names, errors, script = listed(brokers)
    assert (names, errors) == (["a", "b", "c"], [])
    assert script.pauses == [1.0] * 4


def test_a_coordinator_that_loads_is_asked_again() -> None:
    loading = ([1, 2, 3], {1: ["a"], 2: broker_error(codes.COORDINATOR_LOAD_IN_PROGRESS), 3: ["c"]})
    names, errors, _ = listed(Brokers(loading, WELL))
    assert (names, errors) == (["a", "b", "c"], [])


def test_a_broker_that_leads_nothing_is_named_all_the_same() -> None:
    """Metadata may lag: a broker that does not answer is never taken for one without groups."""
    names, errors, script = listed(Brokers(([1, 1, 3], {1: ["a", "b"], 2: REFUSED, 3: ["c"]})))
    assert (names, [error.target.broker for error in errors]) == (["a", "b", "c"], [2])
    assert 2 <= len(script.pauses) <= 5  # it may be about to leave the metadata


def test_partitions_without_a_replica_are_not_waited_for_long() -> None:
    gone = ([1, -1, 3], {1: ["a"], 3: ["c"]})
    brokers = Brokers(gone)
    names, errors, script = listed(brokers)
    assert names == ["a", "c"]
    (error,) = errors
    assert "1 of 3 partitions of __consumer_offsets have no leader" in error.message
    assert len(script.pauses) <= 4


def test_who_may_not_see_the_leaders_hears_of_the_broker_that_failed() -> None:
    brokers = Brokers(([1, 2, 3], {1: ["a"], 2: REFUSED, 3: ["c"]}))
    brokers.is_seen = False
    names, errors, script = listed(brokers)
    assert names == ["a", "c"]
    assert [error.target.broker for error in errors] == [2]
    assert len(script.pauses) < 20


def test_groups_that_come_and_go_do_not_keep_it_busy() -> None:
    looks = [([1, 2, 3], {1: ["a"], 2: REFUSED, 3: ["c"]})]
    looks += [([1, 3, 3], {1: [f"new-{n}"], 3: ["b", "c"]}) for n in range(30)]
    _, errors, script = listed(Brokers(*looks))
    assert errors == []
    assert len(script.pauses) < 8


def test_a_broker_that_stays_away_is_named_when_the_time_is_up() -> None:
    away = ([1, 2, 3], {1: ["a"], 2: REFUSED, 3: ["c"]})
    late = ([1, 2, 3], {1: LATE, 2: LATE, 3: LATE})
    names, errors, _ = listed(Brokers(away, away, late))
    assert names == ["a", "c"]
    assert [(error.target.broker, error.message) for error in errors] == [(2, REFUSED.message)]
