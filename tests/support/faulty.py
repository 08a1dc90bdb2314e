"""Three brokers behind proxies that damage what they say; see ``proxy``."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kgtool.sandbox import ready
from kgtool.sandbox.broker import free_ports
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.paths import locked
from tests.support import brokers
from tests.support.proxy import Plan, Proxies
from tests.support.warm_kgtool import Run, run_warm

MAIN = "import sys; from kgtool.cli.app.main import main; sys.exit(main())"
SMALL = {
    **brokers.KEEP,
    "offsets.topic.num.partitions": "6",
    "offsets.topic.segment.bytes": "1048576",
    "num.replica.fetchers": "1",
    "broker.session.timeout.ms": "6000",
}
"""A cluster that starts soon and fails over soon."""


LISTENERS = 4
"""How many workers have proxies of their own; further ones share."""


PROXIES = range(12_000, 20_000)
"""Nobody listens on their ports between two tests: no broker that starts then may draw them."""


class FaultyKafka(NamedTuple):
    """The brokers, and the proxies' ports by broker id."""

    cluster: Sandbox
    ports: dict[int, int]

    @contextlib.contextmanager
    def proxies(self) -> Iterator[Proxies]:
        """Run this worker's proxies; whoever shares them waits."""
        lock = self.cluster.folder / f"proxies-{_listener()}.lock"
        inner = _ports(self.cluster.folder / "inner.json")
        targets = {broker: (self.ports[broker], inner[broker]) for broker in inner}
        with locked(lock, timeout=600.0), Proxies(targets) as opened:
            yield opened


def start(name: str, root: Path, count: int = 3) -> FaultyKafka:
    """Start brokers that advertise proxies on their listeners PROXIED0, PROXIED1 …"""
    nodes = range(1, count + 1)
    ports = iter(free_ports(count * LISTENERS))
    fronts = iter(free_ports(count * LISTENERS, PROXIES))
    outer = [dict(zip(nodes, fronts, strict=False)) for _ in range(LISTENERS)]
    inner = [dict(zip(nodes, ports, strict=False)) for _ in range(LISTENERS)]
    config = dict(SMALL)
    names = [f"PROXIED{number}" for number in range(LISTENERS)]
    config["listener.security.protocol.map"] = ",".join(f"{name}:PLAINTEXT" for name in names)
    for broker in nodes:
        for key, places in (("listeners", inner), ("advertised.listeners", outer)):
            config[f"{broker}/{key}"] = ",".join(
                f"{name}://127.0.0.1:{at[broker]}" for name, at in zip(names, places, strict=True)
            )
    cluster = Sandbox.start(name, brokers=count, root=root, config=config)
    (cluster.folder / "inner.json").write_text(json.dumps(inner))
    (cluster.folder / "outer.json").write_text(json.dumps(outer))
    ready.wait_for_coordinators(cluster.state)
    return FaultyKafka(cluster, outer[_listener()])


def shared() -> FaultyKafka:
    """The run's brokers behind proxies; whoever asks first starts them."""
    root = Path(os.environ[brokers.VARIABLE])
    with locked(root / "faulty.lock"):
        cluster = Sandbox.attach("faulty", root=root)
        if cluster is None:
            return start("faulty", root)
    return FaultyKafka(cluster, _ports(cluster.folder / "outer.json"))


def _listener() -> int:
    """Which of the listeners is this worker's: the first one outside of pytest-xdist."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % LISTENERS


def _ports(path: Path) -> dict[int, int]:
    """This worker's ports, by broker id."""
    found = json.loads(path.read_text())[_listener()]
    return {int(broker): port for broker, port in found.items()}


def kgtool(*argv: str, limit: float = 60.0, environ: dict[str, str] | None = None) -> Run:
    """Run kgtool in a process of its own; one that does not end is a failure of the test."""
    return run_warm(argv, {**os.environ, **(environ or {})}, limit)


def client_config(folder: Path, client_id: str) -> str:
    """Write a configuration whose client id the proxies know a plan for."""
    path = folder / f"{client_id}.properties"
    path.write_text(f"client.id={client_id}\n")
    return str(path)


__all__ = ["FaultyKafka", "Plan", "Proxies", "Run", "client_config", "kgtool", "shared", "start"]
