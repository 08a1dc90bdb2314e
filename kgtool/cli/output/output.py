"""Where results, notes and errors go: data on stdout, everything else on stderr.

One ``Output`` per run. A command calls ``begin`` when it knows the cluster, ``row`` per result,
``failed`` per failure, and ``finish``, which closes the document and returns the exit status. In
the text format rows are not shown: the command prints its own tables with ``text``.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from kgtool.cli.app import exits
from kgtool.cli.output import terminal
from kgtool.cli.output.document import Document
from kgtool.cli.output.errors import error_object, in_own_words, is_unknown_name, sentence, together
from kgtool.columns import Column, Row
from kgtool.errors import KgError, UsageError
from kgtool.held import STDOUT
from kgtool.model import ItemError, Target
from kgtool.text import escape, shell_word

if TYPE_CHECKING:
    from subprocess import Popen

ENVELOPE_VERSION = 1
SIMILAR = 10
"""At most so many errors with the same name and hint are shown one by one on a terminal."""
_WORDS = {"Error:": terminal.RED, "Warning:": terminal.ORANGE, "Note:": terminal.BOLD}


class Output:
    """Writes one run's results in the format asked for."""

    def __init__(
        self,
        format: str = "text",
        command: str = "",
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.format = format
        self.command = command
        self.cluster_id: str | None = None
        self.errors: list[ItemError] = []
        self.done = 0
        self.has_changed = False
        """Whether the journal has a change that was made."""
        self.before_end: list[Callable[[], None]] = []
        """Called when an error ends the run, to print final notes."""
        self.is_debug = False
        self.limit: int | None = None
        """The most rows of a table."""
        self.no_headers = False
        self.verbose = False
        self.arguments: Sequence[str] = ()
        self.is_kafka_form = False
        self.use_color: bool | None = None
        self.before_writing: Callable[[bool], None] | None = None
        """Called before any output (True: results), to remove the progress line."""
        self.is_asking = False
        """A question waits for its answer: no progress line is drawn."""
        self._stdout, self._stderr = stdout, stderr
        self._pager: Popen[str] | None = None
        self._noted: set[str] = set()
        self._similar: Counter[tuple[str, str | None]] = Counter()
        self._held: list[ItemError] | None = None
        """Errors about names that do not exist, not yet named; None: they are named at once."""
        self._suggest: Callable[[ItemError], str | None] | None = None
        self._is_finished = self._reader_gone = False
        self._write_error: KgError | None = None

    @property
    def is_text(self) -> bool:
        """Whether the command prints tables for people."""
        return self.format in ("text", "wide")

    @property
    def stderr(self) -> TextIO:
        """Where notes go."""
        return self._stderr or sys.stderr

    @property
    def is_terminal(self) -> bool:
        """Whether tables go to a terminal, directly or through a pager."""
        return self.is_text and (
            self._pager is not None or terminal.is_terminal(self._stdout or sys.stdout)
        )

    @property
    def folds_results(self) -> bool:
        """Whether of many results of a change only failures and a total are shown."""
        return self.is_terminal and not (self.is_kafka_form or self.verbose)

    @property
    def is_colored(self) -> bool:
        """Whether tables have colours: on a terminal only, and never in Kafka's form."""
        return not self.is_kafka_form and self.has_color and self.is_terminal

    @property
    def has_color(self) -> bool:
        """Whether the user and the environment let a terminal have colours."""
        return self.use_color is not False and terminal.has_color()

    @property
    def table_width(self) -> int | None:
        """The width that kgtool's own tables may have; None: they are never cut."""
        is_cut = self.is_terminal and not self.is_kafka_form and self.format != "wide"
        return terminal.size()[0] if is_cut else None

    def give_stdout(self, option: str, path: object) -> bool:
        """Leave stdout to a file that is named ``-``; tables for people go to stderr then.

        :raises UsageError: the results, or another file, need it too.
        """
        if str(path) != STDOUT:
            return False
        if not self.is_text or self._stdout is not None:
            has_it = "another option" if self.is_text else "--output"
            raise UsageError(f"--{option} - puts the file on stdout, which {has_it} needs too.")
        self._stdout = self.stderr
        return True

    def wrote(self, path: object, text: str = "Wrote {}") -> None:
        """Name a file that was written, and the command that takes it; not stdout."""
        if str(path) != STDOUT:
            self.note(text.format(path, shell_word(str(path))))

    def page(self) -> None:
        """Show the tables that follow through a pager, on a terminal."""
        if self.is_kafka_form or self._stdout is not None or not self.is_terminal:
            return
        self._pager = terminal.start_pager()
        if self._pager is not None:
            shown: Any = self._pager.stdin
            self._stdout = shown
            if self._stderr is None and terminal.is_terminal(sys.stderr):
                # Notes keep their place among the tables and don't disturb the pager's screen.
                self._stderr = shown

    def close_pager(self) -> None:
        """Wait until the pager ends; later output goes to the terminal."""
        if self._pager is not None:
            running, self._pager = self._pager, None
            terminal.close_pager(running)
            self._stdout = self._stderr = None

    def begin(self, columns: Iterable[Column | str] = (), cluster_id: str | None = None) -> None:
        """Set the keys of all rows (null where unknown) and the cluster id of the document."""
        self._document.begin(columns)
        self.cluster_id = cluster_id

    def row(self, row: Row) -> None:
        """Write one result; nothing in the text format, and nothing beyond ``limit``."""
        self._document.row(row)

    def records(self, rows: Sequence[Sequence[object]]) -> None:
        """Write many results, each with its values in the order of the columns."""
        self._document.records(rows)

    def failed(self, error: ItemError, *, row: Row | None = None, quiet: bool = False) -> None:
        """Record a failure and name it on stderr.

        :param row: the item's own row, if the command has one; ndjson makes one otherwise.
        :param quiet: the command itself has already named it.
        """
        self.errors.append(error)
        if self._held is not None and not quiet and is_unknown_name(error):
            self._held.append(error)
        elif not quiet and self._is_named(error):
            self.note(sentence(self._in_words(error)))
        if row is not None:
            self.row(row)
        elif self.format == "ndjson":
            target = error.target._asdict()
            # None fills itself in; partition 0 is a partition.
            known = {
                key: target[key] for key in self._document.columns if target.get(key) is not None
            }
            self.row({**known, "error": error_object(error)})

    def _in_words(self, error: ItemError) -> ItemError:
        return error if self.is_kafka_form else in_own_words(error)

    def hold_unknown(self, suggest: Callable[[ItemError], str | None]) -> None:
        """Name groups and topics that do not exist later, with a suggestion.

        :param suggest: returns another hint for an error; it may ask the cluster.
        """
        if not self.is_kafka_form and self.format != "ndjson":
            self._held, self._suggest = [], suggest

    def release_unknown(self, *, may_ask: bool) -> None:
        """Name them now; ``may_ask``: with suggestions."""
        if not may_ask:
            self._suggest = None
        held, self._held = self._held or (), None
        for error in together(self._advised(error) for error in held):
            if self._is_named(error):
                self.note(sentence(self._in_words(error)))
        self.errors = [self._advised(error) for error in self.errors]
        self._suggest = None

    def sentence(self, error: ItemError) -> str:
        """Return one line for stderr, with the name that was probably meant.

        It may ask the cluster, so no operation may be running.
        """
        return sentence(self._in_words(self._advised(error)))

    def _advised(self, error: ItemError) -> ItemError:
        if self._suggest is None or not is_unknown_name(error):
            return error
        hint = self._suggest(error)
        return error if hint is None else error._replace(hint=f"{hint} {error.hint or ''}".strip())

    def _is_named(self, error: ItemError) -> bool:
        """Whether to name it: a terminal shows the first of many similar errors."""
        if self.is_kafka_form or not terminal.is_terminal(self.stderr):
            return True
        self._similar[error.name, error.hint] += 1
        return self._similar[error.name, error.hint] <= SIMILAR

    def item(self, row: Row, error: ItemError | None = None, *, quiet: bool = False) -> None:
        """Write one result: done, skipped, or failed with this error."""
        if error is not None:
            self.failed(error, row=row, quiet=quiet)
        else:
            self.done += row.get("status") != "skipped"
            self.row(row)

    def text(self, text: str, end: str = "\n") -> None:
        """Print on stdout, in the text format only."""
        if self.is_text:
            self._write(text + end)

    def note(self, text: str, end: str = "\n") -> None:
        """Print on stderr, whatever the format."""
        stream = self.stderr
        if self.before_writing is not None:
            self.before_writing(False)
        if self.is_text and self._is_one_place:
            self.flush()
        in_pager = self._pager is not None and stream is self._pager.stdin
        if not self.is_kafka_form and (in_pager or terminal.is_terminal(stream)):
            if end == "\n":
                text = terminal.fold(text, terminal.size()[0])
            word = text.partition(" ")[0]
            if word in _WORDS and self.has_color:
                text = terminal.paint(word, _WORDS[word]) + text[len(word) :]
        try:
            stream.write(text + end)
            stream.flush()
        except OSError:  # a full disk or a closed pipe, and there is no other place to report it
            redirect_to_null(stream)

    def note_once(self, text: str) -> None:
        """Print a note with its names escaped, the first time only."""
        if text not in self._noted:
            self._noted.add(text)
            self.note(escape(text))

    def finish(self) -> int:
        """Close the document; return the exit status.

        :raises KgError: some results could not be written.
        """
        self._close()
        if self._write_error is not None:
            raise self._write_error
        return exits.status(self.done, self.errors)

    def abort(self, error: KgError) -> int:
        """End the run with an error about all of it; return its exit status.

        The document is complete. With changes made before, the run is a partial failure.
        """
        item = ItemError.of(error, Target())
        is_verbatim = self.is_kafka_form and getattr(error, "is_verbatim", False)
        is_verbatim |= error.name == "DECLINED"  # an answer is no error
        self.note(sentence(item, prefix="" if is_verbatim else "Error: "))
        for print_notes in self.before_end:
            print_notes()
        self.failed(item, quiet=True)
        self._close()
        has_done = self.done or self.has_changed
        is_partial = has_done and error.exit_code in (exits.NOTHING_DONE, exits.UNREACHABLE)
        return exits.PARTLY_DONE if is_partial else error.exit_code

    @cached_property
    def _document(self) -> Document:
        """The results for programs; the options are known once it is used."""
        has_header = not self.no_headers
        return Document(self.format, self._write, self._head, self.limit, has_header=has_header)

    def _head(self) -> dict[str, object]:
        return {"command": self.command, "version": ENVELOPE_VERSION, "cluster_id": self.cluster_id}

    def _close(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            self._document.close(self.errors)
        self.flush()
        similar, self._similar = self._similar, Counter()
        for (name, _), count in similar.items():
            if count > SIMILAR:
                self.note(f"Error: {name} {count - SIMILAR:,} times more: -o json names each.")

    def _write(self, text: str) -> None:
        if self._reader_gone:
            return
        if self.before_writing is not None:
            self.before_writing(True)
        stream = self._stdout or sys.stdout
        try:
            stream.write(text)
        except OSError as error:
            self._stop_writing(stream, error)

    def flush(self) -> None:
        """Flush stdout."""
        stream = self._stdout or sys.stdout
        try:
            stream.flush()
        except OSError as error:
            self._stop_writing(stream, error)

    @cached_property
    def _is_one_place(self) -> bool:
        """Whether notes and results go to the same terminal, pipe or file, in their order."""
        try:
            one, other = (os.fstat(s.fileno()) for s in (self._stdout or sys.stdout, self.stderr))
        except (OSError, ValueError):  # streams in memory
            return True
        return os.path.samestat(one, other)

    @property
    def reader_gone(self) -> bool:
        """Whether the reader of stdout is gone (``| head``), so that reading commands may stop.

        :raises KgError: stdout can't be written to.
        """
        if self._write_error is not None:
            raise self._write_error
        return self._reader_gone

    def _stop_writing(self, stream: TextIO, error: OSError) -> None:
        """Write no more; a reader that is gone is not an error, a full disk is one."""
        self._reader_gone = True
        redirect_to_null(stream)
        if not isinstance(error, BrokenPipeError):
            self._write_error = unwritable(error)
            raise self._write_error from error


def unwritable(error: OSError) -> KgError:
    """Return the error for results that could not be written."""
    return KgError(
        f"The output can't be written: {error.strerror or error}.", hint="Output is incomplete."
    )


def redirect_to_null(stream: TextIO) -> None:
    """Send the buffer of a broken pipe to /dev/null, or the interpreter complains at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, stream.fileno())
    finally:
        os.close(null)
