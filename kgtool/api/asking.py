"""What ``GroupAdmin`` asks on behalf of people: explanations, findings, raw requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.api import targets
from kgtool.api.connection import now_ms
from kgtool.api.reads import Looking
from kgtool.api.targets import Topics
from kgtool.errors import KgError
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.protocol.schema import changes
from kgtool.text import DAY_MS

if TYPE_CHECKING:
    from kgtool.changes.explain import Explanation
    from kgtool.changes.raw.request import Answer
    from kgtool.queries.doctor.examine import Diagnosis
    from kgtool.queries.peek import Record


class Reply(NamedTuple):
    """What a broker answered to a raw request, or to the part of it that was for it.

    ``broker`` is None where any broker was asked; one of ``response`` and ``error`` is None. Error
    codes inside of a response are left as they are.
    """

    broker: int | None
    version: int
    response: dict[str, Any] | None
    error: ItemError | None


class Asking(Looking):
    """The methods that ask for more than a table of groups."""

    def explain(self, group: str) -> Explanation:
        """Say why a group is as it is (``kgtool explain``).

        Who is a member and holds which topic, why it can't be deleted or reset, what expires when
        and by which rule (KIP-211), what the broker has removed, and which ACLs are missing. Times
        are ms since the epoch. What can't be found out is in ``errors``; a group that does not
        exist has it in ``description.error``.
        """
        from kgtool.changes.explain import explain_group

        return self._run(explain_group(self._cluster, group, now_ms()))

    def doctor(
        self, groups: Iterable[str] | None = None, *, within_ms: int = 2 * DAY_MS
    ) -> Diagnosis:
        """Find what is wrong with groups (``kgtool doctor``), the worst first.

        Each finding has its ``kind``, ``severity`` (problem, warning or note), ``evidence``
        (numbers; times in ms) and ``fix``, the words of a command line without those of the
        connection. What may not be read is a finding of the kind ``denied``.

        :param groups: only these; default: all consumer groups, the brokers, and
            ``__consumer_offsets``.
        :param within_ms: warn of offsets that expire within so many ms.
        :raises KgError: no broker answered.
        """
        from kgtool.queries.doctor.examine import Ask, diagnose
        from kgtool.retention.generated_names import family

        named = None if groups is None else targets.names(groups)
        kinds: dict[str, str] = {}
        errors: list[ItemError] = []
        with self._lock:
            if named is None:
                listing = self.list_groups()
                errors = listing.errors
                kinds = listing.consumer_groups

            def made_up(name: str) -> str | None:  # what was asked for by name is no part of a pile
                return None if named is not None else family(name)

            asked = Ask(now_ms(), within_ms, named is None, made_up)
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
    ) -> dict[TopicPartition, list[Record] | KgError]:
        """Return the records around a group's committed offsets, decompressed.

        Without more arguments the one that each partition's consumer reads next; keys and values
        are bytes, times ms since the epoch. The group does not notice. What can't be read is an
        error in its place. snappy, lz4 and zstd take ``pip install 'kgtool[analyze]'``. Needs READ
        on the topics, and DESCRIBE on the group.

        :param topics: only these (default: all with a committed offset).
        :param before: how many records before the committed offset.
        :param after: how many from it on.
        :param committed_only: without records of open or aborted transactions (KIP-98).
        :raises UsageError: ``before`` or ``after`` is no whole number from 0 on.
        :raises KgError: the group has no committed offset, or they can't be read.
        """
        from kgtool.queries.peek import Place, Window, find_places, read_around, read_window

        specs = [] if topics is None else targets.specs(topics)
        before, after = targets.whole("before", before), targets.whole("after", after)
        found: dict[TopicPartition, list[Record] | KgError] = {}

        def read(window: Window) -> list[Record]:
            return self._run(read_window(self._cluster, window, committed_only=committed_only))

        with self._lock:
            for at, place in self._run(find_places(self._cluster, group, specs)).items():
                if not isinstance(place, Place):
                    found[at] = place
                    continue
                try:
                    found[at] = read_around(place, before, after, read)
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

        It goes to the coordinator, leader or controller that it is for by itself, in parts if need
        be, and is sent once. There is no journal and no undo for what it changes: on a protected
        cluster that takes ``confirm``, and a policy about groups refuses it.

        :param api: Kafka's name of it, as ``kgtool request --list`` shows them.
        :param body: names as in Kafka's message JSON, bytes in Base64; defaults are filled in.
        :param version: of the API (default: the highest that both sides speak).
        :param broker: the id of the broker to send it to, wherever it belongs.
        :raises UsageError: there is no such API, version or field, or a value is of another type.
        :raises KgError: nobody could tell for whom it is.
        :raises PolicyRefused: it may not be made.
        """
        from kgtool.changes.policy import Guard
        from kgtool.changes.raw import message as raw_message
        from kgtool.changes.raw import request as raw

        name = raw_message.find_api(api)
        raw_message.check_version(name, version)
        with self._lock:
            session = self._ready()
            cluster, cls = session.cluster, raw_message.schema_of(name)
            to = raw.ANYBODY if broker is None else broker
            if version is None:
                version = session.run(raw.common_version(cluster, to, cls))
            message = raw_message.make_request(name, version, body or {})
            parts = [raw.Part(to, message)]
            if broker is None:
                parts = session.run(raw.route(cluster, message))
            if changes(message):
                session.connect()
                Guard(session, self._origin("request")).check_unseen()
            answers = session.run(raw.send_parts(cluster, parts, version))
        return [_reply(one, version) for one in answers]


def _reply(answer: Answer, version: int) -> Reply:
    from kgtool.protocol.as_json import to_json

    if isinstance(answer.reply, KgError):
        error = ItemError.of(answer.reply, Target(broker=answer.broker))
        return Reply(answer.broker, version, None, error)
    return Reply(answer.broker, version, to_json(answer.reply, version), None)
