"""Brokers from before KRaft, which keep the cluster's state in ZooKeeper.

Only the tests start those: 2.1 is the oldest Kafka that kgtool talks to. One ZooKeeper stands
beside the brokers, in a folder of its own next to theirs.
"""

from __future__ import annotations

from pathlib import Path

from kgtool.sandbox import processes
from kgtool.sandbox.install.java import FAST
from kgtool.sandbox.paths import make_dir
from kgtool.sandbox.state import Node, SandboxState

WITHOUT_KRAFT = ("0.", "1.", "2.")


def is_needed(version: str) -> bool:
    """Whether a Kafka version runs with ZooKeeper here (3.x has both, and runs with KRaft)."""
    return version.startswith(WITHOUT_KRAFT)


def folder_of(state: SandboxState) -> Path:
    """The folder of the ZooKeeper process: its pid, its logs and its data."""
    return state.directory / "zookeeper"


def port_of(state: SandboxState) -> int:
    """Its port: node 1's controller port, which no broker uses without KRaft."""
    return state.nodes[0].controller_port


def properties(state: SandboxState, node: Node) -> dict[str, str]:
    """What replaces KRaft's settings in a broker's ``server.properties``."""
    return {
        "broker.id": str(node.id),
        "zookeeper.connect": f"127.0.0.1:{port_of(state)}",
        "zookeeper.connection.timeout.ms": "60000",
    }


def start(java: Path, class_path: str, state: SandboxState) -> None:
    """Start it unless it is alive; brokers wait for it by themselves."""
    folder = make_dir(folder_of(state))
    if processes.pid_of(folder) is not None:
        return
    settings = folder / "zoo.cfg"
    lines = {
        "dataDir": folder / "data",
        "clientPort": port_of(state),
        "clientPortAddress": "127.0.0.1",
        "tickTime": 1000,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }
    settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    command = [str(java), "-Xmx128m", *FAST, "-Dzookeeper.4lw.commands.whitelist=*"]
    command += ["-cp", class_path, "org.apache.zookeeper.server.ZooKeeperServerMain"]
    processes.spawn([*command, str(settings)], folder, folder / "console.log")
