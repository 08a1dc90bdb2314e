"""``kgtool exporter`` on a real broker, scraped as Prometheus does, and by a real Prometheus."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kgtool import metrics
from kgtool.config import Settings
from kgtool.exporter import collect, serve
from kgtool.model import GroupDescription
from kgtool.sandbox.broker import free_ports
from tests.support import clients
from tests.support.faulty import kgtool

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs/monitoring"


class Running(NamedTuple):
    url: str
    process: subprocess.Popen[str]

    def text(self, token: str | None = None) -> str:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        asked = urllib.request.Request(self.url, headers=headers)
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return str(answer.read().decode())

    def samples(self, token: str | None = None) -> dict[str, list[tuple[dict[str, str], float]]]:
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(self.text(token)):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    def until_up(
        self, value: float = 1, token: str | None = None
    ) -> dict[str, list[tuple[dict[str, str], float]]]:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = self.samples(token)
            if found["kgtool_up"][0][1] == value and (not value or "kgtool_errors" in found):
                return found
            time.sleep(0.2)
        raise AssertionError(f"kgtool_up is not {value} within a minute: {self.text()}")


@contextmanager
def running(bootstrap: str, *argv: str) -> Iterator[Running]:
    program = [sys.executable, "-m", "kgtool", "exporter", "--bootstrap-server", bootstrap]
    with subprocess.Popen(
        [*program, "--listen", "127.0.0.1:0", *argv], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://\S+", said)
            assert found, said + process.stderr.read()
            yield Running(found[0], process)
        finally:
            process.terminate()
            process.wait(timeout=20)


@pytest.fixture(scope="module")
def group(bootstrap: str) -> str:
    """A group with a lag of 3, and one commit in a topic of 5 records."""
    topic, name = clients.unique("exported"), clients.unique("exporting")
    clients.create_topic(bootstrap, topic, 1)
    clients.produce(bootstrap, topic, 5)
    clients.commit(bootstrap, name, {(topic, 0): 2})
    return name


@pytest.fixture(scope="module")
def exporter(bootstrap: str, group: str) -> Iterator[Running]:
    with running(bootstrap, "--match", group, "--time-lag", "--interval", "2s") as one:
        one.until_up()
        yield one


def test_a_scrape_tells_what_describe_tells(
    exporter: Running, group: str, bootstrap: str, tmp_path: Path
) -> None:
    """The same names and labels as ``describe --prometheus``, the same values."""
    samples = exporter.until_up()
    ((labels, lag),) = samples["kgtool_group_lag"]
    assert (labels["group"], labels["partition"], lag) == (group, "0", 3)
    path = tmp_path / "x.prom"
    done = kgtool(
        "describe",
        "--group",
        group,
        "--expiry",
        "--time-lag",
        "--prometheus",
        str(path),
        "--bootstrap-server",
        bootstrap,
    )
    assert done.status == 0, done
    written = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }
    scraped = {
        (name, tuple(sorted(labels.items()))): value
        for name, found in samples.items()
        for labels, value in found
    }
    changing = {"kgtool_last_poll_timestamp_seconds", "kgtool_group_lag_seconds"}
    assert written.keys() <= scraped.keys()
    assert {k: v for k, v in written.items() if k[0] not in changing} == {
        k: scraped[k] for k in written if k[0] not in changing
    }
    ((_, expires),) = samples["kgtool_group_offset_expires_timestamp_seconds"]
    ((_, committed),) = samples["kgtool_group_offset_committed_timestamp_seconds"]
    assert abs(time.time() - committed) < 600 and expires - committed == pytest.approx(
        7 * 86400, abs=60
    )
    assert samples["kgtool_errors"][0][1] == 0


def test_what_happens_in_the_log_is_counted(
    exporter: Running, group: str, bootstrap: str, tmp_path: Path
) -> None:
    """KIP-496's four, from the tail; other tests commit in the same log, so these are the least."""

    def counts() -> list[float]:
        samples = exporter.samples()
        return [samples[f"kgtool_{name}_total"][0][1] for name in NAMES]

    exporter.until_up()
    before = counts()
    topic, name = clients.unique("counted"), clients.unique("counting")
    clients.create_topic(bootstrap, topic, 2)
    clients.commit(bootstrap, name, {(topic, 0): 0, (topic, 1): 0})
    at = ("--bootstrap-server", bootstrap)
    done = kgtool("delete-offsets", "--group", name, "--topic", f"{topic}:1", "--yes", *at)
    assert done.status == 0, done
    clients.join(bootstrap, clients.unique("joining"), [topic]).close()
    least = [2, 0, 1, 1]
    clients.wait_for(
        lambda: all(now - was >= n for now, was, n in zip(counts(), before, least, strict=True)),
        "the counts",
    )
    assert "# TYPE kgtool_offset_commits_total counter" in exporter.text()


NAMES = ("offset_commits", "offset_expirations", "offset_deletions", "group_completed_rebalances")


def test_a_probe_takes_the_head_alone(exporter: Running) -> None:
    place = urllib.parse.urlsplit(exporter.url)
    with socket.create_connection((place.hostname, place.port), timeout=10) as probe:
        probe.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
        head, end, body = probe.makefile("rb").read().partition(b"\r\n\r\n")
    assert (head.split()[1], end, body) == (b"200", b"\r\n\r\n", b"")
    assert re.search(rb"Content-Length: [1-9]", head)


def test_a_token_is_asked_for(bootstrap: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    with running(bootstrap, "--token-file", str(tmp_path / "token")) as one:
        for wrong in (None, "", "s3cre", "s3cret2"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                one.text(wrong)
            assert refused.value.code == 401
            refused.value.close()
        assert "kgtool_up" in one.text("s3cret")
        (tmp_path / "token").write_text("new")
        assert "kgtool_up" in one.text("new")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--listen", "0.0.0.0:0"], "lets other machines connect: give --token-file"),
        (["--listen", ":0"], "lets other machines connect"),
        (["--listen", "nowhere"], "--listen takes HOST:PORT"),
        (["--token-file", "/nonexistent"], "Can't read the token file /nonexistent"),
    ],
)
def test_what_can_not_be_is_refused(argv: list[str], said: str) -> None:
    done = kgtool("exporter", "--bootstrap-server", "127.0.0.1:1", *argv)
    assert done.status == 2 and said in done.err, done


def test_a_cluster_that_is_away(tmp_path: Path) -> None:
    """Honest: up is 0, there is no lag of anybody, and scrapes are answered."""
    with running("127.0.0.1:1", "--interval", "1s", "--timeout", "1000") as one:
        time.sleep(1.5)
        samples = one.until_up(0)
        assert not [name for name in samples if name.startswith("kgtool_group")]
        assert "Traceback" not in one.text()


@pytest.mark.timed
def test_a_slow_client_holds_up_no_other(exporter: Running) -> None:
    import socket

    port = int(re.findall(r":(\d+)/", exporter.url)[0])
    with socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")  # and no more
        began = time.monotonic()
        exporter.text()
        assert time.monotonic() - began < 2


@pytest.mark.timed
def test_2000_groups_with_50_offsets_each_are_scraped_in_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """500,000 lines, 70 MB: a scrape makes none of them."""
    row = {
        "current_offset": 10**9,
        "log_end_offset": 10**9 + 5,
        "lag": 5,
        "lag_ms": 1000,
        "committed_at_ms": 1,
        "expires_at_ms": 2,
    }
    groups = [
        (
            GroupDescription(f"billing-{group}", "consumer", "Stable", "", "", None, ()),
            [
                {"group": f"billing-{group}", "topic": "orders", "partition": n, **row}
                for n in range(50)
            ],
        )
        for group in range(2000)
    ]
    text = metrics.render(metrics.of_groups(groups), {"cluster_id": "abcdefghijklmnopqrstuv"})
    look = collect.Collected(int(time.time() * 1000), text.encode())
    monkeypatch.setattr(collect, "collect", lambda *_: look)
    wanted = collect.Options(60_000, 0, True, lambda _: True)
    collector = collect.Collector(Settings((("127.0.0.1", 1),)), wanted, print)
    collector.collect()
    with serve.Server("127.0.0.1", 0, collector.parts, None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        took = []
        for _ in range(3):
            began = time.monotonic()
            url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
            with urllib.request.urlopen(url, timeout=10) as answer:
                assert answer.read().count(b"\nkgtool_group_lag{") >= 99_999
            took.append(time.monotonic() - began)
        server.shutdown()
    assert min(took) < 1, took
    # Scrapes at once share one rendering.
    assert collector.parts()[0] is collector.parts()[0] is look.body


def test_what_is_too_old_to_be_told_is_not_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No look has failed since, but none has ended either."""
    look = collect.Collected(10_000, b"kgtool_errors 0\n")
    monkeypatch.setattr(collect, "now_ms", lambda: 15_000)
    monkeypatch.setattr(collect, "collect", lambda *_: look)
    wanted = collect.Options(1000, 0, False, lambda _: True)
    collector = collect.Collector(Settings((("127.0.0.1", 1),)), wanted, print)
    collector.collect()
    assert b"".join(collector.parts()).decode().startswith("kgtool_errors 0\n")
    assert "\nkgtool_up{} 1\n" in b"".join(collector.parts()).decode()
    monkeypatch.setattr(collect, "now_ms", lambda: 15_001)
    assert "kgtool_errors" not in b"".join(collector.parts()).decode()
    assert "\nkgtool_up{} 0\n" in b"".join(collector.parts()).decode()


def test_a_look_that_fails_as_nobody_expected_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([ZeroDivisionError("by zero"), None])

    def look(*_: object) -> collect.Collected:
        if error := next(looks):
            raise error
        return collect.Collected(int(time.time() * 1000), b"")

    monkeypatch.setattr(collect, "collect", look)
    wanted, said = collect.Options(1000, 0, False, lambda _: True), list[str]()
    collector = collect.Collector(Settings((("127.0.0.1", 1),)), wanted, said.append)
    collector.start()
    clients.wait_for(
        lambda: "\nkgtool_up{} 1\n" in b"".join(collector.parts()).decode(), "the second look"
    )
    collector.stop()
    assert said == ["Unexpected ZeroDivisionError: by zero"]


def test_the_names_of_files_exist(exporter: Running) -> None:
    """Each metric that the rules and the dashboard ask for is one that there is."""
    source = "".join(
        path.read_text()
        for path in (Path(metrics.__file__), *(ROOT / "kgtool/exporter").glob("*"))
        if path.suffix == ".py"
    )
    known = set(re.findall(r'"(kgtool_\w+)"', source))
    for path in (FILES / "alerts.yml", FILES / "dashboard.json"):
        asked = set(re.findall(r"kgtool_\w+", path.read_text()))
        assert asked and asked <= known, path
    assert known == set(re.findall(r"``(kgtool_\w+)``", (ROOT / "docs/monitoring.rst").read_text()))


def test_promtool_takes_the_files_and_the_metrics(exporter: Running) -> None:
    for argv in (["check", "rules", "alerts.yml"], ["check", "config", "prometheus.yml"]):
        subprocess.run(["promtool", *argv], cwd=FILES, check=True, capture_output=True, timeout=60)
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=exporter.text(),
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done


def test_a_real_prometheus(exporter: Running, group: str, tmp_path: Path) -> None:
    """It scrapes, evaluates the rules, and answers every query of the dashboard."""
    port = free_ports(1)[0]
    config = (FILES / "prometheus.yml").read_text()
    target = exporter.url.removeprefix("http://").removesuffix("/metrics")
    often = "scrape_interval: 1s\n  evaluation_interval: 1s"
    config = config.replace("127.0.0.1:9308", target).replace("scrape_interval: 30s", often)
    (tmp_path / "prometheus.yml").write_text(config)
    (tmp_path / "alerts.yml").write_text((FILES / "alerts.yml").read_text())
    base = f"http://127.0.0.1:{port}/api/v1"

    def ask(path: str) -> dict[str, object]:
        with urllib.request.urlopen(f"{base}/{path}", timeout=5) as answer:
            return json.loads(answer.read())["data"]

    def query(expr: str) -> list[dict[str, object]]:
        return ask(f"query?query={urllib.request.quote(expr)}")["result"]

    def scraped(expr: str) -> list[dict[str, object]]:
        try:
            return query(expr)
        except OSError:  # it is not up yet
            return []

    def evaluated() -> list[dict[str, object]]:
        (group,) = ask("rules")["groups"]
        return [] if any(one["health"] == "unknown" for one in group["rules"]) else group["rules"]

    with subprocess.Popen(
        [
            "prometheus",
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            lag = f'sum by (group) (kgtool_group_lag{{group="{group}"}})'
            found = clients.wait_for(lambda: scraped(lag), "the first scrape", 60)
            assert [one["value"][1] for one in found] == ["3"]
            rules = clients.wait_for(evaluated, "the rules", 60)
            alerts = re.findall(r"- alert: (\w+)", (FILES / "alerts.yml").read_text())
            assert [(one["name"], one["health"]) for one in rules] == [(a, "ok") for a in alerts]
            dashboard = json.loads((FILES / "dashboard.json").read_text())
            cluster = str(query("kgtool_errors")[0]["metric"]["cluster_id"])
            for panel in dashboard["panels"]:
                for asked in panel["targets"]:
                    expr = asked["expr"].replace("$cluster", cluster).replace("$group", ".*")
                    assert isinstance(query(expr), list), expr
        finally:
            process.terminate()
