"""Offsets that this login may not see: they would be deleted, and ``undo`` could not restore them.

OffsetFetch leaves out topics that may not be described, in silence. The group's own log has them;
it is not read where the coordinator has no authorizer, which hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.snapshot import GroupChange
from kgtool.client.cluster import Cluster, call_any, fetch_metadata, find_coordinators
from kgtool.client.ops import READING_SHARE, Call, Operation, long, pipelined, within
from kgtool.errors import KgError
from kgtool.model import ItemError, Target
from kgtool.protocol import codes
from kgtool.protocol.api import describe_acls, metadata
from kgtool.protocol.codes import broker_error
from kgtool.queries.cluster.offsets_partition import TOPIC
from kgtool.queries.log.reader import LogReader, Stretch
from kgtool.text import counted

_TOPIC_TYPE, _LITERAL, _ANY_PERMISSION, _READ = 2, 3, 1, 3
"""``ResourceType``, ``PatternType``, ``AclPermissionType`` and ``AclOperation``."""


class Hidden(NamedTuple):
    """The hidden offsets of a group.

    ``topics``: how many of each topic. ``error``: why it is unknown whether there are any.
    """

    topics: Mapping[str, int] = {}
    error: KgError | None = None


class HiddenOffsets:
    """Finds hidden offsets of groups; a run reads each partition of the log once.

    :param groups: all groups that will ever be searched.
    :param say: called with warnings of what undo will not restore.
    :param refuse: whether a group with hidden offsets is left alone.
    :param is_long: whether reading the log may take its time, as long as it makes progress.
    """

    def __init__(
        self,
        groups: Iterable[str],
        say: Callable[[str], None] | None = None,
        *,
        refuse: bool = True,
        is_long: bool = True,
    ) -> None:
        self.found: dict[str, Hidden] = {}
        """The results of all searches, by group; groups without anything hidden are left out."""
        self._say = say
        self._refuse = refuse
        self._is_long = is_long
        self._authorizers: dict[int, bool] = {}
        self._visible: set[str] = set()
        self._reader = LogReader(groups, None, wants=lambda topic: topic not in self._visible)

    def search(self, cluster: Cluster, groups: Sequence[str]) -> Operation[None]:
        """Update ``found`` for some of the groups."""
        yield from self.find_authorizers(cluster, groups)
        for group in groups:
            self.found.pop(group, None)
        # A group without a coordinator fails by itself.
        names = [g for g in groups if self._authorizers.get(cluster.coordinators.get(g, -1), False)]
        if not names:
            return
        read = self._read(cluster, names)
        read = long(read) if self._is_long else within(read, READING_SHARE)
        try:
            stretches, counts = yield from read
        except KgError as error:
            self.found.update({group: Hidden(error=error) for group in names})
            return
        for group in names:
            stretch = stretches[group]
            if isinstance(stretch, KgError):
                self.found[group] = Hidden(error=_explain_denied(stretch))
                continue
            hidden = {t: n for t, n in counts[group].items() if _is_denied(cluster.topics[t].error)}
            if hidden:
                self.found[group] = Hidden(hidden)

    def _read(
        self, cluster: Cluster, names: Sequence[str]
    ) -> Operation[tuple[dict[str, Stretch | KgError], dict[str, Mapping[str, int]]]]:
        """Return the log of groups, and the counts of their offsets by topic."""
        if not self._visible:  # the topics that this login may describe
            request = metadata.Request(topics=None, allow_auto_topic_creation=False)
            reply = yield from call_any(request)
            if isinstance(reply, KgError):
                raise reply
            self._visible = {row.name for row in reply.topics}
        stretches = yield from self._reader.read(cluster, names)
        counts = _counts(stretches)
        topics = sorted({topic for count in counts.values() for topic in count})
        if topics:
            yield from fetch_metadata(cluster, topics)
        return stretches, counts

    def find_authorizers(self, cluster: Cluster, groups: Sequence[str]) -> Operation[None]:
        """Ask the coordinators of groups, each once, whether they have an authorizer.

        The request is small; a login that may not ask, or a broker that does not answer it, may
        hide offsets.
        """
        located = yield from find_coordinators(cluster, groups, wait=False)
        brokers = {node for node in located.values() if isinstance(node, int)}
        asked = sorted(brokers - set(self._authorizers))
        request = describe_acls.Request(
            resource_type_filter=_TOPIC_TYPE,
            resource_name_filter=TOPIC,
            pattern_type_filter=_LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=_READ,
            permission_type=_ANY_PERMISSION,
        )
        replies = yield from pipelined([Call(broker, request) for broker in asked])
        self._authorizers.update(zip(asked, map(_has_authorizer, replies), strict=True))

    def refusal(self, group: str) -> ItemError | None:
        """Return why a group must be left alone; None where it may be deleted."""
        topics = self.found.get(group, Hidden()).topics
        if not topics or not self._refuse:
            return None
        first = next(iter(topics))
        return ItemError(
            Target(group, first),
            None,
            "HIDDEN_OFFSETS",
            f"Group '{group}' has {_listed(topics)} that this login may not see; undo could not "
            "restore them.",
            f"{_needs(topics)}, or --force to delete them permanently.",
        )

    def warn(self, groups: Iterable[str]) -> None:
        """Say what undo will not restore of groups that are deleted anyway."""
        if self._say is None:
            return
        found = {group: self.found[group] for group in groups if group in self.found}
        for group, hidden in found.items():
            if hidden.topics:
                self._say(
                    f"Warning: group '{group}': {_listed(hidden.topics)} does not come back with "
                    f"undo: this login may not see it. {_needs(hidden.topics)}."
                )
        blind = [(group, hidden.error) for group, hidden in found.items() if hidden.error]
        if blind:
            (first, why), rest = blind[0], len(blind) - 1
            more = f" and {counted(rest, 'more group')}" if rest else ""
            self._say(
                f"Warning: undo covers only the offsets that this login may see; whether "
                f"'{first}'{more} has others is unknown: {why.message}"
                + (f" {why.hint}" if why.hint else "")
            )

    def mark(self, change: GroupChange) -> GroupChange:
        """Note in a change, for the journal, what its image lacks."""
        hidden = self.found.get(change.image.group, Hidden())
        is_blind = hidden.error is not None
        return change._replace(is_blind=is_blind, hidden=hidden.topics or None)

    def is_blind(self, group: str) -> bool:
        """Whether a group may have hidden offsets, and the search has failed."""
        return self.found.get(group, Hidden()).error is not None


def _has_authorizer(reply: Any) -> bool:
    return isinstance(reply, KgError) or bool(reply.error_code != codes.SECURITY_DISABLED)


def _counts(stretches: Mapping[str, Stretch | KgError]) -> dict[str, Mapping[str, int]]:
    logs = {id(s.log): s.log for s in stretches.values() if isinstance(s, Stretch)}
    by_group = {group: count for log in logs.values() for group, count in log.topics().items()}
    return {group: by_group.get(group, {}) for group in stretches}


def _is_denied(error: KgError | None) -> bool:
    return error is not None and error.code == codes.TOPIC_AUTHORIZATION_FAILED


def _explain_denied(error: KgError) -> KgError:
    if not _is_denied(error):
        return error
    hint = f"It needs the ACL operation READ on topic {TOPIC}."
    return broker_error(error.code or 0, f"Not allowed to read {TOPIC}.", hint=hint)


def _listed(topics: Mapping[str, int]) -> str:
    return ", ".join(f"{counted(n, 'offset')} of topic {topic}" for topic, n in topics.items())


def _needs(topics: Mapping[str, int]) -> str:
    named = ", ".join(topics)
    return f"It needs the ACL operation DESCRIBE on topic{'s' * (len(topics) > 1)} {named}"
