"""What speaks against a deletion, and what goes with a group: without brokers.

Kind: a refusal that is worked out, and then not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest

from kgtool.changes.groups import delete_request, internal_topics
from kgtool.changes.hidden_offsets import Hidden, HiddenOffsets
from kgtool.changes.kinds import delete_groups
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.client.cluster import TopicInfo
from kgtool.client.ops import Operation
from kgtool.errors import ChangedMeanwhile, ConnectionLost, KgError
from kgtool.model import CommittedOffset, InternalTopic, Listing, TopicPartition
from kgtool.protocol import codes
from kgtool.protocol.api import delete_topics
from kgtool.protocol.codes import broker_error
from kgtool.queries.groups.topology import Topology, TopologyRow
from tests.changes.test_lost_replies import Coordinator, one_broker
from tests.support.script import Script

PENDING = {TopicPartition("t", 0): CommittedOffset(5, None, "", is_pending=True)}
GONE, OTHER, KEPT = TopicPartition("t", 0), TopicPartition("t", 1), CommittedOffset(5, None, "")
UNREAD = KgError("The log can't be read.")


class Secret(HiddenOffsets):
    """Finds three hidden offsets."""

    def search(self, cluster: Any, groups: Sequence[str]) -> Operation[None]:
        yield from ()
        self.found = {group: Hidden({"secret": 3}) for group in groups}


def look(**options: Any) -> tuple[DeleteGroups, Script, Any]:
    """The kind, what runs it, and the row that it plans."""
    kind, script = DeleteGroups(["g"], **options), Script(Coordinator({0: 5}, []))
    [row] = script.run(kind.look(one_broker(), ["g"]))
    return kind, script, row


def answering(value: Any) -> Callable[..., Operation[Any]]:
    def operation(*_: Any) -> Operation[Any]:
        yield from ()
        return value

    return operation


def test_hidden_offsets_refuse_a_deletion() -> None:
    _, _, row = look(hidden=Secret(["g"]))
    assert (row.status, row.error.name, row.error.target.topic) == (
        "failed",
        "HIDDEN_OFFSETS",
        "secret",
    )


def test_hidden_offsets_that_go_anyway_are_told_of_and_journaled() -> None:
    said: list[str] = []
    kind, script, row = look(hidden=Secret(["g"], said.append, refuse=False))
    assert (row.status, said) == ("would-delete", [])
    [change] = script.run(kind.before(one_broker(), [row])).groups
    assert change.hidden == {"secret": 3}
    [warning] = said
    assert "group 'g': 3 offsets of topic secret does not come back" in warning


@pytest.mark.parametrize(
    ("pending", "force", "error"),
    [
        ({}, False, None),
        (PENDING, False, "UNSTABLE_OFFSET_COMMIT"),
        (PENDING, True, None),
        (UNREAD, False, "ERROR"),
    ],
)
def test_a_pending_transaction_refuses_a_deletion(
    pending: Any, force: bool, error: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_groups, "_read_pending", answering({"g": pending}))
    _, _, row = look(force=force)
    assert (row.error and row.error.name) == error


def test_a_pending_transaction_hides_no_hidden_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What --force would not bring back comes first."""
    monkeypatch.setattr(delete_groups, "_read_pending", answering({"g": PENDING}))
    _, _, row = look(hidden=Secret(["g"]))
    assert row.error.name == "HIDDEN_OFFSETS"


@pytest.mark.parametrize("internal_topics", [True, False])
def test_internal_topics_that_are_unknown_matter_to_who_deletes_them(
    internal_topics: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_groups, "find_internal_topics", answering({"g": UNREAD}))
    _, _, row = look(internal_topics=internal_topics)
    assert row.status == ("failed" if internal_topics else "would-delete")


def test_internal_topics_that_were_not_in_the_question_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that came since, or was made again under its name."""
    ids = {"g-a-changelog": "1", "g-b-changelog": "2"}

    def topics() -> dict[str, tuple[InternalTopic, ...]]:
        return {"g": tuple(InternalTopic("g", name, ids[name], 1) for name in sorted(ids))}

    monkeypatch.setattr(delete_groups, "find_internal_topics", answering(topics()))
    kind, script, row = look(internal_topics=True)
    ids |= {"g-b-changelog": "3", "g-c-changelog": "4"}
    monkeypatch.setattr(delete_groups, "find_internal_topics", answering(topics()))
    [again] = script.run(kind.look_again(one_broker(), [row]))
    assert [topic.topic for topic in again.topics] == ["g-a-changelog"]
    assert [topic.topic for topic in script.run(kind.before(one_broker(), [again])).topics] == [
        "g-a-changelog"
    ]


@pytest.mark.parametrize(
    ("now", "is_refused"),
    [
        ({}, False),
        ({GONE: CommittedOffset(None, None, None)}, False),  # deleted meanwhile, as it is to be
        ({GONE: KEPT}, False),
        ({GONE: KEPT._replace(offset=6)}, True),
        ({GONE: KEPT, OTHER: KEPT}, True),
    ],
)
def test_only_a_commit_that_the_journal_lacks_refuses_a_deletion(
    now: Any, is_refused: bool
) -> None:
    """Images and journal take their time, in which a group may commit."""
    seen = delete_request._changed("g", {GONE: KEPT}, now)
    assert isinstance(seen, ChangedMeanwhile) == is_refused


SOURCE = TopologyRow("g", 1, "0", "source", "in")


@pytest.mark.parametrize(
    ("topology", "asked"),
    [
        (Topology([SOURCE], ("g-a-changelog",)), [["g-a-changelog"]]),
        (Topology([SOURCE], ()), []),
        (Topology([], ()), [None]),
        (UNREAD, []),
    ],
    ids=["named", "none", "unknown", "unread"],
)
def test_all_topics_of_a_cluster_are_asked_for_only_without_a_topology(
    topology: Topology | KgError, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[Any] = []

    def fetch(_: Any, wanted: Any) -> Operation[None]:
        yield from ()
        names.append(wanted)

    monkeypatch.setattr(internal_topics, "describe_topologies", answering({"g": topology}))
    monkeypatch.setattr(internal_topics, "list_once", answering(Listing([], [])))
    monkeypatch.setattr(internal_topics, "fetch_metadata", fetch)
    script = Script(Coordinator({}, []))
    found = script.run(internal_topics.find_internal_topics(one_broker(), ["g"]))
    assert (found, names) == ({"g": UNREAD if topology is UNREAD else ()}, asked)


def test_a_topic_that_is_gone_or_read_by_the_group_does_not_go_with_it() -> None:
    names = tuple(f"g-{name}-changelog" for name in ("gone", "kafkas", "never", "read", "there"))
    gone, kafkas, _, read, there = names
    cluster = one_broker()
    cluster.topics |= {
        gone: TopicInfo(gone, None, {}, broker_error(codes.UNKNOWN_TOPIC_OR_PARTITION)),
        kafkas: TopicInfo(kafkas, None, {0: 1}, is_internal=True),
        read: TopicInfo(read, None, {0: 1}),
        there: TopicInfo(there, None, {0: 1, 1: 1}),
    }
    rows = [SOURCE, SOURCE._replace(topic=read), SOURCE._replace(topic=there, role="changelog")]
    topology = Topology(rows, names)
    found = internal_topics._own(cluster, "g", topology, {"g"})
    assert [(topic.topic, topic.partitions) for topic in found] == [(there, 2)]


@pytest.mark.parametrize(
    ("lost", "status"), [(0, "deleted"), (1, "deleted"), (99, "unknown")], ids=str
)
def test_an_internal_topic_whose_deletion_is_not_answered_is_asked_about_by_its_id(
    lost: int, status: str
) -> None:
    """Its controller has deleted it, and says so to a later request; or is never heard again.

    Was: it has failed then, though it may be gone.
    """
    answers: Iterator[Any] = iter([ConnectionLost("gone").after_sending()] * lost)
    row = delete_topics.Topic(topic_id=UUID(int=7), error_code=codes.UNKNOWN_TOPIC_ID)
    gone = delete_topics.Response(topics=[row])
    script = Script(lambda *_: next(answers, gone))
    topic = InternalTopic("g", "g-a-changelog", UUID(int=7), 1)
    deletion = internal_topics.delete_internal_topics(one_broker(), [topic])
    assert [one.status for one in script.run(deletion)] == [status]
