"""Fixtures of the command line's tests."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

import pytest

from kgtool import changes, queries
from kgtool.changes.driver import Before
from kgtool.changes.journal.change import Change
from kgtool.queries.offsets.rates import Rates
from tests.cli.fake import FakeSession, Unreachable
from tests.cli.run import Result, call


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGTOOL_BOOTSTRAP_SERVER", raising=False)


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cluster is unreachable, at once."""
    monkeypatch.setattr("kgtool.net.session.Session", Unreachable)


PLACES = {
    "listing": "kgtool.queries.groups.list",
    "groups": "kgtool.queries.groups.describe",
    "offsets": "kgtool.queries.offsets.describe",
    "topics": "kgtool.queries.cluster.topics",
    "doctor": "kgtool.queries.doctor.examine",
    "offset_delete": "kgtool.changes.kinds.delete_offsets",
}
"""Where the operations are whose results ``canned`` takes."""


@cache
def _import_operations() -> None:
    """A module that is imported while something is replaced would keep the replacement."""
    for room in (queries, changes):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            import_module(module.name)


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replace admin operations by their results: ``canned(listing__list_groups=Listing(…))``.

    A result that is callable gets the operation's arguments (without the cluster).
    """
    _import_operations()
    monkeypatch.setattr("kgtool.net.session.Session", FakeSession)
    # What is missing is no share or streams group either.
    name = "kgtool.queries.groups.share_and_streams.describe_missing"
    monkeypatch.setattr(name, lambda _cluster, _groups: {})
    counting = "kgtool.queries.groups.share_and_streams.count_members"
    monkeypatch.setattr(counting, lambda _cluster, groups: {row.group: 2 for row in groups})
    monkeypatch.setattr("kgtool.queries.cluster.topics.missing_topics", lambda *_: [])
    monkeypatch.setattr("kgtool.queries.cluster.topics.refresh", lambda _cluster: None)
    # No broker answers here, so nothing more is to be found out of what was described.
    monkeypatch.setattr(
        "kgtool.queries.groups.listings.mark_unlisted", lambda described, _kinds: described
    )
    # Nor how fast anything moves.
    monkeypatch.setattr("kgtool.cli.describe.watch.find_rates", lambda *_, **__: Rates({}, {}, {}))

    def use(**results: Any) -> None:
        for name, result in results.items():
            module, _, function = name.partition("__")

            def operation(_cluster: object, *args: Any, _result: Any = result, **kw: Any) -> Any:
                return _result(*args, **kw) if callable(_result) else _result

            monkeypatch.setattr(f"{PLACES[module]}.{function}", operation)

    return use


@pytest.fixture
def canned_kind(
    canned: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[Any]]:
    """Replace a kind of change by its outcome; return the steps as they are taken.

    :param foresee: the plan of some groups. :param outcome: what comes of a group of the plan.
    """

    def use(
        kind: type, foresee: Callable[[list[str]], list[Any]], outcome: Callable[[Any], Any]
    ) -> list[Any]:
        calls: list[Any] = []

        def look(_self: Any, _cluster: Any, groups: list[str]) -> Iterator[Any]:
            yield from ()
            calls.append((list(groups), True))
            return foresee(list(groups))

        def look_again(_self: Any, _cluster: Any, plan: list[Any]) -> Iterator[Any]:
            yield from ()
            return plan

        def before(_self: Any, _cluster: Any, going: list[Any]) -> Iterator[Any]:
            yield from ()
            return Before()

        def send(_self: Any, _cluster: Any, going: list[Any]) -> Iterator[Any]:
            yield from ()
            calls.append(([group.group for group in going], False))
            return list(map(outcome, going))

        monkeypatch.setattr(Change, "before", lambda *_: None)  # there is no journal
        for step in (look, look_again, before, send):
            monkeypatch.setattr(kind, step.__name__, step)
        return calls

    return use


@pytest.fixture
def kgtool(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the command line in this process, against 127.0.0.1:1."""

    def run(*argv: str) -> Result:
        return call(capsys, "--bootstrap-server", "127.0.0.1:1", *argv)

    return run
