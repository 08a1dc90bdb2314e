"""Names and metadata that control a terminal, in the output of every command.

Kind: a name that is printed as it came (``keep`` did); --export alone has names as they are, for
``--from-file``. Siblings: each command and format, groups
with and without offsets, dry runs, refusals and notes, names that do not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.run import call
from tests.support import clients

pytestmark = pytest.mark.broker

EVIL = "\x1b]0;pwned\x07\x1b[2J\nError: not me\r\u202e\x9b31m"
RAW = "\x1b\x07\r\u202e\x9b"


def lines(group: str, topic: str, folder: Path) -> Iterator[list[str]]:
    """Command lines that name the group; those that change something say so only."""
    gone = f"{group}-gone"
    for name in (group, gone):
        yield ["list", name]
        yield ["describe", name]
        yield ["describe", name, "--members", "--verbose"]
        yield ["describe", name, "--state"]
        yield ["describe", name, "--expiry"]
        yield ["lag", name]
        yield ["explain", name]
        yield ["doctor", name]
        yield ["coordinator", name]
        yield ["configs", "--group", name]
        yield ["peek", name, "--topic", f"{topic}:0"]
        yield ["keep", name, "--dry-run"]
        yield ["recover", name, "--dry-run"]
        yield ["validate-regex", name]
        yield ["delete", name, "--dry-run"]
        yield ["delete-offsets", name, "--topic", topic, "--dry-run"]
        yield ["reset-offsets", name, "--all-topics", "--to-earliest", "--dry-run"]
        yield ["remove-members", name, "--all", "--dry-run"]
        yield ["cleanup", "plan", "--group", name, "--state", "Empty"]
        yield ["backup", name, "--out", str(folder / "saved"), "--overwrite"]
    yield ["keep", group, "--yes"]
    yield ["restore", str(folder / "saved"), "--dry-run", "--map-group", f"{group}={gone}"]
    yield ["diff", str(folder / "saved")]
    yield ["delete-offsets", group, "--topic", topic, "--yes"]
    yield ["keep", group, "--yes"]
    yield ["history"]
    yield ["undo", "last", "--yes"]
    yield ["delete", group, "--yes"]
    yield ["undo", "last", "--dry-run"]


@pytest.mark.parametrize("output", ["text", "csv", "json"])
def test_no_command_prints_a_name_raw(
    bootstrap: str,
    tmp_path: Path,
    output: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    topic = clients.create_topic(bootstrap, clients.unique("hostile"), 1)
    clients.produce(bootstrap, topic, 3, partition=0)
    group = clients.unique("hostile") + EVIL
    clients.commit(bootstrap, group, {(topic, 0): 1})
    for argv in lines(group, topic, tmp_path):
        done = call(capsys, *argv, "-b", bootstrap, "-o", output)
        shown = done.out + done.err
        assert not set(RAW) & set(shown), (argv, shown)
        assert not any(line.startswith("Error: not me") for line in shown.splitlines()), argv
        assert "Usage" not in shown and "bug in kgtool" not in shown, (argv, shown)
