"""Completions for bash.

Bash breaks words at ``=`` and ``:``, which options and names contain: the script splits the line
itself.
"""

from __future__ import annotations

from kgtool.cli.app.argv import MAYBE, NO
from kgtool.cli.app.tree import MADE, Command, Option, Value, walk

_BASH = r"""# bash completion for kgtool. {made}
# Put it into ~/.local/share/bash-completion/completions, or source it in ~/.bashrc.

# Commands below a path of commands ("" is the program).
_kgtool_commands() {{
    case "$1" in
{commands}
    esac
}}

# Options of a command.
_kgtool_options() {{
    case "$1" in
{options}
    esac
}}

# What stands behind an option (or, with none, as an argument): sets kind and choices. A kind that
# begins with ? may be left out; none: the option takes no value.
_kgtool_kind() {{
    kind="" choices=""
    case "$1 $2" in
{kinds}
    esac
    case "$2" in
{common}
    esac
}}

# Splits a line into words as the shell would: bash itself also breaks them at = and :.
_kgtool_split() {{
    local line=$1 char word="" begun=""
    local -i at
    quote="" words=()
    for ((at = 0; at < ${{#line}}; at++)); do
        char=${{line:at:1}}
        if [[ -n $quote ]]; then
            if [[ $char == "$quote" ]]; then quote=""; else word+=$char; fi
        elif [[ $char == "'" || $char == '"' ]]; then
            quote=$char begun=1
        elif [[ $char == "\\" ]]; then
            at+=1
            word+=${{line:at:1}} begun=1
        elif [[ $char == " " || $char == $'\t' ]]; then
            [[ -n $word$begun ]] && words+=("$word")
            word="" begun=""
        else
            word+=$char
        fi
    done
    words+=("$word")
}}

# Takes the candidates on stdin, one a line, that begin with $1; $2 stands before each of them.
_kgtool_take() {{
    local candidate reply
    while IFS= read -r candidate; do
        [[ -n $candidate && $candidate == "$1"* ]] || continue
        reply=$2$candidate
        reply=${{reply#"$typed"}}
        [[ -n $quote ]] || printf -v reply %q "$reply"
        COMPREPLY+=("$reply")
    done
}}

_kgtool_lines() {{
    local IFS=$' \n'
    # shellcheck disable=SC2086
    (($#)) && printf '%s\n' $*
}}

# Completes a value of $kind that begins with $1; $2 stands before it.
_kgtool_value() {{
    local before=$2
    case "${{kind#\?}}" in
        words) _kgtool_take "$1" "$before" < <(_kgtool_lines "$choices") ;;
        list)
            [[ $1 == *,* ]] && before+="${{1%,*}},"
            _kgtool_take "${{1##*,}}" "$before" < <(_kgtool_lines "$choices")
            ;;
        files | dirs)
            compopt -o filenames 2>/dev/null
            local flag=-f path
            [[ ${{kind#\?}} == dirs ]] && flag=-d
            while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen "$flag" -- "$1")
            ;;
        groups | topics | contexts | journals)
            _kgtool_take "$1" "$before" < <(
                _KGTOOL_COMPLETE=${{kind#\?}} command "${{words[@]}}" 2>/dev/null | cut -f 1
            )
            ;;
    esac
}}

_kgtool() {{
    local path="" pending="" word cur current typed kind choices quote
    local -a words
    local -i at last
    COMPREPLY=()
    _kgtool_split "${{COMP_LINE:0:COMP_POINT}}"
    last=$((${{#words[@]}} - 1))
    cur=${{words[last]}}
    # What bash keeps of the word that is being completed, because it breaks words earlier.
    current=${{COMP_WORDS[COMP_CWORD]}}
    [[ $current == [=:] ]] && current=""
    typed=""
    [[ $cur == *"$current" ]] && typed=${{cur%"$current"}}
    for ((at = 1; at < last; at++)); do
        word=${{words[at]}}
        if [[ -n $pending ]]; then
            _kgtool_kind "$path" "$pending"
            pending=""
            [[ $kind != \?* || $word != -* ]] && continue
        fi
        if [[ $word == -* ]]; then
            _kgtool_kind "$path" "$word"
            [[ $word == *=* || -z $kind ]] || pending=$word
        elif [[ " $(_kgtool_commands "$path" | tr '\n' ' ') " == *" $word "* ]]; then
            path=${{path:+$path }}$word
        fi
    done
    if [[ -n $pending && $cur != -* ]]; then
        _kgtool_kind "$path" "$pending"
        _kgtool_value "$cur" ""
    elif [[ $cur == --*=* ]]; then
        _kgtool_kind "$path" "${{cur%%=*}}"
        _kgtool_value "${{cur#*=}}" "${{cur%%=*}}="
    elif [[ $cur == -* ]]; then
        _kgtool_take "$cur" "" < <(_kgtool_options "$path")
    else
        _kgtool_take "$cur" "" < <(_kgtool_commands "$path")
        _kgtool_kind "$path" ""
        [[ -n $kind ]] && _kgtool_value "$cur" ""
    fi
}}

complete -o nosort -F _kgtool kgtool 2>/dev/null || complete -F _kgtool kgtool
"""


def script(program: Command) -> str:
    """Return completions/kgtool.bash."""
    commands, options, kinds = [], [], []
    everywhere = _same_everywhere(program)
    for command in walk(program):
        path = " ".join(command.path)
        if command.commands:
            words = " ".join(inner.name for inner in command.commands)
            commands.append(f'        "{path}") _kgtool_lines {words} ;;')
        names = [name for option in command.options for name in option.names]
        options.append(f'        "{path}") _kgtool_lines \\\n{_wrapped(names)} ;;')
        for option in command.options:
            if option.takes != NO and everywhere.get(option.long) != option.value:
                kinds.append(f"        {_patterns(path, option)}) {_bash_kind(option)} ;;")
        if command.arguments:
            kinds.append(f'        "{path} ") {_bash_value(command.arguments[0].value, "")} ;;')
    by_name = {o.long: o for c in walk(program) for o in c.options if o.long in everywhere}
    common = [
        f"        {'|'.join(by_name[name].names)}) [[ -n $kind ]] || {_bash_kind(by_name[name])} ;;"
        for name in everywhere
    ]
    return _BASH.format(
        made=MADE,
        commands="\n".join(commands),
        options="\n".join(options),
        kinds="\n".join(kinds),
        common="\n".join(common),
    )


def _same_everywhere(program: Command) -> dict[str, Value]:
    """Return the options that take the same kind of value in all commands."""
    found: dict[str, set[tuple[str, Value]]] = {}
    for command in walk(program):
        for option in command.options:
            found.setdefault(option.long, set()).add((option.takes, option.value))
    return {
        name: next(iter(values))[1]
        for name, values in found.items()
        if len(values) == 1 and next(iter(values))[0] != NO
    }


def _patterns(path: str, option: Option) -> str:
    return "|".join(f'"{path} {name}"' for name in option.names)


def _bash_kind(option: Option) -> str:
    return _bash_value(option.value, "?" if option.takes == MAYBE else "")


def _bash_value(value: Value, mark: str) -> str:
    choices = f' choices="{" ".join(value.words)}"' if value.words else ""
    return f'kind="{mark}{value.kind}"{choices}'


def _wrapped(words: list[str], width: int = 88) -> str:
    lines, line = [], "            "
    for word in words:
        if len(line) + len(word) > width:
            lines.append(line.rstrip() + " \\")
            line = "            "
        line += f"{word} "
    return "\n".join([*lines, line.rstrip()])
