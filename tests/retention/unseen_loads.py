"""What can be told where no log shows a load: the restart of a single broker (an oracle).

The plain replay decides, once without such a load and once with one behind each record of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from kgtool.records import Record
from kgtool.records.types import GROUP_METADATA
from kgtool.retention.history import Entry, History, Key
from kgtool.retention.rules import RULE_LIVE_GROUP, RULES_2_5, RULES_2_6, RULES_2_6_ANY, RuleSet

Told = tuple[str | None, int | None]
"""Rule and date; a rule of None: unknown."""
DUE: Told = ("due", None)
"""By all of them it is due now."""


def told(
    entries: Sequence[Entry], rules: RuleSet, retention_ms: int, *, slack_ms: int = 1_000
) -> dict[Key, Told]:
    """What can be told of each offset after these records.

    :param slack_ms: dates as near as that are as good as one.
    """
    dates: dict[Key, list[tuple[int | None, str]]] = {}
    rules_of: dict[Key, set[str]] = {}
    own = [at for at, entry in enumerate(entries) if _is_own(entry) and not rules.shows_loads]
    # A broker that is some 2.6 keeps the date, or is 2.6.0.
    either = [rules] if rules != RULES_2_6_ANY else [RULES_2_6, RULES_2_5]
    for place, known in product([None, *own], either):
        history = History(known, retention_ms)
        for at, entry in enumerate(entries):
            history.feed(entry)
            if at == place:
                history.load(entry.partition, entry.timestamp_ms)
        for each in history.live():
            dates.setdefault(each.key, []).append((each.expires_at_ms, each.verdict.rule))
            if not (each.is_pending and known.pending_protects_offset):
                rules_of.setdefault(each.key, set()).add(each.verdict.rule)
    end_ms = entries[-1].timestamp_ms
    # Where the topics may be unknown after a load, or become known, nothing is told of any.
    mixed = {key for key, some in rules_of.items() if RULE_LIVE_GROUP in some and len(some) > 1}
    return {
        key: (None, None) if key in mixed else _agreed(found, end_ms, slack_ms)
        for key, found in dates.items()
    }


def _is_own(entry: Entry) -> bool:
    return isinstance(entry.record, Record) and entry.record.type == GROUP_METADATA


def _agreed(found: list[tuple[int | None, str]], end_ms: int, slack_ms: int) -> Told:
    """The earliest, if they agree."""
    dates = [at for at, _ in found if at is not None]
    if not dates:
        return found[0][::-1]
    if len(dates) == len(found) and max(dates) <= end_ms:
        return found[0][::-1] if len(set(dates)) == 1 else DUE
    if len(dates) < len(found) or max(dates) - min(dates) > slack_ms:
        return None, None
    return found[dates.index(min(dates))][::-1]
