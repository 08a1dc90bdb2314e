"""Confirmation before a change: a question on a terminal, or ``--yes``.

Whether the change is allowed at all is decided by ``kgtool.changes.policy``. A protected cluster
is confirmed here by typing the name of its context.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

import click

from kgtool.changes.policy import Guard
from kgtool.cli.change.journaled import note_unused_guards, origin
from kgtool.cli.options.change import ChangeOptions
from kgtool.cli.output.output import Output
from kgtool.clock import now_ms
from kgtool.errors import KgError, UsageError
from kgtool.net.session import Session
from kgtool.text import addresses, escape


class Declined(KgError):
    """The user said no."""

    name = "DECLINED"


def is_interactive() -> bool:
    """Whether a question can be read and answered."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require(change: ChangeOptions) -> None:
    """Raise UsageError, before anything is sent, if there is no terminal to ask on."""
    if not (change.yes or change.dry_run or is_interactive()):
        raise UsageError(
            "This changes the cluster, and there is no terminal to ask on: give --yes "
            "to do it, or --dry-run to see what would be done."
        )


def ask(
    session: Session,
    output: Output,
    change: ChangeOptions,
    question: str,
    used: tuple[str, str | None] | None = None,
    *,
    groups: Collection[str] = (),
    offsets: int = 0,
    is_raw: bool = False,
) -> ChangeOptions:
    """Ask, unless ``--yes``.

    Return the options, with the protected cluster that was confirmed by its name.

    :param used: a group in recent use, and when (None: unknown): its name must be typed.
    :param groups: all that will be changed, with their number of ``offsets``.
    :param is_raw: whether it is a raw request, whose groups and offsets are unknown.
    :raises Declined: the answer is no.
    :raises PolicyRefused: the policy does not allow the change.
    """
    names: Collection[str] = ()
    guard = Guard(session, origin(output, change))
    if not change.yes and change.confirm is None and not guard.is_confirmed():
        names = guard.rules.protected_by
        change = change._replace(confirm=guard.key)  # the name is typed below
        guard = Guard(session, origin(output, change))
    if is_raw:
        guard.check_unseen()
    guard.admit(groups, offsets)
    note_unused_guards(session, output)
    if change.yes:
        return change
    with _asking(session, output):
        _ask(session, output, question, names, used)
    return change


def agree(session: Session, output: Output, question: str) -> bool:
    """Ask for a part of a change that was agreed to."""
    with _asking(session, output):
        return click.confirm(question, err=True)


@contextmanager
def _asking(session: Session, output: Output) -> Iterator[None]:
    """Draw no progress; the time until the answer does not count."""
    began = time.monotonic()
    output.is_asking = True
    try:
        yield
    finally:
        output.is_asking = False
        session.loop.extend(time.monotonic() - began)


def note_refusal(
    session: Session,
    output: Output,
    change: ChangeOptions,
    groups: Collection[str],
    offsets: int = 0,
    *,
    removes: bool = False,
    is_blind: Callable[[str], bool] = lambda _group: False,
) -> None:
    """Note below a preview why the policy would refuse the change.

    :param removes: whether offsets are removed: a policy may allow that for idle groups only.
    :param is_blind: whether undo may not cover all of a group.
    """
    if not groups:
        return
    said = origin(output, change)
    guard = Guard(session, said)
    note_unused_guards(session, output)
    try:
        if said.confirm is None and is_interactive() and not output.is_kafka_form:
            guard = Guard(session, said._replace(confirm=guard.key))  # the question asks for it
        guard.admit(groups, offsets)
        if removes:
            guard.admit_removal(groups, now_ms(), is_blind)
    except KgError as error:
        hint = f" {error.hint}" if error.hint else ""
        output.note(escape(f"Note: the change would be refused. {error.message}{hint}"))


def _forget_input() -> None:
    """Drop what was typed before the question was there."""
    with suppress(ImportError):
        import termios

        with suppress(OSError, ValueError, termios.error):  # not a terminal
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _ask(
    session: Session,
    output: Output,
    question: str,
    names: Collection[str],
    used: tuple[str, str | None] | None,
) -> None:
    output.flush()
    # The wrong cluster is the worst mistake: its name comes first.
    context = session.settings.context
    place = escape(addresses(session.settings.bootstrap))
    if context is not None:
        place = f"{escape(context.name)} ({place})"
    _forget_input()
    try:
        agreed = click.confirm(f"{place}: {question}", err=True)
    except click.Abort:
        output.note("")  # the question's line has no end yet
        raise
    if agreed and names:
        listed = " or ".join(map(escape, names))
        agreed = click.prompt(f"{listed} is protected. Type its name to confirm", err=True) in names
    if agreed and used is not None:
        group, when = used
        said = f"Groups that changed within the day: the latest commit was {when}"
        if when is None:
            said = f"When {escape(group)} last committed is unknown"
        agreed = click.prompt(f"{said}. Type the latest, {escape(group)}", err=True) == group
    if not agreed:
        raise Declined("Nothing changed.")
