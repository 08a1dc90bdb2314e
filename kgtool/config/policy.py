"""A policy: limits on what may be changed on a cluster, in a TOML file.

::

    protected = ["payments-*"]      # groups that are never changed
    max_groups = 20                 # the largest change
    max_offsets = 5000
    min_idle = "30d"                # offsets are removed only from groups idle at least this long
    forbid = ["--force", "--all-groups"]
    reason = true                   # every change takes --reason
    refuse_blind = true             # no change whose undo may not cover everything
    mcp = ["reset-offsets"]         # what the MCP server may apply

A context names its policy (``policy = "…"``), and ``KGTOOL_POLICY`` one for every cluster. Where
there are several, all of them hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kgtool import renamed
from kgtool.config import parse_bootstrap
from kgtool.config.contexts import Context, load, parse_toml
from kgtool.errors import ConfigError, UsageError
from kgtool.held import hold

POLICY_VARIABLE = "KGTOOL_POLICY"
CONFIRM_VARIABLE = "KGTOOL_CONFIRM"

_WORDS = """
    add-config agreed all all-groups all-or-nothing all-topics alter api-version as-member body
    bootstrap-server broker by by-duration by-time canary caught-up checkpoints client-id columns
    command-config confirm context create debug delete delete-config delete-offsets describe
    dry-run exclude execute expiring-within expiry export force from from-file generated group
    hex idle instance-id internal-topics join journal-copy lag lagging like limit list loses-within
    map-group map-topic match max-groups member-id members no-color no-create no-headers no-rebuild
    no-verify offsets orphaned other-cluster out output over overwrite prometheus rate
    rates read-committed reason regex reset-offsets schema shift-by skip-activity-check sort
    state time-lag timeout times-from to to-current to-datetime to-earliest to-latest to-offset
    topic totals type unsubscribed validate-regex verbose verify version wait-empty watch yes
"""
OLD_OPTIONS = frozenset(f"--{old}" for old, new in renamed.OPTIONS.items() if new in _WORDS.split())
OPTIONS = frozenset(f"--{word}" for word in _WORDS.split()) | OLD_OPTIONS
"""Valid in ``forbid``: the options of the commands that change something, in both forms."""
MCP_COMMANDS = ("cleanup", "undo", "recover", "retention", "delete-offsets", "reset-offsets")
"""Valid in ``mcp``: the changes that the MCP server offers."""


class Policy(NamedTuple):
    """The values of one policy file; None and empty: no limit. ``mcp``: None allows nothing."""

    path: str
    protected: tuple[str, ...] = ()
    max_groups: int | None = None
    max_offsets: int | None = None
    min_idle_ms: int | None = None
    forbid: tuple[str, ...] = ()
    reason: bool = False
    refuse_blind: bool = False
    mcp: tuple[str, ...] | None = None

    @property
    def is_about_groups(self) -> bool:
        """Whether it limits the groups or offsets of a change."""
        limits = (self.max_groups, self.max_offsets, self.min_idle_ms)
        return bool(self.protected) or any(limit is not None for limit in limits)


class Rules(NamedTuple):
    """The rules of one cluster: its protected contexts, and the policies."""

    protected_by: tuple[str, ...]
    policies: tuple[Policy, ...]


def policy_rules(cluster_id: str | None, chosen: Context | None) -> Rules:
    """Return the rules of a cluster, however it was reached.

    :param chosen: the context in use; it counts even where it is not pinned yet.
    :raises ConfigError: the contexts or a policy can't be read.
    """
    known = load().by_name.values()
    found = [one for one in known if cluster_id is not None and one.cluster_id == cluster_id]
    if chosen is not None and chosen.name not in {one.name for one in found}:
        found.append(chosen)
    paths = [os.environ.get(POLICY_VARIABLE) or None, *(one.policy for one in found)]
    return Rules(
        tuple(one.name for one in found if one.is_protected),
        tuple(read_policy(path) for path in dict.fromkeys(paths) if path is not None),
    )


def unused_guards(places: Collection[tuple[str, int]]) -> list[str]:
    """Return the contexts at these addresses that will guard a cluster once its id is known.

    :raises ConfigError: the contexts can't be read.
    """
    guards = (one for one in load().by_name.values() if one.is_protected or one.policy)
    return [one.name for one in guards if one.cluster_id is None and _is_at(one, places)]


def _is_at(context: Context, places: Collection[tuple[str, int]]) -> bool:
    try:
        own = parse_bootstrap(context.bootstrap or "")
    except UsageError:
        return False
    here = {(host.lower(), port) for host, port in places}
    return any((host.lower(), port) in here for host, port in own)


def confirmed(given: str | None) -> str | None:
    """Return the cluster id that was confirmed, by an argument or ``KGTOOL_CONFIRM``."""
    return given or os.environ.get(CONFIRM_VARIABLE) or None


def read_policy(path: str) -> Policy:
    """Read a policy.

    :raises ConfigError: it can't be read, or has an unknown key, value, option or command.
    """
    place = os.path.expanduser(path)  # noqa: PTH111 - pathlib costs start-up time
    try:
        document = parse_toml(hold(place, name=f"the policy {path}").text())
    except ValueError as error:
        raise ConfigError(f"Can't read the policy {path}: {error}.") from None
    values: dict[str, Any] = {}
    for key, value in document.items():
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            raise ConfigError(f"The policy {path}: unknown key '{key}'.", hint=f"Known: {known}.")
        field, convert, wanted = _KEYS[key]
        converted = convert(value)
        if converted is None:
            raise ConfigError(f"The policy {path}: {key} takes {wanted}, not {value!r}.")
        if key in _NAMES:
            _check_names(path, key, converted)
        values[field] = converted
    return Policy(path, **values)


def _check_names(path: str, key: str, names: Iterable[str]) -> None:
    """Refuse an unknown name: a typo would forbid, or allow, nothing."""
    known, what = _NAMES[key]
    for name in names:
        if name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, sorted(known), n=1)
            raise ConfigError(
                f"The policy {path}: {key} names '{name}', which is {what}.",
                hint=f"Did you mean {near[0]}?" if near else "Correct it, or remove it.",
            )


def _texts(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, list) and all(isinstance(each, str) and each for each in value):
        return tuple(value)
    return None


def _options(value: Any) -> tuple[str, ...] | None:
    texts = _texts(value)
    return texts if texts is not None and all(text[:2] == "--" for text in texts) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _span(value: Any) -> int | None:
    from kgtool.timespec import span_ms

    try:
        return span_ms(value, "min_idle") if isinstance(value, str) else None
    except UsageError:
        return None


_KEYS: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "protected": ("protected", _texts, "a list of patterns of groups"),
    "max_groups": ("max_groups", _count, "a whole number"),
    "max_offsets": ("max_offsets", _count, "a whole number"),
    "min_idle": ("min_idle_ms", _span, 'a duration such as "30d"'),
    "forbid": ("forbid", _options, 'a list of options such as "--force"'),
    "reason": ("reason", _flag, "true or false"),
    "refuse_blind": ("refuse_blind", _flag, "true or false"),
    "mcp": ("mcp", _texts, "a list of commands"),
}
_NAMES = {
    "forbid": (OPTIONS, "no option of a command that changes something"),
    "mcp": (frozenset(MCP_COMMANDS), f"no change of the MCP server ({', '.join(MCP_COMMANDS)})"),
}

_SHORT = {
    "-y": "--yes",
    "-A": "--all-groups",
    "-g": "--group",
    "-t": "--topic",
    "-b": "--bootstrap-server",
}


def option_names(words: Iterable[str], known: Iterable[str]) -> frozenset[str]:
    """Return the options of a command line, in any spelling that kgtool takes."""
    words = tuple(words)
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    given |= {_SHORT.get(word[:2], word) for word in given}
    given |= {_new_name(word) for word in given} | set(_destinations(words))
    return frozenset(name for name in known if given & {name, name[1:], _new_name(name)})


def _new_name(option: str) -> str:
    name = option.lstrip("-")
    return f"--{renamed.OPTIONS.get(name, name)}"


def _destinations(words: Sequence[str]) -> Iterator[str]:
    """Yield ``--to-earliest`` for ``--to earliest``; what is no such word is a time."""
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name in ("--to", "-to"):
            where = f"--to-{value if equals else following}"
            yield where if where in OPTIONS else "--to-datetime"
