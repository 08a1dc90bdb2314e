"""Errors of answers that refuse as a whole, or that leave out an item.

An item that an answer leaves out is unknown: it is not absent, and no broker sent an error code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kgtool.client.ops import ANY, DeadlineExceeded, Operation
from kgtool.errors import (
    BrokerError,
    IncompleteAnswer,
    KgError,
    NetworkError,
    NotKafka,
    ProtocolError,
    ResolveFailed,
    TlsFailed,
    UnsupportedVersion,
    WrongAddress,
    WrongCluster,
)
from kgtool.protocol.codes import broker_error

if TYPE_CHECKING:
    from kgtool.model import Broker


class Known(Protocol):
    """What answers are compared with: a ``Cluster``."""

    brokers: dict[int, Broker]
    cluster_id: str | None


T = TypeVar("T")


def left_out(request: Any, what: str) -> KgError:
    """Return the error of an item that the answer to a request leaves out.

    It is ``maybe_done``, as a change may have been made, and worth a retry.

    :param request: None where it is unknown which one it was.
    """
    answer = "The broker's answer" if request is None else f"The answer to {request.NAME}"
    error = IncompleteAnswer(
        f"{answer} leaves out {what}.",
        hint="The broker departs from Kafka's protocol: its own log may say more.",
    )
    return error.after_sending()


def refused(cluster: Known, broker: int, request: Any, reply: Any) -> BrokerError:
    """Return the error of an answer as a whole; it names the broker and the request."""
    plain = broker_error(reply.error_code, getattr(reply, "error_message", None))
    return named(cluster, broker, [request.NAME], plain)


def other_cluster(cluster: Known, reply: Any) -> WrongCluster | None:
    """Return the error of Metadata of another cluster than all answers so far.

    Addresses may lead to two clusters, or a name to another one after a while; plans and journals
    are about the first.
    """
    if cluster.cluster_id is None or reply.cluster_id in (None, cluster.cluster_id):
        return None
    return WrongCluster(
        f"The cluster {reply.cluster_id} answers now, and this began with the cluster "
        f"{cluster.cluster_id}.",
        hint="Check whether the bootstrap addresses lead to two clusters.",
    )


def named(cluster: Known, broker: int, requests: Iterable[str], error: BrokerError) -> BrokerError:
    """Add to an error which broker answers which requests with it."""
    asked = " and ".join(sorted(requests))
    said = f"{peer_of(cluster, broker)} answers {asked} with {error.name}: {error.message}"
    return broker_error(error.code or 0, said, hint=error.hint)


def noting(operation: Operation[T], requests: set[str]) -> Operation[T]:
    """Run an operation and collect the names of the requests that it makes itself."""
    value: Any = None
    while True:
        try:
            step = operation.send(value)
        except StopIteration as stop:
            result: T = stop.value
            return result
        if isinstance(step, list):
            requests.update(call.request.NAME for call in step)
        value = yield step


def peer_of(cluster: Known, broker: int) -> str:
    """Return a broker's address, for messages."""
    known = cluster.brokers.get(broker)
    if known is not None:
        return f"{known.host}:{known.port}"
    return "A broker" if broker == ANY else f"broker {broker}"


# ---------------------------------------------------------------------------------------------
# Which failures are worth a retry, and which of two errors to report.


PROTOCOL_TRIES = 3
_PERMANENT = (TlsFailed, ResolveFailed, NotKafka, WrongCluster)


def is_final(reply: object) -> bool:
    """Whether a retry can't change the answer."""
    return isinstance(reply, DeadlineExceeded) or not isinstance(reply, NetworkError)


def is_permanent(error: KgError) -> bool:
    """Whether retries with the same broker, however many, can't change an error."""
    if isinstance(error, BrokerError):
        return not error.retriable
    return isinstance(error, _PERMANENT) or not may_get_better(error, 0)


def may_get_better(reply: object, attempt: int) -> bool:
    """Whether a failure of one connection is worth another one.

    Invalid bytes may come from something in between, but not many times in a row; and a wrong
    certificate, name or port stays wrong.
    """
    if isinstance(reply, UnsupportedVersion | WrongAddress):
        return False
    if isinstance(reply, (ProtocolError, *_PERMANENT)):
        return attempt < PROTOCOL_TRIES
    return isinstance(reply, NetworkError) and not isinstance(reply, DeadlineExceeded)


def keep_reason(before: Any, now: Any) -> Any:
    """Return the error of an earlier failure instead of a bare ``DeadlineExceeded``."""
    if isinstance(now, DeadlineExceeded) and isinstance(before, KgError):
        return before
    return now
