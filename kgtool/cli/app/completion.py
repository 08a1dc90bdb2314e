"""Names for shell completions: groups and topics of the cluster that the line names, contexts, and
the changes that ``undo`` can take.

``_KGTOOL_COMPLETE=groups kgtool WORD...`` prints one name a line, or nothing: never an error, and
never later than 300 ms after its start, because somebody waits at a prompt. The scripts in
``completions/`` call it with the words of the line.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kgtool.cli.app.argv import last_value

if TYPE_CHECKING:
    from kgtool.net.session import Session

VARIABLE = "_KGTOOL_COMPLETE"
BUDGET_VARIABLE = "KGTOOL_COMPLETE_MS"
BUDGET_MS = 300
KINDS = ("groups", "topics", "contexts", "journals")
_GONE_MS = 2 * 24 * 3_600_000
"""How old the tombstones are that ``recover`` is completed by; small logs are read whole."""
_EXIT_MS = 20
"""How long the exit takes."""


def print_names(kind: str, words: Sequence[str]) -> int:
    """Print the names of one of ``KINDS``; return 0."""
    budget = os.environ.get(BUDGET_VARIABLE, "")
    budget_ms = int(budget) if budget.isascii() and budget.isdigit() else BUDGET_MS
    left_ms = budget_ms - _age_ms() - _EXIT_MS
    if left_ms <= 0 or kind not in KINDS:
        return 0
    # Also while a name server is being waited for.
    deadline = threading.Timer(left_ms / 1000, os._exit, (0,))
    deadline.daemon = True
    deadline.start()
    try:
        found = _journals() if kind == "journals" else _find_names(kind, words, int(left_ms))
        # No control character reaches the shell, but the tab before what a name is.
        typeable = [name for name in found if name.partition("\t")[0].isprintable()]
        if kind != "journals":
            typeable = sorted(name for name in filter(None, typeable) if "\t" not in name)
        sys.stdout.write("".join(f"{name}\n" for name in typeable))
        sys.stdout.flush()
    except Exception:  # noqa: BLE001 - a prompt is no place for any error
        return 0
    return 0


def _age_ms() -> float:
    """Return the age of this process; its CPU time where that is unknown."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return (time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time() * 1000


def _journals() -> Iterator[str]:
    """Yield the changes that can be undone, the newest first: its ID, a tab, what it was."""
    from kgtool.changes.journal.history import entries
    from kgtool.changes.journal.journal import DONE, INTERRUPTED
    from kgtool.cli.change.journaled import journal_folder
    from kgtool.text import counted, escape, moment

    for entry in entries(journal_folder(), lambda _error: None):
        if entry.state in (DONE, INTERRUPTED):
            what = f"{counted(entry.groups, 'group')}, {counted(entry.changes, 'change')}"
            text = f"{entry.command} of {moment(entry.at_ms)}, {what}"
            reason = entry.header.get("reason")
            yield f"{entry.id}\t" + escape(f"{text}: {reason}" if reason else text)


def _find_names(kind: str, words: Sequence[str], timeout_ms: int) -> Iterable[str]:
    if kind == "contexts":
        from kgtool.config.contexts import load

        return load().by_name
    from kgtool.queries.cluster.topics import all_topics
    from kgtool.queries.groups.list import list_groups

    with _session(words, timeout_ms) as session:
        if kind == "topics":
            return session.run(all_topics(session.cluster))
        if "recover" in words:
            from kgtool.queries.log.gone import gone_groups

            since_ms = int(time.time() * 1000) - _GONE_MS
            return session.run(gone_groups(session.cluster, since_ms))
        return [row.group for row in session.run(list_groups(session.cluster)).groups]


def _session(words: Sequence[str], timeout_ms: int) -> Session:
    """Return a session as the options of the line, which may be incomplete, ask for."""
    from kgtool import config
    from kgtool.net.session import Session

    options = ("bootstrap-server", "command-config", "context")
    server, file, context = (last_value(words, option) for option in options)
    settings = config.settings(server, file, context=context)
    if settings is None:
        raise ValueError("the line names no cluster")
    return Session(settings._replace(timeout_ms=timeout_ms))
