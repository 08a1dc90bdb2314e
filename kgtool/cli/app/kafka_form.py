"""Kafka's form: ``kgtool --bootstrap-server b:9092 --describe --group g``.

One Click command with every option of kafka-consumer-groups.sh 4.3.1 and kgtool's own. What may
stand together is decided by ``checks`` before Click looks; the work is done by the commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kgtool.cli.app import kafka_refusals
from kgtool.cli.app.argv import ACTIONS, Scan
from kgtool.cli.app.help import add_short_options, refuse_empty
from kgtool.cli.app.overview import KAFKA_OPTIONS, kafka_help, long_name
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import (
    CONNECTION,
    Name,
    TopicSpecType,
    added,
    change_params,
    connection_params,
    get_output,
    make_settings,
    output_params,
)
from kgtool.cli.options.view import view_options
from kgtool.cli.output.output import Output
from kgtool.config import has_cluster

if TYPE_CHECKING:
    from kgtool.config import Settings

F = TypeVar("F", bound=Callable[..., Any])

_HELP = {long_name(declared): text for declared, text in KAFKA_OPTIONS.items()}
_FLAGS = (
    "--list", "--describe", "--delete", "--delete-offsets", "--reset-offsets", "--all-groups",
    "--all-topics", "--members", "--offsets", "--verbose", "--force", "--execute",
    "--export", "--to-earliest", "--to-latest", "--to-current", "--create", "--all-or-nothing",
)  # fmt: skip
_VALUES: dict[str, Any] = {
    "--validate-regex": str, "--regex": str, "--from-file": str, "--to-offset": str,
    "--shift-by": str, "--to-datetime": str, "--by-duration": str, "--like": Name(),
    "--wait-empty": str, "--expiring-within": str,
}  # fmt: skip


class KafkaForm(click.Command):
    """Shows the help of Kafka's form, which is also ``kgtool help kafka``."""

    def get_help(self, ctx: click.Context) -> str:
        """Return the help text that is also shown without Click."""
        return kafka_help().rstrip("\n")


def _kafka_params(function: F) -> F:
    options = [click.option(name, is_flag=True, help=_HELP[name]) for name in _FLAGS]
    options += [click.option(n, type=type_, help=_HELP[n]) for n, type_ in _VALUES.items()]
    options += [
        click.option("--state", is_flag=False, flag_value="", help=_HELP["--state"]),
        click.option("--type", is_flag=False, flag_value="", help=_HELP["--type"]),
        click.option("--group", multiple=True, type=Name(), help=_HELP["--group"]),
        click.option("--match", multiple=True, help=_HELP["--match"]),
        click.option("--exclude", multiple=True, help=_HELP["--exclude"]),
        click.option("--topic", multiple=True, type=TopicSpecType(), help=_HELP["--topic"]),
    ]
    return added(function, *options)


def check_line(seen: Scan) -> None:
    """Raise UsageError for what Kafka's tool refuses, before Click reads the line."""
    names_one = bool(seen.names & {"bootstrap-server", "command-config", "context"})
    kafka_refusals.check(seen, names_one or has_cluster())


@click.command("kgtool", cls=KafkaForm, context_settings={"help_option_names": ["-h", "--help"]})
@_kafka_params
@view_options
@change_params
@connection_params
@output_params
@click.pass_context
def kafka_form(ctx: click.Context, /, **given: Any) -> int:
    """Do what kafka-consumer-groups.sh does with the same options."""
    output = get_output(ctx)
    action = next(name for name in ACTIONS if given[name.replace("-", "_")] not in (None, False))
    output.command = action
    if action == "validate-regex":
        from kgtool.cli.commands.validate_regex import run as validate

        return validate(output, given["validate_regex"])
    connection = {name: given[name] for name in CONNECTION}
    settings = make_settings(ctx, connection, required=True)
    groups = tuple(dict.fromkeys(given["group"]))
    selection = Selection(
        groups, given["all_groups"], given["match"], given["regex"], given["exclude"]
    )
    return _ACTIONS[action](settings, output, selection, given)


add_short_options(kafka_form)
refuse_empty(kafka_form)


def _list(settings: Settings, output: Output, selection: Selection, given: dict[str, Any]) -> int:
    from kgtool.cli.commands.list import kafka_form as run

    return run(
        settings,
        output,
        given["state"],
        given["type"],
        selection,
        given["columns"],
        given["sort"],
        given["expiring_within"],
    )


def _describe(
    settings: Settings, output: Output, selection: Selection, given: dict[str, Any]
) -> int:
    from kgtool.cli.commands.describe import run
    from kgtool.cli.describe.view import make

    name = "offsets"
    if given["members"]:
        name = "members"
    elif given["state"] is not None:
        name = "state"
    return run(settings, output, selection, make(name, given, kafka_form=True))


def _delete(settings: Settings, output: Output, selection: Selection, given: dict[str, Any]) -> int:
    from kgtool.cli.commands.delete import kafka_form as run

    return run(settings, output, selection, given["dry_run"], given["force"])


def _delete_offsets(
    settings: Settings, output: Output, selection: Selection, given: dict[str, Any]
) -> int:
    from kgtool.cli.commands.delete_offsets import kafka_form as run

    return run(settings, output, selection, given["topic"], given["dry_run"], given["force"])


def _reset_offsets(
    settings: Settings, output: Output, selection: Selection, given: dict[str, Any]
) -> int:
    from kgtool.cli.commands.reset_offsets import kafka_form as run

    return run(settings, output, selection, given)


_ACTIONS = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
    "delete-offsets": _delete_offsets,
    "reset-offsets": _reset_offsets,
}
