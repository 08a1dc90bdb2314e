"""Answers that did not come: each row of these tables is a script, run whole and cut at each step.

The coordinator has one value. A request that arrives changes it from "old" to "new"; what becomes
of the request and of its answer is a word of the script, as what others do in between is.
"""

from __future__ import annotations

from typing import Any

import pytest

from kgtool.changes.doubt import AS_BEFORE, Attempt, Outcome, Seen
from kgtool.client.cluster import Cluster
from kgtool.client.ops import DeadlineExceeded, Operation
from kgtool.errors import (
    BrokerError,
    ChangedMeanwhile,
    ConnectFailed,
    ConnectionLost,
    KgError,
    OutcomeUnknown,
)
from kgtool.model import Broker
from kgtool.protocol import codes
from kgtool.protocol.api import find_coordinator
from kgtool.protocol.codes import broker_error
from tests.support.script import Script

LOST = ConnectionLost("gone").after_sending()
NOT_SENT = ConnectFailed("Nothing listens.")
UNREAD = broker_error(codes.GROUP_AUTHORIZATION_FAILED)
ANSWERS: dict[str, KgError | None] = {
    "done": None,
    "lost": LOST,
    "lost, done": LOST,
    "lost, late": LOST,
    "not sent": NOT_SENT,
    "loading": broker_error(codes.COORDINATOR_LOAD_IN_PROGRESS),
    "moved, done": broker_error(codes.NOT_COORDINATOR),
    "unknown": broker_error(codes.UNKNOWN_SERVER_ERROR),
    "throttled": broker_error(89),
    "denied": broker_error(codes.GROUP_AUTHORIZATION_FAILED),
    "too late": DeadlineExceeded("too late"),
}
"""What becomes of a request; "late": it is carried out at the next look but one."""


class Coordinator:
    """One value, and a script; beyond its end requests are refused as too late."""

    def __init__(self, script: list[str]) -> None:
        self.script = script
        self.value = "old"
        self.steps: list[str] = []
        self.pending = 0

    def next(self, *kinds: str) -> str | None:
        """Take the script's next word if it is of this kind."""
        return self.script.pop(0) if self.script and self.script[0] in kinds else None

    def look(self, broker: int, items: Any, doubts: Any) -> Operation[Any]:
        yield from ()
        self.steps.append("look")
        if self.next("other"):
            self.value = "another's"
        if self.next("unread"):
            return dict.fromkeys(items, UNREAD)
        if self.pending:
            self.pending -= 1
            self.value = self.value if self.pending else "new"
        found = self.seen()
        return {group: dict.fromkeys(parts, found) for group, parts in items.items()}

    def seen(self) -> Seen:
        known: dict[str, Seen] = {"old": AS_BEFORE, "new": None}
        return known.get(self.value, ChangedMeanwhile("another's"))

    def send(self, broker: int, items: Any) -> Operation[Any]:
        yield from ()
        assert self.value != "another's", "what others have written is overwritten"
        word = self.next(*ANSWERS) or "too late"
        self.steps.append(word)
        if word.endswith("done"):
            self.value = "new"
        if word.endswith("late") and word != "too late":
            self.pending = 2
        answer = ANSWERS[word]
        outcome = Outcome(answer, is_final=isinstance(answer, BrokerError | None))
        return {group: dict.fromkeys(parts, outcome) for group, parts in items.items()}


def run(*script: str) -> tuple[Any, Coordinator, list[int]]:
    """Change one item; return its outcome, the coordinator, and whose connections were closed."""
    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092)}
    row = find_coordinator.Coordinator(key="a", node_id=1, host="one", port=9092)
    driver = Script(lambda _to, _request: find_coordinator.Response(coordinators=[row]))
    coordinator = Coordinator(list(script))
    attempt = Attempt(cluster, {"a": [None]}, coordinator)
    driver.run(attempt.run())
    driver.run(attempt.last_look("it was done"))
    answer = attempt.answers()["a"]
    outcome = answer[None] if isinstance(answer, dict) else answer
    return outcome, coordinator, driver.hung_up


def told(outcome: KgError | None) -> str:
    """What the journal and the report say of it."""
    if outcome is None:
        return "done"
    late = ", perhaps yet" if outcome.maybe_done else ""
    return f"{outcome.code or type(outcome).__name__}{late}"


TABLE: list[tuple[list[str], str, str]] = [
    # script; outcome; steps
    (["done"], "done", "look, done"),
    (["other"], "ChangedMeanwhile", "look"),
    (["unread"], "30", "look"),
    (["denied"], "30", "look, denied"),
    (["lost, done"], "done", "look, lost, done, look"),
    (["lost", "done"], "done", "look, lost, look, done"),
    (["lost", "other"], "ChangedMeanwhile", "look, lost, look"),
    (["lost, done", "other"], "ChangedMeanwhile", "look, lost, done, look"),
    (["lost", "lost", "lost, done"], "done", "look, lost, look, lost, look, lost, done, look"),
    (["not sent", "done"], "done", "look, not sent, look, done"),
    (["not sent", "other"], "ChangedMeanwhile", "look, not sent, look"),
    (["loading", "done"], "done", "look, loading, look, done"),
    (["moved, done"], "done", "look, moved, done, look"),
    # A refusal refuses that request alone: the one before it may have been carried out since.
    (["lost", "denied"], "30, perhaps yet", "look, lost, look, denied, look"),
    (["lost", "throttled"], "89, perhaps yet", "look, lost, look, throttled, look"),
    (["lost, late", "denied"], "done", "look, lost, late, look, denied, look"),
    (["unknown"], "-1", "look, unknown, look"),
    # Whatever can't be read can't be told.
    (["lost", "unread", "unread"], "OutcomeUnknown", "look, lost, look, look"),
    (["lost, done", "unread"], "done", "look, lost, done, look, look"),
    (["lost", "too late"], "ConnectionLost, perhaps yet", "look, lost, look, too late, look"),
    (["too late"], "DeadlineExceeded", "look, too late"),
]


@pytest.mark.parametrize(("script", "outcome", "steps"), TABLE, ids=lambda v: str(v))
def test_a_script_run_whole(script: list[str], outcome: str, steps: str) -> None:
    found, coordinator, hung_up = run(*script)
    assert (told(found), ", ".join(coordinator.steps)) == (outcome, steps)
    assert len(hung_up) == sum(step.startswith("lost") for step in coordinator.steps)


@pytest.mark.parametrize("script", [row[0] for row in TABLE], ids=str)
def test_a_script_cut_at_each_step(script: list[str]) -> None:
    """Time is up after each word: "done" is only said of what is, never of what is not."""
    for size in range(len(script) + 1):
        found, coordinator, _ = run(*script[:size])
        if found is None:
            assert coordinator.value in ("new", "another's"), script[:size]
        elif coordinator.value == "new":
            unclear = isinstance(found, OutcomeUnknown) or found.maybe_done
            assert unclear or isinstance(found, BrokerError), (script[:size], found)
        sent = [step for step in coordinator.steps if step != "look"]
        looks = coordinator.steps.count("look")
        assert looks >= len(sent), "nothing is sent without a look"
        assert sent.count("done") <= 1


def test_a_group_s_error_is_one_where_no_item_has_an_answer_of_its_own() -> None:
    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092)}
    row = find_coordinator.Coordinator(key="a", node_id=1, host="one", port=9092)
    script = Script(lambda _to, _request: find_coordinator.Response(coordinators=[row]))
    denied = broker_error(codes.GROUP_AUTHORIZATION_FAILED)

    class Requests:
        answers: dict[int, Outcome] = {}

        def look(self, broker: int, items: Any, doubts: Any) -> Operation[Any]:
            yield from ()
            return {group: dict.fromkeys(parts, AS_BEFORE) for group, parts in items.items()}

        def send(self, broker: int, items: Any) -> Operation[Any]:
            yield from ()
            return {group: {at: self.answers[at] for at in parts} for group, parts in items.items()}

    def change(answers: dict[int, Outcome]) -> Any:
        requests = Requests()
        requests.answers = answers
        attempt = Attempt(cluster, {"a": list(answers)}, requests)
        script.run(attempt.run())
        return attempt.answers()["a"]

    whole = Outcome(denied, is_final=False)
    assert change({1: whole, 2: whole}) is denied
    assert change({1: Outcome(), 2: whole}) == {1: None, 2: denied}
    assert change({1: Outcome(denied), 2: Outcome()}) == {1: denied, 2: None}


def test_a_group_that_can_t_be_read_hides_no_other() -> None:
    """Behind it, what others have written would be overwritten."""
    cluster = Cluster()
    cluster.brokers = {1: Broker(1, "one", 9092)}
    rows = [find_coordinator.Coordinator(key=g, node_id=1, host="one", port=9092) for g in "abc"]
    script = Script(lambda _to, _request: find_coordinator.Response(coordinators=rows))
    theirs, sent = ChangedMeanwhile("another's"), []

    class Requests:
        def look(self, broker: int, items: Any, doubts: Any) -> Operation[Any]:
            yield from ()
            return {"a": UNREAD, "b": {None: theirs}, "c": {None: AS_BEFORE}}

        def send(self, broker: int, items: Any) -> Operation[Any]:
            yield from ()
            sent.extend(items)
            return {group: dict.fromkeys(parts, Outcome()) for group, parts in items.items()}

    attempt = Attempt(cluster, {group: [None] for group in "abc"}, Requests())
    script.run(attempt.run())
    assert sent == ["c"]
    assert attempt.answers() == {"a": UNREAD, "b": {None: theirs}, "c": {None: None}}
