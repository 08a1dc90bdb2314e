"""What a late run has lost: offsets under a longer rule that the broker removed since the last run.

A run within half of the broker's retention loses nothing. So the end of the log is read only where
the run before is longer ago than that; when it was, is in a small file beside the journals, one for
each file of rules and cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.changes.journal.folder import JournalError, make_folder
from kgtool.changes.journal.kept import Clock, Memory, Place
from kgtool.changes.retention.decide import UNKNOWN, RetentionRow
from kgtool.client.cluster import Cluster
from kgtool.client.ops import Operation
from kgtool.config.retention import RetentionRules, Rule
from kgtool.durable import replace
from kgtool.errors import KgError
from kgtool.model import ItemError, Target, TopicPartition
from kgtool.queries.log.gone import GoneGroup, GoneOffset, read_gone, removed_groups
from kgtool.text import moment, shell_word

SUFFIX = ".last"
LOST = "lost"


class LastRun:
    """When a file of rules was last applied to a cluster, on this machine.

    :param folder: where the journals are.
    :param name: the file's path.
    """

    def __init__(self, folder: Path, name: str, cluster_id: str | None) -> None:
        key = sha256(json.dumps([name, cluster_id]).encode()).hexdigest()[:16]
        self._folder, self._path = folder, folder / f"retention-{key}{SUFFIX}"

    def read(self) -> int | None:
        """Return the time (ms since the epoch); None: never, or it can't be told."""
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return None
        at_ms = found.get("at_ms") if isinstance(found, dict) else None
        return at_ms if isinstance(at_ms, int) else None

    def write(self, at_ms: int) -> str | None:
        """Note a run; return why that can't be done: the next one can't tell that it is late."""
        content = json.dumps({"kgtool_retention": 1, "at_ms": at_ms}).encode()
        try:
            make_folder(self._folder)
            replace(self._path, [content], mode=0o600)
        except OSError as error:
            return f"{self._path} can't be written ({error.strerror})"
        except JournalError as error:
            return error.message
        return None


class Since(NamedTuple):
    """The run before, and the broker's retention."""

    last_ms: int
    broker_ms: int

    def is_late(self, now_ms: int) -> bool:
        """Whether something may have expired that the run before did not keep."""
        return 2 * (now_ms - self.last_ms) > self.broker_ms


def find_lost(
    cluster: Cluster, rules: RetentionRules, since: Since, remember: Any, kinds: Mapping[str, str]
) -> Operation[list[RetentionRow]]:
    """Return what expired since the run before, and still is gone, under longer rules."""
    longer = {
        rule.number
        for rule in rules.rules
        if rule.retention_ms is None or rule.retention_ms > since.broker_ms
    }

    def concerns(group: str) -> bool:
        found = rules.of(group, kinds.get(group))
        return found is not None and found[0].number in longer

    names = yield from removed_groups(cluster, since.last_ms, concerns)
    read: Mapping[str, Any] = {}
    if names:
        read = yield from read_gone(cluster, sorted(names))
    gone = {
        (name, at): one
        for name, group in read.items()
        if isinstance(group, GoneGroup)
        for at, one in group.offsets.items()
        if one.cause == "expired" and (one.removed_at_ms or 0) > since.last_ms
    }
    clocks: dict[Place, Clock] = {
        place: Clock(one.value.offset, one.value.commit_timestamp) for place, one in gone.items()
    }
    matched = {group: rules.of(group, kinds.get(group)) for group, _ in gone}
    memory: Memory = remember(clocks) if clocks else Memory({}, False)
    rows = [
        _row(matched[group], group, at, one, memory.first_ms.get((group, at)))
        for (group, at), one in sorted(gone.items())
    ]
    unread = [(name, one) for name, one in sorted(read.items()) if isinstance(one, KgError)]
    rows += [
        RetentionRow(name, None, None, status=UNKNOWN, error=ItemError.of(error, Target(name)))
        for name, error in unread
    ]
    return [row for row in rows if row is not None]


def _row(
    matched: tuple[Rule, str] | None,
    group: str,
    at: TopicPartition,
    gone: GoneOffset,
    first_ms: int | None,
) -> RetentionRow | None:
    """Return the row of a lost offset; None: its retention was over."""
    assert matched is not None  # ``concerns``
    rule, glob = matched
    removed_ms = gone.removed_at_ms or 0
    counts_ms = gone.value.commit_timestamp if first_ms is None else first_ms
    if rule.retention_ms is not None and removed_ms >= counts_ms + rule.retention_ms:
        return None
    error = ItemError(
        Target(group, *at),
        None,
        "EXPIRED",
        f"Group '{group}' lost offsets: they expired {moment(removed_ms)}, before this run could "
        "keep them.",
        f"kgtool recover {shell_word(group)} restores them. Run retention more often.",
    )
    return RetentionRow(
        group, *at, glob, rule.retention_ms, None, at_ms=removed_ms, status=LOST, error=error
    )
