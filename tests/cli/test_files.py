"""Files of commands: ``-`` is stdin and stdout, and what was shown is what is done.

Kind: a command that opens its file again sees another one, or none (a pipe has no second reading).
Siblings: every command that takes or makes a file; ``-``, ``/dev/stdin``, ``<(…)``, FIFOs.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import ROOT, command_line
from tests.support import clients

pytestmark = pytest.mark.broker


class Shell:
    """Runs lines of bash; ``$K`` is kgtool."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "K": " ".join(command_line()),
            "PYTHONPATH": str(ROOT),
            "KGTOOL_BOOTSTRAP_SERVER": bootstrap,
            "KGTOOL_JOURNAL_DIR": str(folder / "journal"),
        }

    def __call__(self, line: str, status: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line}"],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == status, (line, done.stdout, done.stderr)
        return done.stdout + done.stderr


@pytest.fixture
def shell(bootstrap: str, tmp_path: Path) -> Shell:
    return Shell(bootstrap, tmp_path)


@pytest.fixture
def group(bootstrap: str) -> tuple[str, str]:
    """A group with the offset 4 of a topic with 10 records."""
    topic = clients.create_topic(bootstrap, clients.unique("files"), 1)
    clients.produce(bootstrap, topic, 10, partition=0)
    name = clients.unique("files")
    clients.commit(bootstrap, name, {(topic, 0): 4})
    return name, topic


def test_backup_restore_and_diff_in_a_pipe(
    shell: Shell, bootstrap: str, group: tuple[str, str]
) -> None:
    name, topic = group
    shell(f"$K backup {name} --out saved")
    clients.commit(bootstrap, name, {(topic, 0): 7})
    said = shell(f"$K backup {name} --out - | $K diff saved -", 5)
    assert "1 moved" in said
    assert "1 went-backwards" in shell(f"$K backup {name} --out - | $K diff /dev/stdin saved", 5)
    assert "1 moved" in shell("cat saved | $K diff -", 5)
    for source in ("- < saved", "/dev/stdin < saved", "<(cat saved)", "/dev/fd/5 5< saved"):
        clients.commit(bootstrap, name, {(topic, 0): 7})
        shell(f"$K restore {source} --yes")
        assert clients.committed(bootstrap, name) == {(topic, 0): 4}, source
    clients.commit(bootstrap, name, {(topic, 0): 7})
    shell(f"$K backup {name} --out - | sed s/{name}/copy-{name}/ | $K restore - --yes")
    assert clients.committed(bootstrap, f"copy-{name}") == {(topic, 0): 7}
    journals = (shell.folder / "journal").glob("*.jsonl")
    (journal, _) = sorted(journals, key=lambda path: path.stat().st_mtime_ns)[-2:]
    clients.commit(bootstrap, name, {(topic, 0): 4})
    assert "can't be marked" in shell(f"$K undo --from - --yes < {journal}")
    assert clients.committed(bootstrap, name) == {(topic, 0): 7}


def test_plans_offsets_bodies_and_metrics_in_a_pipe(
    shell: Shell, bootstrap: str, group: tuple[str, str]
) -> None:
    name, topic = group
    assert f"{topic},0,8" in shell(
        f"echo {topic},0,8 > csv; $K reset-offsets {name} --from-file - --export --dry-run < csv"
    )
    shell(f"$K reset-offsets {name} --from-file <(cat csv) --execute --yes")
    assert clients.committed(bootstrap, name) == {(topic, 0): 8}
    assert f'group="{name}"' in shell(f"$K describe {name} --prometheus - 2> /dev/null")
    assert name in shell(f"echo client.id=x | $K describe {name} --command-config -")
    assert "groups" in shell("echo '{}' | $K request ListGroups --body -")
    assert "--output needs too" in shell(f"$K cleanup plan --group {name} --out - -o json", 2)
    said = shell(f"$K cleanup plan --group {name} --out - | tee plan | $K cleanup apply - --yes")
    assert "1 deleted" in said
    assert not (shell.folder / "-").exists()
    assert (shell.folder / "plan").read_text().startswith('{"kgtool_plan": 1')
    assert name not in clients.group_ids(bootstrap)


@pytest.mark.parametrize(
    "line",
    [
        "restore fifo --yes",
        "diff fifo",
        "cleanup apply fifo --yes",
        "cleanup plan --idle 1d --times-from fifo",
        "reset-offsets g --from-file fifo --dry-run",
        "undo --from fifo --yes",
        "request ListGroups --body @fifo",
        "list --command-config fifo",
    ],
)
def test_a_fifo_without_a_writer(shell: Shell, line: str) -> None:
    os.mkfifo(shell.folder / "fifo")
    said = shell(f"$K {line} --timeout 300", 2)
    assert "nothing was written to it for 0.3 s" in said


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("mkfifo it; echo none > it & $K analyze it", "it"),
        ("echo none | $K analyze -", "stdin"),
        ("echo none | $K analyze /dev/stdin", "stdin"),
        ("$K analyze <(echo none)", r"\d+"),
    ],
)
def test_analyze_names_the_pipe_that_it_can_t_read(shell: Shell, line: str, named: str) -> None:
    said = shell(line, 2)
    assert re.search(rf"/{named} is not in a known format", said), said


def test_what_was_read_is_what_is_done(
    shell: Shell, bootstrap: str, group: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is replaced while the question stands; both ways to replace it."""
    from kgtool import config
    from kgtool.cli.app.main import main
    from kgtool.cli.change import confirm

    name, topic = group
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(shell.folder / "journal"))
    assert config.BOOTSTRAP_VARIABLE == "KGTOOL_BOOTSTRAP_SERVER"
    saved = shell.folder / "saved"
    shell(f"$K backup {name} --out saved")
    text = saved.read_text()
    forged = text.replace('"offset": 4', '"offset": 9')
    assert forged != text

    def in_place() -> None:
        saved.write_text(forged)

    def another() -> None:
        (shell.folder / "new").write_text(forged)
        (shell.folder / "new").replace(saved)

    def meanwhile(do: Callable[[], None], *seen: Any, **_: Any) -> Any:
        do()
        return seen[2]

    for replace in (in_place, another):
        saved.write_text(text)
        clients.commit(bootstrap, name, {(topic, 0): 7})
        with monkeypatch.context() as patch:
            patch.setattr(confirm, "ask", partial(meanwhile, replace))
            assert main(["restore", str(saved), "--yes", "-b", bootstrap]) == 0
        assert clients.committed(bootstrap, name) == {(topic, 0): 4}
