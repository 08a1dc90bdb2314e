"""``python -m kgtool``: the command line."""

from __future__ import annotations

from kgtool.cli.app.main import program

program()
