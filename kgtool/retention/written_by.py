"""Which brokers wrote a log, as far as its records prove it: types and value versions.

Up to 2.0 brokers write offsets as version 1 with their expire timestamp; 2.1 to 4.0 as version 3,
later ones as version 4, or as version 3 where they don't know the topic's id. GroupMetadata is of
version 2 in 2.1 and 2.2, of version 3 from 2.3 on. A record of KIP-848 and what followed is the
new coordinator's. (OffsetCommitValue.json,
GroupMetadataValue.json, ``GroupMetadataManager.offsetCommitValue``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kgtool.records import types
from kgtool.retention import rules as r
from kgtool.retention.rules import RuleSet

UNDATED = 15
"""Version 1 without an expire timestamp counts as this version."""
_WITHOUT_TOPIC_ID = 3
Release = tuple[int, int]
_FIRST, _LAST = (0, 8), (99, 0)
_RANGES: dict[str, tuple[Release, Release]] = {
    r.RULES_PRE_2_1.name: (_FIRST, (2, 0)),
    r.RULES_2_1.name: ((2, 1), (2, 3)),
    r.RULES_2_4.name: ((2, 4), (3, 9)),
    r.RULES_3_7_NEW.name: ((3, 7), (3, 7)),
    r.RULES_3_8_NEW.name: ((3, 8), (4, 0)),
    r.RULES_4_1.name: ((4, 1), _LAST),
}
_OFFSETS: dict[int, tuple[Release, Release]] = {
    0: (_FIRST, (2, 0)),
    2: ((2, 1), (2, 1)),
    3: ((2, 1), (4, 0)),
    4: ((4, 1), _LAST),
}
"""Of version 1: any broker, if a client asked for a retention."""
_GROUPS: dict[int, tuple[Release, Release]] = {
    0: (_FIRST, (2, 0)),
    1: (_FIRST, (2, 0)),
    2: ((2, 1), (2, 2)),
    3: ((2, 3), _LAST),
}
_LIKELY = (r.RULES_4_1, r.RULES_2_4, r.RULES_3_8_NEW, r.RULES_3_7_NEW, r.RULES_2_1, r.RULES_PRE_2_1)
"""What to assume first: up to 3.9 the Scala coordinator is the default."""


class Written(NamedTuple):
    """Records of one type and version in a log partition."""

    partition: int
    key_type: int
    version: int
    first_ms: int
    last_ms: int

    @property
    def range(self) -> tuple[Release, Release] | None:
        """The first and last release that writes them; None: all do."""
        if self.key_type in types.OFFSET_TYPES:
            return _OFFSETS.get(self.version)
        if self.key_type == types.GROUP_METADATA:
            return _GROUPS.get(self.version)
        return ((4, 1) if self.key_type in types.STREAMS_TYPES else (3, 7), _LAST)

    @property
    def has_topic_id(self) -> bool:
        """Whether they are offsets with their topic's id."""
        return self.key_type in types.OFFSET_TYPES and self.version == _WITHOUT_TOPIC_ID + 1

    @property
    def is_modern(self) -> bool:
        """Whether only the new coordinator writes them."""
        return self.key_type not in (*types.OFFSET_TYPES, types.GROUP_METADATA)

    def is_of(self, rules: RuleSet) -> bool:
        """Whether brokers with these rules may have written them."""
        span = self.range
        if span is None:
            return True
        low, high = _RANGES[rules.name]
        if self.is_modern and not rules.new_coordinator:
            return False
        return span[0] <= high and low <= span[1]

    def is_before(self, rules: RuleSet) -> bool:
        """Whether only older brokers than these write them."""
        return self.range is not None and self.range[1] < _RANGES[rules.name][0]


def likely_rules(kinds: Sequence[Written]) -> RuleSet | None:
    """The rules to assume for the brokers that wrote the newest records; None: nothing tells."""
    offsets = [each for each in kinds if each.key_type in types.OFFSET_TYPES]
    groups = [each for each in kinds if each.key_type == types.GROUP_METADATA]
    newest = [*_newest(offsets), *_newest(groups), *(each for each in kinds if each.is_modern)]
    if not newest:
        # Only brokers up to 2.0 give every offset an expire timestamp.
        return r.RULES_PRE_2_1 if offsets else None
    for rules in _LIKELY:
        if all(each.is_of(rules) for each in newest):
            return rules
    return None


def _newest(kinds: Iterable[Written]) -> list[Written]:
    """The newest of those that tell something; of offsets with a topic id, whatever their time."""
    telling = [each for each in kinds if each.range is not None]
    if not telling:
        return []
    return [max(telling, key=lambda each: (each.has_topic_id, each.last_ms, each.version))]


def older_until_ms(kinds: Sequence[Written], rules: RuleSet) -> dict[int, int]:
    """When each log partition last got a record that only older brokers than these write."""
    found: dict[int, int] = {}
    with_id = {each.partition: each.first_ms for each in kinds if each.has_topic_id}
    for each in kinds:
        last_ms = each.last_ms
        if each.key_type in types.OFFSET_TYPES and each.version == _WITHOUT_TOPIC_ID:
            # Proof of an older broker only before the first with a topic id.
            if each.first_ms >= min(with_id.values(), default=each.first_ms):
                continue
            last_ms = min(last_ms, with_id.get(each.partition, last_ms))
        if each.is_before(rules):
            found[each.partition] = max(found.get(each.partition, last_ms), last_ms)
    return found
