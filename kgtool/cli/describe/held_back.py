"""Holds back the news that a group is missing: it may be of a type that has other APIs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgtool.cli.output.output import Sink
from kgtool.model import ItemError
from kgtool.protocol.codes import GROUP_ID_NOT_FOUND

if TYPE_CHECKING:
    from kgtool.cli.describe.query import Found
    from kgtool.cli.describe.view import View
    from kgtool.net.session import Session


class HeldBack:
    """A sink that keeps what is said of groups that may be of another type."""

    def __init__(self, sink: Sink, names: Sequence[str]) -> None:
        self._errors: dict[str, ItemError] = {}
        self._sink = sink
        self._names = set(names)

    def begin(self, columns: Sequence[str] = (), cluster_id: str | None = None) -> None:
        """Pass it on."""
        self._sink.begin(columns, cluster_id)

    def failed(self, error: ItemError) -> None:
        """Keep the news that a group is missing; pass on everything else."""
        name = error.target.group
        if name in self._names and error.target.topic is None and error.code == GROUP_ID_NOT_FOUND:
            self._errors[str(name)] = error
        else:
            self._sink.failed(error)

    def note(self, text: str) -> None:
        """Pass it on."""
        self._sink.note(text)

    def find(self, session: Session, view: View) -> list[Found]:
        """Find those that are share or streams groups; let go of what was held back."""
        if not self._errors:
            return []
        from kgtool.cli.describe import share_and_streams

        return share_and_streams.find(session, self._sink, self._errors, view)
