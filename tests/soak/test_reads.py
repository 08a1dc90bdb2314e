"""``list`` and ``describe`` through damaged connections: what is missing is named."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.soak.cases import BEFORE, PARTITIONS, RECORDS, TOPIC
from tests.soak.judge import MOST_REQUESTS, SLACK_SECONDS
from tests.soak.soak import make_topic
from tests.support import clients, faulty
from tests.support.faulty import client_config
from tests.support.proxy import KINDS, Fault, Plan, Proxies
from tests.support.warm_kgtool import Run, Warm

pytestmark = [pytest.mark.broker, pytest.mark.timed]

TIMEOUT_MS = 2500
GROUPS = [f"read-{number}" for number in range(4)]


@pytest.mark.starts_first
def test_what_is_damaged_is_told(tmp_path: Path) -> None:
    seed = int(os.environ.get("KGTOOL_SEED") or random.SystemRandom().randrange(10**9))
    kafka = faulty.shared()
    make_topic(kafka.cluster.bootstrap)
    for group in GROUPS:
        clients.commit(kafka.cluster.bootstrap, group, BEFORE)
    rng = random.Random(seed)
    cases = [(kind, command) for kind in KINDS for command in ("list", "describe")]
    ats = [rng.choice((0, 1, 1, 2, 3)) for _ in cases]
    with kafka.proxies() as proxies, ThreadPoolExecutor(4) as pool:
        work = [
            pool.submit(look, tmp_path, proxies, f"read-{seed}-{number}", *case, at)
            for number, (case, at) in enumerate(zip(cases, ats, strict=True))
        ]
        found = [each.result(600) for each in work]
    bad = [f"KGTOOL_SEED={seed}\n{run}\n{problems}" for run, _, problems in found if problems]
    assert not bad, "\n\n".join(bad)
    assert sum(struck > 0 for _, struck, _ in found) > len(cases) // 2


def look(
    folder: Path, proxies: Proxies, name: str, kind: str, command: str, at: int
) -> tuple[Run, int, list[str]]:
    """Run a command while one broker's answers are damaged; say what is wrong with it."""
    plan = Plan(*(Fault(kind, broker, at=at, times=99) for broker in (1, 2)))
    proxies.plans[name] = plan
    warm = Warm(folder / name)
    try:
        run = warm.run(
            command,
            "--match",
            "read-?",
            "--bootstrap-server",
            proxies.bootstrap,
            "-o",
            "json",
            "--timeout",
            str(TIMEOUT_MS),
            "--command-config",
            client_config(folder, name),
            journal=folder / "journal",
        )
    finally:
        warm.close()
    return run, plan.struck, [*problems_of(run, command, len(proxies.trace.pop(name, [])))]


def problems_of(run: Run, command: str, requests: int) -> Iterator[str]:
    document = run.document
    if run.seconds > TIMEOUT_MS / 1000 + SLACK_SECONDS:
        yield f"took {run.seconds:.1f} s"
    if requests > MOST_REQUESTS:
        yield f"{requests} requests"
    if "Traceback" in run.err or run.status not in (0, 1, 3, 4):
        yield f"status {run.status}"
    rows, errors = document["results"], document["errors"]
    if (run.status == 0) != (not errors):
        yield f"status {run.status} with {len(errors)} errors"
    if bool(rows) != (run.status in (0, 3)):
        yield f"status {run.status} with {len(rows)} rows"
    excused = {error["target"]["group"] for error in errors}
    for group in GROUPS:
        mine = [row for row in rows if row["group"] == group]
        if command == "list":
            wrong = [row for row in mine if (row["type"], row["state"]) != ("classic", "Empty")]
            is_whole = bool(mine)
        else:
            wrong = [row for row in mine if not _is_true(row, bool({group, None} & excused))]
            is_whole = len(mine) == PARTITIONS
        yield from (f"a wrong row: {row}" for row in wrong)
        if not is_whole and not {group, None} & excused:
            yield f"{group} is missing, and nothing says why"


def _is_true(row: dict[str, Any], is_excused: bool) -> bool:
    offset = BEFORE.get((row["topic"], row["partition"]))
    if row["status"] in ("ok", "no-commit"):
        lag = None if offset is None else RECORDS - offset
        expected = ("no-commit" if offset is None else "ok", offset, lag)
        return (row["status"], row["current_offset"], row["lag"]) == expected
    return is_excused and row["current_offset"] in (offset, None) and row["topic"] == TOPIC
