"""Groups that are described and do not exist.

Some brokers that are not Apache Kafka describe every name as an Empty group. Only the list of
groups tells (the coordinator's: it lists what it coordinates), and only where it answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kgtool.client.cluster import pipelined
from kgtool.client.ops import Call, Operation
from kgtool.errors import KgError
from kgtool.model import GroupDescription, ItemError, Target
from kgtool.protocol import codes
from kgtool.protocol.api import list_groups
from kgtool.protocol.codes import broker_error


def unlisted(described: Iterable[GroupDescription]) -> Operation[dict[str, ItemError]]:
    """Return the groups that their own coordinator does not list, with the error that says so.

    :param described: groups that nothing else proves: without members and without offsets.
    """
    homes: dict[int, list[str]] = {}
    for one in described:
        if one.error is None and one.coordinator is not None:
            homes.setdefault(one.coordinator.id, []).append(one.group)
    found: dict[str, ItemError] = {}
    for broker, groups in homes.items():
        names = yield from listed_on(broker)
        if not isinstance(names, KgError):
            missing = broker_error(codes.GROUP_ID_NOT_FOUND)
            found.update(
                {g: ItemError.of(missing, Target(group=g)) for g in groups if g not in names}
            )
    return found


def proven(
    described: Sequence[GroupDescription], listed: Collection[str] | None,
    committed: Mapping[str, object] | None = None,
) -> Operation[list[GroupDescription]]:  # fmt: skip
    """Take groups for missing that have nothing, and that their coordinator does not list.

    :param listed: groups that a listing has named already.
    :param committed: what groups have committed, where that is known.
    """
    known, had = listed or (), committed or {}
    bare = [d for d in described if not d.members and d.group not in known and not had.get(d.group)]
    missing = yield from unlisted(bare)
    return [d._replace(error=missing.get(d.group, d.error)) for d in described]


def listed_on(broker: int) -> Operation[Collection[str] | KgError]:
    """Return the groups that a coordinator lists, or why it doesn't."""
    (reply,) = yield from pipelined([Call(broker, list_groups.Request())])
    if isinstance(reply, KgError):
        return reply
    if reply.error_code:
        return broker_error(reply.error_code)
    return {str(row.group_id) for row in reply.groups}
