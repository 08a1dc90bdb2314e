"""A real Spark standalone cluster: a master and two workers, from the jars that pyspark brings."""

from __future__ import annotations

import contextlib
import os
import re
import site
import subprocess
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark

from tests.support.clients import wait_for

HOME = Path(pyspark.__file__).parent
FAST_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for seconds: their second compiler takes more time than it saves."""
FAST_SUBMIT = ("--driver-java-options", FAST_JVM)


def python_without_kgtool(folder: Path) -> Path:
    """A Python with the packages of this one, as on other machines: kgtool is not among them.

    A path file adds the folder of packages; those in it that link to this working tree don't
    count there.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    python = folder / "bin" / "python"
    found = subprocess.run(
        [python, "-c", "import numpy, pyarrow, pyspark, kgtool"],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'kgtool'" in found.stderr, found.stderr
    return python


def _environment(python: Path | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for name in [name for name in kept if name.startswith(("SPARK_", "PYSPARK_"))]:
        del kept[name]
    told = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LAUNCHER_OPTS": FAST_JVM}
    return kept | told | ({"PYSPARK_PYTHON": str(python)} if python else {})


@contextlib.contextmanager
def standalone(
    folder: Path,
    python: Path,
    pins: Sequence[str | None] = (None, None),
    memory: str = "700m",
    jvm: str = "",
) -> Iterator[str]:
    """The master's URL; the workers put what executors print under ``folder``.

    :param pins: one entry a worker: the core that it and its executors are kept to (``taskset``).
    :param jvm: options of every JVM of the cluster, executors too.
    """
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, what: str, *arguments: str, pin: str | None = None) -> Path:
        log = folder / f"{name}.txt"
        command = [
            *(["taskset", "-c", pin] if pin else []),
            HOME / "bin" / "spark-class",
            f"org.apache.spark.deploy.{what}",
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--webui-port",
            "0",
            *arguments,
        ]
        environment = _environment(python) | {"SPARK_DAEMON_MEMORY": "256m"}
        environment |= {"JAVA_TOOL_OPTIONS": jvm} if jvm else {}
        with log.open("wb") as out:
            running.append(
                subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=out)
            )
        return log

    def said(log: Path, pattern: str) -> re.Match[str]:
        found = wait_for(lambda: re.search(pattern, log.read_text()), f"{log.name}: {pattern}", 300)
        assert isinstance(found, re.Match)
        return found

    try:
        url = said(start("master", "master.Master"), r"Starting Spark master at (spark://\S+)")[1]
        logs = [
            start(
                f"worker{number}",
                "worker.Worker",
                "--cores",
                "1",
                "--memory",
                memory,
                "--work-dir",
                str(folder / f"work{number}"),
                url,
                pin=pin,
            )
            for number, pin in enumerate(pins)
        ]
        for log in logs:
            said(log, "Successfully registered with master")
        yield url
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            process.kill()
            process.wait(60)
