"""``kgtool validate-regex``: check a regular expression as brokers read it."""

from __future__ import annotations

from typing import Any

import click

from kgtool.cli.app import exits
from kgtool.cli.options.declare import declare
from kgtool.cli.options.group_selection import regex_problem
from kgtool.cli.options.shared import connection_params, output_options
from kgtool.cli.output.output import Output
from kgtool.columns.tools import REGEX
from kgtool.text import escape


@declare("validate-regex", "kgtool validate-regex 'orders-(eu|us)'")
@click.argument("regex")
@connection_params
@output_options
def command(output: Output, regex: str, **_connection: Any) -> int:
    """Check a regular expression as brokers read it (RE2)."""
    return run(output, regex)


def run(output: Output, regex: str) -> int:
    """Report whether it is valid, in the words of Kafka's tool; return 1 if it is not."""
    problem = regex_problem(regex)
    verdict = "valid" if problem is None else f"invalid: {problem}"
    output.text(f"The regular expression `{escape(regex)}` is {escape(verdict)}.")
    output.begin(REGEX)
    output.row({"regex": regex, "valid": problem is None, "message": problem})
    output.finish()
    return exits.DONE if problem is None else exits.NOTHING_DONE
