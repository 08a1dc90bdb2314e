"""``delete --internal-topics``: a streams group's own topics go with it, and nobody else's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgtool import GroupAdmin
from kgtool.changes.groups.internal_topics import _own, owner
from kgtool.cli.change import confirm
from kgtool.client.cluster import Cluster, TopicInfo
from kgtool.queries.groups.topology import Topology
from tests.broker.conftest import Kgtool
from tests.support import clients
from tests.support.streams import StreamsMember


def own(app: str) -> tuple[str, str]:
    return f"{app}-by-key-repartition", f"{app}-counts-changelog"


def topics(bootstrap: str, *apps: str) -> set[str]:
    """The topics that are called after one of the applications."""
    known = clients.admin(bootstrap).list_topics(timeout=30).topics
    return {name for name in known if name.startswith(tuple(f"{app}-" for app in apps))}


@pytest.fixture
def apps(bootstrap: str, new_topic: Callable[..., str]) -> Iterator[tuple[str, str]]:
    """Two applications without members; one's name begins with the other's.

    The first one's topology names a changelog that is called after the second.
    """
    topic, first = new_topic(partitions=2), clients.unique("app")
    second = f"{first}-2"
    clients.produce(bootstrap, topic, 5)
    stores = {first: (f"{first}-counts-changelog", f"{second}-of-first-changelog")}
    for name in (second, first):
        inner, store = own(name)
        changelogs = stores.get(name, (store,))
        with StreamsMember(bootstrap, name, [topic], repartitions=(inner,), changelogs=changelogs):
            pass
        clients.commit(bootstrap, name, {(topic, 0): 3})
    yield first, second
    clients.delete_topics(bootstrap, *topics(bootstrap, first))


def test_only_its_own_topics_go(bootstrap: str, kgtool: Kgtool, apps: tuple[str, str]) -> None:
    first, second = apps
    before = topics(bootstrap, first)
    assert {*own(first), *own(second), f"{second}-of-first-changelog"} == before
    dry = kgtool("delete", first, "--internal-topics", "--dry-run", "-o", "json")
    assert [(row.get("topic"), row["status"]) for row in dry.json["results"]] == [
        (None, "would-delete"),
        *((topic, "would-delete") for topic in own(first)),
    ]
    assert topics(bootstrap, first) == before
    done = kgtool("delete", first, "--internal-topics", "--yes")
    assert done.status == 0, done.err
    for topic in own(first):
        assert f"  {topic} (2 partitions) of {first}" in done.err
    assert "undo can't restore" in done.err
    assert f"Deleted internal topics: {', '.join(own(first))}" in done.out
    clients.wait_for(lambda: not topics(bootstrap, first) & {*own(first)}, "the deletion")
    assert topics(bootstrap, first) == before - {*own(first)}
    assert first not in clients.group_ids(bootstrap)
    undone = kgtool("undo", "last", "--yes")
    assert (undone.status, "they do not come back" in undone.err) == (0, True)
    assert clients.committed(bootstrap, first)
    assert topics(bootstrap, first) == before - {*own(first)}


def test_what_is_left_is_named(
    bootstrap: str, kgtool: Kgtool, apps: tuple[str, str], tmp_path: Path
) -> None:
    """Without the option, and where the policy or the group itself refuses."""
    first, second = apps
    before = topics(bootstrap, first)
    policy = tmp_path / "policy.toml"
    policy.write_text(f'protected = ["{second}"]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KGTOOL_POLICY", str(policy))
        refused = kgtool("delete", second, "--internal-topics", "--yes")
    assert (refused.status, "is protected" in refused.err) == (1, True)
    left = kgtool("delete", first, "--yes")
    assert (left.status, topics(bootstrap, first)) == (0, before)
    assert f"Internal topics that are left: {', '.join(own(first))}" in left.err


def test_each_topic_is_asked_for(
    bootstrap: str, kgtool: Kgtool, apps: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = apps
    inner, store = own(first)
    asked: list[str] = []

    def answer(question: str, **_: object) -> bool:
        asked.append(question)
        return store not in question

    monkeypatch.setattr(confirm, "is_interactive", lambda: True)
    monkeypatch.setattr(confirm.click, "confirm", answer)
    monkeypatch.setattr(confirm.click, "prompt", lambda *_, **__: first)
    done = kgtool("delete", first, "--internal-topics", "-o", "json")
    assert done.status == 0, done.err
    assert [inner in asked[1], store in asked[2], len(asked)] == [True, True, 3]
    assert "It does not come back" in asked[1]
    assert [row["status"] for row in done.json["results"]] == ["deleted", "deleted"]
    assert store in topics(bootstrap, first)


def test_python_and_the_journal(bootstrap: str, apps: tuple[str, str], tmp_path: Path) -> None:
    first, _ = apps
    with GroupAdmin(bootstrap, journal=tmp_path / "own", reason="a test") as admin:
        (row,) = admin.delete_groups([first], internal_topics=True)
    assert [(one.topic, one.status) for one in row.topics] == [(t, "deleted") for t in own(first)]
    (path,) = (tmp_path / "own").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kinds = [line["kind"] for line in lines]
    named = [line["topic"] for line in lines if line["kind"] == "topic"]
    assert named == list(own(first))
    assert kinds.index("topic") < kinds.index("ready") < kinds.index("result")


def test_a_group_that_has_none_is_told(
    bootstrap: str, kgtool: Kgtool, at_four: tuple[str, str]
) -> None:
    """Was: the option was passed over, as if its topics had gone too."""
    group, _ = at_four
    dry = kgtool("delete", group, "--internal-topics", "--dry-run")
    assert "--internal-topics: there are none" in dry.err
    assert f"Dry run: these groups would be deleted: '{group}'" in dry.out
    assert "there are none" not in kgtool("delete", group, "--dry-run").err


def test_names_decide_without_a_topology() -> None:
    """Never a topic of a listed application with a longer name."""
    cluster = Cluster()
    for name in (
        "app-a-changelog",
        "app-2-b-changelog",
        "app-c-repartition",
        "app-d",
        "b-changelog",
    ):
        cluster.topics[name] = TopicInfo(name, None, {0: 1})
    found = _own(cluster, "app", Topology([], ()), {"app", "app-2", "x"})
    assert [one.topic for one in found] == ["app-a-changelog", "app-c-repartition"]
    assert owner("app-2-b-changelog", {"app", "app-2"}) == "app-2"
