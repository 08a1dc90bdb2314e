"""``make soak``: a thousand seeded runs of kgtool through proxies that damage what brokers say.

``python tools/soak.py [RUNS [FIRST_SEED]]``; a run that went wrong is run again by its seed.
Ends with a table of faults and outcomes, and with 1 if anything was not as promised.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.soak.faults import COMMANDS, Soak, Verdict, run_all  # noqa: E402
from tests.support import brokers, faulty  # noqa: E402

STATUS = {0: "done", 3: "partly", 1: "not", 4: "unreachable"}


def main() -> int:
    """Run the cases; 0 if every one was as promised."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    began = time.monotonic()
    root = brokers.open_root()
    try:
        with tempfile.TemporaryDirectory() as folder:
            kafka = faulty.shared()
            with kafka.proxies() as proxies:
                soak = Soak(kafka, proxies, Path(folder))
                verdicts = list(_shown(run_all(soak, range(first, first + runs))))
    finally:
        brokers.close_root(root)
    _table(verdicts)
    bad = [verdict for verdict in verdicts if not verdict.is_good]
    for verdict in bad:
        print(f"\n{verdict.case}\n  {verdict.problems}\n{verdict.run}")
    most = max((v.requests for v in verdicts), default=0)
    slowest = max((v.run.seconds for v in verdicts if v.run), default=0.0)
    print(
        f"\n{len(verdicts)} runs in {time.monotonic() - began:.0f} s, the slowest took "
        f"{slowest:.1f} s, {most} requests were the most; {len(bad)} were not as promised."
    )
    return 1 if bad else 0


def _shown(verdicts):
    for number, verdict in enumerate(verdicts, 1):
        if not verdict.is_good:
            print(f"{verdict.case}: {verdict.problems}", flush=True)
        elif number % 50 == 0:
            print(f"{number} runs", flush=True)
        yield verdict


def _table(verdicts: list[Verdict]) -> None:
    cells: dict[tuple[str, str], Counter[str]] = {}
    for verdict in verdicts:
        at = (verdict.case.faults[0].kind, verdict.case.command)
        status = STATUS.get(verdict.run.status, "?") if verdict.run else "hung"
        cells.setdefault(at, Counter())[status if verdict.is_good else "WRONG"] += 1
    print(f"\n{'':13}" + "".join(f"{command:39}" for command in COMMANDS))
    for kind in sorted({kind for kind, _ in cells}):
        row = (cells.get((kind, command), Counter()) for command in COMMANDS)
        print(f"{kind:13}" + "".join(f"{_told(cell):39}" for cell in row))


def _told(cell: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in sorted(cell.items()))


if __name__ == "__main__":
    sys.exit(main())
