"""Changes whose answers did not come: the one machine for commits and deletions.

What the broker may have done
    A request that was sent and not answered (its connection ended, its time was up) was never
    read, or is still in a queue, or was carried out. An answer may leave the same doubt: the
    coordinator had written the change to its log and did not see in time that it was replicated,
    or lost the log's leadership meanwhile (``UNSETTLED``). A coordinator that has just taken over
    may have loaded what the one before it wrote. So "it failed" is never said of these: they are
    *in doubt*.

What a look can tell
    The item is as it was before the first request (``AS_BEFORE``), or it is as it should become
    (None: done, by us or by another client), or it is something else: another client has changed
    it (``ChangedMeanwhile``), and it is left alone, because the user agreed to another value.
    To compare, the look needs the value from before; kinds of change carry it from the plan.

What a look can't tell
    Whether a request that is still on its way will be carried out after it. So the connection on
    which an answer is owed is closed first (``HangUp``): what has not left this machine never
    will. What the broker has already read may be carried out even then, in the moment of the
    look. Therefore doubt ends only with a look that finds a change, or with the answer that it was
    done. After "as before" the next request may be sent; a refusal ends the doubt of its own
    request only. An item still in doubt at the end is looked at once more; the failure of a request
    that was sent and never answered stays marked (``maybe_done``). Where the value is the same
    before and after, or can't be read, the outcome is unknown (``OutcomeUnknown``).

Why nothing is sent twice blindly
    OffsetCommit, OffsetDelete and DeleteGroups have no compare-and-set. A consumer may commit
    between two requests: a second commit would rewind it, and a second deletion would remove an
    offset committed since, or a new group of the same name. So a look at the same
    coordinator precedes each request, also the first (images and the journal take time), and only
    an item that is as before is sent. A window of one round trip remains; no client can close it.

::

               look                      send                        last look
    open ──► as before ─────────► (request) ─► done                ┌► done
      ▲       done, changed: settled  │      ─► refused ──┐          ├► changed meanwhile
      │                               └► no clear answer  ├─ doubt? ─┼► as before: the last error
      └────── again, while there is time ◄──┘             ┘          └► not read: unknown

A group's items share a coordinator, and its error is theirs; ``client.routing.by_coordinator``
follows coordinators that move, and repeats what is worth it until the command's time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from kgtool.client.cluster import Cluster
from kgtool.client.ops import DeadlineExceeded, HangUp, Operation
from kgtool.client.routing import by_coordinator
from kgtool.errors import BrokerError, ChangedMeanwhile, KgError, OutcomeUnknown
from kgtool.protocol import codes

UNSETTLED = (
    codes.REQUEST_TIMED_OUT,
    codes.COORDINATOR_LOAD_IN_PROGRESS,
    codes.COORDINATOR_NOT_AVAILABLE,
    codes.NOT_COORDINATOR,
    codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
"""Errors of a change that may have been made anyway: ``CoordinatorOperationExceptionHelper`` maps
those of the log to these. A look after one too many costs little."""

K = TypeVar("K", bound=Hashable)
"""An item of a group: a partition, or None for the group itself."""


class _Sentinel(Enum):
    AS_BEFORE = "as before"


AS_BEFORE: Final = _Sentinel.AS_BEFORE
"""What a look says of an item that is as it was before the first request."""

Seen = KgError | None | _Sentinel
"""What a look says of an item: as before, None (it is done), or why it must not be sent."""
Items = Mapping[str, Sequence[K]]
"""The items of each group."""
Doubts = Mapping[str, Mapping[K, KgError]]
"""By group: the items in doubt, each with its last unclear answer."""


class Outcome(NamedTuple):
    """An item's answer to a request.

    ``error``: None if it was done. ``is_final``: it is the item's own; otherwise the request as a
    whole has failed, and may be sent again.
    """

    error: KgError | None = None
    is_final: bool = True


class Requests(Protocol[K]):
    """The requests of one kind of change, to the coordinator of some groups."""

    def look(
        self, broker: int, items: Items[K], doubts: Doubts[K]
    ) -> Operation[Mapping[str, KgError | Mapping[K, Seen]]]:
        """Compare items with what was there before; a group that can't be read has an error."""

    def send(self, broker: int, items: Items[K]) -> Operation[Mapping[str, Mapping[K, Outcome]]]:
        """Ask for the change of items."""


def is_unsettled(answer: Any) -> bool:
    """Whether a change may have been made despite this answer, which may get better."""
    return isinstance(answer, KgError) and (answer.maybe_done or answer.code in UNSETTLED)


def is_in_doubt(answer: Any) -> bool:
    """Whether a change may have been made despite this answer."""
    return is_unsettled(answer) or (
        isinstance(answer, OutcomeUnknown)
        or (isinstance(answer, KgError) and answer.code == codes.UNKNOWN_SERVER_ERROR)
    )


def first_unsettled(_group: str, errors: Sequence[KgError]) -> KgError | None:
    """Return the error of a group's items that is most worth another try."""
    return next(filter(is_unsettled, errors), errors[0])


class Attempt(Generic[K]):
    """One change of the items of groups: what is still to be done, and what came of the rest.

    :param again: called with a group and the errors of its open items; returns the one by which
        ``by_coordinator`` decides whether there is another try.
    """

    def __init__(
        self,
        cluster: Cluster,
        items: Mapping[str, Iterable[K]],
        requests: Requests[K],
        again: Callable[[str, Sequence[KgError]], KgError | None] = first_unsettled,
    ) -> None:
        self._cluster = cluster
        self._requests = requests
        self._again = again
        self._open = {group: dict.fromkeys(keys) for group, keys in items.items()}
        self._silent: dict[str, int] = {}
        """The broker that owes an answer about each group."""
        self._settled: set[str] = set()
        """Groups of which an item has an answer of its own."""
        self.outcomes: dict[str, dict[K, KgError | None]] = {group: {} for group in items}
        self.doubts: dict[str, dict[K, KgError]] = {group: {} for group in items}
        """What was sent and may have been made, whatever the answers to later requests."""
        self.lost: dict[str, set[K]] = {group: set() for group in items}
        """What was sent once without an answer, whatever the answers to later requests."""

    def run(self) -> Operation[None]:
        """Look and send until all is settled, or time is up."""
        groups = [group for group, keys in self._open.items() if keys]
        answers = yield from by_coordinator(self._cluster, groups, self._work)
        for group, answer in answers.items():
            for key in self._open[group] if isinstance(answer, KgError) else ():
                if not isinstance(self.outcomes[group].get(key), BrokerError):
                    self.outcomes[group][key] = answer

    def last_look(self, what: str) -> Operation[None]:
        """Look at what is in doubt; where that can't be read either, the outcome is unknown.

        :param what: the end of the sentence "it is not known whether …".
        """
        groups = [group for group, doubts in self.doubts.items() if doubts]
        yield from self.hang_up(groups)
        found = yield from by_coordinator(self._cluster, groups, self._look_at_doubts)
        for group, now in found.items():
            unknown: KgError | None = None
            for key, doubt in self.doubts[group].items():
                seen = now if isinstance(now, KgError) else now[key]
                error = self.outcomes[group].get(key) or doubt
                if seen is None or isinstance(seen, ChangedMeanwhile):
                    self._settled.add(group)
                    self.outcomes[group][key] = seen
                elif seen is AS_BEFORE:
                    is_lost = key in self.lost[group]
                    self.outcomes[group][key] = error.after_sending() if is_lost else error
                else:
                    unknown = unknown or OutcomeUnknown(
                        f"{error.message.rstrip('.')}: it is not known whether {what}.",
                        hint="Check with kgtool describe, and repeat the command if it was not.",
                    )
                    self.outcomes[group][key] = unknown

    def answers(self) -> dict[str, KgError | dict[K, KgError | None]]:
        """Return the outcome of each item, or the error of a group that has no other answer."""
        found: dict[str, KgError | dict[K, KgError | None]] = {}
        for group, outcomes in self.outcomes.items():
            errors = [error for error in outcomes.values() if error is not None]
            is_whole = errors and group not in self._settled
            found[group] = errors[0] if is_whole else outcomes
        return found

    def hang_up(self, groups: Iterable[str]) -> Operation[None]:
        """Close the connections on which an answer about these groups is still owed."""
        for broker in {self._silent.pop(group) for group in groups if group in self._silent}:
            yield HangUp(broker)

    def _work(self, broker: int, groups: list[str]) -> Operation[dict[str, KgError | None]]:
        """Look, and send what is as before: once for these groups of one coordinator."""
        yield from self.hang_up(groups)
        wanted = {group: list(self._open[group]) for group in groups if self._open[group]}
        unread: dict[str, KgError] = {}
        for group, now in (yield from self._requests.look(broker, wanted, self.doubts)).items():
            if isinstance(now, KgError):
                unread[group] = now
                continue
            for key, seen in now.items():
                if seen is not AS_BEFORE:
                    self._settle(group, key, seen)
        going = {g: list(self._open[g]) for g in wanted if g not in unread and self._open[g]}
        answers = (yield from self._requests.send(broker, going)) if going else {}
        for group, found in answers.items():
            for key, outcome in found.items():
                self._take(broker, group, key, outcome)
        return {group: unread.get(group) or self._next(group) for group in groups}

    def _look_at_doubts(self, broker: int, groups: list[str]) -> Operation[dict[str, Any]]:
        wanted = {group: list(self.doubts[group]) for group in groups}
        return dict((yield from self._requests.look(broker, wanted, self.doubts)))

    def _settle(self, group: str, key: K, error: KgError | None) -> None:
        self._settled.add(group)
        self.outcomes[group][key] = error
        del self._open[group][key]
        if error is None or isinstance(error, ChangedMeanwhile):
            self.doubts[group].pop(key, None)

    def _take(self, broker: int, group: str, key: K, outcome: Outcome) -> None:
        error, is_final = outcome
        self.outcomes[group][key] = error
        if error is not None and is_in_doubt(error):
            self.doubts[group][key] = error
        if error is not None and error.maybe_done:
            self.lost[group].add(key)
            self._silent[group] = broker
        if is_final and not is_unsettled(error):
            self._settle(group, key, error)

    def _next(self, group: str) -> KgError | None:
        """Return a failure that ``by_coordinator`` knows how to overcome, if there is one."""
        found = [self.outcomes[group].get(key) for key in self._open[group]]
        errors = [error for error in found if error is not None]
        timely = [error for error in errors if not isinstance(error, DeadlineExceeded)]
        return self._again(group, timely) if timely else next(iter(errors), None)
