"""``kgtool retention``: a retention for each group, by rules in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kgtool.cli.app.help import examples
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import FILE, flag, group, option
from kgtool.cli.options.shared import (
    cluster_options,
    connection_params,
    open_session,
    output_params,
)
from kgtool.cli.output.output import Output
from kgtool.config import Settings
from kgtool.held import hold

_APPLY = examples(
    "kgtool retention apply retention.toml --dry-run",
    "kgtool retention apply retention.toml --yes",
    "kgtool retention apply plan.json --canary 10",
)


@group(
    "retention",
    "kgtool retention show retention.toml",
    "kgtool retention apply retention.toml --yes",
    "kgtool retention plan retention.toml --out plan.json",
)
@connection_params
@output_params
def command(**_given: Any) -> None:
    """Give groups a retention of their own, longer or shorter than the broker's.

    Brokers have one retention for all groups (offsets.retention.minutes). FILE has rules in TOML,
    of which the first that matches a group holds; what matches nothing is left to the broker:

    \b
      [[groups]]
      match = "payments-*"      # or a list
      retention = "90d"         # or "never"
      type = "streams"          # optional: share and streams groups only by type

    Longer: the same offsets are committed again when less than half of the broker's retention is
    left, as kgtool keep does. Shorter: offsets of groups without members whose last commit is
    older are deleted, and with the last one the group, as kgtool cleanup does. Run apply from cron.
    """


_file = click.argument("path", type=FILE, metavar="FILE")


@command.command("show", epilog=examples("kgtool retention show retention.toml"))
@_file
@cluster_options()
def show(settings: Settings, output: Output, path: Path) -> None:
    """Show each group with its rule, and what would happen when.

    kgtool retention --help says what FILE has. Without one, kgtool list --expiring-within 7d shows
    what the broker's own retention removes.
    """
    from kgtool.cli.retention import look
    from kgtool.config.retention import read_rules

    rules = read_rules(hold(path, settings.timeout_ms))
    with open_session(settings, progress=True) as session:
        look.show(session, output, rules)


@command.command("plan", epilog=examples("kgtool retention plan retention.toml --out plan.json"))
@_file
@option("--out", "PLAN.json", "Where to write the plan.", type=FILE, required=True)
@flag("--overwrite", "--out may exist.")
@cluster_options()
def plan(settings: Settings, output: Output, path: Path, out: Path, overwrite: bool) -> None:
    """Find what is due now, and write a plan to review. Nothing is changed."""
    from kgtool.cli.cleanup.plan import check_target
    from kgtool.cli.retention.plan import make
    from kgtool.config.retention import read_rules

    check_target(output, "out", out, overwrite)
    rules = read_rules(hold(path, settings.timeout_ms))
    with open_session(settings, progress=True) as session:
        make(session, output, rules, out)


@command.command("apply", epilog=_APPLY)
@click.argument("path", type=FILE, metavar="FILE|PLAN.json")
@flag("--join", "Join and leave groups whose clock runs from when they became Empty.")
@flag(
    "--skip-activity-check allow_blind",
    "Delete even if __consumer_offsets can't be read to see whether a group was used meanwhile.",
)
@change_options()
def apply(
    settings: Settings,
    output: Output,
    path: Path,
    join: bool,
    allow_blind: bool,
    change: ChangeOptions,
) -> None:
    """Commit again, and delete, what is due by a file or a plan.

    Offsets are looked at again just before they are changed: what was committed since is left
    alone. Nothing to do is success, so it can run from cron with --yes, at least as often as it
    says. A run that comes late names what has expired since the one before, with the kgtool recover
    line. A longer retention with an end counts from the last commit that was not kgtool's own,
    which the journal tells (KGTOOL_JOURNAL_DIR): keep it between the runs.
    """
    from kgtool.cli.retention.apply import RetentionOptions
    from kgtool.cli.retention.plan import apply_file, apply_plan, is_plan
    from kgtool.config.retention import read_rules

    options = RetentionOptions(change, join, allow_blind)
    file = hold(path, settings.timeout_ms)
    if is_plan(file):
        apply_plan(settings, output, file, path, options)
    else:
        apply_file(settings, output, read_rules(file), options)
