"""``kgtool top``: all groups on one living screen."""

from __future__ import annotations

import signal
import sys

from kgtool.cli.options.declare import declare, option
from kgtool.cli.options.shared import cluster_options, given_connection
from kgtool.cli.options.types import duration
from kgtool.cli.output.output import Output
from kgtool.cli.output.terminal import is_terminal
from kgtool.config import Settings
from kgtool.errors import KgError, UsageError
from kgtool.text import shell_word


@declare("top", "kgtool top", "kgtool top --context prod --interval 10s")
@option(
    "--interval",
    "TIME",
    "The least time between two looks (default: 3s).",
    type=duration(),
    default="3s",
)
@cluster_options()
def command(settings: Settings, output: Output, interval: int) -> int:
    """Show all groups on one living screen.

    What hurts comes first: problems, what is lost soon, lag. Enter opens a group, / filters,
    s sorts, ? shows all keys. Nothing is changed without a preview and a question; the bottom line
    is the command that does the same.

    Needs pip install 'kafka-kgtool[tui]'.
    """
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise UsageError(
            "kgtool top needs a terminal.", hint="kgtool lag and kgtool list -o json are for pipes."
        )
    try:
        from kgtool.top.app import TopApp
    except ImportError as error:
        if error.name is None or error.name.startswith("kgtool"):
            raise
        raise KgError(
            "kgtool top needs the package textual.", hint="pip install 'kafka-kgtool[tui]'"
        ) from None
    given = {name: value for name, value in given_connection().items() if name != "timeout"}
    words = [
        f"--{name.replace('_', '-')} {shell_word(str(value))}" for name, value in given.items()
    ]
    app = TopApp(settings, interval / 1000, " ".join(["kgtool", *words]))
    # An exception in the middle of its loop would leave threads, and the terminal as it is.
    signal.signal(signal.SIGTERM, lambda *_: app.exit(return_code=128 + signal.SIGTERM))
    app.run()
    return app.return_code or 0
