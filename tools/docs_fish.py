"""Completions for fish: a ``complete`` line for each option.

A function finds the command of the line.
"""

from __future__ import annotations

from collections.abc import Iterator

from kgtool.cli.app.argv import MAYBE, NO, YES
from kgtool.cli.app.tree import (
    ANY,
    DIRS,
    FILES,
    LIST,
    MADE,
    NAMES,
    WORDS,
    Command,
    Option,
    Value,
    walk,
)

_FISH = r"""# fish completion for kgtool. {made}
# Put it into ~/.config/fish/completions.

set -g __kgtool_commands {paths}
set -g __kgtool_valued {valued}

# The commands on the line so far ("" if there is none yet): "sandbox up".
function __kgtool_path
    set -l path ""
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if string match -q -- "-*" $word
            contains -- $word $__kgtool_valued; and set skip 1
        else if contains -- (string trim "$path $word") $__kgtool_commands
            set path (string trim "$path $word")
        end
    end
    echo $path
end

function __kgtool_in
    test (__kgtool_path) = "$argv[1]"
end

# Names from the cluster, as far as it answers at once.
function __kgtool_names
    set -l words (commandline -opc)
    _KGTOOL_COMPLETE=$argv[1] command $words 2>/dev/null
end

# Words of a list with commas, behind those that are there.
function __kgtool_list
    set -l before (string match -r '.*,' -- (commandline -ct | string replace -r '^--?[^=]*=' ''))
    printf '%s\n' "$before"$argv
end

complete -c kgtool -f
{lines}
"""


def script(program: Command) -> str:
    """Return completions/kgtool.fish."""
    lines = [line for command in walk(program) for line in _fish_lines(command)]
    paths = [" ".join(command.path) for command in walk(program) if command.path]
    options = [option for command in walk(program) for option in command.options]
    valued = sorted({name for option in options if option.takes == YES for name in option.names})
    return _FISH.format(
        made=MADE,
        paths=" ".join(_fish_text(path) for path in paths),
        valued=" ".join(valued),
        lines="\n".join(lines),
    )


def _fish_lines(command: Command) -> Iterator[str]:
    path = " ".join(command.path)
    where = f"complete -c kgtool -n '__kgtool_in \"{path}\"'"
    for inner in command.commands:
        yield f"{where} -a {inner.name} -d {_fish_text(inner.short)}"
    for option in command.options:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
        )
        yield f"{where} {names}{_fish_value(option)} -d {_fish_text(option.help)}"
    for argument in command.arguments[:1]:
        is_path = argument.value.kind in (FILES, DIRS)
        yield where + (" -F" if is_path else _fish_words(argument.value))


def _fish_value(option: Option) -> str:
    if option.takes == NO:
        return ""
    needs = "" if option.takes == MAYBE else " -r"
    if option.value.kind in (FILES, DIRS):
        return f"{needs} -F"
    return f"{needs} -f{_fish_words(option.value)}"


def _fish_words(value: Value) -> str:
    if value.kind in NAMES:
        return f" -a '(__kgtool_names {value.kind})'"
    if value.kind == WORDS:
        return f" -a '{' '.join(value.words)}'"
    if value.kind == LIST:
        return f" -a '(__kgtool_list {' '.join(value.words)})'"
    assert value.kind == ANY, value
    return ""


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
