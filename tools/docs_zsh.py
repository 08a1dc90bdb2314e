"""Completions for zsh: specs for ``_arguments``.

A function for each command; those of commands that have commands call the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgtool.cli.app.argv import MAYBE, NO
from kgtool.cli.app.tree import DIRS, FILES, LIST, MADE, NAMES, WORDS, Command, Option, Value, walk

_ZSH = r"""#compdef kgtool
# zsh completion for kgtool. {made}
# Put it into a folder of your $fpath, before compinit.

# Names from the cluster, as far as it answers at once.
_kgtool_names() {{
    local -a found shown
    local tab=$'\t'
    found=(${{(f)"$(_KGTOOL_COMPLETE=$1 command ${{(Q)kgtool_words}} 2>/dev/null)"}})
    if [[ $1 == journals ]]; then
        shown=("${{(@)found/$tab/  }}")
        found=("${{(@)found%%$tab*}}")
        compadd -l -d shown -V journals -a found
    else
        compadd -a found
    fi
}}

{functions}

_kgtool() {{
    # _arguments narrows $words; the names need the whole line.
    local -a kgtool_words
    kgtool_words=("${{words[@]}}")
    _kgtool_
}}

_kgtool "$@"
"""

_ZSH_GROUP = r"""{name}() {{
    local curcontext="$curcontext" state line
    typeset -A opt_args
    _arguments -C -A '-*' \
{specs} \
        '1: :->command' \
        '*:: :->rest' && return 0
    case $state in
        command)
            local -a commands
            commands=(
{commands}
            )
            _describe -t commands command commands
            ;;
        rest)
            case $words[1] in
{calls}
            esac
            ;;
    esac
}}"""

_ZSH_COMMAND = r"""{name}() {{
    _arguments \
{specs}
}}"""


def script(program: Command) -> str:
    """Return completions/_kgtool."""
    functions = [_zsh_function(command) for command in walk(program)]
    return _ZSH.format(made=MADE, functions="\n\n".join(functions))


def _zsh_name(command: Command) -> str:
    return "_kgtool_" + "_".join(command.path)


def _zsh_function(command: Command) -> str:
    specs = [spec for option in command.options for spec in _zsh_specs(option)]
    if not command.commands:
        for number, argument in enumerate(command.arguments, 1):
            where = "*" if number == len(command.arguments) else str(number)
            specs.append(f"'{where}:{_zsh_text(argument.metavar)}:{_zsh_action(argument.value)}'")
    joined = " \\\n".join(f"        {spec}" for spec in specs)
    if not command.commands:
        return _ZSH_COMMAND.format(name=_zsh_name(command), specs=joined)
    return _ZSH_GROUP.format(
        name=_zsh_name(command),
        specs=joined,
        commands="\n".join(
            f"                '{inner.name}:{_zsh_text(inner.short)}'" for inner in command.commands
        ),
        calls="\n".join(
            f"                {inner.name}) {_zsh_name(inner)} ;;" for inner in command.commands
        ),
    )


def _zsh_specs(option: Option) -> Iterator[str]:
    for name in option.names:
        repeats = "*" if option.repeats else ""
        spec = f"{repeats}{name}"
        if option.takes != NO and name.startswith("--"):
            spec += "="
        text = f"'{spec}[{_zsh_text(option.help)}]"
        if option.takes != NO:
            colon = "::" if option.takes == MAYBE else ":"
            text += f"{colon}{_zsh_text(option.metavar)}:{_zsh_action(option.value)}"
        yield text + "'"


def _zsh_text(text: str) -> str:
    text = re.sub(r"([\[\]:\\])", r"\\\1", text)
    return text.replace("'", "'\\''")


def _zsh_action(value: Value) -> str:
    if value.kind in NAMES:
        return f"{{_kgtool_names {value.kind}}}"
    if value.kind == FILES:
        return "_files"
    if value.kind == DIRS:
        return "_files -/"
    if value.kind == WORDS:
        return f"({' '.join(value.words)})"
    if value.kind == LIST:
        return f"{{_values -s , value {' '.join(value.words)}}}"
    return " "
