"""``make soak``: seeded runs of every command that changes something, while something happens.

``python tools/soak.py [--runs 2000] [--seconds N]``; prints its seed, and ``KGTOOL_SEED`` repeats
it: each run that went wrong says its own, ``KGTOOL_SEED=17 … --runs 1``. Ends with the figures, and
with 1 if anything was not as promised.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.soak.cases import COMMANDS, draw  # noqa: E402
from tests.soak.soak import THREADS, Verdict, run_all  # noqa: E402
from tests.support import brokers, faulty  # noqa: E402


def main() -> int:
    """Run the cases; 0 if every one was as promised."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--threads", type=int, default=THREADS)
    given = parser.parse_args()
    first = int(os.environ.get("KGTOOL_SEED") or random.SystemRandom().randrange(10**9))
    print(f"KGTOOL_SEED={first}", flush=True)
    began = time.monotonic()
    until = None if given.seconds is None else began + given.seconds
    root = brokers.open_root()
    try:
        with tempfile.TemporaryDirectory() as folder:
            kafka = faulty.shared()
            cases = map(draw, range(first, first + given.runs))
            with kafka.proxies() as proxies:
                runs = run_all(kafka, proxies, Path(folder), cases, given.threads, until)
                verdicts = list(_shown(runs))
    finally:
        brokers.close_root(root)
    return _figures(verdicts, time.monotonic() - began)


def _shown(verdicts):
    for number, verdict in enumerate(verdicts, 1):
        if verdict.problems:
            print(f"\n{verdict.case}")
            print("".join(f"  {problem}\n" for problem in verdict.problems) + str(verdict.run))
        elif number % 50 == 0:
            print(f"{number} runs", flush=True)
        yield verdict


def _figures(verdicts: list[Verdict], seconds: float) -> int:
    kinds: Counter[str] = Counter()
    print(f"\n{'':16}{'runs':>8}{'struck':>8}{'problems':>10}")
    for command in (*COMMANDS, "all"):
        mine = [v for v in verdicts if command in (v.case.command, "all")]
        struck = sum(bool(v.struck) for v in mine)
        print(f"{command:16}{len(mine):8}{struck:8}{sum(bool(v.problems) for v in mine):10}")
    for verdict in verdicts:
        if verdict.struck:
            kinds[verdict.case.what + (", raced" if verdict.case.is_raced else "")] += 1
    print("\nStruck:", ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    bad = sum(bool(verdict.problems) for verdict in verdicts)
    struck = sum(bool(verdict.struck) for verdict in verdicts)
    print(f"{len(verdicts)} runs in {seconds:.0f} s, {struck} struck, {bad} with problems.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
