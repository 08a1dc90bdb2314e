"""Changes from the screen: preview, question, journal and undo, against a real broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from textual.pilot import Pilot

from kgtool.api.group_admin import GroupAdmin
from kgtool.config import Settings, contexts, parse_bootstrap
from kgtool.config.contexts import Context
from kgtool.errors import UsageError
from kgtool.net.session import Session
from kgtool.top.acting import offset_deletion, reset
from kgtool.top.app import TopApp
from tests.support.clients import commit, committed, group_ids, join
from tests.top.test_screen import World, lines, until

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def world(bootstrap: str) -> World:
    return World(bootstrap)


@pytest.fixture(autouse=True)
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))
    return tmp_path / "journal"


async def mark(app: TopApp, pilot: Pilot[None], ending: str) -> str:
    """Mark one group by its name's end."""
    (name,) = (name for name in app.table.shown if name.endswith(ending))
    await pilot.press("home", *["down"] * app.table.shown.index(name), "space")
    assert app.table.marked == {name}
    return name


async def undo(app: TopApp, pilot: Pilot[None]) -> None:
    """Undo the last change, after its preview."""
    await pilot.press("escape", "u")
    await said(app, pilot, "Change 1 group?")
    await pilot.press("y")
    await said(app, pilot, "Undo: kgtool undo")


async def said(app: TopApp, pilot: Pilot[None], text: str) -> list[str]:
    await until(pilot, lambda: any(text in line for line in lines(app)))
    return lines(app)


def test_delete_shows_asks_and_comes_back(world: World, bootstrap: str) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        name = await mark(app, pilot, "-done")
        before = committed(bootstrap, name)
        await pilot.press("d")
        page = await said(app, pilot, "Change 1 group?")
        assert any(line.split()[:2] == ["would-delete", name] for line in page)
        assert any("Undo: u restores the groups" in line for line in page)
        assert f"$ kgtool delete {name}" in [line.strip() for line in page]
        await pilot.press("enter")
        assert name in group_ids(bootstrap), "only y agrees"
        await pilot.press("y")
        await said(app, pilot, "Undo: u, or kgtool undo")
        assert name not in group_ids(bootstrap)
        await undo(app, pilot)
        assert committed(bootstrap, name) == before

    world.run(steps)


def test_escape_changes_nothing(world: World, bootstrap: str, journal: Path) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        name = await mark(app, pilot, "-lost")
        for key in "dk":
            await pilot.press(key)
            await said(app, pilot, "Escape")
            await pilot.press("escape")
        await pilot.press("r", *"latest", "escape")
        await pilot.press("y")
        assert committed(bootstrap, name) == {(world.topic, 0): 99}
        assert not list(journal.glob("*.jsonl"))

    world.run(steps)


def test_reset_says_what_is_skipped(world: World, bootstrap: str) -> None:
    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        name = await mark(app, pilot, "-behind")
        await pilot.press("r", *"latest", "enter")
        page = await said(app, pilot, "Change 1 group?")
        assert any("2 → 10, skips 8" in line for line in page), page
        await pilot.press("y")
        await said(app, pilot, "Undo: u, or")
        assert committed(bootstrap, name) == {(world.topic, 0): 10}
        await undo(app, pilot)
        assert committed(bootstrap, name) == {(world.topic, 0): 2}

    world.run(steps)


def test_what_was_shown_is_what_is_done(world: World, bootstrap: str) -> None:
    """A commit between preview and answer is left alone, and named."""

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        name = await mark(app, pilot, "-behind")
        await pilot.press("o", *world.topic, "enter")
        await said(app, pilot, "Change 1 group?")
        commit(bootstrap, name, {(world.topic, 0): 5})
        await pilot.press("y")
        await said(app, pilot, "changed-meanwhile")
        assert committed(bootstrap, name) == {(world.topic, 0): 5}

    try:
        world.run(steps)
    finally:
        commit(bootstrap, f"{world.prefix}-behind", {(world.topic, 0): 2})


def test_a_living_group_is_refused_in_the_preview(world: World, bootstrap: str) -> None:
    member = join(bootstrap, f"{world.prefix}-done", [world.topic])

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await mark(app, pilot, "-done")
        await pilot.press("d")
        page = await said(app, pilot, "There is nothing to change.")
        assert any("failed" in line and "not empty" in line for line in page), page
        await pilot.press("y", "escape")

    try:
        world.run(steps)
    finally:
        member.close()


def test_a_plan_instead(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bootstrap: str
) -> None:
    monkeypatch.chdir(tmp_path)

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: any(n.endswith("-lost") for n in app.table.shown))
        name = await mark(app, pilot, "-lost")
        await pilot.press("p")
        page = await said(app, pilot, "Wrote ")
        (plan,) = tmp_path.glob("kgtool-cleanup-*.json")
        assert f"$ kgtool cleanup apply {plan.name}" in [line.strip() for line in page]
        assert name in json.dumps(json.loads(plan.read_text()))
        with GroupAdmin(bootstrap) as admin:
            assert [r.status for r in admin.cleanup_apply(plan, dry_run=True)] == ["would-delete"]

    world.run(steps)


def test_a_policy_asks_why(
    world: World, bootstrap: str, tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("reason = true\n")
    monkeypatch.setenv("KGTOOL_POLICY", str(policy))

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        name = await mark(app, pilot, "-done")
        for nothing in ("escape", "enter"):
            await pilot.press("d")
            await said(app, pilot, "Change 1 group?")
            await pilot.press("y")
            await said(app, pilot, "wants a reason for each change")
            await pilot.press(nothing)
            await said(app, pilot, "Nothing changed: there is no reason.")
            await pilot.press("y", "escape")
        assert name in group_ids(bootstrap)
        assert not list(journal.glob("*.jsonl"))
        await pilot.press("d")
        await said(app, pilot, "Change 1 group?")
        await pilot.press("y")
        await said(app, pilot, "wants a reason for each change")
        await pilot.press(*"OPS-7 gone", "enter")
        page = await said(app, pilot, "Undo: u, or kgtool undo")
        assert f"$ kgtool delete {name} --reason 'OPS-7 gone'" in [line.strip() for line in page]
        assert name not in group_ids(bootstrap)
        (written,) = journal.glob("*.jsonl")
        assert json.loads(written.read_text().splitlines()[0])["reason"] == "OPS-7 gone"
        await pilot.press("escape", "u")
        await said(app, pilot, "Change 1 group?")
        await pilot.press("y", *"again", "enter")
        await said(app, pilot, "Undo: kgtool undo")
        assert name in group_ids(bootstrap)

    world.run(steps)


def test_a_protected_cluster_is_named_and_a_policy_refuses(
    world: World, bootstrap: str, tmp_path: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('protected = ["*-lost"]\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Session(Settings(parse_bootstrap(bootstrap), 20_000)) as session:
        session.connect()
        cluster_id = session.cluster_id or ""
    contexts.put(
        Context("prod", bootstrap, is_protected=True, cluster_id=cluster_id, policy=str(policy))
    )

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        name = await mark(app, pilot, "-done")
        for typed in ("prod", cluster_id[:-1], ""):
            await pilot.press("d")
            await said(app, pilot, "Change 1 group?")
            await pilot.press("y")
            await said(app, pilot, f"This cluster is protected. Type {cluster_id} to go on.")
            await pilot.press(*typed, "enter")
            await said(app, pilot, "Nothing changed: that is not its name.")
            await pilot.press("y", "escape")
        assert name in group_ids(bootstrap)
        await pilot.press("d")
        await said(app, pilot, "Change 1 group?")
        await pilot.press("y", *cluster_id, "enter")
        page = await said(app, pilot, "Undo: u, or kgtool undo")
        assert f"$ kgtool delete {name} --confirm {cluster_id}" in [line.strip() for line in page]
        assert name not in group_ids(bootstrap)
        await pilot.press("escape", "u")
        await said(app, pilot, "Change 1 group?")
        await pilot.press("y", *cluster_id, "enter")
        await said(app, pilot, "Undo: kgtool undo")
        assert name in group_ids(bootstrap)
        await pilot.press("escape")
        lost = await mark(app, pilot, "-lost")
        done = len(list(journal.glob("*.jsonl")))
        await pilot.press("d")
        await said(app, pilot, "Change 1 group?")
        await pilot.press("y", *cluster_id, "enter")
        page = await said(app, pilot, "Nothing changed.")
        assert "is protected (*-lost)" in " ".join(page)
        assert lost in group_ids(bootstrap)
        assert len(list(journal.glob("*.jsonl"))) == done
        await pilot.press("escape", "u")
        await pilot.pause()
        assert len(app.screen_stack) == 1, "a refused change is none to undo"

    world.run(steps, (140, 40))


@pytest.mark.parametrize("text", ["", "nowhere", "12.5", "2026-99-01", "--help"])
def test_wrong_targets_are_said(text: str) -> None:
    with pytest.raises(UsageError, match="is no target"):
        reset(["g"], text, print)


@pytest.mark.parametrize("text", ["", "orders:x", ":1"])
def test_wrong_topics_are_said(text: str) -> None:
    with pytest.raises(UsageError):
        offset_deletion(["g"], text, print)
