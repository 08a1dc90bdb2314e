"""``docs/commands.rst`` and ``docs/findings.rst``: the command reference and doctor's findings."""

from __future__ import annotations

from kgtool.cli.app.tree import MADE, Command, walk
from kgtool.cli.commands import SECTIONS
from kgtool.queries.doctor.finding import KINDS


def commands(program: Command) -> str:
    """Return the command reference, by purpose."""
    known = {command.name: command for command in program.commands}
    lines = [f".. {MADE}", "", *_title("Commands", "=")]
    lines += [
        "Options that all commands have are in ``kgtool help all``, those of every change in",
        "``kgtool help safety``; ``kgtool help COMMAND`` and ``kgtool man COMMAND`` say more, and",
        "``kgtool COMMAND --help-json`` says it to programs.",
        "",
    ]
    for section, names in SECTIONS.items():
        lines += _title(section, "-")
        for name in names:
            for command in walk(known[name]):
                lines += _command(command)
    return "\n".join(lines)


def _command(command: Command) -> list[str]:
    path = " ".join(("kgtool", *command.path))
    arguments = " ".join(argument.metavar for argument in command.arguments)
    lines = [f"``{path} {arguments}".rstrip() + "``", f"   {_plain(command.short)}", ""]
    own = [option for option in command.options if not option.is_common and option.long != "help"]
    for option in own:
        names = ", ".join(option.names) + (f" {option.metavar}" if option.metavar else "")
        lines += [f"   * ``{names}``: {_plain(option.help)}"]
    return [*lines, ""] if own else lines


def findings() -> str:
    """Return the kinds of findings of ``kgtool doctor``."""
    lines = [f".. {MADE}", "", *_title("Findings of doctor", "=")]
    lines += [
        "``kgtool doctor`` shows each with its evidence and the command that fixes it; ``explain``",
        "shows those of one group.",
        "",
    ]
    for name, (title, text) in KINDS.items():
        lines += [f"``{name}``", f"   {_plain(title)}. {_plain(text)}", ""]
    return "\n".join(lines)


def _title(text: str, mark: str) -> list[str]:
    return [text, mark * len(text), ""]


def _plain(text: str) -> str:
    """Return a text whose stars and backticks mean nothing to reStructuredText."""
    text = " ".join(text.split())
    return text.replace("\\", "\\\\").replace("*", "\\*").replace("`", "").replace("_ ", "\\_ ")
