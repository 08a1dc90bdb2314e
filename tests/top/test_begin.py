"""Trends and rates begin with the commits in the log: one look is enough."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from textual.pilot import Pilot

from kgtool.clock import now_ms
from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import KgError
from kgtool.net.session import Session
from kgtool.queries.offsets.describe import describe_offsets
from kgtool.queries.offsets.past import past_lags, recent_commits
from kgtool.top import poll
from kgtool.top.app import TopApp
from kgtool.top.groups import cells
from tests.support.clients import commit, create_topic, produce, unique
from tests.top.test_screen import lines, until

pytestmark = pytest.mark.broker
HOUR_S = 3600.0


@pytest.fixture(scope="module")
def group(bootstrap: str) -> str:
    """A group that had 20 to read, read 5 of it three seconds later, and nothing for two."""
    topic, name = create_topic(bootstrap, unique("begin"), 2), unique("begin")
    commit(bootstrap, name, {(topic, 0): 0, (topic, 1): 0})
    produce(bootstrap, topic, 20)
    time.sleep(3)
    commit(bootstrap, name, {(topic, 0): 5, (topic, 1): 0})
    time.sleep(2)
    return name


@pytest.fixture
def session(bootstrap: str) -> Iterator[Session]:
    with Session(Settings(parse_bootstrap(bootstrap), 20_000)) as session:
        yield session


def test_the_log_tells_what_the_lag_was(session: Session, group: str) -> None:
    found = session.run(describe_offsets(session.cluster, [group]))
    past = session.run(past_lags(session.cluster, found, now_ms(), 60_000, 60))[group]
    assert [ago for ago, _ in past] == [float(ago) for ago in range(60, 0, -1)]
    assert {sums.partitions for _, sums in past} == {2}
    committed = [sums.committed for _, sums in past]
    assert committed == sorted(committed)
    assert committed[0] == 0
    assert committed[-1] == 5, "the last commit is some seconds old"
    assert 0 < past[-1][1].ends <= 20
    assert past[-1][1].lag == past[-1][1].ends - 5


def test_the_commits_of_a_group(session: Session, group: str) -> None:
    (found,) = session.run(describe_offsets(session.cluster, [group]))
    commits = session.run(recent_commits(session.cluster, found, now_ms() - 600_000))
    assert [(one.partitions, one.records) for one in commits][0] == (2, 5)
    assert commits[-1].records is None, "what was before the first is not known"
    assert commits[0].at_ms > commits[-1].at_ms


def test_one_look_shows_trend_and_rates(bootstrap: str, group: str) -> None:
    app = TopApp(Settings(parse_bootstrap(bootstrap), 20_000), HOUR_S)

    async def steps(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *group, "enter")
        await until(pilot, lambda: app.table.shown == [group])
        app._wake.set()  # it may not have been on the screen before
        seen = app.poller.groups[group]
        await until(pilot, lambda: seen.has_past and len(seen.trend()) > 4)
        assert sum(look.at_s > began for look in seen.looks) <= 2
        shown = cells(seen, time.monotonic(), now_ms())
        assert float(shown["in_per_s"]) == pytest.approx(20 / 60, abs=0.2)
        assert float(shown["out_per_s"]) == pytest.approx(5 / 60, abs=0.2)
        assert shown["trend"][0] == "▁", "it has grown"

    async def main() -> None:
        async with app.run_test(size=(140, 40)) as pilot:
            await steps(app, pilot)

    began = time.monotonic()
    asyncio.run(main())


def test_a_log_that_cannot_be_read_is_no_problem(
    bootstrap: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> Iterator[object]:
        raise KgError("Not authorised to read __consumer_offsets.")
        yield

    monkeypatch.setattr(poll, "past_lags", denied)
    app = TopApp(Settings(parse_bootstrap(bootstrap), 20_000), 0.2)

    async def main() -> None:
        async with app.run_test(size=(140, 40)) as pilot:
            await pilot.press("slash", *group, "enter")
            await until(pilot, lambda: app.table.shown == [group])
            seen = app.poller.groups[group]
            await until(pilot, lambda: seen.has_past and seen.rates()[0] is not None)
            assert not any("authorised" in line for line in lines(app))

    asyncio.run(main())
