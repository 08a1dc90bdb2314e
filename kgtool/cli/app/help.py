"""What every command's help has in common: short where all are the same, examples at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from kgtool.cli.app.argv import MAYBE, NO, SHORT, YES, spell_out
from kgtool.errors import UsageError

COMMON = (
    "--bootstrap-server", "--command-config", "--context", "--timeout", "--output", "--no-color",
    "--debug",
)  # fmt: skip
"""Options of (nearly) every command: named there, described by ``kgtool --help``."""


SECTIONS = {
    "Which groups": "group all_groups match regex exclude state type_",
    "Which offsets": "topic topics all_topics lagging lag",
    "What to show": "view states verbose by time_lag expiry read_committed totals columns sort "
    "watch prometheus",
    "Where to (one of these)": "to_earliest to_latest to_current to_offset shift_by to_datetime "
    "by_duration from_file like",
    "How to do it": "execute export create wait_empty all_or_nothing force yes confirm reason "
    "journal_copy dry_run canary max_delete",
}
"""The options by heading, in the commands that have most of them."""
LONG = ("describe", "lag", "reset-offsets")
WIDEST = 26
"""Columns of an option's name; a longer one has its text below."""


def examples(*lines: str) -> str:
    """Return the end of a command's help, which also is the EXAMPLES of its man page."""
    folded = (part for line in lines for part in fold(line))
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in folded)


def fold(line: str, width: int = 74) -> list[str]:
    """Break a command line before options, as a shell lets one, where it is too long.

    >>> fold("kgtool list --match billing --state Empty", 30)
    ['kgtool list --match billing \\\\', '    --state Empty']
    """
    parts = line.replace(" --", "\0--").split("\0")
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) + 2 <= width:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {part}")
    return lines


def example_lines(command: click.Command) -> list[str]:
    """Return the examples of a command, each in one line."""
    text = (command.epilog or "").replace(" \\\n      ", " ")
    return [line.strip() for line in text.split("\n") if line.startswith("  ")]


def is_common(parameter: click.Parameter) -> bool:
    """Whether an option is described once for all commands."""
    return any(name in COMMON for name in (*parameter.opts, *parameter.secondary_opts))


def takes(option: click.Option) -> str:
    """Return whether an option takes a value: ``argv.NO``, ``YES`` or ``MAYBE``."""
    if option.is_flag or option.count:
        return NO
    # An optional value has a flag_value for when there is none.
    return MAYBE if getattr(option, "_flag_needs_value", False) else YES


def add_short_options(command: click.Command) -> None:
    """Declare ``-g`` wherever there is ``--group``, and so on."""
    for parameter in command.params:
        for letter, long in SHORT.items():
            if f"--{long}" in parameter.opts and f"-{letter}" not in parameter.opts:
                parameter.opts.insert(0, f"-{letter}")


_CHOOSING = {"--match", "--exclude", "--regex", "--state", "--type", "--out", "paths"}
"""Options, and an argument, that choose what a command is about, or where it writes."""


def refuse_empty(command: click.Command) -> None:
    """Refuse ``""``, as an unset variable leaves it, where it would widen what is meant.

    ``pathlib`` takes it for the current folder; ``--exclude ''`` spares no group.
    """
    for parameter in command.params:
        is_optional = isinstance(parameter, click.Option) and takes(parameter) == MAYBE
        chooses = isinstance(parameter.type, click.Path) or _CHOOSING & set(parameter.opts)
        if chooses and not is_optional:
            _refuse_empty(parameter)


def _refuse_empty(parameter: click.Parameter) -> None:
    cast = parameter.type_cast_value

    def checked(ctx: click.Context, value: Any) -> Any:
        if "" in (value if isinstance(value, (tuple, list)) else (value,)):
            is_option = isinstance(parameter, click.Option)
            name = parameter.opts[-1] if is_option else (parameter.metavar or "FILE").rstrip("…")
            raise UsageError(f"{name} is empty: is a variable unset?")
        return cast(ctx, value)

    parameter.type_cast_value = checked  # type: ignore[method-assign]


class _Spelled(click.Command):
    """What commands and groups of them have: short options, one spelling, no empty values."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        add_short_options(self)
        refuse_empty(self)

    def parse_args(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        """Read the arguments with every option in its long form."""
        known = {
            name.lstrip("-"): takes(parameter)
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option)
            for name in (*parameter.opts, *parameter.secondary_opts)
            if name.startswith("--")
        }
        words = spell_out(args, known, stops_at_word=isinstance(self, click.Group))
        return super().parse_args(ctx, words)


class Command(_Spelled):
    """A command, whose help only names the options that all commands have."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, in the long commands by what they are for."""
        places = {name: title for title, names in SECTIONS.items() for name in names.split()}
        is_long = self.name in LONG
        own: dict[str, list[tuple[str, str]]] = {
            title: [] for title in (SECTIONS if is_long else ("Options",))
        }
        common = []
        for parameter in self.get_params(ctx):
            record = None
            if is_long and parameter.opts[-1] == "--help":
                common.append("--help")
            elif isinstance(parameter, click.Option):  # arguments are in the usage line
                record = parameter.get_help_record(ctx)
            if record is not None and is_common(parameter):
                common.append(max(parameter.opts, key=len))
            elif record is not None:
                own[places[parameter.name or ""] if is_long else "Options"].append(record)
        widest = max(min(len(name), WIDEST) for records in own.values() for name, _ in records)
        for title, records in own.items():
            if records:
                with formatter.section(title):
                    aligned = [(name.ljust(widest), text) for name, text in records]
                    formatter.write_dl(aligned, col_max=WIDEST)
        if common:
            formatter.write_paragraph()
            formatter.write_text(f"Common options (kgtool --help): {', '.join(common)}.")


class Group(_Spelled, click.Group):
    """A command that has commands of its own."""

    command_class = Command
