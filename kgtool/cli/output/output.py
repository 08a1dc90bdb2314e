"""Where results, notes and errors go: data on stdout, everything else on stderr.

One ``Output`` per run. A command calls ``begin`` when it knows the cluster, ``row`` per result,
``failed`` per failure, and ``finish``, which closes the document and gives the exit status. In the
text format rows are not shown: the command prints its own tables with ``text``.

Formats: ``json`` is one document, streamed, and complete also when the run fails in the middle;
``ndjson`` is a line a result, failures included; ``csv`` is a header and rows; ``yaml`` is the JSON
document as YAML.
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
from kgtool.cli.output.errors import error_object, sentence
from kgtool.columns import Column, Row
from kgtool.errors import KgError
from kgtool.json_rows import Form, encode
from kgtool.model import ItemError, Target
from kgtool.text import cell, escape

if TYPE_CHECKING:
    from subprocess import Popen

ENVELOPE_VERSION = 1
ALIKE = 10
"""Errors with the same name and hint that a terminal shows one by one."""
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
        """Whether the journal has something that was changed."""
        self.before_end: list[Callable[[], None]] = []
        """Called where an error ends the run: what is to be said in any case, each once."""
        self.is_debug = False
        self.reason: str | None = None
        self.journal_copy: str | None = None
        self.confirm: str | None = None
        self.max_delete: int | None = None
        self.canary: int | None = None
        self.arguments: Sequence[str] = ()
        self.is_kafka_form = False
        self.use_color: bool | None = None
        self.before_writing: Callable[[bool], None] | None = None
        """Told before anything is put out, whether it is results: a line of progress goes."""
        self.is_asking = False
        """A question waits for its answer: no line of progress is drawn."""
        self._stdout, self._stderr = stdout, stderr
        self._pager: Popen[str] | None = None
        self._said: set[str] = set()
        self._alike: Counter[tuple[str, str | None]] = Counter()
        self._columns: tuple[str, ...] = ()
        self._form: Form | None = None
        self._document: list[Row] = []
        self._is_open = self._has_rows = self._is_finished = self._reader_gone = False
        self._lost: KgError | None = None

    @property
    def is_text(self) -> bool:
        """Whether the command prints tables for people."""
        return self.format == "text"

    @property
    def stderr(self) -> TextIO:
        """Where notes go."""
        return self._stderr or sys.stderr

    @property
    def is_terminal(self) -> bool:
        """Whether tables are looked at: a terminal, directly or through a pager."""
        return self.is_text and (
            self._pager is not None or terminal.is_terminal(self._stdout or sys.stdout)
        )

    @property
    def is_colored(self) -> bool:
        """Whether tables have colours: only for people, and never in Kafka's form."""
        return not self.is_kafka_form and self.has_color and self.is_terminal

    @property
    def has_color(self) -> bool:
        """Whether the user and the environment let a terminal have colours."""
        return self.use_color is not False and terminal.has_color()

    @property
    def table_width(self) -> int | None:
        """How wide kgtool's own tables may be; None where nothing may ever be cut."""
        return terminal.size()[0] if self.is_terminal and not self.is_kafka_form else None

    def page(self) -> None:
        """Show the tables to come through a pager where somebody looks at them."""
        if self.is_kafka_form or self._pager is not None or not self.is_terminal:
            return
        from kgtool.cli.output import pager

        self._pager = pager.start()
        if self._pager is not None:
            shown: Any = self._pager.stdin
            self._stdout = shown
            if self._stderr is None and terminal.is_terminal(sys.stderr):
                # Notes keep their place among the tables, and do not disturb the pager's screen.
                self._stderr = shown

    def close_pager(self) -> None:
        """Wait for the pager's reader; what is said after that goes to the terminal."""
        if self._pager is not None:
            from kgtool.cli.output import pager

            running, self._pager = self._pager, None
            pager.close(running)
            self._stdout = self._stderr = None

    def begin(self, columns: Iterable[Column | str] = (), cluster_id: str | None = None) -> None:
        """Say what rows will look like; rows get all of these keys, null where unknown."""
        self._columns = tuple(each if isinstance(each, str) else each.key for each in columns)
        self._form = None
        self.cluster_id = cluster_id

    def row(self, row: Row) -> None:
        """Put out one result; nothing in the text format."""
        if self.format in ("json", "ndjson"):
            complete = self._complete(row)
            is_known = len(complete) == len(self._columns)
            self._put([self._json.line(complete.values()) if is_known else encode(complete)])
        elif self.format == "csv":
            self._write_csv(self._complete(row))
        elif self.format == "yaml":
            self._document.append(self._complete(row))
        self._has_rows = True

    def records(self, rows: Sequence[Sequence[object]]) -> None:
        """Put out results that belong together, each with its values in the columns' order."""
        if rows and self.format in ("json", "ndjson"):
            self._put(self._json.lines(rows))
            self._has_rows = True
            return
        for values in rows:
            self.row(dict(zip(self._columns, values, strict=True)))

    def _put(self, lines: list[str]) -> None:
        if self.format == "json":
            self._open_json()
            self._write(",\n" if self._has_rows else "\n")
            self._write(",\n".join(lines))
        else:
            self._write("\n".join(lines) + "\n")

    def failed(self, error: ItemError, *, row: Row | None = None, quiet: bool = False) -> None:
        """Record a failure and name it on stderr.

        ``row`` is the item's own row where the command has one; ndjson makes one otherwise.
        ``quiet`` is for failures that the command itself has put into words already.
        """
        self.errors.append(error)
        if not quiet and self._is_told(error):
            self.note(sentence(error))
        if row is not None:
            self.row(row)
        elif self.format == "ndjson":
            target = error.target._asdict()
            # None fills itself in; partition 0 is a partition.
            known = {key: target[key] for key in self._columns if target.get(key) is not None}
            self.row({**known, "error": error_object(error)})

    def _is_told(self, error: ItemError) -> bool:
        """Whether to put it into words: of many alike, a terminal shows the first ones."""
        if self.is_kafka_form or not terminal.is_terminal(self.stderr):
            return True
        self._alike[error.name, error.hint] += 1
        return self._alike[error.name, error.hint] <= ALIKE

    def item(self, row: Row, error: ItemError | None = None, *, quiet: bool = False) -> None:
        """Put out one result: it is done, or skipped, or has failed for this reason."""
        if error is not None:
            self.failed(error, row=row, quiet=quiet)
        else:
            self.done += row.get("status") != "skipped"
            self.row(row)

    def text(self, text: str, end: str = "\n") -> None:
        """Print text for people on stdout, in the text format only."""
        if self.is_text:
            self._write(text + end)

    def note(self, text: str, end: str = "\n") -> None:
        """Print on stderr, whatever the format."""
        stream = self.stderr
        if self.before_writing is not None:
            self.before_writing(False)
        if self.is_text and self._is_one_place:
            self.flush()
        if end == "\n" and self._is_seen(stream) and not self.is_kafka_form:
            text = terminal.fold(text, terminal.size()[0])
        try:
            stream.write(self._painted(text) + end)
            stream.flush()
        except OSError:  # a full disk, or nobody listens: there is no other place to say it
            redirect_to_null(stream)

    def _is_seen(self, stream: TextIO) -> bool:
        in_pager = self._pager is not None and stream is self._pager.stdin
        return in_pager or terminal.is_terminal(stream)

    def _painted(self, text: str) -> str:
        """Colour the word that a remark begins with, for people only."""
        word = text.partition(" ")[0]
        is_plain = self.is_kafka_form or not self.has_color
        if word not in _WORDS or is_plain or not self._is_seen(self.stderr):
            return text
        return terminal.paint(word, _WORDS[word]) + text[len(word) :]

    def note_once(self, text: str) -> None:
        """Print a remark, its names escaped, the first time only."""
        if text not in self._said:
            self._said.add(text)
            self.note(escape(text))

    def finish(self) -> int:
        """Close the document; return the exit status.

        :raises KgError: results could not be put out, and who showed them went on.
        """
        self._close()
        if self._lost is not None:
            raise self._lost
        return exits.status(self.done, self.errors)

    def abort(self, error: KgError) -> int:
        """End the run with an error about all of it; return its exit status.

        The document is complete all the same. What was done before the error makes it a partial
        failure.
        """
        item = ItemError.of(error, Target())
        is_verbatim = self.is_kafka_form and getattr(error, "is_verbatim", False)
        self.note(sentence(item, prefix="" if is_verbatim else "Error: "))
        for say in self.before_end:
            say()
        self.failed(item, quiet=True)
        self._close()
        has_done = self.done or self.has_changed
        is_partial = has_done and error.exit_code in (exits.NOTHING_DONE, exits.UNREACHABLE)
        return exits.PARTLY_DONE if is_partial else error.exit_code

    @property
    def _json(self) -> Form:
        if self._form is None:
            self._form = Form(self._columns)
        return self._form

    def _complete(self, row: Row) -> Row:
        if tuple(row) == self._columns:
            return row
        complete = dict.fromkeys(self._columns)
        complete.update(row)
        return complete

    def _close(self) -> None:
        if not self._is_finished:
            self._is_finished = True
            if self.format == "json":
                self._close_json()
            elif self.format == "yaml":
                self._write_yaml()
            elif self.format == "csv" and not self._has_rows and self._columns:
                self._write_csv(None)
        self.flush()
        more = {name: count - ALIKE for (name, _), count in self._alike.items() if count > ALIKE}
        self._alike.clear()
        for name, count in more.items():
            self.note(f"Error: {name} {count:,} times more: -o json names each.")

    def _open_json(self) -> None:
        if not self._is_open:
            self._is_open = True
            head = encode(self._head())
            self._write(head[:-1] + ', "results": [')

    def _close_json(self) -> None:
        self._open_json()
        errors = ",\n".join(encode(error_object(error)) for error in self.errors)
        body = f"\n{errors}\n" if errors else ""
        self._write(("\n" if self._has_rows else "") + f'], "errors": [{body}]}}\n')

    def _head(self) -> dict[str, Any]:
        return {"command": self.command, "version": ENVELOPE_VERSION, "cluster_id": self.cluster_id}

    def _write_yaml(self) -> None:
        import yaml

        errors = [error_object(error) for error in self.errors]
        document = {**self._head(), "results": self._document, "errors": errors}
        self._write(yaml.safe_dump(document, sort_keys=False))

    def _write_csv(self, row: Row | None) -> None:
        import csv
        from types import SimpleNamespace

        writer = csv.writer(SimpleNamespace(write=self._write), lineterminator="\n")
        if not self._has_rows:
            writer.writerow(self._columns or tuple(row or ()))
        if row is not None:
            values = [row[key] for key in self._columns or row]
            nested = (dict, list, tuple)
            writer.writerow([cell(encode(v) if isinstance(v, nested) else v) for v in values])

    def _write(self, text: str) -> None:
        if self._reader_gone:
            return
        if self.before_writing is not None:
            self.before_writing(True)
        stream = self._stdout or sys.stdout
        try:
            stream.write(text)
        except OSError as error:
            self._lose_reader(stream, error)

    def flush(self) -> None:
        """Let the reader see what there is."""
        stream = self._stdout or sys.stdout
        try:
            stream.flush()
        except OSError as error:
            self._lose_reader(stream, error)

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
        """Whether nobody reads stdout any more (``| head``): reading commands may stop.

        :raises KgError: it can't be written to.
        """
        if self._lost is not None:
            raise self._lost
        return self._reader_gone

    def _lose_reader(self, stream: TextIO, error: OSError) -> None:
        """Write no more; a reader who has seen enough is no error, a full disk is one."""
        self._reader_gone = True
        redirect_to_null(stream)
        if not isinstance(error, BrokenPipeError):
            self._lost = unwritable(error)
            raise self._lost from error


def unwritable(error: OSError) -> KgError:
    """Say that results could not be put out."""
    return KgError(
        f"The output can't be written: {error.strerror or error}.", hint="Output is incomplete."
    )


def redirect_to_null(stream: TextIO) -> None:
    """Send a broken pipe's buffered rest to /dev/null, or the interpreter complains at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
