"""``kgtool analyze``: the Spark job over ``__consumer_offsets``, in whatever form there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgtool.cli.escape import escape
from kgtool.cli.help import examples
from kgtool.cli.options import CONNECTION, connection_params, make_settings, output_options
from kgtool.cli.output import Output
from kgtool.errors import AnalysisError, ConfigError, UsageError
from kgtool.model import ItemError, Target
from kgtool.retention.rules import RULE_SETS

if TYPE_CHECKING:  # generic since Click 8.4
    _Number = click.ParamType[int]
else:
    _Number = click.ParamType

TABLES = ("live", "removals", "quality")
LONGEST_MS = 2**53
"""More than 280,000 years; a sum with any timestamp still is an int64."""
SHOWN_ROWS = 100
"""Rows of --table that the text format shows."""
NAMED_FILES = 20
UNKNOWN_BYTES = 1 << 30
"""Taken for the size of inputs that only Spark can look at."""
_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


class Duration(_Number):
    """A whole number with its unit, ``7d``, ``12h``, ``10m``, ``60s``, ``500ms``, in ms."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the number and the unit."""
        match = re.fullmatch(r"(\d{1,15})(d|h|m|s|ms)", str(value).strip())
        if match is None:
            option = param.name.replace("_", "-") if param and param.name else "retention"
            raise UsageError(
                f"--{option} takes a number with a unit, such as 7d, 12h, 10m, 60s or 500ms, "
                f"not '{value}'."
            )
        return min(int(match[1]) * _UNITS[match[2]], LONGEST_MS)


class Moment(_Number):
    """A time: milliseconds since the epoch, or ISO 8601 (UTC unless it says otherwise)."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read the time."""
        from datetime import datetime, timezone

        text = str(value).strip()
        if re.fullmatch(r"\d{1,18}", text):
            return int(text)
        try:
            moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
        except ValueError:
            raise UsageError(
                f"--as-of takes a time such as 2026-11-21T15:00:00Z, or milliseconds since the "
                f"epoch, not '{value}'."
            ) from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return round(moment.timestamp() * 1000)


# fmt: off
@click.command(
    "analyze",
    epilog=examples(
        "kgtool analyze offsets",
        "kgtool analyze offsets --retention 3d --table live -o csv",
        "kgtool analyze offsets --out tables --overwrite",
    ),
)
@click.argument("paths", nargs=-1, metavar="PATH…")
@click.option("--rules", type=click.Choice(["auto", *RULE_SETS]), default="auto", show_default=True,
              help="The brokers' generation; auto: as cluster.json says.")
@click.option("--retention", type=Duration(), metavar="DURATION",
              help="offsets.retention.minutes, such as 7d (default: cluster.json's, or 7d).")
@click.option("--check-interval", type=Duration(), metavar="DURATION",
              help="offsets.retention.check.interval.ms, such as 10m (default: likewise).")
@click.option("--as-of", type=Moment(), metavar="TIME",
              help="Look at the log as it was then (default: its end).")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR",
              help="Write every table there as Parquet.")
@click.option("--overwrite", is_flag=True, help="--out may have something in it.")
@click.option("--table", type=click.Choice(TABLES), help="Put out this table's rows.")
@click.option("--strict", is_flag=True, help="Fail (1) where anything at all was unreadable.")
@click.option("--master", default="local[*]", show_default=True, metavar="URL",
              help="The Spark master.")
@click.option("--conf", multiple=True, metavar="K=V", help="A Spark setting; repeatable.")
@connection_params
@output_options
# fmt: on
def command(paths: tuple[str, ...], output: Output, **options: Any) -> int:
    """Tell what is live, what expires when, and why what went is gone.

    PATH is a folder that `kgtool export` wrote, or any file or folder with records of
    __consumer_offsets: raw segments (__consumer_offsets-N/BASE.log, __consumer_offsets-N.BASE.log),
    Parquet with the columns of Spark's Kafka source, what kafka-console-consumer printed with an
    OffsetsMessageFormatter or GroupMetadataMessageFormatter, what kafka-dump-log printed with
    --offsets-decoder. What a file is, its content tells; several kinds may be mixed, here or at any
    URL that Spark can read. With --bootstrap-server the cluster itself is read.

    Without --table the results are a summary. What an input can't tell is said first, and left
    empty. Damaged parts are named and left out (status 3).
    """
    conf = _conf(options["conf"])
    out: Path | None = options["out"]
    settings = _settings({name: options.pop(name) for name in CONNECTION}, bool(paths))
    with _extra():
        from kgtool.analysis import pipeline, sources
        from kgtool.analysis.session import build_session, job_failures
    if out is not None:
        pipeline.check_folder(out, overwrite=options["overwrite"])
    inputs = _inputs(paths, settings)
    session = None
    try:
        with job_failures():
            if inputs.remote:
                from kgtool.analysis.remote import find_remote

                session = build_session(options["master"], conf, UNKNOWN_BYTES)
                inputs = find_remote(session, inputs)
            basis = sources.basis(
                inputs.manifest, options["rules"], options["retention"], options["check_interval"]
            )
            output.begin((), (inputs.manifest or {}).get("cluster_id"))
            _say(output, inputs, basis)
            _check(inputs, options)
            for problem in inputs.problems:
                output.failed(_failure(problem))
            if session is None:
                size = sum(file.size for file in inputs.files)
                session = build_session(options["master"], conf, size)
            analysis = pipeline.Analysis(
                session, inputs.files, basis, options["as_of"], settings=settings
            )
            _run(analysis, output, options)
    finally:
        if session is not None:
            session.stop()
    return output.finish()


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


def _run(analysis: Any, output: Output, options: dict[str, Any]) -> None:
    from kgtool.analysis import pipeline, report

    damaged = report.damaged_files(analysis.quality, NAMED_FILES)
    last = analysis.last_record_ms
    if last is None:
        first = _sentence(damaged[0]) if damaged else "There is no record in it."
        raise ConfigError(f"Nothing could be read. {first}")
    if options["strict"] and damaged:
        raise AnalysisError(_sentence(damaged[0]))
    output.done += 1
    for file in damaged:
        output.failed(_failure(_sentence(file)))
    if options["table"]:
        _put_table(analysis.table(options["table"]), output)
    else:
        as_of = options["as_of"] or analysis.basis.as_of_ms or last
        facts = report.summary(analysis, as_of)
        output.row(facts)
        output.text("\n".join(escape(line) for line in report.text(facts).splitlines()))
    if options["out"] is not None:
        written = pipeline.write_tables(analysis, options["out"], overwrite=options["overwrite"])
        output.note(f"Wrote {', '.join(path.name for path in written)} to {options['out']}")


def _put_table(frame: Any, output: Output) -> None:
    """All rows in the formats for programs, the first ones as text."""
    names = frame.columns
    output.begin(names, output.cluster_id)
    keys = [name for name in ("group", "topic", "partition", "removed_at_ms") if name in names]
    ordered = frame.orderBy(*(keys or ["path"]))
    if output.is_text:
        from tabulate import tabulate

        rows = ordered.limit(SHOWN_ROWS + 1).collect()
        cells = [["-" if v is None else escape(str(v)) for v in row] for row in rows[:SHOWN_ROWS]]
        head = [name.upper() for name in names]
        output.text(tabulate(cells, head, tablefmt="plain", disable_numparse=True))
        if len(rows) > SHOWN_ROWS:
            output.note(f"Only the first {SHOWN_ROWS} rows: -o ndjson, or --out DIR, gives all.")
        return
    # An iterator, not collect: the rows need not fit into this process.
    for row in ordered.toLocalIterator(prefetchPartitions=True):
        output.row(row.asDict(recursive=True))
        if output.reader_gone:
            break


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
    from kgtool.analysis.report import problem_text

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
