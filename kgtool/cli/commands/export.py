"""``kgtool export``: copy the record batches of ``__consumer_offsets``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from kgtool.cli.options.declare import FILE, declare, option
from kgtool.cli.options.shared import cluster_options, open_session
from kgtool.cli.options.types import OneOf
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import BYTES, Meter
from kgtool.columns.tools import EXPORT
from kgtool.config import Settings
from kgtool.errors import KgError, MissingExtra
from kgtool.queries.log.export import ExportDirectory, Exported, export
from kgtool.text import counted, shell_word

SEGMENTS, PARQUET = FORMATS = ("segments", "parquet")


@declare(
    "export",
    "kgtool export --out offsets",
    "kgtool analyze offsets",
    "kgtool export --out offsets-parquet --format parquet",
)
@option(
    "--out",
    "DIR",
    "A new folder, or that of an interrupted export to finish.",
    required=True,
    type=FILE,
)
@option(
    "--format format_",
    None,
    "segments (default): the broker's own bytes; parquet: one decoded row per record.",
    type=OneOf(FORMATS),
    default=SEGMENTS,
)
@cluster_options()
def command(out: Path, format_: str, settings: Settings, output: Output) -> None:
    """Copy __consumer_offsets, byte for byte, into a folder that `kgtool analyze` reads.

    The record batches come through as the broker stores them, transactional and control batches
    included, and cluster.json keeps what is needed to read them later: the cluster's id, its
    retention settings, topics and groups. Nothing on the cluster is changed. --timeout is the
    longest time without progress. It needs READ on the topic __consumer_offsets.

    With --format parquet the folder has a file for each partition, with the columns of Spark's
    Kafka source and decoded ones (group, committed offset, times); records of transactions that
    were aborted or are open are left out. `kgtool analyze` reads it too.
    """
    begun = time.monotonic()
    to_parquet = _to_parquet() if format_ == PARQUET else None
    if to_parquet is not None and to_parquet.is_unfinished(out):
        _finish_parquet(output, out, to_parquet, begun)
        return
    directory = ExportDirectory(out)
    with open_session(settings, progress=True) as session:
        meter = Meter(
            output,
            "Exporting",
            unit=BYTES,
            count=lambda: directory.bytes,
            part=lambda: directory.part,
        )
        with meter:
            try:
                done = session.run(export(session.cluster, directory, int(time.time() * 1000)))
            except OSError as problem:
                raise KgError(
                    f"The export {out} can't be written: {problem.strerror or problem}.",
                    hint="Run the same command to finish it.",
                ) from problem
        output.begin(EXPORT, session.cluster_id)
    for error in (*done.errors, *done.missing):
        output.failed(error)
    if done.partitions > len(done.errors):
        output.done += 1
    if to_parquet is not None and not done.errors:
        _finish_parquet(output, out, to_parquet, begun, done)
        return
    seconds = _row(output, out, begun, done.partitions, done.bytes, done.resumed)
    if done.errors:
        output.note(
            f"The export is not complete: {len(done.errors)} of {done.partitions} partitions "
            f"failed. Run the same command to finish it."
        )
    else:
        what = "Finished the interrupted export of" if done.resumed else "Exported"
        output.text(
            f"{what} {done.partitions} partitions of __consumer_offsets: "
            f"{done.bytes:,} bytes in {seconds:.1f} s to {out}"
        )
        output.text(f"Next: kgtool analyze {shell_word(str(out))}")


def _to_parquet() -> Any:
    """Import what writes Parquet, before anything is read."""
    try:
        from kgtool.analysis import to_parquet
    except ImportError as error:
        raise MissingExtra(
            f"--format parquet needs {error.name}, which is not installed.",
            hint="pip install 'kafka-kgtool[analyze]'",
        ) from None
    return to_parquet


def _finish_parquet(
    output: Output, out: Path, to_parquet: Any, begun: float, done: Exported | None = None
) -> None:
    """Convert the segments to Parquet; ``done``: the export, None if it was finished before."""
    segments = list((out / "segments").rglob("*.log"))
    total = sum(path.stat().st_size for path in segments)
    with Meter(output, "Decoding", total, BYTES) as meter:
        written = to_parquet.write(out, meter.add)
    if done is None:
        manifest = json.loads((out / "cluster.json").read_text(encoding="utf-8"))
        output.begin(EXPORT, manifest["cluster_id"])
        output.done += 1
    files = len(list((out / to_parquet.FOLDER).iterdir()))
    seconds = _row(output, out, begun, files, written.bytes, done is None or done.resumed)
    output.text(
        f"Exported {files} partitions of __consumer_offsets as Parquet: {written.rows:,} records, "
        f"{written.bytes:,} bytes in {seconds:.1f} s to {out}"
    )
    if written.undecoded:
        output.note(
            f"Note: {counted(written.undecoded, 'record')} could not be decoded: of an unknown "
            "type, or damaged. Key and value are there as bytes."
        )
    output.text(f"Next: kgtool analyze {shell_word(str(out))}")


def _row(
    output: Output, out: Path, begun: float, partitions: int, size: int, resumed: bool
) -> float:
    seconds = time.monotonic() - begun
    output.row(
        {
            "path": str(out),
            "partitions": partitions,
            "bytes": size,
            "resumed": resumed,
            "seconds": round(seconds, 3),
        }
    )
    return seconds
