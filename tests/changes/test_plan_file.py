"""Plan files: what is written is read again, and what an editor broke is named with its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgtool.changes.cleanup import plan_file as p
from kgtool.changes.cleanup.plan_reader import BadPlan, read
from kgtool.errors import ConfigError

HEADER = p.PlanHeader(
    "20260131-120000-1f2e3d4c",
    "cluster-1",
    1,
    "1970-01-01T00:00:00Z",
    "ann@host",
    "cluster",
    {"idle_ms": 5},
    "0.1.0",
)

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
longs = st.integers(0, 2**63 - 1)
maybe = st.none() | longs
offsets = st.builds(
    p.PlannedOffset,
    names,
    st.integers(0, 2**31 - 1),
    maybe,
    st.none() | st.integers(0, 9),
    st.none() | st.text(st.characters(codec="utf-8"), max_size=12),
    st.none() | names,
    maybe,
    maybe,
    maybe,
    st.none() | names,
    st.none() | st.just("topic-gone"),
)


def unique(found: list[p.PlannedOffset]) -> tuple[p.PlannedOffset, ...]:
    return tuple({offset.at: offset for offset in found}.values())


@st.composite
def items(draw: Any) -> p.PlanItem:
    action = draw(st.sampled_from(p.ACTIONS))
    found = unique(draw(st.lists(offsets, min_size=1, max_size=4)))
    keep: tuple[p.PlannedOffset, ...] = ()
    if action == p.REBUILD_GROUP:
        taken = {offset.at for offset in found}
        more = unique(draw(st.lists(offsets, max_size=3)))
        keep = tuple(o for o in more if o.at not in taken and o.offset is not None)
    return p.PlanItem(
        action,
        draw(names),
        draw(st.sampled_from([None, "classic", "consumer"])),
        "Empty",
        ("why",),
        found,
        keep,
        draw(maybe),
        draw(maybe),
        draw(maybe),
        draw(maybe),
    )


@settings(max_examples=40, deadline=None)  # it waits for the disk
@given(st.lists(items(), max_size=5, unique_by=lambda item: item.group))
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, found: list[p.PlanItem]
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    plan = p.CleanupPlan(HEADER, tuple(found), (p.LeftOut("other", "nobody knows"),))
    p.write(plan, path)
    again = read(path)
    assert again._replace(items=tuple(item._replace(line=0) for item in again.items)) == plan
    # Each item has a line of its own, which the reader knows.
    lines = path.read_text().splitlines()
    for item in again.items:
        assert json.loads(lines[item.line - 1].rstrip(","))["group"] == item.group
    # Any other tool may write it again.
    path.write_text(json.dumps(json.loads(path.read_text()), indent=2, ensure_ascii=False), "utf-8")
    reread = read(path)
    assert [item._replace(line=0) for item in reread.items] == found


def test_the_summary_is_of_what_goes(tmp_path: Path) -> None:
    """Of a lag that is not known nothing is counted, and of what only waits neither."""
    one, two = (p.PlannedOffset("t", number, 3) for number in range(2))
    found = (
        p.PlanItem(p.DELETE_GROUP, "a", None, "Empty", ("dead",), (one, two), lag=5),
        p.PlanItem(p.DELETE_OFFSETS, "b", None, "Stable", ("dead",), (one,), lag=None),
        p.PlanItem(p.DELETE_OFFSETS, "b", None, "Stable", ("dead",), (two,), lag=2),
        p.PlanItem(p.WAIT, "c", None, "Empty", ("soon",), (one,), lag=90),
    )
    p.write(p.CleanupPlan(HEADER, found, ()), tmp_path / "plan.json")
    assert json.loads((tmp_path / "plan.json").read_text())["summary"] == {
        "items": 4,
        "groups": 2,
        "offsets": 4,
        "lag": 7,
        "waiting": 1,
        "left_out": 0,
    }


def item(group: str = "g1", **more: Any) -> dict[str, Any]:
    offset = {"topic": "t", "partition": 0, "offset": 3}
    return {"action": "delete-group", "group": group, "why": ["dead"], "offsets": [offset], **more}


def write(path: Path, *found: dict[str, Any], **more: Any) -> Path:
    head = {"kgtool_plan": 1, **HEADER._asdict(), **more}
    body = ",\n".join(json.dumps(each) for each in found)
    path.write_text(json.dumps(head)[:-1] + ',\n "items": [\n' + body + "\n]}\n")
    return path


def test_a_plan_of_few_words_is_enough(tmp_path: Path) -> None:
    (found,) = read(write(tmp_path / "p", item())).items
    assert (found.action, found.group, found.line) == ("delete-group", "g1", 3)
    assert found.offsets[0].at == ("t", 0)
    assert found.offsets[0].committed_at_ms is None


BAD: list[tuple[dict[str, Any], str]] = [
    (item(action="delete"), "action is none of"),
    (item(action=5), "action is not of the right type"),
    (item(group=["g"]), "group is not of the right type"),
    (item(group="\ud800"), "group is not valid text"),
    (item(offsets=None), "offsets is not of the right type"),
    (item(offsets=[{"topic": "t", "partition": -1}]), "partition is not a whole number"),
    (item(offsets=[{"topic": "t", "partition": True}]), "partition is not of the right type"),
    (item(offsets=[{"partition": 0}]), "topic is missing"),
    (item(offsets=[7]), "not an object"),
    (item(offsets=[{"topic": "t", "partition": 0}] * 2), "t-0 appears twice"),
    (item(action="delete-offsets", offsets=[]), "offsets is empty"),
    (item(keep=[{"topic": "t", "partition": 1, "offset": 1}]), "keep has no meaning"),
    (item(action="rebuild-group", keep=[{"topic": "u", "partition": 1}]), "can't be restored"),
    (
        item(action="delete-offsets", type="share", offsets=[{"topic": "t", "partition": 0}]),
        "delete-offsets is not for a share group",
    ),
    (item(group="first"), "the group is in item 1 already"),
]


@pytest.mark.parametrize(("bad", "said"), BAD, ids=[said for _, said in BAD])
def test_a_bad_item_is_named_with_its_line(tmp_path: Path, bad: dict[str, Any], said: str) -> None:
    path = write(tmp_path / "plan.json", item("first"), bad, item("third"))
    with pytest.raises(BadPlan) as caught:
        read(path)
    assert caught.value.exit_code == 2
    assert re.search(rf"plan\.json, line 4 \(item 2.*\): .*{re.escape(said)}", str(caught.value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a kgtool plan: it is empty"),
        ('{"kgtool_plan": 1,\n "items": [\n{"a": 1}\n{"b": 2}\n]}', "line 4: not JSON"),
        ("[]", "is not a kgtool plan"),
        ('{"kgtool_backup": 1}\n{"group": "a"}\n', "is not a kgtool plan"),
        ('{"items": []}', "is not a kgtool plan"),
        ('{"kgtool_plan": 1, "items": []}', "cluster_id is missing"),
        ('{"kgtool_plan": 1, "cluster_id": null, "items": []}', "made_at_ms is missing"),
        ('{"kgtool_plan": 1, "cluster_id": 5, "items": []}', "cluster_id is not of the right"),
        ('{"kgtool_plan": 1, "cluster_id": "c", "made_at_ms": -1, "items": []}', "made_at_ms is"),
        ('{"kgtool_plan": 99, "items": []}', "made by a newer kgtool"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_is_no_plan(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(path)


def test_a_plan_of_another_tool(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"items": [], "kgtool_plan": 1, "cluster_id": "c", "made_at_ms": 5}')
    found = read(path)
    assert (found.header.cluster_id, found.header.since_ms, found.items) == ("c", 5, ())
    assert len(found.header.id) == 64


def test_a_plan_without_items(tmp_path: Path) -> None:
    head = {"kgtool_plan": 1, **HEADER._asdict()}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(head))
    with pytest.raises(BadPlan, match="items is missing"):
        read(path)


def test_binary_rubbish_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(ConfigError, match="No such file"):
        read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadPlan, match="not UTF-8"):
        read(path)


def test_a_group_may_be_waited_for_and_changed(tmp_path: Path) -> None:
    wait = item(action="wait")
    assert len(read(write(tmp_path / "p", wait, item(), wait)).items) == 3


def test_the_key_is_that_of_the_work(tmp_path: Path) -> None:
    one, other = read(write(tmp_path / "p", item("a"), item("b"))).items
    turned = read(write(tmp_path / "p", item("b"), item("a", why=["edited"]))).items
    assert [one.key, other.key] == [turned[1].key, turned[0].key]
    assert one.key != other.key


@pytest.mark.parametrize("part", ["offsets", "keep"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("offset", 4), ("leader_epoch", 1), ("metadata", "m"), ("topic_id", "x"), ("partition", 1)],
)
def test_the_key_is_that_of_the_values_too(part: str, name: str, value: object) -> None:
    """Kind: what an edited plan would write is taken for done, as the same places were."""
    offset = p.PlannedOffset("t", 0, 3)
    one = p.PlanItem(p.REBUILD_GROUP, "g", None, None, (), (offset,), (offset,))
    assert one._replace(**{part: (offset._replace(**{name: value}),)}).key != one.key
    assert one._replace(**{part: (offset._replace(lag=9),)}).key == one.key


def test_nothing_is_left_where_it_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be written"):
        p.write(p.CleanupPlan(HEADER, ()), tmp_path / "no" / "plan.json")
    assert list(tmp_path.iterdir()) == []
