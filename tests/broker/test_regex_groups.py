"""Offsets of a KIP-848 group that subscribes by regular expression: the coordinator decides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.run import call
from tests.support import clients


class Regex(NamedTuple):
    """A living group, a topic that its regex stands for, and one that it doesn't."""

    group: str
    held: str
    other: str


@pytest.fixture(scope="module")
def here(bootstrap: str) -> Iterator[Regex]:
    prefix = clients.unique("held")
    held = clients.create_topic(bootstrap, f"{prefix}-a", 1)
    other = clients.create_topic(bootstrap, clients.unique("other"), 1)
    group = clients.unique("regex")
    clients.commit(bootstrap, group, {(held, 0): 0, (other, 0): 0})
    member = clients.join(bootstrap, group, [f"^{prefix}.*"], group_protocol="consumer")
    try:
        yield Regex(group, held, other)
    finally:
        member.close()


def test_a_topic_that_the_regex_does_not_stand_for_goes(
    here: Regex,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path))
    login = ("--bootstrap-server", bootstrap, "-o", "json")
    named = ["delete-offsets", "--group", here.group, "--topic", here.held, "--topic", here.other]
    foreseen = call(capsys, *named, *login, "--dry-run")
    status = {row["topic"]: row["status"] for row in foreseen.json["results"]}
    assert status == {here.held: "failed", here.other: "would-delete"}
    done = call(capsys, *named, *login, "--yes")
    assert done.status == 3, done
    status = {row["topic"]: row["status"] for row in done.json["results"]}
    assert status == {here.held: "failed", here.other: "deleted"}
    (error,) = done.json["errors"]
    assert error["name"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert error["hint"].startswith(f"Subscribed to {here.held}: ")
    assert set(clients.committed(bootstrap, here.group)) == {(here.held, 0)}
