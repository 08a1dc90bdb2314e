"""Share groups in Kafka's form: ``kafka-consumer-groups.sh`` can only delete them."""

from __future__ import annotations

from kgtool.changes.plan_rows import each_open, failed
from kgtool.changes.reset.targets import GroupReset
from kgtool.errors import KgError
from kgtool.model import GroupDescription, ItemError, Target
from kgtool.protocol import codes
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.fetch import Committed
from kgtool.text import shell_word


def refuse_share(
    description: GroupDescription, _committed: Committed | KgError | None = None
) -> ItemError | None:
    """Refuse a share group as the broker does, which finds no offsets of it to commit or delete."""
    if description.type != "share" or description.error is not None:
        return None
    group = description.group
    hint = f"It is a share group, which kgtool reset-offsets {shell_word(group)} takes."
    return ItemError.of(broker_error(codes.GROUP_ID_NOT_FOUND, hint=hint), Target(group=group))


def refuse_share_resets(resets: list[GroupReset]) -> list[GroupReset]:
    """Refuse the share groups of a plan."""
    return [_refused(reset) for reset in resets]


def _refused(reset: GroupReset) -> GroupReset:
    error = None if reset.description is None else refuse_share(reset.description)
    if error is None:
        return reset
    return each_open(reset, lambda row: failed(row, error))._replace(error=error)
