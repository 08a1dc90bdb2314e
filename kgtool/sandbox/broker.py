"""One broker process: its ports, its configuration, its start and the errors in its log."""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from kgtool.errors import SandboxError
from kgtool.sandbox import processes, zookeeper
from kgtool.sandbox.install.java import FAST
from kgtool.sandbox.paths import make_dir
from kgtool.sandbox.state import Node, SandboxState

# Below the range from which systems hand out ports to clients (Linux from 32768, others from
# 49152), so that no client takes the port of a broker while it restarts.
PORTS = range(20000, 32000)
CONTROLLERS = 3
_given: set[int] = set()
"""Ports that this process was given: until its broker binds it, a port looks free."""


def plan_nodes(count: int) -> tuple[Node, ...]:
    """Nodes 1 to ``count`` on free ports.

    Up to two brokers share one controller on node 1 (two would need both to be alive); from
    three on nodes 1 to 3 are controllers, so that any one of them may be killed.
    """
    controllers = CONTROLLERS if count >= CONTROLLERS else 1
    ports = free_ports(count + controllers)
    return tuple(
        Node(i + 1, ports[i], ports[count + i] if i < controllers else 0) for i in range(count)
    )


def free_ports(count: int, among: range = PORTS) -> list[int]:
    """``count`` free ports of 127.0.0.1; this process is given each only once."""
    free = []
    for port in random.sample(among, len(among)):
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            _given.update(free)
            return free
    raise SandboxError(
        f"127.0.0.1 has fewer than {count} free ports between {among.start} and {among.stop - 1}"
    )


def properties(state: SandboxState, node: Node) -> dict[str, str]:
    """The ``server.properties`` of one node; the sandbox's own ``config`` overrides all.

    Listeners in ``config`` come in addition to the node's own, unless they have the same name.
    """
    listeners = [f"PLAINTEXT://127.0.0.1:{node.port}"]
    roles = ["broker"]
    if node.controller_port:
        listeners.append(f"CONTROLLER://127.0.0.1:{node.controller_port}")
        roles.append("controller")
    voters = [f"{n.id}@127.0.0.1:{n.controller_port}" for n in state.nodes if n.controller_port]
    kraft = {
        "process.roles": ",".join(roles),
        "node.id": str(node.id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(voters),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        # An idle controller writes a record twice a second (KIP-835): a third of its CPU time.
        "metadata.max.idle.interval.ms": "0",
    }
    if zookeeper.is_needed(state.version):
        kraft = {"listeners": listeners[0], **zookeeper.properties(state, node)}
    own = {**kraft, **_common(state, node, listeners[0])}
    given = _config_of(state, node)
    both = {key: _by_name(own.get(key, ""), given[key]) for key in _LISTENERS if key in given}
    return {**own, **given, **both}


def _config_of(state: SandboxState, node: Node) -> dict[str, str]:
    """The sandbox's ``config`` as one node has it: ``2/listeners`` is for node 2 alone."""
    general = {key: value for key, value in state.config.items() if "/" not in key}
    prefix = f"{node.id}/"
    for key, value in state.config.items():
        if key.startswith(prefix):
            general[key[len(prefix) :]] = value
    return general


_LISTENERS = ("listeners", "advertised.listeners", "listener.security.protocol.map")


def _by_name(own: str, given: str) -> str:
    """Join two lists of ``NAME://…`` or ``NAME:…``; the second one wins."""
    words = filter(None, f"{own},{given}".replace(" ", "").split(","))
    entries = {word.partition(":")[0]: word for word in words}
    return ",".join(entries.values())


def _common(state: SandboxState, node: Node, advertised: str) -> dict[str, str]:
    replicas = str(min(3, len(state.nodes)))
    return {
        "advertised.listeners": advertised,
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(state.node_dir(node.id) / "data"),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        # Small numbers make a small cluster start and fail over sooner.
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "2",
        "log.cleaner.dedupe.buffer.size": "8388608",
        "group.initial.rebalance.delay.ms": "0",
        # The seeded world keeps a transaction open for as long as the sandbox runs.
        "transaction.max.timeout.ms": "86400000",
        **_version_defaults(state.version),
    }


def _version_defaults(version: str) -> dict[str, str]:
    # 3.9 keeps its default, the old coordinator, as its users have it; 4.x has all protocols.
    if not version.startswith("4."):
        return {}
    return {
        "group.coordinator.rebalance.protocols": "classic,consumer,streams,share",
        # KIP-848 members hear of a rebalance at their next heartbeat: 1 s instead of 5.
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "1000",
        # As group.initial.rebalance.delay.ms: a group's first member gets its tasks at once.
        "group.streams.initial.rebalance.delay.ms": "0",
    }


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file; every value on one line."""
    lines = [f"{key}={_escaped(value)}\n" for key, value in settings.items()]
    path.write_text("".join(lines), encoding="ascii")


def _escaped(value: str) -> str:
    return "".join(
        f"\\u{ord(char):04x}" if not " " <= char <= "~" else {"\\": "\\\\"}.get(char, char)
        for char in value
    )


def command(java: Path, class_path: str, folder: Path, flags: Sequence[str] = ()) -> list[str]:
    """The command line of a broker; ``folder`` in it is how the process is recognised.

    ``KAFKA_HEAP_OPTS`` is heeded as by Kafka's own scripts, and has the last word.
    """
    return [
        str(java),
        "-Xms64m",
        "-Xmx512m",
        *FAST,
        *os.environ.get("KAFKA_HEAP_OPTS", "").split(),
        *flags,
        f"-Dkgtool.sandbox={folder}",
        *log_flags("info", folder / "server.log"),
        "-cp",
        class_path,
        "kafka.Kafka",
        str(folder / "server.properties"),
    ]


def log_flags(level: str, target: Path | None = None) -> list[str]:
    """Settings of slf4j-simple: the level, and the file instead of stderr."""
    prefix = "-Dorg.slf4j.simpleLogger."
    flags = [f"{prefix}defaultLogLevel={level}", f"{prefix}showDateTime=true"]
    if target is not None:
        flags.append(f"{prefix}logFile={target}")
    return [*flags, f"{prefix}dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS"]


def start_node(
    java: Path, class_path: str, state: SandboxState, node: Node, flags: Sequence[str] = ()
) -> None:
    """Start the process of one node whose data folder is formatted; ``flags`` for its JVM."""
    folder = make_dir(state.node_dir(node.id))
    write_properties(folder / "server.properties", properties(state, node))
    processes.spawn(command(java, class_path, folder, flags), folder, folder / "console.log")


def log_errors(folder: Path) -> str:
    """The first errors in a process's logs and their causes; later ones come of its shutdown."""
    text = "\n".join(_tail(folder / name) for name in ("server.log", "console.log"))
    plain = [_PREFIX.sub("", line).strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in plain if _TELLING.search(line) and not line.startswith("at ")]
    chosen = list(dict.fromkeys(errors))[:5] or plain[-5:]
    return " ".join(line[:300] for line in chosen)


# 2024-11-05 10:00:00.000 [main] ERROR kafka.Kafka$ - Exiting Kafka …
_PREFIX = re.compile(r"^\d{4}-\d\d-\d\d \S+ \[[^]]*\] ")
_TELLING = re.compile(r"^(ERROR|FATAL)\b|\w(Exception|Error)(:|$)|^Caused by")


def _tail(path: Path) -> str:
    try:
        return path.read_bytes()[-200_000:].decode("utf-8", "replace")
    except OSError:
        return ""


def dead_nodes(state: SandboxState) -> list[Node]:
    """The nodes without a living process."""
    return [node for node in state.nodes if processes.pid_of(state.node_dir(node.id)) is None]
