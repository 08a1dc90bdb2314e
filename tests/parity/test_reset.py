"""53–55, 58–80: ``--reset-offsets``, each with neither flag, with --dry-run and with --execute."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from kgtool.cli.reset.report import NO_EXECUTE
from kgtool.sandbox import ready
from kgtool.sandbox.cluster import Sandbox
from tests.cli import run
from tests.parity.behaviours import Kg, Offsets, behaviour, chosen, lines
from tests.parity.conftest import Parity
from tests.support import clients
from tests.support.proxy import Proxies

pytestmark = pytest.mark.broker

ANY = ("any",)
Filled = Callable[..., str]
Empty = Callable[[Offsets], str]
Rows = dict[tuple[str, str, int], int]
HEADER = ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]


def shown(text: str) -> Rows:
    found = lines(text)
    assert found[0] == HEADER
    rows = {(row[0], row[1], int(row[2])): int(row[3]) for row in found[1:]}
    assert len(rows) == len(found) - 1
    return rows


def thrice(kg: Kg, address: str, argv: list[str], expected: Rows) -> None:
    """The same rows each time; only --execute changes, and nothing else than these rows."""
    existing = clients.group_ids(address)
    groups = existing & {row[0] for row in expected}
    before = {name: clients.committed(address, name) for name in groups}
    for mode in ([], ["--dry-run"], ["--execute"]):
        result = kg("--reset-offsets", *argv, *mode)
        assert result.status == 0, result.err
        assert shown(result.out) == expected
        assert result.err.startswith(NO_EXECUTE) == (not mode)
        if not mode or mode == ["--dry-run"]:
            assert {name: clients.committed(address, name) for name in groups} == before
            assert clients.group_ids(address) == existing
    for name in {row[0] for row in expected}:
        written = {row[1:]: offset for row, offset in expected.items() if row[0] == name}
        assert clients.committed(address, name) == before.get(name, {}) | written


@behaviour(53, protocols=ANY)
def test_a_missing_group(address: str, kg: Kg, protocol: str) -> None:
    argv = ["--reset-offsets", "--group", "missing.group", "--all-topics", "--to-current"]
    refused = kg(*argv, "--execute")
    assert (refused.status, refused.out) == (1, "")
    assert "Group missing.group not found." in refused.err
    created = kg(*argv, "--execute", "--create")
    assert (created.status, shown(created.out)) == (0, {})
    assert "missing.group" not in clients.group_ids(address)


@behaviour(54, protocols=ANY)
def test_a_new_group(address: str, kg: Kg, filled: Filled, protocol: str) -> None:
    topic, group = filled(100), clients.unique("new")
    argv = ["--group", group, "--topic", topic, "--to-offset", "50"]
    assert kg("--reset-offsets", *argv, "--execute").status == 1
    assert group not in clients.group_ids(address)
    thrice(kg, address, [*argv, "--create"], {(group, topic, 0): 50})


@behaviour(55)
def test_several_groups(address: str, kg: Kg, filled: Filled, empty: Empty, protocol: str) -> None:
    topic = filled(100)
    groups = [empty({(topic, 0): at}) for at in (10, 20, 30)]
    argv = [*chosen(*groups[:2]), "--topic", topic, "--to-offset", "50"]
    thrice(kg, address, argv, {(name, topic, 0): 50 for name in groups[:2]})
    assert clients.committed(address, groups[2]) == {(topic, 0): 30}


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000")


@behaviour(58)
def test_a_time_without_zone(
    address: str, kg: Kg, filled: Filled, empty: Empty, protocol: str
) -> None:
    topic = filled(10)
    group = empty({(topic, 0): 7})
    yesterday = _iso(datetime.now(timezone.utc) - timedelta(days=1))
    argv = ["--group", group, "--topic", topic, "--to-datetime", yesterday]
    thrice(kg, address, argv, {(group, topic, 0): 0})


@behaviour(59)
@pytest.mark.parametrize(("zone", "hours"), [("+05:00", 5), ("-0330", -3.5), ("Z", 0)])
def test_a_time_with_zone_in_the_middle_of_the_log(
    address: str, kg: Kg, filled: Filled, empty: Empty, zone: str, hours: float, protocol: str
) -> None:
    """Record k is of minute k: halfway between 3 and 4, the first one after is 4."""
    start = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=1)
    topic = filled(0)
    producer = Producer({"bootstrap.servers": address})
    for minute in range(10):
        at = int((start + timedelta(minutes=minute)).timestamp() * 1000)
        producer.produce(topic, b"v", partition=0, timestamp=at)
    assert producer.flush(30) == 0
    group = empty({(topic, 0): 9})
    local = start + timedelta(minutes=3, seconds=30, hours=hours)
    argv = ["--group", group, "--topic", topic, "--to-datetime", f"{_iso(local)}{zone}"]
    thrice(kg, address, argv, {(group, topic, 0): 4})


@behaviour(60, 61)
@pytest.mark.parametrize(("duration", "offset"), [("PT1M", 0), ("PT0.1S", 10)])
def test_a_duration(
    address: str, kg: Kg, filled: Filled, empty: Empty, duration: str, offset: int, protocol: str
) -> None:
    topic = filled(10)
    group = empty({(topic, 0): 7})
    time.sleep(0.2)
    argv = ["--group", group, "--topic", topic, "--by-duration", duration]
    thrice(kg, address, argv, {(group, topic, 0): offset})


@behaviour(62)
def test_a_duration_for_a_topic_without_records(
    address: str, kg: Kg, filled: Filled, empty: Empty, protocol: str
) -> None:
    topic = filled(0)
    group = empty({(topic, 0): 0})
    argv = ["--group", group, "--topic", topic, "--by-duration", "PT1M"]
    thrice(kg, address, argv, {(group, topic, 0): 0})


@behaviour(63, 64, 65, 66, 67, 68, 69, 70)
@pytest.mark.parametrize(
    ("strategy", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 150),
        (["--to-current"], 60),
        (["--to-offset", "1"], 1),
        (["--shift-by", "50"], 110),
        (["--shift-by", "-50"], 10),
        (["--shift-by", "-100"], 0),
        (["--shift-by", "100"], 150),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) else str(value),
)
def test_a_strategy(
    address: str,
    kg: Kg,
    filled: Filled,
    empty: Empty,
    strategy: list[str],
    offset: int,
    protocol: str,
) -> None:
    topic = filled(100)
    group = empty({(topic, 0): 60})
    clients.produce(address, topic, 50)  # the log grows after the commit
    argv = ["--group", group, "--topic", topic, *strategy]
    thrice(kg, address, argv, {(group, topic, 0): offset})


@behaviour(71, 72, 73, 74)
@pytest.mark.parametrize(
    ("spec", "rows"), [("A", "A0 A1"), ("A:1", "A1"), ("A B", "A0 A1 B0 B1"), ("A:1 B:0", "A1 B0")]
)
def test_a_scope(
    address: str, kg: Kg, filled: Filled, empty: Empty, spec: str, rows: str, protocol: str
) -> None:
    topics = {"A": filled(10, 10), "B": filled(10, 10)}
    group = empty({(topic, partition): 5 for topic in topics.values() for partition in (0, 1)})
    argv = ["--group", group, "--to-earliest"]
    for word in spec.split():
        argv += ["--topic", topics[word[0]] + word[1:]]
    expected = {(group, topics[row[0]], int(row[1])): 0 for row in rows.split()}
    thrice(kg, address, argv, expected)


def _exported(text: str) -> list[list[str]]:
    """The lines of an export; Kafka's tool writes an empty one at the end."""
    assert text.endswith("\n\n")
    return sorted(csv.reader(text.split()))


@behaviour(75)
def test_export_and_import_of_one_group(
    address: str, kg: Kg, filled: Filled, empty: Empty, tmp_path: Path, protocol: str
) -> None:
    topic = filled(10, 10)
    group = empty({(topic, 0): 2, (topic, 1): 0})
    argv = ["--group", group, "--all-topics", "--to-offset", "2", "--export"]
    result = kg("--reset-offsets", *argv)
    assert _exported(result.out) == [[topic, "0", "2"], [topic, "1", "2"]]
    path = tmp_path / "offsets.csv"
    path.write_text(result.out)
    argv = ["--group", group, "--from-file", str(path)]
    thrice(kg, address, argv, {(group, topic, 0): 2, (group, topic, 1): 2})


@behaviour(76)
def test_export_and_import_of_two_groups(
    address: str, kg: Kg, filled: Filled, empty: Empty, tmp_path: Path, protocol: str
) -> None:
    """The file of both, taken for one of them, changes that one alone."""
    topic = filled(10)
    groups = [empty({(topic, 0): 5}), empty({(topic, 0): 6})]
    argv = [*chosen(*groups), "--all-topics", "--to-offset", "2", "--export"]
    result = kg("--reset-offsets", *argv)
    assert _exported(result.out) == sorted([name, topic, "0", "2"] for name in groups)
    path = tmp_path / "offsets.csv"
    path.write_text(result.out)
    one = ["--group", groups[0], "--from-file", str(path)]
    thrice(kg, address, one, {(groups[0], topic, 0): 2})
    assert clients.committed(address, groups[1]) == {(topic, 0): 6}
    both = [*chosen(*groups), "--from-file", str(path)]
    thrice(kg, address, both, {(name, topic, 0): 2 for name in groups})


LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH = 2, 3, 8, 9


@behaviour(77)
def test_a_request_of_a_kind_however_many_topics(
    address: str,
    parity: Parity,
    capsys: pytest.CaptureFixture[str],
    filled: Filled,
    empty: Empty,
    tmp_path: Path,
    protocol: str,
) -> None:
    topics = [filled(10, 10), filled(10)]
    group = empty({(topics[0], 0): 5})
    config = tmp_path / "client.properties"
    config.write_text(f"client.id=reset-{protocol}\n")
    argv = ["--reset-offsets", "--group", group, "--command-config", str(config), "--to-latest"]
    argv += ["--topic", f"{topics[0]}:0,1", "--topic", topics[1], "--dry-run"]
    with Proxies({1: (parity.outer, parity.inner)}) as proxies:
        result = run.call(capsys, "--bootstrap-server", proxies.bootstrap, *argv)
    assert result.status == 0, result.err
    assert shown(result.out) == {
        (group, topics[0], 0): 10,
        (group, topics[0], 1): 10,
        (group, topics[1], 0): 10,
    }
    sent = proxies.requests[f"reset-{protocol}"]
    assert sent[OFFSET_COMMIT] == 0
    assert sent[LIST_OFFSETS] <= 2  # log start and log end
    assert sent[OFFSET_FETCH] == 1


@behaviour(78)
def test_unknown_partitions(
    address: str, kg: Kg, filled: Filled, empty: Empty, protocol: str
) -> None:
    topic = filled(10)
    group = empty({(topic, 0): 5})
    argv = ["--group", group, "--topic", f"{topic}:7,8", "--to-earliest", "--execute"]
    result = kg("--reset-offsets", *argv)
    assert (result.status, result.out) == (1, "")
    assert f'Error: The partitions "{topic}-7,{topic}-8" do not exist' in result.err
    assert clients.committed(address, group) == {(topic, 0): 5}


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An address of a cluster where the only replica of ``lonely`` is on a broker that died."""
    root = tmp_path_factory.mktemp("lonely")
    config = {"broker.session.timeout.ms": "3000"}
    with Sandbox.start("lonely", brokers=2, config=config, root=root) as cluster:
        ready.wait_for_coordinators(cluster.state)
        address = f"127.0.0.1:{cluster.nodes[0].port}"
        admin = clients.admin(address)
        wanted = NewTopic("lonely", 2, replica_assignment=[[2], [1]])
        admin.create_topics([wanted])["lonely"].result(30)

        def leader() -> int:
            found = admin.list_topics("lonely", timeout=5).topics["lonely"].partitions
            return found[0].leader if 0 in found else 0

        clients.wait_for(lambda: leader() == 2, "lonely to have a leader")
        clients.produce(address, "lonely", 4, partition=1)
        clients.commit(address, "g-1", {("lonely", 0): 0, ("lonely", 1): 1})
        cluster.kill(2)
        clients.wait_for(lambda: leader() == -1, "lonely to have lost its leader")
        yield address


@behaviour(79, protocols=ANY)
def test_a_partition_without_leader(
    lonely: str, capsys: pytest.CaptureFixture[str], protocol: str
) -> None:
    line = ["--bootstrap-server", lonely]
    result = run.call(capsys, *line, "--describe", "--group", "g-1")
    rows = [row[1:] for row in lines(result.out)[1:]]
    assert rows == [["lonely", "0", "0", *"-----"], ["lonely", "1", "1", "4", "3", *"---"]]
    argv = ["--reset-offsets", "--group", "g-1", "--topic", "lonely", "--to-earliest"]
    result = run.call(capsys, *line, *argv, "--execute")
    assert result.status == 3
    assert 'Error: The partitions "lonely-0" have no leader' in result.err
    assert shown(result.out) == {("g-1", "lonely", 1): 0}


@behaviour(80, protocols=ANY)
@pytest.mark.parametrize(
    ("regex", "fault"),
    [
        ("foo.*", None),
        ("", None),
        ("(foo", "missing closing )"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid escape sequence"),
    ],
)
def test_regular_expressions(
    capsys: pytest.CaptureFixture[str], regex: str, fault: str | None, protocol: str
) -> None:
    result = run.call(capsys, "--validate-regex", regex)
    verdict = "valid" if fault is None else f"invalid: {fault}"
    assert result.out == f"The regular expression `{regex}` is {verdict}.\n"
    assert result.status == (1 if fault else 0)
