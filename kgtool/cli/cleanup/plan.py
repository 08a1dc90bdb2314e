"""``kgtool cleanup plan``: make a plan, show it and write it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from kgtool.changes.cleanup import commit_times_file, plan_file
from kgtool.changes.cleanup.commit_times_file import KnownTimes
from kgtool.changes.cleanup.criteria import Criteria, why_kept
from kgtool.changes.cleanup.facts import GroupFacts
from kgtool.changes.cleanup.plan import make_plan
from kgtool.changes.cleanup.plan_file import CleanupPlan, LeftOut, PlanItem
from kgtool.cli.change.journaled import SHARE_NOTE
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import looking
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import show_table
from kgtool.client.ops import grouped
from kgtool.clock import now_ms, token
from kgtool.columns import Row, shown
from kgtool.columns.changes import CLEANUP_PLAN
from kgtool.errors import ConfigError, MissingExtra
from kgtool.held import STDOUT
from kgtool.net.session import Session
from kgtool.text import counted, escape, listed, moment

WRITTEN = "Wrote {}: read it, edit it, then kgtool cleanup apply {}"
REASONS, NAMES = 5, 3
"""Reasons for skipping groups that are listed, and names of groups with each."""


def check_target(output: Output, option: str, out: Path | None, overwrite: bool) -> None:
    """Refuse, before anything is sent, a file that can't be written, or exists."""
    if output.give_stdout(option, out):
        return
    if out is not None and out.exists() and not overwrite:
        raise ConfigError(f"{out} exists: give --overwrite, or another name.")
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise ConfigError(f"{out} can't be a plan: name a file in a folder that exists.")
    if out is not None and not os.access(out.resolve().parent, os.W_OK):
        raise ConfigError(f"{out} can't be a plan: {out.absolute().parent} can't be written to.")


def make(
    session: Session,
    output: Output,
    given: Selection,
    criteria: Criteria,
    out: Path | None,
    times: KnownTimes | None,
) -> None:
    """Make a plan, show it and write it."""
    selection = given if given.is_given else given._replace(all_groups=True)
    chosen = choose(session, output, selection, CLEANUP_PLAN)
    options = {key: value for key, value in given._asdict().items() if value}
    commit_times = None if times is None else commit_times_file.times_of(times)
    making = make_plan(
        session.cluster,
        chosen.groups,
        chosen.kinds,
        criteria,
        options,
        now_ms(),
        token(),
        commit_times,
    )
    what = f"Looking at {counted(len(chosen.groups), 'group')}"
    with looking(output, session, what):
        made = session.run(making)
    plan = made.plan
    output.done += made.read
    for error in made.missing:
        output.failed(error)
    for error in made.failed:
        output.failed(error, quiet=True)  # the list of skipped groups gives the reason
    if made.skew is not None:
        output.note(made.skew)
    _show(output, plan, len(made.looked_at))
    for said in made.obstacles:
        output.note(f"Warning: {said}")
    if output.errors and not made.read:
        return  # no group could be read: an older plan is kept
    if not plan.items:
        output.note(nothing_to_do(made.looked_at, plan.left_out, criteria))
        if (
            out is not None and str(out) != STDOUT
        ):  # with --overwrite: an older plan is no longer what there is to do
            out.unlink(missing_ok=True)
    elif out is not None:
        plan_file.write(plan, out)
        output.wrote(out, WRITTEN)
    else:
        output.note("Nothing was written: --out PLAN.json saves it.")


def nothing_to_do(
    looked_at: Sequence[GroupFacts], left_out: Iterable[LeftOut], criteria: Criteria
) -> str:
    """Return why there is no plan to write, by which condition kept how many groups."""
    skipped = {each.group for each in left_out}
    kept = Counter(why_kept(f, criteria) for f in looked_at if f.description.group not in skipped)
    said = ", ".join(f"{count} {why}" for why, count in kept.most_common(REASONS))
    return "No plan was written: nothing meets the conditions" + (f" ({said})." if said else ".")


def read_times(path: Path | None, timeout_ms: int) -> KnownTimes | None:
    """Read the commit times that an analysis has found."""
    if path is None:
        return None
    if not path.is_dir():
        return commit_times_file.read_file(path, timeout_ms)
    try:
        from kgtool.analysis.table_files import read_live

        return commit_times_file.from_rows(path, read_live(path))
    except ImportError as error:
        raise MissingExtra(
            f"Reading the tables in {path} needs {error.name}, which is not installed.",
            hint="pip install 'kafka-kgtool[analyze]', or name a file of --table live -o ndjson.",
        ) from None


def row_of(item: PlanItem) -> Row:
    """Return an item as a row of ``cleanup plan``."""
    return build_row(item, CLEANUP_PLAN, offsets=len(item.offsets), why=list(item.why))


def _show(output: Output, plan: CleanupPlan, looked_at: int) -> None:
    rows = [row_of(item) for item in plan.items]
    for row in rows:
        output.row(row)
    show_table(output, shown(CLEANUP_PLAN), rows, page=True)
    output.close_pager()  # what it comes to stays on the screen
    output.note(summary(plan.items, looked_at))
    say_share(output, plan.items)
    say_left_out(output, plan.left_out)


def say_share(output: Output, items: Iterable[PlanItem]) -> None:
    """Say what of share groups does not come back."""
    if any(item.changes and item.type == "share" for item in items):
        output.note(SHARE_NOTE)


def summary(items: Sequence[PlanItem], looked_at: int | None = None) -> str:
    """Return the totals of some items in one line."""
    found = plan_file.totals(items)
    checked = "" if looked_at is None else f"Checked {counted(looked_at, 'group')}: "
    said = (
        f"{checked}{counted(found.groups, 'group')}, {counted(found.offsets, 'offset')}, "
        f"lag {found.lag:,}"
    )
    if found.youngest_ms is not None:
        said += f", latest commit {moment(found.youngest_ms)}"
    unknown = sum(item.lag is None for item in items if item.changes)
    if unknown:
        said += f" (lag of {unknown} unknown)"
    waiting = sum(item.action == plan_file.WAIT for item in items)
    return said + (f"; {waiting} to wait for." if waiting else ".")


def say_left_out(output: Output, left_out: Iterable[LeftOut]) -> None:
    """Report groups that are not in the plan because something about them is unknown."""
    groups = grouped((each.why, each.group) for each in left_out)
    total = len({name for names in groups.values() for name in names})
    if not total:
        return
    output.note(f"Skipped, not enough information: {counted(total, 'group')}.")
    by_reason = Counter({why: len(names) for why, names in groups.items()})
    for why, count in by_reason.most_common(REASONS):
        shown = listed(groups[why], NAMES)
        output.note(escape(f"  {count}: {why.rstrip('.')} ({shown})"))
    if len(by_reason) > REASONS:
        output.note(f"  and {len(by_reason) - REASONS} more reasons: the plan has all.")
