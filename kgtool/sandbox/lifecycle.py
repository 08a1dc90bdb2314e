"""``sandbox up``: start, resume or find a sandbox, whatever its state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kgtool.errors import SandboxError
from kgtool.sandbox.cluster import Sandbox
from kgtool.sandbox.install.jars import DEFAULT_VERSION, pins
from kgtool.sandbox.paths import locked, sandbox_dir
from kgtool.sandbox.reporter import Reporter
from kgtool.sandbox.state import RUNNING, STOPPED
from kgtool.text import counted


def up(
    name: str,
    reporter: Reporter,
    brokers: int | None = None,
    version: str | None = None,
    config: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> Sandbox:
    """Start a sandbox, or find the one that runs; None: as it is, else the default.

    One whose brokers were all killed is removed first; one that lost some of its brokers, or was
    stopped with its data kept, is resumed. SandboxError if one exists with other settings.
    """
    with locked(sandbox_dir(name) / "up.lock"):
        if version is not None:
            pins(version)
        found = Sandbox.attach(name, reporter=reporter)
        if found is None or _remove_if_killed(found, reporter):
            return Sandbox.start(
                name,
                brokers=brokers or 1,
                version=version or DEFAULT_VERSION,
                config=config,
                directory=directory,
                reporter=reporter,
            )
        _refuse_other_settings(found, brokers, version, config, directory)
        if found.dead():
            reporter.say(f"Starting the brokers of {name!r} again, with the data they had")
            found.resume()
        else:
            reporter.say(f"The sandbox {name!r} is already running")
        return found


def _remove_if_killed(cluster: Sandbox, reporter: Reporter) -> bool:
    """Remove a sandbox if it was killed, or was killed during its start; return whether it was."""
    alive = len(cluster.dead()) < len(cluster.nodes)
    if cluster.phase == STOPPED or (cluster.phase == RUNNING and alive):
        return False
    reporter.say(f"The sandbox {cluster.name!r} was killed: removing what is left of it")
    cluster.stop()
    return True


def _refuse_other_settings(
    cluster: Sandbox,
    brokers: int | None,
    version: str | None,
    config: Mapping[str, str] | None,
    directory: Path | None,
) -> None:
    same = (
        brokers in (None, len(cluster.nodes))
        and version in (None, cluster.version)
        and (not config or dict(config) == cluster.state.config)
        and (directory is None or directory.absolute() == cluster.state.directory.parent)
    )
    if not same:
        brokers_there = counted(len(cluster.nodes), "broker")
        raise SandboxError(
            f"The sandbox {cluster.name!r} exists already, as {brokers_there} of Kafka "
            f"{cluster.version} at {cluster.bootstrap}, and can't become another one",
            hint=f"Run kgtool sandbox down --name {cluster.name}, or choose another --name.",
        )
