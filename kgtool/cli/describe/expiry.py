"""When offsets expire: queries, keys of rows, and notes about the rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kgtool.cli.output.output import Output
from kgtool.clock import now_ms
from kgtool.columns import duration
from kgtool.columns.groups import EXPIRY_KEYS
from kgtool.errors import KgError
from kgtool.model import GroupOffsets, ItemError, Target, TopicPartition

if TYPE_CHECKING:
    from kgtool.net.session import Session
    from kgtool.queries.cluster.broker_rules import BrokerRules
    from kgtool.queries.log.expiry import Expiries, Expiry, Question


def find(
    session: Session, output: Output, questions: list[Question], *, all_times: bool = True
) -> Expiries | None:
    """Query the cluster; errors go to ``output``. None: no question, or the query failed."""
    if not questions:
        return None
    from kgtool.queries.log.expiry import find_expiries

    try:
        found = session.run(
            find_expiries(session.cluster, questions, now_ms(), all_times=all_times)
        )
    except KgError as error:
        output.failed(ItemError.of(error, Target()))
        return None
    for problem in found.errors:
        output.failed(problem)
    for line in explain_rules(group.broker for group in found.groups.values()):
        output.note(line)
    return found


def of_groups(
    session: Session, output: Output, groups: Iterable[GroupOffsets]
) -> dict[tuple[str, TopicPartition], Expiry]:
    """Return the expiry of every committed offset of these groups."""
    from kgtool.queries.log.expiry import Question

    questions = [Question.of_rows(found) for found in groups if found.description.error is None]
    answers = find(session, output, questions)
    if answers is None:
        return {}
    return {
        (group.group, partition): expiry
        for group in answers.groups.values()
        for partition, expiry in group.offsets.items()
    }


def as_row(expiry: Expiry | None) -> dict[str, Any]:
    """Return the values of a row's ``EXPIRY_KEYS``, None where unknown."""
    return {key: getattr(expiry, key, None) for key in EXPIRY_KEYS}


def explain_rules(brokers: Iterable[BrokerRules | None]) -> list[str]:
    """Return a line on retention and rules for each kind of broker."""
    lines = []
    for broker in dict.fromkeys(brokers):
        if broker is not None and broker.retention_ms is not None:
            every = (
                ""
                if broker.interval_ms is None
                else (f", checked every {duration(broker.interval_ms)}")
            )
            lines.append(
                f"Offsets are kept for {duration(broker.retention_ms)}{every}, by the rules of "
                f"brokers {broker.rules.brokers}. Times are UTC."
            )
    return lines
