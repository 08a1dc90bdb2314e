"""Decode little while Spark is still starting, in this process.

A worker of Spark's takes longer to start than a few small files take to be decoded (measured: 3.3
of 13 s for a log of 10,000 records), and this process has nothing else to do while the JVM loads
its classes. The code that decodes is the workers', and everything behind it is Spark's as ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any

from kgtool.analysis import formats, schema
from kgtool.analysis.decode import Detail, decode_splits
from kgtool.analysis.inputs import InputFile
from kgtool.analysis.overlap import may_overlap
from kgtool.analysis.readers import SPLIT_BYTES, parts, ranges, split_of
from kgtool.analysis.session import TINY_BYTES
from kgtool.analysis.tally import Tally
from kgtool.analysis.timeline import timeline_of
from kgtool.retention.rules import RuleSet

_ELSEWHERE = (formats.CLUSTER.name, formats.PARQUET.name)
"""Whose size is not known, and what Spark itself reads."""


def is_little(master: str, files: Sequence[InputFile]) -> bool:
    """Whether these files are worth no worker."""
    return (
        master.startswith("local")
        and sum(file.size for file in files) <= min(TINY_BYTES, SPLIT_BYTES)
        and not any(file.is_remote or file.format in _ELSEWHERE for file in files)
        and not may_overlap(files)
    )


class Early:
    """The records of a few small files; a thread decodes them from now on."""

    def __init__(
        self, files: Sequence[InputFile], as_of_ms: int | None, detail: Detail, rules: RuleSet
    ) -> None:
        self.records, self.bytes = 0, 0
        self._files, self._as_of_ms = files, as_of_ms
        self._detail = detail._replace(tally=self)  # type: ignore[arg-type]
        self._rules = rules
        self._records: Any = None
        self._timeline: Any = None
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, records: int, size: int) -> None:
        """Count what was decoded, as ``Tally`` does; ``size`` is in bytes."""
        self.records += records
        self.bytes += size

    def frame(self, session: Any, tally: Tally | None) -> Any:
        """Rows of ``schema.RECORDS``, once they are there; ``tally`` is told how many."""
        self._wait()
        if tally is not None:
            tally.add(self.records, self.bytes)
        return session.createDataFrame(self._records).coalesce(1)

    def has_transactions(self) -> bool:
        """Whether any record of an offset belongs to a transaction."""
        import pyarrow.compute as pc  # type: ignore[import-untyped]

        self._wait()
        is_offset = pc.equal(self._records["kind"], schema.KIND_OFFSET)
        is_transactional = self._records["producer_id"].is_valid()
        return bool(pc.any(pc.and_(is_offset, is_transactional)).as_py())

    def timeline(self, session: Any) -> Any:
        """Rows of ``schema.TIMELINE``, likewise."""
        self._wait()
        return session.createDataFrame(self._timeline).coalesce(1)

    def _wait(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._records = self._decode()
            self._timeline = timeline_of(self._records, self._rules)
        except Exception as error:  # noqa: BLE001 - told by whoever wants the records
            self._error = error
        with suppress(ImportError):
            # createDataFrame does, for a third of a second, whatever it is given.
            import pandas  # noqa: F401

    def _decode(self) -> Any:
        import pyarrow as pa

        rows = [piece for file in self._files for piece in ranges(split_of(file))]
        splits = pa.RecordBatch.from_pylist(rows, schema=schema.arrow(schema.SPLITS))
        read = partial(parts, settings=None)
        found = decode_splits([splits], self._as_of_ms, self._detail, read)
        return pa.Table.from_batches(found, schema=schema.arrow(schema.RECORDS))
