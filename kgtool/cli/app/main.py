"""The program's entry: which form a command line has, and how every run ends.

``--version`` and ``--help`` are answered before Click is imported. Everything else ends in exactly
one of the statuses of ``exits``; every error becomes one sentence on stderr, and with ``-o json``
also a document on stdout.
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
_UNWRITABLE = (5, 27, 28, 122)
"""EIO, EFBIG, ENOSPC and EDQUOT, whose module --version need not import."""


class Terminated(BaseException):
    """SIGTERM arrived. Not an Exception: nothing but ``main`` may catch it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["version"]):
        return _say(f"{PROGRAM} {__version__}\n")
    if arguments in (["--help"], ["-h"], ["help"]):
        from kgtool.cli.app.overview import overview

        return _say(overview())
    if argv is None:
        import gc

        # Looking for cycles as often as Python does takes a quarter of a large describe, whose
        # hundred thousand rows have none.
        gc.set_threshold(200_000, 50, 50)
        _warn_in_a_sentence()
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding can't show must not end the run.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return _run(arguments)


def program() -> NoReturn:
    """Run as the script ``kgtool``, and end the process."""
    _replace_closed()
    _leave(main())


def _replace_closed() -> None:
    """Open the streams that the caller closed (``>&-``, ``<&-``) on the null device."""
    import os

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def _leave(status: int) -> NoReturn:
    """End the process at once: the system takes memory back faster than the interpreter does.

    Clearing up takes an eighth of a ``--list``. Where something wants to be told of the end it is
    done: other threads, what has registered with ``atexit`` (Spark's gateway, a debugger).
    """
    import atexit

    threads = sys.modules.get("threading")
    is_alone = threads is None or threads.active_count() == 1
    if is_alone and not atexit._ncallbacks():
        import os

        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            sys.exit(status)
        os._exit(status)
    sys.exit(status)


def _warn_in_a_sentence() -> None:
    import warnings

    def told(message: Warning | str, *_: Any, **__: Any) -> str:
        return f"Warning: {message}\n"

    warnings.formatwarning = told


def _say(text: str) -> int:
    import errno

    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        from kgtool.cli.output.output import point_at_nothing

        point_at_nothing(sys.stdout)
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"Error: The output can't be written: {error.strerror}.\n")
            return 1
    return 0


def _run(arguments: list[str]) -> int:
    import os

    if "_KGTOOL_COMPLETE" in os.environ:
        from kgtool.cli.app.completion import names

        return names(os.environ["_KGTOOL_COMPLETE"], arguments)
    from kgtool.cli.app import exits
    from kgtool.cli.app.argv import FORMATS, last_value
    from kgtool.cli.output.output import Output, point_at_nothing

    format_ = last_value(arguments, "output")
    output = Output(format_ if format_ in FORMATS else "text")
    output.is_debug = "--debug" in arguments
    output.arguments = arguments
    previous = _on_sigterm()
    try:
        return _dispatch(arguments, output)
    except BrokenPipeError:
        point_at_nothing(sys.stdout)
        return exits.DONE
    except KeyboardInterrupt:
        return _end(output, exits.INTERRUPTED, "Interrupted.")
    except Terminated:
        return _end(output, exits.TERMINATED, "Terminated.")
    except Exception as error:  # noqa: BLE001 - the one place where everything ends
        return _fail(error, output)
    finally:
        output.close_pager()
        if previous is not None:
            import signal

            signal.signal(signal.SIGTERM, previous)


def _dispatch(arguments: list[str], output: Output) -> int:
    """Choose the Click command for the form of the command line, and run it."""
    from kgtool.cli.app.argv import scan

    seen = scan(arguments)
    if "version" in seen.names:
        return _say(f"{PROGRAM} {__version__}\n")
    if not seen.words or (("help" in seen.names) and seen.command is None):
        from kgtool.cli.app.overview import kafka_help, overview

        if seen.words:
            return _say(kafka_help() if seen.action else overview())
        output.note(overview(), end="")
        return 2
    command: click.Command
    if seen.command is None or seen.action:
        from kgtool.cli.app.kafka_form import check_line, kafka_form

        output.is_kafka_form = True
        output.command = seen.action
        check_line(seen)
        command = kafka_form
    else:
        from kgtool.cli.app.root import check_command, root
        from kgtool.cli.commands import ALIASES

        check_command(seen)
        command = root
        name = seen.command or ""
        output.command = ALIASES.get(name, name)
    return invoke(command, seen.words, output)


def invoke(command: click.Command, words: list[str], output: Output) -> int:
    """Run a Click command; what it returns is the exit status (None: 0)."""
    from click.exceptions import Exit, UsageError

    try:
        with command.make_context(PROGRAM, words, obj=output) as ctx:
            status = command.invoke(ctx)
    except Exit as ended:
        status = ended.exit_code
    except UsageError as error:
        # A group of commands named alone; Click 8.2 and later raise its help as an error.
        if type(error).__name__ != "NoArgsIsHelpError" or error.ctx is None or not output.is_text:
            raise
        output.note(error.ctx.get_help())
        status = 2
    return status if isinstance(status, int) else 0


def _fail(error: Exception, output: Output) -> int:
    """Turn an exception into one sentence, a document where one was asked for, and a status."""
    from kgtool.cli.app import exits

    if output.is_debug:
        import traceback

        output.note("".join(traceback.format_exception(error)), end="")
    known = _as_kg_error(error)
    if known is None:
        return _end(output, exits.INTERRUPTED, "Interrupted.")
    return output.abort(known)


def _as_kg_error(error: Exception) -> KgError | None:
    """Translate Click's exceptions; None for a Ctrl-C at a prompt."""
    from kgtool.errors import KgError, UsageError, unexpected

    if isinstance(error, KgError):
        return error
    if isinstance(error, ImportError) and error.name == "fcntl":
        return KgError(
            "This command locks files, which Python can't do on this system (no fcntl).",
            hint="Run it on Linux, macOS or WSL.",
        )
    import click

    if isinstance(error, click.UsageError):
        from kgtool.cli.app import suggest

        return UsageError(_one_line(suggest.text(error)))
    if isinstance(error, click.ClickException):
        return KgError(_one_line(error.format_message()))
    if isinstance(error, click.Abort):
        if isinstance(error.__context__, KeyboardInterrupt):
            return None
        return KgError("Stopped, nothing was changed.")
    if isinstance(error, OSError) and error.errno in _UNWRITABLE:
        from kgtool.cli.output.output import point_at_nothing, unwritable

        point_at_nothing(sys.stdout)  # Click's own help went there
        return unwritable(error)
    if isinstance(error, OSError) and error.filename:
        return KgError(f"Can't use {error.filename}: {error.strerror}.")
    return unexpected(error)


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _end(output: Output, status: int, message: str) -> int:
    from kgtool.errors import KgError

    error = KgError(message)
    error.name = "INTERRUPTED"
    output.abort(error)
    return status


def _on_sigterm() -> Any:
    import signal

    def terminate(_number: int, _frame: Any) -> None:
        raise Terminated

    try:
        return signal.signal(signal.SIGTERM, terminate)
    except ValueError:
        return None  # not the main thread, whose matter signals are
