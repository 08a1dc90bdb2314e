"""Kafka's form: ``kgtool --bootstrap-server b:9092 --describe --group g``.

One Click command with all options of kafka-consumer-groups.sh 4.3.1 and kgtool's own. Combinations
are checked by ``kafka_refusals`` before Click reads the line; the commands do the work.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from kgtool.cli.app import kafka_refusals
from kgtool.cli.app.argv import ACTIONS, CommandLine
from kgtool.cli.app.help import BaseCommand
from kgtool.cli.app.overview import KAFKA_OPTIONS, kafka_help, parts
from kgtool.cli.options.change import ChangeOptions, change_params
from kgtool.cli.options.declare import overviewed
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import (
    connection_params,
    get_output,
    make_settings,
    output_params,
    view_options,
)
from kgtool.cli.options.types import TOPIC, Name
from kgtool.config import has_cluster
from kgtool.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])

_TYPES = {"like": Name(), "group": Name(), "topic": TOPIC}
_OWN = (
    "topic exclude match group type state expiring-within wait-empty like by-duration to-datetime "
    "shift-by to-offset from-file regex validate-regex all-or-nothing create to-current to-latest "
    "to-earliest export execute force verbose offsets members all-topics all-groups reset-offsets "
    "delete-offsets delete describe list"
)
"""In the order of the completions; ``change_params`` has the others of Kafka's form."""
_KAFKAS = frozenset(
    (
        "all_groups",
        "all_topics",
        "by_duration",
        "delete",
        "delete_offsets",
        "describe",
        "dry_run",
        "execute",
        "export",
        "from_file",
        "list",
        "members",
        "offsets",
        "reset_offsets",
        "shift_by",
        "state",
        "to_current",
        "to_datetime",
        "to_earliest",
        "to_latest",
        "to_offset",
        "topic",
        "type",
        "verbose",
    )
)
"""Options that Kafka's tool takes with any action, or refuses itself."""
CHANGES = ("delete", "delete-offsets", "reset-offsets")


class KafkaForm(BaseCommand):
    """Shows the help of Kafka's form, as ``kgtool help kafka`` does."""

    def get_help(self, ctx: click.Context) -> str:
        """Return the help text that is also shown without Click."""
        return kafka_help().rstrip("\n")


def _kafka_params(function: F) -> F:
    declared = {parts(each)[0]: each for each in KAFKA_OPTIONS}
    texts = {declared[name]: KAFKA_OPTIONS[declared[name]] for name in _OWN.split()}
    return overviewed(function, texts, _TYPES, metavars=False)


def check_line(line: CommandLine) -> None:
    """Raise UsageError for what Kafka's tool refuses, before Click reads the line."""
    names_cluster = bool(line.names & {"bootstrap-server", "command-config", "context"})
    kafka_refusals.check(line, names_cluster or has_cluster())


@click.command("kgtool", cls=KafkaForm, context_settings={"help_option_names": ["-h", "--help"]})
@_kafka_params
@view_options
@change_params
@connection_params
@output_params
def kafka_form(**given: Any) -> int | None:
    """Do what kafka-consumer-groups.sh does with the same options."""
    output = get_output()
    action = next(name for name in ACTIONS if given[name.replace("-", "_")] not in (None, False))
    output.command = action
    if action == "validate-regex":
        from kgtool.cli.commands.validate_regex import run as validate

        return validate(output, given["validate_regex"])
    settings = make_settings(required=True)
    groups = tuple(dict.fromkeys(given["group"]))
    selection = Selection(
        groups, given["all_groups"], given["match"], given["regex"], given["exclude"]
    )
    module = import_module(f"kgtool.cli.commands.{action.replace('-', '_')}")
    _check_own_options(action, module.command)
    # Kafka's tool asks nothing.
    options = {name: given[name] for name in ChangeOptions._fields} | {"yes": True}
    change = (ChangeOptions(**options).checked(),) if action in CHANGES else ()
    given |= {"selection": selection, "topics": given["topic"], "type_": given["type"]}
    line = module.Line(**{name: given[name] for name in module.Line._fields if name in given})
    status: int | None = module.kafka_form(settings, output, line, *change)
    return status


def _check_own_options(action: str, command: click.Command) -> None:
    """Refuse an option of kgtool's own that the action's command does not have.

    Kafka's tool ignores those of its options that an action does not use. If kgtool's were ignored
    as well, ``--delete --lagging`` would delete more than was meant.
    """
    context = click.get_current_context()
    known = {param.name for param in command.params} | _KAFKAS
    for param in context.command.params:
        given = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if given and param.name not in known:
            raise UsageError(f"{max(param.opts, key=len)} does not go with --{action}.")
