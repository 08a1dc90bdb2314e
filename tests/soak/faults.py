"""Seeded runs of kgtool through proxies that damage what brokers say, and what must hold of each.

Every run ends inside its time, with the exit status that its document earns, and the document
tells exactly what was done: confluent-kafka looks, past the proxies, at what is there afterwards.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import clients
from tests.support.faulty import FaultyKafka, Run, client_config, kgtool
from tests.support.proxy import KINDS, Fault, Plan, Proxies

TOPIC = "soak"
PARTITIONS = 4
RECORDS = 10
BEFORE = {(TOPIC, 0): 3, (TOPIC, 1): 4}
GROUPS = 4
SLACK_SECONDS = 5.0
"""For Python to start and end on a machine that has other things to do."""

MOST_REQUESTS = 150
"""For three brokers and four groups: a handful where all is well, a few a second where it isn't."""

COMMANDS = ("list", "describe", "delete", "delete-offsets", "reset-offsets")
BAD = ("failed", "unknown", "changed-meanwhile")
UNKNOWN = "OUTCOME_UNKNOWN"
"""The name of an error that leaves open whether a change was made."""


class Case(NamedTuple):
    """One run: reproducible from its seed."""

    seed: int
    command: str
    faults: tuple[Fault, ...]
    timeout_ms: int

    @property
    def name(self) -> str:
        return f"soak-{self.seed}"

    @property
    def groups(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(GROUPS)]

    def __str__(self) -> str:
        faults = "; ".join(
            f"{f.kind} on broker {f.broker} after {f.at} answers, {f.times} times"
            for f in self.faults
        )
        return f"seed {self.seed}: {self.command} with {faults}"


class Verdict(NamedTuple):
    """How a run went; ``problems`` is empty where all is as promised."""

    case: Case
    run: Run | None
    requests: int
    problems: list[str]

    @property
    def is_good(self) -> bool:
        return not self.problems


def draw(seed: int) -> Case:
    """Make up a run; seeds that follow each other go through all kinds and commands."""
    rng = random.Random(seed)
    command = COMMANDS[seed % len(COMMANDS)]
    kind = KINDS[seed // len(COMMANDS) % len(KINDS)]
    brokers = rng.sample((1, 2, 3), rng.choice((1, 1, 1, 2, 3)))
    faults = tuple(
        Fault(
            kind if number == 0 else rng.choice(KINDS),
            broker,
            at=rng.choice((0, 1, 1, 1, 2, 2, 3, 4)),
            times=rng.choice((1, 1, 2, 99)),
            seed=rng.randrange(1 << 30),
        )
        for number, broker in enumerate(brokers)
    )
    return Case(seed, command, faults, rng.choice((2000, 2500, 3000)))


def arguments(case: Case) -> list[str]:
    """The command line of a run, without the connection."""
    match = ["--match", f"{case.name}-*"]
    named = [word for group in case.groups for word in ("--group", group)]
    chosen = match if case.seed % 3 == 0 else named
    return {
        "list": ["list", *match],
        "describe": ["describe", *chosen],
        "delete": ["delete", "--yes", *chosen],
        "delete-offsets": ["delete-offsets", "--yes", *chosen, "--topic", f"{TOPIC}:0"],
        "reset-offsets": [
            "reset-offsets", *named, "--topic", f"{TOPIC}:0", "--to-offset", "9", "--execute",
            "--yes",
        ],
    }[case.command]  # fmt: skip


class Soak:
    """Runs cases; safe to use from several threads."""

    def __init__(self, kafka: FaultyKafka, proxies: Proxies, folder: Path) -> None:
        self._bootstrap = kafka.cluster.bootstrap
        self._proxies = proxies
        self._folder = folder

    def prepare(self) -> None:
        """Make the topic, where it is not there yet."""
        client = clients.admin(self._bootstrap)
        if TOPIC not in client.list_topics(timeout=10).topics:
            clients.create_topic(self._bootstrap, TOPIC, PARTITIONS, replication=3)
            for partition in range(PARTITIONS):
                clients.produce(self._bootstrap, TOPIC, RECORDS, partition=partition)

    def __call__(self, case: Case) -> Verdict:
        for group in case.groups:
            clients.commit(self._bootstrap, group, BEFORE)
        plan = Plan(*case.faults)
        self._proxies.plans[case.name] = plan
        connection = [
            "--bootstrap-server", self._proxies.bootstrap, "--timeout", str(case.timeout_ms),
            "--command-config", client_config(self._folder, case.name), "-o", "json",
        ]  # fmt: skip
        journal = {"KGTOOL_JOURNAL_DIR": str(self._folder / case.name)}
        try:
            run = kgtool(*arguments(case), *connection, limit=60.0, environ=journal)
        except subprocess.TimeoutExpired as error:
            return Verdict(case, None, 0, [f"it did not end: {error}"])
        requests = sum(self._proxies.requests.get(case.name, {}).values())
        now = {group: clients.committed(self._bootstrap, group) for group in case.groups}
        problems = problems_of(case, run, requests, now)
        self._proxies.plans.pop(case.name)
        return Verdict(case, run, requests, problems)


def run_all(soak: Soak, seeds: Iterable[int], threads: int = 6) -> Iterator[Verdict]:
    """Run cases side by side: most of their time is waiting."""
    soak.prepare()
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(soak, map(draw, seeds))


# ---------------------------------------------------------------------------------------------
# What must hold


def problems_of(
    case: Case, run: Run, requests: int, now: dict[str, dict[tuple[str, int], int]]
) -> list[str]:
    """Return what is wrong with a run; ``now`` is what its groups have committed afterwards."""
    problems = [*_of_ending(case, run), *_of_storm(requests)]
    return problems or list(_CHECKS[case.command](case, run, now))


def _of_ending(case: Case, run: Run) -> Iterator[str]:
    limit = case.timeout_ms / 1000 + SLACK_SECONDS
    if run.seconds > limit:
        yield f"took {run.seconds:.1f} s, more than {limit:.1f} s"
    if run.status not in (0, 1, 3, 4):
        yield f"exit status {run.status}"
    for bad in ("Traceback", "fault of kgtool"):
        if bad in run.stderr:
            yield f"{bad!r} on stderr"
    try:
        yield from _of_document(case, run, run.document)
    except ValueError:
        yield "stdout is no JSON document"


def _of_document(case: Case, run: Run, document: Any) -> Iterator[str]:
    if document["command"] != case.command:
        yield f"the document is of {document['command']}"
    for error in document["errors"]:
        if not error["message"] or not error["name"]:
            yield f"an error without words: {error}"
    if (run.status == 0) != (not document["errors"]):
        yield f"status {run.status} with {len(document['errors'])} errors"
    if run.status == 0 and any(row.get("status") in BAD for row in document["results"]):
        yield "status 0, but a row has failed"


def _of_storm(requests: int) -> Iterator[str]:
    """Kafka's own tool made 18,510 requests in 4 s for a partition that was not there."""
    if requests > MOST_REQUESTS:
        yield f"{requests} requests"


def _of_status(run: Run, done: int) -> Iterator[str]:
    """0: all; 3: some; 1 and 4: none, 4 if nobody could be reached."""
    errors = run.document["errors"]
    if run.status == 3 and not done:
        yield "status 3, but nothing was done"
    if run.status in (1, 4) and done:
        yield f"status {run.status}, but {done} items were done"
    if run.status == 4 and any(error["code"] is not None for error in errors):
        yield "status 4, but a broker has answered"


def _rows(run: Run, group: str) -> list[dict[str, Any]]:
    return [row for row in run.document["results"] if row["group"] == group]


def _errors(run: Run) -> list[dict[str, Any]]:
    errors: list[dict[str, Any]] = run.document["errors"]
    return errors


def _is_excused(run: Run, group: str) -> bool:
    """Whether an error says why something about a group is missing."""
    for error in _errors(run):
        target = error["target"]
        if target["group"] == group or target["group"] is None:
            return True
    return False


def _check_list(case: Case, run: Run, _now: dict[str, Any]) -> Iterator[str]:
    for group in case.groups:
        rows = _rows(run, group)
        if not rows and not _is_excused(run, group):
            yield f"{group} is missing, and nothing says why"
        for row in rows:
            if (row["type"], row["state"]) != ("classic", "Empty"):
                yield f"a wrong row: {row}"
    yield from _of_status(run, len(run.document["results"]))


def _check_describe(case: Case, run: Run, _now: dict[str, Any]) -> Iterator[str]:
    for group in case.groups:
        rows = {(row["topic"], row["partition"]): row for row in _rows(run, group)}
        if rows.keys() != BEFORE.keys() and not _is_excused(run, group):
            yield f"rows of {group} are missing, and nothing says why"
        for at, row in rows.items():
            if at not in BEFORE or row["current_offset"] not in (BEFORE[at], None):
                yield f"a wrong row: {row}"
            elif row["status"] == "ok":
                if (row["current_offset"], row["lag"]) != (BEFORE[at], RECORDS - BEFORE[at]):
                    yield f"a wrong row: {row}"
            elif not _is_excused(run, group):
                yield f"a row that is {row['status']}, and nothing says why: {row}"
    yield from _of_status(run, len(run.document["results"]))


def _check_delete(case: Case, run: Run, now: dict[str, Any]) -> Iterator[str]:
    done = 0
    for group in case.groups:
        rows = _rows(run, group)
        if not rows:
            if not _is_excused(run, group):
                yield f"{group} is missing, and nothing says why"
            if now[group] != BEFORE:
                yield f"{group} was changed, and has no row: {now[group]}"
        for row in rows:
            done += row["status"] == "deleted"
            yield from _of_change(group, row, "deleted", now[group], BEFORE, {})
    yield from _of_status(run, done)


def _check_delete_offsets(case: Case, run: Run, now: dict[str, Any]) -> Iterator[str]:
    after = {(TOPIC, 1): BEFORE[TOPIC, 1]}
    yield from _check_partition(case, run, now, ("deleted",), after)


def _check_reset(case: Case, run: Run, now: dict[str, Any]) -> Iterator[str]:
    yield from _check_partition(case, run, now, ("reset",), {**BEFORE, (TOPIC, 0): 9})


def _check_partition(
    case: Case, run: Run, now: dict[str, Any], good: tuple[str, ...], after: dict[Any, int]
) -> Iterator[str]:
    done = 0
    for group in case.groups:
        rows = _rows(run, group)
        if not rows:
            if not _is_excused(run, group):
                yield f"{group} is missing, and nothing says why"
            if now[group] != BEFORE and not _is_unknown(run, group):
                yield f"{group} was changed, and has no row: {now[group]}"
        for row in rows:
            done += row["status"] in good
            yield from _of_change(group, _with_error(run, row), good[0], now[group], BEFORE, after)
    yield from _of_status(run, done)


def _with_error(run: Run, row: dict[str, Any]) -> dict[str, Any]:
    """Rows of some commands have no error of their own: it is in the document's list."""
    if row.get("error") or row["status"] not in BAD:
        return row
    for error in _errors(run):
        target = error["target"]
        if target["group"] == row["group"] and target["partition"] in (None, row["partition"]):
            return {**row, "error": error}
    return row


def _is_unknown(run: Run, group: str) -> bool:
    return any(e["name"] == UNKNOWN and e["target"]["group"] == group for e in _errors(run))


def _of_change(
    group: str, row: dict[str, Any], good: str, now: Any, before: Any, after: Any
) -> Iterator[str]:
    """Compare what a row says with what is there."""
    if row["status"] == good:
        if now != after:
            yield f"{group} is said to be {good}, but has {now}"
    elif row["status"] not in BAD:
        yield f"an odd status: {row}"
    elif not row.get("error"):
        yield f"failed, and nothing says why: {row}"
    elif row["error"]["name"] == UNKNOWN:
        if now not in (before, after):
            yield f"{group} has neither what it had nor what it was to have: {now}"
    elif now != before:
        yield f"{group} is said to have failed ({row['error']['name']}), but has {now}"


_CHECKS: dict[str, Callable[[Case, Run, dict[str, Any]], Iterator[str]]] = {
    "list": _check_list,
    "describe": _check_describe,
    "delete": _check_delete,
    "delete-offsets": _check_delete_offsets,
    "reset-offsets": _check_reset,
}
