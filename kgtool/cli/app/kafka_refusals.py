"""What Kafka's form refuses, in the order and in the words of ConsumerGroupCommand 4.3.1.

Every refusal is one line and exit status 2; the usage table that Kafka's tool prints after it is
left out (foot-gun F19). ``facts``: section 1.2 of the measured command line.
"""

from __future__ import annotations

from collections.abc import Sequence

from kgtool import timespec
from kgtool.cli.app.argv import ACTIONS, FLAGS, OPTIONAL_VALUE, VALUE, Scan
from kgtool.cli.app.suggest import did_you_mean
from kgtool.cli.options.types import parse_topic
from kgtool.errors import UsageError

STRATEGIES = (
    "to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current",
    "shift-by", "from-file", "like",
)  # fmt: skip
"""``--reset-offsets`` takes exactly one of these, compared in this order; ``like`` is our own."""

_SCENARIOS = (
    "from-file", "shift-by", "to-offset", "to-earliest", "to-current", "to-latest", "by-duration",
    "to-datetime",
)  # fmt: skip
"""The same in the order in which they were printed; Kafka's own varies from run to run."""

_SCOPES = {"all-topics", "topic", "from-file", "like"}
"""What says which offsets a reset is about."""

_ONLY_WITH = {
    "members": ("describe",),
    "offsets": ("describe",),
    "verbose": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
}
"""``availableIf`` of ConsumerGroupCommandOptions."""

_GROUP_CHOICES = ("group", "all-groups", "match", "regex")

STATES = (
    "Assigning", "Stable", "Dead", "CompletingRebalance", "Reconciling", "Empty",
    "PreparingRebalance",
)  # fmt: skip
TYPES = ("Consumer", "Classic")


class Refusal(UsageError):
    """A usage error that Kafka's tool has words for; they are printed as they are."""

    is_verbatim = True


def check(seen: Scan, has_bootstrap: bool) -> None:
    """Raise UsageError for the first thing that is wrong with a command line of Kafka's form.

    The order is that of the Java tool: what the parser refuses, ``checkArgs``, the number of
    actions, and last what it finds out while it runs.
    """
    _check_words(seen)
    names = seen.names
    _check_available(names)
    if "validate-regex" not in names and "bootstrap-server" not in names and not has_bootstrap:
        raise Refusal('Missing required argument "[bootstrap-server]"')
    for action, check_arguments in _CHECK_ARGS.items():
        if action in names:
            check_arguments(seen)
    _check_groups(names)
    actions = [action for action in ACTIONS if action in names]
    if len(actions) != 1:
        listed = ", ".join(f"--{action}" for action in ACTIONS)
        raise Refusal(f"Command must include exactly one action: {listed}")
    _check_run(actions[0], seen)


def _check_run(action: str, seen: Scan) -> None:
    """Refuse what the Java tool refuses, or stumbles over, after it has begun to work."""
    if seen.repeated:
        raise UsageError(
            f"Found multiple arguments for option {seen.repeated}, but you asked for only one"
        )
    if action != "validate-regex":
        for name, value in seen.values("to-offset", "shift-by"):
            timespec.parse_long(value, name)  # also with an action that does not use it
    if action == "list":
        for name, value in seen.values("state", "type"):
            parse_choices(value, *(("state", STATES) if name == "state" else ("types", TYPES)))
    elif action == "reset-offsets":
        _check_reset_scope(seen.names)
    if action in ("delete-offsets", "reset-offsets"):
        for _, value in seen.values("topic"):
            try:
                parse_topic(value)
            except UsageError as error:
                raise Refusal(error.message) from error


def _check_words(seen: Scan) -> None:
    for name, value in seen.options:
        bare = name.lstrip("-")
        if bare not in VALUE | OPTIONAL_VALUE | FLAGS:
            near = did_you_mean(bare, VALUE | OPTIONAL_VALUE | FLAGS, shown="--{}".format)
            raise UsageError(f"{bare} is not a recognized option{near}")
        if value is None and name in VALUE:
            raise UsageError(f"Option {name} requires an argument")
        if value is not None and name in FLAGS:
            raise UsageError(f"Option {name} does not take a value, not even '{value}'")
    if seen.strays:
        raise UsageError(
            f"Unexpected argument '{seen.strays[0]}': options are written with --, and values "
            "follow their option."
        )


def _check_available(names: set[str]) -> None:
    wrong = [
        name
        for name, actions in _ONLY_WITH.items()
        if name in names and not any(action in names for action in actions)
    ]
    if wrong:
        raise UsageError(
            f"Option(s) [{', '.join(wrong)}] are unavailable given other options on the command "
            "line"
        )


def _needs_group(names: set[str], action: str, scopes: str) -> None:
    if not any(choice in names for choice in _GROUP_CHOICES):
        raise Refusal(f"Option [{action}] takes one of these options: {scopes}")


def _check_describe(seen: Scan) -> None:
    _needs_group(seen.names, "describe", "[all-groups], [group]")
    if len(seen.names & {"members", "offsets", "state"}) > 1:
        raise Refusal(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if seen.values("state"):
        raise Refusal("Option [describe] does not take a value for [state]")


def _check_delete(seen: Scan) -> None:
    _needs_group(seen.names, "delete", "[group], [all-groups]")
    if "topic" in seen.names:
        raise Refusal(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )


def _check_delete_offsets(seen: Scan) -> None:
    groups = seen.names & {"group", "match", "regex"}
    if not groups or "topic" not in seen.names or "all-groups" in seen.names:
        raise Refusal("Option [delete-offsets] takes the following options: [group], [topic]")


def check_reset(names: set[str]) -> None:
    """Raise UsageError for options of the subcommand that do not go together, or are missing."""
    for these in (("dry-run", "execute"), STRATEGIES, ("topic", "all-topics")):
        given = [f"--{name}" for name in these if name in names]
        if len(given) > 1:
            raise UsageError(f"{given[0]} and {given[1]} exclude each other.")
    if not names & _SCOPES:
        raise UsageError("Which offsets? --topic TOPIC[:0,1] or --all-topics.")
    if not names & set(STRATEGIES):
        raise UsageError(f"Where to? One of --{', --'.join(STRATEGIES)}.")


def _check_reset(seen: Scan) -> None:
    names = seen.names
    if {"dry-run", "execute"} <= names:
        raise Refusal("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    _needs_group(names, "reset-offsets", "[group], [all-groups]")
    strategies = [strategy for strategy in STRATEGIES if strategy in names]
    if len(strategies) > 1:
        raise _excluded(strategies[0], strategies[1])


def _check_reset_scope(names: set[str]) -> None:
    if {"all-topics", "topic"} <= names:  # Kafka's tool ignores --topic then (F5)
        raise _excluded("topic", "all-topics")
    if not names & _SCOPES:
        raise Refusal("One of the reset scopes should be defined: --all-topics, --topic.")
    if not names & set(STRATEGIES):
        listed = ", ".join(f"[{strategy}]" for strategy in _SCENARIOS)
        raise Refusal(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{listed}]"
        )


def _check_groups(names: set[str]) -> None:
    if {"group", "all-groups"} <= names:
        raise _excluded("group", "all-groups")
    if {"group", "list"} <= names:
        raise _excluded("group", "list")
    for action in ("list", "describe"):
        if {"topic", action} <= names:
            raise _excluded("topic", action)


def _excluded(option: str, other: str) -> Refusal:
    return Refusal(f'Option "[{option}]" can\'t be used with option "[{other}]"')


_CHECK_ARGS = {
    "describe": _check_describe,
    "delete": _check_delete,
    "delete-offsets": _check_delete_offsets,
    "reset-offsets": _check_reset,
}


def parse_choices(value: str | None, what: str, valid: Sequence[str]) -> tuple[str, ...]:
    """Read ``Stable, empty``: any case, blanks and a trailing comma do not matter.

    >>> parse_choices("stable , EMPTY,", "state", STATES)
    ('Stable', 'Empty')
    """
    if not value:
        return ()
    by_name = {name.lower(): name for name in valid}
    # Java's String.split drops empty strings at the end, and only there.
    words = [word.strip() for word in value.rstrip(",").split(",")]
    if not all(word.lower() in by_name for word in words):
        names = ", ".join(valid)
        plural = "states" if what == "state" else "types"
        raise Refusal(f"Invalid {what} list '{value}'. Valid {plural} are: {names}")
    return tuple(dict.fromkeys(by_name[word.lower()] for word in words))
