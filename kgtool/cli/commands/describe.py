"""``kgtool describe``: committed offsets and lag, members, or state of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kgtool.cli.app import exits
from kgtool.cli.app.kafka_refusals import ALL_TYPES, STATES, parse_choices
from kgtool.cli.describe.present import Presenter
from kgtool.cli.describe.query import DescribedGroup, query_groups
from kgtool.cli.describe.view import View, build_view
from kgtool.cli.options.declare import declare, flag, option, repeatable
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import (
    cluster_options,
    name_options,
    open_session,
    positions,
    topics_option,
    view_options,
)
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import looking
from kgtool.errors import UsageError
from kgtool.model import TopicSpec

if TYPE_CHECKING:
    from kgtool.config import Settings
    from kgtool.net.session import Session


@declare(
    "describe",
    "kgtool describe --group billing",
    "kgtool describe --all-groups --lagging --sort lag",
    "kgtool describe --match 'billing-*' --totals --time-lag",
    "kgtool describe --group billing --members --verbose",
    "kgtool describe --all-groups --state Empty,Dead -o json",
    "kgtool describe --group billing --watch 5",
)
@name_options
@positions
@option("--type type_", "TYPES", "Only types: classic,consumer,share,streams.")
@click.option("--offsets", "view", flag_value="offsets", help="Committed offsets (default).")
@click.option("--members", "view", flag_value="members", help="The members.")
@click.option(
    "--topology",
    "view",
    flag_value="topology",
    help="Topics and tasks of a streams group's topology.",
)
@repeatable(
    "--state states",
    "[STATES]",
    "The state of each group; with a value (Empty,Dead,...) only groups in these states.",
    is_flag=False,
    flag_value="",
)
@flag("--verbose", "More columns: epochs, assignments.")
@topics_option("Only these topics or partitions; repeatable.")
@view_options
@cluster_options()
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    topics: tuple[TopicSpec, ...],
    **given: Any,
) -> int | None:
    """Show groups: committed offsets and lag, members, or state.

    STATUS is ok, or what is wrong: no-commit, beyond-end (truncated or re-created), before-start
    (the next records are gone), unknown-topic, no-leader, pending-transaction, denied.

    Share and streams groups, which are named one by one, have tables of their own. --members and
    --state also show which members are behind, or still classic (KIP-848).
    """
    states, view = given["states"], given["view"]
    selection = selection._replace(
        states=parse_choices(",".join(filter(None, states)), "state", STATES),
        types=parse_choices(given["type_"], "types", ALL_TYPES),
    )
    if view and "" in states:
        raise UsageError(f"--{view} and --state exclude each other.")
    name = view or ("state" if "" in states else "offsets")
    return run(settings, output, selection, build_view(name, given, topics))


def kafka_form(
    settings: Settings, output: Output, selection: Selection, **given: Any
) -> int | None:
    """Describe as ``kafka-consumer-groups.sh --describe`` does."""
    is_state = given["state"] is not None
    name = "members" if given["members"] else "state" if is_state else "offsets"
    return run(settings, output, selection, build_view(name, given, kafka_form=True))


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
