"""``kgtool sandbox`` as a user runs it: real brokers, real signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kgtool.sandbox.cluster import Sandbox
from tests.cli.pseudo import Terminal
from tests.support import clients

pytestmark = pytest.mark.broker
MAIN = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"


class Shell:
    """Runs ``kgtool sandbox …`` with a state folder of its own."""

    def __init__(self, home: Path) -> None:
        self.environ = {**os.environ, "XDG_STATE_HOME": str(home)}
        self.root = home / "kgtool" / "sandbox"

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", MAIN, "sandbox", *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
        )

    def __call__(self, *args: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        with self.start(*args) as process:
            out, err = process.communicate(timeout=240)
        assert process.returncode == status, (args, process.returncode, out, err)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def state(self) -> dict:
        return json.loads(self("status", "-o", "json").stdout)["results"][0]

    def processes(self) -> list[int]:
        """Every living process that has this state folder in its command line."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if str(self.root).encode() in (entry / "cmdline").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell("down")


def test_up_status_down(shell):
    assert shell.state()["state"] == "down"
    address = shell("up", "--config", "message.max.bytes=777777").stdout.strip()
    assert clients.group_ids(address) == set()
    state = shell.state()
    assert (state["state"], state["bootstrap"]) == ("running", address)
    assert state["kafka_version"] == "4.4.0"

    again = shell("up")
    assert again.stdout.strip() == address
    assert "already running" in again.stderr and "Next" not in again.stderr
    argv = [sys.executable, "-c", MAIN, "sandbox", "up"]
    with Terminal(argv, env={"XDG_STATE_HOME": shell.environ["XDG_STATE_HOME"]}) as terminal:
        assert terminal.read_all() == 0
        assert f"Next: export KGTOOL_BOOTSTRAP_SERVER={address}" in terminal.output
    other = shell("up", "--brokers", "3", status=1)
    assert "exists already, as 1 broker of Kafka 4.4.0" in other.stderr
    assert shell.state()["brokers"] == state["brokers"]

    with Sandbox.attach("default", root=shell.root) as cluster:
        shown = cluster.run_tool(
            "kafka-configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"
        )
        assert "message.max.bytes=777777" in shown.stdout
        shell("down")
    assert shell.processes() == []
    assert not list(shell.root.rglob("*.log"))
    assert "No sandbox 'default' is running" in shell("down").stderr


def test_killed_brokers_are_recognised_and_cleaned(shell):
    first = shell("up").stdout.strip()
    for pid in shell.processes():
        os.kill(pid, signal.SIGKILL)
    clients.wait_for(lambda: not shell.processes(), "the brokers' end")
    assert shell.state()["state"] == "killed"
    second = shell("up")
    assert "was killed: removing what is left" in second.stderr
    assert second.stdout.strip() != first
    assert clients.group_ids(second.stdout.strip()) == set()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_start_leaves_nothing(shell, number):
    starting = shell.start("up")
    with starting:
        pid_file = shell.root / "default" / "data" / "node-1" / "pid"
        clients.wait_for(lambda: pid_file.exists() or starting.poll(), "the broker's start")
        assert starting.poll() is None, starting.communicate(timeout=60)
        time.sleep(0.3)
        starting.send_signal(number)
        starting.communicate(timeout=60)
    if number == signal.SIGINT:
        assert starting.returncode == 130
        assert shell.processes() == []
        assert shell.state()["state"] == "down"
    else:
        assert shell.processes(), "the broker was to survive its starter"
        assert "was killed: removing" in shell("up").stderr
        assert len(shell.state()["brokers"]) == 1
    shell("down")
    assert shell.processes() == []


def test_two_starts_at_once_make_one_cluster(shell):
    both = [shell.start("up") for _ in range(2)]
    answers = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert len({out for out, _ in answers}) == 1
    assert len(shell.processes()) == 1


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("num.io.threads=many", "num.io.threads"),
        ("authorizer.class.name=com.example.NoSuchAuthorizer", "com.example.NoSuchAuthorizer"),
    ],
)
def test_a_broker_that_cannot_start_says_why(shell, setting, said):
    failed = shell("up", "--config", setting, status=1)
    assert failed.stdout == ""
    assert said in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "\tat " not in failed.stderr
    assert shell.processes() == []
    assert shell.state()["state"] == "down"


def test_kept_data_is_there_again(shell):
    address = shell("up").stdout.strip()
    clients.create_topic(address, "kept")
    clients.produce(address, "kept", 3)
    assert "its data stays" in shell("down", "--keep-data").stderr
    assert shell.processes() == []
    assert shell.state()["state"] == "stopped"
    address = shell("up").stdout.strip()
    reader = clients.consumer(address, "reader")
    reader.assign([clients.TopicPartition("kept", 0, 0)])
    assert len(reader.consume(3, timeout=30)) == 3
    reader.close()


def test_three_brokers_survive_the_death_of_any_one(tmp_path):
    config = {"broker.session.timeout.ms": "3000"}  # how soon the others take over
    with Sandbox.start("three", brokers=3, config=config, root=tmp_path) as cluster:
        address = cluster.bootstrap
        topic = clients.create_topic(address, "replicated", 3, replication=3)
        for victim in (1, 3):
            cluster.kill(victim)
            assert cluster.dead() == [victim]
            for partition in range(3):
                clients.produce(address, topic, 2, partition=partition)
            cluster.restart(victim)
            assert cluster.dead() == []
