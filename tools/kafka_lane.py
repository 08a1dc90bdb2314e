"""``make lanes LANES=kafka``: every command once on every Kafka, and whether the pins are old.

Each broker is started once. A command fails where it ends with another status than it should, with
a traceback or with an unexpected error; the table has the seconds of each.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kgtool.sandbox.cluster import Sandbox  # noqa: E402 - the path above makes it importable
from kgtool.sandbox.install.download import find_ivy, ivy_command  # noqa: E402
from kgtool.sandbox.install.jars import VERSIONS  # noqa: E402
from kgtool.sandbox.install.pin import Pin  # noqa: E402
from tests.support import clients, share  # noqa: E402
from tests.support.streams import StreamsMember  # noqa: E402
from tests.support.terminal import Terminal  # noqa: E402

KAFKAS = ("2.1.1", "2.4.1", "2.8.2", "3.3.2", "3.9.1", "4.1.1", "4.3.1", "4.4.0")
OFFSET_DELETE = (2, 4)
GROUP_CONFIGS = (4, 0)
OTHER_TYPES = (4, 2)
"""The release whose share and streams groups are general."""
SECONDS = 120.0
BROKEN = ("Traceback (most recent call last)", "Unexpected ", "This is a bug")


class Case(NamedTuple):
    """A command line, and the statuses that it may end with."""

    words: Sequence[str]
    statuses: Sequence[int] = (0,)
    seconds: float = SECONDS
    """After these it is asked to end (SIGTERM): it serves."""


def cases(version: str, work: Path) -> Iterator[Case]:
    """Every command of the contract's table, in an order that leaves each something to do."""
    numbers = tuple(map(int, version.split(".")[:2]))
    deletes = (0,) if numbers >= OFFSET_DELETE else (1,)
    configs = (0,) if numbers >= GROUP_CONFIGS else (1,)
    saved, plan, log = (str(work / name) for name in ("saved.jsonl", "plan.json", "log"))
    topic, rules = "orders", work / "rules.toml"
    rules.write_text('[[groups]]\nmatch = "*"\nretention = "90d"\n', encoding="utf-8")
    yield Case(["list"])
    yield Case(["lag"])
    yield Case(["describe", "--all-groups", "--expiry"])
    yield Case(["describe", "living", "--members", "--verbose"])
    yield Case(["doctor"], (0, 5))
    yield Case(["explain", "empty"])
    yield Case(["coordinator", "empty"])
    yield Case(["peek", "empty", "--topic", f"{topic}:0"])
    yield Case(["backup", "empty", "--out", saved])
    yield Case(["reset-offsets", "empty", "--all-topics", "--to-earliest", "--execute", "--yes"])
    yield Case(["diff", saved], (5,))
    yield Case(["undo", "last", "--yes"])
    yield Case(["history"])
    yield Case(["restore", saved, "--yes"])
    yield Case(["delete-offsets", "empty", f"{topic}:1", "--yes"], deletes)
    yield Case(["keep", "empty", "--yes"], (0, 3))
    yield Case(["delete", "other", "--yes"])
    yield Case(["recover", "other", "--yes"])
    yield Case(["cleanup", "plan", "--match", "other", "--caught-up", "--out", plan])
    yield Case(["cleanup", "apply", plan, "--yes"])
    yield Case(["configs", "empty"], configs)
    alter = ["--alter", "--add-config", "consumer.session.timeout.ms=50000", "--yes"]
    yield Case(["configs", "empty", *alter], configs)
    yield Case(["request", "ApiVersions"])
    yield Case(["export", "--out", log])
    yield Case(["analyze", log, "--engine", "local"])
    yield Case(["retention", "show", str(rules)])
    yield Case(["retention", "plan", str(rules), "--out", str(work / "kept.json")])
    yield Case(["retention", "apply", str(rules), "--yes"])
    if numbers >= OTHER_TYPES:
        yield from other_types(work)
    yield Case(["top"])
    yield Case(["exporter", "--listen", "127.0.0.1:0"], (0, 143), seconds=10.0)
    yield Case(["remove-members", "living", "--all", "--yes"])
    yield Case(["validate-regex", "orders-.*"])
    yield Case(["mcp"])
    yield Case(["sandbox", "status"])
    yield Case(["context", "list"])
    yield Case(["completion", "bash"])
    yield Case(["help", "kafka"])
    yield Case(["version"])


def other_types(work: Path) -> Iterator[Case]:
    """What is read and changed of a share and of a streams group."""
    groups, saved, plan = ("shared", "streamed"), str(work / "both.jsonl"), str(work / "both.json")
    named = [word for group in groups for word in ("--group", group)]
    rules = work / "types.toml"
    rules.write_text(
        '[[groups]]\nmatch = "s*"\ntype = ["share", "streams"]\nretention = "10ms"\n', "utf-8"
    )
    yield Case(["list", "--type", "share,streams"])
    yield Case(["describe", "streamed", "--topology"])
    for group in groups:
        yield Case(["describe", group])
        yield Case(["describe", group, "--members"])
        yield Case(["explain", group])
    yield Case(["backup", *groups, "--out", saved])
    yield Case(["reset-offsets", *groups, "--all-topics", "--to-latest", "--execute", "--yes"])
    yield Case(["diff", saved], (5,))
    yield Case(["undo", "last", "--yes"])
    yield Case(["delete-offsets", *groups, "--topic", "orders", "--yes"])
    yield Case(["restore", saved, "--yes"])
    yield Case(["cleanup", "plan", *named, "--idle", "10ms", "--out", plan])
    yield Case(["cleanup", "apply", plan, "--dry-run"])
    yield Case(["retention", "show", str(rules)])
    yield Case(["retention", "apply", str(rules), "--yes"])
    yield Case(["undo", "last", "--yes"])
    yield Case(["delete", *groups, "--internal-topics", "--yes"])


LOCAL = ("analyze", "sandbox", "context", "completion", "help", "version")
"""Commands that take no cluster."""


def problem(case: Case, bootstrap: str, work: Path) -> str | None:
    """Run a command; return what is wrong with its end."""
    at = [] if case.words[0] in LOCAL else ["--bootstrap-server", bootstrap]
    folders = {"KGTOOL_JOURNAL_DIR": work / "journal", "XDG_CONFIG_HOME": work / "config"}
    environment = {**os.environ, **{key: str(value) for key, value in folders.items()}}
    words = [sys.executable, "-m", "kgtool.cli", *case.words, *at]
    if case.words[0] == "top":
        return screen_problem(words, environment)
    with subprocess.Popen(
        words,
        env=environment,
        cwd=ROOT,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            _, err = process.communicate(timeout=case.seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            _, err = process.communicate()
    said = [line for line in err.splitlines() if line.strip()]
    if any(word in err for word in BROKEN):
        return " | ".join(said[-3:])
    if process.returncode not in case.statuses:
        return f"status {process.returncode}: " + " | ".join(said[-3:])
    return None


def screen_problem(words: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Start the screen, wait for a group and leave it again; return what is wrong."""
    try:
        with Terminal(words, (120, 30), environment) as screen:
            screen.shows("living")
            screen.press("q")
            status = screen.exit_status()
    except (AssertionError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"status {status}" if status else None


def seed(bootstrap: str, numbers: tuple[int, ...]) -> object:
    """Make a topic and groups of all types that there are; return the member of ``living``."""
    clients.create_topic(bootstrap, "orders", 2)
    clients.produce(bootstrap, "orders", 10)
    for group, read in (("empty", 4), ("other", 10)):
        clients.commit(bootstrap, group, {("orders", 0): read, ("orders", 1): 0})
    if numbers >= OTHER_TYPES:
        share.set_starts(bootstrap, "shared", {("orders", 0): 4})
        with StreamsMember(bootstrap, "streamed", ["orders"]):
            pass
        clients.commit(bootstrap, "streamed", {("orders", 0): 4})
    return clients.join(bootstrap, "living", ["orders"])


def run(version: str) -> tuple[dict[str, float], list[str]]:
    """Run all commands on one Kafka; return their seconds and the problems."""
    seconds: dict[str, float] = {}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kgtool-lane-") as folder:
        began = time.monotonic()
        cluster = Sandbox.start("lane", version=version, root=Path(folder) / "sandbox")
        try:
            member = seed(cluster.bootstrap, minor(version))
            seconds["(start)"] = time.monotonic() - began
            for case in cases(version, Path(folder)):
                began = time.monotonic()
                found = problem(case, cluster.bootstrap, Path(folder))
                name = " ".join(case.words[: 2 if case.words[0] in ("cleanup", "retention") else 1])
                seconds[name] = seconds.get(name, 0.0) + time.monotonic() - began
                if found is not None:
                    wrong.append(f"{version} kgtool {' '.join(case.words)}: {found}")
                    print(wrong[-1], flush=True)
            del member
        finally:
            cluster.stop()
    return seconds, wrong


def table(found: dict[str, dict[str, float]]) -> str:
    """Return the seconds of each command on each Kafka."""
    names = list(dict.fromkeys(name for column in found.values() for name in column))
    lines = [f"{'':16}" + "".join(f"{version:>8}" for version in found)]
    for name in names:
        cells = (
            f"{column[name]:8.1f}" if name in column else f"{'-':>8}" for column in found.values()
        )
        lines.append(f"{name:16}" + "".join(cells))
    totals = "".join(f"{sum(column.values()):8.1f}" for column in found.values())
    return "\n".join([*lines, f"{'total':16}{totals}"])


def minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version.

    >>> minor("4.4.0"), minor("10.1.2-rc1")
    ((4, 4), (10, 1))
    """
    first, second, *_ = (int(part) for part in re.findall(r"\d+", version))
    return first, second


def newest() -> str | None:
    """Return the newest Kafka that is served; None: unknown.

    Asked by the Ivy that downloads the sandbox's jars, so that a mirror is used here too.
    """
    ivy = find_ivy()
    with tempfile.TemporaryDirectory(prefix="kgtool-lane-") as folder:
        pin = Pin("", 0, "org.apache.kafka", "kafka-clients", "latest.integration")
        words = [] if ivy is None else ivy_command(ivy, [pin], Path(folder))
        if words:
            subprocess.run(words, capture_output=True, timeout=SECONDS, check=False)
        jars = [path.name for path in (Path(folder) / "libs").glob("kafka-clients-*.jar")]
    return re.findall(r"\d[\d.]*\d", jars[0])[0] if jars else None


def say_newer(served: str | None, pinned: Sequence[str] = VERSIONS) -> str:
    """Say whether a newer minor of Kafka is served than all pins; that is no failure.

    >>> say_newer("4.10.0", ["4.4.0"]), say_newer("4.4.1", ["4.4.0"])
    ('NEWER than the pins (4.4.0): Kafka 4.10.0', 'the pins (4.4.0) are the newest minor')
    """
    if served is None:
        return "whether a newer Kafka is out is unknown"
    if minor(served) > max(map(minor, pinned)):
        return f"NEWER than the pins ({pinned[0]}): Kafka {served}"
    return f"the pins ({pinned[0]}) are the newest minor"


def main(versions: Sequence[str] = KAFKAS) -> bool:
    """Return whether every command is well on every Kafka."""
    print(f"kafka: {say_newer(newest())}", flush=True)
    found: dict[str, dict[str, float]] = {}
    wrong: list[str] = []
    for version in versions:
        seconds, problems = run(version)
        found[version] = seconds
        wrong += problems
        print(f"kafka {version}: {sum(seconds.values()):.0f} s, {len(problems)} wrong", flush=True)
    print(table(found))
    return not wrong


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:] or KAFKAS) else 1)
