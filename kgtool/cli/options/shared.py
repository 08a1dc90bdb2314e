"""Options of many commands, as decorators.

``cluster_options`` gives a command ``settings`` and ``output``, ``output_options`` only ``output``.
Both sets are accepted before the command too: ``kgtool --bootstrap-server b:9092 list``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kgtool import timespec
from kgtool.cli.app.argv import FORMATS
from kgtool.cli.app.kafka_refusals import ALL_TYPES, STATES, parse_choices
from kgtool.cli.app.overview import VIEW_OPTIONS
from kgtool.cli.options.declare import added, flag, option, overviewed, repeatable
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.types import TOPIC, Name, OneOf, Parsed, duration, number
from kgtool.cli.output.output import Output
from kgtool.errors import UsageError
from kgtool.text import escape

F = TypeVar("F", bound=Callable[..., Any])
LineT = TypeVar("LineT")

if TYPE_CHECKING:
    from kgtool.config import Settings
    from kgtool.net.session import Session

CONNECTION = ("bootstrap_server", "command_config", "context", "timeout")
"""The parameters that ``connection_params`` declares."""


def _timeout(value: str, _option: str) -> int:
    """Read a duration or milliseconds; Kafka's form refuses others in the words of Kafka's tool."""
    text = value.strip()
    try:
        read = timespec.parse_long if timespec.is_number(text) else timespec.span_ms
        span = read(text, "timeout")
    except UsageError:
        if not get_output().is_kafka_form:
            raise
        raise UsageError(f"Cannot parse argument '{value}' of option timeout") from None
    if span < 1:
        raise UsageError(f"--timeout takes at least 1 ms, not {span}.")
    if timespec.is_number(text) and span < 100 and not get_output().is_kafka_form:
        get_output().note_once(f"Note: a bare number is ms: --timeout {span}s is {span} seconds.")
    return min(span, timespec.LONGEST_WAIT_MS)


def get_output() -> Output:
    """Return the run's output; a new one if ``main`` did not start the command."""
    ctx = click.get_current_context()
    output = ctx.find_root().ensure_object(Output)
    if not output.command:
        output.command = ctx.info_name or ""
    return output


def _kept(keep: Callable[[Output, Any], None]) -> dict[str, Any]:
    """Keep an option's value in the run's output instead of passing it on."""

    def store(_ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            keep(get_output(), value)

    return {"expose_value": False, "callback": store}


def _debug(output: Output, _value: bool) -> None:
    output.is_debug = True


def _no_color(output: Output, _value: bool) -> None:
    output.use_color = False


def _format(output: Output, name: str) -> None:
    output.format = name


def _no_headers(output: Output, _value: bool) -> None:
    output.no_headers = True


def _limit(output: Output, rows: int) -> None:
    output.limit = rows


def _verbose(output: Output, _value: bool) -> None:
    output.verbose = True


def combined(function: F, name: str, make: Callable[..., Any], *parts: str) -> F:
    """Pass one argument ``name``, made of the values of the options ``parts``, to a command."""

    def wrapper(**given: Any) -> Any:
        values = {part: given.pop(part) for part in parts if part in given}
        return function(**given, **{name: make(**values)})

    return update_wrapper(wrapper, function)  # type: ignore[return-value]


def line_of(
    kind: type[LineT], change: Callable[[LineT], LineT] | None = None, name: str = "line"
) -> Callable[[F], F]:
    """Give a command ``line``, or ``name``: its own options (and ``selection``) as one value.

    :param kind: a named tuple whose fields are called as the options.
    :param change: makes another line of it.
    """
    make: Callable[..., LineT] = kind

    def line(**given: Any) -> LineT:
        made = make(**given)
        return made if change is None else change(made)

    return lambda function: combined(function, name, line, *kind.__annotations__)


def topics_option(text: str) -> Callable[[F], F]:
    """Give a command ``topics``: the values of ``--topic``."""
    return click.option(
        "--topic", "topics", multiple=True, type=TOPIC, metavar="TOPIC[:0,1]", help=text
    )


def connection_params(function: F) -> F:
    """Declare the connection options."""
    return added(
        function,
        option(
            "--timeout",
            "TIME",
            "How long the whole command may take: 30s (default), 2m; 500 is ms.",
            type=Parsed("duration", _timeout),
        ),
        option("--context", "NAME", "A connection profile (kgtool context; also KGTOOL_CONTEXT)."),
        option(
            "--command-config",
            "FILE",
            "A Java properties file with the client's configuration.",
            type=click.Path(),
        ),
        option(
            "--bootstrap-server",
            "HOST:PORT,...",
            "The brokers to ask first (also KGTOOL_BOOTSTRAP_SERVER).",
        ),
    )


def output_params(function: F) -> F:
    """Declare the options of the run's ``Output``."""
    return added(
        function,
        flag("--debug", "Show tracebacks, and every message to and from brokers.", **_kept(_debug)),
        flag("--no-color", "Never use colours (also NO_COLOR).", **_kept(_no_color)),
        option(
            "--output",
            None,
            "The format of the results (default: text; wide: it hides no column).",
            type=OneOf(FORMATS),
            **_kept(_format),
        ),
    )


def rows_options(function: F) -> F:
    """Add ``--limit`` and ``--no-headers``, for the command's one table."""
    return added(
        function,
        flag("--no-headers", "No header line.", **_kept(_no_headers)),
        option("--limit", "N", "Only the first N rows.", type=number(1), **_kept(_limit)),
    )


def all_rows_option(function: F) -> F:
    """Add ``--verbose`` of a change: its results are not folded."""
    text = "All results, also on a terminal."
    return flag("--verbose all_rows", text, **_kept(_verbose))(function)


def cluster_options(*, required: bool = True) -> Callable[[F], F]:
    """Give a command ``settings: Settings`` and ``output: Output``.

    ``settings`` is None if nothing names a cluster and none is ``required``.
    """

    def settings(**_given: Any) -> Any:
        return make_settings(required)

    return lambda function: connection_params(
        combined(output_options(function), "settings", settings, *CONNECTION)
    )


def output_options(function: F) -> F:
    """Give a command ``output: Output``."""
    return output_params(combined(function, "output", get_output))


def view_options(function: F) -> F:
    """Add kgtool's own options of ``describe``: ``--lagging``, ``--columns``, ``--watch`` …"""
    types = {
        "watch": duration(bare_ms=1000),
        "loses-within": duration(),
        "over": duration(1000),
        "by": OneOf(("group", "topic", "partition")),
        "limit": number(1),
        "prometheus": click.Path(),
    }
    return overviewed(function, VIEW_OPTIONS, types, metavars=True)


def given_connection() -> dict[str, Any]:
    """Return the connection options on the command line, before or after the command."""
    found: dict[str, Any] = {}
    ctx: click.Context | None = click.get_current_context()
    while ctx is not None:
        found = {name: value for name, value in ctx.params.items() if value is not None} | found
        ctx = ctx.parent
    return {name: found[name] for name in CONNECTION if name in found}


def make_settings(required: bool, address: str | None = None, profile: str | None = None) -> Any:
    """Read the settings from options, environment and files.

    :param address: the brokers where the options don't name any; ``profile``: the context.
    """
    from kgtool import config

    server, file, name, timeout = map(given_connection().get, CONNECTION)
    is_open = server is None and name is None
    server, name = (address, profile) if is_open else (server, name)
    settings = config.settings(server, file, timeout, context=name)
    if settings is None:
        if required:
            raise no_cluster()
        return None
    output = get_output()
    for note in settings.notes:
        output.note(f"Warning: {escape(note)}")
    if output.is_debug:
        settings = settings._replace(trace=lambda line: output.note(escape(line)))
    return settings


def open_session(settings: Settings, **options: bool) -> Session:
    """Return a session, not yet connected; imports ``net`` only now."""
    from kgtool.net.session import Session

    session = Session(settings, **options)
    session.around = _around(session, get_output())
    return session


@contextmanager
def _around(session: Session, output: Output) -> Iterator[None]:
    from kgtool.cli.options.unknown_names import UnknownNames
    from kgtool.cli.output.progress import Connecting

    with Connecting(output, session), UnknownNames(session, output):
        yield


def no_cluster() -> UsageError:
    """Return the refusal of a command without a cluster."""
    from kgtool.config import BOOTSTRAP_VARIABLE

    return UsageError(
        'Missing required argument "[bootstrap-server]": give --bootstrap-server HOST:PORT, '
        f"set {BOOTSTRAP_VARIABLE}, or choose a context (kgtool context)."
    )


def selection_options(function: F) -> F:
    """Give a command ``selection``: by name, pattern, state and type."""

    def narrowed(selection: Selection, state: str | None, type_: str | None) -> Selection:
        states = parse_choices(state, "state", STATES)
        return selection._replace(states=states, types=parse_choices(type_, "types", ALL_TYPES))

    return name_options(
        added(
            combined(function, "selection", narrowed, "selection", "state", "type_"),
            option("--type type_", "TYPES", "Only types: classic,consumer,share,streams."),
            option("--state", "STATES", "Of those, only in these states: Empty,Dead,..."),
        )
    )


_EXCLUDE = repeatable("--exclude", "GLOB", "But not groups whose name matches; repeatable.")
_GROUP = repeatable("--group", "GROUP", "A group's exact name; repeatable.", type=Name())


def _selecting(function: F) -> F:
    """Give a command ``selection``, made of the options of names and patterns."""

    def selection(
        group: tuple[str, ...] = (),
        all_groups: bool = False,
        match: tuple[str, ...] = (),
        regex: str | None = None,
        exclude: tuple[str, ...] = (),
    ) -> Selection:
        return Selection(group, all_groups, match, regex, exclude)

    parts = ("group", "all_groups", "match", "regex", "exclude")
    return combined(function, "selection", selection, *parts)


def name_options(function: F) -> F:
    """Give a command ``selection``, by name and pattern only (``describe --state`` is a view)."""
    return added(
        _selecting(function),
        _EXCLUDE,
        option("--regex", "RE", "Groups whose whole name matches (RE2)."),
        repeatable("--match", "GLOB", "Groups that match (* ? [a-z]); repeatable."),
        flag("--all-groups", "All consumer groups, of both protocols."),
        _GROUP,
    )


def filter_options(function: F) -> F:
    """Give a command ``selection``: patterns that filter all groups."""
    return added(
        _selecting(function),
        _EXCLUDE,
        option("--regex", "RE", "Only groups whose whole name matches (RE2)."),
        repeatable(
            "--match", "GLOB", "Only groups whose name matches, with * ? [a-z]; repeatable."
        ),
    )


def positions(function: F, check: Callable[[Sequence[str]], None] | None = None) -> F:
    """Add a command's arguments, groups or patterns, to ``selection``; below ``name_options``.

    :param check: raises UsageError for words that are not meant as groups.
    """

    def selection(words: Sequence[str], selection: Selection) -> Selection:
        if check is not None:
            check(words)
        return selection.with_arguments(words)

    argument = click.argument("words", nargs=-1, type=Name(), metavar="[GROUP]...")
    return argument(combined(function, "selection", selection, "words", "selection"))


def group_options(function: F) -> F:
    """Give a command ``selection``: groups or patterns as arguments, and ``selection_options``."""
    return selection_options(positions(function))


def group_arguments(function: F) -> F:
    """Give a command ``selection``: at least one group, as an argument or with ``--group``."""

    def selection(words: tuple[str, ...], group: tuple[str, ...]) -> Selection:
        if not words and not group:
            context = click.get_current_context()
            raise click.MissingParameter(ctx=context, param=context.command.params[0])
        return Selection(group).with_arguments(words)

    argument = click.argument("words", nargs=-1, type=Name(), metavar="GROUP...")
    return added(combined(function, "selection", selection, "words", "group"), _GROUP, argument)
