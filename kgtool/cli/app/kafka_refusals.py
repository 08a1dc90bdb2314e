"""The refusals of Kafka's form, in the order and words of ConsumerGroupCommand 4.3.1.

Every refusal is one line and exit status 2, without the usage table of Kafka's tool (foot-gun F19).
"""

from __future__ import annotations

from collections.abc import Sequence

from kgtool import timespec
from kgtool.cli.app.argv import ACTIONS, NO, TAKES_VALUE, YES, CommandLine
from kgtool.cli.app.nearest import did_you_mean
from kgtool.errors import UsageError
from kgtool.model import TopicSpec
from kgtool.text import shell_word

STRATEGIES = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
    "like",
)
"""``--reset-offsets`` takes one of these, checked in this order; ``like`` is kgtool's own."""

_SCENARIOS = (
    "from-file",
    "shift-by",
    "to-offset",
    "to-earliest",
    "to-current",
    "to-latest",
    "by-duration",
    "to-datetime",
)
"""The order in which a refusal lists them; that of Kafka's tool varies from run to run."""

_SCOPES = {"all-topics", "topic", "from-file", "like"}
"""The options that say which offsets to reset."""

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
    "Assigning",
    "Stable",
    "Dead",
    "CompletingRebalance",
    "Reconciling",
    "Empty",
    "PreparingRebalance",
)
TYPES = ("Consumer", "Classic")
ALL_TYPES = (*TYPES, "Share", "Streams")
"""kgtool's own form takes all."""


class Refusal(UsageError):
    """A usage error in the words of Kafka's tool, printed without a prefix."""

    is_verbatim = True


def check(line: CommandLine, has_bootstrap: bool) -> None:
    """Raise UsageError for the first thing that is wrong with a command line of Kafka's form.

    The order is that of the Java tool: its parser, ``checkArgs``, the number of actions, and the
    checks of the action itself.
    """
    _check_words(line)
    names = line.names
    _check_available(names)
    if "validate-regex" not in names and "bootstrap-server" not in names and not has_bootstrap:
        raise Refusal('Missing required argument "[bootstrap-server]"')
    for action, check_arguments in _CHECK_ARGS.items():
        if action in names:
            check_arguments(line)
    _check_groups(names)
    actions = [action for action in ACTIONS if action in names]
    if len(actions) != 1:
        listed = ", ".join(f"--{action}" for action in ACTIONS)
        raise Refusal(f"Command must include exactly one action: {listed}")
    _check_run(actions[0], line)


def _check_run(action: str, line: CommandLine) -> None:
    """Refuse what the Java tool refuses, or stumbles over, after it has begun to work."""
    if line.repeated:
        raise UsageError(
            f"Found multiple arguments for option {line.repeated}, but you asked for only one"
        )
    if action != "validate-regex":
        for name, value in line.values("to-offset", "shift-by"):
            timespec.parse_long(value, name)  # also with an action that does not use it
    if action == "list":
        for name, value in line.values("state", "type"):
            parse_choices(value, *(("state", STATES) if name == "state" else ("types", TYPES)))
    elif action == "reset-offsets":
        _check_reset_scope(line.names)
    if action in ("delete-offsets", "reset-offsets"):
        for _, value in line.values("topic"):
            try:
                TopicSpec.parse(value, ranges=False)
            except UsageError as error:
                raise Refusal(error.message) from error


def _check_words(line: CommandLine) -> None:
    for name, value in line.options:
        takes = TAKES_VALUE.get(name)
        if takes is None:
            bare = name.lstrip("-")
            near = did_you_mean(bare, TAKES_VALUE, shown="--{}".format)
            raise UsageError(f"{bare} is not a recognized option{near}")
        if value is None and takes == YES:
            raise UsageError(f"Option {name} requires an argument")
        if value is not None and takes == NO:
            raise UsageError(f"Option {name} does not take a value, not even '{value}'")
    if line.strays:
        stray, action = line.strays[0], line.action
        advice = "options are written with --, and values follow their option."
        if action in ACTIONS[1:5] and not line.names.intersection(_GROUP_CHOICES):
            name = shell_word(stray)
            advice = f"Kafka's form takes --group {name}; or type kgtool {action} {name}."
        raise UsageError(f"Unexpected argument '{stray}': {advice}")


def _check_available(names: set[str]) -> None:
    wrong = [
        name for name, actions in _ONLY_WITH.items() if name in names and names.isdisjoint(actions)
    ]
    if wrong:
        raise UsageError(
            f"Option(s) [{', '.join(wrong)}] are unavailable given other options on the command "
            "line"
        )


def _needs_group(names: set[str], action: str, scopes: str) -> None:
    if names.isdisjoint(_GROUP_CHOICES):
        raise Refusal(f"Option [{action}] takes one of these options: {scopes}")


def _check_describe(line: CommandLine) -> None:
    _needs_group(line.names, "describe", "[all-groups], [group]")
    if len(line.names & {"members", "offsets", "state"}) > 1:
        raise Refusal(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if line.values("state"):
        raise Refusal("Option [describe] does not take a value for [state]")


def _check_delete(line: CommandLine) -> None:
    _needs_group(line.names, "delete", "[group], [all-groups]")
    if "topic" in line.names:
        raise Refusal(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )


def _check_delete_offsets(line: CommandLine) -> None:
    groups = line.names & {"group", "match", "regex"}
    if not groups or "topic" not in line.names or "all-groups" in line.names:
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


def _check_reset(line: CommandLine) -> None:
    names = line.names
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
