"""What is said of epochs: who is behind the target assignment, and who is still classic."""

from __future__ import annotations

from typing import Any

from kgtool.cli.describe.epochs import classic_members, members_behind, sentences
from kgtool.model import GroupDescription, Member

ONE, TWO = (("t", (0,)),), (("t", (0, 1)),)


def member(name: str, epoch: int, held: Any = ONE, target: Any = ONE, **more: Any) -> Member:
    return Member(name, None, name, "/10.0.0.1", held, ("t",), epoch=epoch, target=target, **more)


def group(*members: Member, **more: Any) -> GroupDescription:
    fields: dict[str, Any] = {"group_epoch": 5, "assignment_epoch": 5, "type": "consumer"} | more
    kind = fields.pop("type")
    return GroupDescription("g", kind, "Stable", "consumer", "uniform", None, members, **fields)


def test_all_is_done() -> None:
    assert sentences(group(member("a", 5), member("b", 5))) == []


def test_an_older_epoch_and_another_assignment_are_behind() -> None:
    late, giving, done = member("late", 4), member("giving", 5, held=TWO), member("done", 5)
    found = group(late, giving, done)
    assert members_behind(found) == [late, giving]
    (said,) = sentences(found)
    assert said == (
        "Group g: 2 of 3 members are behind the target assignment (epoch 5): "
        "late on /10.0.0.1 (epoch 4), giving on /10.0.0.1 (epoch 5)."
    )


def test_a_target_that_is_still_to_be_made() -> None:
    (said,) = sentences(group(member("a", 5), group_epoch=6))
    assert said == "Group g: epoch 6, but the target assignment is still that of epoch 5."
    assert sentences(group(group_epoch=6)) == []  # nobody is there to get one


def test_a_migration() -> None:
    old, new = member("old", 5, is_classic=True), member("new", 5, is_classic=False)
    assert classic_members(group(old, new)) == [old]
    (said,) = sentences(group(old, new))
    assert said.startswith("Group g is being migrated: 1 of 2 members still speak the classic")
    assert said.endswith("protocol: old on /10.0.0.1 (epoch 5).")


def test_classic_groups_and_names_from_strangers() -> None:
    plain = Member("m", None, "c", "/h", ONE, ("t",))
    assert sentences(group(plain, type="classic", group_epoch=None, assignment_epoch=None)) == []
    many = [member(f"\x1b{number}", 1) for number in range(9)]
    (said,) = sentences(group(*many))
    assert "\x1b" not in said
    assert said.endswith("and 4 more.")
