"""Standard streams that are closed, or lead to a full disk: a sentence and a status, no trace."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kgtool import GroupAdmin
from tests.support import clients

ROOT = Path(__file__).parents[2]
NOBODY = "--list --bootstrap-server 127.0.0.1:1 --timeout 300"


def _run(line: str, redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        f"{sys.executable} -m kgtool.cli {line} {redirection}",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("line", ["--version", "--help", "list --help", "history --help"])
def test_a_full_disk_is_an_error_and_named(line: str) -> None:
    done = _run(line, ">/dev/full")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: The output can't be written: No space left on device.")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "2>/dev/full", ">&- 2>&-", "<&-"])
def test_a_closed_stream_changes_no_status(redirection: str) -> None:
    assert _run("--version", redirection).returncode == 0
    assert _run("list --help", redirection).returncode == 0
    refused = _run(NOBODY, redirection)
    assert refused.returncode == 4
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    "line", ["delete g", "undo last", "reset-offsets g --all-topics --to-latest --execute"]
)
def test_a_closed_stdin_is_no_terminal(line: str) -> None:
    done = _run(f"{line} --bootstrap-server 127.0.0.1:1", "<&-")
    assert "there is no terminal to ask on: give --yes" in done.stderr
    assert done.returncode == 2


def test_a_body_from_a_closed_stdin_is_empty() -> None:
    done = _run("request ListGroups --dry-run --body -", "<&-")
    assert done.stderr.startswith("Error: stdin is not JSON")
    assert done.returncode == 2


@pytest.mark.broker
def test_results_on_a_full_disk(bootstrap: str) -> None:
    topic = clients.create_topic(bootstrap, clients.unique("full"))
    clients.commit(bootstrap, clients.unique("full"), {(topic, 0): 0})
    done = _run(f"list --bootstrap-server {bootstrap} -o json", ">/dev/full")
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.broker
@pytest.mark.parametrize(
    "line",
    [
        "delete-offsets {group} --topic {topic} --yes",
        "--delete-offsets --group {group} --topic {topic}",
        "reset-offsets {group} --all-topics --to-latest --execute --yes",
        "keep {group} --yes",
        "configs {group} --alter --add-config consumer.session.timeout.ms=50000 --yes",
        "delete {group} --yes",
    ],
)
def test_a_change_on_a_full_disk_has_happened(
    bootstrap: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 3, not 1, which says that nothing was done."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path))
    topic = clients.create_topic(bootstrap, clients.unique("full"), 1)
    clients.produce(bootstrap, topic, 3)
    group = clients.unique("full")
    clients.commit(bootstrap, group, {(topic, 0): 1})
    changed = _run(
        f"{line.format(group=group, topic=topic)} --bootstrap-server {bootstrap}", ">/dev/full"
    )
    assert "The output can't be written: No space left on device." in changed.stderr
    assert changed.returncode == 3
    (journal,) = tmp_path.glob("*.jsonl")
    if not line.startswith("keep"):
        assert changed.stderr.splitlines().count(f"Undo: kgtool undo {journal.stem}") == 1
    assert '"outcome": "done"' in journal.read_text()
    refused = _run(
        f"delete-offsets {group} --topic no-{topic} --yes --bootstrap-server {bootstrap}",
        ">/dev/full",
    )
    assert refused.returncode == 1


@pytest.mark.broker
def test_what_to_undo_is_named_on_a_full_disk(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Was: the journal's id comes after results, and not at all where those can't be written."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path))
    topic = clients.create_topic(bootstrap, clients.unique("full"), 1)
    group, plan = clients.unique("full"), tmp_path / "plan.json"
    clients.commit(bootstrap, group, {(topic, 0): 0})
    with GroupAdmin(bootstrap) as admin:
        admin.cleanup_plan([group], path=plan)
    known: set[Path] = set()
    for line in (f"cleanup apply {plan}", "undo last"):
        changed = _run(f"{line} --yes --bootstrap-server {bootstrap}", ">/dev/full")
        (journal,) = set(tmp_path.glob("*.jsonl")) - known
        assert changed.returncode == 3
        assert changed.stderr.count(f"Undo: kgtool undo {journal.stem}") == 1, changed
        known.add(journal)
