"""The rules of ``kgtool retention``: a retention for each group, in a TOML file.

::

    [[groups]]            # first match wins; what matches nothing is left to the broker
    match = "payments-*"  # a glob, or a list of them
    retention = "90d"     # or "never"
    type = "streams"      # optional, or a list: by default classic and consumer groups

A pattern that can't decide anything, as earlier rules take all of its names, alone or together, is
refused: the file would not do what it says. One that they take a part of is what an order is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from kgtool.config.contexts import parse_toml
from kgtool.errors import ConfigError, UsageError
from kgtool.held import HeldFile
from kgtool.json_rows import shown
from kgtool.text import listed

NEVER = "never"
_KEYS = ("match", "retention")
_TYPES = ("classic", "consumer", "share", "streams")
OTHER_TYPES = ("share", "streams")
"""Types that a rule takes only where it names them."""
_MOST_STATES = 2_000
"""Where one pattern may take all of another's names only after so many steps, it is not known."""


class Rule(NamedTuple):
    """One ``[[groups]]``. ``retention_ms`` None: never. ``line``: where it begins in the file.

    ``types``: empty: all but ``OTHER_TYPES``.
    """

    number: int
    globs: tuple[str, ...]
    retention_ms: int | None
    line: int = 0
    types: tuple[str, ...] = ()

    def takes(self, kind: str | None) -> bool:
        """Whether it is about groups of a type; of an unknown one (None) it may be."""
        return kind is None or (kind in self.types if self.types else kind not in OTHER_TYPES)


class RetentionRules(NamedTuple):
    """The rules of a file; ``where`` is its name."""

    where: str
    rules: tuple[Rule, ...]

    def of(self, group: str, kind: str | None) -> tuple[Rule, str] | None:
        """Return the first rule that matches a group of a type, and its pattern that does."""
        rules = (rule for rule in self.rules if rule.takes(kind))
        found = ((rule, g) for rule in rules for g in rule.globs if fnmatchcase(group, g))
        return next(found, None)


def read_rules(file: HeldFile) -> RetentionRules:
    """Read rules.

    :raises ConfigError: it is not TOML, or has an unknown key, a wrong value, or a pattern that
        never matches; file, line and key are named.
    """
    text = file.text()
    try:
        document = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{file} is not TOML: {error}.") from None
    places = _Places(str(file), text)
    for key in document:
        if key != "groups":
            raise places.error(f"unknown key {shown(key)}", key, hint="Known: [[groups]].")
    entries = document.get("groups")
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        what = "there are no [[groups]]" if entries is None else "groups is not [[groups]]"
        raise places.error(what, "groups", hint='Write [[groups]], match = "…", retention = "…".')
    if not entries:
        raise places.error("there are no [[groups]]", "groups")
    places.count = len(entries)
    rules = tuple(_rule(places, number, entry) for number, entry in enumerate(entries, 1))
    _check_reach(places, rules)
    return RetentionRules(str(file), rules)


def _rule(places: _Places, number: int, entry: Mapping[str, Any]) -> Rule:
    for key in entry:
        if key not in (*_KEYS, "type"):
            known = f"Known: {', '.join(_KEYS)}, type."
            raise places.error(f"unknown key {shown(key)}", key, number, known)
    for key in _KEYS:
        if key not in entry:
            raise places.error(f"{key} is missing", None, number)
    globs = entry["match"] if isinstance(entry["match"], list) else [entry["match"]]
    if not globs or not all(isinstance(glob, str) for glob in globs):
        said = f"match takes a pattern or a list of them, not {shown(entry['match'])}"
        raise places.error(said, "match", number)
    if "" in globs:
        raise places.error("match has an empty pattern", "match", number)
    retention_ms, types = _retention(places, number, entry), _types(places, number, entry)
    return Rule(number, tuple(globs), retention_ms, places.line("", number), types)


def _types(places: _Places, number: int, entry: Mapping[str, Any]) -> tuple[str, ...]:
    given = entry.get("type", _TYPES[:2])
    types = [given] if isinstance(given, str) else given
    if not isinstance(types, Sequence) or not types or not all(each in _TYPES for each in types):
        said = f"type takes some of {', '.join(_TYPES)}, not {shown(given)}"
        raise places.error(said, "type", number)
    return tuple(types) if "type" in entry else ()


def _retention(places: _Places, number: int, entry: Mapping[str, Any]) -> int | None:
    from kgtool.timespec import span_ms

    value = entry["retention"]
    try:
        if isinstance(value, str):
            return None if value.strip() == NEVER else span_ms(value, "retention")
    except UsageError:
        pass
    said = f'retention takes a duration such as "90d", or "{NEVER}", not {shown(value)}'
    raise places.error(said, "retention", number)


def _check_reach(places: _Places, rules: Sequence[Rule]) -> None:
    """Refuse a pattern that takes no name, or all of whose names earlier rules take."""
    earlier: list[tuple[str, Rule]] = []
    for rule in rules:
        for glob in rule.globs:
            why = None if _takes_any(glob) else "no name is like it"
            if why is None and (by := _taken(earlier, rule, glob)):
                lines = sorted({places.line("match", one.number) for _, one in by})
                patterns = listed([shown(each) for each, _ in by], 4)
                where = f"line {lines[0]}" if len(lines) == 1 else f"lines {listed(lines, 4)}"
                takes = "takes" if len(by) == 1 else "together take"
                why = f"{patterns} in {where} {takes} all of its groups (the first match wins)"
            if why is not None:
                said = f"{shown(glob)} never matches: {why}"
                raise places.error(said, "match", rule.number, "Move it up, or remove it.")
        earlier += [(glob, rule) for glob in rule.globs]


def _taken(earlier: Sequence[tuple[str, Rule]], rule: Rule, glob: str) -> list[tuple[str, Rule]]:
    """Return what takes all names of a rule's pattern, of each type of groups that it is for."""
    found: list[tuple[str, Rule]] = []
    for rules in {tuple(one for one in earlier if one[1].takes(kind)) for kind in _types_of(rule)}:
        by = _taken_by(rules, glob)
        if not by:
            return []
        found += [one for one in by if one not in found]
    return sorted(found, key=lambda one: one[1].number)


def _taken_by(earlier: Sequence[tuple[str, Rule]], glob: str) -> list[tuple[str, Rule]]:
    """Return the pattern that takes all names of another, else the fewest of those that do so
    together; empty: some name is left."""
    single = next((one for one in earlier if covers([one[0]], glob)), None)
    if single is not None:
        return [single]
    found = [one for one in earlier if _may_meet(one[0], glob)]
    if not covers([each for each, _ in found], glob):
        return []
    for one in reversed(found):
        rest = [other for other in found if other is not one]
        if covers([each for each, _ in rest], glob):
            found = rest
    return found


def _types_of(rule: Rule) -> set[str]:
    return set(filter(rule.takes, _TYPES))


class _Places:
    """Where the keys stand, for messages: TOML readers don't tell."""

    _HEAD = re.compile(r"""\s*\[\[\s*(?:groups|"groups"|'groups')\s*\]\]""")

    def __init__(self, where: str, text: str) -> None:
        self._where = where
        self._lines = text.splitlines()
        self.count = -1

    def error(
        self, what: str, key: str | None, number: int = 0, hint: str | None = None
    ) -> ConfigError:
        """Return an error that names the line of a key of the ``number``-th rule (0: of none)."""
        of = f" (rule {number})" if number else ""
        return ConfigError(f"{self._where}, line {self.line(key, number)}{of}: {what}.", hint=hint)

    def line(self, key: str | None, number: int = 0) -> int:
        """Return the line of a key; where it can't be told, that of its rule, or 1."""
        heads = [at for at, line in enumerate(self._lines, 1) if self._HEAD.match(line)]
        if number and len(heads) != self.count:  # groups = [{…}], or such text in a string
            key, number = "groups", 0
        first = heads[number - 1] if number else 1
        last = [*heads, len(self._lines) + 1][number] if number else len(self._lines) + 1
        found = re.compile(rf"""\s*(?:\[+\s*)?["']?{re.escape(key or "")}["']?\s*[=.\]]""")
        for at in range(first, last) if key else ():
            if found.match(self._lines[at - 1]):
                return at
        return first


# ---------------------------------------------------------------------------------------------
# Patterns


def covers(wide: Sequence[str], narrow: str) -> bool:
    """Whether patterns together take all names that another one takes; False also where that is
    too hard to tell.

    >>> covers(["pay-*"], "pay-*-eu"), covers(["pay-?"], "pay-*"), covers(["[a-m]*", "[n-z]*"], "z")
    (True, False, True)
    """
    example = _example(narrow)
    if not any(fnmatchcase(example, each) for each in wide):
        return False
    outer, inner = [_tokens(each) for each in wide], _tokens(narrow)
    letters = {*"".join(wide), *narrow, "\0"}
    letters |= {chr(min(ord(letter) + 1, 0x10FFFF)) for letter in letters}
    first = (_reached(inner, {0}), *(_reached(each, {0}) for each in outer))
    seen, left = {first}, [first]
    while left and len(seen) * len(outer) < _MOST_STATES:
        here, *there = left.pop()
        taken = any(len(each) in at for each, at in zip(outer, there, strict=True))
        if len(inner) in here and not taken:
            return False
        for letter in letters:
            step = tuple(
                _step(each, at, letter)
                for each, at in zip([inner, *outer], [here, *there], strict=True)
            )
            if step[0] and step not in seen:
                seen.add(step)
                left.append(step)
    return not left


def _may_meet(one: str, other: str) -> bool:
    """Whether the letters before the first wildcards of two patterns allow a common name."""
    first, second = (re.split(r"[*?[]", each, maxsplit=1)[0] for each in (one, other))
    return first.startswith(second) or second.startswith(first)


def _takes_any(pattern: str) -> bool:
    """Whether any name matches: ``[z-a]`` takes no letter."""
    return fnmatchcase(_example(pattern), pattern)


def _tokens(pattern: str) -> list[str]:
    """Split a pattern as ``fnmatch`` reads it: ``*``, ``?``, ``[…]`` and letters."""
    return list(_split(pattern))


def _split(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        end = at + 1
        if pattern[at] == "[":
            begin = at + 1 + pattern.startswith("!", at + 1)
            close = pattern.find("]", begin + pattern.startswith("]", begin))
            end = close + 1 if close > 0 else end
        yield pattern[at:end]
        at = end


def _example(pattern: str) -> str:
    """Return a name that a pattern is likely to take; every name of it would do."""
    found = []
    for token in _split(pattern):
        if token == "?":
            found.append("\uffff")
        elif len(token) > 1:
            near = (chr(ord(letter) + more) for letter in token for more in (0, 1))
            found.append(next((c for c in near if fnmatchcase(c, token)), ""))
        elif token != "*":
            found.append(token)
    return "".join(found)


def _reached(tokens: Sequence[str], places: set[int]) -> frozenset[int]:
    """Return places in a pattern with those behind a ``*`` that takes nothing."""
    found = set(places)
    for at in sorted(places):
        while at < len(tokens) and tokens[at] == "*":
            at += 1
            found.add(at)
    return frozenset(found)


def _step(tokens: Sequence[str], places: frozenset[int], letter: str) -> frozenset[int]:
    found = set()
    for at in places:
        if at < len(tokens) and tokens[at] == "*":
            found.add(at)
        elif at < len(tokens) and fnmatchcase(letter, tokens[at]):
            found.add(at + 1)
    return _reached(tokens, found)
