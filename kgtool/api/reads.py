"""The methods of ``GroupAdmin`` that read. Nothing here changes anything, except ``request``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.api import arguments
from kgtool.api.arguments import Topics
from kgtool.api.connection import AdminConnection
from kgtool.changes.policy import Guard
from kgtool.client.ops import ANY, Operation
from kgtool.clock import now_ms
from kgtool.errors import KgError
from kgtool.model import (
    CommittedOffset,
    GroupDescription,
    GroupOffsets,
    ItemError,
    Listing,
    Target,
    TopicPartition,
    TopicSpec,
)
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND
from kgtool.text import DAY_MS

if TYPE_CHECKING:
    from kgtool.changes import raw_request as raw
    from kgtool.changes.groups.configs import GroupConfig
    from kgtool.client.cluster import Cluster
    from kgtool.queries.cluster.coordinators import Placement
    from kgtool.queries.doctor.examine import Diagnosis
    from kgtool.queries.explain import Explanation
    from kgtool.queries.groups.share_and_streams import OtherGroup
    from kgtool.queries.log.expiry import Expiry
    from kgtool.queries.log.export import Exported
    from kgtool.queries.peek import PeekedRecord


class Reply(NamedTuple):
    """A broker's answer to a raw request or to its part of one.

    ``broker`` is None where any broker was asked; one of ``response`` and ``error`` is None. Error
    codes inside a response are left as they are.
    """

    broker: int | None
    version: int
    response: dict[str, Any] | None
    error: ItemError | None


class ReadMethods(AdminConnection):
    """The methods that read."""

    def list_groups(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> Listing:
        """Return the groups of all brokers, sorted by name, and the brokers that failed.

        Needs DESCRIBE on the cluster or on the groups (ListGroups; KIP-518, KIP-848).

        :param states: only groups in these states (``"Empty"``, ``"Stable"``, …), in any case.
        :param types: only groups of these types: classic, consumer, share, streams.
        """
        from kgtool.queries.groups.list import list_groups

        wanted = arguments.names(states, "states"), arguments.names(types, "types")
        return self._run(list_groups(self._cluster, *wanted, complete=True))

    def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        """Return type, state, epochs and members of groups of any type, each with its ``error``.

        A group that does not exist has error code 69 (GROUP_ID_NOT_FOUND). Members of share and
        streams groups are included; a streams member's assignment are its active tasks. Needs
        DESCRIBE on the groups (KIP-848, KIP-932, KIP-1071).
        """
        return self._run(_describe(self._cluster, arguments.names(groups)))

    def describe_offsets(
        self,
        groups: Iterable[str],
        topics: Topics | None = None,
        *,
        time_lag: bool = False,
        committed: bool = False,
    ) -> dict[str, GroupOffsets]:
        """Return each group's partitions with committed offset, log start, log end and lag.

        The lag is in records, ``lag_ms`` in milliseconds. In share groups the offset is the start
        offset. A group that does not exist has it in ``description.error``.

        :param topics: only these.
        :param time_lag: also find the age of the first unread record (reads one record each).
        :param committed: lag against the last stable offset, which read_committed reads (KIP-98).
        """
        specs = None if topics is None else arguments.specs(topics)
        clock = now_ms if time_lag else None
        names = arguments.names(groups)
        return self._run(_offsets(self._cluster, names, specs, committed=committed, clock=clock))

    def committed_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset | KgError]:
        """Return all committed offsets of a group with leader epochs and metadata (KIP-88).

        A group that does not exist has none: Kafka does not tell the two apart. A partition that
        can't be read has its error. Needs DESCRIBE on the group and its topics.

        :raises KgError: the group's offsets can't be read.
        """
        from kgtool.queries.offsets.fetch import fetch_committed

        found = self._run(fetch_committed(self._cluster, [group]))[group]
        if isinstance(found, KgError):
            raise found
        return found

    def expiry(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, Expiry]]:
        """Return when each committed offset was written, and when and why it expires (KIP-211).

        ``expires_at_ms`` is the earliest moment at which the broker may remove it; None: never as
        things stand, or unknown where ``rule`` is None too. Groups that do not exist are left out.
        Needs DESCRIBE_CONFIGS on the cluster, and READ on ``__consumer_offsets``.

        :raises KgError: nothing could be found out.
        """
        return self._run(_expiries(self._cluster, arguments.names(groups), now_ms()))

    def coordinators(self, groups: Iterable[str]) -> dict[str, Placement]:
        """Return each group's partition of ``__consumer_offsets``, leader, ISR and coordinator."""
        from kgtool.queries.cluster.coordinators import locate_groups
        from kgtool.queries.groups.describe import find_lost

        found = self._run(locate_groups(self._cluster, arguments.names(groups)))
        lost = self._run(find_lost(self._cluster, found.absent))
        return {p.group: p._replace(error=p.error or lost.get(p.group)) for p in found.placements}

    def configs(self, groups: Iterable[str]) -> dict[str, dict[str, GroupConfig] | KgError]:
        """Return the configs of groups with value, default and source (KIP-848).

        Needs DESCRIBE_CONFIGS on the groups, and Kafka ≥ 4.0.
        """
        from kgtool.changes.groups.configs import describe_group_configs

        return self._run(describe_group_configs(self._cluster, arguments.names(groups)))

    def export(self, folder: str | Path) -> Exported:
        """Copy ``__consumer_offsets``, byte for byte, into a folder (``kgtool analyze`` reads it).

        ``timeout_ms`` is the longest time without progress. An interrupted export is finished.
        Needs READ on ``__consumer_offsets``.

        :raises ConfigError: the folder holds something else.
        """
        from kgtool.queries.log.export import ExportDirectory, export

        directory = ExportDirectory(Path(folder))
        with self._long_session() as session:
            return session.run(export(session.cluster, directory, now_ms()))

    def explain(self, group: str) -> Explanation:
        """Explain a group (``kgtool explain``).

        Who is a member and holds which topic, why it can't be deleted or reset, what expires when
        and by which rule (KIP-211), what the broker has removed, and which ACLs are missing. Times
        are ms since the epoch. What can't be found out is in ``errors``; a group that does not
        exist has it in ``description.error``.
        """
        from kgtool.changes.refusals import refusals
        from kgtool.queries.explain import explain_group

        return self._run(explain_group(self._cluster, group, now_ms(), refusals))

    def doctor(
        self, groups: Iterable[str] | None = None, *, within_ms: int = 2 * DAY_MS
    ) -> Diagnosis:
        """Find problems of groups (``kgtool doctor``), the worst first.

        Each finding has its ``kind``, ``severity`` (problem, warning or note), ``evidence``
        (numbers; times in ms) and ``fix``, a command line without connection options. What may not
        be read is a finding of the kind ``denied``.

        :param groups: only these; default: all consumer groups, the brokers, and
            ``__consumer_offsets``.
        :param within_ms: warn of offsets that expire within so many ms.
        :raises KgError: no broker answered.
        """
        from kgtool.queries.doctor.examine import DoctorOptions, diagnose
        from kgtool.retention.generated_names import family

        named = None if groups is None else arguments.names(groups)
        kinds: dict[str, str] = {}
        errors: list[ItemError] = []
        with self._lock:
            if named is None:
                listing = self.list_groups()
                errors = listing.errors
                kinds = listing.consumer_groups

            def generated_family(name: str) -> str | None:  # named groups are judged one by one
                return None if named is not None else family(name)

            asked = DoctorOptions(now_ms(), within_ms, named is None, generated_family)
            found = self._run(diagnose(self._cluster, named or list(kinds), kinds, asked))
        return found._replace(errors=list(dict.fromkeys([*errors, *found.errors])))

    def peek(
        self,
        group: str,
        topics: Topics | None = None,
        *,
        before: int = 0,
        after: int = 1,
        committed_only: bool = False,
    ) -> dict[TopicPartition, list[PeekedRecord] | KgError]:
        """Return the records around a group's committed offsets, decompressed.

        By default the one that each partition's consumer reads next. Keys and values are bytes,
        times ms since the epoch. The group does not notice. What can't be read is an error in its
        place. Needs READ on the topics, and DESCRIBE on the group.

        :param topics: only these (default: all with a committed offset).
        :param before: how many records before the committed offset.
        :param after: how many from it on.
        :param committed_only: without records of open or aborted transactions (KIP-98).
        :raises UsageError: ``before`` or ``after`` is not a whole number from 0 on.
        :raises KgError: the group has no committed offset, or they can't be read.
        """
        from kgtool.queries.peek import CommittedPosition, find_positions, read_around

        specs = [] if topics is None else arguments.specs(topics)
        before, after = arguments.whole("before", before), arguments.whole("after", after)
        found: dict[TopicPartition, list[PeekedRecord] | KgError] = {}
        with self._lock:
            for at, place in self._run(find_positions(self._cluster, group, specs)).items():
                if not isinstance(place, CommittedPosition):
                    found[at] = place
                    continue
                reading = read_around(
                    self._cluster, place, before, after, committed_only=committed_only
                )
                try:
                    found[at] = self._run(reading)
                except KgError as error:
                    found[at] = error
        return found

    def request(
        self,
        api: str,
        body: Mapping[str, Any] | None = None,
        *,
        version: int | None = None,
        broker: int | None = None,
    ) -> list[Reply]:
        """Send one raw request; return the answers of the brokers it went to.

        It is routed to its coordinator, leader or controller, in parts if need be, and sent once.
        There is no journal and no undo for what it changes: on a protected cluster that takes
        ``confirm``, and a policy about groups refuses it.

        :param api: Kafka's name of it, as ``kgtool request --list`` shows them.
        :param body: names as in Kafka's message JSON, bytes in Base64; defaults are filled in.
        :param version: of the API (default: the highest that both sides speak).
        :param broker: the id of the broker to send it to, wherever it belongs.
        :raises UsageError: there is no such API, version or field, or a value is of another type.
        :raises KgError: its broker can't be found.
        :raises PolicyRefused: it may not be made.
        """
        from kgtool.changes import raw_request as raw
        from kgtool.protocol.schema import changes

        name = raw.find_api(api)
        raw.check_version(name, version)
        with self._call() as session:
            to = ANY if broker is None else broker
            if version is None:
                known = raw.common_version(session.cluster, to, raw.schema_of(name))
                version = session.run(known)
            message = raw.make_request(name, version, body or {})
            parts = [raw.RoutedRequest(to, message)]
            if broker is None:
                parts = session.run(raw.route(session.cluster, message))
            if changes(message):
                session.connect()
                Guard(session, self._origin("request")).check_unseen()
            answers = session.run(raw.send_parts(session.cluster, parts, version))
        return [_reply(answer, version) for answer in answers]


def _reply(answer: raw.Answer, version: int) -> Reply:
    from kgtool.protocol.as_json import to_json

    if isinstance(answer.reply, KgError):
        error = ItemError.of(answer.reply, Target(broker=answer.broker))
        return Reply(answer.broker, version, None, error)
    return Reply(answer.broker, version, to_json(answer.reply, version), None)


def _describe(cluster: Cluster, groups: list[str]) -> Operation[dict[str, GroupDescription]]:
    from kgtool.queries.groups.describe import describe_groups

    found = {one.group: one for one in (yield from describe_groups(cluster, groups))}
    others, errors = yield from _missing(cluster, found)
    found.update({group: found[group]._replace(error=error) for group, error in errors.items()})
    found.update({other.description.group: other.description for other in others})
    return found


def _missing(
    cluster: Cluster, found: Mapping[str, GroupDescription]
) -> Operation[tuple[list[OtherGroup], dict[str, ItemError]]]:
    """Find the share and streams groups among those that seem to be missing; why the rest is."""
    from kgtool.queries.groups.share_and_streams import describe_missing

    missing = [g for g, d in found.items() if d.error and d.error.code == GROUP_ID_NOT_FOUND]
    answers = (yield from describe_missing(cluster, missing)) if missing else {}
    errors = {group: one for group, one in answers.items() if isinstance(one, ItemError)}
    return [one for one in answers.values() if not isinstance(one, ItemError)], errors


def _offsets(
    cluster: Cluster,
    groups: list[str],
    topics: list[TopicSpec] | None,
    *,
    committed: bool,
    clock: Callable[[], int] | None,
) -> Operation[dict[str, GroupOffsets]]:
    from kgtool.queries.groups.share_and_streams import describe_other_offsets
    from kgtool.queries.offsets.describe import describe_offsets

    listed = yield from describe_offsets(cluster, groups, topics, committed=committed, clock=clock)
    found = {one.description.group: one for one in listed}
    described = {name: one.description for name, one in found.items()}
    others, errors = yield from _missing(cluster, described)
    for name, error in errors.items():
        found[name] = found[name]._replace(description=described[name]._replace(error=error))
    for one in (yield from describe_other_offsets(cluster, others)) if others else ():
        rows = [
            row
            for row in one.rows
            if topics is None or any(spec.covers(row.topic, row.partition) for spec in topics)
        ]
        found[one.description.group] = one._replace(rows=rows)
    return found


def _expiries(
    cluster: Cluster, groups: list[str], now_ms: int
) -> Operation[dict[str, dict[TopicPartition, Expiry]]]:
    from kgtool.queries.log.expiry import Question, find_expiries
    from kgtool.queries.offsets.fetch import fetch_committed

    described = yield from _describe(cluster, groups)
    committed = yield from fetch_committed(cluster, groups)
    questions = [
        Question.of(description, committed[group])
        for group, description in described.items()
        if description.error is None and isinstance(committed[group], dict)
    ]
    if not questions:
        return {}
    found = yield from find_expiries(cluster, questions, now_ms)
    return {name: one.offsets for name, one in found.groups.items()}
