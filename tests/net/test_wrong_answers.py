"""Answers that are well-formed and wrong: other addresses, errors of the whole, older brokers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool.client.cluster import find_coordinators, need_brokers
from kgtool.client.ops import call
from kgtool.config import Settings, parse_bootstrap
from kgtool.net.session import Session
from kgtool.protocol import codes
from kgtool.protocol.api import api_versions, find_coordinator, list_groups, metadata
from tests.support import clients, faulty
from tests.support.faulty import FaultyKafka, client_config, kgtool
from tests.support.proxy import Fault, Plan, Proxies
from tests.support.rewriting import rewriting

pytestmark = pytest.mark.broker
ALWAYS = 99


@pytest.fixture
def kafka() -> FaultyKafka:
    return faulty.shared()


@pytest.fixture
def proxies(kafka: FaultyKafka) -> Iterator[Proxies]:
    with kafka.proxies() as opened:
        yield opened


@pytest.fixture
def web_server() -> Iterator[int]:
    """The port of something that answers like a web server."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    taken, _ = server.accept()
                except OSError:
                    return
                with taken:
                    taken.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def everywhere(api: Any, change: Callable[[Any], Any], *, times: int = ALWAYS) -> list[Fault]:
    """Change the answers of all three brokers to one API."""
    rewrite = rewriting(api, change)
    return [
        Fault("rewrite", broker, times=times, api=api.Request.KEY, rewrite=rewrite)
        for broker in (1, 2, 3)
    ]


def moved(host: str, port: int) -> list[Fault]:
    """Say of broker 2, wherever it is named, that it has another address."""

    def change(row: Any) -> Any:
        return row.replace(host=host, port=port) if row.node_id == 2 else row

    return [
        *everywhere(metadata, lambda r: r.replace(brokers=[change(b) for b in r.brokers])),
        *everywhere(
            find_coordinator,
            lambda r: r.replace(coordinators=[change(c) for c in r.coordinators]),
        ),
    ]


def groups_of(kafka: FaultyKafka, topic: str) -> dict[int, str]:
    """Make groups until each broker coordinates one; return one of each."""
    found: dict[int, str] = {}
    settings = Settings(parse_bootstrap(kafka.cluster.bootstrap), 20_000)
    with Session(settings) as session:
        while len(found) < 3:
            name = clients.unique("at")
            (node,) = session.run(find_coordinators(session.cluster, [name])).values()
            assert isinstance(node, int)
            found.setdefault(node, name)
    for name in found.values():
        clients.commit(kafka.cluster.bootstrap, name, {(topic, p): 0 for p in range(3)})
    return found


@pytest.mark.parametrize("place", ["no-such-host", "web-server"])
def test_a_wrong_address_of_a_broker_is_told_at_once(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path, web_server: int, place: str
) -> None:
    """It was tried until --timeout was over."""
    topic = clients.create_topic(kafka.cluster.bootstrap, clients.unique("t"), 3)
    groups = groups_of(kafka, topic)
    led = clients.admin(kafka.cluster.bootstrap).list_topics(topic, timeout=10).topics[topic]
    wrong = {p.id for p in led.partitions.values() if p.leader == 2}
    assert wrong
    client = clients.unique("wrong")
    name, host = {
        "no-such-host": ("UNREACHABLE", "no-such-host.invalid"),
        "web-server": ("NOT_KAFKA", "127.0.0.1"),
    }[place]
    proxies.plans[client] = Plan(*moved(host, web_server))
    done = kgtool(
        "describe", *(f"--group={group}" for group in groups.values()), "--timeout", "20000",
        "--bootstrap-server", proxies.bootstrap.split(",")[0], "-o", "json",
        "--command-config", client_config(tmp_path, client),
    )  # fmt: skip
    assert proxies.plans[client].struck
    assert done.status == 3, done
    assert done.seconds < 6, done
    rows = {(row["group"], row["partition"]): row["status"] for row in done.document["results"]}
    assert rows == {
        (groups[node], part): "error" if part in wrong else "ok"
        for node in (1, 3)
        for part in range(3)
    }
    errors = done.document["errors"]
    assert {error["name"] for error in errors} == {name}, done
    assert [e for e in errors if e["target"]["group"] == groups[2] and e["code"] is None], done


@pytest.mark.parametrize("answer", ["rebootstrap", "no-brokers"])
def test_metadata_that_tells_nothing_is_asked_for_again(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path, answer: str
) -> None:
    """It was taken for a cluster without brokers: no groups, status 0."""
    group = clients.unique("kept")
    clients.create_topic(kafka.cluster.bootstrap, topic := clients.unique("t"))
    clients.commit(kafka.cluster.bootstrap, group, {(topic, 0): 1})
    code = codes.REBOOTSTRAP_REQUIRED if answer == "rebootstrap" else 0
    client = clients.unique("meta")
    proxies.plans[client] = Plan(
        *everywhere(metadata, lambda _: metadata.Response(error_code=code), times=2)
    )
    done = kgtool(
        "list", "--bootstrap-server", proxies.bootstrap, "-o", "json",
        "--command-config", client_config(tmp_path, client),
    )  # fmt: skip
    assert proxies.plans[client].struck >= 2
    assert (done.status, done.document["errors"]) == (0, []), done
    assert group in {row["group"] for row in done.document["results"]}


@pytest.mark.parametrize("command", ["list", "describe"])
def test_metadata_that_never_tells_anything_is_a_failure(
    proxies: Proxies, tmp_path: Path, command: str
) -> None:
    client = clients.unique("meta")
    bad = metadata.Response(error_code=codes.REBOOTSTRAP_REQUIRED)
    proxies.plans[client] = Plan(*everywhere(metadata, lambda _: bad))
    argv = [command, *(["--all-groups"] if command == "describe" else [])]
    done = kgtool(
        *argv, "--bootstrap-server", proxies.bootstrap, "-o", "json", "--timeout", "3000",
        "--command-config", client_config(tmp_path, client),
    )  # fmt: skip
    assert done.status in (1, 4), done
    assert [error["name"] for error in done.document["errors"]] == ["REBOOTSTRAP_REQUIRED"], done


def test_a_cluster_in_the_middle_of_an_upgrade_to_3_0(proxies: Proxies) -> None:
    """FindCoordinator is asked of a broker that is older than the one whose versions are known."""

    def older(reply: Any) -> Any:
        rows = [row.replace(max_version=3) if row.api_key == 10 else row for row in reply.api_keys]
        return reply.replace(api_keys=rows)

    client = clients.unique("mixed")
    rewrite = rewriting(api_versions, older)
    proxies.plans[client] = Plan(
        *[Fault("rewrite", broker, times=ALWAYS, api=18, rewrite=rewrite) for broker in (2, 3)]
    )
    places = parse_bootstrap(proxies.bootstrap.split(",")[0])
    with Session(Settings(places, 20_000, client)) as session:
        session.run(need_brokers(session.cluster))
        session.run(call(2, list_groups.Request()))
        groups = [f"mixed-{number}" for number in range(1001)]
        found = session.run(find_coordinators(session.cluster, groups))
    assert {type(node) for node in found.values()} == {int}
    assert proxies.plans[client].struck
