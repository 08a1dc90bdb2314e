"""``make soak``: random lives of groups on real brokers; does kgtool tell what became of them?

``python tools/truth.py [--versions 2.4.1,4.3.1] [--minutes 5] [--seed N]``. Each broker has a short
retention; the generator knows every deletion that was asked for, so each other tombstone of the log
is the broker's own. Prints a table a version: tombstones, right, wrong, unknown; of ``describe
--expiry`` how many dates were kept. Ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kgtool.sandbox import ready  # noqa: E402
from kgtool.sandbox.cluster import Sandbox  # noqa: E402
from tests.soak import truth  # noqa: E402
from tests.soak.lives import Life, Members, Modern, Standalone, Transactional, World  # noqa: E402
from tests.soak.raw_lives import Converted, RawMember  # noqa: E402

VERSIONS = ("2.4.1", "2.8.2", "3.9.1", "4.3.1")
COLUMNS = ("tombstones", "right", "wrong", "unknown", "due already", "not sure")
DATES = ("on time", "early", "late", "unknown", "changed before", "deleted")


def main() -> int:
    """Run each version; 0 if nothing was wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions", default=",".join(VERSIONS))
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--groups", type=int, default=36)
    parser.add_argument("--keep", type=Path, help="copy each log and its truth there")
    parser.add_argument("--again", type=Path, help="judge what --keep has kept there, only")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    bad = 0
    for version in given.versions.split(","):
        kept = given.again and given.again / version
        if kept:
            print(f"Kafka {version}, {kept}")
            bad += _told(kept / "export", truth.load(kept / "truth.json"), given)
        else:
            bad += _run(version, given)
    return 1 if bad else 0


def _run(version: str, given: argparse.Namespace) -> int:
    dice = random.Random(f"{given.seed} {version}")
    minutes, interval_ms = dice.choice([1, 1, 2]), dice.choice([2_000, 5_000, 5_000, 10_000])
    config = {
        "offsets.retention.minutes": str(minutes),
        "offsets.retention.check.interval.ms": str(interval_ms),
        "group.initial.rebalance.delay.ms": str(dice.choice([0, 1000, 3000])),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    }
    is_modern = version.startswith("4")
    if is_modern:
        config |= {
            "group.consumer.min.session.timeout.ms": "6000",
            "group.consumer.session.timeout.ms": "8000",
            "group.consumer.min.heartbeat.interval.ms": "1000",
            "group.consumer.heartbeat.interval.ms": "1500",
        }
    print(f"Kafka {version}, seed {given.seed}: retention {minutes} m, check {interval_ms} ms")
    with tempfile.TemporaryDirectory() as root:
        kafka = Sandbox.start(f"truth-{version}", version=version, config=config, root=Path(root))
        try:
            ready.wait_for_coordinators(kafka.state)
            world = World(kafka, given.minutes * 60, minutes * 60_000, dice.randrange(10**9))
            samples = _live(world, dice, is_modern, given.groups)
            return _judge(world, samples, interval_ms, Path(root), given)
        finally:
            kafka.stop()


def _live(world: World, dice: random.Random, is_modern: bool, count: int) -> list[truth.Sample]:
    """Let the groups live until the end, and ask for dates in between."""
    kinds = [Standalone, RawMember, RawMember, Members, Members, Transactional]
    kinds += [Modern, Converted] if is_modern else []
    lives: list[Life] = [kinds[n % len(kinds)](world, dice.randrange(10**9)) for n in range(count)]
    for life in lives:
        life.start()
        time.sleep(0.2)
    whole, samples = world.left(), []
    steps = [(0.3, "sample"), (0.4, "restart"), (0.5, "topic"), (0.62, "sample"), (0.7, "restart")]
    steps += [(0.8, "topic"), (0.85, "sample")]
    for part, what in steps:
        time.sleep(max(0.0, world.left() - whole * (1 - part) + dice.uniform(-5, 5)))
        if what == "sample":
            samples += truth.sample(world.at)
        elif what == "restart":
            world.restart()
        else:
            world.delete_topic()
    for life in lives:
        life.join(world.left() + 90)
    return samples


def _judge(
    world: World,
    samples: list[truth.Sample],
    interval_ms: int,
    root: Path,
    given: argparse.Namespace,
) -> int:
    folder = root / "export"
    lines = truth.read_log(world.at)
    truth.kgtool("export", "--out", str(folder), "-b", world.at)
    true = truth.tombstones(lines, world, interval_ms)
    dates = truth.judge_samples(samples, lines, true, world, interval_ms)
    if given.keep is not None:
        kept = given.keep / world.kafka.version
        shutil.copytree(folder, kept / "export", dirs_exist_ok=True)
        truth.save(kept / "truth.json", true)
    bad = _told(folder, true, given)
    _table("dates", DATES, dates.counts)
    print(f"  {len(world.errors)} actions failed", *world.errors[:3], sep="\n    ")
    print(*(f"  WRONG {line}\n" for line in dates.wrong), sep="", end="", flush=True)
    return bad + len(dates.wrong)


def _told(folder: Path, true: list[truth.Tombstone], given: argparse.Namespace) -> int:
    """Compare what analyze says of a log with the truth, and print the table."""
    known = {(each.key, each.at_ms) for each in true}
    said = [
        row
        for row in truth.said_by_analyze(folder)
        if (truth.Key(row["group"], row["topic"], row["partition"]), row["removed_at_ms"]) in known
    ]
    found = truth.judge(true, said)
    _table("analyze", COLUMNS, found.counts)
    causes = Counter(each.cause for each in true)
    print("  true causes:", ", ".join(f"{count} {cause}" for cause, count in causes.most_common()))
    print(*(f"  WRONG {line}\n" for line in found.wrong), sep="", end="", flush=True)
    if given.verbose:
        print(*(f"  due already: {line}\n" for line in found.due), sep="", end="", flush=True)
    return len(found.wrong)


def _table(name: str, columns: tuple[str, ...], counts: Counter[str]) -> None:
    print(f"  {name:10}" + "".join(f"{column:>16}" for column in columns))
    print(f"  {'':10}" + "".join(f"{counts[column]:>16}" for column in columns))


if __name__ == "__main__":
    sys.exit(main())
