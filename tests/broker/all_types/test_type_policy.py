"""Each key of a policy holds for share and streams groups as for the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.run import Result, call
from tests.support import clients
from tests.support.share import get_starts, set_starts
from tests.support.streams import StreamsMember

Kgtool = Callable[..., Result]
OFFSET = 4


class Case(NamedTuple):
    policy: str
    said: str
    option: str = ""
    allowed: tuple[str, ...] = ()


CASES = {
    "protected": Case('protected = ["s*-*"]', "is protected (s*-*)"),
    "max_groups": Case("max_groups = 1", "2 groups would be changed, the limit is 1"),
    "max_offsets": Case("max_offsets = 1", "2 offsets would be changed, the limit is 1"),
    "min_idle": Case('min_idle = "1d"', "not known to be idle for 1d (it was used)"),
    "forbid": Case('forbid = ["--reason"]', "--reason is forbidden", "--reason=x"),
    "reason": Case("reason = true", "a change needs a reason", allowed=("--reason", "T-1")),
}
CHANGES = {
    "reset": ("reset-offsets", "--all-topics", "--to-earliest", "--execute"),
    "delete-offsets": ("delete-offsets", "--topic", "{T}"),
    "delete": ("delete",),
}


class World(NamedTuple):
    bootstrap: str
    topic: str
    type: str
    groups: tuple[str, str]

    def starts(self) -> list[int | None]:
        read = get_starts if self.type == "share" else clients.committed
        return [read(self.bootstrap, one).get((self.topic, 0)) for one in self.groups]


@pytest.fixture(params=["share", "streams"])
def world(request: pytest.FixtureRequest, bootstrap: str, new_topic: Callable[..., str]) -> World:
    topic, groups = new_topic(), (clients.unique(request.param), clients.unique(request.param))
    clients.produce(bootstrap, topic, 10)
    for group in groups:
        if request.param == "share":
            set_starts(bootstrap, group, {(topic, 0): OFFSET})
            continue
        with StreamsMember(bootstrap, group, [topic]):
            pass
        clients.commit(bootstrap, group, {(topic, 0): OFFSET})
    return World(bootstrap, topic, request.param, groups)


@pytest.fixture
def kgtool(
    world: World,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Kgtool:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    address = ("--bootstrap-server", world.bootstrap)

    def run(policy: str, *argv: str) -> Result:
        path = tmp_path / "policy.toml"
        path.write_text(policy)
        monkeypatch.setenv("KGTOOL_POLICY", str(path))
        yes = () if argv[0] == "backup" else ("--yes",)
        return call(capsys, *argv, *address, *yes)

    return run


@pytest.mark.parametrize(
    ("key", "change"),
    [
        (key, change)
        for key in CASES
        for change in CHANGES
        if (key, change) != ("min_idle", "reset")  # which is about what removes offsets
    ],
)
def test_each_key(world: World, kgtool: Kgtool, key: str, change: str, tmp_path: Path) -> None:
    case = CASES[key]
    name, *words = (word.replace("{T}", world.topic) for word in CHANGES[change])
    argv = (name, *world.groups, *words)
    refused = kgtool(case.policy, *argv, *([case.option] if case.option else []))
    assert (refused.status, case.said in refused.err) == (1, True), refused.err
    assert world.starts() == [OFFSET, OFFSET]
    assert not list((tmp_path / "journal").glob("*.jsonl"))
    if case.allowed:
        assert kgtool(case.policy, *argv, *case.allowed).status == 0
        assert OFFSET not in world.starts()


@pytest.mark.parametrize("key", ["protected", "max_groups", "reason"])
def test_what_restores_passes_the_same_door(
    world: World, kgtool: Kgtool, key: str, tmp_path: Path
) -> None:
    """A backup's restore, and undo."""
    case, file = CASES[key], str(tmp_path / "backup.jsonl")
    assert kgtool("", "backup", *world.groups, "--out", file).status == 0
    reset = ("reset-offsets", *world.groups, "--all-topics", "--to-latest", "--execute")
    assert kgtool("", *reset).status == 0
    for argv in (("restore", file), ("undo", "last")):
        refused = kgtool(case.policy, *argv)
        assert (refused.status, case.said in refused.err) == (1, True), (argv, refused.err)
        assert world.starts() == [10, 10]
    assert kgtool("", "undo", "last").status == 0
    assert world.starts() == [OFFSET, OFFSET]
