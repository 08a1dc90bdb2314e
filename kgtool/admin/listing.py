"""Which groups there are (ListGroups, asked of every broker)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kgtool.client.cluster import Cluster, is_final, need_brokers, version_of
from kgtool.client.ops import Operation, backoff, call, gather
from kgtool.errors import KgError
from kgtool.model import GroupListing, ItemError, Listing, Target
from kgtool.protocol import codes
from kgtool.protocol.api import list_groups as list_groups_api
from kgtool.protocol.codes import broker_error


def list_groups(
    cluster: Cluster, states: Sequence[str] = (), types: Sequence[str] = ()
) -> Operation[Listing]:
    """Ask every broker for the groups that it coordinates.

    A broker that fails is an error of its own; the others' groups are still there. Filters are
    case-insensitive; where a broker is too old to filter (states before ListGroups v4, types
    before v5) they are applied here to what it says, or to what its groups' descriptions say.
    """
    yield from need_brokers(cluster)
    parts = yield from gather(
        [_list_on(cluster, broker, states, types) for broker in sorted(cluster.brokers)]
    )
    groups: list[GroupListing] = []
    errors: list[ItemError] = []
    for found, error in parts:
        groups.extend(found)
        if error is not None:
            errors.append(error)
    for row in groups:
        cluster.coordinators[row.group] = row.coordinator
    unique = {row.group: row for row in groups}
    if states:
        yield from _learn_states(cluster, unique, states, errors)
    return Listing(sorted(unique.values()), errors)


def _learn_states(
    cluster: Cluster, rows: dict[str, GroupListing], states: Sequence[str], errors: list[ItemError]
) -> Operation[None]:
    """Describe the groups whose state the listing doesn't tell, and keep those that match."""
    unknown = [name for name, row in rows.items() if not row.state]
    if not unknown:
        return
    from kgtool.admin.groups import describe_groups

    for found in (yield from describe_groups(cluster, unknown, dict.fromkeys(unknown, "classic"))):
        row = rows.pop(found.group)._replace(state=found.state)
        if found.error is None and _matches(row, states, ()):
            rows[found.group] = row
        elif found.error is not None and found.error.code != codes.GROUP_ID_NOT_FOUND:
            errors.append(found.error)


def _list_on(
    cluster: Cluster, broker: int, states: Sequence[str], types: Sequence[str]
) -> Operation[tuple[list[GroupListing], ItemError | None]]:
    reply = yield from _ask_list(cluster, broker, states, types)
    for attempt in range(3):
        if isinstance(reply, KgError):
            if is_final(reply):
                break
        elif reply.error_code not in (
            codes.COORDINATOR_LOAD_IN_PROGRESS, codes.COORDINATOR_NOT_AVAILABLE,
        ):  # fmt: skip
            break
        yield backoff(attempt)
        reply = yield from _ask_list(cluster, broker, states, types)
    target = Target(broker=broker)
    if isinstance(reply, KgError):
        return [], ItemError.of(reply, target)
    if reply.error_code:
        return [], ItemError.of(broker_error(reply.error_code), target)
    rows = [
        GroupListing(
            row.group_id, row.group_type or None, row.group_state or None,
            row.protocol_type, broker,
        )
        for row in reply.groups
    ]  # fmt: skip
    return [row for row in rows if _matches(row, states, types)], None


def _ask_list(
    cluster: Cluster, broker: int, states: Sequence[str], types: Sequence[str]
) -> Operation[Any]:
    version = yield from version_of(cluster, broker, list_groups_api.Request)
    if isinstance(version, KgError):
        return version
    request = list_groups_api.Request(
        states_filter=list(states) if version >= 4 else [],
        types_filter=list(types) if version >= 5 else [],
    )
    return (yield from call(broker, request))


def _matches(row: GroupListing, states: Sequence[str], types: Sequence[str]) -> bool:
    if states and row.state and row.state.lower() not in {state.lower() for state in states}:
        return False
    # Before KIP-848 there was nothing but classic groups.
    kind = row.type or "classic"
    return not types or kind.lower() in {wanted.lower() for wanted in types}
