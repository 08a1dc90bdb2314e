"""The results of a run in a format for programs, written as they come.

``json`` is one document, streamed, and complete even if the run fails halfway; ``ndjson`` is a line
per result, failures included; ``csv`` is a header and rows; ``yaml`` is the JSON document as YAML;
``name`` has the names alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kgtool.cli.output.errors import error_object
from kgtool.columns import Column, Row
from kgtool.json_rows import RowTemplate, encode
from kgtool.model import ItemError
from kgtool.text import cell, shown


class Document:
    """Takes rows, in any of the formats; in others it writes nothing.

    :param write: called with text.
    :param head: returns what stands before the results.
    :param limit: the most rows.
    """

    def __init__(
        self,
        format: str,
        write: Callable[[str], None],
        head: Callable[[], Mapping[str, object]],
        limit: int | None,
        *,
        has_header: bool,
    ) -> None:
        self._format = format
        self._write = write
        self._head = head
        self._limit = limit
        self._has_header = has_header
        self.columns: tuple[str, ...] = ()
        """The keys of all rows."""
        self._made: RowTemplate | None = None
        self._kept: list[Row] = []
        self._last_name: str | None = None
        self._rows = 0
        self._is_open = self._has_rows = False

    def begin(self, columns: Iterable[Column | str]) -> None:
        """Set the keys of all rows; they are null where unknown."""
        self.columns = tuple(each if isinstance(each, str) else each.key for each in columns)
        self._made = None

    @property
    def _template(self) -> RowTemplate:
        if self._made is None:
            self._made = RowTemplate(self.columns)
        return self._made

    def row(self, row: Row) -> None:
        """Write one result."""
        self._rows += 1
        if self._limit is not None and self._rows > self._limit:
            return
        complete = self._complete(row)
        if self._format in ("json", "ndjson"):
            is_known = len(complete) == len(self.columns)
            self._put([self._template.line(complete.values()) if is_known else encode(complete)])
        elif self._format == "csv":
            self._write_csv(complete)
        elif self._format == "yaml":
            self._kept.append(complete)
        elif self._format == "name":
            self._write_name(complete)
        self._has_rows = True

    def records(self, rows: Sequence[Sequence[object]]) -> None:
        """Write many results, each with its values in the order of the columns."""
        if rows and self._format in ("json", "ndjson"):
            self._put(self._template.lines(rows))
            self._has_rows = True
            return
        for values in rows:
            self.row(dict(zip(self.columns, values, strict=True)))

    def _complete(self, row: Row) -> Row:
        if tuple(row) == self.columns:
            return row
        complete = dict.fromkeys(self.columns)
        complete.update(row)
        return complete

    def _put(self, lines: list[str]) -> None:
        if self._format == "json":
            self._open_json()
            self._write(",\n" if self._has_rows else "\n")
            self._write(",\n".join(lines))
        else:
            self._write("\n".join(lines) + "\n")

    def close(self, errors: Iterable[ItemError]) -> None:
        """Write the end."""
        if self._format == "json":
            self._open_json()
            said = ",\n".join(encode(error_object(error)) for error in errors)
            body = f"\n{said}\n" if said else ""
            self._write(("\n" if self._has_rows else "") + f'], "errors": [{body}]}}\n')
        elif self._format == "yaml":
            import yaml

            objects = [error_object(error) for error in errors]
            document = {**self._head(), "results": self._kept, "errors": objects}
            self._write(yaml.safe_dump(document, sort_keys=False))
        elif self._format == "csv" and not self._has_rows and self.columns:
            self._write_csv(None)

    def _open_json(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._write(encode(self._head())[:-1] + ', "results": [')

    def _write_csv(self, row: Row | None) -> None:
        import csv
        from types import SimpleNamespace

        writer = csv.writer(SimpleNamespace(write=self._write), lineterminator="\n")
        if self._has_header and not self._has_rows:
            writer.writerow(self.columns or tuple(row or ()))
        if row is not None:
            values = [row[key] for key in self.columns or row]
            nested = (dict, list, tuple)
            writer.writerow([cell(encode(v) if isinstance(v, nested) else v) for v in values])

    def _write_name(self, row: Row) -> None:
        """Write the first column, once where rows that follow each other have the same."""
        name = shown(next(iter(row.values()), None))
        if name != self._last_name:
            self._last_name = name
            self._write(f"{name}\n")
