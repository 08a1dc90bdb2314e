"""``recover`` beside ``explain`` of the same group, which reads the same partition of the log."""

from __future__ import annotations

import json

from kgtool.queries.cluster.offsets_partition import offsets_partition
from tests.bench.installed import KGTOOL
from tests.bench.measure import Command, Run, in_turn, peak, quiet, seconds
from tests.bench.results import Result
from tests.bench.sizes import Sizes
from tests.bench.world import World
from tests.support import clients

GROUPS = 20
LOG_PARTITIONS = 50
PARTITIONS = 100


def measure(world: World, runs: int, sizes: Sizes) -> list[Result]:
    """Fill one partition of the log, delete one group of it, and look for its offsets."""
    partitions = min(PARTITIONS, sizes.lost_records // GROUPS)
    topic = world.topic("orders", partitions)
    names = _together(GROUPS)
    world.commit(topic, names, partitions, times=sizes.lost_records // (GROUPS * partitions))
    lost = names[0]
    clients.delete_groups(world.bootstrap, lost)
    env, options = quiet(world.folder), ["--bootstrap-server", world.bootstrap, "-o", "json"]
    ours = Command([KGTOOL, "recover", lost, "--dry-run", *options], env)
    theirs = Command([KGTOOL, "explain", lost, *options], env, statuses=(0, 1))

    def check(ours: Run, theirs: Run) -> None:
        rows = json.loads(ours.out)["results"]
        assert [row["offset"] for row in rows] == [3] * partitions
        (found,) = json.loads(theirs.out)["results"]
        removed = [row["offset"] for row in found["removals"] if row["topic"] is not None]
        assert removed == [3] * partitions

    pair = in_turn(ours, theirs, runs, check)
    work = f"recover, 1 group of {sizes.lost_records:,} records"
    note = f"{peak(pair.ours):.0f} MiB, explain {peak(pair.theirs):.0f} MiB"
    return [Result(work, "explain of it", pair.ratio, 1.3, seconds=seconds(pair.ours), note=note)]


def _together(count: int) -> list[str]:
    """Return names of groups that lie in one partition of the log."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"lost-{number:05d}"
        if offsets_partition(name, LOG_PARTITIONS) == 7:
            found.append(name)
        number += 1
    return found
