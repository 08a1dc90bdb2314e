"""``python -m kgtool.cli``: the same as the ``kgtool`` script."""

from kgtool.cli.main import program

program()
