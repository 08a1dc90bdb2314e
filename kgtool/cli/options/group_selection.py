"""Which groups a command is about: names, ``--group``, ``--all-groups``, ``--match``, ``--regex``.

Named groups may be of any type. An argument with ``*``, ``?`` or ``[`` is a pattern, as for
``--match``, unless it is the name of a group. The other options choose among the groups that
Kafka's tool lists (contract, section 2): classic and consumer groups of protocol type ``""`` or
``consumer``. ``--exclude``, ``--state`` and ``--type`` only narrow what the others have chosen:
``--state Empty`` alone never means every group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.cli.app.nearest import nearest
from kgtool.cli.commands import NOUNS
from kgtool.errors import UsageError
from kgtool.model import ItemError, Listing, Target
from kgtool.text import escape, java_order

if TYPE_CHECKING:
    from kgtool.cli.output.output import Output
    from kgtool.columns import Column
    from kgtool.net.session import Session


OTHER_TYPES = {"share", "streams"}
"""Chosen by patterns only where ``--type`` names them."""


class Selection(NamedTuple):
    """The options that choose groups, not yet resolved."""

    groups: tuple[str, ...] = ()
    all_groups: bool = False
    match: tuple[str, ...] = ()
    regex: str | None = None
    exclude: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    """Arguments with ``*``, ``?`` or ``[``: names if there are such groups, else patterns."""
    noun: tuple[str, ...] = ()
    """The first of several arguments, if it is ``group``: a name if there is such a group."""
    words: tuple[str, ...] = ()
    """The arguments among ``groups``: topics may follow the first."""

    @property
    def is_given(self) -> bool:
        """Whether any group was asked for."""
        return bool(self.groups or self.ambiguous) or self.all_groups or self._has_pattern

    @property
    def needs_listing(self) -> bool:
        """Whether resolving it needs the cluster's list of groups."""
        has_filter = bool(self.ambiguous or self.states or self.types or self.noun)
        return self.all_groups or self._has_pattern or has_filter

    @property
    def has_filter(self) -> bool:
        """Whether there are patterns or filters, which may match no group."""
        return self._has_pattern or bool(self.exclude or self.states or self.types)

    @property
    def _has_pattern(self) -> bool:
        return bool(self.match) or self.regex is not None

    def with_arguments(self, words: Sequence[str]) -> Selection:
        """Add a command's arguments.

        :raises UsageError: one is empty. ``--group ''`` names the group with the empty name.
        """
        if "" in words:
            raise UsageError("GROUP is empty: is a variable unset?")
        noun = tuple(words[:1]) if len(words) > 1 and words[0] in NOUNS else ()
        named = words[len(noun) :]
        plain = [word for word in named if not any(letter in word for letter in "*?[")]
        return self._replace(
            groups=tuple(dict.fromkeys((*plain, *self.groups))),
            ambiguous=tuple(dict.fromkeys(word for word in named if word not in plain)),
            noun=noun,
            words=tuple(plain),
        )

    def resolve_ambiguous(self, listing: Listing) -> tuple[Selection, list[str]]:
        """Return the selection with ``ambiguous`` as names or patterns, and what matches no group.

        :param listing: all groups, of any state and type.
        """
        found = self._as_names_or_patterns({row.group for row in listing.groups})
        patterns = found.match[len(self.match) :]
        unmatched = [word for word in patterns if not any(map(glob(word), listing.consumer_groups))]
        match = tuple(pattern for pattern in found.match if pattern not in unmatched)
        return found._replace(match=match), unmatched

    def _as_names_or_patterns(self, existing: Collection[str]) -> Selection:
        words = (*self.ambiguous, *(word for word in self.noun if word in existing))
        names = [word for word in words if word in existing]
        patterns = [word for word in self.ambiguous if word not in existing]
        groups, match = (*self.groups, *names), (*self.match, *patterns)
        return self._replace(groups=groups, match=match, ambiguous=(), noun=())

    def check(self, action: str) -> None:
        """Raise UsageError if it chooses no group, or is contradictory."""
        if not self.is_given:
            raise UsageError(f"{action} takes groups: names, --match GLOB or --all-groups.")
        if (self.groups or self.ambiguous) and self.all_groups:
            raise UsageError("--all-groups can't be combined with group names.")
        self.predicate()

    def predicate(self) -> Callable[[str], bool]:
        """Return the test of names by patterns only; without any, all names pass."""
        return self._replace(groups=(), ambiguous=()).name_test(())

    def name_test(self, existing: Collection[str]) -> Callable[[str], bool]:
        """Return the test of names by names and patterns; without any, all names pass."""
        selection = self._as_names_or_patterns(existing)
        groups, tests = set(selection.groups), [glob(pattern) for pattern in selection.match]
        if selection.regex is not None:
            tests.append(full_match(selection.regex))
        takes_all, excluded = not groups and not tests, self._excluded()
        return lambda name: (
            (takes_all or name in groups or any(test(name) for test in tests))
            and not excluded(name)
        )

    def _excluded(self) -> Callable[[str], bool]:
        tests = [glob(pattern) for pattern in self.exclude]
        return lambda name: any(test(name) for test in tests)

    def resolve(self, listing: Listing | None, filtered: Collection[str] = ()) -> list[str]:
        """Return the chosen names, each once, in the order of Kafka's ``--describe``.

        :param listing: the groups of ``states`` and ``types``, if ``needs_listing``.
        :param filtered: existing groups that are not in the listing because of those two.
        """
        excluded = self._excluded()
        names = {name for name in self.groups if not excluded(name) and name not in filtered}
        if listing is not None and (self.all_groups or self._has_pattern):
            test = self.predicate()
            types = OTHER_TYPES.intersection(map(str.lower, self.types))
            others = [row.group for row in listing.groups if row.type in types]
            names.update(name for name in (*listing.consumer_groups, *others) if test(name))
        return sorted(names, key=java_order)


def glob(pattern: str) -> Callable[[str], bool]:
    """Return the test of whole names by a pattern with ``* ? [a-z]``."""
    from fnmatch import fnmatchcase

    return lambda name: fnmatchcase(name, pattern)


def full_match(pattern: str) -> Callable[[str], bool]:
    """Return the test of whole names by an RE2 pattern; UsageError if it is invalid."""
    problem = regex_problem(pattern)
    if problem is not None:
        raise UsageError(f"The regular expression `{pattern}` is invalid: {problem}.")
    compiled = _compile(pattern)
    return lambda name: compiled.fullmatch(name) is not None


def regex_problem(pattern: str) -> str | None:
    """Return what is wrong with an RE2 pattern, in the words of RE2J; None if it is valid."""
    import re2

    try:
        _compile(pattern)
    except re2.error as error:
        message = error.args[0]
        message = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
        known = (words for prefix, words in _RE2J_WORDS if message.startswith(prefix))
        return next(known, message.split(": ")[0])
    return _refused_by_re2j(pattern)


def _refused_by_re2j(pattern: str) -> str | None:
    r"""Return what RE2J refuses in a pattern that RE2 accepts: ``\C``, some names of groups."""
    names = set()
    for token in _TOKEN.finditer(pattern):
        name = token[1]
        if token[0] == r"\C":
            return "invalid escape sequence"
        if name and not name.isascii():
            return "invalid named capture"
        if name and name in names:
            return "duplicate capture group name"
        names.add(name)
    return None


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False  # RE2 would write to stderr
    return re2.compile(pattern, options=options)


_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\(\?P?<([^>]+)>", re.DOTALL
)
"""The opening of a named group, and tokens that may contain one: quoted text, escapes, classes."""

_RE2J_WORDS: Sequence[tuple[str, str]] = (
    ("missing )", "missing closing )"),
    ("missing ]", "missing closing ]"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid named capture group", "invalid named capture"),
    ("unexpected )", "unexpected )"),
)
"""RE2's messages and those of RE2J, which the broker and Kafka's tool use."""


def name_test(selection: Selection) -> Callable[[str], bool]:
    """Return the test of the names in a file; without options, all names pass.

    :raises UsageError: the options contradict each other, or the pattern is invalid.
    """
    if selection.groups and selection.all_groups:
        raise UsageError('Option "[group]" can\'t be used with option "[all-groups]"')
    return selection.name_test(())


SHARE = 0.5
"""The part of ``--timeout`` that listing groups may take; what follows needs time too."""


class Chosen(NamedTuple):
    """The chosen groups, and the types of those that were listed ("" where unknown)."""

    groups: list[str]
    kinds: dict[str, str]
    errors: Sequence[ItemError] = ()
    """Errors of brokers, whose groups are missing."""
    others: frozenset[str] = frozenset()
    """Share and streams groups that were listed."""


def choose(
    session: Session, output: Output, selection: Selection, columns: Iterable[Column | str]
) -> Chosen:
    """Connect, begin the output and resolve the selection.

    A broker that does not answer is a failure of its own: its groups are missing.
    """
    if not selection.needs_listing:
        session.connect()
        output.begin(columns, session.cluster_id)
        groups = selection.resolve(None)
        if not groups:
            output.note("No group matches.")
        return Chosen(groups, {})
    from kgtool.queries.groups.list import list_groups

    types = [name.lower() for name in selection.types]
    listing = session.run(list_groups(session.cluster, selection.states, types, share=SHARE))
    output.begin(columns, session.cluster_id)
    for error in listing.errors:
        output.failed(error)
    all_groups = listing
    if (selection.ambiguous or selection.noun) and (selection.states or types):
        all_groups = session.run(list_groups(session.cluster, share=SHARE))
    selection, unmatched = selection.resolve_ambiguous(all_groups)
    for word in unmatched if not all_groups.errors else ():
        output.failed(no_match(word))
    filtered = _filtered(session, output, selection, listing)
    groups = selection.resolve(listing, filtered) if selection.is_given else []
    if not groups and not listing.errors and selection.has_filter and not unmatched:
        output.note("No group matches.")
    kinds = {row.group: (row.type or "").lower() for row in listing.groups}
    others = frozenset(group for group, kind in kinds.items() if kind in OTHER_TYPES)
    known = {group: kind for group, kind in kinds.items() if group not in others}
    return Chosen(groups, known, listing.errors, others)


def choose_in_order(
    session: Session, output: Output, selection: Selection, columns: Iterable[Column | str]
) -> list[str]:
    """Choose groups as ``choose`` does; return those that were named in their order."""
    order = {name: at for at, name in enumerate(selection.groups)}
    groups = choose(session, output, selection, columns).groups
    return sorted(groups, key=lambda name: order.get(name, len(order)))


def no_match(word: str, existing: Iterable[str] = ()) -> ItemError:
    """Return the failure of an argument that matches no group; the nearest name is its hint."""
    hint = "kgtool list shows the groups; quote a pattern, so that the shell leaves it alone."
    near = None if any(letter in word for letter in "*?[") else nearest(word, existing)
    hint = hint if near is None else f"Did you mean {near}?"
    return ItemError(Target(), None, "NO_MATCH", f"No group matches '{word}'.", hint)


def _filtered(session: Session, output: Output, selection: Selection, listing: Listing) -> set[str]:
    """Return the named groups that exist, or may exist, in another state or type."""
    missing = set(selection.groups) - {row.group for row in listing.groups}
    if not missing or not (selection.states or selection.types):
        return set()
    from kgtool.queries.groups.list import list_groups

    everything = session.run(list_groups(session.cluster))
    filtered = missing & {row.group for row in everything.groups}
    errors = (*listing.errors, *everything.errors)
    for group in sorted(missing - filtered) if errors else ():
        # It may be on a broker that does not answer, in any state.
        message = f"Whether group '{group}' has that state and type is not known: "
        target = errors[0].target._replace(group=group)
        output.failed(errors[0]._replace(target=target, message=message + errors[0].message))
    for row in everything.groups:
        if row.group in filtered:
            what = f"{row.state or 'of unknown state'}, {row.type or 'classic'}"
            output.note(f"Group {escape(row.group)} is left out: it is {what}.")
    return missing if errors else filtered
