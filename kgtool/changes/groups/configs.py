"""Configs of single groups (KIP-848, KIP-932, KIP-1071): reading and changing them.

The controller keeps them under the group's name, whether such a group exists or not:
``ConfigResource.Type.GROUP``, in Kafka since 4.0 (3.9.1 refuses it with either coordinator). A
config's name begins with the type of group that it applies to (``consumer.…``, ``share.…``,
``streams.…``); what is not set at a group comes from the broker (``group.consumer.…``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kgtool.changes.doubt import is_unsettled
from kgtool.client import denied
from kgtool.client.answers import keep_reason, left_out
from kgtool.client.cluster import Cluster, call_any, version_of
from kgtool.client.denied import Need
from kgtool.client.ops import ANY, Operation, backoff, cut, gather
from kgtool.errors import BrokerError, ChangedMeanwhile, KgError, OutcomeUnknown
from kgtool.protocol import codes
from kgtool.protocol.api import describe_configs, incremental_alter_configs, list_config_resources
from kgtool.protocol.codes import broker_error

GROUP = 32
"""``ConfigResource.Type.GROUP``."""
SET_AT_GROUP = "group"
SOURCES = {
    2: "dynamic broker",
    3: "dynamic default broker",
    4: "static broker",
    5: "default",
    8: SET_AT_GROUP,
}
"""``DescribeConfigsResponse.ConfigSource``."""
TYPES = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
"""``DescribeConfigsResponse.ConfigType``."""

_GROUPS_AT_ONCE = 200
_LOOKS = 8
_TRIES = 4
_SET, _DELETE = 0, 1
_REPEAT = "Check with kgtool configs, and repeat the command if it should still change."
_DESCRIBE = Need(group="DESCRIBE_CONFIGS")
_ALTER = Need(group="ALTER_CONFIGS")


GROUP_TYPES = ("consumer", "share", "streams")
_OF_SHARE = "errors.deadletterqueue."
"""Share groups' dead letter queue (KIP-1191), the only configs that do not begin with a type."""


def config_type(name: str) -> str | None:
    """Return the type of groups that a config applies to; None: unknown.

    >>> config_type("streams.assignor.name"), config_type("errors.deadletterqueue.topic.name")
    ('streams', 'share')
    """
    if name.startswith(_OF_SHARE):
        return "share"
    kind = name.partition(".")[0]
    return kind if kind in GROUP_TYPES else None


class GroupConfig(NamedTuple):
    """One config of a group. ``default`` is what would hold if it were not set at the group.

    ``source``: ``group``, ``dynamic broker``, ``dynamic default broker``, ``static broker`` or
    ``default``. ``type`` and ``documentation`` are None before Kafka 2.6's DescribeConfigs.
    """

    group: str
    name: str
    value: str | None
    default: str | None
    source: str | None
    type: str | None = None
    documentation: str | None = None

    @property
    def own(self) -> str | None:
        """The value that is set at the group itself; None where none is."""
        return self.value if self.source == SET_AT_GROUP else None

    @property
    def group_type(self) -> str:
        """The type of groups that it applies to: ``consumer``, ``share``, ``streams``."""
        return config_type(self.name) or self.name.partition(".")[0]


Configs = dict[str, GroupConfig]
ConfigValues = Mapping[str, Mapping[str, "str | None"]]
"""Values by group and name; None: not set at the group."""


def find_configured_groups(cluster: Cluster) -> Operation[list[str] | KgError]:
    """Return the groups that have configs of their own, also those that do not exist.

    Needs DESCRIBE_CONFIGS on the cluster, and Kafka ≥ 4.1 (KIP-1142); nothing before that.
    """
    version = yield from version_of(ANY, list_config_resources.Request)
    if isinstance(version, KgError):
        return version
    if version < 1:  # v0 lists client metrics only
        return []
    request = list_config_resources.Request(resource_types=[GROUP])
    reply = yield from call_any(request)
    if isinstance(reply, KgError):
        return reply
    if reply.error_code == codes.CLUSTER_AUTHORIZATION_FAILED:
        return denied.needs(
            reply.error_code,
            "Which groups have configs is unknown: the broker does not say.",
            "DESCRIBE_CONFIGS",
            "the cluster",
        )
    if reply.error_code:
        return broker_error(reply.error_code)
    return sorted(row.resource_name for row in reply.config_resources if row.resource_type == GROUP)


def describe_group_configs(
    cluster: Cluster, groups: Sequence[str]
) -> Operation[dict[str, Configs | KgError]]:
    """Return the configs of each group by name, or the error.

    Needs DESCRIBE_CONFIGS on the group. A group need not exist.
    """
    parts = cut(list(dict.fromkeys(groups)), _GROUPS_AT_ONCE)
    found: dict[str, Configs | KgError] = {}
    for part in (yield from gather([_describe(ids) for ids in parts])):
        found.update(part)
    return found


def _describe(groups: list[str]) -> Operation[dict[str, Configs | KgError]]:
    rows = [
        describe_configs.RequestResource(
            resource_type=GROUP, resource_name=group, configuration_keys=None
        )
        for group in groups
    ]
    request = describe_configs.Request(
        resources=rows, include_synonyms=True, include_documentation=True
    )
    reply = yield from call_any(request)
    if isinstance(reply, KgError) and not reply.maybe_done:
        # Before v3 the request has no documentation field.
        reply = yield from call_any(request.replace(include_documentation=False))
    if isinstance(reply, KgError):
        return dict.fromkeys(groups, reply)
    found: dict[str, Configs | KgError] = {
        group: left_out(request, f"group {group}") for group in groups
    }
    for row in reply.results:
        name = row.resource_name
        failed = _failure(name, row, _DESCRIBE)
        found[name] = failed or {one.name: _config(name, one) for one in row.configs}
    return found


def _failure(group: str, row: Any, need: Need) -> KgError | None:
    if not row.error_code:
        return None
    error = broker_error(row.error_code, row.error_message)
    if _is_about_type(error):
        error = broker_error(
            row.error_code, "The broker knows no configs of groups: that needs Kafka ≥ 4.0."
        )
    return denied.explain(error, need, group=group)


def _is_about_type(error: KgError) -> bool:
    """Whether a broker does not know the type of resource, as 2.1 and 3.9.1 don't."""
    unknown = ("Unexpected resource type", "Unknown resource type")
    is_bare = error.message == broker_error(error.code or 0).message
    return error.name == "INVALID_REQUEST" and (is_bare or error.message.startswith(unknown))


def _config(group: str, row: Any) -> GroupConfig:
    inherited = [one.value for one in row.synonyms if SOURCES.get(one.source) != SET_AT_GROUP]
    return GroupConfig(
        group=group,
        name=row.name,
        value=row.value,
        default=inherited[0] if inherited else None,
        source=SOURCES.get(row.config_source),
        type=TYPES.get(row.config_type),
        documentation=row.documentation,
    )


# ---------------------------------------------------------------------------------------------
# Changing

Outcomes = dict[tuple[str, str], "KgError | None"]
"""The error of each config of each group; None where it has (or may have) the wanted value."""


def check_group_configs(cluster: Cluster, wanted: ConfigValues) -> Operation[Outcomes]:
    """Let the controller check changes without making them (``validate_only``).

    All changes of a group are checked together, for one may need the other; where that fails,
    each by itself, so that an invalid one fails alone.
    """
    parts = yield from gather([_check(group, configs) for group, configs in wanted.items()])
    return {key: error for part in parts for key, error in part.items()}


def _check(group: str, configs: Mapping[str, str | None]) -> Operation[Outcomes]:
    problem = yield from _alter(group, configs, validate_only=True)
    if not isinstance(problem, BrokerError):
        return {(group, name): problem for name in configs}
    single = yield from gather(
        [_alter(group, {n: v}, validate_only=True) for n, v in configs.items()]
    )
    outcomes: Outcomes = {
        (group, name): answer for name, answer in zip(configs, single, strict=True)
    }
    good = {name: value for name, value in configs.items() if outcomes[group, name] is None}
    if good:
        problem = yield from _alter(group, good, validate_only=True)
        outcomes.update({(group, name): problem for name in good})
    return outcomes


def change_agreed_configs(
    cluster: Cluster, wanted: ConfigValues, agreed: ConfigValues
) -> Operation[Outcomes]:
    """Change configs that still have the values that were shown, and wait until that is seen.

    Needs ALTER_CONFIGS on the groups. All configs of one group change together or not at all.

    :param agreed: what was set at the groups: what has another value by now is left alone, and
        where an answer was lost it shows whether the change was made.
    """
    # The journal in between may have taken its time (a disk, a copy elsewhere).
    outcomes = yield from changed_since(cluster, agreed)
    going: dict[str, dict[str, str | None]] = {}
    for group, values in wanted.items():
        if same := {name: v for name, v in values.items() if (group, name) not in outcomes}:
            going[group] = same
    changes = [_change(cluster, group, going[group], agreed[group]) for group in going]
    for group, answers in zip(going, (yield from gather(changes)), strict=True):
        outcomes.update({(group, name): answer for name, answer in answers.items()})
    return outcomes


def changed_since(cluster: Cluster, agreed: ConfigValues) -> Operation[Outcomes]:
    """Return the errors of configs that have another value by now."""
    there = yield from describe_group_configs(cluster, list(agreed))
    outcomes: Outcomes = {}
    for group, configs in agreed.items():
        now = there[group]
        for name, value in configs.items():
            if isinstance(now, KgError):
                outcomes[group, name] = now
            elif name not in now or now[name].own != value:
                outcomes[group, name] = ChangedMeanwhile(
                    "Its value has changed since it was looked at.", hint=_REPEAT
                )
    return outcomes


def _change(
    cluster: Cluster, group: str, wanted: Mapping[str, str | None], had: Mapping[str, str | None]
) -> Operation[dict[str, KgError | None]]:
    """Change a group's configs; what may have been done is looked up before it is sent again."""
    problem: KgError | None = None
    for _ in range(_TRIES):
        problem = keep_reason(problem, (yield from _alter(group, wanted)))
        is_open = is_unsettled(problem) or (problem and problem.code == codes.UNKNOWN_SERVER_ERROR)
        if problem is not None and not is_open:
            break
        now = yield from _wait(cluster, group, wanted)
        if problem is None:
            break
        if isinstance(now, KgError):
            problem = OutcomeUnknown(
                f"{problem.message.rstrip('.')}: it is not known whether it was set.",
                hint="Check with kgtool configs.",
            )
            break
        own = {name: now[name].own if name in now else None for name in wanted}
        if any(own[name] != had[name] for name in wanted):
            changed = ChangedMeanwhile(
                "The answer to the change was lost, and another value is set now.", hint=_REPEAT
            ).after_sending()
            return {name: None if own[name] == wanted[name] else changed for name in wanted}
    return dict.fromkeys(wanted, problem)


def _wait(
    cluster: Cluster, group: str, wanted: Mapping[str, str | None]
) -> Operation[Configs | KgError]:
    """Wait until a broker shows the values, 4.5 s at most; return what it shows.

    The controller makes a change and answers; brokers apply it later (up to 0.35 s were measured
    beside other work), and one that lost its controller only once it has found the next.
    """
    for attempt in range(_LOOKS):
        if attempt:
            yield backoff(attempt - 1)
        found = (yield from describe_group_configs(cluster, [group]))[group]
        if not isinstance(found, KgError) and all(
            name in found and found[name].own == value for name, value in wanted.items()
        ):
            break
    return found


def _alter(
    group: str, configs: Mapping[str, str | None], *, validate_only: bool = False
) -> Operation[KgError | None]:
    rows = [
        incremental_alter_configs.RequestConfig(
            name=name, operation=_DELETE if value is None else _SET, value=value
        )
        for name, value in configs.items()
    ]
    resource = incremental_alter_configs.RequestResource(
        resource_type=GROUP, resource_name=group, configs=rows
    )
    request = incremental_alter_configs.Request(resources=[resource], validate_only=validate_only)
    reply = yield from call_any(request)
    if isinstance(reply, KgError):
        return reply
    return next(filter(None, (_failure(group, row, _ALTER) for row in reply.results)), None)
