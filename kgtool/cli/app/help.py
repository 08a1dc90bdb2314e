"""Base classes of the commands: all spellings of options, and help that ends with examples."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import click

from kgtool.cli.app.argv import MAYBE, NO, SHORT, WITHOUT_VALUE, YES, spell_out
from kgtool.cli.commands import ALIASES
from kgtool.errors import UsageError

COMMON = (
    "--bootstrap-server",
    "--command-config",
    "--context",
    "--timeout",
    "--output",
    "--no-color",
    "--debug",
)
"""Options of nearly every command: its help only names them."""

SECTIONS = {
    "Which groups": "group all_groups match regex exclude state type_",
    "Which offsets": "topic topics all_topics lagging lag",
    "What to show": "view states verbose by time_lag loses_within rates over expiry read_committed "
    "totals columns sort limit no_headers watch prometheus",
    "Where to (one of these)": "to to_earliest to_latest to_current to_offset shift_by to_datetime "
    "by_duration from_file like",
    "How to do it": "execute export create wait_empty force yes dry_run",
}
"""The options by heading, in the help of the ``LONG`` commands."""
SAFETY = (
    "dry_run",
    "max_groups",
    "canary",
    "all_or_nothing",
    "reason",
    "confirm",
    "journal_copy",
    "all_rows",
)
"""Options of every change, described once, in ``kgtool help safety``; dry_run in each help too."""
LONG = ("describe", "lag", "reset-offsets")
WIDEST = 26
"""Columns of an option's name; the text of a longer one is below it."""


def examples(*lines: str) -> str:
    """Return the end of a command's help, which is also the EXAMPLES section of its man page."""
    folded = (part for line in lines for part in fold(line))
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in folded)


def fold(line: str, width: int = 74) -> list[str]:
    """Break a long command line before options, with backslashes.

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
    may_lack = getattr(option, "_flag_needs_value", False) or option.name in WITHOUT_VALUE
    return MAYBE if may_lack else YES


_SELECTING = {"--match", "--exclude", "--regex", "--state", "--type", "--out", "paths"}
"""Parameters that select what a command is about, or where it writes."""


def _selects(parameter: click.Parameter) -> bool:
    is_optional = isinstance(parameter, click.Option) and takes(parameter) == MAYBE
    is_path = isinstance(parameter.type, click.Path)
    return not is_optional and (is_path or not _SELECTING.isdisjoint(parameter.opts))


def _refuse_empty(parameter: click.Parameter) -> None:
    """Refuse ``""``, as an unset variable leaves it, where it would select more than was meant.

    ``pathlib`` takes it for the current folder; ``--exclude ''`` spares no group.
    """
    cast = parameter.type_cast_value

    def checked(ctx: click.Context, value: Any) -> Any:
        if "" in (value if isinstance(value, (tuple, list)) else (value,)):
            is_option = isinstance(parameter, click.Option)
            name = parameter.opts[-1] if is_option else (parameter.metavar or "FILE").rstrip("…")
            raise UsageError(f"{name} is empty: is a variable unset?")
        return cast(ctx, value)

    parameter.type_cast_value = checked  # type: ignore[method-assign]


class BaseCommand(click.Command):
    """Adds short options (``-g`` to ``--group``), accepts all spellings, refuses empty values."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            for letter, long in SHORT.items():
                if f"--{long}" in parameter.opts and f"-{letter}" not in parameter.opts:
                    parameter.opts.insert(0, f"-{letter}")
            if _selects(parameter):
                _refuse_empty(parameter)

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


class Command(BaseCommand):
    """A command, whose help only names the options that all commands have."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, those of the long commands by purpose; arguments are in the usage."""
        titles = {name: title for title, names in SECTIONS.items() for name in names.split()}
        is_long = self.name in LONG
        sections: dict[str, list[tuple[str, str]]] = {title: [] for title in (*SECTIONS, "Options")}
        common, safety = [], []
        for parameter in self.get_params(ctx):
            record = None
            if isinstance(parameter, click.Option):
                record = parameter.get_help_record(ctx)
            if is_common(parameter) or (is_long and parameter.opts[-1] == "--help"):
                common.append(max(parameter.opts, key=len))
            elif parameter.name in SAFETY[1:]:
                safety.append(parameter.opts[-1])
            elif record is not None:
                sections[titles[parameter.name or ""] if is_long else "Options"].append(record)
        widest = max(min(len(name), WIDEST) for records in sections.values() for name, _ in records)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    aligned = [(name.ljust(widest), text) for name, text in records]
                    formatter.write_dl(aligned, col_max=WIDEST)
        for title, names in (
            ("Safety (kgtool help safety)", safety),
            ("Common options (kgtool help all)", common),
        ):
            if names:
                text = f"{title}: {', '.join(names)}."
                formatter.write_paragraph()
                formatter.write(fill(text, formatter.width, break_on_hyphens=False) + "\n")


class Group(BaseCommand, click.Group):
    """A command that has commands of its own."""

    command_class = Command

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or by another that means the same (``ls``)."""
        found = super().get_command(ctx, cmd_name)
        return found or super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))
