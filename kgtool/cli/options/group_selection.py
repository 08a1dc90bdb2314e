"""Which groups a command is about: names, ``--group``, ``--all-groups``, ``--match``, ``--regex``.

Names given one by one are taken as they are, of whatever type. A name that is an argument and has
``*``, ``?`` or ``[`` is a pattern, as for ``--match``, unless it is a group. The others choose from
what Kafka's own tool would list (contract, section 2): classic and consumer groups whose protocol
type is ``""`` or ``consumer``. ``--exclude``, ``--state`` and ``--type`` choose nothing by
themselves: they narrow what the others have chosen, so that ``--state Empty`` alone never means
every group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.errors import UsageError
from kgtool.model import ItemError, Listing, Target
from kgtool.text import escape

if TYPE_CHECKING:
    from kgtool.cli.output.output import Output
    from kgtool.columns import Column
    from kgtool.net.session import Session


class Selection(NamedTuple):
    """What the user asked for, unresolved."""

    groups: tuple[str, ...] = ()
    all_groups: bool = False
    match: tuple[str, ...] = ()
    regex: str | None = None
    exclude: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    """Arguments with ``*``, ``?`` or ``[``: the cluster tells whether they are names."""

    @property
    def is_given(self) -> bool:
        """Whether anything was asked for."""
        return bool(self.groups or self.open) or self.all_groups or self._has_pattern

    @property
    def needs_listing(self) -> bool:
        """Whether the cluster's list of groups is needed to resolve it."""
        has_filter = bool(self.open or self.states or self.types)
        return self.all_groups or self._has_pattern or has_filter

    @property
    def has_filter(self) -> bool:
        """Whether something other than names says which groups, so that none may be left."""
        return self._has_pattern or bool(self.exclude or self.states or self.types)

    @property
    def _has_pattern(self) -> bool:
        return bool(self.match) or self.regex is not None

    def named(self, words: Sequence[str]) -> Selection:
        """Return the selection with a command's arguments as well.

        :raises UsageError: one is empty. A group without a name can exist; ``--group ''`` names it.
        """
        if "" in words:
            raise UsageError("GROUP is empty: is a variable unset?")
        plain = [word for word in words if not any(letter in word for letter in "*?[")]
        return self._replace(
            groups=tuple(dict.fromkeys((*plain, *self.groups))),
            open=tuple(dict.fromkeys(word for word in words if word not in plain)),
        )

    def closed(self, listing: Listing) -> tuple[Selection, list[str]]:
        """Return the selection with ``open`` as names or patterns, and what matches no group.

        :param listing: all groups, whatever their state and type.
        """
        found = self._told({row.group for row in listing.groups})
        patterns = found.match[len(self.match) :]
        missed = [word for word in patterns if not any(map(glob(word), listing.consumer_groups))]
        return found._replace(match=tuple(p for p in found.match if p not in missed)), missed

    def _told(self, existing: Collection[str]) -> Selection:
        """Take ``open`` for names where they are groups, and for patterns else."""
        names = [word for word in self.open if word in existing]
        patterns = [word for word in self.open if word not in existing]
        groups, match = (*self.groups, *names), (*self.match, *patterns)
        return self._replace(groups=groups, match=match, open=())

    def check(self, action: str) -> None:
        """Raise UsageError unless it says which groups."""
        if not self.is_given:
            raise UsageError(f"{action} takes groups: names, --match GLOB or --all-groups.")
        if (self.groups or self.open) and self.all_groups:
            raise UsageError("--all-groups takes no names beside it: give one or the other.")
        self.predicate()

    def predicate(self) -> Callable[[str], bool]:
        """Return the test that the patterns put to a name (True without any)."""
        return self._replace(groups=(), open=()).lists(())

    def lists(self, existing: Collection[str]) -> Callable[[str], bool]:
        """Return the test where names and patterns narrow what is shown: all, without any."""
        told = self._told(existing)
        groups, tests = set(told.groups), [glob(pattern) for pattern in told.match]
        if told.regex is not None:
            tests.append(full_match(told.regex))
        takes_all, excluded = not groups and not tests, self._excluded()
        return lambda name: (
            (takes_all or name in groups or any(test(name) for test in tests))
            and not excluded(name)
        )

    def _excluded(self) -> Callable[[str], bool]:
        tests = [glob(pattern) for pattern in self.exclude]
        return lambda name: any(test(name) for test in tests)

    def resolve(self, listing: Listing | None, left_out: Collection[str] = ()) -> list[str]:
        """Return the chosen names, each once, in the order of Kafka's ``--describe``.

        :param listing: the groups of ``states`` and ``types``, where ``needs_listing``.
        :param left_out: groups that exist and are not in the listing because of those two.
        """
        excluded = self._excluded()
        names = {name for name in self.groups if not excluded(name) and name not in left_out}
        if listing is not None and (self.all_groups or self._has_pattern):
            test = self.predicate()
            names.update(name for name in listing.consumer_groups if test(name))
        return sorted(names, key=java_order)


def java_order(text: str) -> bytes:
    """Sort key of ``java.lang.String.compareTo``: by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def glob(pattern: str) -> Callable[[str], bool]:
    """Return the test of whole names that a pattern with ``* ? [a-z]`` is."""
    from fnmatch import fnmatchcase

    return lambda name: fnmatchcase(name, pattern)


def full_match(pattern: str) -> Callable[[str], bool]:
    """Compile an RE2 pattern into a test of whole names; UsageError if it is invalid."""
    problem = regex_problem(pattern)
    if problem is not None:
        raise UsageError(f"The regular expression `{pattern}` is invalid: {problem}.")
    compiled = _compile(pattern)
    return lambda name: compiled.fullmatch(name) is not None


def regex_problem(pattern: str) -> str | None:
    """Say what is wrong with an RE2 pattern, in the words of RE2J; None if it is valid."""
    import re2

    try:
        _compile(pattern)
    except re2.error as error:
        said = error.args[0]
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        return next(
            (words for prefix, words in _RE2J_WORDS if said.startswith(prefix)), said.split(": ")[0]
        )
    return _refused_by_re2j(pattern)


def _refused_by_re2j(pattern: str) -> str | None:
    r"""Say what RE2J refuses in a pattern that RE2 takes: ``\C``, and some names of groups."""
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
    options.log_errors = False  # RE2 would write to stderr by itself
    return re2.compile(pattern, options=options)


_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\(\?P?<([^>]+)>", re.DOTALL
)
"""What may hide, or be, the opening of a named group: quoted text, an escape, a class."""

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


def chooser(selection: Selection) -> Callable[[str], bool]:
    """Return the test that a group's name in a file has to pass; every name does without options.

    :raises UsageError: the options contradict each other, or the pattern is invalid.
    """
    if selection.groups and selection.all_groups:
        raise UsageError('Option "[group]" can\'t be used with option "[all-groups]"')
    return selection.lists(())


# ---------------------------------------------------------------------------------------------
# With the cluster


SHARE = 0.5
"""Of the command's time: what is done with the groups needs some too."""


class Chosen(NamedTuple):
    """The groups a command is about, and the types of those that were listed."""

    groups: list[str]
    kinds: dict[str, str]
    errors: Sequence[ItemError] = ()
    """The brokers whose groups are missing."""


def choose(
    session: Session, output: Output, selection: Selection, columns: Iterable[Column | str]
) -> Chosen:
    """Reach the cluster, begin the output and resolve the selection.

    Brokers that could not be asked are failures of their own: their groups are missing then.
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
    whole = listing
    if selection.open and (selection.states or types):
        whole = session.run(list_groups(session.cluster, share=SHARE))
    selection, missed = selection.closed(whole)
    for word in missed if not whole.errors else ():
        output.failed(no_match(word))
    left_out = _left_out(session, output, selection, listing)
    groups = selection.resolve(listing, left_out) if selection.is_given else []
    if not groups and not listing.errors and selection.has_filter and not missed:
        output.note("No group matches.")
    kinds = {row.group: row.type.lower() for row in listing.groups if row.type}
    return Chosen(groups, kinds, listing.errors)


def as_named(
    session: Session, output: Output, selection: Selection, columns: Iterable[Column | str]
) -> list[str]:
    """Choose groups as ``choose`` does; return them in the order in which they were named."""
    order = {name: at for at, name in enumerate(selection.groups)}
    groups = choose(session, output, selection, columns).groups
    return sorted(groups, key=lambda name: order.get(name, len(order)))


def no_match(word: str) -> ItemError:
    """Return the failure of an argument that is no group's name and matches none."""
    hint = "kgtool list shows the groups; quote a pattern, so that the shell leaves it alone."
    return ItemError(Target(), None, "NO_MATCH", f"No group matches '{word}'.", hint)


def _left_out(session: Session, output: Output, selection: Selection, listing: Listing) -> set[str]:
    """Tell groups that were named and are of another state or type from those that don't exist."""
    missing = set(selection.groups) - {row.group for row in listing.groups}
    if not missing or not (selection.states or selection.types):
        return set()
    from kgtool.queries.groups.list import list_groups

    unknown: set[str] = set()
    whole = session.run(list_groups(session.cluster))
    found = whole.groups
    for error in (*listing.errors, *whole.errors)[:1]:
        # One that is not listed may be of any state: it is not taken for one that was asked for.
        for group in sorted(missing - {row.group for row in found}):
            said = f"Whether group '{group}' has that state and type is not known: "
            target = error.target._replace(group=group)
            output.failed(error._replace(target=target, message=said + error.message))
            missing.discard(group)
            unknown.add(group)
    for row in found:
        if row.group in missing:
            what = f"{row.state or 'of unknown state'}, {row.type or 'classic'}"
            output.note(f"Group {escape(row.group)} is left out: it is {what}.")
    return {row.group for row in found} & missing | unknown
