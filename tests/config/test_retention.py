"""The rules of ``retention``: what a file may say, and that each refusal names its line."""

from __future__ import annotations

import time
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from random import Random

import pytest

from kgtool.config.retention import RetentionRules, covers, read_rules
from kgtool.errors import ConfigError
from kgtool.held import hold

DAY = 86_400_000


def read(tmp_path: Path, text: str) -> RetentionRules:
    path = tmp_path / "r.toml"
    path.write_text(text)
    return read_rules(hold(path))


GOOD = """\
# of all teams
[[groups]]
match = "payments-*"  # a glob
retention = "90d"

[[groups]]
match = ["audit", 'bill[ei]ng-?']
retention = "never"

[[groups]]
"match" = "*"
retention = "1d12h"
"""


def test_the_first_rule_that_matches_holds(tmp_path: Path) -> None:
    rules = read(tmp_path, GOOD)
    assert [rule.retention_ms for rule in rules.rules] == [90 * DAY, None, DAY * 3 // 2]
    assert [rule.line for rule in rules.rules] == [2, 6, 10]

    def found(group: str) -> tuple[int, str] | None:
        hit = rules.of(group, "classic")
        return None if hit is None else (hit[0].number, hit[1])

    assert found("payments-eu") == (1, "payments-*")
    assert found("audit") == (2, "audit")
    assert found("billing-7") == (2, "bill[ei]ng-?")
    assert found("Audit") == (3, "*")  # in the case in which it is written
    assert read(tmp_path, GOOD.split('[[groups]]\n"')[0]).of("Audit", "classic") is None


REFUSED = {
    "": (1, "there are no [[groups]]"),
    "groups = 5": (1, "groups is not [[groups]]"),
    "groups = []": (1, "there are no [[groups]]"),
    "\n[[group]]\nmatch = 'a'": (2, "unknown key 'group'"),
    "# no\nretention = '5d'\n" + GOOD: (2, "unknown key 'retention'"),
    GOOD.replace('"payments-*"', '"payments-*"\nmatches = "x"'): (4, "unknown key 'matches'"),
    GOOD.replace('retention = "never"', ""): (6, "retention is missing"),
    GOOD.replace('"match" = "*"\n', ""): (10, "match is missing"),
    GOOD.replace('"90d"', "90"): (4, "retention takes a duration"),
    GOOD.replace('"90d"', '"90"'): (4, "retention takes a duration"),
    GOOD.replace('"90d"', '"0s"'): (4, "retention takes a duration"),
    GOOD.replace('"90d"', '"-1d"'): (4, "retention takes a duration"),
    GOOD.replace('"90d"', '"ninety days"'): (4, "retention takes a duration"),
    GOOD.replace('"90d"', "true"): (4, "retention takes a duration"),
    GOOD.replace('"payments-*"', '""'): (3, "match has an empty pattern"),
    GOOD.replace('"payments-*"', "[]"): (3, "match takes a pattern"),
    GOOD.replace('"payments-*"', '["a", 5]'): (3, "match takes a pattern"),
    GOOD.replace('"audit"', '"audit", ""'): (7, "match has an empty pattern"),
    GOOD.replace('"90d"', '"90d"\ntype = "group"'): (5, "type takes some of classic, consumer"),
    GOOD.replace('"90d"', '"90d"\ntype = ["share", 5]'): (5, "type takes some of classic"),
    GOOD.replace('"90d"', '"90d"\ntype = []'): (5, "type takes some of classic"),
    "groups = [{match = 'a', retention = 'x'}]": (1, "retention takes a duration"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_slip_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    line, said = REFUSED[text]
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert refused.value.exit_code == 2
    assert str(refused.value).startswith(f"{tmp_path}/r.toml, line {line}"), refused.value
    assert said in str(refused.value)


def test_what_is_no_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"r\.toml is not TOML: .*line 3"):
        read(tmp_path, '[[groups]]\nmatch = "a"\nretention = 5d\n')
    with pytest.raises(ConfigError, match="Can't read .*none.toml: No such file"):
        hold(tmp_path / "none.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_rules(hold(tmp_path / "b.toml"))


@pytest.mark.parametrize(
    ("match", "taken"),
    [
        ('"payments-*"', "'payments-*' in line 3"),
        ('"payments-eu"', "'payments-*' in line 3"),
        ('["new", "payments-?-*"]', "'payments-*' in line 3"),
        ('"billing-[0-9]"', "'bill[ei]ng-?' in line 7"),
    ],
)
def test_a_pattern_that_never_matches_is_refused_with_both_lines(
    tmp_path: Path, match: str, taken: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, GOOD.replace('"match" = "*"', f"match = {match}"))
    assert f"{taken} takes all" in str(refused.value)
    assert "line 11" in str(refused.value)


def test_a_rule_takes_share_and_streams_groups_only_by_their_type(tmp_path: Path) -> None:
    text = """
        [[groups]]
        match = "*"
        retention = "90d"
        [[groups]]
        match = "s*"
        type = ["share", "streams"]
        retention = "1d"
        [[groups]]
        match = "s1"
        type = "share"
        retention = "2d"
    """
    with pytest.raises(ConfigError, match=r"line 10 .*'s1' never matches: 's\*' in line 6"):
        read(tmp_path, text)
    rules = read(tmp_path, text.replace('"s1"', '"t1"'))

    def number(group: str, kind: str | None) -> int | None:
        hit = rules.of(group, kind)
        return None if hit is None else hit[0].number

    assert [number("s1", kind) for kind in ("classic", "consumer", "")] == [1, 1, 1]
    assert [number("s1", kind) for kind in ("share", "streams")] == [2, 2]
    assert [number("t1", kind) for kind in ("share", "streams")] == [3, None]
    assert number("t1", None) == 1


@pytest.mark.parametrize(
    ("matches", "said"),
    [
        (["a*", "ab*"], "line 5 (rule 2): 'ab*' never matches: 'a*' in line 2 takes all"),
        (["a*", "b*", "a*"], "line 8 (rule 3): 'a*' never matches: 'a*' in line 2 takes all"),
        (
            ["[a-m]*", "x", "[n-z]*", "[!0-9A-Z]*[a-z]", "team-*"],
            "line 14 (rule 5): 'team-*' never matches: '[n-z]*' in line 8 takes all",
        ),
        (
            ["team-[a-m]*", "other*", "team-[n-z]*", "team-[a-z]?"],
            "line 11 (rule 4): 'team-[a-z]?' never matches: 'team-[a-m]*', 'team-[n-z]*' in lines "
            "2, 8 together take all of its groups",
        ),
        (["a", "[z-a]*"], "line 5 (rule 2): '[z-a]*' never matches: no name is like it"),
        (["[z-a]"], "line 2 (rule 1): '[z-a]' never matches: no name is like it"),
    ],
)
def test_a_rule_that_never_matches(tmp_path: Path, matches: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, in_order(*matches))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("share", "'abc' never matches: 'ab?' in line 6 takes"),
        ("streams", "'abc' never matches: 'a*' in line 10 takes"),
        ("consumer", "'abc' never matches: 'a*' in line 2 takes"),
        ("share', 'streams", "'abc' never matches: 'ab?', 'a*' in lines 6, 10 together take"),
    ],
)
def test_types_count_one_by_one(tmp_path: Path, kind: str, said: str) -> None:
    """What takes the consumer groups of a name leaves its share groups."""
    rules = [("a*", "classic', 'consumer"), ("ab?", "share"), ("a*", "streams")]
    lines = "".join(
        f"[[groups]]\nmatch = '{match}'\nretention = '9d'\ntype = ['{types}']\n"
        for match, types in [*rules, ("abc", kind)]
    )
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, lines)
    assert said in str(refused.value)
    assert len(read(tmp_path, lines.replace("'abc'", "'bcd'")).rules) == 4


def in_order(*matches: str) -> str:
    return "".join(f'[[groups]]\nmatch = "{each}"\nretention = "9d"\n' for each in matches)


@pytest.mark.parametrize(
    "matches",
    [
        ["ab*", "a*", "*"],  # the special one before the general one
        ["a*", "A*"],
        ["*-eu", "pay-*"],
        ["team-[a-m]*", "team-[n-z]*", "team-*"],  # is left: "team-", "team-5"
        ["a", "b", "[ab]*"],
    ],
)
def test_an_order_that_means_something(tmp_path: Path, matches: list[str]) -> None:
    assert len(read(tmp_path, in_order(*matches)).rules) == len(matches)


def test_a_long_file_is_read_in_no_time(tmp_path: Path) -> None:
    names = [f"team-{number:03}-*" for number in range(300)]
    began = time.process_time()
    assert len(read(tmp_path, in_order(*names, "team-*")).rules) == 301
    assert time.process_time() - began < 5


def test_patterns_that_overlap_in_part_are_what_first_match_is_for(tmp_path: Path) -> None:
    text = GOOD.replace('"match" = "*"', 'match = ["pay*", "*-eu", "payments?", "audit?"]')
    assert read(tmp_path, text).rules[2].globs == ("pay*", "*-eu", "payments?", "audit?")


def test_patterns_together_cover_what_one_of_them_takes() -> None:
    """Held to all names of up to three letters."""
    random, found = Random(11), 0
    for _ in range(300):
        wide = ["".join(random.choices(TOKENS, k=random.randrange(1, 4))) for _ in "123"]
        narrow = "".join(random.choices(TOKENS, k=random.randrange(1, 4)))
        taken = [name for name in NAMES if fnmatchcase(name, narrow)]
        if covers(wide, narrow):
            assert all(any(fnmatchcase(name, each) for each in wide) for name in taken)
            found += not any(covers([each], narrow) for each in wide)
    assert found > 0


TOKENS = ["a", "b", "*", "?", "[ab]", "[!a]", "[a-c]", "[]a]", "[", "]", "[!]b]", "-"]
NAMES = ["".join(letters) for size in range(4) for letters in product("abc-][", repeat=size)]


def test_a_pattern_covers_what_it_takes_all_names_of() -> None:
    """Held to all names of up to three letters."""
    random, found = Random(7), 0
    for _ in range(500):
        wide, narrow = ("".join(random.choices(TOKENS, k=random.randrange(4))) for _ in "12")
        taken = [name for name in NAMES if fnmatchcase(name, narrow)]
        does = all(fnmatchcase(name, wide) for name in taken)
        if covers([wide], narrow):
            assert does, (wide, narrow)
            found += 1
        elif taken:
            assert not does or "*" in narrow or len(narrow) > 3, (wide, narrow)
    assert found > 40


@pytest.mark.parametrize(
    ("wide", "narrow", "does"),
    [
        ("*", "", True),
        ("*", "a[b-d]*", True),
        ("a*", "*", False),
        ("?*", "*?", True),
        ("?*", "*", False),
        ("a*b*", "a*x*b", True),
        ("a?c", "abc", True),
        ("[a-z]", "[c-f]", True),
        ("[c-f]", "[a-z]", False),
        ("[!x]", "[a-c]", True),
        ("*[0-9]", "g-[3-5]", True),
        ("x[", "x[", True),
    ],
)
def test_which_pattern_covers_which(wide: str, narrow: str, does: bool) -> None:
    assert covers([wide], narrow) is does


def test_patterns_that_take_too_long_are_not_decided() -> None:
    assert not covers(["*a" + "?" * 30], "*a" + "?" * 31 + "*b")
