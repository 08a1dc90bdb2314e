"""The rules of ``kgtool retention``: a retention for each group, in a TOML file.

::

    [[groups]]            # first match wins; what matches nothing is left to the broker
    match = "payments-*"  # a glob, or a list of them
    retention = "90d"     # or "never"
    type = "streams"      # optional, or a list: by default classic and consumer groups

A pattern that can't decide anything, as earlier ones take all of its names, is refused: the file
would not do what it says.
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
    """Refuse a pattern all of whose names an earlier one takes."""
    earlier: list[tuple[str, Rule]] = []
    for rule in rules:
        for glob in rule.globs:
            for taken, by in earlier:
                if _types_of(rule) <= _types_of(by) and covers(taken, glob):
                    there = places.line("match", by.number)
                    raise places.error(
                        f"{shown(glob)} never matches: {shown(taken)} in line {there} takes all of "
                        "its groups (the first match wins)",
                        "match",
                        rule.number,
                        "Move it up, or remove it.",
                    )
        earlier += [(glob, rule) for glob in rule.globs]


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


def covers(wide: str, narrow: str) -> bool:
    """Whether a pattern takes all names that another one takes; False also where that is too
    hard to tell.

    >>> covers("pay-*", "pay-*-eu"), covers("pay-?", "pay-*"), covers("[a-z]*", "m[0-9]")
    (True, False, True)
    """
    if not fnmatchcase(_example(narrow), wide):
        return False
    outer, inner = _tokens(wide), _tokens(narrow)
    letters = {*wide, *narrow, "\0"}
    letters |= {chr(min(ord(letter) + 1, 0x10FFFF)) for letter in letters}
    first = (_reached(inner, {0}), _reached(outer, {0}))
    seen, left = {first}, [first]
    while left and len(seen) < _MOST_STATES:
        here, there = left.pop()
        if len(inner) in here and len(outer) not in there:
            return False
        for letter in letters:
            step = _step(inner, here, letter), _step(outer, there, letter)
            if step[0] and step not in seen:
                seen.add(step)
                left.append(step)
    return not left


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
