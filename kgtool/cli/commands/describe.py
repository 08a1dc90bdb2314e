"""``kgtool describe``: committed offsets and lag, members, or state of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kgtool.cli.app import exits
from kgtool.cli.app.kafka_refusals import ALL_TYPES, STATES, parse_choices
from kgtool.cli.describe.present import Presenter
from kgtool.cli.describe.query import DescribedGroup, query_groups
from kgtool.cli.describe.view import Line, View, build_view
from kgtool.cli.options.declare import added, declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import (
    cluster_options,
    line_of,
    name_options,
    open_session,
    positions,
    topics_option,
    view_options,
)
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import looking
from kgtool.errors import UsageError

if TYPE_CHECKING:
    from kgtool.config import Settings
    from kgtool.net.session import Session

F = TypeVar("F", bound=Callable[..., Any])


def options(change: Callable[[Line], Line] | None = None) -> Callable[[F], F]:
    """Give a command ``settings``, ``output`` and ``line``, of the options of ``describe``."""
    states = "The state of each group; with a value (Empty,Dead,...) only groups in these states."
    topology = "Topics and tasks of a streams group's topology."

    def add(function: F) -> F:
        function = cluster_options()(line_of(Line, change)(function))
        return name_options(
            positions(
                added(
                    view_options(function),
                    topics_option("Only these topics or partitions; repeatable."),
                    flag("--verbose", "More columns: epochs, assignments."),
                    repeatable("--state states", "[STATES]", states, is_flag=False, flag_value=""),
                    _view("topology", topology),
                    _view("members", "The members."),
                    _view("offsets", "Committed offsets (default)."),
                    option("--type type_", "TYPES", "Only types: classic,consumer,share,streams."),
                )
            )
        )

    return add


def _view(name: str, text: str) -> Callable[[F], F]:
    return click.option(f"--{name}", "view", flag_value=name, help=text)


@declare(
    "describe",
    "kgtool describe --group billing",
    "kgtool describe --all-groups --lagging --sort lag",
    "kgtool describe --match 'billing-*' --totals --time-lag",
    "kgtool describe --group billing --members --verbose",
    "kgtool describe --all-groups --state Empty,Dead -o json",
    "kgtool describe --group billing --watch 5",
)
@options()
def command(settings: Settings, output: Output, line: Line) -> int | None:
    """Show groups: committed offsets and lag, members, or state.

    STATUS is ok, or what is wrong: no-commit, beyond-end (truncated or re-created), before-start
    (the next records are gone), unknown-topic, no-leader, pending-transaction, denied.

    Share and streams groups, which are named one by one, have tables of their own. --members and
    --state also show which members are behind, or still classic (KIP-848).
    """
    return show(settings, output, line)


def show(settings: Settings, output: Output, line: Line) -> int | None:
    """Show what the line of kgtool's own form asks for."""
    selection = line.selection._replace(
        states=parse_choices(",".join(filter(None, line.states)), "state", STATES),
        types=parse_choices(line.type_, "types", ALL_TYPES),
    )
    if line.view and "" in line.states:
        raise UsageError(f"--{line.view} and --state exclude each other.")
    return run(settings, output, selection, build_view(line.view_name, line))


def kafka_form(settings: Settings, output: Output, line: Line) -> int | None:
    """Describe as ``kafka-consumer-groups.sh --describe`` does."""
    is_state = line.state is not None
    name = "members" if line.members else "state" if is_state else "offsets"
    return run(settings, output, line.selection, build_view(name, line, kafka_form=True))


def run(settings: Settings, output: Output, selection: Selection, view: View) -> int | None:
    """Describe the chosen groups, each as soon as it is known."""
    selection.check("describe")
    output.limit, output.no_headers = view.limit, view.no_headers
    if view.prometheus is not None:
        from kgtool.cli.describe import prometheus

        if not output.give_stdout("prometheus", view.prometheus):
            prometheus.check(view.prometheus)
    from kgtool.queries.cluster.topics import missing_topics, topic_sizes

    with open_session(settings) as session:
        if view.watch is not None:
            from kgtool.cli.describe.watch import Watch

            return Watch(session, output, selection, view).run()
        session.loop.before_waiting = output.flush  # show what is known meanwhile
        presenter = Presenter(output, view)
        described: list[DescribedGroup] = []

        def show(group: DescribedGroup) -> None:
            if view.prometheus is not None:
                described.append(group)
            presenter.show(group)
            if view.name != "offsets" and not view.kafka_form:
                from kgtool.cli.describe import epochs

                epochs.note(output, group.description)

        output.page()
        ordered = output.format != "ndjson"
        with looking(output, session):
            missing = query_groups(session, output, selection, view, show, ordered=ordered)
        if view.topics:
            asked = missing_topics(session.cluster, view.topics, presenter.partitions)
            presenter.missing(session.run(asked))
        presenter.sizes = topic_sizes(session.cluster) if view.by == "topic" else {}
        presenter.end()
        _say_limits(session, presenter)
        if missing:
            from kgtool.cli.describe import share_and_streams

            others = share_and_streams.query(session, output, missing, view)
            share_and_streams.show(output, others, view)
            described += others
        if view.prometheus is not None:
            prometheus.write(view.prometheus, described, session.cluster_id, len(output.errors))
    return _status(output, presenter)


def _say_limits(session: Session, presenter: Presenter) -> None:
    if presenter.unread:
        from kgtool.queries.offsets.record_retention import limited_by_size

        asked = limited_by_size(session.cluster, sorted(presenter.unread))
        presenter.limited(session.run(asked))


def _status(output: Output, presenter: Presenter) -> int | None:
    """Return the status of ``--loses-within`` that found something; None: the output's."""
    if not presenter.found:
        return None
    output.finish()
    return exits.FOUND
