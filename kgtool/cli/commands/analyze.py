"""``kgtool analyze``: the Spark job over ``__consumer_offsets``, in whatever form there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from kgtool.cli.app import exits
from kgtool.cli.app.help import examples
from kgtool.cli.flows.analyze_plan import write_plan
from kgtool.cli.flows.cleanup_plan import check_target
from kgtool.cli.flows.spark import Spark, interruptible
from kgtool.cli.options.named import Named
from kgtool.cli.options.shared import CONNECTION, connection_params, make_settings, output_options
from kgtool.cli.options.times import Duration, Moment, Wrote
from kgtool.cli.output import terminal
from kgtool.cli.output.output import Output
from kgtool.cli.output.spark_progress import Progress
from kgtool.cli.reports.analyze_alerts import LOSSES, Condition
from kgtool.cli.reports.analyze_table import put_table
from kgtool.errors import AnalysisError, ConfigError, UsageError
from kgtool.model import ItemError, Target
from kgtool.retention.rules import RULE_SETS

TABLES = (
    "live", "removals", "overdue", "whatif", "whatif_families", "losses", "groups", "metrics",
    "quality",
)  # fmt: skip
FROM_SCENARIOS = ("whatif", "whatif_families", "losses")
NAMED_FILES = 20
UNKNOWN_BYTES = 1 << 30
"""Taken for the size of inputs that only Spark can look at."""


# fmt: off
@click.command(
    "analyze",
    epilog=examples(
        "kgtool analyze offsets",
        "kgtool analyze offsets --retention 3d --table live -o csv",
        "kgtool analyze offsets --retention 7d --retention 3d",
        "kgtool analyze offsets --rules 2.4 --rules 4.1 --table losses -o ndjson",
        "kgtool analyze offsets --out tables --overwrite --report offsets.html",
        "kgtool analyze offsets --plan plan.json --idle 30d",
        "kgtool analyze offsets --fail-on overdue --fail-on expiring-within=48h",
    ),
)
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option("--rules", multiple=True, type=click.Choice(["auto", *RULE_SETS]),
              default=["auto"], show_default="auto",
              help="The brokers' generation; auto: as cluster.json says. Several: a what-if.")
@click.option("--retention", multiple=True, type=Duration(), metavar="DURATION",
              help="What if offsets.retention.minutes were that, such as 3d; repeatable. One, with "
                   "no --wrote and no cluster.json, is what the brokers had.")
@click.option("--wrote", type=Wrote(), metavar="DURATION", default=(),
              help="The retention that the brokers had while the log was written, such as 7d; "
                   "1d@2026-01-01,7d@2026-03-01 if it changed (default: cluster.json's, or 7d).")
@click.option("--check-interval", multiple=True, type=Duration(), metavar="DURATION",
              help="offsets.retention.check.interval.ms, such as 10m (default: likewise). "
                   "Several: a what-if.")
@click.option("--horizon", type=Duration(least_ms=0), default="30d", show_default=True,
              metavar="DURATION", help="How far to look ahead for losses.")
@click.option("--as-of", type=Moment(), metavar="TIME",
              help="Look at the log as it was then (default: end).")
@click.option("--out", metavar="DIR",
              help="Write every table as Parquet to a folder or URL.")
@click.option("--only", multiple=True, type=Named(TABLES), metavar="NAME",
              help="--out: nothing but this table; repeatable.")
@click.option("--overwrite", is_flag=True, help="Replace what is there: --out, --report, --plan.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html",
              help="Write a page of charts and tables there.")
@click.option("--plan", type=click.Path(path_type=Path), metavar="FILE.json",
              help="Write a plan there of what is dead: kgtool cleanup.")
@click.option("--idle", type=Duration(), metavar="DURATION",
              help="--plan: only groups idle at least this long.")
@click.option("--table", type=Named(TABLES), metavar="NAME",
              help=f"Put out this table's rows: {', '.join(TABLES)}.")
@click.option("--bucket", type=Duration(), default="1h", show_default=True, metavar="DURATION",
              help="Time bucket of the table metrics.")
@click.option("--fail-on", multiple=True, type=Condition(), metavar="WHAT",
              help="End with status 5 if there is any: overdue, expiring-within=48h, or losses "
                   "(a scenario removes what was committed again later).")
@click.option("--strict", is_flag=True, help="Fail (1) where anything at all was unreadable.")
@click.option("--engine", type=click.Choice(["spark", "local"]), default="spark",
              show_default=True,
              help="local: without Spark and its JVM, for files of this machine.")
@click.option("--master", metavar="URL",
              help="The Spark master (default: local[*], or spark-submit's).")
@click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; repeatable.")
@connection_params
@output_options
# fmt: on
def command(paths: tuple[str, ...], output: Output, **options: Any) -> int:
    """Show live offsets, when they expire, and why others were removed.

    PATH is a folder that `kgtool export` wrote, or any file or folder with records of
    __consumer_offsets, local or at a URL that Spark can read: raw segments, Parquet with the
    columns of Spark's Kafka source, output of kafka-console-consumer or kafka-dump-log. With
    --bootstrap-server the cluster itself is read. Without --table the results are a summary.

    Several --retention, --check-interval or --rules make a what-if: what clients did is replayed
    for each combination. Consumers that lost their offsets would have restarted elsewhere.
    """
    conf = _conf(options["conf"])
    is_local = options["engine"] == "local"
    if is_local and (conf or options["master"]):
        raise UsageError("--master and --conf are for Spark: leave --engine local out.")
    settings = _settings({name: options.pop(name) for name in CONNECTION}, bool(paths))
    with _extra():
        _check_targets(options)
    inputs = _inputs(paths, settings)
    if is_local:
        _check_local(inputs, settings, options["out"])
        found = _analyze(None, inputs, output, options, settings)
    else:
        found = _on_spark(conf, inputs, output, options, settings)
    status = output.finish()
    return exits.FOUND if found and status == exits.DONE else status


def _check_local(inputs: Any, settings: Any, out: str | None) -> None:
    """Refuse what only Spark can read or write."""
    from kgtool.analysis.tables_out import is_url

    urls = [*inputs.remote, *([out] if out is not None and is_url(out) else [])]
    if urls or settings is not None:
        what = urls[0] if urls else "A live cluster"
        raise UsageError(f"{what} needs Spark: leave --engine local out.")


def _on_spark(
    conf: dict[str, str], inputs: Any, output: Output, options: dict[str, Any], settings: Any
) -> bool:
    with _extra():
        from kgtool.analysis.session import job_failures
    spark = Spark(options["master"], conf)
    try:
        with interruptible(), job_failures():
            if inputs.remote:
                from kgtool.analysis.remote import find_remote

                inputs = find_remote(spark.start(UNKNOWN_BYTES), inputs)
            return _analyze(spark, inputs, output, options, settings)
    finally:
        spark.stop()


def _analyze(
    spark: Spark | None, inputs: Any, output: Output, options: dict[str, Any], settings: Any
) -> bool:
    """Say what is known beforehand, then do it; whether any --fail-on is met."""
    from kgtool.analysis import scenarios
    from kgtool.analysis.pipeline import Analysis
    from kgtool.analysis.tables_out import out_place

    basis, played = scenarios.choose(
        inputs.manifest, options["rules"], options["retention"], options["check_interval"],
        options["wrote"],
    )  # fmt: skip
    # A single scenario that is what was is only of interest beside others.
    asks = played != (scenarios.as_it_was(basis),)
    output.begin((), (inputs.manifest or {}).get("cluster_id"))
    _say(output, inputs, basis)
    _check(inputs, options)
    for problem in inputs.problems:
        output.failed(_failure(problem))
    start = "Starting" if spark is None else "Starting Spark"
    with _progress(output, start) as progress:
        wanted, as_of_ms = _wanted(options, played, asks), options["as_of"]
        engine, tally = _engine(spark, inputs, options, settings, progress)
        wanted = wanted._replace(tally=tally)
        if options["out"] is not None:
            session = getattr(engine, "session", None)
            options["place"] = out_place(session, options["out"], overwrite=options["overwrite"])
        analysis = Analysis(engine, inputs.files, basis, as_of_ms, wanted)
        return _run(analysis, output, options)


def _engine(
    spark: Spark | None, inputs: Any, options: dict[str, Any], settings: Any, progress: Progress
) -> tuple[Any, Any]:
    """Who does it, and who counts what is read."""
    from kgtool.analysis.tally import Tally, Watch

    if spark is None:
        from kgtool.analysis.local import Local

        local = Local()
        local.counted.total_bytes = _total_bytes(inputs)
        progress.look = local.counted.look
        return local, None
    from kgtool.analysis.on_spark import OnSpark
    session = spark.start(sum(file.size for file in inputs.files))
    tally = Tally.of(session)
    progress.look = Watch(session, tally, _total_bytes(inputs)).look
    engine = OnSpark(session, settings)
    spark.free = engine.free
    return engine, tally


def _wanted(options: dict[str, Any], played: tuple[Any, ...], asks: bool) -> Any:
    """What has to be read of the past for what was asked: a live table needs little of it."""
    from kgtool.analysis.pipeline import Wanted
    from kgtool.analysis.report_data import days_ahead

    table = options["table"]
    only = options["only"]
    everything = (options["out"] is not None and not only) or options["report"] is not None
    replays = (
        everything
        or bool({table, *only} & set(FROM_SCENARIOS))
        or (table is None and asks)
        or any(condition.what == LOSSES for condition in options["fail_on"])
    )
    counts = everything or "metrics" in (table, *only)
    return Wanted(
        played if replays else (), options["horizon"], options["bucket"] if counts else None,
        days=7 if options["report"] is None else days_ahead(options["horizon"]),
        plan=options["plan"] is not None, idle_ms=options["idle"],
    )  # fmt: skip


@contextmanager
def _progress(output: Output, start: str) -> Iterator[Progress]:
    """Tell on a terminal how far it is, until there are results."""
    with Progress(start=start) as progress:
        output.before_writing = lambda is_result: (
            progress.close() if is_result else progress.make_way()
        )
        try:
            yield progress
        finally:
            output.before_writing = None


def _total_bytes(inputs: Any) -> int:
    """Of what kgtool itself decodes; Parquet is Spark's, and a cluster's size is not known."""
    from kgtool.analysis import formats

    others = (formats.PARQUET.name, formats.CLUSTER.name)
    return sum(file.size for file in inputs.files if file.format not in others)


def _settings(given: dict[str, Any], has_paths: bool) -> Any:
    """The cluster to read; None where files were named and no cluster was."""
    context = click.get_current_context()
    before = context.find_root().params
    named = any(given[name] or before.get(name) for name in ("bootstrap_server", "context"))
    if has_paths and not named:
        return None
    settings = make_settings(context, given, False)
    if settings is None:
        raise UsageError(
            "Nothing to analyze: name a PATH, or a cluster with --bootstrap-server HOST:PORT."
        )
    return settings


def _inputs(paths: tuple[str, ...], settings: Any) -> Any:
    from kgtool.analysis import sources

    if settings is None:
        return sources.find(paths)
    import time

    from kgtool.analysis.cluster import find_cluster

    inputs = find_cluster(settings, int(time.time() * 1000))
    if not paths:
        return inputs
    try:
        return sources.join(inputs, sources.find(paths))
    except ConfigError as error:
        inputs.problems.append(error.message)
        return inputs


def _check(inputs: Any, options: dict[str, Any]) -> None:
    """Refuse what the inputs don't allow."""
    if options["strict"] and inputs.problems:
        raise ConfigError(inputs.problems[0])
    if options["as_of"] is not None:
        from kgtool.analysis import lacks

        timeless = [file.path for file in inputs.files if file.lacks & lacks.TIMES]
        if timeless:
            raise UsageError(
                f"--as-of can't be applied to {timeless[0]}: it doesn't tell when records were "
                "written."
            )


def _run(analysis: Any, output: Output, options: dict[str, Any]) -> bool:
    """Put out what was asked for; whether any --fail-on is met."""
    from kgtool.analysis.summary import damaged_files
    from kgtool.analysis.tables_out import write_tables
    from kgtool.analysis.words import when

    damaged = damaged_files(analysis.quality, NAMED_FILES)
    if analysis.last_record_ms is None:
        first = _sentence(damaged[0]) if damaged else "There is no record in it."
        raise ConfigError(f"Nothing could be read. {first}")
    if analysis.ahead is not None:
        count, latest_ms = analysis.ahead
        output.note(
            f"Note: {count:,} records bear a time of the future (up to {when(latest_ms)}): a clock "
            f"was wrong. The log is taken to end {when(analysis.end_ms)}."
        )
    if options["strict"] and damaged:
        raise AnalysisError(_sentence(damaged[0]))
    output.done += 1
    for file in damaged:
        output.failed(_failure(_sentence(file)))
    if options["table"]:
        put_table(analysis, options["table"], output)
    facts = _report(analysis, output, options["report"])
    if not options["table"]:
        _put_summary(analysis, output, facts)
    if options["report"] is not None:
        output.note(f"Wrote {options['report']}")
    if options["out"] is not None:
        written = write_tables(analysis, options["place"], options["only"])
        output.note(f"Wrote {', '.join(written)} to {options['out']}")
    if options["plan"] is not None:
        write_plan(analysis, output, options["plan"], options["idle"])
    # Each says what it found, so none is left out because another one was met.
    met = [condition.is_met(analysis, output) for condition in options["fail_on"]]
    return any(met)


def _check_targets(options: dict[str, Any]) -> None:
    """Refuse what can't be written to before anything is computed."""
    from kgtool.analysis import report
    from kgtool.analysis.tables_out import check_folder

    if options["only"] and options["out"] is None:
        raise UsageError("--only says what --out writes: give --out DIR too.")
    if options["out"] is not None:
        check_folder(options["out"], overwrite=options["overwrite"])
    if options["report"] is not None:
        report.check_file(options["report"], overwrite=options["overwrite"])
    if options["idle"] is not None and options["plan"] is None:
        raise UsageError("--idle says what --plan takes: give --plan FILE.json too.")
    check_target(options["plan"], options["overwrite"])


def _report(analysis: Any, output: Output, path: Path | None) -> dict[str, Any] | None:
    """Write the report if one is wanted; what it knows for the summary."""
    if path is None:
        return None
    from kgtool.analysis import report, report_data

    data = report_data.collect(analysis, output.cluster_id)
    report.write(path, data, partial(report_data.rows, analysis))
    facts: dict[str, Any] = data["summary"]
    return facts


def _put_summary(analysis: Any, output: Output, facts: dict[str, Any] | None) -> None:
    from kgtool.analysis.scenarios import as_it_was
    from kgtool.analysis.summary import summary
    from kgtool.cli.reports.analyze_summary import WIDTH, Page, render

    asks = analysis.wanted.scenarios not in ((), (as_it_was(analysis.basis),))
    facts = facts or summary(analysis, with_whatif=asks)
    facts["whatif"] = facts["whatif"] if asks else []
    output.row(facts)
    width = output.table_width or WIDTH
    output.text(render(facts, Page(width, terminal.mark_for(), colored=output.is_colored)))


def _say(output: Output, inputs: Any, basis: Any) -> None:
    """Tell what nobody said."""
    from kgtool.analysis import sources

    for note in inputs.notes:
        output.note(f"Note: {note}")
    for sentence in sources.tell(inputs.files, basis.rules):
        output.note(f"Note: {sentence}")
    if basis.assumed:
        why = "cluster.json does not say" if inputs.manifest else "there is no cluster.json"
        output.note(
            f"Note: {why}, so these are assumed: {', '.join(basis.assumed)} "
            f"(--rules, --wrote, --check-interval)."
        )


def _sentence(file: dict[str, Any]) -> str:
    from kgtool.analysis.summary import problem_text

    reasons = "; ".join(problem_text(each) for each in file["problems"] if each["damage"])
    return f"{file['path']}: {reasons}."


def _failure(message: str) -> ItemError:
    return ItemError.of(AnalysisError(message), Target())


def _conf(settings: tuple[str, ...]) -> dict[str, str]:
    conf = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise UsageError(f"--conf takes KEY=VALUE, not '{setting}'.")
        conf[key] = value
    return conf


@contextmanager
def _extra() -> Iterator[None]:
    """Turn a missing package of the analyze extra into one sentence."""
    try:
        yield
    except ImportError as error:
        from kgtool.errors import MissingExtra

        raise MissingExtra(
            f"analyze needs {error.name}, which is not installed",
            hint="pip install 'kgtool[analyze]'",
        ) from None
