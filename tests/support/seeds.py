"""The seed of a run: a new one each time, shown where a test failed; ``KGTOOL_SEED`` repeats it.

Random histories, Hypothesis and the fuzzing follow it. What fails becomes an example of its own.
``make soak`` and the sample of it have seeds of their own (tests/soak).
"""

from __future__ import annotations

import os
import random
from typing import Any

from hypothesis import HealthCheck, settings

_VARIABLE = "KGTOOL_TEST_SEED"
"""Set by the process that pytest was started in, for xdist's workers."""


def seed() -> int:
    """The seed of this run."""
    if _VARIABLE not in os.environ:
        drawn = random.SystemRandom().randrange(10**9)
        os.environ[_VARIABLE] = os.environ.get("KGTOOL_SEED") or str(drawn)
    return int(os.environ[_VARIABLE])


def rng(*names: object) -> random.Random:
    """Random numbers for one use: the same ones in each run with this seed, in any order."""
    return random.Random(f"{seed()} {' '.join(map(str, names))}")


def rounds(usual: int) -> range:
    """The numbers of so many rounds; ``make soak`` asks for more (``KGTOOL_TEST_ROUNDS``)."""
    return range(usual * int(os.environ.get("KGTOOL_TEST_ROUNDS", "1")))


def load_profile() -> None:
    """Let Hypothesis draw new examples each time, where ``CI`` is set too."""
    settings.register_profile(
        "kgtool",
        derandomize=False,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("kgtool")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how to repeat a run that failed."""
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"KGTOOL_SEED={seed()} draws the same again")
