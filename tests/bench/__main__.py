"""``python -m tests.bench [PART…]``: run the measurements and print the table.

--runs N    pairs of runs of each measurement (5)
--json F    where the results are kept (build/bench.json)
--smoke     every row once, tiny, with the kgtool that is in KGTOOL_BENCH_ENV
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from tests.bench import (
    analyzing,
    at_size,
    copying,
    deleting,
    describing,
    installed,
    listing,
    living,
    recovering,
    startup,
)
from tests.bench.measure import Failed
from tests.bench.results import Result, save, table
from tests.bench.sizes import SMOKE, Sizes
from tests.bench.world import World, groups, world


def _startup(runs: int, sizes: Sizes) -> list[Result]:
    return startup.measure(runs, sizes.pairs)


def _groups(runs: int, sizes: Sizes) -> list[Result]:
    with world("groups") as here:
        _fill(here, sizes.groups, sizes.offsets)
        found = listing.measure(here, runs, sizes) + describing.measure(here, runs, sizes)
        found += copying.backup(here, runs, sizes)
        with world("many", heap="3g") as large:
            count, offsets = sizes.many
            _fill(large, count, offsets)
            found += describing.grown(here, large, max(runs // 2, 3), sizes)
            found += copying.export(large, count * offsets, runs)
    return found


def _streams(runs: int, sizes: Sizes) -> list[Result]:
    many, topics, partitions = sizes.streams
    with world("streams") as here:
        for number in range(topics):
            topic = here.topic(f"changelog-{number:02}", partitions)
            here.commit(topic, groups(many), partitions, streams=True)
        return describing.of_streams(here, runs, sizes)


def _delete(runs: int, sizes: Sizes) -> list[Result]:
    with world("delete") as here:
        return deleting.measure(here, runs, sizes)


def _top(_runs: int, sizes: Sizes) -> list[Result]:
    count, partitions, _ = sizes.living
    with world("top") as here:
        _fill(here, count, partitions)
        return living.measure(here, sizes)


def _recover(runs: int, sizes: Sizes) -> list[Result]:
    with world("recover") as here:
        return recovering.measure(here, runs, sizes)


def _size(_runs: int, sizes: Sizes) -> list[Result]:
    with world("size", heap="4g") as here:
        return at_size.measure(here, sizes)


def _analyze(runs: int, sizes: Sizes) -> list[Result]:
    return analyzing.measure(max(runs, 1), sizes.records)


def _fill(here: World, count: int, partitions: int) -> None:
    topic = here.topic("orders", partitions)
    here.commit(topic, groups(count), partitions)


PARTS: dict[str, Callable[[int, Sizes], list[Result]]] = {
    "startup": _startup,
    "groups": _groups,
    "streams": _streams,
    "delete": _delete,
    "recover": _recover,
    "top": _top,
    "size": _size,
    "analyze": _analyze,
}


def _terminated(number: int, _frame: object) -> NoReturn:
    """End as on Ctrl-C, with the brokers and workers that were started."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def main() -> int:
    """Run what was asked for; the status is 0 whatever the times say, 1 where work was wrong."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--smoke", action="store_true", help="tiny, each row once")
    given = parser.parse_args()
    unknown = [name for name in given.parts if name not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}: there are {', '.join(PARTS)}")
    signal.signal(signal.SIGTERM, _terminated)
    sizes, runs = (SMOKE, 0) if given.smoke else (Sizes(), given.runs)
    if not given.smoke:
        installed.prepare()
    results: list[Result] = []
    wrong = []
    for name in given.parts or PARTS:
        began = time.monotonic()
        print(f"measuring: {name} …", file=sys.stderr, flush=True)
        try:
            results += PARTS[name](runs, sizes)
        except (AssertionError, Failed) as error:
            wrong.append(f"{name}: the work was not done as it should be: {error}")
        print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(table(results), end="")
    about = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
    }
    save(given.json, results, about)
    missed = [result for result in results if not result.is_met]
    print(f"{len(results) - len(missed)} of {len(results)} goals met; kept in {given.json}")
    print("".join(f"{line}\n" for line in wrong), end="")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
