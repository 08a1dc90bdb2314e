"""The state of a sandbox between two commands: ``state.json`` in its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.durable import replace
from kgtool.sandbox.paths import make_dir

STARTING, RUNNING, STOPPED = "starting", "running", "stopped"


class Node(NamedTuple):
    """One broker: its ports on 127.0.0.1; ``controller_port`` is 0 where it is only a broker."""

    id: int
    port: int
    controller_port: int


class SandboxState(NamedTuple):
    """A sandbox as it was last saved; ``directory`` holds the data of the nodes."""

    name: str
    phase: str
    version: str
    cluster_id: str
    directory: Path
    nodes: tuple[Node, ...]
    config: dict[str, str]
    started_at_ms: int
    seeded: bool = False

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, ``host:port,host:port``."""
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def node_dir(self, node_id: int) -> Path:
        """The folder of one broker: its pid, its logs, its properties and its data."""
        return self.directory / f"node-{node_id}"

    @property
    def members_dir(self) -> Path:
        """The folder of the process that keeps the seeded groups alive."""
        return self.directory / "members"


def load(folder: Path) -> SandboxState | None:
    """Read ``folder/state.json``; None if there is none, or if it is unreadable."""
    try:
        return _decode(json.loads((folder / "state.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        # A half-written file can't exist (see save); any other damage is like no state.
        return None


def save(folder: Path, state: SandboxState) -> None:
    """Write ``folder/state.json`` so that a reader sees the old or the new one, never half."""
    make_dir(folder)
    fields: dict[str, Any] = state._asdict()
    fields["directory"] = str(state.directory)
    fields["nodes"] = [node._asdict() for node in state.nodes]
    replace(folder / "state.json", [json.dumps(fields, indent=1).encode()])


def forget(folder: Path) -> None:
    """Remove the state; the lock file stays, since others may be waiting on it."""
    (folder / "state.json").unlink(missing_ok=True)


def _decode(fields: dict[str, Any]) -> SandboxState:
    fields["directory"] = Path(fields["directory"])
    fields["nodes"] = tuple(Node(**node) for node in fields["nodes"])
    return SandboxState(**fields)
