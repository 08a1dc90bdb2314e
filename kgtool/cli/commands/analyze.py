"""``kgtool analyze``: the Spark job over ``__consumer_offsets``, in any of its formats."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from kgtool.analysis.schema import TABLES
from kgtool.cli.analyze.fail_on import parse_condition
from kgtool.cli.analyze.options import AnalyzeOptions
from kgtool.cli.analyze.run import analyze
from kgtool.cli.analyze.spark_session import Spark, interruptible
from kgtool.cli.app import exits
from kgtool.cli.cleanup.plan import check_target
from kgtool.cli.options.declare import FILE, declare, flag, option, repeatable
from kgtool.cli.options.shared import (
    connection_params,
    given_connection,
    line_of,
    make_settings,
    output_options,
)
from kgtool.cli.options.types import MOMENT, PAIR, WROTE, OneOf, RuleNames, duration
from kgtool.cli.output.output import Output
from kgtool.errors import ConfigError, MissingExtra, UsageError
from kgtool.held import STDIN, hold
from kgtool.retention.rules import RULE_SETS

if TYPE_CHECKING:
    from kgtool.analysis.input.input_files import Inputs
    from kgtool.config import Settings


@declare(
    "analyze",
    "kgtool analyze offsets",
    "kgtool analyze offsets --retention 3d --table live -o csv",
    "kgtool analyze offsets --out tables --overwrite --report offsets.html",
    "kgtool analyze offsets --plan plan.json --idle 30d",
    "kgtool analyze offsets --fail-on overdue --fail-on expiring-within=48h",
)
@click.argument("paths", nargs=-1, metavar="PATH…")
@repeatable(
    "--rules",
    None,
    "The brokers' generation; auto: by cluster.json or records; 2.4@0,4.1@TIME: upgraded at TIME. "
    "Repeat for a what-if.",
    type=RuleNames(["auto", *RULE_SETS]),
    default=["auto"],
    show_default="auto",
)
@repeatable(
    "--retention",
    "DURATION",
    "What if offsets.retention.minutes were this, such as 3d; repeatable.",
    type=duration(),
)
@option(
    "--retention-was",
    "DURATION",
    "The retention that the brokers had while the log was written, such "
    "as 7d; 1d@2026-01-01,7d@2026-03-01 if it changed (default: cluster.json's, or 7d).",
    type=WROTE,
    default=(),
)
@repeatable(
    "--check-interval",
    "DURATION",
    "offsets.retention.check.interval.ms, such as 10m (default: likewise). Repeat for a what-if.",
    type=duration(),
)
@option(
    "--horizon",
    "DURATION",
    "Look so far ahead for losses.",
    type=duration(least_ms=0),
    default="30d",
    show_default=True,
)
@option("--as-of", "TIME", "Analyze the log as of this time (default: end).", type=MOMENT)
@option("--out", "DIR", "Write every table as Parquet to a folder or URL.")
@repeatable("--only", "NAME", "With --out: only this table; repeatable.", type=OneOf(tuple(TABLES)))
@flag("--overwrite", "Overwrite existing --out, --report, --plan.")
@option("--state", "DIR", "Continue from the last run's data in DIR.")
@flag("--rebuild", "With --state: discard it and start over.")
@option("--report", "FILE.html", "Write an HTML report with charts and tables.", type=FILE)
@option("--plan", "FILE.json", "Write a plan for kgtool cleanup.", type=FILE)
@option("--idle", "DURATION", "With --plan: only groups idle this long.", type=duration())
@option(
    "--table", "NAME", f"Print this table's rows: {', '.join(TABLES)}.", type=OneOf(tuple(TABLES))
)
@option("--group", "GLOB", "With --table: only such groups: * ? [a-z].")
@option(
    "--bucket",
    "DURATION",
    "Time bucket of the table metrics.",
    type=duration(),
    default="1h",
    show_default=True,
)
@repeatable(
    "--fail-on",
    "WHAT",
    "Exit with status 5 if there is any: overdue, "
    "expiring-within=48h, or losses (a scenario removes what was committed again later).",
    type=parse_condition,
)
@flag("--strict", "Fail (status 1) if anything was unreadable.")
@option(
    "--engine",
    None,
    "local: without Spark, on local files.",
    type=OneOf(["spark", "local"]),
    default="spark",
    show_default=True,
)
@option("--master", "URL", "The Spark master (default: local[*]).")
@repeatable("--conf", "K=V", "A Spark setting; repeatable.", type=PAIR)
@connection_params
@output_options
@line_of(AnalyzeOptions, name="options")
def command(
    paths: tuple[str, ...], output: Output, options: AnalyzeOptions, **_connection: object
) -> int:
    """Show live offsets, when each expires and why; write a report.

    PATH is a folder that `kgtool export` wrote, or any file or folder with records of
    __consumer_offsets, local or at a URL that Spark can read: raw segments, Parquet with the
    columns of Spark's Kafka source, output of kafka-console-consumer or kafka-dump-log. With
    --bootstrap-server the cluster itself is read. Without --table the results are a summary.

    Several --retention, --check-interval or --rules make a what-if by replay.
    """
    is_local = options.engine == "local"
    if is_local and (options.conf or options.master):
        raise UsageError("--master and --conf are for Spark: drop --engine local.")
    paths = tuple(map(_place_of_pipe, paths))
    settings = _settings(bool(paths))
    with _extra():
        _check_targets(output, options)
        if is_local:
            _check_local(paths, settings, options)
    inputs = _inputs(paths, settings)
    if is_local:
        found = analyze(None, inputs, output, options, settings)
    else:
        found = _on_spark(inputs, output, options, settings)
    status = output.finish()
    return exits.FOUND if found and status == exits.DONE else status


def _check_local(paths: Sequence[str], settings: Settings | None, options: AnalyzeOptions) -> None:
    """Refuse inputs and outputs that need Spark."""
    from kgtool.analysis.input.discover import is_remote
    from kgtool.analysis.spark.output_folder import is_url

    given = filter(None, (options.out, options.state))
    urls = [*filter(is_remote, paths), *filter(is_url, given)]
    if urls or settings is not None:
        what = urls[0] if urls else "A live cluster"
        raise UsageError(f"{what} needs Spark: drop --engine local.")


def _on_spark(
    inputs: Inputs, output: Output, options: AnalyzeOptions, settings: Settings | None
) -> bool:
    with _extra():
        from kgtool.analysis.spark.session import job_failures
    spark = Spark(options.master, dict(options.conf))
    try:
        with interruptible(), job_failures():
            if inputs.remote:
                from kgtool.analysis.spark.remote import find_remote

                inputs = find_remote(spark.start(), inputs)
            return analyze(spark, inputs, output, options, settings)
    finally:
        spark.stop()


def _settings(has_paths: bool) -> Settings | None:
    """Return the cluster to read; None if only files were named."""
    if has_paths and not given_connection().keys() & {"bootstrap_server", "context"}:
        return None
    settings: Settings | None = make_settings(required=False)
    if settings is None:
        raise UsageError(
            "Nothing to analyze: name a PATH, or a cluster with --bootstrap-server HOST:PORT."
        )
    return settings


def _inputs(paths: tuple[str, ...], settings: Settings | None) -> Inputs:
    from kgtool.analysis.input.discover import find_inputs

    if settings is None:
        return find_inputs(paths)
    from kgtool.analysis.input.readers.cluster import find_cluster

    inputs = find_cluster(settings, int(time.time() * 1000))
    if not paths:
        return inputs
    from kgtool.analysis.input.resolve_inputs import merge

    try:
        return merge(inputs, find_inputs(paths))
    except ConfigError as error:
        inputs.problems.append(error.message)
        return inputs


def _place_of_pipe(path: str) -> str:
    """Return the path; of stdin and pipes a file with what they had, which can be read in parts."""
    if path != STDIN and (not Path(path).exists() or _is_plain(Path(path))):
        return path
    folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="kgtool-"))
    place = Path(folder) / ("stdin" if path == STDIN else Path(path).name)
    with hold(path).open() as file, place.open("wb") as copy:
        copyfileobj(file, copy)
    return str(place)


def _is_plain(path: Path) -> bool:
    return path.is_file() or path.is_dir()


def _check_targets(output: Output, options: AnalyzeOptions) -> None:
    """Refuse outputs that can't be written, before anything is computed."""
    from kgtool.analysis.report import html_page
    from kgtool.analysis.tables_out import check_folder
    from kgtool.cli.analyze.table import check_group

    check_group(options.table, options.group)
    if options.only and options.out is None:
        raise UsageError("--only needs --out DIR.")
    if options.rebuild and options.state is None:
        raise UsageError("--rebuild needs --state DIR.")
    if options.state is not None and options.as_of is not None:
        raise UsageError("--as-of can't be given with --state, which goes on from the log's end.")
    if options.out is not None:
        check_folder(options.out, overwrite=options.overwrite)
    if options.report is not None and not output.give_stdout("report", options.report):
        html_page.check_file(options.report, overwrite=options.overwrite)
    for one, where, two, other in (
        ("out", options.out, "state", options.state),
        ("report", options.report, "plan", options.plan),
    ):
        if where is not None and _place(where) == _place(other):
            raise UsageError(f"--{one} and --{two} are both {where}: name another one.")
    if options.idle is not None and options.plan is None:
        raise UsageError("--idle needs --plan FILE.json.")
    check_target(output, "plan", options.plan, options.overwrite)


def _place(where: str | Path | None) -> Path | None:
    """Return the absolute path, to compare two of them."""
    return None if where is None else Path(where).resolve()


@contextmanager
def _extra() -> Iterator[None]:
    """Turn a missing package of the analyze extra into one sentence."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(
            f"analyze needs {error.name}, which is not installed",
            hint="pip install 'kafka-kgtool[analyze]'",
        ) from None
