"""What an input can't tell, as bits, and what follows from that for the tables.

Sources: the formatters of kafka.coordinator.group.GroupMetadataManager and of
org.apache.kafka.tools.consumer, kafka.tools.DumpLogSegments, and what they printed when they were
run (2.0.1 to 4.3.1) on logs that are known. A column that depends on something that is not told
stays null; nothing is guessed.
"""

from __future__ import annotations

from typing import Final

TRANSACTIONS: Final = 1
"""Which commits are transactional, and how their transactions ended."""
TIMES: Final = 2
"""When records were written, and in which order those of different kinds."""
GROUPS: Final = 4
"""The groups' own records."""
NEW_GROUPS: Final = 8
"""The records of KIP-848 consumer groups, share groups and streams groups."""
STATE_TIMES: Final = 16
"""Since when a group is Empty."""
SUBSCRIPTIONS: Final = 32
"""What members subscribe to."""
COMMIT_TIMES: Final = 64
"""When an offset was committed, and its own expire time."""
TOPIC_IDS: Final = 128
OFFSETS: Final = 256
"""The committed offsets."""
REMOVED_KEYS: Final = 512
"""Which offset or group a null value removed."""
PLACES: Final = 1024
"""At which offset of the log a record was."""

WORDS: Final = {
    OFFSETS: "committed offsets",
    REMOVED_KEYS: "which offsets and groups were removed (live has every offset ever committed)",
    GROUPS: "the groups' records (state, members, subscriptions)",
    NEW_GROUPS: "the records of KIP-848, share and streams groups",
    STATE_TIMES: "since when groups are empty",
    SUBSCRIPTIONS: "subscriptions",
    COMMIT_TIMES: "commit and expire timestamps",
    TOPIC_IDS: "topic ids",
    TRANSACTIONS: "transactions (their commits look like any others, aborted ones too)",
    TIMES: "when records were written",
    PLACES: "the records' offsets in the log",
}

BLIND: Final = GROUPS | STATE_TIMES | SUBSCRIPTIONS | COMMIT_TIMES | TIMES
"""Without one of these no cause of a removal can be told."""


HOLE: Final = GROUPS | NEW_GROUPS | STATE_TIMES | SUBSCRIPTIONS | COMMIT_TIMES | TRANSACTIONS
"""What a log partition of which the middle is missing can't tell."""


def words(missing: int) -> list[str]:
    """What is missing, in words; the parts of what is missing as a whole are left out."""
    if missing & GROUPS:
        missing &= ~(NEW_GROUPS | STATE_TIMES | SUBSCRIPTIONS)
    return [text for bit, text in WORDS.items() if missing & bit]
