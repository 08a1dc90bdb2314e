"""``kgtool export``: the broker's own bytes of ``__consumer_offsets``, to be analysed later."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from kgtool.cli.app.help import examples
from kgtool.cli.options.shared import connection_options, output_options
from kgtool.cli.output.output import Output


@click.command(
    "export",
    epilog=examples(
        "kgtool export --out offsets",
        "kgtool analyze offsets",
    ),
)
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), metavar="DIR",
    help="A new folder, or that of an interrupted export, which is then finished.",
)  # fmt: skip
@connection_options()
@output_options
def command(out: Path, settings: Any, output: Output) -> int:
    """Copy __consumer_offsets, byte for byte, into a folder that `kgtool analyze` reads.

    The record batches come through as the broker stores them, transactional and control batches
    included, and cluster.json keeps what is needed to read them later: the cluster's id, its
    retention settings, topics and groups. Nothing on the cluster is changed. --timeout is the
    longest time without progress. It takes READ on the topic __consumer_offsets.
    """
    from kgtool.net.session import Session
    from kgtool.queries.log.export import ExportDirectory, export

    directory = ExportDirectory(out)
    began = time.monotonic()
    with Session(settings, progress=True) as session:
        done = session.run(export(session.cluster, directory, int(time.time() * 1000)))
        seconds = time.monotonic() - began
        output.begin(("path", "partitions", "bytes", "resumed", "seconds"), session.cluster_id)
    for error in (*done.errors, *done.missing):
        output.failed(error)
    if done.partitions > len(done.errors):
        output.done += 1
    output.row(
        {
            "path": str(out),
            "partitions": done.partitions,
            "bytes": done.bytes,
            "resumed": done.resumed,
            "seconds": round(seconds, 3),
        }
    )
    if not done.errors:
        what = "Finished the interrupted export of" if done.resumed else "Exported"
        output.text(
            f"{what} {done.partitions} partitions of __consumer_offsets: "
            f"{done.bytes:,} bytes in {seconds:.1f} s to {out}"
        )
        output.text(f"Next: kgtool analyze {out}")
    else:
        output.note(
            f"The export is not complete: {len(done.errors)} of {done.partitions} partitions "
            f"failed. Run the same command again to finish it."
        )
    return output.finish()
