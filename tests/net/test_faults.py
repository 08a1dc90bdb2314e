"""Brokers that pause, hang and lose connections, behind proxies; what the network makes of it."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest

from kgtool.client.cluster import call_any, ensure_brokers
from kgtool.client.ops import Call, DeadlineExceeded, Pause, call, gather, within
from kgtool.config import Settings, parse_bootstrap
from kgtool.errors import ConnectionLost, KgError, TimedOut
from kgtool.net.session import Session
from kgtool.protocol.api import describe_configs, metadata
from kgtool.protocol.api import list_groups as list_groups_api
from kgtool.queries.groups.list import list_groups
from kgtool.queries.log.export import ExportDirectory, export
from tests.support import clients, faulty
from tests.support.faulty import FaultyKafka
from tests.support.proxy import Fault, Plan, Proxies

pytestmark = [pytest.mark.broker, pytest.mark.timed]
ALWAYS = 99


@pytest.fixture
def kafka() -> FaultyKafka:
    return faulty.shared()


def session(proxies: Proxies, *faults: Fault, timeout_ms: int = 12_000, **options: Any) -> Session:
    """A session of a client of its own, through the proxies with these faults."""
    client = clients.unique("net")
    proxies.plans[client] = Plan(*faults)
    places = parse_bootstrap(options.pop("bootstrap", proxies.bootstrap))
    request_ms = options.pop("request_ms", None)
    return Session(Settings(places, timeout_ms, client, request_ms=request_ms), **options)


def requests(proxies: Proxies, opened: Session) -> int:
    """How many requests came through, but those of new connections (ApiVersions)."""
    seen = proxies.requests.get(opened.settings.client_id, {})
    return sum(count for key, count in seen.items() if key != 18)


def test_a_black_hole_at_the_head_of_the_list_costs_a_second(proxies: Proxies) -> None:
    with socket.create_server(("127.0.0.1", 0)) as hole:
        first = f"127.0.0.1:{hole.getsockname()[1]}"
        began = time.monotonic()
        with session(proxies, bootstrap=f"{first},{proxies.bootstrap}") as opened:
            opened.connect()
        assert time.monotonic() - began < 4


def test_a_question_that_is_not_answered_is_put_to_a_second_broker(proxies: Proxies) -> None:
    with session(proxies, Fault("hole", 1, at=1, times=ALWAYS)) as opened:
        began = time.monotonic()
        opened.connect()
        assert len(opened.cluster.brokers) == 3
        assert time.monotonic() - began < 4
        assert opened.loop.requests_sent == 2


def test_only_questions_are_put_to_a_second_broker(proxies: Proxies) -> None:
    """A request that may change something is sent once, however long the answer takes."""
    with session(proxies, Fault("hole", 1, at=1, times=ALWAYS), timeout_ms=4000) as opened:
        reply = opened.run(call(-1, describe_configs.Request(resources=[])))
        assert isinstance(reply, TimedOut)
        assert opened.loop.requests_sent == 1


def test_a_connection_without_progress_is_given_up_and_made_again(proxies: Proxies) -> None:
    with session(proxies, Fault("swallow", 2, at=2), timeout_ms=9000) as opened:
        opened.connect()
        first = opened.run(call(2, list_groups_api.Request()))
        assert not isinstance(first, KgError)
        began = time.monotonic()
        lost = opened.run(call(2, list_groups_api.Request()))
        assert isinstance(lost, TimedOut)
        assert not isinstance(lost, DeadlineExceeded)
        assert lost.maybe_done
        assert 2 < time.monotonic() - began < 6  # a third of the time, not all of it
        again = opened.run(call(2, list_groups_api.Request()))
        assert not isinstance(again, KgError)


def test_a_request_has_the_time_that_it_is_given(proxies: Proxies) -> None:
    """``request.timeout.ms``: without it, a third of these 30 s."""
    with session(proxies, Fault("swallow", 2, at=1), timeout_ms=30_000, request_ms=800) as opened:
        opened.connect()
        began = time.monotonic()
        lost = opened.run(call(2, list_groups_api.Request()))
        assert isinstance(lost, TimedOut) and not isinstance(lost, DeadlineExceeded)
        assert 0.7 < time.monotonic() - began < 4
        assert not isinstance(opened.run(call(2, list_groups_api.Request())), KgError)


def test_a_part_of_the_time_leaves_the_rest_to_what_follows(proxies: Proxies) -> None:
    def work(opened: Session) -> Any:
        yield from ensure_brokers(opened.cluster)
        stuck = yield from within(call(3, list_groups_api.Request()), 0.25)
        healthy = yield from call(2, list_groups_api.Request())
        return stuck, healthy

    with session(proxies, Fault("hole", 3, at=1, times=ALWAYS), timeout_ms=4000) as opened:
        began = time.monotonic()
        stuck, healthy = opened.run(work(opened))
        assert isinstance(stuck, DeadlineExceeded)
        assert stuck.maybe_done
        assert "127.0.0.1:" in stuck.message
        assert not isinstance(healthy, KgError)
        assert time.monotonic() - began < 3.5


def test_an_answer_that_comes_too_late_is_dropped(proxies: Proxies) -> None:
    """The next request on the connection gets its own answer, not the one that was given up."""

    def work(opened: Session) -> Any:
        yield from ensure_brokers(opened.cluster)
        yield from within(call(3, list_groups_api.Request()), 0.05)
        replies = yield [Call(3, metadata.Request(topics=[])), Call(3, list_groups_api.Request())]
        return replies

    with session(proxies, Fault("late", 3, at=1), timeout_ms=10_000) as opened:
        described, listed = opened.run(work(opened))
        assert isinstance(described, metadata.Response)
        assert isinstance(listed, list_groups_api.Response)


def test_a_connection_that_ended_while_nobody_looked_is_made_again(proxies: Proxies) -> None:
    """The user thinks about a question, and the broker closes what is idle."""
    with session(proxies) as opened:
        opened.run(list_groups(opened.cluster))
        proxies.hang_up(opened.settings.client_id)
        time.sleep(0.3)
        reply = opened.run(call(2, list_groups_api.Request()))
        assert not isinstance(reply, KgError)


def test_what_was_never_sent_has_not_happened(proxies: Proxies) -> None:
    with session(proxies, Fault("refuse", 2, times=ALWAYS)) as opened:
        opened.connect()
        reply = opened.run(call(2, list_groups_api.Request()))
        assert isinstance(reply, ConnectionLost)
        assert not reply.maybe_done
    with session(proxies, Fault("lost-answer", 2, at=1, times=ALWAYS)) as opened:
        opened.connect()
        reply = opened.run(call(2, list_groups_api.Request()))
        assert isinstance(reply, ConnectionLost)
        assert reply.maybe_done


def test_a_drip_is_no_progress(proxies: Proxies) -> None:
    with session(proxies, Fault("drip", 2, at=1, times=ALWAYS), timeout_ms=6000) as opened:
        opened.connect()
        topics = [metadata.RequestTopic(name="__consumer_offsets")]  # an answer of some length
        began = time.monotonic()
        reply = opened.run(call(2, metadata.Request(topics=topics)))
        assert isinstance(reply, TimedOut), reply
        assert time.monotonic() - began < 5


def test_a_broker_that_hangs_up_all_the_time_starts_no_storm(proxies: Proxies) -> None:
    with session(proxies, Fault("cut", 2, at=1, times=ALWAYS), timeout_ms=6000) as opened:
        listing = opened.run(list_groups(opened.cluster))
        assert [error.target.broker for error in listing.errors] == [2]
        assert requests(proxies, opened) < 40


def test_pauses_between_tries_are_not_all_the_same(proxies: Proxies) -> None:
    """Clients that failed together would otherwise come back together."""
    lengths: list[float] = []

    def nap() -> Any:
        began = time.monotonic()
        yield Pause(0.2, 0.2)
        lengths.append(time.monotonic() - began)

    with session(proxies) as opened:
        opened.run(gather([nap() for _ in range(20)]))
        reply = opened.run(call_any(metadata.Request(topics=[])))
        assert not isinstance(reply, KgError)
    assert 0.15 <= min(lengths) < max(lengths)
    assert max(lengths) - min(lengths) > 0.02


# ---------------------------------------------------------------------------------------------
# Long work: --timeout is the longest time without progress


def exported(opened: Session, folder: Path) -> tuple[list[Any], dict[str, bytes]]:
    """Export, and return what failed and the bytes of each partition."""
    directory = ExportDirectory(folder)
    with opened:
        done = opened.run(export(opened.cluster, directory, 0))
    found: dict[str, bytes] = {}
    for file in sorted(folder.glob("segments/*/*.log")):
        found[file.parent.name] = found.get(file.parent.name, b"") + file.read_bytes()
    return done.errors, found


@pytest.mark.parametrize("kind", ["cut", "reset", "hole", "wrong-id", "garbage", "late"])
def test_an_export_gets_through_what_breaks_once(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path, kind: str
) -> None:
    at = kafka.cluster.bootstrap
    topic = clients.create_topic(at, clients.unique("exported"))
    for _ in range(12):
        clients.commit(at, clients.unique("exported"), {(topic, 0): 0})
    straight = Session(Settings(parse_bootstrap(at)))
    _, whole = exported(straight, tmp_path / "whole")
    assert whole
    faults = [Fault(kind, broker, at=3) for broker in (1, 2, 3)]
    opened = session(proxies, *faults, timeout_ms=4000, progress=True)
    errors, found = exported(opened, tmp_path / "damaged")
    assert errors == []
    assert {name: found[name][: len(data)] for name, data in whole.items()} == whole


def test_an_export_that_gets_nowhere_ends(proxies: Proxies, tmp_path: Path) -> None:
    """Every connection answers a little and then breaks: answers, but no progress."""
    faults = [Fault("cut", broker, at=1, times=10_000) for broker in (1, 2, 3)]
    opened = session(proxies, *faults, timeout_ms=2000, progress=True)
    began = time.monotonic()
    with opened, pytest.raises(KgError):
        directory = ExportDirectory(tmp_path / "export")
        opened.run(export(opened.cluster, directory, 0))
    assert time.monotonic() - began < 12
