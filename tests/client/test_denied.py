"""A refusal names the ACL that is missing, once."""

from __future__ import annotations

import pytest

from kgtool.client import denied
from kgtool.errors import ConnectionLost
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error

GROUP, TOPIC = codes.GROUP_AUTHORIZATION_FAILED, codes.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("need", "code", "hint"),
    [
        (denied.DESCRIBE, GROUP, "DESCRIBE on group g"),
        (denied.DESCRIBE, TOPIC, "DESCRIBE on topic t"),
        (denied.DELETE_GROUP, GROUP, "DELETE on group g"),
        (denied.DELETE_OFFSETS, GROUP, "DELETE on group g"),
        (denied.DELETE_OFFSETS, TOPIC, "READ on topic t"),
        (denied.COMMIT, GROUP, "READ on group g"),
        (denied.COMMIT, TOPIC, "READ on topic t"),
    ],
)
def test_what_it_takes(need: denied.Need, code: int, hint: str) -> None:
    found = denied.explain(broker_error(code), need, group="g", topic="t")
    assert found.hint == f"It needs the ACL operation {hint}."
    assert (found.code, found.message) == (code, broker_error(code).message)


def test_of_which_topic_is_not_known_when_a_group_is_described() -> None:
    found = denied.explain(broker_error(TOPIC), denied.DESCRIBE, group="g")
    where = "the topics that its members subscribe to"
    assert found.hint == f"It needs the ACL operation DESCRIBE on {where}."


@pytest.mark.parametrize(
    "error",
    [
        ConnectionLost("gone"),
        broker_error(codes.NOT_COORDINATOR),
        broker_error(GROUP, hint="said before"),
    ],
    ids=["not a broker's", "another code", "has a hint"],
)
def test_everything_else_is_left_alone(error: Exception) -> None:
    assert denied.explain(error, denied.DESCRIBE, group="g", topic="t") is error
