"""Errors of answers that refuse as a whole, or that leave out an item.

What an answer leaves out is unknown: neither absent nor an error code that no broker sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgtool.errors import BrokerError, IncompleteAnswer, KgError
from kgtool.protocol.codes import broker_error

if TYPE_CHECKING:
    from kgtool.client.cluster import Cluster


def left_out(request: Any, what: str) -> KgError:
    """Return the error of an item that the answer to a request (None: to one) leaves out.

    It is ``maybe_done``: a change may have been made. Asking again is worth a try.
    """
    answer = "The broker's answer" if request is None else f"The answer to {request.NAME}"
    error = IncompleteAnswer(
        f"{answer} leaves out {what}.",
        hint="The broker departs from Kafka's protocol: its own log may say more.",
    )
    return error.after_sending()


def refused(cluster: Cluster, broker: int, request: Any, reply: Any) -> BrokerError:
    """Return the error of an answer as a whole; it names the broker and the request."""
    plain = broker_error(reply.error_code, getattr(reply, "error_message", None))
    known = cluster.brokers.get(broker)
    peer = f"{known.host}:{known.port}" if known else f"broker {broker}"
    said = f"{peer} answers {request.NAME} with {plain.name}: {plain.message}"
    return broker_error(reply.error_code, said, hint=plain.hint)
