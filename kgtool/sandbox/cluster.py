"""A real Kafka cluster on this machine, for the ``sandbox`` command, the demo and the tests.

::

    with Sandbox.start("mine", brokers=3) as kafka:
        kafka.bootstrap                                   # '127.0.0.1:21000,…'
        kafka.run_tool("kafka-consumer-groups", "--list") # Kafka's own tool
        kafka.kill(2); kafka.restart(2)

Brokers outlive the Python that started them; ``Sandbox.attach`` finds them again by name.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from kgtool.class_archive import ClassArchive
from kgtool.errors import SandboxError
from kgtool.sandbox import broker, processes, ready, state, zookeeper
from kgtool.sandbox.install.jars import DEFAULT_VERSION, class_path, jar_dir, kafka_jars
from kgtool.sandbox.install.java import FAST, find_java
from kgtool.sandbox.paths import locked, make_dir, sandbox_dir
from kgtool.sandbox.reporter import QUIET, Reporter
from kgtool.sandbox.state import RUNNING, STARTING, STOPPED, Node, SandboxState
from kgtool.sandbox.tools import tool_class
from kgtool.text import counted


def new_cluster_id() -> str:
    """A random UUID in base64url, as Kafka writes it: never beginning with a dash.

    The tool that formats storage would take such a one for an option.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


class Sandbox:
    """A running (or stopped, with its data kept) sandbox; make one with `start` or `attach`."""

    def __init__(self, folder: Path, current: SandboxState, reporter: Reporter = QUIET) -> None:
        self.folder = folder
        """The folder of its state; the data is elsewhere if ``directory`` was given."""
        self.state = current
        self._reporter = reporter

    # -- coming into being ---------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        name: str = "default",
        *,
        brokers: int = 1,
        version: str = DEFAULT_VERSION,
        config: Mapping[str, str] | None = None,
        directory: Path | None = None,
        root: Path | None = None,
        reporter: Reporter = QUIET,
    ) -> Sandbox:
        """Start a cluster and wait until it answers.

        The remains of an earlier one of the same name are removed first; one that is alive is a
        SandboxError. ``config`` goes into every broker's server.properties, ``directory`` takes
        the data (default: the state folder), ``root`` replaces the state folder.
        """
        folder = sandbox_dir(name, root)
        with locked(folder / "lock"):
            old = state.load(folder)
            alive = old is not None and len(broker.dead_nodes(old)) < len(old.nodes)
            # A start that is under way holds the lock: this one was killed in the middle.
            if old is not None and alive and old.phase != STARTING:
                raise SandboxError(
                    f"The sandbox {name!r} is already running at {old.bootstrap}",
                    hint=f"Stop it with: kgtool sandbox down --name {name}",
                )
            cls._clean(folder, old)
            data = (directory.absolute() / f"kgtool-{name}") if directory else folder / "data"
            fresh = SandboxState(
                name=name,
                phase=STARTING,
                version=version,
                cluster_id=new_cluster_id(),
                directory=data,
                nodes=broker.plan_nodes(brokers),
                config=dict(config or {}),
                started_at_ms=int(time.time() * 1000),
            )
            cluster = cls(folder, fresh, reporter)
            cluster._create()
            return cluster

    @classmethod
    def attach(
        cls, name: str = "default", *, root: Path | None = None, reporter: Reporter = QUIET
    ) -> Sandbox | None:
        """The cluster of that name, dead or alive; None if there is none."""
        folder = sandbox_dir(name, root)
        found = state.load(folder)
        return None if found is None else cls(folder, found, reporter)

    def _create(self) -> None:
        # Before anything is written or downloaded: no Java or no network, no half sandbox.
        if not self.java or not self.jars:
            raise SandboxError("Kafka has no jars")
        if self.state.directory.exists():
            raise SandboxError(
                f"The folder {self.state.directory} exists already",
                hint="Choose another --dir, or remove it if nothing in it is needed.",
            )
        state.save(self.folder, self.state)
        try:
            make_dir(self.state.directory)
            nodes = counted(len(self.nodes), "broker")
            self._reporter.say(f"Starting Kafka {self.version}: {nodes}")
            for node in self.nodes:
                self._format(node)
            for node in self.nodes:
                self._launch(node)
            ready.wait_until_ready(self.state)
            self._record_classes()
        except BaseException:
            # Whether interrupted or failed, nothing stays behind.
            self._clean(self.folder, self.state)
            raise
        self._remember(phase=RUNNING)

    @staticmethod
    def _clean(folder: Path, old: SandboxState | None) -> None:
        """End the processes of a sandbox and remove its data and its state."""
        if old is None:
            shutil.rmtree(folder / "data", ignore_errors=True)
            return
        processes.end([old.members_dir, *(old.node_dir(node.id) for node in old.nodes)])
        processes.end([zookeeper.folder_of(old)])
        shutil.rmtree(old.directory, ignore_errors=True)
        state.forget(folder)

    # -- properties ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name given at the start."""
        return self.state.name

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker, separated by commas."""
        return self.state.bootstrap

    @property
    def version(self) -> str:
        """The Kafka version."""
        return self.state.version

    @property
    def cluster_id(self) -> str:
        """The id that the brokers report."""
        return self.state.cluster_id

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The brokers with their ids and ports."""
        return self.state.nodes

    @property
    def phase(self) -> str:
        """``starting``, ``running`` or ``stopped`` (data kept), as last saved."""
        return self.state.phase

    @cached_property
    def jars(self) -> list[Path]:
        """Kafka's jars in the user's cache, verified once per object."""
        return kafka_jars(self.version, self._reporter)

    @cached_property
    def java(self) -> Path:
        """The Java that runs it."""
        return find_java()

    @cached_property
    def class_archive(self) -> ClassArchive:
        """Of the classes of this Kafka on that Java."""
        return ClassArchive(jar_dir(self.version).parent, self.java)

    def pid(self, node_id: int) -> int | None:
        """The process of a broker, None while it is dead."""
        return processes.pid_of(self._dir(node_id))

    def dead(self) -> list[int]:
        """The ids of the brokers without a living process."""
        return [node.id for node in broker.dead_nodes(self.state)]

    # -- operations ------------------------------------------------------------------------

    def stop(self, *, keep_data: bool = False) -> None:
        """End every process; the data goes too unless ``keep_data``."""
        with locked(self.folder / "lock"):
            if not keep_data:
                self._clean(self.folder, self.state)
                return
            processes.end([self.state.members_dir])
            processes.end([self._dir(node.id) for node in self.nodes], grace=15.0)
            processes.end([zookeeper.folder_of(self.state)], grace=5.0)
            self._remember(phase=STOPPED, seeded=False)

    def resume(self) -> None:
        """Start the brokers that are dead, on their old ports and with their old data."""
        with locked(self.folder / "lock"):
            for node in broker.dead_nodes(self.state):
                self._launch(node)
            ready.wait_until_ready(self.state)
            self._remember(phase=RUNNING)

    def kill(self, node_id: int) -> None:
        """Kill a broker as ``kill -9`` does; its data stays."""
        processes.end([self._dir(node_id)])

    def restart(self, node_id: int) -> None:
        """Start a broker again, after an orderly stop if it is alive, and wait until it's back."""
        processes.end([self._dir(node_id)], grace=15.0)
        self._launch(self._node(node_id))
        ready.wait_until_ready(self.state, only=node_id)

    def run_tool(
        self,
        tool: str,
        *args: str,
        bootstrap: bool = True,
        log_level: str = "off",
        timeout: float = 120.0,
        stdin: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own tools on this cluster and return what it printed.

        ``tool`` is a script's name (``kafka-consumer-groups``) or a class. ``--bootstrap-server``
        is put first unless ``bootstrap`` is False or it is among ``args``; ``log_level`` is the
        level of Kafka's log lines on stderr.
        """
        given = not bootstrap or any(a.split("=")[0] == "--bootstrap-server" for a in args)
        address = [] if given else ["--bootstrap-server", self.bootstrap]
        command = [str(self.java), "-Xmx256m", *FAST, *broker.log_flags(log_level)]
        command += self.class_archive.use()
        command += ["-cp", class_path(self.jars), tool_class(tool, self.version)]
        return subprocess.run(
            [*command, *address, *args],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout,
            input=stdin if stdin is not None else "",
            check=False,
        )

    def remember_seed(self) -> None:
        """Save that the sandbox has been seeded."""
        self._remember(seeded=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- details -------------------------------------------------------------------------------

    def _node(self, node_id: int) -> Node:
        for node in self.nodes:
            if node.id == node_id:
                return node
        raise SandboxError(f"The sandbox {self.name!r} has no broker {node_id}")

    def _dir(self, node_id: int) -> Path:
        return self.state.node_dir(self._node(node_id).id)

    def _remember(self, **changes: object) -> None:
        self.state = self.state._replace(**changes)  # type: ignore[arg-type]
        state.save(self.folder, self.state)

    def _launch(self, node: Node, flags: Sequence[str] | None = None) -> None:
        if flags is None:
            flags = self.class_archive.use()
        if zookeeper.is_needed(self.version):
            zookeeper.start(self.java, class_path(self.jars), self.state)
        broker.start_node(self.java, class_path(self.jars), self.state, node, flags)

    def _record_classes(self) -> None:
        """Let a broker write the class archive, once per Java and Kafka version."""
        flags = self.class_archive.record()
        if not flags:
            return
        self._reporter.say("Preparing faster starts, once")
        node = self.nodes[0]
        processes.end([self._dir(node.id)], grace=15.0)
        self._launch(node, flags)
        ready.wait_until_ready(self.state, only=node.id)
        processes.end([self._dir(node.id)], grace=30.0)
        self.class_archive.publish()
        self._launch(node)
        ready.wait_until_ready(self.state)

    def _format(self, node: Node) -> None:
        if zookeeper.is_needed(self.version):
            return  # those take an empty folder as it is
        folder = make_dir(self._dir(node.id))
        settings = folder / "server.properties"
        broker.write_properties(settings, broker.properties(self.state, node))
        done = self.run_tool(
            "kafka-storage", "format", "-t", self.cluster_id, "-c", str(settings), bootstrap=False
        )
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip().splitlines()
            raise SandboxError(
                f"Kafka {self.version} refuses its configuration: {output[0] if output else '?'}",
                hint="Check the --config settings.",
            )
