"""``kgtool cleanup``: remove dead groups and offsets by a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kgtool.cli.app.help import examples
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import FILE, flag, group, option
from kgtool.cli.options.group_selection import Selection
from kgtool.cli.options.shared import (
    cluster_options,
    connection_params,
    open_session,
    output_params,
    selection_options,
)
from kgtool.cli.options.types import RATE, duration
from kgtool.cli.output.output import Output
from kgtool.columns.changes import CLEANUP_APPLY
from kgtool.config import Settings
from kgtool.errors import UsageError

_PLAN = examples(
    "kgtool cleanup plan --idle 30d --out plan.json",
    "kgtool cleanup plan --generated --caught-up --exclude 'console-consumer-1' --out plan.json",
    "kgtool cleanup plan --unsubscribed --orphaned --match 'billing-*' --out plan.json",
)
_APPLY = examples(
    "kgtool cleanup apply plan.json --dry-run",
    "kgtool cleanup apply plan.json --canary 10 --rate 20",
    "kgtool cleanup apply plan.json --max-groups 500 --yes --reason TICKET-17",
)


@group(
    "cleanup",
    "kgtool cleanup plan --idle 30d --out plan.json",
    "kgtool cleanup apply plan.json --canary 10",
    "kgtool undo last",
)
@connection_params
@output_params
def command(**_given: Any) -> None:
    """Remove dead groups and offsets by a plan that you review.

    `plan` only looks, and writes a file: why each item is in it, what would be lost, its lag, its
    last commit, and when it would expire anyway. Read it, remove lines, keep it in git. `apply`
    checks each item again just before it changes it, and skips what is no longer the same.

    PLAN.json is one JSON document with an item a line: `action`, `group`, `why`, `lag`,
    `last_commit_ms`, `expires_at_ms` (when the broker would do it by itself) and the `offsets` that
    go. Actions are delete-group, delete-offsets, rebuild-group (brokers refuse to delete offsets of
    topics that are gone, so the group is deleted and its other offsets, `keep`, are restored) and
    wait. To leave something alone make its action wait, or remove its line.
    """


@command.command("plan", epilog=_PLAN)
@selection_options
@option(
    "--idle",
    "TIME",
    "No commit and no change of members for this long (30d), according to __consumer_offsets.",
    type=duration(),
)
@option(
    "--times-from",
    "PATH",
    "Commit times from an analysis (analyze --out DIR, or --table live "
    "-o ndjson > FILE), not from __consumer_offsets.",
    type=FILE,
)
@flag("--caught-up no_lag", "Only groups with nothing left to read.")
@flag("--generated", "Generated names: console-consumer-12345, spark-kafka-source-UUID.")
@flag("--unsubscribed", "Offsets of topics that no member of an active group subscribes to.")
@flag("--orphaned", "Offsets of topics and partitions that are gone, or of an earlier topic.")
@flag(
    "--no-rebuild",
    "With --orphaned: wait for the expiry of offsets that brokers delete only with their group, "
    "instead of deleting the group and restoring its other offsets.",
)
@option("--out", "PLAN.json", "Where to write the plan.", type=FILE)
@flag("--overwrite", "--out may exist.")
@cluster_options()
def plan(
    settings: Settings,
    output: Output,
    selection: Selection,
    out: Path | None,
    overwrite: bool,
    no_rebuild: bool,
    idle: int | None,
    times_from: Path | None,
    **flags: bool,
) -> None:
    """Find dead groups and offsets, and write a plan. Nothing is changed.

    Groups without members are looked for; with --unsubscribed or --orphaned, such offsets instead,
    in living groups too. All conditions must hold. What can't be told (a commit's time, a lag) is
    never guessed: such groups are left out and counted.
    """
    from kgtool.changes.cleanup.criteria import Criteria
    from kgtool.cli.cleanup import plan as cleanup_plan

    criteria = Criteria(idle_ms=idle, rebuild=not no_rebuild, **flags)
    if not (any(flags.values()) or idle is not None or selection.has_filter or selection.groups):
        raise UsageError(
            "cleanup plan needs a condition: --idle 30d, --caught-up, --generated, "
            "--unsubscribed, --orphaned, --state Empty, --match or --group."
        )
    if selection.is_given:
        selection.check("cleanup plan")
    selection.predicate()
    cleanup_plan.check_target(output, "out", out, overwrite)
    times = cleanup_plan.read_times(times_from, settings.timeout_ms)
    with open_session(settings, progress=True) as session:
        cleanup_plan.make(session, output, selection, criteria, out, times)


@command.command("apply", epilog=_APPLY)
@click.argument("path", type=click.Path(path_type=Path), metavar="PLAN.json")
@flag(
    "--skip-activity-check allow_blind",
    "Go on even if __consumer_offsets can't be read to see whether a group was "
    "used since the plan was made.",
)
@option("--rate", "N", "At most N groups a second.", type=RATE)
@change_options()
def apply(
    settings: Settings,
    output: Output,
    path: Path,
    allow_blind: bool,
    rate: float | None,
    change: ChangeOptions,
) -> int:
    """Carry out a plan, with a journal, so that it can be undone.

    Each group is checked again just before it is changed. One that has members now, was committed
    to since, or has other offsets or a re-created topic is skipped and named. The same command
    resumes an interrupted run where it stopped.
    """
    from kgtool.changes.cleanup.plan_reader import read
    from kgtool.cli.change import confirm
    from kgtool.cli.cleanup.apply import Apply

    found = read(path, settings.timeout_ms)
    confirm.require(change)
    with open_session(settings, progress=True) as session:
        session.connect()
        output.begin(CLEANUP_APPLY, session.cluster_id)
        run = Apply(session, output, found, path, change, rate=rate, allow_blind=allow_blind)
        return run.run()
