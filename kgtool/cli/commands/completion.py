"""``kgtool completion``: for pipx, uv and brew, which install no completion files."""

from __future__ import annotations

import click

from kgtool.cli.commands.man import shipped_file
from kgtool.cli.options.declare import declare
from kgtool.cli.options.types import OneOf

FILES = {"bash": "kgtool.bash", "zsh": "_kgtool", "fish": "kgtool.fish"}


@declare(
    "completion",
    "kgtool completion bash > ~/.local/share/bash-completion/completions/kgtool",
    "kgtool completion zsh > ~/.zfunc/_kgtool",
    "kgtool completion fish > ~/.config/fish/completions/kgtool.fish",
)
@click.argument("shell", type=OneOf(tuple(FILES)), metavar="bash|zsh|fish")
def command(shell: str) -> int:
    """Print the completion script of a shell.

    To try it in bash: source <(kgtool completion bash). Groups, topics and contexts are completed
    from the cluster that the line names, within 300 ms or not at all.
    """
    click.echo(shipped_file("completions", FILES[shell]).read_text(encoding="utf-8"), nl=False)
    return 0
