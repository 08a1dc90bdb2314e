"""One run of a command that changes groups: preview, question, report. The rest is the driver's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Protocol

from kgtool.changes.driver import Canary, Driver, Kind
from kgtool.changes.plan import ChangePlan, GroupT
from kgtool.cli.change import confirm
from kgtool.cli.change.journaled import SHARE_NOTE, UNDO_NOTE, CommandChange
from kgtool.cli.options.change import ChangeOptions
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import Meter
from kgtool.net.session import Session
from kgtool.text import counted

Used = tuple[str, "str | None"]
"""A group in recent use, and when (None: unknown)."""


class ChangeRun(Generic[GroupT]):
    """What the commands have in common; each has its own words.

    :param groups: the groups that were chosen.
    """

    doing = "Changing"
    """For the progress line."""
    always_plans = False
    """Whether Kafka's form, too, shows what would be done."""
    has_share = False
    """Whether any of the groups is a share group."""
    has_other = False
    """Whether any is another group."""
    removes = False
    """Whether offsets are removed: a policy may allow that for idle groups only."""
    undoes: str | None = None
    """The id of the journal that is undone."""
    journal_id: str | None = None
    """The id of the journal, once the change is made."""

    def __init__(
        self,
        session: Session,
        output: Output,
        kind: Kind[GroupT],
        groups: Sequence[str],
        options: ChangeOptions,
    ) -> None:
        self.session = session
        self.output = output
        self.kind = kind
        self.groups = list(dict.fromkeys(groups))
        self.options = options
        all_or_nothing = options.all_or_nothing
        self.plan = ChangePlan[GroupT](all_or_nothing=all_or_nothing)
        # Patterns without a match and brokers that did not list their groups are errors already.
        self.plan.is_off = all_or_nothing and bool(output.errors)
        self._driver = Driver(session, kind, all_or_nothing=all_or_nothing)
        self.begin()

    def begin(self) -> None:
        """Begin what the command counts and remembers."""

    def run(self) -> None:
        """Plan, ask, change and report; Kafka's form plans only where it has to."""
        is_kafka_form = self.output.is_kafka_form
        is_planned = (
            self.always_plans
            or not is_kafka_form
            or self.options.dry_run
            or self.plan.all_or_nothing
        )
        with self.plan:
            if is_planned:
                self.look()
                if self.options.dry_run or self.plan.is_off or not self.plan.groups:
                    self.preview()
                    return
            if not is_kafka_form:
                self.show_plan()
                self.ask()
            self.change(is_planned=is_planned)

    def look(self) -> None:
        """Plan, and show the plan."""
        with Meter(self.output, "Looking", len(self.groups)) as meter:

            def show(wave: list[GroupT]) -> None:
                self.has_share |= any(map(_is_share, wave))
                self.has_other |= not all(map(_is_share, wave))
                self.show(wave)
                meter.add(len(wave))

            self._driver.look(self.plan, self.groups, show)

    @property
    def offset_word(self) -> str:
        """What is changed: a share group has start offsets."""
        if not self.has_share:
            return "committed offset"
        return "offset" if self.has_other else "start offset"

    def note_undo(self) -> None:
        """Say what undo brings back, and what it does not."""
        if self.has_other or not self.has_share:
            self.output.note(UNDO_NOTE)
        if self.has_share:
            self.output.note(SHARE_NOTE)

    def preview(self) -> None:
        """Report what would be done."""
        self.plan.report(self.report)
        self.finish()
        self.note_refusal()

    def note_refusal(self) -> None:
        """Note why a policy would refuse the change."""
        confirm.note_refusal(
            self.session,
            self.output,
            self.options,
            [] if self.plan.is_off else list(self.plan.groups),
            self.plan.offsets,
            removes=self.removes,
            is_blind=self.is_blind,
        )

    def ask(self) -> None:
        """Ask, unless ``--yes``."""
        used = None if self.options.yes else self.used()
        plan = self.plan
        self.options = confirm.ask(
            self.session,
            self.output,
            self.options,
            self.question(),
            used,
            groups=plan.groups,
            offsets=plan.offsets,
        )

    def change(self, *, is_planned: bool = True) -> None:
        """Make the change, and report it, also where an error ends it."""
        total = len(self.plan.groups if is_planned else self.groups)
        go_on = go_on_after(self.session, self.output, self.options, total)
        canary = Canary(self.options.canary, total, go_on)
        change = CommandChange(self.session, self.output, self.options, undoes=self.undoes)
        try:
            with change, Meter(self.output, self.doing, total) as meter:

                def report(wave: list[GroupT]) -> None:
                    self.report(wave)
                    meter.add(len(wave))

                if is_planned:
                    self._driver.apply(change, self.plan, report, canary)
                else:
                    self._driver.at_once(change, self.groups, report, canary)
        except BaseException:
            self.finish(is_whole=False)
            raise
        self.finish()
        self.journal_id = change.journal_id
        change.say()

    # -- what a command says ---------------------------------------------------------------

    def show(self, wave: list[GroupT]) -> None:
        """Show a wave of the plan, on stderr."""

    def show_plan(self) -> None:
        """Show what is known only of the whole plan, before the question."""

    def used(self) -> Used | None:
        """Return a group in recent use, whose name must be typed."""
        return None

    def question(self) -> str:
        """Return the question."""
        raise NotImplementedError

    def is_blind(self, _group: str) -> bool:
        """Whether undo may not cover all of a group."""
        return False

    def report(self, wave: list[GroupT]) -> None:
        """Report the outcome of a wave."""
        raise NotImplementedError

    def finish(self, *, is_whole: bool = True) -> None:
        """Report what is said at the end; not ``is_whole``: an error has ended the run."""


def _is_share(group: Any) -> bool:
    known = getattr(group, "description", None)
    return bool(getattr(group, "is_share", False)) or getattr(known, "type", None) == "share"


# ---------------------------------------------------------------------------------------------
# --canary N: change N groups first, and the rest only if that went well.


class GoOn(Protocol):
    """Called after the canary with the counts of its groups."""

    def __call__(self, done: int, failed: int, skipped: int = 0) -> bool:
        """Return whether to go on with the rest."""


def go_on_after(session: Session, output: Output, options: ChangeOptions, total: int) -> GoOn:
    """Return what asks after a canary, or stops if it failed and no one can be asked."""

    def go_on(done: int, failed: int, skipped: int = 0) -> bool:
        rest = counted(total - done, "group")
        finished = counted(done, "group")
        output.note(f"Canary: {finished} done, {skipped} of them left alone, {failed} failed.")
        try:
            if not options.yes:
                confirm.ask(session, output, options, f"Go on with the other {rest}?")
            elif failed:
                raise confirm.Declined("The canary failed.")
        except confirm.Declined:
            output.note(f"Stopped after the canary; {rest} not touched.")
            return False
        return True

    return go_on
