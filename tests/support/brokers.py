"""One real broker per Kafka version for a whole test run, whoever asks first starts it.

The process that started pytest owns a folder with their state. pytest-xdist's workers find it
in the environment, start what they need under a lock, and share it; only the owner stops it, at
the very end and also after Ctrl-C. A run that was killed outright is cleaned up by the next one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from kgtool.sandbox import broker, ready
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.paths import locked

VARIABLE = "KGTOOL_TEST_BROKERS"
PREFIX = "kgtool-tests-"


SHARES = 16
"""For so many processes at once; further workers share."""


def draw_own_ports(share: int | None = None) -> None:
    """Have this process draw the ports of its brokers from a share of its own.

    A port looks free until its broker binds it, seconds later, and while it restarts: with three
    workers, one run of a hundred or two drew a port that another one was about to listen on.

    :param share: default: of this worker.
    """
    if share is None:
        share = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    broker.free_ports.__defaults__ = (broker.PORTS[share % SHARES :: SHARES],)


def open_root() -> Path:
    """Called once, by the owner, before any worker exists."""
    _remove_orphans()
    root = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    os.environ[VARIABLE] = str(root)
    return root


def close_root(root: Path) -> None:
    """Stop every broker of the run and remove their data."""
    os.environ.pop(VARIABLE, None)
    _stop_all(root)


CHECK_INTERVAL = "offsets.retention.check.interval.ms"
KEEP = {
    "log.retention.ms": "-1",
    CHECK_INTERVAL: "3600000",
    # Threads that wait wake up all the time: each broker without work takes 2 % of a core.
    "num.io.threads": "2",
    "num.network.threads": "2",
    "background.threads": "2",
}
"""A broker that outlives a test removes nothing in the middle of it: records of years ago, as many
tests write them, within five minutes; an Empty group without offsets at the next check, in ten.
Doctor calls more than an hour rare."""


def shared_broker(
    version: str, *, name: str | None = None, config: Mapping[str, str] | None = None
) -> Sandbox:
    """The run's broker of that version, with its coordinators already at work.

    ``name`` tells apart brokers of one version with different settings.
    """
    root = Path(os.environ[VARIABLE])
    name = name or f"kafka-{version}"
    with locked(root / f"{name}.lock"):
        cluster = Sandbox.attach(name, root=root)
        if cluster is None or cluster.dead():
            settings = {**KEEP, **(config or {})}
            cluster = Sandbox.start(name, version=version, root=root, config=settings)
            ready.wait_for_coordinators(cluster.state)
    return cluster


def _stop_all(root: Path) -> None:
    for state in root.glob("*/state.json"):
        cluster = Sandbox.attach(state.parent.name, root=root)
        if cluster is not None:
            cluster.stop()
    shutil.rmtree(root, ignore_errors=True)


def _remove_orphans() -> None:
    for root in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = int(root.name.removeprefix(PREFIX).split("-")[0])
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            _stop_all(root)
        except PermissionError:
            continue
