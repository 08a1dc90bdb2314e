"""``kgtool version``: the same as ``kgtool --version``, as JSON too."""

from __future__ import annotations

from kgtool import __version__
from kgtool.cli.options.declare import declare
from kgtool.cli.options.shared import output_options
from kgtool.cli.output.output import Output
from kgtool.columns.tools import VERSION


@declare("version", "kgtool version", "kgtool version -o json")
@output_options
def command(output: Output) -> None:
    """Show the version."""
    output.begin(VERSION)
    output.item({"version": __version__})
    output.text(f"kgtool {__version__}")
