"""``kgtool analyze``: the Spark job over ``__consumer_offsets``, in whatever form there is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from kgtool.cli import exits, terminal
from kgtool.cli.analyze_plan import write_plan
from kgtool.cli.cleanup_plan import check_target
from kgtool.cli.fail_on import LOSSES, Condition
from kgtool.cli.frames import put_table
from kgtool.cli.help import examples
from kgtool.cli.named import Named
from kgtool.cli.options import CONNECTION, connection_params, make_settings, output_options
from kgtool.cli.output import Output
from kgtool.cli.progress import Progress
from kgtool.cli.spark import Spark, interruptible
from kgtool.cli.times import Duration, Moment
from kgtool.errors import AnalysisError, ConfigError, UsageError
from kgtool.model import ItemError, Target
from kgtool.retention.rules import RULE_SETS

TABLES = (
    "live", "removals", "overdue", "whatif", "whatif_families", "losses", "groups", "metrics",
    "quality",
)  # fmt: skip
FROM_SCENARIOS = ("whatif", "whatif_families", "losses")
PLANNED_AHEAD: dict[str | None, tuple[str, ...]] = {
    None: ("live", "removals"), "live": ("live",), "removals": ("removals",),
    **dict.fromkeys(FROM_SCENARIOS, ("lives",)),
}  # fmt: skip
"""What Spark can make a plan of while it reads, by --table."""
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
              help="offsets.retention.minutes, such as 7d (default: cluster.json's, or 7d). "
                   "Several: a what-if.")
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
@click.option("--overwrite", is_flag=True, help="--out may have something in it.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE.html",
              help="Write a page of charts and tables there.")
@click.option("--plan", type=click.Path(path_type=Path), metavar="FILE.json",
              help="Write a plan there of what is dead: kgtool cleanup.")
@click.option("--idle", type=Duration(), metavar="DURATION",
              help="--plan: of that, what was idle for so long.")
@click.option("--table", type=Named(TABLES), metavar="NAME",
              help=f"Put out this table's rows: {', '.join(TABLES)}.")
@click.option("--bucket", type=Duration(), default="1h", show_default=True, metavar="DURATION",
              help="Time bucket of the table metrics.")
@click.option("--fail-on", multiple=True, type=Condition(), metavar="WHAT",
              help="End with status 5 if there is any: overdue, expiring-within=48h, or losses "
                   "(a scenario removes what was committed again later).")
@click.option("--strict", is_flag=True, help="Fail (1) where anything at all was unreadable.")
@click.option("--master", default="local[*]", show_default=True, metavar="URL",
              help="The Spark master.")
@click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; repeatable.")
@connection_params
@output_options
# fmt: on
def command(paths: tuple[str, ...], output: Output, **options: Any) -> int:
    """Show live offsets, when they expire, and why others were removed.

    PATH is a folder that `kgtool export` wrote, or any file or folder with records of
    __consumer_offsets: raw segments (__consumer_offsets-N/BASE.log, __consumer_offsets-N.BASE.log),
    Parquet with the columns of Spark's Kafka source, what kafka-console-consumer printed with an
    OffsetsMessageFormatter or GroupMetadataMessageFormatter, what kafka-dump-log printed with
    --offsets-decoder. What a file is, its content tells; several kinds may be mixed, here or at any
    URL that Spark can read. With --bootstrap-server the cluster itself is read.

    Without --table the results are a summary. What an input can't tell is said first, and left
    empty. Damaged parts are named and left out (status 3).

    Several --retention, --check-interval or --rules make a what-if: the history is played again
    for each combination, without what the broker itself removed. It is a replay of what clients
    did: whoever had lost his offsets would have gone on differently.
    """
    conf = _conf(options["conf"])
    settings = _settings({name: options.pop(name) for name in CONNECTION}, bool(paths))
    with _extra():
        from kgtool.analysis.session import job_failures
    with _extra():
        _check_targets(options)
    inputs = _inputs(paths, settings)
    spark = Spark(options["master"], conf)
    try:
        with interruptible(), job_failures():
            if inputs.remote:
                from kgtool.analysis.remote import find_remote

                inputs = find_remote(spark.start(UNKNOWN_BYTES), inputs)
            found = _analyze(spark, inputs, output, options, settings)
    finally:
        spark.stop()
    status = output.finish()
    return exits.FOUND if found and status == exits.DONE else status


def _analyze(
    spark: Spark, inputs: Any, output: Output, options: dict[str, Any], settings: Any
) -> bool:
    """Say what is known beforehand, then do it; whether any --fail-on is met."""
    from kgtool.analysis import scenarios
    from kgtool.analysis.early import Early, is_little
    from kgtool.analysis.pipeline import Analysis
    from kgtool.analysis.tables_out import check_url
    from kgtool.analysis.tally import Tally, Watch

    basis, played = scenarios.choose(
        inputs.manifest, options["rules"], options["retention"], options["check_interval"]
    )
    output.begin((), (inputs.manifest or {}).get("cluster_id"))
    _say(output, inputs, basis)
    _check(inputs, options)
    for problem in inputs.problems:
        output.failed(_failure(problem))
    with _progress(output) as progress:
        wanted, as_of_ms = _wanted(options, played), options["as_of"]
        early = None
        if is_little(options["master"], inputs.files):
            early = Early(inputs.files, as_of_ms, wanted.detail(), basis.rules)
        session = spark.start(sum(file.size for file in inputs.files))
        if options["out"] is not None:
            check_url(session, options["out"], overwrite=options["overwrite"])
        tally = Tally.of(session)
        progress.look = Watch(session, tally, _total_bytes(inputs)).look
        wanted = wanted._replace(tally=tally)
        analysis = Analysis(session, inputs.files, basis, as_of_ms, wanted, settings, early)
        return _run(analysis, output, options)


def _wanted(options: dict[str, Any], played: tuple[Any, ...]) -> Any:
    """What has to be read of the past for what was asked: a live table needs little of it."""
    from kgtool.analysis.pipeline import Wanted

    table = options["table"]
    only = options["only"]
    everything = (options["out"] is not None and not only) or options["report"] is not None
    replays = (
        everything
        or bool({table, *only} & set(FROM_SCENARIOS))
        or (table is None and len(played) > 1)
        or any(condition.what == LOSSES for condition in options["fail_on"])
    )
    counts = everything or "metrics" in (table, *only)
    return Wanted(
        played if replays else (), options["horizon"], options["bucket"] if counts else None
    )


@contextmanager
def _progress(output: Output) -> Iterator[Progress]:
    """Tell on a terminal how far Spark is, until there are results."""
    with Progress() as progress:
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
    from kgtool.analysis import tables_out
    from kgtool.analysis.summary import damaged_files

    damaged = analysis.read_ahead(
        *PLANNED_AHEAD.get(options["table"], ()),
        then=lambda: damaged_files(analysis.quality, NAMED_FILES),
    )
    if analysis.last_record_ms is None:
        first = _sentence(damaged[0]) if damaged else "There is no record in it."
        raise ConfigError(f"Nothing could be read. {first}")
    if options["strict"] and damaged:
        raise AnalysisError(_sentence(damaged[0]))
    output.done += 1
    for file in damaged:
        output.failed(_failure(_sentence(file)))
    if options["table"]:
        put_table(analysis.table(options["table"]), output)
    facts = _report(analysis, output, options["report"])
    if not options["table"]:
        _put_summary(analysis, output, facts)
    if options["report"] is not None:
        output.note(f"Wrote {options['report']}")
    if options["out"] is not None:
        written = tables_out.write_tables(analysis, options["out"], options["only"])
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
        report.check_file(options["report"])
    if options["idle"] is not None and options["plan"] is None:
        raise UsageError("--idle says what --plan takes: give --plan FILE.json too.")
    check_target(options["plan"], options["overwrite"])


def _report(analysis: Any, output: Output, path: Path | None) -> dict[str, Any] | None:
    """Write the report if one is wanted; what it knows for the summary."""
    if path is None:
        return None
    from kgtool.analysis import report
    from kgtool.analysis.report_data import collect

    data = collect(analysis, output.cluster_id)
    report.write(path, data)
    facts: dict[str, Any] = data["summary"]
    return facts


def _put_summary(analysis: Any, output: Output, facts: dict[str, Any] | None) -> None:
    from kgtool.analysis.summary import summary
    from kgtool.cli.summary import WIDTH, Page, render

    several = len(analysis.wanted.scenarios) > 1
    facts = facts or summary(analysis, with_whatif=several)
    # One scenario is what was; it is only of interest beside others.
    facts["whatif"] = facts["whatif"] if several else []
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
            f"(--rules, --retention, --check-interval)."
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
