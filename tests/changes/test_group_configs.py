"""A change of configs whose answer is lost or unclear: looked up before it is sent again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kgtool.changes.driver import apply_part
from kgtool.changes.groups.configs import GroupConfig
from kgtool.changes.journal.journal import ConfigChange
from kgtool.changes.kinds import alter_configs
from kgtool.changes.kinds.alter_configs import AlterConfigs, ConfigItem, GroupConfigs
from kgtool.changes.restore import from_journal
from kgtool.client.cluster import Cluster, call_any
from kgtool.client.ops import DeadlineExceeded
from kgtool.errors import ConnectionLost, KgError
from kgtool.protocol.api import describe_configs, incremental_alter_configs
from tests.support.script import Script

A, B = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
BEFORE, WANTED, THEIRS = {A: "1"}, {A: "10", B: "20"}, "250"
LOST = ConnectionLost("gone").after_sending()
LATE = DeadlineExceeded("late").after_sending()
REQUEST_TIMED_OUT = 7
GROUP_AT = {"resource_type": 32, "resource_name": "g"}


class Controller:
    """The configs of one group.

    :param answers: to the first requests, errors or codes; further ones are answered with 0.
    :param applies: whether a change is made whose answer is an error.
    :param theirs: what somebody else sets right after such a request.
    :param is_silent: whether nothing can be looked up from then on.
    :param behind: how many looks after that the broker has not heard of any of it.
    """

    def __init__(
        self,
        *answers: Any,
        applies: bool = True,
        theirs: Any = None,
        is_silent: bool = False,
        behind: int = 0,
    ) -> None:
        self.own = dict(BEFORE)
        self.sent = 0
        self.waited = 0.0
        """Seconds that the change took."""
        self._answers = list(answers)
        self._applies = applies
        self._theirs = theirs or {}
        self._is_silent = is_silent
        self._behind = behind

    def answer(self, _to: int, request: Any) -> Any:
        if isinstance(request, describe_configs.Request):
            is_silent = self.sent and self._is_silent
            return LATE if is_silent else self._described()
        answer = self._answers.pop(0) if self._answers else 0
        self.sent += 1
        if self._applies or not answer:
            self.own.update({row.name: row.value for row in request.resources[0].configs})
        if answer:
            self.own.update(self._theirs)
        if isinstance(answer, KgError):
            return answer
        row = incremental_alter_configs.Result(error_code=answer, **GROUP_AT)
        return incremental_alter_configs.Response(results=[row])

    def _described(self) -> Any:
        shown = self.own
        if self.sent and self._behind:
            self._behind -= 1
            shown = BEFORE
        rows = [
            describe_configs.Config(
                name=name, value=shown.get(name), config_source=8 if name in shown else 5
            )
            for name in (A, B)
        ]
        row = describe_configs.Result(configs=rows, **GROUP_AT)
        return describe_configs.Response(results=[row])


def change(
    controller: Controller, journal: Callable[[Any], object] = lambda _: None
) -> dict[str, str | None]:
    """Change both configs; the name of each one's error."""
    script = Script(controller.answer)
    rows = [ConfigItem("g", A, "1", WANTED[A]), ConfigItem("g", B, None, WANTED[B])]
    kind, plan = AlterConfigs({"g": WANTED}), [GroupConfigs("g", rows)]
    (found,) = script.run(apply_part(Cluster(), kind, plan, journal))
    controller.waited = sum(script.pauses)
    return {item.name: item.error and item.error.name for item in found.rows}


DONE = {A: None, B: None}


@pytest.mark.parametrize("answer", [LOST, REQUEST_TIMED_OUT, -1])
def test_what_was_made_is_done_and_not_sent_again(answer: Any) -> None:
    controller = Controller(answer)
    assert change(controller) == DONE
    assert (controller.sent, controller.own) == (1, WANTED)


@pytest.mark.parametrize("answer", [LOST, REQUEST_TIMED_OUT])
def test_what_is_as_it_was_is_sent_again(answer: Any) -> None:
    controller = Controller(answer, applies=False)
    assert change(controller) == DONE
    assert (controller.sent, controller.own) == (2, WANTED)


@pytest.mark.parametrize("answer", [LOST, REQUEST_TIMED_OUT])
@pytest.mark.parametrize("applies", [True, False])
def test_what_somebody_else_has_set_meanwhile_stays(answer: Any, applies: bool) -> None:
    """Was: the request was sent again over it, and read back as done."""
    controller = Controller(answer, applies=applies, theirs={A: THEIRS})
    found = change(controller)
    assert controller.sent == 1
    assert controller.own == ({A: THEIRS, B: "20"} if applies else {A: THEIRS})
    assert found == {A: "CHANGED_MEANWHILE", B: None if applies else "CHANGED_MEANWHILE"}


@pytest.mark.parametrize("answer", [LOST, REQUEST_TIMED_OUT])
def test_a_broker_that_is_behind_the_controller_is_waited_for(answer: Any) -> None:
    """Was: after 0.7 s the request was sent again, over what somebody else had set."""
    controller = Controller(answer, theirs={A: THEIRS}, behind=7)
    assert change(controller) == {A: "CHANGED_MEANWHILE", B: None}
    assert (controller.sent, controller.own) == (1, {A: THEIRS, B: "20"})


def test_a_broker_that_is_a_moment_behind_costs_a_moment() -> None:
    controller = Controller(LOST, behind=1)
    assert change(controller) == DONE
    assert controller.sent == 1
    assert controller.waited < 0.5


def test_what_is_set_while_the_journal_is_written_stays() -> None:
    """Was: overwritten, and the journal took the value before for the one that undo restores."""
    controller = Controller()
    found = change(controller, lambda _: controller.own.update({A: THEIRS}))
    assert found == {A: "CHANGED_MEANWHILE", B: None}
    assert (controller.sent, controller.own) == (1, {A: THEIRS, B: "20"})


def test_what_can_not_be_looked_up_is_unknown() -> None:
    controller = Controller(LOST, is_silent=True)
    assert change(controller) == {A: "OUTCOME_UNKNOWN", B: "OUTCOME_UNKNOWN"}
    assert controller.sent == 1


def test_a_refusal_is_final() -> None:
    controller = Controller(40, applies=False)
    assert change(controller) == {A: "INVALID_CONFIG", B: "INVALID_CONFIG"}
    assert controller.sent == 1


@pytest.mark.parametrize("is_check", [True, False])
def test_any_broker_is_asked_twice_for_what_only_asks(is_check: bool) -> None:
    """The one place that repeats requests by itself knows which of them change something."""
    calls: list[Any] = []
    script = Script(lambda _to, request: calls.append(request) or LOST)
    request = incremental_alter_configs.Request(resources=[], validate_only=is_check)
    assert script.run(call_any(request)) is LOST
    assert len(calls) == (4 if is_check else 1)


def test_a_config_that_is_no_more_is_an_error_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Was: a KeyError out of ``GroupAdmin.undo``, after a broker was downgraded."""

    def none(*_: Any) -> Any:
        yield from ()
        return {"g": {}}

    monkeypatch.setattr(alter_configs, "describe_group_configs", none)
    kind = from_journal.earlier_configs([ConfigChange("g", A, "1", "10")], force=False)
    (group,) = Script(lambda _to, _request: LOST).run(kind.look(Cluster(), ["g"]))
    (item,) = group.rows
    assert (item.status, item.error and item.error.name) == ("failed", "INVALID_CONFIG")
    assert item.error and item.error.message == f"There is no group config '{A}'."


@pytest.mark.parametrize(
    ("name", "hint"),
    [(A.replace("session", "sesion"), f"Did you mean {A}?"), ("x", "kgtool configs --all shows")],
)
def test_a_config_that_there_is_not_is_refused_with_the_nearest(name: str, hint: str) -> None:
    controller = Controller()
    look = AlterConfigs({"g": {name: "1"}}).look(Cluster(), ["g"])
    [group] = Script(controller.answer).run(look)
    [row] = group.rows
    assert (row.status, row.error.name, controller.sent) == ("failed", "INVALID_CONFIG", 0)
    assert row.error.message == f"There is no group config '{name}'."
    assert row.error.hint.startswith(hint)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("consumer.session.timeout.ms", "consumer"),
        ("errors.deadletterqueue.topic.name", "share"),
        ("connect.not.known.yet", "connect"),
    ],
)
def test_the_type_of_groups_that_a_config_is_for(name: str, kind: str) -> None:
    assert GroupConfig("g", name, None, None, None).group_type == kind
