"""Journaled changes of the commands (see ``changes.journal.change``), and waiting for members."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kgtool.changes.groups.members import still_busy
from kgtool.changes.journal import change
from kgtool.changes.journal.folder import default_folder
from kgtool.changes.journal.journal import DONE
from kgtool.changes.policy import Origin
from kgtool.cli.options.change import ChangeOptions
from kgtool.cli.output.output import Output
from kgtool.clock import now_ms, token
from kgtool.config.policy import unused_guards
from kgtool.model import GroupDescription
from kgtool.net.session import Session
from kgtool.text import escape, listed

UNDO_NOTE = (
    "The current offsets are saved in the journal first: kgtool undo restores them. Their "
    "expiry clocks restart then, and a KIP-848 group's epochs do not come back."
)
"""Shown before offsets are changed, in the subcommand form."""

UNDO_NOTE_GROUPS = (
    "The current offsets are saved in the journal first: kgtool undo restores them, and "
    "with them the groups. Protocol type, epochs and expiry clocks do not come back."
)
"""Shown before groups are deleted."""


def bare_note(groups: Sequence[str]) -> str:
    """Say of groups without offsets that nothing restores them."""
    them = escape(listed(groups, 5, " and {} more"))
    return f"Note: {them}: no offsets, so undo does not bring it back."


SHARE_NOTE = (
    "Warning: share groups lose the delivery state after their start offsets (records in flight, "
    "acknowledged out of order); undo restores the start offsets only."
)
"""Shown before offsets of share groups are changed."""

LOOK_AGAIN_SECONDS = 0.5


def journal_folder() -> Path:
    """Return the folder of this user's journals; it need not exist."""
    return default_folder(os.environ, Path.home())


def origin(output: Output, change: ChangeOptions, undoes: str | None = None) -> Origin:
    """Return the change's origin: the command line and its options about changes."""
    return Origin(
        output.command,
        output.arguments,
        change.reason,
        undoes,
        change.confirm,
        change.max_groups,
        change.journal_copy,
    )


def note_unused_guards(session: Session, output: Output) -> None:
    """Say which contexts would guard this address, had they been used once."""
    chosen = session.settings.context
    for name in unused_guards(session.settings.bootstrap):
        if chosen is None or chosen.name != name:
            output.note_once(
                f"Note: the context {name} guards this address only as --context {name}, as it was "
                f"never used: kgtool --context {name} list learns the cluster's id."
            )


def wait_until_empty(
    session: Session,
    groups: Iterable[str],
    until: float,
    say: Callable[[list[GroupDescription]], None] | None = None,
) -> list[GroupDescription]:
    """Wait for members to leave; return the groups that still have some.

    The waiting does not count against ``--timeout``.

    :param until: by ``time.monotonic()``.
    :param say: called once, with the groups that have members.
    """
    left = list(groups)
    while True:
        began = time.monotonic()
        busy = session.run(still_busy(session.cluster, left))
        seconds = until - time.monotonic()
        if busy and seconds > 0:
            if say is not None:
                say(busy)
                say = None
            time.sleep(min(LOOK_AGAIN_SECONDS, seconds))
        session.loop.extend(time.monotonic() - began)
        if not busy or seconds <= 0:
            return busy
        left = [group.group for group in busy]


class CommandChange(change.Change):
    """A change with its messages on stderr.

    :param undoes: the id of the journal that this change undoes.
    :param command: the kind of change, where it is not the command's name.
    """

    def __init__(
        self,
        session: Session,
        output: Output,
        options: ChangeOptions,
        *,
        undoes: str | None = None,
        command: str | None = None,
    ) -> None:
        timer = change.Timer(now_ms, time.monotonic, time.sleep, token)
        said = origin(output, options, undoes)
        note_unused_guards(session, output)
        super().__init__(
            session,
            said._replace(command=command or said.command),
            journal_folder(),
            timer,
            say=lambda text: output.note(escape(text)),
        )
        self._output = output

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # If stdout is lost, the command may not get to count what it has changed.
        self._output.has_changed |= self.journal is not None and self.journal.outcomes[DONE] > 0
        self._output.before_end.append(self.say)
        super().__exit__(kind, error, trace)
