"""What must hold of a run, whatever happened to it.

An independent client says what is there (``now``); the journal and the output say what kgtool knows
of it. Exactly one thing is allowed that nobody wants: OffsetCommit, OffsetDelete and DeleteGroups
have no compare-and-set, so somebody else's commit may be lost that came between kgtool's look and
the request that it then sent, or while such a request was on its way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.soak.cases import BOUNDED, CHANGING, KILLS, Case
from tests.support.warm_kgtool import Run

Key = tuple[str, ...]
"""A group and what of it: topic and partition, a config's name, ``members``."""
Value = tuple[Any, ...] | None
State = dict[Key, Value]

GOOD = {"deleted", "reset", "restored", "kept", "altered", "removed", "rebuilt"}
NOTHING = {"unchanged", "not-needed", "no-offset", "skipped", "changed-meanwhile"}
BAD = {"failed", "unknown"}
UNKNOWN = "OUTCOME_UNKNOWN"
MOST_REQUESTS = 250
"""For three brokers and three groups: a handful where all is well, a few a second where not."""
SLACK_SECONDS = 1.0
OFFSET_FETCH = 9


class Event(NamedTuple):
    """A request as the proxy in front of a broker saw it."""

    at: float
    broker: int
    api: int


class Seen(NamedTuple):
    """Everything that is known of a run.

    ``before``, ``now``: what was there and what is there; ``wanted``: what the command is to bring
    about; ``foreign``: what somebody else committed during the run, ``foreign_at`` until when.
    """

    case: Case
    run: Run
    struck: int
    before: State
    wanted: State
    now: State
    journals: list[Path]
    events: list[Event]
    foreign: State = {}
    foreign_at: float | None = None


class Journal(NamedTuple):
    """What one journal's lines say: the items' values before, and what came of them."""

    header: dict[str, Any]
    before: State
    outcomes: dict[Key, str]
    is_ready: bool
    state: str


def problems_of(seen: Seen) -> list[str]:
    """Return what is wrong with a run; empty: all is as promised."""
    found = [*_of_ending(seen), *_of_storm(seen)]
    try:
        journals = [read_journal(path, seen.case.what) for path in seen.journals]
    except ValueError as error:
        return [*found, f"a journal can't be read: {error}"]
    seen = _agreed(seen, journals)
    found += _of_journals(seen, journals)
    outcomes = {key: o for journal in journals for key, o in journal.outcomes.items()}
    found += _of_values(seen, outcomes)
    if seen.case.what not in KILLS:
        found += _of_output(seen, outcomes)
    return found


def _agreed(seen: Seen, journals: list[Journal]) -> Seen:
    """Take what somebody else committed before kgtool looked at all for what was there before."""
    early = {
        key: value
        for key, value in seen.foreign.items()
        if any(journal.before.get(key) == value for journal in journals)
    }
    if not early:
        return seen
    wanted = dict(seen.wanted)
    for key, value in early.items():
        if seen.case.command in ("reset-offsets", "keep") and value and (old := wanted.get(key)):
            wanted[key] = (value[0] if seen.case.command == "keep" else old[0], value[1])
    foreign = {key: value for key, value in seen.foreign.items() if key not in early}
    return seen._replace(before={**seen.before, **early}, wanted=wanted, foreign=foreign)


def _of_ending(seen: Seen) -> Iterator[str]:
    case, run = seen.case, seen.run
    if case.what in KILLS:
        if run.status != -9:
            yield f"killed, and yet status {run.status}"
        return
    if run.status not in (0, 1, 3, 4):
        yield f"exit status {run.status}"
    for bad in ("Traceback", "bug in kgtool"):
        if bad in run.err:
            yield f"{bad!r} on stderr"
    times = 1 if case.command in BOUNDED else 3  # else: without progress
    # On a full disk nothing tells how long the run has waited for a processor.
    if case.what != "disk full" and run.seconds > times * case.timeout_ms / 1000 + SLACK_SECONDS:
        yield f"took {run.seconds:.1f} s with --timeout {case.timeout_ms}"


def _of_storm(seen: Seen) -> Iterator[str]:
    if len(seen.events) > MOST_REQUESTS:
        yield f"{len(seen.events)} requests"


# ---------------------------------------------------------------------------------------------
# The journal


def read_journal(path: Path, what: str = "") -> Journal:
    """Read the lines as anybody can; only a run that was cut short may leave a torn last one."""
    lines = path.read_bytes().split(b"\n")
    is_torn = lines.pop() != b""
    if is_torn and what not in (*KILLS, "disk full"):
        raise ValueError(f"{path.name} ends in the middle of a line")
    rows = [json.loads(line) for line in lines]
    if not rows:
        return Journal({}, {}, {}, False, "torn")
    before: State = {}
    outcomes: dict[Key, str] = {}
    for row in rows:
        if row["kind"] in ("offset", "config", "member"):
            before[_key(row)] = _value(row)
        elif row["kind"] == "result":
            keys = [k for k in before if k[0] == row["group"]] if _is_of_group(row) else [_key(row)]
            outcomes.update(dict.fromkeys(keys, row["outcome"]))
    kinds = [row["kind"] for row in rows]
    state = next((row["state"] for row in rows if row["kind"] == "end"), "interrupted")
    return Journal(rows[0], before, outcomes, "ready" in kinds, state)


def _is_of_group(row: dict[str, Any]) -> bool:
    return not {"topic", "config", "member_id"} & row.keys()


def _key(row: dict[str, Any]) -> Key:
    if row.get("topic") is not None:
        return (row["group"], row["topic"], str(row["partition"]))
    if row.get("member_id") is not None:
        return (row["group"], "members")
    return (row["group"], row.get("config") or row["name"])


def _value(row: dict[str, Any]) -> Value:
    if row["kind"] == "config":
        return None if row["before"] is None else (row["before"],)
    if row["kind"] == "member":
        return (row["member_id"],)
    # librdkafka leaves a zero byte behind metadata, and does not show it.
    return None if row["offset"] is None else (row["offset"], row["metadata"].rstrip("\0"))


def _of_journals(seen: Seen, journals: list[Journal]) -> Iterator[str]:
    """Whatever has changed has a journal that says what was there."""
    known: State = {}
    for journal in journals:
        if journal.is_ready:
            known |= {key: value for key, value in journal.before.items() if key not in known}
        is_told = seen.run.status != 0 or "is not complete" in seen.run.err
        if seen.case.what not in KILLS and journal.state != "done" and not is_told:
            yield f"status 0, but the journal ends {journal.state}"
    for key, value in _changed(seen):
        if key not in known:
            yield f"{key} is {value} now, and no journal says what it was"
        elif known[key] not in (seen.before.get(key), seen.foreign.get(key)):
            yield f"{key} was {seen.before.get(key)}, the journal says {known[key]}"


def _changed(seen: Seen) -> Iterator[tuple[Key, Value]]:
    for key in seen.before.keys() | seen.now.keys():
        value = seen.now.get(key)
        if value != seen.before.get(key) and not _is_foreign(seen, key):
            yield key, value


def _is_foreign(seen: Seen, key: Key) -> bool:
    return key in seen.foreign and seen.now.get(key) == seen.foreign[key]


# ---------------------------------------------------------------------------------------------
# The cluster


def _of_values(seen: Seen, outcomes: Mapping[Key, str]) -> Iterator[str]:
    """Compare each value with what the journal says has come of it."""
    for key in seen.before.keys() | seen.wanted.keys() | seen.now.keys():
        now, before = seen.now.get(key), seen.before.get(key)
        wanted = seen.wanted.get(key)
        outcome = outcomes.get(key, "none")
        if _is_foreign(seen, key):
            continue
        if key in seen.foreign and not _may_be_lost(seen):
            yield f"somebody else's {seen.foreign[key]} at {key} was overwritten: {now}"
        if outcome == "done" and now != wanted:
            yield f"{key} is said to be {wanted}, and is {now}"
        elif outcome == "failed" and now not in (before, seen.foreign.get(key, before)):
            yield f"{key} is said to have failed, and is {now} instead of {before}"
        elif now not in (before, wanted):
            yield f"{key} is {now}: neither {before} nor {wanted}"
        if outcome == "none" and now != before and seen.case.what not in (*KILLS, "disk full"):
            yield f"{key} was changed to {now}, and the journal has no result for it"


def _may_be_lost(seen: Seen) -> bool:
    """Whether no change was sent after a look that must have seen what somebody else did."""
    if seen.foreign_at is None or seen.case.what == "stall":
        return True  # the stalled request was on its way, and lands after all looks
    change = CHANGING[seen.case.command]
    changes = {8, 42, 47} if seen.case.command == "undo" else {change}
    looked: set[int] = set()
    for event in seen.events:
        if event.at < seen.foreign_at:
            continue
        if event.api == OFFSET_FETCH:
            looked.add(event.broker)
        elif event.api in changes and event.broker in looked:
            return False
    return True


# ---------------------------------------------------------------------------------------------
# The output


def _of_output(seen: Seen, outcomes: Mapping[Key, str]) -> Iterator[str]:
    try:
        document = seen.run.document
    except ValueError:
        yield "stdout is no JSON document"
        return
    errors = document["errors"]
    yield from (f"an error without words: {e}" for e in errors if not e["message"] or not e["name"])
    rows = document["results"]
    good = [row for row in rows if row.get("status") in GOOD]
    yield from _of_status(seen.run.status, errors, good, [row for row in rows if "status" in row])
    for row in rows:
        yield from _of_row(seen, row, outcomes)
    told = {row.get("group") for row in rows} | {error["target"]["group"] for error in errors}
    if seen.run.status == 0 or None not in told:
        yield from (f"nothing is said of {g}" for g in seen.case.groups if g not in told)


def _of_status(
    status: int, errors: list[Any], good: list[Any], rows: Iterable[dict[str, Any]]
) -> Iterator[str]:
    if (status == 0) != (not errors):
        yield f"status {status} with {len(errors)} errors"
    if status == 0 and any(row["status"] in BAD for row in rows):
        yield "status 0, but a row has failed"
    if status == 3 and not good and not any(row["status"] in NOTHING for row in rows):
        yield "status 3, but nothing was done"
    if status in (1, 4) and good:
        yield f"status {status}, but {len(good)} items were done"
    if status == 4 and any(error["code"] is not None for error in errors):
        yield "status 4, but a broker has answered"


def _of_row(seen: Seen, row: dict[str, Any], outcomes: Mapping[Key, str]) -> Iterator[str]:
    status = row.get("status")
    if status not in GOOD | NOTHING | BAD:
        yield f"an odd status: {row}"
        return
    whole = row.get("topic") is None and row.get("member_id") is None and "name" not in row
    keys = [key for key in outcomes if key[0] == row["group"]] if whole else [_key(row)]
    said = {outcomes.get(key) for key in keys} - {None}
    if status in GOOD and keys and said - {"done"}:
        yield f"a row says {status}, the journal {said}: {row}"
    if status == "failed" and "done" in said:
        yield f"a row says failed, the journal done: {row}"
    if status == "changed-meanwhile" and not seen.foreign and seen.case.what != "two":
        yield f"nobody else has changed anything: {row}"


__all__ = ["Event", "Seen", "problems_of", "read_journal"]
