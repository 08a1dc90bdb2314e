"""Rows of tables put together and written, as they come, to Parquet files of this machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis import schema


class TableFiles:
    """A folder for each table, and in it one file of this writer.

    Use it as a context manager: the files are whole when it ends.
    """

    def __init__(self, base: str, part: int = 0) -> None:
        """:param part: tells the files of several writers apart; who repeats one overwrites it."""
        self._base, self._name = Path(base), f"part-{part:05}.parquet"
        self._files: dict[str, Any] = {}

    def __enter__(self) -> TableFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def add(self, name: str, rows: Any) -> None:
        """Append rows of ``schema.TABLES``, an Arrow table."""
        kinds = schema.TABLES[name].arrow()
        if name not in self._files:
            import pyarrow.parquet as parquet  # type: ignore[import-untyped]

            (self._base / name).mkdir(parents=True, exist_ok=True)
            self._files[name] = parquet.ParquetWriter(self._base / name / self._name, kinds)
        if len(rows):
            self._files[name].write_table(rows.select(kinds.names).cast(kinds))


def fill(base: str, names: Iterable[str]) -> None:
    """Give tables to which nobody added rows an empty file."""
    with TableFiles(base) as files:
        for name in names:
            if not (Path(base) / name).exists():
                files.add(name, schema.TABLES[name].arrow().empty_table())


def of_topics(table: Any, topics: Sequence[str]) -> Any:
    """The rows of some topics."""
    return table.filter(pc.is_in(table["topic"], pa.array(topics, pa.string())))
