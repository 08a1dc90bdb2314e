"""How far commits have moved lately, and since when they stand still: from the log of groups."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kgtool.model import TopicPartition
from kgtool.queries.log.scan import GroupLog, offset_key
from kgtool.retention.rules import RuleSet


class Moves:
    """The commits of one offset in a stretch of the log; times in ms since the epoch.

    ``records`` were passed by commits since the time asked for; a reset back passes none.
    ``held_ms``: the first commit of the offset that holds now, as far as was read; ``has_moved``:
    one with another offset was read before it. ``first_ms``: the first commit that was read.
    """

    __slots__ = ("first_ms", "has_moved", "held_ms", "offset", "records")

    def __init__(self, offset: int, at_ms: int) -> None:
        self.offset, self.held_ms, self.first_ms = offset, at_ms, at_ms
        self.records, self.has_moved = 0, False

    def take(self, offset: int, at_ms: int, since_ms: int) -> None:
        """Take the next commit."""
        if offset != self.offset:
            if at_ms > since_ms:
                self.records += max(offset - self.offset, 0)
            self.offset, self.held_ms, self.has_moved = offset, at_ms, True


class Commit(NamedTuple):
    """One commit of an offset; ms since the epoch."""

    at_ms: int
    offset: int


class MovesLog(GroupLog):
    """Also keeps how each offset has moved.

    :param since_ms: when counting begins; the commits before it tell where each offset was then.
    """

    def __init__(
        self,
        rules: RuleSet,
        groups: Iterable[str],
        wants: Callable[[str], bool] | None = None,
        *,
        since_ms: int,
    ) -> None:
        super().__init__(rules, groups, wants)
        self._since_ms = since_ms
        self._moves: dict[bytes, Moves] = {}

    def _put(self, key: bytes, raw: Any, now_ms: int) -> None:
        super()._put(key, raw, now_ms)
        if raw.value is None:
            self._moves.pop(key, None)
            return
        # In every version of OffsetCommitValue the offset follows the version.
        offset = int.from_bytes(raw.value[2:10], "big", signed=True)
        known = self._moves.get(key)
        if known is None:
            self._moves[key] = Moves(offset, now_ms)
        else:
            known.take(offset, now_ms, self._since_ms)

    def moves(self, group: str, partition: TopicPartition) -> Moves | None:
        """Return how an offset has moved; None: no commit of it was read, or it is deleted."""
        return self._moves.get(offset_key(group, partition))


class CommitsLog(MovesLog):
    """Also keeps the commits themselves, the newest ``KEPT`` of each offset."""

    KEPT = 100

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._commits: dict[bytes, deque[Commit]] = {}

    def _put(self, key: bytes, raw: Any, now_ms: int) -> None:
        super()._put(key, raw, now_ms)
        moves = self._moves.get(key)
        if moves is None:
            self._commits.pop(key, None)
            return
        kept = self._commits.setdefault(key, deque(maxlen=self.KEPT))
        kept.append(Commit(now_ms, moves.offset))

    def commits(self, group: str, partition: TopicPartition) -> Sequence[Commit]:
        """Return the commits of an offset since it was there, in the order of the log."""
        return self._commits.get(offset_key(group, partition), ())
