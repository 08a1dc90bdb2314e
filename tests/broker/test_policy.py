"""Protection and policy on a real broker: Kafka's form, commands and Python, by cluster id."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool import GroupAdmin, TopicPartition
from kgtool.config import contexts
from kgtool.config.paths import contexts_file
from kgtool.errors import ConfigError, KgError
from kgtool.queries.offsets import fetch
from kgtool.sandbox.cluster import Sandbox
from tests.changes.world import seen
from tests.cli.run import call
from tests.support import clients

pytestmark = pytest.mark.broker

PROTECTED = "prod"


class Done(NamedTuple):
    """What came of a change in any of the three forms."""

    status: int
    said: str


class World:
    """Two groups with one offset each, and a folder of its own for contexts and journals."""

    def __init__(self, kafka: Sandbox, folder: Path, capsys: Any) -> None:
        self.bootstrap, self.cluster_id = kafka.bootstrap, kafka.cluster_id
        self.folder, self._capsys = folder, capsys
        self.topic = clients.create_topic(self.bootstrap, clients.unique("policy"), 2)
        self.groups = [clients.unique("policy") for _ in range(2)]
        for group in self.groups:
            clients.commit(self.bootstrap, group, {(self.topic, 0): 0, (self.topic, 1): 0})

    def run(self, *argv: str) -> Done:
        found = call(self._capsys, *argv)
        return Done(found.status, found.out + found.err)

    def context(self, *options: str, pinned: bool = True, name: str = PROTECTED) -> None:
        words = ["--bootstrap-server", self.bootstrap, *options]
        if pinned:
            words += ["--cluster-id", self.cluster_id]
        assert self.run("context", "add", name, *words).status == 0

    def policy(self, text: str) -> str:
        path = self.folder / "policy.toml"
        path.write_text(text)
        return str(path)

    def are_there(self) -> bool:
        """Whether nothing was changed, and nothing is in the journal."""
        journals = list((self.folder / "journal").glob("*.jsonl"))
        found = seen(self.bootstrap, *self.groups)
        return not journals and [len(offsets) for offsets in found.values()] == [2, 2]


@pytest.fixture
def world(
    kafka: Sandbox, own_state: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[World]:
    yield World(kafka, tmp_path, capsys)


Form = Callable[..., Done]


def kafkas_form(world: World, *options: str, groups: int = 1, **_api: Any) -> Done:
    words = [word for group in world.groups[:groups] for word in ("--group", group)]
    return world.run("--bootstrap-server", world.bootstrap, "--delete", *words, *options)


def command(world: World, *options: str, groups: int = 1, **_api: Any) -> Done:
    words = [word for group in world.groups[:groups] for word in ("--group", group)]
    address = ("--bootstrap-server", world.bootstrap)
    return world.run("delete", *address, *words, "--yes", *options)


def python(world: World, *options: str, groups: int = 1, force: bool = False, **given: Any) -> Done:
    for option in ("--confirm", "--reason"):
        if option in options:
            given[option[2:]] = options[options.index(option) + 1]
    try:
        with GroupAdmin(world.bootstrap, **given) as admin:
            rows = admin.delete_groups(world.groups[:groups], force="--force" in options)
    except KgError as error:
        return Done(error.exit_code, f"{error.name} {error.message} {error.hint}")
    return Done(0 if all(row.error is None for row in rows) else 1, "")


each_form = pytest.mark.parametrize("form", [kafkas_form, command, python])


# -- protection -------------------------------------------------------------------------------


@each_form
def test_a_protected_cluster_takes_its_id(world: World, form: Form) -> None:
    world.context("--protected")
    refused = form(world)
    assert refused.status == 1
    assert f"The cluster {world.cluster_id} is protected (context prod)" in refused.said
    assert f"--confirm {world.cluster_id}" in refused.said
    assert world.are_there()
    wrong = form(world, "--confirm", "AnotherClusterXXXXXXXX")
    assert (wrong.status, world.are_there()) == (1, True)
    assert form(world, "--confirm", world.cluster_id).status == 0
    assert not world.are_there()


@each_form
def test_the_variable_confirms_too(
    world: World, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.context("--protected")
    monkeypatch.setenv("KGTOOL_CONFIRM", "AnotherClusterXXXXXXXX")
    assert (form(world).status, world.are_there()) == (1, True)
    monkeypatch.setenv("KGTOOL_CONFIRM", world.cluster_id)
    assert form(world).status == 0


@each_form
def test_another_cluster_than_the_one_meant(world: World, form: Form) -> None:
    refused = form(world, "--confirm", "AnotherClusterXXXXXXXX")
    assert (refused.status, world.are_there()) == (1, True)
    assert "is not the one of --confirm" in refused.said


@each_form
def test_an_unpinned_context_protects_nothing_yet(world: World, form: Form) -> None:
    world.context("--protected", pinned=False)
    done = form(world)
    assert done.status == 0
    assert form is python or "prod guards this address only as --context prod" in done.said
    assert contexts.load().by_name[PROTECTED].cluster_id is None, "not its own address"
    assert world.run("--context", PROTECTED, "list").status == 0
    refused = form(world, groups=2)
    assert refused.status == 1
    assert "is protected" in refused.said


def test_the_name_of_the_error(world: World) -> None:
    world.context("--protected")
    for argv in (
        ["--delete", "--group", world.groups[0]],
        ["delete-offsets", "--group", world.groups[0], "--topic", world.topic, "--yes"],
        [
            "reset-offsets",
            "--group",
            world.groups[0],
            "--all-topics",
            "--to-offset",
            "0",
            "--execute",
            "--yes",
        ],
        ["keep", world.groups[0], "--join", "--yes"],
        [
            "configs",
            "--group",
            world.groups[0],
            "--alter",
            "--add-config",
            "consumer.session.timeout.ms=50000",
            "--yes",
        ],
        [
            "request",
            "OffsetDelete",
            "--version",
            "0",
            "--yes",
            "--body",
            f'{{"groupId": "{world.groups[0]}", "topics": [{{"name": "{world.topic}", '
            '"partitions": [{"partitionIndex": 0}]}]}',
        ],
    ):
        refused = world.run("--bootstrap-server", world.bootstrap, *argv, "-o", "json")
        assert (refused.status, '"POLICY_REFUSED"' in refused.said) == (1, True), (argv, refused)
        assert world.are_there(), argv
    dry = world.run(
        "--bootstrap-server", world.bootstrap, "--delete", "--group", world.groups[0], "--dry-run"
    )
    assert dry.status == 0


def test_undo_and_cleanup_pass_the_same_door(world: World) -> None:
    address = ("--bootstrap-server", world.bootstrap)
    assert kafkas_form(world).status == 0
    with GroupAdmin(world.bootstrap) as admin:
        admin.cleanup_plan(world.groups[1:], path=world.folder / "plan.json")
    world.context("--protected")
    for argv in (["undo", "last"], ["cleanup", "apply", str(world.folder / "plan.json")]):
        refused = world.run(*argv, *address, "--yes")
        assert (refused.status, "is protected" in refused.said) == (1, True), refused
    found = seen(world.bootstrap, *world.groups)
    assert [len(offsets) for offsets in found.values()] == [0, 2]
    undone = world.run("undo", "last", *address, "--yes", "--confirm", world.cluster_id)
    assert undone.status == 0
    with GroupAdmin(world.bootstrap) as admin:
        done = next(entry for entry in admin.history() if entry.undoes is None)
        assert kafkas_form(world, "--confirm", world.cluster_id).status == 0
        with pytest.raises(KgError, match="is protected"):
            admin.undo(done.id, force=True)


# -- policy -----------------------------------------------------------------------------------


class Case(NamedTuple):
    policy: str
    options: tuple[str, ...]
    groups: int
    said: str
    allowed: tuple[str, ...] | None = None


CASES = {
    "protected": Case('protected = ["nosuch", "policy-*"]', (), 1, "is protected (policy-*)"),
    "max_groups": Case("max_groups = 1", (), 2, "2 groups would be changed, the limit is 1"),
    "max_offsets": Case("max_offsets = 3", (), 2, "4 offsets would be changed, the limit is 3"),
    "min_idle": Case('min_idle = "1d12h"', (), 1, "is not known to be idle for 1d 12h"),
    "forbid": Case('forbid = ["--force"]', ("--force",), 1, "--force is forbidden", ()),
    "reason": Case("reason = true", (), 1, "a change needs a reason", ("--reason", "old")),
}


@each_form
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_key(world: World, form: Form, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    path = world.policy(case.policy)
    world.context("--policy", path, "--not-protected")
    refused = form(world, *case.options, groups=case.groups)
    assert refused.status == 1
    assert f"The policy {path} refuses it" in refused.said
    assert case.said in refused.said
    assert world.are_there()
    if case.allowed is not None:
        assert form(world, *case.allowed).status == 0
        return
    # KGTOOL_POLICY holds beside it, and does not replace it.
    other = world.folder / "other.toml"
    other.write_text("max_groups = 1000")
    monkeypatch.setenv("KGTOOL_POLICY", str(other))
    assert (form(world, groups=case.groups).status, world.are_there()) == (1, True)
    # Without it the change is as good as any.
    monkeypatch.setenv("KGTOOL_POLICY", str(path))
    contexts.remove(PROTECTED)
    assert form(world, *case.options, groups=case.groups).status == 1
    monkeypatch.delenv("KGTOOL_POLICY")
    assert form(world, *case.options, groups=case.groups).status == 0


def test_all_groups_may_be_forbidden(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGTOOL_POLICY", world.policy('forbid = ["--all-groups"]'))
    address = ("--bootstrap-server", world.bootstrap)
    for argv in (
        ["--reset-offsets", "--all-groups", "--topic", world.topic, "--to-latest", "--execute"],
        ["-reset-offsets", "-all-groups", "--topic", world.topic, "-to-latest", "-execute"],
        ["delete-offsets", "--all-groups", "--topic", world.topic, "--yes"],
    ):
        refused = world.run(*address, *argv)
        assert (refused.status, "--all-groups is forbidden" in refused.said) == (1, True), refused
    assert world.are_there()


@each_form
def test_a_group_that_is_idle_may_go(
    world: World, form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGTOOL_POLICY", world.policy('min_idle = "2s"'))
    time.sleep(3)
    done = form(world, groups=2)
    assert done.status == 0, done
    assert [len(found) for found in seen(world.bootstrap, *world.groups).values()] == [0, 0]


def test_undo_does_not_wait_for_idle_groups(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kafkas_form(world).status == 0
    monkeypatch.setenv("KGTOOL_POLICY", world.policy('min_idle = "30d"'))
    with GroupAdmin(world.bootstrap) as admin:
        assert admin.undo("last").errors == []
    assert len(seen(world.bootstrap, world.groups[0])[world.groups[0]]) == 2


def _raw(world: World, **given: Any) -> None:
    with GroupAdmin(world.bootstrap, **given) as admin:
        admin.request("OffsetFetch", {"groups": []})
        admin.request("DeleteGroups", {"groupsNames": [world.groups[0]]})


def test_a_raw_request_of_a_program_passes_the_same_door(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Was: GroupAdmin.request asked nobody, on a protected cluster either."""
    world.context("--protected")
    with pytest.raises(KgError, match="is protected"):
        _raw(world)
    assert world.are_there()
    monkeypatch.setenv("KGTOOL_POLICY", world.policy("max_groups = 5"))
    with pytest.raises(KgError, match="which groups a raw request changes is unknown"):
        _raw(world, confirm=world.cluster_id)
    assert world.are_there()
    monkeypatch.delenv("KGTOOL_POLICY")
    _raw(world, confirm=world.cluster_id)
    assert not world.are_there()


def test_options_of_a_program_are_forbidden_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Was: only --force and --as-member were known of its calls."""
    options = ("allow-blind", "join", "create", "all", "other-cluster", "all-or-nothing")
    named = ", ".join(f'"--{name}"' for name in options)
    saved = world.folder / "backup.jsonl"
    group, at = world.groups[0], TopicPartition(world.topic, 0)
    with GroupAdmin(world.bootstrap) as admin:
        plan = admin.cleanup_plan([group])
        admin.backup([group], saved)
        member = clients.join(world.bootstrap, living := clients.unique("policy"), [world.topic])
        monkeypatch.setenv("KGTOOL_POLICY", world.policy(f"forbid = [{named}]"))
        tries = {
            "allow-blind": lambda: admin.cleanup_apply(plan, allow_blind=True),
            "join": lambda: admin.keep([group], join=True),
            "create": lambda: admin.commit_offsets(clients.unique("policy"), {at: 0}, create=True),
            "all": lambda: admin.remove_members(living, all_members=True),
            "other-cluster": lambda: admin.restore(saved, other_cluster=True),
            "all-or-nothing": lambda: admin.reset_offsets([group], "latest", all_or_nothing=True),
        }
        strict = {"all_or_nothing": True}
        others = [
            lambda: admin.delete_groups([group], **strict),
            lambda: admin.delete_offsets(group, [world.topic], **strict),
            lambda: admin.keep([group], **strict),
            lambda: admin.remove_members(living, client_ids=["rdkafka"], **strict),
        ]
        assert set(tries) == set(options)
        for name, change in tries.items():
            with pytest.raises(KgError, match=f"--{name} is forbidden"):
                change()
        for change in others:
            with pytest.raises(KgError, match="--all-or-nothing is forbidden"):
                change()
        member.close()
    assert world.are_there()


def test_a_raw_request_can_not_be_judged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGTOOL_POLICY", world.policy("max_groups = 5"))
    body = f'{{"groupsNames": ["{world.groups[0]}"]}}'
    refused = world.run(
        "--bootstrap-server", world.bootstrap, "request", "DeleteGroups", "--yes", "--body", body
    )
    assert (refused.status, world.are_there()) == (1, True)
    assert "which groups a raw request changes is unknown" in refused.said


@each_form
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_group = 1", "unknown key 'max_group'"),
        ('max_groups = "1"', "max_groups takes a whole number"),
        ("max_offsets = true", "max_offsets takes a whole number"),
        ('protected = "payments"', "protected takes a list of patterns of groups"),
        ('min_idle = "soon"', "min_idle takes a duration"),
        ("min_idle = 30", "min_idle takes a duration"),
        ('forbid = ["force"]', "forbid takes a list of options"),
        ('forbid = ["--froce"]', "forbid names '--froce'"),
        ("reason = 1", "reason takes true or false"),
        ("refuse_blind = 0", "refuse_blind takes true or false"),
        ('mcp = "delete"', "mcp takes a list of commands"),
        ("[", "Can't read the policy"),
    ],
)
def test_what_can_not_be_read_allows_nothing(
    world: World, form: Form, text: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = world.policy(text)
    monkeypatch.setenv("KGTOOL_POLICY", path)
    refused = form(world)
    assert refused.status == 2
    assert said in refused.said
    assert path in refused.said
    assert world.are_there()


def test_a_policy_that_is_not_there(world: World) -> None:
    refused = world.run("context", "add", "a", "--bootstrap-server", "b:1", "--policy", "/nosuch")
    assert (refused.status, "/nosuch" in refused.said) == (2, True)
    path = world.policy("max_groups = 0")
    world.context("--policy", path, "--not-protected")
    Path(path).unlink()
    for form in (kafkas_form, command, python):
        assert (form(world).status, world.are_there()) == (2, True)


def test_protected_is_true_or_false(world: World) -> None:
    world.context("--protected")
    place = Path(contexts_file())
    place.write_text(place.read_text().replace("protected = true", 'protected = "yes"'))
    with pytest.raises(ConfigError, match="neither true nor false"):
        contexts.load()
    assert (kafkas_form(world).status, world.are_there()) == (2, True)


# -- in parts ---------------------------------------------------------------------------------


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change of two groups takes two parts."""
    monkeypatch.setattr(fetch, "FIRST", 1)
    monkeypatch.setattr(fetch.AdaptiveBatches.__init__, "__defaults__", (1,))
    monkeypatch.setattr("kgtool.changes.cleanup.apply.GROUPS_AT_ONCE", 1)


def commands(world: World) -> dict[str, list[str]]:
    words = [word for group in world.groups for word in ("--group", group)]
    reset = [*words, "--all-topics", "--to-offset", "0", "--execute"]
    return {
        "--delete": ["--delete", *words],
        "--delete-offsets": ["--delete-offsets", *words, "--topic", world.topic],
        "--reset-offsets": ["--reset-offsets", *reset],
        "delete": ["delete", *words, "--yes"],
        "delete-offsets": ["delete-offsets", *words, "--topic", world.topic, "--yes"],
        "reset-offsets": ["reset-offsets", *reset, "--yes"],
        "keep": ["keep", *world.groups, "--yes"],
        "cleanup": ["cleanup", "apply", str(world.folder / "plan.json"), "--yes"],
    }


LIMITS = {"max_offsets = 3": "4 offsets", "max_groups = 1": "2 groups"}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.usefixtures("one_by_one")
def test_the_whole_is_judged_before_the_first_part(
    world: World, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No change stops half way because it turns out to be too large."""
    address = ("--bootstrap-server", world.bootstrap)
    plan, backup = world.folder / "plan.json", str(world.folder / "backup.jsonl")
    with GroupAdmin(world.bootstrap) as admin:
        admin.cleanup_plan(world.groups, path=plan)
        admin.backup(world.groups, backup)
    said = f"{LIMITS[limit]} would be changed"
    monkeypatch.setenv("KGTOOL_POLICY", world.policy(limit))
    for name, argv in commands(world).items():
        refused = world.run(*address, *argv)
        assert (refused.status, said in refused.said) == (1, True), (name, refused)
        assert world.are_there(), name
    with GroupAdmin(world.bootstrap) as admin:
        for change in (
            lambda: admin.delete_groups(world.groups),
            lambda: admin.cleanup_apply(plan),
        ):
            with pytest.raises(KgError, match=said):
                change()
            assert world.are_there()
        monkeypatch.delenv("KGTOOL_POLICY")
        assert world.run(*address, *commands(world)["--delete"]).status == 0
        monkeypatch.setenv("KGTOOL_POLICY", world.policy(limit))
        for argv in (["undo", "last"], ["restore", backup]):
            refused = world.run(*argv, *address, "--yes")
            assert (refused.status, said in refused.said) == (1, True), (argv, refused)
        for back in (admin.undo, lambda: admin.restore(backup)):
            with pytest.raises(KgError, match=said):
                back()
    assert set(map(len, seen(world.bootstrap, *world.groups).values())) == {0}


# -- --max-delete -----------------------------------------------------------------------------


def test_max_delete(world: World) -> None:
    address = ("--bootstrap-server", world.bootstrap)
    words = [word for group in world.groups for word in ("--group", group)]
    backup = str(world.folder / "backup.jsonl")
    assert world.run("backup", *address, *words, "--out", backup).status == 0
    for argv in (
        ["--delete", *words],
        ["--delete-offsets", *words, "--topic", world.topic],
        ["--reset-offsets", *words, "--all-topics", "--to-offset", "0", "--execute"],
        ["delete", *words, "--yes"],
        ["delete-offsets", *words, "--topic", world.topic, "--yes"],
        ["reset-offsets", *words, "--all-topics", "--shift-by", "0", "--execute", "--yes"],
        ["keep", *world.groups, "--join", "--yes"],
        [
            "configs",
            *words,
            "--alter",
            "--add-config",
            "consumer.session.timeout.ms=50000",
            "--yes",
        ],
    ):
        refused = world.run(*address, *argv, "--max-delete", "1")
        said = "2 groups would be changed, and --max-groups allows 1: nothing was changed."
        assert (refused.status, said in refused.said) == (1, True), (argv, refused)
        assert world.are_there(), argv
    assert world.run(*address, "--delete", *words, "--max-delete", "2").status == 0
    for argv in (["undo", "last"], ["restore", backup]):
        refused = world.run(*argv, *address, "--yes", "--max-delete", "1")
        assert (refused.status, "--max-groups allows 1" in refused.said) == (1, True), refused
    assert world.run("undo", "last", *address, "--yes", "--max-delete", "2").status == 0


# -- previews ---------------------------------------------------------------------------------


def previews(world: World) -> dict[str, list[str]]:
    """The changes of two groups, as dry runs."""
    found = {}
    for name, argv in commands(world).items():
        words = [word for word in argv if word not in ("--yes", "--execute")]
        found[name] = [*words, *([] if "reset" in name else ["--dry-run"])]
    found["restore"] = ["restore", str(world.folder / "backup.jsonl"), "--force", "--dry-run"]
    found["configs"] = [
        "configs",
        *world.groups,
        "--alter",
        "--add-config",
        "consumer.session.timeout.ms=50000",
        "--dry-run",
    ]
    return found


REFUSALS = {
    "max_groups = 1": "2 groups would be changed, the limit is 1",
    'protected = ["policy-*"]': "is protected (policy-*)",
    'min_idle = "1d"': "is not known to be idle for 1d",
}


@pytest.mark.parametrize("refusal", [*REFUSALS, "protected"])
def test_a_preview_says_what_would_refuse_the_change(
    world: World, refusal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Was: nothing of it is said before the change itself."""
    address = ("--bootstrap-server", world.bootstrap)
    with GroupAdmin(world.bootstrap) as admin:
        admin.cleanup_plan(world.groups, path=world.folder / "plan.json")
        admin.backup(world.groups, world.folder / "backup.jsonl")
    for group in world.groups:
        clients.commit(world.bootstrap, group, {(world.topic, 0): 0}, metadata="later")
    before = {name: world.run(*address, *argv) for name, argv in previews(world).items()}
    for name, dry in before.items():
        assert "would be refused" not in dry.said, (name, dry)
    if refusal == "protected":
        world.context("--protected")
        said = f"--confirm {world.cluster_id} (KGTOOL_CONFIRM"
    else:
        monkeypatch.setenv("KGTOOL_POLICY", world.policy(refusal))
        said = REFUSALS[refusal]
    removals = ("--delete", "--delete-offsets", "delete", "delete-offsets", "cleanup")
    for name, argv in previews(world).items():
        dry = world.run(*address, *argv)
        is_refused = refusal != 'min_idle = "1d"' or name in removals
        assert dry.status == before[name].status, (name, dry)
        assert ("Note: the change would be refused." in dry.said) == is_refused, (name, dry)
        assert (said in dry.said) == is_refused, (name, dry)
