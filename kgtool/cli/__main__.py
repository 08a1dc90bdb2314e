"""``python -m kgtool.cli``: the same as the ``kgtool`` script."""

from kgtool.cli.app.main import program

program()
