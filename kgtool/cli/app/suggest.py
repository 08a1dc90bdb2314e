"""Click's own refusals, with the nearest command or option."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kgtool.cli.app.argv import ACTIONS, FORMATS
from kgtool.cli.app.nearest import OPTIONS_FOR, did_you_mean, other_option
from kgtool.text import shell_word

if TYPE_CHECKING:
    import click

_FEW = 5
"""Commands that are named as those that have an option."""
_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)")
_NO_COMMAND = re.compile(r"No such command '([^']*)'")


def text(error: click.UsageError) -> str:
    """Return Click's message, with the nearest option or command."""
    import click

    if isinstance(error, click.NoSuchOption):
        options = {} if error.ctx is None else _options(error.ctx)
        name = error.option_name.lstrip("-")
        path = "" if error.ctx is None else error.ctx.command_path.partition(" ")[2]
        return f"No such option '{error.option_name}'{_advice(name, options, path) or '.'}"
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option):
        is_file = error.param.name == "out" and error.param.metavar != "DIR"
        also = "; - is stdout" if is_file else ""
        return f"Missing option '{error.param.opts[0]} {error.param.metavar}'{also}."
    if isinstance(error, click.MissingParameter) and error.ctx and error.param:
        argument = error.param.make_metavar(error.ctx)
        return f"Missing argument '{argument}'{_example(error.ctx)}"
    missing = _NO_COMMAND.match(error.message)
    if missing and error.ctx is not None and isinstance(error.ctx.command, click.Group):
        known = list(error.ctx.command.commands)
        takes = f": {error.ctx.command_path} takes {', '.join(known[:-1])} or {known[-1]}."
        near = "" if "." in missing[1] else did_you_mean(missing[1], known)  # a file is no slip
        return f"No such command '{missing[1]}'{near or takes}"
    extra = _EXTRA.match(error.message)
    if extra and error.ctx is not None and "group" in _options(error.ctx):
        glob = extra[1].strip("'")
        named, other = "--group", "--match"
        if set("*?[") & set(glob):
            named, other = other, named
        path = error.ctx.command_path
        return f"{path} takes no names: {named} {shell_word(glob)}, or {other}."
    if extra and error.ctx is not None:
        return f"Got unexpected extra argument ({extra[1]}){_example(error.ctx)}"
    return error.format_message()


def _example(context: click.Context) -> str:
    """Return the end of a refusal that shows the first example of a command's help."""
    from kgtool.cli.app.help import example_lines

    parents = [] if context.parent is None else example_lines(context.parent.command)
    examples = example_lines(context.command) or [
        line for line in parents if line.startswith(f"{context.command_path} ")
    ]
    return f", as in: {examples[0]}" if examples else "."


def _advice(name: str, options: dict[str, str], path: str) -> str:
    """Return the end of the refusal of an unknown option of the command at a path."""
    if name in FORMATS and "output" in options:
        return f" (did you mean -o {name}?)"
    if other := other_option(name, options):
        return other
    if name in ACTIONS:
        return f": type kgtool {name} … or, in Kafka's form, kgtool --{name} …"
    long = {word: spelled for word, spelled in options.items() if len(word) > 1}
    near = did_you_mean(name, long, 0.8, long.__getitem__)
    if near:
        return near
    meant = OPTIONS_FOR.get(name, "").split(", ")[0]
    return (
        _who_has(name, "it", path)
        or (meant and _who_has(meant[2:].split(" ")[0], meant, path))
        or did_you_mean(name, long, shown=long.__getitem__)
    )


def _who_has(option: str, called: str, path: str) -> str:
    """Return the end of a refusal that names the commands with an option.

    Those below the command at ``path``, if any has it. Of more than a few, those that look and
    change nothing; empty if those are too many too.
    """
    from kgtool.cli.app.tree import tree, walk
    from kgtool.cli.commands import SECTIONS

    having = [
        " ".join(each.path)
        for each in walk(tree())
        if each.path and any(f"--{option}" in one.names for one in each.options)
    ]
    having = [name for name in having if name.startswith(f"{path} ")] or having
    if len(having) > _FEW:
        having = [name for name in having if name in SECTIONS["Look"]]
    if not 0 < len(having) <= _FEW:
        return ""
    return f": {', '.join(having)} {'has' if len(having) == 1 else 'have'} {called}."


def _options(context: click.Context) -> dict[str, str]:
    """Return a command's options by their names without hyphens."""
    params = context.command.get_params(context)
    return {name.lstrip("-"): name for param in params for name in param.opts if name[0] == "-"}
