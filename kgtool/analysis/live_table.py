"""Reading back the table ``live`` that ``kgtool analyze --out`` wrote, without starting Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kgtool.errors import ConfigError

COLUMNS = ("group", "topic", "partition", "offset", "commit_timestamp_ms")


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Read the rows under ``folder/live`` (or ``folder`` itself), a batch at a time.

    :raises ConfigError: there is no such table.
    """
    import pyarrow.dataset as ds  # type: ignore[import-untyped]

    place = folder / "live" if (folder / "live").is_dir() else folder
    try:
        table = ds.dataset(place, format="parquet")
        for batch in table.to_batches(columns=list(COLUMNS)):
            yield from batch.to_pylist()
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"{folder} has no table live of an analysis: {reason}") from error
