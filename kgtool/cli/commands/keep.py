"""``kgtool keep``: restart the expiry clock of committed offsets."""

from __future__ import annotations

from kgtool.changes.kinds.keep import GroupKeep, Keep, KeepRow
from kgtool.changes.plan import open_rows
from kgtool.cli.change import confirm
from kgtool.cli.change.run import ChangeRun
from kgtool.cli.describe.expiry import explain_rules
from kgtool.cli.options.change import ChangeOptions, change_options
from kgtool.cli.options.declare import declare, flag
from kgtool.cli.options.group_selection import Selection, choose
from kgtool.cli.options.shared import group_options, open_session
from kgtool.cli.output.errors import sentence
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import draw_for, preview
from kgtool.clock import now_ms
from kgtool.columns import Row, shown
from kgtool.columns.changes import KEEP
from kgtool.config import Settings
from kgtool.model import Target
from kgtool.net.session import Session
from kgtool.queries.log.reader import by_log
from kgtool.queries.offsets.fetch import AdaptiveBatches
from kgtool.text import counted, escape


@declare(
    "keep",
    "kgtool keep billing --dry-run",
    "kgtool keep billing --join --yes",
    "kgtool keep --all-groups --state Empty --join",
)
@group_options
@flag("--join", "Join and leave groups whose clock runs from when they became Empty.")
@change_options(all_or_nothing=True)
def command(
    settings: Settings, output: Output, selection: Selection, join: bool, change: ChangeOptions
) -> None:
    """Keep committed offsets for another full retention.

    Where an offset's clock runs from its commit, the same offset is committed again: standalone
    consumers and KIP-848 groups. The clock of a classic group runs from when it became Empty:
    --join joins and leaves it, which restarts that clock.
    """
    selection.check("keep")
    confirm.require(change)
    with open_session(settings, progress=True) as session:
        groups = choose(session, output, selection, KEEP).groups
        kind = Keep(now_ms, join=join)
        _KeepRun(session, output, kind, _in_log_order(session, change, groups), change).run()


def _in_log_order(session: Session, change: ChangeOptions, groups: list[str]) -> list[str]:
    """Return many groups by their partition of the log, which is read once then."""
    if not AdaptiveBatches(groups).are_many:
        return groups
    first = change.canary or 0
    by_partition = session.run(by_log(session.cluster, groups[first:]))
    return [*groups[:first], *by_partition]


class _KeepRun(ChangeRun[GroupKeep]):
    """There is nothing to undo: the offsets stay the same."""

    doing = "Keeping"
    kind: Keep
    _commits = _joins = 0
    _has_table = False

    def show(self, wave: list[GroupKeep]) -> None:
        output, rows, found = self.output, open_rows(*wave), self.kind.expiries
        for problem in found.errors:
            if problem not in output.errors:
                output.failed(problem)
                self.plan.is_off |= self.plan.all_or_nothing  # a broker whose log can't be read
        for line in explain_rules(g.broker for g in found.groups.values()):
            output.note_once(line)
        self._commits += sum(row.how == "commit" for row in rows)
        self._joins += len({row.group for row in rows if row.how == "join"})
        if rows and not self.options.dry_run:
            output.note_once("Committed offsets to keep:")
            preview(output, shown(KEEP), [_row(row) for row in rows])

    def question(self) -> str:
        parts = []
        if self._commits:
            parts.append(f"Commit {counted(self._commits, 'offset')} again")
        if self._joins:
            verb = "join and leave" if parts else "Join and leave"
            parts.append(f"{verb} {counted(self._joins, 'group')}")
        return f"{' and '.join(parts)}?"

    def report(self, groups: list[GroupKeep]) -> None:
        """Report the outcome of some groups."""
        output = self.output
        rows = [row for group in groups for row in group.rows]
        if rows and output.is_text:
            text = draw_for(output, shown(KEEP), [_row(row) for row in rows])
            output.text(text.partition("\n")[2] if self._has_table else text, end="")
            self._has_table = True
        for group in groups:
            if group.error is not None:
                output.failed(group.error)
            elif not group.rows:
                output.done += 1
                output.note(escape(f"Note: group {group.group} has no committed offset."))
            for row in group.rows:
                self._put(row)

    def _put(self, row: KeepRow) -> None:
        output = self.output
        if row.error is not None:  # once a group
            output.note_once(sentence(row.error._replace(target=Target(group=row.group))))
        output.item(_row(row), row.error, quiet=True)


def _row(row: KeepRow) -> Row:
    return build_row(row, KEEP, offset=row.value.offset)
