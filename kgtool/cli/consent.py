"""Asking before a change (contract, section 5): on a terminal, or never without ``--yes``."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from kgtool.cli.escape import escape
from kgtool.cli.output import Output
from kgtool.errors import KgError, UsageError

if TYPE_CHECKING:
    from kgtool.net.session import Session


class Declined(KgError):
    """The user said no."""

    name = "DECLINED"


def is_interactive() -> bool:
    """Whether somebody can read the question and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def require(yes: bool, dry_run: bool) -> None:
    """Raise UsageError, before anything is sent, where nobody could be asked."""
    if not (yes or dry_run or is_interactive()):
        raise UsageError("This changes the cluster, and there is no terminal to ask on: give --yes "
                         "to do it, or --dry-run to see what would be done.")  # fmt: skip


def ask(
    session: Session,
    output: Output,
    question: str,
    yes: bool,
    used: tuple[str, str] | None = None,
) -> None:
    """Ask, unless ``yes``; raise Declined on anything but yes. The time it takes does not count.

    :param used: a group that was used not long ago, and when: its name is to be typed.
    """
    if yes:
        return
    import click

    output.flush()
    began = time.monotonic()
    context = session.settings.context
    agreed = click.confirm(f"{_place(session)}{question}", err=True)
    if agreed and context is not None and context.is_protected:
        typed = click.prompt(f"{context.name} is protected; type its name to go on", err=True)
        agreed = typed == context.name
    if agreed and used is not None:
        group, when = used
        said = f"Group {escape(group)} was used {when}; type its name to go on"
        agreed = click.prompt(said, err=True) == group
    session.loop.extend(time.monotonic() - began)
    if not agreed:
        raise Declined("Stopped, nothing was changed.")


def _place(session: Session) -> str:
    """Return which cluster a question is about: the wrong one is the worst mistake of all."""
    context = session.settings.context
    named = "" if context is None else f" (context {escape(context.name)})"
    return f"Cluster {escape(session.cluster_id or 'without id')}{named}: "
