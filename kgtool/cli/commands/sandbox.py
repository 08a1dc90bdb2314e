"""``kgtool sandbox``: run a real Apache Kafka on this machine."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kgtool.cli.options.declare import flag, group, option, repeatable
from kgtool.cli.options.shared import output_options
from kgtool.cli.options.types import PAIR, OneOf, number
from kgtool.cli.output.output import Output
from kgtool.cli.output.progress import BYTES, Meter
from kgtool.columns import keys
from kgtool.columns.tools import SANDBOX
from kgtool.errors import SandboxError
from kgtool.sandbox.reporter import Reporter
from kgtool.text import moment

if TYPE_CHECKING:
    from kgtool.sandbox.cluster import Sandbox

# Repeated from kgtool.sandbox.install.jars, which costs more to import than a --help may take; a
# test holds the two together.
VERSIONS = ("4.4.0", "4.3.1", "3.9.1")

name_option = option("--name", "NAME", "Which sandbox.", default="default", show_default=True)


@group(
    "sandbox",
    "export KGTOOL_BOOTSTRAP_SERVER=$(kgtool sandbox up)",
    "kgtool sandbox seed",
    "kgtool sandbox up --name old --kafka-version 3.9.1 --brokers 3",
    "kgtool sandbox status -o json",
    "kgtool sandbox down",
)
def command() -> None:
    """Run a real Apache Kafka on this machine (no Docker, no root)."""


@command.command("up")
@option("--brokers", "N", "How many brokers (default: 1).", type=number(1, 9))
@option(
    "--kafka-version version", None, f"Which Kafka (default: {VERSIONS[0]}).", type=OneOf(VERSIONS)
)
@repeatable("--config", "KEY=VALUE", "Broker configuration; repeatable.", type=PAIR)
@option(
    "--dir directory",
    "DIR",
    "Where the data goes (default: the user's state folder).",
    type=click.Path(path_type=Path, file_okay=False),
)
@name_option
@output_options
def up(
    output: Output,
    name: str,
    brokers: int | None,
    version: str | None,
    config: tuple[tuple[str, str], ...],
    directory: Path | None,
) -> None:
    """Start it; prints the bootstrap address."""
    from kgtool.sandbox import lifecycle

    with _reporter(output) as reporter:
        cluster = lifecycle.up(name, reporter, brokers, version, dict(config), directory)
    _report(output, cluster)


@command.command("seed")
@name_option
@output_options
def seed(output: Output, name: str) -> None:
    """Create realistic topics and groups in it."""
    from kgtool.sandbox.seeding.seed import seed as run

    cluster = _running(name)
    with _reporter(output) as reporter:
        run(cluster, reporter)
    _report(output, cluster, "kgtool doctor")


@command.command("status")
@name_option
@output_options
def status(output: Output, name: str) -> None:
    """Show what is running, and where."""
    from kgtool.sandbox.cluster import Sandbox

    facts = _facts(Sandbox.attach(name), name)
    output.begin(SANDBOX, facts["cluster_id"])
    output.item(facts)
    shown = {**facts, "started_at": facts["started_at_ms"] and moment(facts["started_at_ms"])}
    for key, value in shown.items():
        if key not in ("brokers", "started_at_ms") and value is not None:
            output.text(f"{key.replace('_', ' '):<14} {value}")
    for row in facts["brokers"]:
        alive = f"pid {row['pid']}" if row["pid"] else "dead"
        output.text(f"{'broker':<14} {row['id']} at 127.0.0.1:{row['port']}, {alive}")


@command.command("down")
@name_option
@flag("--keep-data", "Keep the topics for the next `up`.")
@output_options
def down(output: Output, name: str, keep_data: bool) -> None:
    """Stop it, and remove its data."""
    from kgtool.sandbox.cluster import Sandbox

    cluster = Sandbox.attach(name)
    facts = _facts(None, name)
    output.begin(SANDBOX)
    output.done += 1
    if cluster is None:
        output.note(f"No sandbox {name!r} is running.")
    else:
        cluster.stop(keep_data=keep_data)
        kept = f"; its data stays in {cluster.state.directory}" if keep_data else ""
        output.note(f"The sandbox {name!r} is stopped{kept}.")
    output.row(facts)


def _report(output: Output, cluster: Sandbox, *then: str) -> None:
    """Put out the sandbox; in text, only its address. A terminal shows what comes next."""
    facts = _facts(cluster, cluster.name)
    output.begin(SANDBOX, facts["cluster_id"])
    output.item(facts)
    output.text(cluster.bootstrap)
    if os.environ.get("KGTOOL_BOOTSTRAP_SERVER") != cluster.bootstrap:
        then = (f"export KGTOOL_BOOTSTRAP_SERVER={cluster.bootstrap}", *then)
    if output.is_terminal and then:
        output.note(f"Next: {'; '.join(then)}")


def _running(name: str) -> Sandbox:
    from kgtool.sandbox.cluster import Sandbox

    cluster = Sandbox.attach(name)
    if cluster is None or cluster.dead():
        raise SandboxError(
            f"The sandbox {name!r} is not running",
            hint=f"Start it with: kgtool sandbox up --name {name}",
        )
    return cluster


def _facts(cluster: Sandbox | None, name: str) -> dict[str, Any]:
    if cluster is None:
        nothing = dict.fromkeys(keys(SANDBOX))
        return {**nothing, "name": name, "state": "down", "seeded": False, "brokers": []}
    dead, state = len(cluster.dead()), cluster.phase
    if dead and state == "running":
        state = "degraded" if dead < len(cluster.nodes) else "killed"
    return {
        "name": cluster.name,
        "state": state,
        "bootstrap": cluster.bootstrap,
        "kafka_version": cluster.version,
        "cluster_id": cluster.cluster_id,
        "started_at_ms": cluster.state.started_at_ms,
        "directory": str(cluster.state.directory),
        "seeded": cluster.state.seeded,
        "brokers": [{**node._asdict(), "pid": cluster.pid(node.id)} for node in cluster.nodes],
    }


@contextlib.contextmanager
def _reporter(output: Output) -> Iterator[Reporter]:
    """Yield where the steps are reported; on a terminal each has a clock until the next."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    with contextlib.ExitStack() as step:
        yield Bar(output, step)


class Lines(Reporter):
    """Reports in plain lines on stderr, the download in quarters."""

    def say(self, text: str) -> None:
        """Print one line."""
        click.echo(text, err=True)

    @contextlib.contextmanager
    def download(self, total: int) -> Iterator[Callable[[int], None]]:
        """Print a line at every quarter."""
        reached = 0

        def report(done: int) -> None:
            nonlocal reached
            quarter = 4 * done // total
            if quarter > reached:
                self.say(f"  {25 * quarter} % of {total / 1e6:.0f} MB")
            reached = max(reached, quarter)

        yield report


class Bar(Lines):
    """Draws the download as a bar where stderr is a terminal."""

    def __init__(self, output: Output, step: contextlib.ExitStack) -> None:
        self._output, self._step = output, step

    def say(self, text: str) -> None:
        """Print one line, and then how long it takes."""
        self._step.close()
        super().say(text)
        self._step.enter_context(Meter(self._output, "  so far"))

    @contextlib.contextmanager
    def download(self, total: int) -> Iterator[Callable[[int], None]]:
        """Draw the bar until the download ends."""
        self._step.close()
        with Meter(self._output, "Downloading", total, BYTES) as meter:
            yield meter.set
