"""Changes whose replies get lost.

A request that was sent and not answered may have been carried out. Sending it again blindly could
undo what another client did in between: an offset committed after the deletion, a re-created
group. So before anything is sent a second time, the current value is compared with the one before
the first; where that fails, the item is ``OutcomeUnknown``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kgtool.client.cluster import Cluster, by_coordinator
from kgtool.client.ops import HangUp, Operation
from kgtool.errors import BrokerError, ChangedMeanwhile, KgError, OutcomeUnknown
from kgtool.protocol import codes

SEND_AGAIN = object()
"""The result of a look: the change was not made."""

UNSETTLED = (
    codes.REQUEST_TIMED_OUT,
    codes.COORDINATOR_LOAD_IN_PROGRESS,
    codes.COORDINATOR_NOT_AVAILABLE,
    codes.NOT_COORDINATOR,
    codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
"""Errors of a change that may have been made anyway: the coordinator had written it to its log and
did not see in time that it was replicated, or lost the log's leadership meanwhile
(``CoordinatorOperationExceptionHelper`` maps the log's errors to these). A coordinator that loads
its log has just taken over, perhaps from one that had the request; a look costs little."""

Step = Callable[[int, list[str]], Operation[dict[str, Any]]]


def change_by_coordinator(
    cluster: Cluster,
    groups: Sequence[str],
    send: Step,
    look: Step,
    what: str,
    first_look: Step | None = None,
) -> Operation[dict[str, Any]]:
    """Run ``send(broker, groups)`` on each group's coordinator; return each group's answer.

    :param look: called instead where an earlier reply got lost: per group, ``SEND_AGAIN``, the
        answer that was lost, or a ``KgError``.
    :param what: the end of the sentence "it is not known whether …".
    :param first_look: called just before the first ``send``; returns the groups that are not to be
        sent, with their answers.
    """
    lost: dict[str, KgError] = {}
    silent: dict[str, int] = {}

    def hang_up(groups: Sequence[str]) -> Operation[None]:
        """Close connections, so that a request can't arrive after the look."""
        for broker in {silent.pop(group) for group in groups if group in silent}:
            yield HangUp(broker)

    def work(broker: int, ids: list[str]) -> Operation[dict[str, Any]]:
        answers: dict[str, Any] = {}
        doubtful = [group for group in ids if group in lost]
        if doubtful:
            yield from hang_up(doubtful)
            found = yield from look(broker, doubtful)
            answers = {g: verdict for g, verdict in found.items() if verdict is not SEND_AGAIN}
        fresh = [group for group in ids if group not in lost]
        if fresh and first_look is not None:
            answers.update((yield from first_look(broker, fresh)))
        rest = [group for group in ids if group not in answers]
        if rest:
            replies = yield from send(broker, rest)
            for group in rest:
                _remember(lost, group, replies[group])
                silent[group] = broker
            answers.update(replies)
        return answers

    answers = yield from by_coordinator(cluster, groups, work)
    doubtful = [
        group
        for group in lost
        if isinstance(answers[group], KgError) and not isinstance(answers[group], ChangedMeanwhile)
    ]
    if doubtful:
        yield from hang_up(doubtful)
        for group, verdict in (yield from by_coordinator(cluster, doubtful, look)).items():
            answers[group] = _final(lost[group], verdict, what)
    return answers


def is_unsettled(reply: Any) -> bool:
    """Whether a change may have been made despite this answer."""
    return isinstance(reply, KgError) and (reply.maybe_done or reply.code in UNSETTLED)


def _remember(lost: dict[str, KgError], group: str, reply: Any) -> None:
    if is_unsettled(reply):
        lost[group] = reply
    elif not isinstance(reply, KgError) or (isinstance(reply, BrokerError) and not reply.retriable):
        lost.pop(group, None)


def _final(error: KgError, verdict: Any, what: str) -> Any:
    """Return the answer for a change whose last reply got lost, after the final look."""
    if verdict is SEND_AGAIN:
        return error
    if not isinstance(verdict, KgError) or isinstance(verdict, ChangedMeanwhile):
        return verdict
    return OutcomeUnknown(
        f"{error.message.rstrip('.')}: it is not known whether {what}.",
        hint="Check with kgtool describe, and repeat the command if it was not.",
    )
