"""The options of every change, as a value: consent, limits, where its journal goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kgtool.cli.options.declare import added, flag, option
from kgtool.cli.options.shared import all_rows_option, cluster_options, line_of
from kgtool.cli.options.types import Parsed, number
from kgtool.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


class ChangeOptions(NamedTuple):
    """What a command line asks of a change, whatever it changes."""

    yes: bool = False
    """Ask nothing."""
    dry_run: bool = False
    all_or_nothing: bool = False
    canary: int | None = None
    """So many groups first."""
    max_groups: int | None = None
    confirm: str | None = None
    """The id of a protected cluster that may be changed."""
    reason: str | None = None
    journal_copy: str | None = None
    """The URL of the journal's remote copy."""

    def checked(self) -> ChangeOptions:
        """Return the options; UsageError for two that exclude each other."""
        if self.all_or_nothing and self.canary is not None:
            raise UsageError("--canary and --all-or-nothing exclude each other.")
        return self


def change_options(*, required: bool = True, all_or_nothing: bool = False) -> Callable[[F], F]:
    """Give a command ``settings``, ``output`` and ``change: ChangeOptions``.

    :param all_or_nothing: also ``--all-or-nothing``, the first in its help.
    """

    def add(function: F) -> F:
        function = all_rows_option(
            change_params(_given(cluster_options(required=required)(function)))
        )
        return all_or_nothing_option(function) if all_or_nothing else function

    return add


def consent_options(function: F) -> F:
    """Give a command ``change: ChangeOptions``, of the options that approve it, and a dry run."""
    return _consent_params(_given(function), "Why, where a policy asks for it.")


_given = line_of(ChangeOptions, ChangeOptions.checked, "change")


def all_or_nothing_option(function: F) -> F:
    """Add ``--all-or-nothing``, which excludes ``--canary``."""
    return flag(
        "--all-or-nothing",
        "Do nothing unless all of it can be done; later failures are not rolled back.",
    )(function)


def change_params(function: F) -> F:
    """Declare the options of every change: ``--dry-run``, limits, and those that approve it."""
    limited = added(
        function,
        option("--max-groups", "N", "Refuse to change more than N groups.", type=number(0)),
        option("--canary", "N", "N groups first; stop if one fails.", type=number(1)),
        flag("--dry-run", "Show what would be done, and do nothing."),
        option("--journal-copy", "URL", "Keep the journal there too: s3://...", type=_URL),
    )
    return _consent_params(limited, "Why: kept in the journal.")


def _consent_params(function: F, reason: str) -> F:
    return added(
        function,
        option("--reason", "TEXT", reason),
        option("--confirm", "CLUSTER_ID", "The cluster's id, if it is protected."),
        flag("--yes", "Do not ask."),
    )


def _url(text: str, _option: str) -> str:
    """Return a URL; UsageError if it is not one."""
    from kgtool.changes.journal.remote_copy import check_url

    return check_url(text)


_URL = Parsed("url", _url)
