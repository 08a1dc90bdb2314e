"""``python -O`` leaves asserts out: nothing of the analysis may happen in one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kgtool.analysis.fold.folded_log import FoldPlan
from kgtool.analysis.input import broker_settings
from kgtool.analysis.input.discover import find_inputs
from kgtool.analysis.local_engine import LocalEngine
from kgtool.analysis.pipeline import Analysis
from tests.analysis.writer import commits, segment

HERE = Path(__file__).parent
FAST = ("test_gaps.py", "test_overdue.py", "test_families.py", "test_arrays.py", "test_printed.py")
ONLY = f"{Path(__file__).name}::test_fold_folds_now"


class Watched(LocalEngine):
    folds = 0

    def fold(self, plan: FoldPlan) -> None:
        self.folds += 1
        super().fold(plan)


def test_fold_folds_now(tmp_path: Path) -> None:
    """Was: the work of ``Analysis.fold`` stood in an assert."""
    segment(tmp_path, commits(0, 3))
    engine, basis = Watched(1), broker_settings.settings_from(None, "4.1", None, None)
    analysis = Analysis(engine, find_inputs([str(tmp_path)]).files, basis)
    analysis.fold()
    analysis.fold()
    assert engine.folds == 1


def test_unit_tests_pass_under_python_o() -> None:
    files = [str(HERE / name) for name in (*FAST, ONLY)]
    command = [sys.executable, "-O", "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider"]
    command += ["-W", "ignore::pytest.PytestConfigWarning"]
    done = subprocess.run(
        [*command, *files], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
