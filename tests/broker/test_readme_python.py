"""docs/python.rst: every line is run, and prints what the page says."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool import GroupAdmin
from kgtool.cli.commands import COMMANDS
from tests.support import clients

PAGE = Path(__file__).parents[2] / "docs" / "python.rst"


def examples() -> list[str]:
    """The ``pycon`` blocks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(r"^\.\. code-block:: pycon\n\n((?:   .*\n|\n)+)", text, re.MULTILINE)


def test_every_example_does_what_it_says(
    bootstrap: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path))
    topic, group = new_topic(partitions=2), clients.unique("reporting")
    clients.produce(bootstrap, topic, 10)
    clients.produce(bootstrap, topic, 5, partition=1)
    clients.commit(bootstrap, group, {(topic, 0): 4, (topic, 1): 5})
    blocks = examples()
    assert len(blocks) == 5
    page = "\n".join(blocks)
    for shown, real in (("b1:9092", bootstrap), ("reporting", group), ("orders", topic)):
        assert shown in page
        page = page.replace(shown, real)
    test = doctest.DocTestParser().get_doctest(page, {}, "python.rst", str(PAGE), 0)
    assert len(test.examples) >= 12
    result = doctest.DocTestRunner().run(test)
    assert result.failed == 0, capsys.readouterr().out


METHODS = {
    "list": "list_groups",
    "describe": "describe_groups describe_offsets",
    "explain": "explain",
    "doctor": "doctor",
    "delete": "delete_groups",
    "delete-offsets": "delete_offsets",
    "reset-offsets": "reset_offsets commit_offsets",
    "remove-members": "remove_members",
    "keep": "keep",
    "backup": "backup",
    "restore": "restore",
    "recover": "recover",
    "diff": "diff",
    "history": "history",
    "undo": "undo",
    "peek": "peek",
    "configs": "configs alter_configs",
    "coordinator": "coordinators",
    "lag": "describe_offsets",
    "request": "request",
    "export": "export",
    "cleanup": "cleanup_plan cleanup_apply",
    "retention": "retention_show retention_apply",
}


def test_each_command_is_a_method_but_for_those_that_the_page_names() -> None:
    missing = [name for name in COMMANDS if name not in METHODS]
    listed = ", ".join(f"``{name}``" for name in sorted(missing))
    head, _, tail = listed.rpartition(", ")
    assert f"all but {head} and {tail}" in " ".join(PAGE.read_text(encoding="utf-8").split())
    for names in METHODS.values():
        for name in names.split():
            assert getattr(GroupAdmin, name).__doc__, name
