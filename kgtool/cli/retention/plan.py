"""Plans of ``kgtool retention``: making one, and applying one, or a file of rules at once."""

from __future__ import annotations

from pathlib import Path

from kgtool.changes.cleanup import plan_file
from kgtool.changes.cleanup.plan_file import ACTIONS, KEEP_OFFSETS, CleanupPlan
from kgtool.changes.cleanup.plan_reader import BadPlan, read_held
from kgtool.changes.restore.from_journal import check_cluster
from kgtool.changes.retention.apply import refused_rows
from kgtool.changes.retention.decide import DUE, RetentionRow
from kgtool.changes.retention.late import LastRun, Since, find_lost
from kgtool.changes.retention.look import make_plan
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import journal_folder
from kgtool.cli.cleanup.plan import summary
from kgtool.cli.options.shared import open_session
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import show_table
from kgtool.cli.retention.apply import RetentionApply, RetentionOptions
from kgtool.cli.retention.look import Found, find, row_of, say_join
from kgtool.clock import token
from kgtool.columns import shown
from kgtool.columns.changes import RETENTION
from kgtool.config import Settings
from kgtool.config.retention import RetentionRules, Rule
from kgtool.held import HeldFile
from kgtool.net.session import Session
from kgtool.text import counted, escape

WRITTEN = "Wrote {}: read it, edit it, then kgtool retention apply {}"


def make(session: Session, output: Output, rules: RetentionRules, out: Path) -> None:
    """Plan what is due, show it and write it."""
    found = find(session, output, rules)
    say_join(output, found.looked, join=False)
    plan = make_plan(session.cluster_id, found.looked, rules, found.now_ms, token())
    output.done += len(found.looked.groups)
    rows = [row_of(row) for row in found.rows if row.status == DUE or row.error is not None]
    for row in rows:
        output.row(row)
    show_table(output, shown(RETENTION), rows, page=True)
    output.close_pager()
    kept = [item for item in plan.items if item.action == KEEP_OFFSETS]
    offsets = sum(len(item.offsets) for item in kept)
    output.note(
        f"Kept again: {counted(offsets, 'offset')} of {counted(len(kept), 'group')}. "
        f"Removed: {summary(plan.items)}"
    )
    if not plan.items:
        output.note("No plan was written: nothing is due.")
        return
    plan_file.write(plan, out)
    output.wrote(out, WRITTEN)


def is_plan(file: HeldFile) -> bool:
    """Whether it is a plan: TOML does not begin with ``{``."""
    with file.open() as content:
        return content.read(4096).lstrip()[:1] == b"{"


def apply_file(
    settings: Settings, output: Output, rules: RetentionRules, options: RetentionOptions
) -> None:
    """Plan what is due by a file of rules, and apply it."""
    confirm.require(options.change)
    with open_session(settings, progress=True) as session:
        found = find(session, output, rules)
        say_join(output, found.looked, join=options.join)
        plan = make_plan(session.cluster_id, found.looked, rules, found.now_ms, token())
        run = RetentionApply(session, output, plan, rules, found.looked.memory.first_ms, options)
        last = LastRun(journal_folder(), _place(rules), session.cluster_id)
        for row in (*refused_rows(found.looked, found.now_ms), *_lost(session, found, rules, last)):
            run.put(row)
        run.run()
        problem = None if options.change.dry_run else last.write(found.now_ms)
        if problem is not None:
            output.note(escape(f"Note: the next run can't tell whether it is late: {problem}"))


def _place(rules: RetentionRules) -> str:
    """Return the name of a file of rules, from wherever it is called."""
    return str(Path(rules.where).absolute())


def _lost(
    session: Session, found: Found, rules: RetentionRules, last: LastRun
) -> list[RetentionRow]:
    """Return what has expired since the last run, if this one is late."""
    last_ms, broker_ms = last.read(), found.looked.broker_ms
    if last_ms is None or broker_ms is None:
        return []
    since = Since(last_ms, broker_ms)
    if not since.is_late(found.now_ms):
        return []
    return session.run(find_lost(session.cluster, rules, since, found.remember, found.looked.kinds))


def apply_plan(
    settings: Settings, output: Output, file: HeldFile, path: Path, options: RetentionOptions
) -> None:
    """Apply a plan that was reviewed."""
    plan = read_held(file, path, (*ACTIONS, KEEP_OFFSETS))
    rules = _rules(plan, path)
    confirm.require(options.change)
    with open_session(settings, progress=True) as session:
        session.connect()
        output.begin(RETENTION, session.cluster_id)
        if plan.header.cluster_id is None:
            raise BadPlan(f"{path} does not say which cluster it is about.")
        way_on = "kgtool retention plan makes a plan of this cluster"
        check_cluster(path, plan.header.cluster_id, session.cluster_id, way_on)
        # The journals tell later from which time these counted: each notes the time before.
        RetentionApply(session, output, plan, rules, {}, options).run()


def _rules(plan: CleanupPlan, path: Path) -> RetentionRules:
    """Return the rules that a plan was made of."""
    told = plan.header.criteria.get("retention")
    try:
        rules = [
            Rule(
                number,
                tuple(map(str, each["match"])),
                each["retention_ms"],
                types=tuple(each.get("type", ())),
            )
            for number, each in enumerate(told, 1)  # type: ignore[arg-type]
        ]
    except (TypeError, KeyError, AttributeError):
        raise BadPlan(
            f"{path} is not a plan of kgtool retention.", hint="kgtool cleanup apply takes it."
        ) from None
    return RetentionRules(str(path), tuple(rules))
