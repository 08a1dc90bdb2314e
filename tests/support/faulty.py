"""Three brokers behind proxies that damage what they say; see ``proxy``."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.sandbox import ready
from kgtool.sandbox.broker import free_ports
from kgtool.sandbox.cluster import Cluster
from kgtool.sandbox.paths import locked
from tests.support import brokers
from tests.support.proxy import Plan, Proxies

MAIN = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"
_TIMED = """
import sys
place = sys.argv.pop(1)
from kgtool.cli.app.main import main
status = main()
with open("/proc/self/schedstat") as seen, open(place, "w") as out:
    out.write(seen.read())
sys.exit(status)
"""
"""Like MAIN, and leaves behind how long the process waited for a processor (Linux)."""
SMALL = {
    "offsets.topic.num.partitions": "6",
    "offsets.topic.segment.bytes": "1048576",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.replica.fetchers": "1",
    "broker.session.timeout.ms": "6000",
}
"""A cluster that starts soon and fails over soon."""


class FaultyKafka(NamedTuple):
    """The brokers, and the proxies' ports by broker id."""

    cluster: Cluster
    ports: dict[int, int]

    @contextlib.contextmanager
    def proxies(self) -> Iterator[Proxies]:
        """Run the proxies; one process at a time has them."""
        targets = {node.id: node.port for node in self.cluster.nodes}
        inner = json.loads((self.cluster.folder / "inner.json").read_text())
        ports = {int(b): (self.ports[int(b)], inner[b]) for b in inner}
        assert targets.keys() == ports.keys()
        with locked(self.cluster.folder / "proxies.lock", timeout=600.0), Proxies(ports) as opened:
            yield opened


def start(name: str, root: Path, count: int = 3) -> FaultyKafka:
    """Start brokers that advertise proxies on their listener PROXIED."""
    ports = free_ports(2 * count)
    outer = dict(zip(range(1, count + 1), ports[:count], strict=True))
    inner = dict(zip(range(1, count + 1), ports[count:], strict=True))
    config = dict(SMALL)
    config["listener.security.protocol.map"] = "PROXIED:PLAINTEXT"
    for broker in outer:
        config[f"{broker}/listeners"] = f"PROXIED://127.0.0.1:{inner[broker]}"
        config[f"{broker}/advertised.listeners"] = f"PROXIED://127.0.0.1:{outer[broker]}"
    cluster = Cluster.start(name, brokers=count, root=root, config=config)
    (cluster.folder / "inner.json").write_text(json.dumps(inner))
    (cluster.folder / "outer.json").write_text(json.dumps(outer))
    ready.wait_for_coordinators(cluster.state)
    return FaultyKafka(cluster, outer)


def shared() -> FaultyKafka:
    """The run's brokers behind proxies; whoever asks first starts them."""
    root = Path(os.environ[brokers.VARIABLE])
    with locked(root / "faulty.lock"):
        cluster = Cluster.attach("faulty", root=root)
        if cluster is None:
            return start("faulty", root)
    outer = json.loads((cluster.folder / "outer.json").read_text())
    return FaultyKafka(cluster, {int(broker): port for broker, port in outer.items()})


class Run(NamedTuple):
    """What one run of kgtool did."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str
    seconds: float
    """Without the time in which there was no processor for it: other tests run beside."""

    @property
    def document(self) -> Any:
        return json.loads(self.stdout)

    def __str__(self) -> str:
        return (
            f"{' '.join(self.argv)}\nstatus {self.status} after {self.seconds:.1f} s\n"
            f"{self.stdout[-3000:]}\n{self.stderr[-3000:]}"
        )


def kgtool(*argv: str, limit: float = 60.0, environ: dict[str, str] | None = None) -> Run:
    """Run kgtool in a process of its own; one that does not end is a failure of the test."""
    with tempfile.NamedTemporaryFile("r") as waited:
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", _TIMED, waited.name, *argv],
            capture_output=True, text=True, timeout=limit, check=False,
            env={**os.environ, **(environ or {})},
        )  # fmt: skip
        seconds = time.monotonic() - began
        figures = waited.read().split()
    if figures:
        seconds -= int(figures[1]) / 1e9
    return Run(argv, done.returncode, done.stdout, done.stderr, seconds)


def client_config(folder: Path, client_id: str) -> str:
    """Write a configuration whose client id the proxies know a plan for."""
    path = folder / f"{client_id}.properties"
    path.write_text(f"client.id={client_id}\n")
    return str(path)


__all__ = ["FaultyKafka", "Plan", "Proxies", "Run", "client_config", "kgtool", "shared", "start"]
