"""Times of commits from an earlier analysis, for logins that may not read ``__consumer_offsets``.

The output of ``kgtool analyze --table live -o json`` (or ``ndjson``), or the rows of its table
``live`` from anywhere else: ``group, topic, partition, offset, commit_timestamp_ms``, and
``state_since_ms`` where it is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.changes.cleanup.facts import TimesOf
from kgtool.errors import ConfigError, KgError
from kgtool.held import SILENT_MS, NotText, hold
from kgtool.json_rows import unique
from kgtool.model import CommittedOffset, TopicPartition
from kgtool.queries.log.commit_times import CommitTime, CommitTimes


class KnownTime(NamedTuple):
    """A commit and its time (ms since the epoch).

    ``state_since_ms``: since when the group was in its state.
    """

    offset: int
    at_ms: int
    state_since_ms: int | None = None


KnownTimes = dict[str, dict[TopicPartition, KnownTime]]


def read_file(path: Path, timeout_ms: int | None = SILENT_MS) -> KnownTimes:
    """Read a file of JSON or NDJSON.

    :raises ConfigError: it can't be read, or has something else in it.
    """
    try:
        text = hold(path, timeout_ms).text()
    except NotText as error:
        raise _not_live(path) from error
    return from_rows(path, _rows(path, text))


def _rows(path: Path, text: str) -> Iterator[Any]:
    try:
        document = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and isinstance(document.get("results"), list):
        yield from document["results"]
        return
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield json.loads(line, object_pairs_hook=unique)
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{path}, line {number}: not a JSON object, or a key appears twice."
            ) from error


def from_rows(path: Path, rows: Iterable[Any]) -> KnownTimes:
    """Read the rows of a table ``live``.

    :raises ConfigError: they are of something else.
    """
    found: KnownTimes = {}
    for row in rows:
        if not isinstance(row, Mapping):
            raise _not_live(path)
        values = [row.get(key) for key in ("partition", "offset", "commit_timestamp_ms")]
        names = [row.get(key) for key in ("group", "topic")]
        if not all(isinstance(name, str) for name in names) or not _are_numbers(values[:2]):
            raise _not_live(path)
        if _are_numbers(values[2:]):  # the text formatters of old tools omit the time
            partition = TopicPartition(str(names[1]), int(values[0] or 0))
            since = row.get("state_since_ms")
            state_since_ms = since if _are_numbers([since]) else None
            known = KnownTime(int(values[1] or 0), int(values[2] or 0), state_since_ms)
            found.setdefault(str(names[0]), {})[partition] = known
    return found


def _are_numbers(values: Iterable[Any]) -> bool:
    return all(
        isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
        for value in values
    )


def _not_live(path: Path) -> ConfigError:
    return ConfigError(
        f"{path} is not the table live of an analysis.",
        hint="kgtool analyze … --table live -o ndjson > FILE makes one.",
    )


def times_of(times: KnownTimes) -> TimesOf:
    """Return the time of a commit only where the very same offset is still committed."""

    def find(group: str, values: Mapping[TopicPartition, CommittedOffset]) -> CommitTimes | KgError:
        known = times.get(group)
        if known is None:
            return KgError("the analysis does not know the group.")
        at = {
            partition: CommitTime(found.at_ms)
            for partition, value in values.items()
            if (found := known.get(partition)) is not None and found.offset == value.offset
        }
        if len(at) < len(values):
            return KgError("it has other offsets than in the analysis.")
        changes = [each.state_since_ms for each in known.values() if each.state_since_ms]
        return CommitTimes(at, None, max(changes, default=None))

    return find
