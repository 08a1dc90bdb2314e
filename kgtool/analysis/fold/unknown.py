"""What can't be known of a log partition, of its groups and of their offsets: the one mask.

Every table asks it, and what is made of tables (summary, report, plans, ``--fail-on``) has no other
source. A value is unknown because an input does not tell it (``missing_data``), because the log
begins late, so that the state of a group without a record of its own is in no input, or because the
log cleaner has removed the record that tells.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from kgtool.analysis import missing_data
from kgtool.analysis.fold import rules_columns as rc
from kgtool.analysis.fold.arrays import MAX, NONE, Bools, Ints, Runs, as_of, decode_texts, extreme
from kgtool.analysis.fold.group_states import GroupStates
from kgtool.analysis.fold.log import Log, ends_group
from kgtool.records.types import GROUP_METADATA
from kgtool.retention import rules as r
from kgtool.retention.rules import RuleSet

_EMPTY = rc.STATE[r.STATE_EMPTY]
_PROTECTION = missing_data.TIMES | missing_data.STATE_TIMES | missing_data.SUBSCRIPTIONS
"""What tells when a group's state stopped protecting offsets."""
Listed = tuple[str, str, str]
"""Type, state and protocol type of a group, as ListGroups has them."""


class Unknown:
    """The mask of one partition; arrays of groups have one entry each."""

    def __init__(
        self,
        log: Log,
        states: GroupStates,
        rules: RuleSet,
        listed: Mapping[str, Listed],
        *,
        end_ms: int,
        is_headless: bool,
        misplaced: Bools,
    ) -> None:
        """:param listed: the groups of cluster.json.

        :param end_ms: the moment to which the log was read.

        :param is_headless: whether the log begins before the inputs.

        :param misplaced: groups that belong to another log partition.
        """
        self._misplaced = misplaced
        self._log, self._states, self._rules = log, states, rules
        self._listed, self._end_ms = listed, end_ms
        self.is_headless, self._missing = is_headless, log.missing

    # --- groups ------------------------------------------------------------------------------

    @cached_property
    def _told(self) -> Ints:
        """The log offset of the first record that tells a group's whole state.

        GroupMetadata has all of it, a tombstone too; of a KIP-848 group each record has a part.
        -1: known from the start, MAX: never.
        """
        own = self._log.group_records
        tells = own.key_type == GROUP_METADATA
        tells |= ends_group(own) & self._rules.new_coordinator
        return self._first(tells)

    def _first(self, which: Bools) -> Ints:
        """The log offset of each group's first own record of those; -1: the log is whole."""
        if not self.is_headless:
            return np.full(self._log.size, -1)
        own, rows = self._log.group_records, np.flatnonzero(which)
        first = extreme(self._log.size, own.group[rows], own.log_offset[rows], least=True)
        return np.where(first == NONE, MAX, first)

    @cached_property
    def _born(self) -> Ints:
        """The log offset of each group's first tombstone: later lives are here whole."""
        return self._first(ends_group(self._log.group_records))

    @cached_property
    def _again(self) -> tuple[Ints, Ints, Bools]:
        """Group, log offset and whether a classic group's topics may be others than these say.

        Its coordinator has those of the generation's first record, which is in no input. A load of
        the partition, with a new leader epoch, takes those of the newest record.
        """
        own, moved = self._log.group_records, self._log.moves[0]
        rows = np.flatnonzero(own.key_type == GROUP_METADATA)
        rows = rows[np.argsort(own.group[rows], kind="stable")]
        runs, members = Runs(own.group[rows]), np.where(own.tombstone, 0, own.members)[rows]
        generation = own.generation[rows]
        goes_on = (runs.lag(generation, NONE) == generation) & (runs.lag(members, 0) > 0)
        first = np.maximum.accumulate(np.where(goes_on & (members > 0), 0, np.arange(len(rows))))
        again = own.is_again[rows][first] & (members > 0) & (not self._log.is_complete)
        place = np.concatenate([own.log_offset[rows], *([moved] * self._log.size)])
        group = np.concatenate([own.group[rows], np.repeat(np.arange(self._log.size), len(moved))])
        again = np.concatenate([again, np.zeros(len(place) - len(rows), dtype=np.bool_)])
        order = np.lexsort((place, group))
        return group[order], place[order], again[order]

    def topics(self, group: Ints, position: Ints) -> Bools:
        """Whether the topics that groups subscribe to just before positions are unknown."""
        groups, places, again = self._again
        if not again.any():
            return np.zeros(len(group), dtype=np.bool_)
        place = as_of(groups, places, group, position, before=True)
        return np.asarray((place >= 0) & np.append(again, False)[place], dtype=np.bool_)

    @cached_property
    def _topics_now(self) -> Bools:
        """Whether each group's topics at the end of the log are unknown."""
        return self.topics(np.arange(self._log.size), np.full(self._log.size, MAX))

    @cached_property
    def _partly(self) -> Bools:
        """Groups with a member, but maybe with more than are here."""
        latest = self._states.latest
        has_member = self._states.groups.known[latest] & (self._states.ints("members")[latest] > 0)
        classic = self._states.groups.type[latest] == rc.TYPE[r.TYPE_CLASSIC]
        found = (self._told == MAX) & has_member & ~classic & self._rules.new_coordinator
        return np.asarray(found, dtype=np.bool_)

    @cached_property
    def has_own(self) -> Bools:
        """Whether the last own record of each group shows its state."""
        states = self._states
        generation = states.ints("generation")[states.latest]
        return np.asarray(states.groups.known[states.latest] & (generation != NONE), dtype=np.bool_)

    @cached_property
    def _bereft(self) -> Bools:
        """Groups of which tombstones of offsets are last, where commits may be superseded.

        A commit makes a group without a record of its own. When its offsets are deleted, it stays
        until a check writes its tombstone (``GroupCoordinatorShard.cleanupGroupMetadata``).
        """
        log, own, size = self._log, self._log.group_records, self._log.size
        if log.is_complete or not self._rules.new_coordinator:
            return np.zeros(size, dtype=np.bool_)
        offset = extreme(size, log.keys.group[log.offsets.key], log.offsets.log_offset)
        last = extreme(size, own.group, own.log_offset)
        return np.asarray((offset > last) & ~self._states.groups.known[self._states.latest])

    @cached_property
    def _untold(self) -> Bools:
        """Groups whose state now no record tells."""
        size, missing = self._log.size, self._missing
        untold = np.full(size, bool(missing & missing_data.GROUPS))
        if self._rules.new_coordinator and missing & missing_data.NEW_GROUPS:
            untold |= ~self.has_own
        if self._rules.new_coordinator and missing & missing_data.TIMES:
            # Whether a commit came before its group's tombstone, which makes it an orphan.
            own = self._log.group_records
            ended = np.zeros(size, dtype=np.bool_)
            ended[own.group[ends_group(own)]] = True
            untold |= ended & ~self.has_own
        return untold | ((self._told == MAX) & ~self._partly) | self._bereft | self._misplaced

    @cached_property
    def listed(self) -> dict[int, Listed]:
        """What cluster.json says of those."""
        if not self._listed:
            return {}
        names = self._log.groups.to_pylist()
        rows = np.flatnonzero(self._untold & ~self._misplaced).tolist()
        return {row: self._listed[names[row]] for row in rows if names[row] in self._listed}

    @cached_property
    def groups(self) -> Bools:
        """Groups whose state the records can't tell; a simple one of cluster.json is known."""
        found = self._untold.copy()
        simple = (r.TYPE_CLASSIC, r.STATE_EMPTY, "")
        found[[row for row, told in self.listed.items() if told == simple]] = False
        return found

    @cached_property
    def members(self) -> Bools:
        """Groups whose number of members is unknown."""
        return self.groups | self._partly

    def kinds(self, group: Ints, kind: Ints, state: Ints) -> tuple[Any, Any]:
        """Types and states of groups in words, by records or by cluster.json; null: unknown."""
        unknown = self.groups[group]
        columns = (kind, rc.TYPES), (state, rc.STATES)
        texts = [decode_texts(np.where(unknown, -1, code), names) for code, names in columns]
        rows = np.flatnonzero(unknown).tolist() if self.listed else []
        if rows:
            for at, column in enumerate(texts):
                words = column.to_pylist()
                for row in rows:
                    words[row] = self.listed.get(int(group[row]), (None, None))[at]
                texts[at] = pa.array(words, pa.string())
        return texts[0], texts[1]

    def protocols(self, own: Any) -> Any:
        """The protocol type of every group, by records (``own``) or by cluster.json."""
        if not self.groups.any() and not self.listed:
            return own
        told = zip(own.to_pylist(), self.groups.tolist(), strict=True)
        words = [None if unknown else name for name, unknown in told]
        for row, (_, _, name) in self.listed.items():
            words[row] = name
        return pa.array(words, pa.string())

    def since_ms(self, group: Ints, state: Ints) -> Ints:
        """Since when groups are in these states; NONE: unknown.

        What a record says is known; when it was written says something only if none is missing.
        """
        states = self._states
        if self._missing & missing_data.STATE_TIMES:
            return np.full(len(group), NONE)
        if self._missing & missing_data.TIMES or not self._log.is_complete:
            since = np.where(self.has_own[group], states.groups.since_ms[state], NONE)
        else:
            since = states.since_ms(state)
        return np.where(self.groups[group], NONE, since)

    # --- offsets -----------------------------------------------------------------------------

    def subscribed(self, group: Ints, seen: rc.Group, subscribed: Ints) -> Ints:
        """``subscribed`` of offsets of these groups, UNKNOWN where it can't be told."""
        if self._missing & missing_data.SUBSCRIPTIONS:
            subscribed = np.where(seen.known & (seen.state == _EMPTY), subscribed, rc.UNKNOWN)
        unknown = self._partly[group] & (subscribed != rc.YES)
        unknown |= self._topics_now[group]
        found = np.where(self.groups[group] | unknown, rc.UNKNOWN, subscribed)
        for row, (_, state, _) in self.listed.items():
            found[(group == row) & (state == r.STATE_EMPTY)] = rc.NO
        return found

    def rule(
        self,
        group: Ints,
        state: Ints,
        due_ms: Ints,
        held: Bools,
        *,
        commit_ms: Ints,
        expire_ms: Ints,
    ) -> Bools:
        """Of which offsets neither rule nor date can be told.

        :param held: whether a member is known to subscribe to the topic.
        """
        missing, rules = self._missing, self._rules
        unknown = np.full(len(group), bool(missing & missing_data.COMMIT_TIMES))
        if rules.fixed_at_commit:
            early = (due_ms != NONE) & (due_ms < commit_ms)
            return unknown | (early & bool(missing & missing_data.TIMES))
        seen = rc.as_seen_by(rules, self._states.groups.at(state))
        is_empty = seen.known & (seen.state == _EMPTY)
        own = self.has_own[group]
        protocol = np.where(own, self._states.groups.protocol[state], rc.SIMPLE)
        unknown |= self.groups[group] | (self._partly[group] & ~held)
        unknown |= self._topics_now[group] & rules.reads_subscriptions
        unknown |= self.date(group, due_ms)
        if missing & missing_data.SUBSCRIPTIONS:
            consumes = (protocol == rc.CONSUMER) | (seen.type != rc.TYPE[r.TYPE_CLASSIC])
            unknown |= ~is_empty & consumes & rules.reads_subscriptions
        if missing & missing_data.STATE_TIMES:
            own_time = (expire_ms != NONE) & (expire_ms != -1)
            unknown |= is_empty & (protocol != rc.SIMPLE) & ~own_time
        return unknown

    def pending(self, pending: Bools) -> Bools:
        """Of which offsets it is unknown whether a transaction is about to change them."""
        if self._missing & missing_data.TRANSACTIONS:
            return np.ones_like(pending)
        return ~pending & self.is_headless

    # --- removals ----------------------------------------------------------------------------

    def before(self, group: Ints, position: Ints) -> Bools:
        """Whether the groups' states just before positions are unknown."""
        return np.asarray(position <= self._told[group], dtype=np.bool_)

    def date(self, group: Ints, at_ms: Ints) -> Bools:
        """Which dates may have been later: until a record, something else protected the offset.

        All records are older than the end of the log, so what is due later than that is certain.
        """
        lacks = _PROTECTION | (missing_data.NEW_GROUPS * self._rules.new_coordinator)
        until = self._end_ms if self._missing & lacks else self._protected_ms[group]
        return np.asarray((at_ms != NONE) & (at_ms <= until), dtype=np.bool_)

    @cached_property
    def _protected_ms(self) -> Ints:
        """Until when records that are in no input may have protected each group's offsets.

        The record that replaced them is here: GroupMetadata is replaced as a whole, the records of
        a KIP-848 group one by one.
        """
        own, size = self._log.group_records, self._log.size
        if self._log.is_complete:
            return np.full(size, NONE)
        classic = own.key_type == GROUP_METADATA
        first = extreme(size, own.group[classic], own.at_ms[classic], least=True)
        first = np.maximum(first, self._untold_until_ms)
        return np.maximum(first, extreme(size, own.group[~classic], own.at_ms[~classic]))

    @cached_property
    def _untold_until_ms(self) -> Ints:
        """Until when unknown topics may have protected each group's offsets."""
        found, own = np.full(self._log.size, NONE), self._log.group_records
        group, _, again = self._again
        some = np.unique(group[again])
        if some.size:
            here = np.isin(own.group, some) & (own.key_type == GROUP_METADATA)
            found = extreme(self._log.size, own.group[here], own.at_ms[here])
        return found

    def blind(self) -> bool:
        """Whether no removal has a cause that can be told."""
        lacks = missing_data.BLIND | (missing_data.NEW_GROUPS * self._rules.new_coordinator)
        return bool(self._missing & lacks)

    def goes_on(self, group: Ints, position: Ints) -> Bools:
        """Whether a later record of the groups may hide that they were converted."""
        own, size = self._log.group_records, self._log.size
        last = extreme(size, own.group, own.log_offset)[group]
        may = self._rules.new_coordinator and not self._log.is_complete
        return np.asarray((last > position) & may, dtype=np.bool_)

    def contents(self, group: Ints, position: Ints) -> Bools:
        """Whether the groups may have had more offsets before positions than are here."""
        return np.asarray(position <= self._born[group], dtype=np.bool_) & self.is_headless
