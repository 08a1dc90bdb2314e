"""Tables as local Parquet files: written as their rows come, and ``live`` read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from kgtool.analysis import schema
from kgtool.errors import AnalysisError, ConfigError

_LIVE_COLUMNS = ("group", "topic", "partition", "offset", "commit_timestamp_ms")


class TableFiles:
    """A folder for each table, with one file of this writer.

    Use it as a context manager: the files are whole when it ends.
    """

    def __init__(self, base: str, part: int = 0) -> None:
        """:param part: number of the writer; a repeated one overwrites its files."""
        self._base, self._name = Path(base), f"part-{part:05}.parquet"
        self._files: dict[str, Any] = {}

    def __enter__(self) -> TableFiles:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    @property
    def names(self) -> list[str]:
        """The files, relative to the base."""
        return [f"{table}/{self._name}" for table in self._files]

    def add(self, name: str, rows: pa.Table) -> None:
        """Append rows of ``schema.TABLES``, an Arrow table."""
        kinds = schema.TABLES[name].arrow()
        if name not in self._files:
            import pyarrow.parquet as parquet  # type: ignore[import-untyped]

            (self._base / name).mkdir(parents=True, exist_ok=True)
            self._files[name] = parquet.ParquetWriter(self._base / name / self._name, kinds)
        if len(rows):
            self._files[name].write_table(rows.select(kinds.names).cast(kinds))


def check_files(base: str, names: Iterable[str]) -> None:
    """Check that this machine sees the files that workers have written, and remove all others.

    A worker that was killed may have left a file. Raises AnalysisError if one is missing: workers
    write to their own disks if the folder is not shared.
    """
    expected = {Path(base, name) for name in names}
    if not all(map(Path.exists, expected)):
        raise AnalysisError(
            f"{Path(base).parent} is not a folder that Spark's workers share with this machine: "
            "name a URL that every worker can write to."
        )
    for file in set(Path(base).glob("*/*")) - expected:
        file.unlink()


def fill(base: str, names: Iterable[str]) -> None:
    """Give tables without rows an empty file."""
    with TableFiles(base) as files:
        for name in names:
            if not (Path(base) / name).exists():
                files.add(name, schema.TABLES[name].arrow().empty_table())


def of_topics(table: pa.Table, topics: Sequence[str]) -> pa.Table:
    """The rows of some topics."""
    return table.filter(pc.is_in(table["topic"], pa.array(topics, pa.string())))


def read_live(folder: Path) -> Iterator[dict[str, Any]]:
    """Read the rows under ``folder/live`` (or ``folder`` itself), a batch at a time.

    :raises ConfigError: there is no such table.
    """
    import pyarrow.dataset as ds  # type: ignore[import-untyped]

    place = folder / "live" if (folder / "live").is_dir() else folder
    try:
        table = ds.dataset(place, format="parquet")
        for batch in table.to_batches(columns=list(_LIVE_COLUMNS)):
            yield from batch.to_pylist()
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"{folder} has no table live of an analysis: {reason}") from error
