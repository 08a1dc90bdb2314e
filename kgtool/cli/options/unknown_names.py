"""Groups and topics that do not exist are named at the end, with the nearest that does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from kgtool.cli.app.nearest import nearest
from kgtool.cli.output.output import Output
from kgtool.errors import KgError
from kgtool.model import ItemError
from kgtool.net.session import Session
from kgtool.protocol.codes import UNKNOWN_TOPIC_OR_PARTITION
from kgtool.text import escape, shell_word

_POINT_TO_EXPLAIN = ("describe", "lag")
"""Commands that say where the past of a group that does not exist is."""
MOST_ASKED = 10
"""The most names that others are looked for."""


class UnknownNames:
    """A context manager around the work of a session."""

    def __init__(self, session: Session, output: Output) -> None:
        self._session, self._output = session, output
        self._said: dict[tuple[bool, str], str | None] = {}

    def __enter__(self) -> UnknownNames:
        self._output.hold_unknown(self._suggestion)
        return self

    def __exit__(self, *error: object) -> None:
        self._output.release_unknown(may_ask=error[0] is None)

    def _suggestion(self, error: ItemError) -> str | None:
        is_group = error.code != UNKNOWN_TOPIC_OR_PARTITION
        name = (error.target.group if is_group else error.target.topic) or ""
        asked = (is_group, name)
        if asked not in self._said and len(self._said) < MOST_ASKED:
            self._said[asked] = self._look(is_group, name)
        return self._said.get(asked)

    def _look(self, is_group: bool, name: str) -> str | None:
        known = self._groups if is_group else self._topics
        parts = name.split(",")
        if name in known:
            return None
        if len(parts) > 1 and {*parts} <= {*known}:
            return f"Did you mean {escape(' '.join(parts))}, with blanks?"
        near = nearest(name, known)
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
