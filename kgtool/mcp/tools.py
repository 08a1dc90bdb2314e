"""The tools: each is one of kgtool's commands, with its options as a JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kgtool.config.policy import Policy, Rules
from kgtool.errors import UsageError

_KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "text": (str, {"type": "string"}),
    "texts": (str, {"type": "array", "items": {"type": "string"}}),
    "flag": (bool, {"type": "boolean"}),
    "number": (int, {"type": "integer"}),
}
"""Kinds of parameters: the type of a value, and its JSON Schema."""


class Param(NamedTuple):
    """One option of a command; ``texts`` is repeatable."""

    name: str
    help: str
    kind: str = "text"
    is_required: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its value."""
        return {**_KINDS[self.kind][1], "description": self.help}

    def words(self, value: Any) -> list[str]:
        """Return the words of the option; a value never becomes an option of its own.

        :raises UsageError: the value is of another type.
        """
        option = f"--{self.name.replace('_', '-')}"
        is_list = self.kind == "texts" and isinstance(value, list)
        values = value if is_list else [value]
        # True is an int, too.
        has_type = all(type(each) is _KINDS[self.kind][0] for each in values)
        if not has_type or (self.kind == "texts" and not is_list):
            raise UsageError(f"{self.name} takes {self.schema['type']}, not {value!r}.")
        if self.kind == "flag":
            return [option] if value else []
        return [f"{option}={each}" for each in values]


class Tool(NamedTuple):
    """A command with the options that an agent may set. ``command``: its fixed words."""

    name: str
    help: str
    command: tuple[str, ...]
    params: tuple[Param, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": {param.name: param.schema for param in self.params},
            "required": [param.name for param in self.params if param.is_required],
            "additionalProperties": False,
        }

    def words(self, given: Mapping[str, Any]) -> list[str]:
        """Return the command line of a call.

        :raises UsageError: an argument is unknown, missing, or of another type.
        """
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                raise UsageError(f"{self.name} has no argument '{name}'.")
        for param in self.params:
            if param.is_required and param.name not in given:
                raise UsageError(f"{self.name} needs the argument '{param.name}'.")
        return [*self.command, *(w for name in given for w in known[name].words(given[name]))]


_GROUPS = Param("group", "Exact names of groups.", "texts")
_NEEDED = _GROUPS._replace(is_required=True)
_MATCH = Param("match", "Groups whose name matches: * ? [a-z].", "texts")
_EXCLUDE = Param("exclude", "But not groups whose name matches.", "texts")
_TOPICS = Param("topic", "Topics or partitions: orders, or orders:0,1.", "texts")
_ALL = Param("all_groups", "All consumer groups.", "flag")
_RULES = Param(
    "rules",
    'TOML: [[groups]], match = "payments-*", retention = "90d"; the first match holds.',
    is_required=True,
)
_STATE = Param("state", "Only groups in these states: Empty,Stable.")

READS = (
    Tool(
        "list",
        "Groups with type, state and coordinator.",
        ("list",),
        (
            _MATCH,
            _EXCLUDE,
            _STATE,
            Param("type", "Only these types: classic,consumer,share."),
            Param("expiring_within", "Only groups that lose offsets within that time: 48h."),
        ),
    ),
    Tool(
        "describe",
        "Committed offsets and lag of groups; expiry adds when each offset expires.",
        ("describe",),
        (
            _GROUPS,
            _MATCH,
            _EXCLUDE,
            _ALL,
            _TOPICS,
            Param("lagging", "Only partitions with lag.", "flag"),
            Param("time_lag", "Also the age of the first unread record, in ms.", "flag"),
            Param("rates", "Also records per second in and out, and stuck since when.", "flag"),
            Param("expiry", "Also when it was committed and when it expires.", "flag"),
        ),
    ),
    Tool(
        "members",
        "The members of groups, and what each of them reads.",
        ("describe", "--members"),
        (_GROUPS, _MATCH, _ALL),
    ),
    Tool(
        "state",
        "State, coordinator and epochs of groups.",
        ("describe", "--state"),
        (_GROUPS, _MATCH, _ALL),
    ),
    Tool(
        "explain",
        "Why groups can or can't be deleted or reset, what expires when, which ACL is "
        "missing, what to do next.",
        ("explain",),
        (_NEEDED,),
    ),
    Tool(
        "doctor",
        "What is wrong with the cluster's groups, and the command that fixes it.",
        ("doctor", "--fail-on=none"),
        (_GROUPS, _MATCH, _EXCLUDE, Param("within", "Warn of offsets that expire within: 48h.")),
    ),
    Tool("coordinator", "Which broker coordinates groups.", ("coordinator",), (_NEEDED,)),
    Tool("configs", "The configs of groups (KIP-848).", ("configs", "--describe"), (_NEEDED,)),
    Tool(
        "peek",
        "The records around a group's committed offsets.",
        ("peek",),
        (
            _NEEDED,
            _TOPICS,
            Param("before", "Records before the offset.", "number"),
            Param("after", "Records from the offset on.", "number"),
        ),
    ),
    Tool(
        "retention",
        "What a retention for each group, by rules, would do with each offset, and when.",
        ("retention", "show"),
        (_RULES,),
    ),
    Tool("history", "The changes that kgtool made on this machine.", ("history",), ()),
)
"""Tools that only read."""

_PLANNED = "Nothing is changed: the result has a plan_id, which apply takes once within 15 minutes."
CHANGES = (
    Tool(
        "cleanup",
        f"Plan to remove dead groups, or offsets that no member reads. {_PLANNED}",
        ("cleanup", "plan"),
        (
            _GROUPS,
            _MATCH,
            _EXCLUDE,
            _STATE,
            Param("idle", "No commit and no change of members for this long: 30d."),
            Param("caught_up", "Only groups with nothing left to read.", "flag"),
            Param("generated", "Only names that tools make up.", "flag"),
            Param(
                "unsubscribed", "Offsets that no member subscribes to, instead of groups.", "flag"
            ),
            Param("orphaned", "Offsets of topics that are gone, instead of groups.", "flag"),
        ),
    ),
    Tool(
        "undo",
        f"Plan to take back one change of the history. {_PLANNED}",
        ("undo",),
        (Param("journal", "The id of the change, as history shows it.", is_required=True),),
    ),
    Tool(
        "recover",
        "Plan to restore offsets of one group that are gone: expired, or deleted by any tool. "
        f"{_PLANNED}",
        ("recover", "--dry-run"),
        (
            Param("group", "The group's exact name.", is_required=True),
            _TOPICS,
            Param("at", "What stood at this time: 2026-11-22T08:00:00Z."),
        ),
    ),
    Tool(
        "retention",
        "Plan to commit offsets again, or to remove them, as is due by rules of retention. "
        f"{_PLANNED}",
        ("retention", "plan"),
        (_RULES,),
    ),
    Tool(
        "delete-offsets",
        f"Plan to delete committed offsets of one group. {_PLANNED}",
        ("delete-offsets", "--dry-run"),
        (
            Param("group", "The group's exact name.", is_required=True),
            _TOPICS._replace(is_required=True),
        ),
    ),
    Tool(
        "reset-offsets",
        f"Plan to set the offsets of one group without members. {_PLANNED}",
        ("reset-offsets", "--dry-run"),
        (
            Param("group", "The group's exact name.", is_required=True),
            _TOPICS,
            Param("all_topics", "Every partition with a committed offset.", "flag"),
            Param("to_earliest", "To the start of the log.", "flag"),
            Param("to_latest", "To the end of the log.", "flag"),
            Param("to_offset", "To this offset.", "number"),
            Param("shift_by", "By this many records, negative: back.", "number"),
            Param("to_datetime", "To the first record from this time on: 2026-11-22T08:00:00Z."),
        ),
    ),
)
"""Changes of the cluster, each planned first."""

REQUEST = Tool(
    "request",
    "One raw request of Kafka's protocol that changes nothing.",
    ("request",),
    (
        Param("api", "Kafka's name of it: ListGroups, OffsetFetch.", is_required=True),
        Param("body", "The request as JSON; what is not named takes its default."),
        Param("version", "In this version.", "number"),
        Param("broker", "To this broker.", "number"),
    ),
)
APPLY = Tool(
    "apply",
    "Carry out a plan; the journal keeps what was there, so that undo takes it back.",
    (),
    (
        Param("plan_id", "The id that a plan tool returned.", is_required=True),
        Param("reason", "Why: kept in the journal."),
    ),
)


def request_words(given: Mapping[str, Any]) -> list[str]:
    """Return the command line of a raw request.

    :raises UsageError: an argument is not valid.
    """
    rest = {name: value for name, value in given.items() if name != "api"}
    api = given.get("api")
    if not isinstance(api, str) or not re.fullmatch("[A-Za-z]+", api):
        raise UsageError(f"api takes the name of an API, not {api!r}.")
    if isinstance(rest.get("body"), str) and not rest["body"].lstrip().startswith("{"):
        raise UsageError("body takes a JSON object.")  # @FILE would read this machine's files
    return [*REQUEST._replace(params=REQUEST.params[1:]).words(rest), api]


class Rights(NamedTuple):
    """The commands that policies allow an agent, and options that bind a change to the cluster."""

    commands: frozenset[str] = frozenset()
    binding: tuple[str, ...] = ()
    policies: tuple[Policy, ...] = ()


def rights(rules: Rules, cluster_id: str | None) -> Rights:
    """Return what all policies allow; without any policy, nothing.

    Any other cluster than ``cluster_id`` refuses the change. A protected cluster is confirmed by
    ``KGTOOL_CONFIRM`` in the server's environment only.
    """
    sets = [frozenset(policy.mcp or ()) for policy in rules.policies]
    is_open = cluster_id is not None and not rules.protected_by
    return Rights(
        frozenset.intersection(*sets) if sets else frozenset(),
        (f"--confirm={cluster_id}",) if is_open else (),
        rules.policies,
    )
