"""One run of ``kgtool analyze``, once its inputs are found: read, fold, report."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgtool.analysis.input.limitations import check_conditions, hole_note, late_note
from kgtool.changes.cleanup.plan import make_header
from kgtool.changes.cleanup.plan_file import CleanupPlan, LeftOut, PlanItem, write
from kgtool.cli.analyze.fail_on import LOSSES
from kgtool.cli.analyze.options import AnalyzeOptions
from kgtool.cli.analyze.spark_session import Spark
from kgtool.cli.analyze.table import put_table
from kgtool.cli.cleanup.plan import WRITTEN, say_left_out, summary
from kgtool.cli.output import terminal
from kgtool.cli.output.analyze_progress import AnalyzeProgress
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.clock import now_ms, token
from kgtool.errors import AnalysisError, ConfigError, UsageError
from kgtool.model import ItemError, Target

if TYPE_CHECKING:
    from kgtool.analysis.decode.job_progress import ReadCounters
    from kgtool.analysis.fold.folded_log import TableOptions
    from kgtool.analysis.input.broker_settings import Scenario
    from kgtool.analysis.input.input_files import Inputs
    from kgtool.analysis.local_engine import LocalEngine
    from kgtool.analysis.pipeline import Analysis, Engine
    from kgtool.analysis.spark.output_folder import Place
    from kgtool.analysis.state import State
    from kgtool.config import Settings

FROM_SCENARIOS = ("whatif", "whatif_families", "losses")
NAMED_FILES = 20


def analyze(
    spark: Spark | None,
    inputs: Inputs,
    output: Output,
    options: AnalyzeOptions,
    settings: Settings | None,
) -> bool:
    """Run the analysis; return whether any ``--fail-on`` is met.

    The folder of ``--state`` is locked meanwhile.
    """
    from kgtool.analysis.state import State

    place = _state_place(spark, options.state)
    with nullcontext() if place is None else place.held():
        state = None if place is None else State(place, rebuild=options.rebuild)
        return _analyze(spark, inputs, output, options, settings, state)


def _analyze(
    spark: Spark | None,
    inputs: Inputs,
    output: Output,
    options: AnalyzeOptions,
    settings: Settings | None,
    state: State | None,
) -> bool:
    """Check the inputs, run the analysis and write the outputs."""
    from kgtool.analysis.input.broker_settings import actual_scenario, choose_scenarios
    from kgtool.analysis.input.limitations import check_as_of
    from kgtool.analysis.pipeline import NOTHING, Analysis
    from kgtool.analysis.state import state_options
    from kgtool.analysis.tables_out import out_place

    if state is not None:
        inputs = state.unread(inputs)
    basis, scenarios = choose_scenarios(
        inputs.manifest,
        options.rules,
        options.retention,
        options.check_interval,
        options.retention_was,
    )
    if state is not None:
        state.check(state_options(basis, scenarios, options.bucket))
    # A single scenario that is the past itself is no what-if.
    is_whatif = scenarios != (actual_scenario(basis),)
    output.begin((), (inputs.manifest or {}).get("cluster_id"))
    for note in inputs.notes:
        output.note(f"Note: {note}")
    if options.strict and inputs.problems:
        raise ConfigError(inputs.problems[0])
    check_as_of(inputs.files, options.as_of)
    for problem in inputs.problems:
        output.failed(_failure(problem))
    start = "Starting" if spark is None else "Starting Spark"
    with AnalyzeProgress(output, start) as progress:
        is_small = _is_small(inputs, settings, options)
        engine, counters = _engine(spark, inputs, settings, progress, is_small=is_small)
        table_options = _table_options(options, scenarios, is_whatif)._replace(counters=counters)
        place = None
        if options.out is not None:
            session = getattr(engine, "session", None)
            place = out_place(session, options.out, overwrite=options.overwrite)
        earlier = NOTHING if state is None else state.go_on(engine)
        analysis = Analysis(engine, inputs.files, basis, options.as_of, table_options, earlier)
        check_conditions(options.fail_on, analysis.missing, basis.rules)
        _write_outputs(analysis, inputs, output, options, place, progress)
    if state is not None:
        state.commit(analysis)
    # Each is evaluated, as each reports what it found.
    met = [condition.is_met(analysis, output) for condition in options.fail_on]
    return any(met)


def _state_place(spark: Spark | None, where: str | None) -> Place | None:
    from kgtool.analysis.spark.output_folder import is_url, place_at

    if where is None:
        return None
    session = spark.start() if spark is not None and is_url(where) else None
    place = place_at(session, where)
    if place.kind() == "file":
        raise UsageError(f"--state {where} is a file: name a folder.")
    return place


def _is_small(inputs: Inputs, settings: Settings | None, options: AnalyzeOptions) -> bool:
    """Whether one task of this machine is enough for all that is read and written."""
    from kgtool.analysis.local_engine import SMALL_BYTES
    from kgtool.analysis.spark.output_folder import is_url

    is_local = settings is None and not any(file.is_remote for file in inputs.files)
    is_local &= options.state is None and not is_url(options.out or "")
    return is_local and sum(file.size for file in inputs.files) <= SMALL_BYTES


def _engine(
    spark: Spark | None,
    inputs: Inputs,
    settings: Settings | None,
    progress: AnalyzeProgress,
    *,
    is_small: bool,
) -> tuple[Engine, ReadCounters | None]:
    """Return the engine, and Spark's counters of what is read."""
    from kgtool.analysis.local_engine import LocalEngine

    if spark is None:
        return _local(LocalEngine(), inputs, progress)
    from kgtool.analysis.decode.job_progress import ReadCounters
    from kgtool.analysis.spark.engine import SmallEngine, SparkEngine, Watch

    context = spark.start_local() if is_small else None
    if context is not None:
        return _local(SmallEngine(context), inputs, progress)
    session = spark.start()
    counters = ReadCounters.of(session)
    progress.look = Watch(session, counters, _total_bytes(inputs)).look
    engine = SparkEngine(session, settings)
    spark.free = engine.free
    return engine, counters


def _local(
    engine: LocalEngine, inputs: Inputs, progress: AnalyzeProgress
) -> tuple[LocalEngine, None]:
    engine.counted.total_bytes = _total_bytes(inputs)
    progress.look = engine.counted.look
    return engine, None


def _table_options(
    options: AnalyzeOptions, scenarios: tuple[Scenario, ...], is_whatif: bool
) -> TableOptions:
    """Return the options for the outputs asked for: a live table needs little of the past."""
    from kgtool.analysis.pipeline import TableOptions
    from kgtool.analysis.report.facts import days_ahead

    table = options.table
    only = options.only
    everything = (options.out is not None and not only) or options.report is not None
    everything |= options.state is not None  # the next run may need it
    replays = (
        everything
        or bool({table, *only} & set(FROM_SCENARIOS))
        or (table is None and is_whatif)
        or any(condition.kind == LOSSES for condition in options.fail_on)
    )
    counts = everything or bool({"metrics", "writers"} & {table, *only})
    return TableOptions(
        scenarios if replays else (),
        options.horizon,
        options.bucket if counts else None,
        days=7 if options.report is None else days_ahead(options.horizon),
        gaps=everything or "gaps" in (table, *only),
        plan=options.plan is not None,
        idle_ms=options.idle,
    )


def _total_bytes(inputs: Inputs) -> int:
    """Return the size of what kgtool itself decodes: not of Parquet, nor of a cluster."""
    from kgtool.analysis.input import formats

    others = (formats.PARQUET.name, formats.CLUSTER.name)
    return sum(file.size for file in inputs.files if file.format not in others)


def _write_outputs(
    analysis: Analysis,
    inputs: Inputs,
    output: Output,
    options: AnalyzeOptions,
    place: Place | None,
    progress: AnalyzeProgress,
) -> None:
    from kgtool.analysis.report import facts, html_page
    from kgtool.analysis.tables.quality import damaged_files, sentence
    from kgtool.analysis.tables_out import write_tables

    damaged = damaged_files(analysis.quality, NAMED_FILES)  # this reads the inputs
    progress.redraw()
    _note_assumptions(output, inputs, analysis)
    nothing = analysis.nothing_read()
    if nothing is not None:
        raise ConfigError(nothing)
    _note_log(output, analysis)
    if options.strict and damaged:
        raise AnalysisError(sentence(damaged[0]))
    output.done += 1
    for file in damaged:
        output.failed(_failure(sentence(file)))
    _say_holes(output, analysis)
    _warn_early(output, analysis)
    if options.table:
        put_table(analysis, options.table, output, options.group)
    report = None if options.report is None else facts.collect(analysis, output.cluster_id)
    if not options.table:
        _put_summary(analysis, output, report and report["summary"])
    if report is not None and options.report is not None:
        with Meter(output, f"Writing {options.report}"):
            html_page.write(options.report, report, partial(facts.rows, analysis))
        output.wrote(options.report)
    if place is not None:
        with Meter(output, "Writing tables"):
            written = write_tables(analysis, place, options.only, overwrite=options.overwrite)
        output.note(f"Wrote {', '.join(written)} to {options.out}")
    if options.plan is not None:
        with Meter(output, f"Writing {options.plan}"):
            write_plan(analysis, output, options.plan, options.idle)


def _note_log(output: Output, analysis: Analysis) -> None:
    """Note that the log begins late, and that its clocks were wrong."""
    from kgtool.analysis.words import when

    if analysis.twice is not None:
        output.note(f"Note: {analysis.twice}")
    late = late_note(analysis.begins_late)
    if late is not None:
        output.note(f"Note: {late}")
    if analysis.future_records is not None:
        count, latest_ms = analysis.future_records
        output.note(
            f"Note: {count:,} records have a time in the future (up to {when(latest_ms)}): a clock "
            f"was wrong. The log's end is taken to be {when(analysis.end_ms)}."
        )


def _say_holes(output: Output, analysis: Analysis) -> None:
    """Say where something in the middle is missing; damaged files are errors already."""
    said = hole_note(analysis.holes)
    if said is not None and any(analysis.holes.values()):
        output.failed(_failure(said))
    elif said is not None:
        output.note(f"Note: {said}")


def _warn_early(output: Output, analysis: Analysis) -> None:
    """Warn of misplaced groups, and of ages that look like retentions that brokers had."""
    from kgtool.analysis.words import about, when

    if analysis.misplaced is not None:
        output.note(f"Warning: {analysis.misplaced}")
    now = about(analysis.basis.retention_ms).replace(" ", "")
    for count, total, age_ms, last_ms in analysis.shared_ages:
        some = f"All {total:,}" if count == total else f"{count:,} of {total:,}"
        age = about(age_ms - age_ms % 60_000)
        was = age.replace(" ", "")
        output.note(
            f"Warning: {some} early removals were {age} old, up to {when(last_ms)}: their cause is "
            f"unknown. If retention was {age}: --retention-was {was}, or {was},{now}@TIME if it "
            "changed at TIME."
        )


def _put_summary(analysis: Analysis, output: Output, facts: dict[str, Any] | None) -> None:
    from kgtool.analysis.input.broker_settings import actual_scenario
    from kgtool.analysis.report.summary import summary
    from kgtool.cli.analyze.summary import WIDTH, Page, render

    is_whatif = analysis.options.scenarios not in ((), (actual_scenario(analysis.basis),))
    facts = facts or summary(analysis, with_whatif=is_whatif)
    facts["whatif"] = facts["whatif"] if is_whatif else []
    output.row(facts)
    width = output.table_width or WIDTH
    output.text(render(facts, Page(width, terminal.mark_for(), colored=output.is_colored)))


def _note_assumptions(output: Output, inputs: Inputs, analysis: Analysis) -> None:
    """Note what is missing in the inputs, and what is assumed; what was read may tell."""
    from kgtool.analysis.input.limitations import limitations, older_note

    basis = analysis.basis
    older = older_note(analysis.older_until_ms, basis.rules)
    if older is not None:
        output.note(f"Warning: {older}")
    for sentence in limitations(inputs.files, basis.rules):
        output.note(f"Note: {sentence}")
    if basis.assumed:
        why = "cluster.json does not say" if inputs.manifest else "there is no cluster.json"
        output.note(
            f"Note: {why}, so these are assumed: {', '.join(basis.assumed)} "
            f"(--rules, --retention-was, --check-interval)."
        )


def _failure(message: str) -> ItemError:
    return ItemError.of(AnalysisError(message), Target())


def write_plan(analysis: Analysis, output: Output, path: Path, idle_ms: int | None) -> None:
    """Write the plan, and note what is in it."""
    from kgtool.analysis.tables.cleanup import decisions

    found = list(decisions(analysis.decisions()))
    items = [each for each in found if isinstance(each, PlanItem)]
    left_out = [each for each in found if isinstance(each, LeftOut)]
    criteria = {} if idle_ms is None else {"idle_ms": idle_ms}
    header = make_header(output.cluster_id, "analyze", criteria, now_ms(), token(), analysis.end_ms)
    try:
        write(CleanupPlan(header, tuple(items), tuple(left_out)), path)
    except ConfigError as error:  # the other outputs are written
        raise AnalysisError(error.message) from error
    output.note(f"Cleanup: {summary(items)}")
    say_left_out(output, left_out)
    output.wrote(path, WRITTEN)
