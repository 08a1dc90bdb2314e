"""Entry point: runs Kafka's form or a subcommand; every outcome becomes an exit status.

``--version`` and ``--help`` are answered before Click is imported. All other runs end with one of
the statuses of ``exits``; every error becomes one sentence on stderr, and with ``-o json`` also a
document on stdout.
"""

from __future__ import annotations

import sys

from kgtool import __version__

# Type checkers know this name; importing it from typing would cost more than --version does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    import click

    from kgtool.cli.output.output import Output
    from kgtool.errors import KgError

PROGRAM = "kgtool"
STRIKE_AGAIN_S = 0.05
"""Long enough for the hook of what is discarded to end, on a busy machine too."""


class Terminated(BaseException):
    """SIGTERM arrived. Not an Exception: only ``main`` may catch it."""


def program() -> NoReturn:
    """Run as the script ``kgtool``, and end the process."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the caller: >&-, <&-
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["version"]):
        return _print(f"{PROGRAM} {__version__}\n")
    if arguments in (["--help"], ["-h"], ["help"]):
        from kgtool.cli.app.overview import overview

        return _print(overview())
    if argv is None:
        import gc
        import warnings

        # Looking for cycles as often as Python does takes a quarter of a large describe, whose
        # hundred thousand rows have none.
        gc.set_threshold(200_000, 50, 50)
        warnings.formatwarning = lambda message, *_, **__: f"Warning: {message}\n"
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding can't show must not end the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return _run(arguments)


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        from kgtool.cli.output.output import redirect_to_null

        redirect_to_null(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"Error: The output can't be written: {error.strerror}.\n")
            return 1
    return 0


def _run(arguments: list[str]) -> int:
    import os

    if "_KGTOOL_COMPLETE" in os.environ:
        from kgtool.cli.app.completion import print_names

        return print_names(os.environ["_KGTOOL_COMPLETE"], arguments)
    from kgtool.cli.app import exits
    from kgtool.cli.app.argv import FORMATS, last_value
    from kgtool.cli.output.output import Output, redirect_to_null

    format_ = last_value(arguments, "output")
    output = Output(format_ if format_ in FORMATS else "text")
    output.is_debug = "--debug" in arguments
    output.arguments = arguments
    hook, previous = sys.unraisablehook, _on_sigterm()
    try:
        return _dispatch(arguments, output)
    except BrokenPipeError:
        redirect_to_null(sys.stdout)
        return exits.DONE
    except KeyboardInterrupt:
        return output.abort(_interrupted("Interrupted.", exits.INTERRUPTED))
    except Terminated:
        return output.abort(_interrupted("Terminated.", exits.TERMINATED))
    except Exception as error:  # noqa: BLE001 - the one place where everything ends
        if output.is_debug:
            import traceback

            output.note("".join(traceback.format_exception(error)), end="")
        return output.abort(_as_kg_error(error))
    finally:
        output.close_pager()
        if previous is not None:
            import signal

            signal.signal(signal.SIGTERM, previous)
            sys.unraisablehook = hook


def _dispatch(arguments: list[str], output: Output) -> int:
    """Choose the Click command for the form of the command line, and run it."""
    from kgtool.cli.app.argv import scan

    line = scan(arguments)
    if "--help-json" in arguments:
        from kgtool.cli.app.tree import as_json

        return _print(as_json([word for word in arguments if not word.startswith("-")]))
    if "version" in line.names:
        return _print(f"{PROGRAM} {__version__}\n")
    if not line.words or ("help" in line.names and line.command is None):
        from kgtool.cli.app.overview import kafka_help, overview

        if line.words:
            return _print(kafka_help() if line.action else overview())
        output.note(overview(), end="")
        return 2
    if line.names == {"verbose"} and not (line.command or line.strays):
        from kgtool.errors import UsageError

        raise UsageError(
            "-v is --verbose, an option of commands such as describe; --version is the version."
        )
    if line.command is None or line.action:
        from kgtool.cli.app.kafka_form import check_line, kafka_form

        output.is_kafka_form = True
        output.command = line.action
        check_line(line)
        return _invoke(kafka_form, line.words, output)
    from kgtool.cli.app.root import check_command, root, without_noun
    from kgtool.cli.commands import ALIASES

    line = without_noun(line)
    check_command(line)
    command = str(line.command)
    output.command = ALIASES.get(command, command)
    return _invoke(root, line.words, output)


def _invoke(command: click.Command, words: list[str], output: Output) -> int:
    """Run a Click command; it returns its exit status, or None for that of its output."""
    from click.exceptions import Abort, Exit, UsageError

    try:
        with command.make_context(PROGRAM, words, obj=output) as ctx:
            status = command.invoke(ctx)
    except Exit as ended:
        status = ended.exit_code
    except Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise
    except UsageError as error:
        # A group of commands named alone; Click 8.2 and later raise its help as an error.
        if type(error).__name__ != "NoArgsIsHelpError" or error.ctx is None or not output.is_text:
            raise
        output.note(error.ctx.get_help())
        status = 2
    return status if isinstance(status, int) else output.finish()


def _as_kg_error(error: Exception) -> KgError:
    """Translate the exceptions of Click and of the system."""
    import errno

    import click

    from kgtool.errors import KgError, UsageError, unexpected

    if isinstance(error, KgError):
        return error
    if isinstance(error, ImportError) and error.name == "fcntl":
        return KgError(
            "This command locks files, which Python can't do on this system (no fcntl).",
            hint="Run it on Linux, macOS or WSL.",
        )
    if isinstance(error, click.UsageError):
        from kgtool.cli.app import suggest

        return UsageError(" ".join(suggest.text(error).split()))
    if isinstance(error, click.ClickException):
        return KgError(" ".join(error.format_message().split()))
    if isinstance(error, click.Abort):
        return KgError("Nothing changed.")
    if isinstance(error, OSError):
        if error.errno in (errno.EIO, errno.EFBIG, errno.ENOSPC, errno.EDQUOT):
            from kgtool.cli.output.output import redirect_to_null, unwritable

            redirect_to_null(sys.stdout)  # Click's own help went there
            return unwritable(error)
        if error.filename:
            return KgError(f"Can't use {error.filename}: {error.strerror}.")
    return unexpected(error)


def _interrupted(message: str, status: int) -> KgError:
    from kgtool.errors import KgError

    error = KgError(message)
    error.name, error.exit_code = "INTERRUPTED", status
    return error


def _on_sigterm() -> Any:
    """Let SIGTERM end the run in order; return the handler before (None: not the main thread)."""
    import signal

    def terminate(_number: int, _frame: Any) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, terminate)
    except ValueError:
        return None
    others = sys.unraisablehook
    sys.unraisablehook = lambda lost: _strikes_again(lost) or others(lost)
    return before


def _strikes_again(lost: sys.UnraisableHookArgs) -> bool:
    """Send a signal that ends the run again, where Python has discarded what its handler raised.

    Handlers run between any two instructions of Python: in callbacks of weak references too, of
    which each import has one; and here, where they would be discarded as well.
    """
    import signal

    number = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}.get(lost.exc_type)
    while number is not None:
        import threading

        main_thread = threading.main_thread().ident
        try:
            threading.Timer(STRIKE_AGAIN_S, signal.pthread_kill, (main_thread, number)).start()
        except (KeyboardInterrupt, Terminated):
            continue  # it came before the thread's start had ended
        return True
    return False
