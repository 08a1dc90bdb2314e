"""Two kgtools at once: one of them waits."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kgtool.changes.journal.folder import JournalError
from kgtool.changes.journal.locks import GroupLocks

HOLDER = """
import sys
from pathlib import Path
from kgtool.changes.journal.locks import GroupLocks
locks = GroupLocks(Path(sys.argv[1]), "c1")
assert locks.take(sys.argv[2:]) is None
print("held", flush=True)
sys.stdin.read()
"""


def hold(folder: Path, *groups: str) -> subprocess.Popen[str]:
    """Another process that holds locks until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), *groups],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_group_that_another_process_holds(tmp_path: Path) -> None:
    with hold(tmp_path, "b") as other, closing(GroupLocks(tmp_path, "c1")) as locks:
        assert locks.take(["c", "b", "a"]) == "b"
        assert locks.holder("b") == other.pid
        assert locks.holder("c") is None
        assert locks.take(["a", "c"]) is None
        with closing(GroupLocks(tmp_path, "c2")) as elsewhere:
            assert elsewhere.take(["b"]) is None
        other.communicate("")
    with closing(GroupLocks(tmp_path, "c1")) as locks:
        assert locks.take(["b"]) is None


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with hold(tmp_path, "a") as other:
        other.kill()
        other.wait(60)
        with closing(GroupLocks(tmp_path, "c1")) as locks:
            assert locks.take(["a"]) is None


def test_two_in_one_process(tmp_path: Path) -> None:
    with closing(GroupLocks(tmp_path, "c1")) as one:
        assert one.take(["a", "b"]) is None
        with closing(GroupLocks(tmp_path, "c1")) as two:
            assert two.take(["b"]) == "b"
            assert two.take(["b", "a"]) == "a", "always in the same order"
        # Closing another descriptor of the file drops nothing.
        with hold(tmp_path, "other") as process, closing(GroupLocks(tmp_path, "c1")) as three:
            assert three.take(["a"]) == "a"
            process.communicate("")
        one.release(["a"])
        with hold(tmp_path, "a") as process:
            assert one.holder("a") == process.pid
            process.communicate("")


def test_released_groups_are_free(tmp_path: Path) -> None:
    names = [f"group-{n}" for n in range(3000)]
    with closing(GroupLocks(tmp_path, "c1")) as locks:
        assert locks.take(names) is None
        locks.release(names[1:])
        with hold(tmp_path, *names[1:]) as other:
            assert locks.take(names[:1]) is None
            assert locks.take(names[2:3]) == names[2]
            other.communicate("")


def test_many_groups_need_few_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kind: work that is quadratic in the groups of one change (20,000 took 40 s of fcntl).

    Siblings: parts of a change that are taken and released; another kgtool at work meanwhile.
    """
    calls: list[int] = []
    real = fcntl.fcntl

    def counted(*given: Any) -> Any:
        calls.append(1)
        return real(*given)

    monkeypatch.setattr(fcntl, "fcntl", counted)
    names = [f"group-{n}" for n in range(2000)]
    with closing(GroupLocks(tmp_path, "c1")) as locks:
        assert locks.take(names) is None
        with closing(GroupLocks(tmp_path, "c1")) as other:
            assert other.take(names[-1:]) == names[-1]
            assert other.take(["any other"]) == "any other"
            assert len(calls) < 10
            locks.release(names)
            assert other.take(names[-1:]) is None
            assert len(calls) < 10
            # Another one's group is in the way only of a change of that group.
            assert locks.take(names[:1000]) is None
            assert locks.take(names) == names[-1]


def test_the_holder_of_many_is_named(tmp_path: Path) -> None:
    with hold(tmp_path, *(f"g{n}" for n in range(600))) as other:
        with closing(GroupLocks(tmp_path, "c1")) as locks:
            assert locks.take(["g7"]) == "g7"
            assert locks.holder("g7") == other.pid
        other.communicate("")


def test_a_folder_that_can_not_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="nothing was changed"):
        GroupLocks(tmp_path / "file", "c1")
