"""The journals of a folder: listing, reading for an undo, and pruning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.changes.journal.folder import check_file, check_folder, is_locked
from kgtool.changes.journal.journal import (
    DONE,
    FAILED,
    INTERRUPTED,
    NO_UNDO,
    RUNNING,
    SUFFIX,
    UNDONE,
    VERSION,
    ConfigChange,
)
from kgtool.changes.journal.jsonl import (
    Malformed,
    Source,
    at_line,
    first_record,
    groups,
    number,
    record_of,
    records,
    typed,
)
from kgtool.changes.snapshot import GroupChange
from kgtool.errors import ConfigError, KgError, readable
from kgtool.held import HeldFile
from kgtool.json_rows import shown
from kgtool.protocol.codes import is_refusal

TAIL_BYTES = 64 * 1024
"""This much of a journal's end is read for its ``end`` and the marks behind it."""


class JournalEntry(NamedTuple):
    """One action: its header, the counts of changed groups and offsets, and its state.

    ``state``: ``done``, ``interrupted``, ``undone``, or ``running`` while its writer lives.
    """

    path: Path
    id: str
    at_ms: int
    command: str
    cluster_id: str | None
    groups: int
    changes: int
    state: str
    header: dict[str, Any]
    sequence: int
    """The order of the changes in a folder; 0 in journals of an older kgtool."""
    undoes: str | None
    """The id of the journal that this action has undone."""
    bootstrap_server: str | None
    """The address and the context that were used."""
    context: str | None
    file: Source
    """Its content: ``path``, or as it was held."""
    failed: int = 0
    """How many changes certainly failed."""


def entries(folder: Path, problem: Callable[[KgError], None]) -> list[JournalEntry]:
    """Return the actions of a folder, newest first; ``problem`` is called with read errors."""
    found = []
    for path in _journals(folder):
        try:
            check_file(path)
            found.append(read_entry(path))
        except KgError as error:
            problem(error)
    return sorted(found, key=lambda entry: (entry.sequence, entry.at_ms, entry.id), reverse=True)


def _journals(folder: Path) -> list[Path]:
    """Return the journals of a folder; none where it does not exist yet.

    :raises ConfigError: it can't be read (``Path.glob`` would return nothing).
    :raises NotPrivate: others may write there.
    """
    check_folder(folder)
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"Can't read the journal {folder}: {error.strerror}.") from error


def find(folder: Path, name: str) -> JournalEntry:
    """Return the action with an id or its unique beginning.

    :raises KgError: there is none, or several have that beginning.
    """
    if os.sep in name or name in ("", ".", ".."):
        raise ConfigError(f"'{name}' is not a journal ID: kgtool history shows them.")
    found = _journals(folder)
    exact = folder / f"{name}{SUFFIX}"
    paths = [exact] if exact in found else [p for p in found if p.name.startswith(name)]
    if not paths:
        raise KgError(
            f"There is no journal '{name}' in {folder}.",
            hint="kgtool history shows those of this machine; --from FILE reads one from "
            "elsewhere.",
        )
    if len(paths) > 1:
        listed = ", ".join(path.stem for path in paths[:5])
        raise ConfigError(f"Several journal IDs begin with '{name}': {listed}.")
    check_file(paths[0])
    return read_entry(paths[0])


def last(found: Iterable[JournalEntry], cluster_id: str | None) -> JournalEntry:
    """Return the action of ``undo last``: the newest one on a cluster, never an older one.

    Another ``undo last`` does not revert an undo but goes one step further into the past. An action
    of which everything failed has changed nothing.

    :param found: the newest first.
    :raises KgError: there is none, or nothing in it can be undone.
    """
    for entry in found:
        is_other = entry.cluster_id != cluster_id or entry.undoes is not None
        if is_other or entry.state == UNDONE or (entry.failed and not entry.changes):
            continue
        why = _nothing_to_undo(entry)
        if why is None:
            return entry
        raise NothingToUndo(
            f"There is nothing to undo in the last change, {entry.id} ({entry.command}): {why}.",
            hint="An older one is undone by its ID, which kgtool history shows.",
        )
    raise KgError(
        f"There is nothing to undo on the cluster {cluster_id}.",
        hint="kgtool history shows what was changed from this machine.",
    )


class NothingToUndo(KgError):
    """The newest change can't be undone."""

    name = "NOTHING_TO_UNDO"


def _nothing_to_undo(entry: JournalEntry) -> str | None:
    if entry.command in NO_UNDO:
        return NO_UNDO[entry.command].why
    return None if entry.changes else "its groups had no offsets"


def read_entry(path: Path, held: HeldFile | None = None) -> JournalEntry:
    """Read the first line and the end of a journal.

    :param held: its content, if it was read already.
    :raises ConfigError: it is not a journal, or one of a newer kgtool.
    """
    file: Source = held or path
    header = read_header(file)
    with readable(path):
        is_held = path.is_file() and is_locked(path)
        marks = _tail(file)
    ends = [mark for mark in marks if mark.get("kind") == "end"]
    if ends:
        counts = ends[-1]
        state = DONE if counts.get("state") == DONE else INTERRUPTED
    else:
        counts = readable_extent(file)._asdict()
        state = RUNNING if is_held else INTERRUPTED
    for mark in marks:
        if mark.get("kind") == "undone":
            state = UNDONE
        elif mark.get("kind") == "redone":
            state = DONE if ends and ends[-1].get("state") == DONE else INTERRUPTED
    try:
        return JournalEntry(
            path,
            typed(header, "id", str),
            number(header, "at_ms", 2**53),
            typed(header, "command", str),
            typed(header, "cluster_id", str, none=True),
            number(counts, "groups"),
            number(counts, "changes"),
            state,
            header,
            _known(header, "sequence", int) or 0,
            undoes=_known(header, "undoes", str),
            bootstrap_server=_known(header, "bootstrap_server", str),
            context=_known(header, "context", str),
            failed=_known(counts, "failed", int) or 0,
            file=file,
        )
    except (KeyError, ValueError) as error:
        raise Malformed(f"{path} is not a kgtool journal: {error}.") from error


def _known(header: dict[str, Any], key: str, kind: type) -> Any:
    """Return a value that other versions of kgtool may have omitted or written otherwise."""
    return header[key] if isinstance(header.get(key), kind) else None


def read_header(path: Source) -> dict[str, Any]:
    """Read the first line of a journal.

    :raises ConfigError: it is not a journal, or one of a newer kgtool.
    """
    header = first_record(path, "journal")
    version = header.get("kgtool_journal")
    if header.get("kind") != "journal" or not isinstance(version, int):
        raise Malformed(f"{path} is not a kgtool journal.")
    if version > VERSION:
        raise ConfigError(
            f"{path} was written by a newer kgtool (format {shown(version)}).",
            hint="Use that version of kgtool, or a newer one, to undo it.",
        )
    return header


def _tail(path: Source) -> list[dict[str, Any]]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        data = file.read(TAIL_BYTES)
    lines = data.split(b"\n")[:-1]
    found = map(record_of, lines if size <= TAIL_BYTES else lines[1:])
    return [record for record in found if record is not None]


class ReadableExtent(NamedTuple):
    """The readable part of a journal: the counts of its last ``ready`` before any damage."""

    groups: int = 0
    changes: int = 0
    damage: KgError | None = None
    is_lost: bool = False
    """Whether changes behind the damage were made, and can't be undone."""


def readable_extent(path: Source) -> ReadableExtent:
    """Find how far a journal can be read.

    :raises ConfigError: it can't be read at all.
    """
    found = ReadableExtent()
    with readable(path), path.open("rb") as file:
        for line, data in enumerate(file, 1):
            record = record_of(data)
            if record is None:
                if data.endswith(b"\n") and found.damage is None:
                    found = found._replace(damage=_damage(path, line))
            elif record.get("kind") == "ready":
                if found.damage is not None:
                    return found._replace(is_lost=True)
                try:
                    found = ReadableExtent(number(record, "groups"), number(record, "changes"))
                except (KeyError, ValueError):
                    found = found._replace(damage=_damage(path, line))
    return found


class Damaged(KgError):
    """A journal that can't be read to its end."""

    name = "JOURNAL_DAMAGED"


def _damage(path: Source, line: int) -> Damaged:
    return Damaged(
        f"The journal {path} is damaged from line {line} on; what stands before is used.",
        hint="A full disk or a crash does this.",
    )


def _whole_records(path: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a journal up to the first damage (see ``readable_extent``)."""
    return records(path, lambda _: None)


# ---------------------------------------------------------------------------------------------
# What an undo needs


class FailedItems(NamedTuple):
    """Whole groups and offsets that were not changed.

    The broker refused the change, or another client's commit was left alone.
    """

    groups: frozenset[str]
    offsets: frozenset[tuple[str, str, int]]


def failed_items(path: Source) -> FailedItems:
    """Read the items that certainly failed."""
    names: set[str] = set()
    single: set[tuple[str, str, int]] = set()
    for _, record in _whole_records(path):
        if record.get("kind") != "result" or not _has_failed(record):
            continue
        group, topic, partition = (record.get(key) for key in ("group", "topic", "partition"))
        if topic is None:
            names.add(str(group))
        elif isinstance(partition, int):
            single.add((str(group), str(topic), partition))
    return FailedItems(frozenset(names), frozenset(single))


def deleted_topics(path: Source) -> list[str]:
    """Read the internal topics that were deleted with their groups."""
    return [
        str(record["topic"])
        for _, record in _whole_records(path)
        if record.get("kind") == "result"
        and record.get("partition", 0) is None
        and record.get("status") == "deleted"
        and "topic" in record
    ]


def _has_failed(record: dict[str, Any]) -> bool:
    if "outcome" in record:
        return bool(record["outcome"] == FAILED)
    error = record.get("error")  # of an older journal, which has no outcomes
    code = error.get("code") if isinstance(error, dict) else None
    return isinstance(code, int) and is_refusal(code)


def changed_groups(path: Source) -> Iterator[GroupChange]:
    """Read the groups that an action was about to change, as far as its journal was ready.

    Records after the last ``ready`` were incomplete: no request had been sent for them.
    """
    yield from islice(groups(path, _whole_records(path)), readable_extent(path).groups)


def hidden_offsets(path: Source) -> Iterator[tuple[str, Mapping[str, int] | None]]:
    """Yield groups with offsets that are not in a journal: their number by topic, or None where
    they are unknown."""
    for _, record in _whole_records(path):
        if record.get("hidden") or record.get("blind"):
            yield str(record.get("group")), record.get("hidden")


def is_about_configs(path: Source) -> bool:
    """Whether an action changed configs of groups."""
    kinds = (record.get("kind") for _, record in _whole_records(path))
    next(kinds, None)
    return next(kinds, None) == "config"


def changed_configs(path: Source) -> list[ConfigChange]:
    """Read the configs that an action was about to change, as far as its journal was ready.

    :raises ConfigError: a line lacks something or has something of the wrong type.
    """
    ready = readable_extent(path).changes
    found: list[ConfigChange] = []
    for line, record in _whole_records(path):
        if record.get("kind") != "config" or len(found) >= ready:
            continue
        with at_line(path, line):
            group, name = typed(record, "group", str), typed(record, "name", str)
            before, after = (typed(record, key, str, none=True) for key in ("before", "after"))
            found.append(ConfigChange(group, name, before, after))
    return found


# ---------------------------------------------------------------------------------------------
# Pruning


def prune(
    found: Iterable[JournalEntry], before_ms: int
) -> tuple[list[JournalEntry], list[ConfigError]]:
    """Remove the journals of actions before a time, except of running ones."""
    removed, failed = [], []
    for entry in found:
        if entry.at_ms >= before_ms or entry.state == RUNNING:
            continue
        try:
            entry.path.unlink()
        except OSError as error:
            failed.append(ConfigError(f"Can't remove {entry.path}: {error.strerror}."))
        else:
            removed.append(entry)
    return removed, failed
