"""Answers that are well-formed and wrong: other addresses, errors of the whole, older brokers."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool.client.cluster import ensure_brokers, find_coordinators
from kgtool.client.ops import call
from kgtool.config import Settings, parse_bootstrap
from kgtool.net.pool import SHUTDOWN_SECONDS
from kgtool.net.session import Session
from kgtool.protocol import codes
from kgtool.protocol.api import (
    api_versions,
    consumer_group_describe,
    describe_groups,
    find_coordinator,
    list_groups,
    list_offsets,
    metadata,
    offset_fetch,
)
from tests.support import clients, faulty
from tests.support.faulty import FaultyKafka, Run, client_config, kgtool
from tests.support.proxy import Fault, Plan, Proxies
from tests.support.rewriting import rewriting

pytestmark = pytest.mark.broker
ALWAYS = 99


@pytest.fixture
def kafka() -> FaultyKafka:
    return faulty.shared()


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
    # All offsets of a group are asked for by name.
    rewrite = rewriting(api, change, 9 if api is offset_fetch else None)
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
            find_coordinator, lambda r: r.replace(coordinators=[change(c) for c in r.coordinators])
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


@pytest.mark.timed
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
        "describe",
        *(f"--group={group}" for group in groups.values()),
        "--timeout",
        "20000",
        "--bootstrap-server",
        proxies.bootstrap.split(",")[0],
        "-o",
        "json",
        "--command-config",
        client_config(tmp_path, client),
    )
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


def alone(port: int) -> list[Fault]:
    """Make a cluster of one broker, which says that it has another port."""

    def moved_to(row: Any) -> Any:
        return row.replace(node_id=1, host="127.0.0.1", port=port)

    def led(topic: Any) -> Any:
        return topic.replace(partitions=[p.replace(leader_id=1) for p in topic.partitions])

    def only(reply: Any) -> Any:
        topics = [led(topic) for topic in reply.topics]
        return reply.replace(brokers=[moved_to(reply.brokers[0])], topics=topics)

    return [
        *everywhere(metadata, only),
        *everywhere(
            find_coordinator,
            lambda r: r.replace(coordinators=[moved_to(c) for c in r.coordinators]),
        ),
    ]


@pytest.mark.timed
@pytest.mark.parametrize("place", ["closed", "silent"])
def test_a_broker_that_answers_elsewhere_than_it_says_is_told_soon(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path, place: str
) -> None:
    """Stands for: a wrong advertised.listeners costs the whole of --timeout, for every command.

    Siblings: nothing listens, what is sent is swallowed; describe and list; one of three, which may
    be restarting (below).
    """
    client = clients.unique("advertised")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        if place == "closed":
            server.close()
        proxies.plans[client] = Plan(*alone(port))
        config = client_config(tmp_path, client)
        first = proxies.bootstrap.split(",")[0]
        place_of = ("--bootstrap-server", first, "--command-config", config)
        for words in (["describe", "--group", "x"], ["list"]):
            done = kgtool(*words, *place_of, "--timeout", "18000")
            assert proxies.plans[client].struck
            assert done.status == 4, done
            # A third of the time is what one connection may take.
            assert done.seconds < (4 if place == "closed" else 10), done
            assert f"127.0.0.1:{port}" in done.err, done
            assert "broker 1 has this one in its advertised.listeners" in done.err, done


@pytest.mark.timed
def test_a_broker_that_restarts_is_not_said_to_have_a_wrong_address(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path
) -> None:
    """It listens again by the time that its other address answers: nobody has looked since."""
    client, began = clients.unique("restart"), list[float]()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))  # where it refuses until it listens
    first = proxies.bootstrap.split(",")[0]

    def answering(fault: Fault) -> Fault:
        def rewrite(frame: bytes) -> bytes:
            began.append(time.monotonic())
            if began[-1] > began[0] + SHUTDOWN_SECONDS and not up.is_set():
                up.set()
                listener.listen()
                threading.Thread(target=forward, args=(listener, first), daemon=True).start()
            assert fault.rewrite is not None
            return fault.rewrite(frame)

        return fault._replace(rewrite=rewrite)

    up = threading.Event()
    proxies.plans[client] = Plan(*map(answering, alone(listener.getsockname()[1])))
    config = client_config(tmp_path, client)
    done = kgtool("list", "--bootstrap-server", first, "--command-config", config)
    listener.close()
    assert up.is_set(), done
    assert done.status == 0, done


def forward(listener: socket.socket, address: str) -> None:
    """Connect whoever comes to another address."""
    host, port = address.split(":")
    while True:
        try:
            one, _ = listener.accept()
        except OSError:
            return
        other = socket.create_connection((host, int(port)))
        for pair in ((one, other), (other, one)):
            threading.Thread(target=pump, args=pair, daemon=True).start()


def pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    finally:
        target.close()


@pytest.mark.timed
def test_one_of_three_that_does_not_answer_may_be_restarting(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path
) -> None:
    topic = clients.create_topic(kafka.cluster.bootstrap, clients.unique("t"), 3)
    group, client = groups_of(kafka, topic)[2], clients.unique("restarts")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    proxies.plans[client] = Plan(*moved("127.0.0.1", port))
    words = ["describe", "--group", group, "--timeout", "4000", "--command-config"]
    first = proxies.bootstrap.split(",")[0]
    done = kgtool(*words, client_config(tmp_path, client), "--bootstrap-server", first)
    assert (done.status, done.seconds > 3) == (4, True), done
    assert "is it running" in done.err, done


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
        "list",
        "--bootstrap-server",
        proxies.bootstrap,
        "-o",
        "json",
        "--command-config",
        client_config(tmp_path, client),
    )
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
        *argv,
        "--bootstrap-server",
        proxies.bootstrap,
        "-o",
        "json",
        "--timeout",
        "3000",
        "--command-config",
        client_config(tmp_path, client),
    )
    assert done.status == 1, done
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
        session.run(ensure_brokers(session.cluster))
        session.run(call(2, list_groups.Request()))
        groups = [f"mixed-{number}" for number in range(1001)]
        found = session.run(find_coordinators(session.cluster, groups))
    assert {type(node) for node in found.values()} == {int}
    assert proxies.plans[client].struck


@pytest.mark.timed
def test_a_broker_without_listgroups_says_so_at_once(proxies: Proxies, tmp_path: Path) -> None:
    """It was asked until --timeout was over, and then "was not asked"."""

    def without(reply: Any) -> Any:
        return reply.replace(api_keys=[row for row in reply.api_keys if row.api_key != 16])

    client = clients.unique("poor")
    proxies.plans[client] = Plan(*everywhere(api_versions, without))
    done = run(proxies, tmp_path, client, "list")
    assert (done.status, done.seconds < 5) == (1, True), done
    (error,) = done.document["errors"]  # what no broker offers is no broker's own failure
    assert (error["name"], error["target"]["broker"]) == ("UNSUPPORTED", None)
    assert "ListGroups" in error["message"]


def test_a_listed_state_of_unknown_is_not_told(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path
) -> None:
    """``--state Empty`` found nothing."""
    (group,) = committed(kafka, 1)

    def unknown(reply: Any) -> Any:
        return reply.replace(groups=[row.replace(group_state="Unknown") for row in reply.groups])

    client = clients.unique("state")
    proxies.plans[client] = Plan(*everywhere(list_groups, unknown))
    done = run(proxies, tmp_path, client, "list", "--state", "Empty")
    assert done.status == 0, done
    assert group in {row["group"] for row in done.document["results"]}
    assert {row["state"] for row in done.document["results"]} == {"Empty"}


def test_assignments_with_topic_ids_alone_have_names(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path
) -> None:
    """Their topics were blank."""
    topic = clients.create_topic(kafka.cluster.bootstrap, clients.unique("t"), 2)
    group = clients.unique("modern")
    member = clients.join(kafka.cluster.bootstrap, group, [topic], group_protocol="consumer")

    def nameless(half: Any) -> Any:
        rows = [row.replace(topic_name="") for row in half.topic_partitions]
        return half.replace(topic_partitions=rows)

    def change(reply: Any) -> Any:
        return reply.replace(
            groups=[
                row.replace(
                    members=[
                        m.replace(
                            assignment=nameless(m.assignment),
                            target_assignment=nameless(m.target_assignment),
                        )
                        for m in row.members
                    ]
                )
                for row in reply.groups
            ]
        )

    client = clients.unique("ids")
    proxies.plans[client] = Plan(*everywhere(consumer_group_describe, change))
    try:
        done = run(proxies, tmp_path, client, "describe", "--group", group)
    finally:
        member.close()
    assert proxies.plans[client].struck
    found = {(row["topic"], row["partition"]) for row in done.document["results"]}
    assert found == {(topic, 0), (topic, 1)}, done


@pytest.mark.timed
@pytest.mark.parametrize("api", [offset_fetch, describe_groups, list_offsets])
def test_what_an_answer_leaves_out_is_an_error_of_ours(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path, api: Any
) -> None:
    """It became -1, "not found" or "unknown topic", which no broker had said."""
    group, other = committed(kafka, 2)

    def change(reply: Any) -> Any:
        if api is list_offsets:
            return reply.replace(topics=[])
        return reply.replace(groups=[row for row in reply.groups if row.group_id != group])

    client = clients.unique("left")
    proxies.plans[client] = Plan(*everywhere(api, change))
    done = run(proxies, tmp_path, client, "describe", "--group", group, "--group", other)
    assert proxies.plans[client].struck
    names = {(error["name"], error["code"]) for error in done.document["errors"]}
    assert names == {("INCOMPLETE_ANSWER", None)}, done
    assert done.seconds < 6
    good = [row["group"] for row in done.document["results"] if row["status"] == "ok"]
    assert good == ([] if api is list_offsets else [other]), done


@pytest.mark.parametrize("view", ["--offsets", "--members", "--state"])
def test_a_name_that_is_described_and_not_listed_is_no_group(
    proxies: Proxies, tmp_path: Path, view: str
) -> None:
    """Some brokers describe every name as an Empty group: a typo was an empty table and 0."""

    def polite(reply: Any) -> Any:
        rows = [
            describe_groups.Group(group_id=row.group_id, group_state="Empty")
            for row in reply.groups
        ]
        return reply.replace(groups=rows)

    client = clients.unique("polite")
    proxies.plans[client] = Plan(*everywhere(describe_groups, polite))
    done = run(proxies, tmp_path, client, "describe", "--group", "no-such-group", view)
    assert proxies.plans[client].struck
    assert (done.status, done.document["results"]) == (1, []), done
    assert [error["name"] for error in done.document["errors"]] == ["GROUP_ID_NOT_FOUND"], done


def not_coordinator(reply: Any) -> Any:
    """Refuse every group of an answer, as a coordinator that has moved does."""
    rows = [row.replace(error_code=codes.NOT_COORDINATOR) for row in reply.groups]
    return reply.replace(groups=rows)


@pytest.mark.parametrize("api", [describe_groups, offset_fetch])
def test_a_coordinator_that_never_takes_its_groups_is_named(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path, api: Any
) -> None:
    """NOT_COORDINATOR to the end: it was "This is not the correct coordinator." of nobody."""
    (group,) = committed(kafka, 1)

    client = clients.unique("moving")
    proxies.plans[client] = Plan(*everywhere(api, not_coordinator))
    argv = ["describe", "--group", group, "--timeout", "4000"]
    done = run(proxies, tmp_path, client, *argv)
    assert proxies.plans[client].struck > 2
    (error,) = done.document["errors"]
    assert (done.status, error["name"]) == (1, "NOT_COORDINATOR"), done
    said = rf"127\.0\.0\.1:\d+ answers .*{api.Request.NAME}.* with NOT_COORDINATOR: "
    assert re.match(said, error["message"]), done
    assert done.seconds < 7


def test_explain_does_not_call_what_it_could_not_read_nothing(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path
) -> None:
    """A coordinator that was moved in the middle of a commit answers so until the next write."""
    (group,) = committed(kafka, 1)

    client = clients.unique("moving")
    proxies.plans[client] = Plan(*everywhere(offset_fetch, not_coordinator))
    argv = ["explain", "--group", group, "--timeout", "4000"]
    done = run(proxies, tmp_path, client, *argv)
    assert (done.status, done.document["results"][0]["offsets"]) == (3, None), done
    proxies.plans[client] = Plan(*everywhere(offset_fetch, not_coordinator))
    config = client_config(tmp_path, client)
    done = kgtool(*argv, "--bootstrap-server", proxies.bootstrap, "--command-config", config)
    head = f"Group {group} has no members, only standalone commits. Coordinator: broker "
    assert done.out.startswith(head), done
    assert "no committed offsets" not in done.out, done


def committed(kafka: FaultyKafka, count: int) -> list[str]:
    """Make Empty classic groups."""
    topic = clients.create_topic(kafka.cluster.bootstrap, clients.unique("t"))
    groups = [clients.unique("g") for _ in range(count)]
    for group in groups:
        clients.commit(kafka.cluster.bootstrap, group, {(topic, 0): 0})
    return groups


def run(proxies: Proxies, folder: Path, client: str, *argv: str) -> Run:
    time = () if "--timeout" in argv else ("--timeout", "20000")
    return kgtool(
        *argv,
        "--bootstrap-server",
        proxies.bootstrap,
        "-o",
        "json",
        *time,
        "--command-config",
        client_config(folder, client),
    )


def test_a_static_member_that_was_restarted_is_not_the_one_removed(
    kafka: FaultyKafka, proxies: Proxies, tmp_path: Path
) -> None:
    """The answer got lost, the client came back under its instance id, and the retry evicted it."""
    bootstrap = kafka.cluster.bootstrap
    topic = clients.create_topic(bootstrap, clients.unique("t"))
    group, client = clients.unique("static"), clients.unique("leave")
    slow = {"session_timeout_ms": 300_000, "heartbeat_interval_ms": 60_000}
    first = clients.join(bootstrap, group, [topic], group_instance_id="one", **slow)
    first.close()  # a static member does not leave
    second: list[Any] = []

    def come_back() -> None:
        second.append(clients.join(bootstrap, group, [topic], group_instance_id="one", **slow))

    proxies.plans[client] = Plan(
        *[Fault("lost-answer", broker, api=13, hook=come_back) for broker in (1, 2, 3)]
    )
    try:
        done = run(
            proxies, tmp_path, client, "remove-members", group, "--instance-id", "one", "--yes"
        )
        assert (proxies.plans[client].struck, len(second)) == (1, 1)
        assert (done.status, [row["status"] for row in done.document["results"]]) == (
            0,
            ["removed"],
        ), done
        shown = kafka.cluster.run_tool(
            "kafka-consumer-groups", "--describe", "--members", "--group", group
        )
        assert "one" in shown.stdout, shown.stdout
    finally:
        for member in second:
            member.close()
