"""Groups and topics that do not exist are named at the end, with the nearest that does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kgtool.cli.app.suggest import nearest
from kgtool.cli.output.output import Output
from kgtool.errors import KgError
from kgtool.model import ItemError
from kgtool.net.session import Session
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND
from kgtool.text import escape, shell_word

_POINT_TO_EXPLAIN = ("describe", "lag")
"""Commands that say where the past of a group that does not exist is."""


class UnknownNames:
    """A context manager around the work of a session."""

    def __init__(self, session: Session, output: Output) -> None:
        self._session, self._output = session, output

    def __enter__(self) -> UnknownNames:
        self._output.hold_unknown()
        return self

    def __exit__(self, *error: object) -> None:
        self._output.release_unknown(self._suggestion if error[0] is None else None)

    def _suggestion(self, error: ItemError) -> str | None:
        is_group = error.code == GROUP_ID_NOT_FOUND
        name = error.target.group if is_group else error.target.topic
        near = nearest(name or "", self._groups if is_group else self._topics)
        said = [] if near is None else [f"Did you mean {escape(near)}?"]
        if is_group and name and self._output.command in _POINT_TO_EXPLAIN:
            said.append(f"If it was there once: kgtool explain {shell_word(name)}")
        return " ".join(said) or None

    @cached_property
    def _groups(self) -> list[str]:
        from kgtool.queries.groups.list import list_groups

        listing = list_groups(self._session.cluster)
        return self._names(lambda: [row.group for row in self._session.run(listing).groups])

    @cached_property
    def _topics(self) -> list[str]:
        from kgtool.queries.cluster.topics import all_topics

        return self._names(lambda: self._session.run(all_topics(self._session.cluster)))

    def _names(self, look: Callable[[], list[str]]) -> list[str]:
        try:
            return look()
        except KgError:
            return []  # no suggestion then
