"""Kafka's own test classes in warm JVMs, with kgtool in the place of Kafka's command.

``java/`` has the classes that stand before Kafka's on the class path, and the one that runs tests.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from kgtool.sandbox.install.jars import class_path, kafka_jars
from kgtool.sandbox.install.java import FAST, find_java

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = "org.apache.kafka.tools.consumer.group"
AT_ONCE = 3
"""JVMs: the tests mostly wait for groups. Each captures System.out, so none runs two at once."""
SECONDS = 300.0
"""What one method may take; its JVM is killed then."""


class Departure(NamedTuple):
    """A method that fails for a reason that the documentation gives."""

    method: str
    reason: str
    says: str
    """A part of the failure."""
    where: str
    """The file that names the departure."""
    words: str
    """What stands there."""
    allow: str = ""
    """What lets the rest of the method pass: see ``Kgtool.allowed``."""


def methods() -> list[str]:
    """``Class.method`` of everything that is judged."""
    return (HERE / "methods.txt").read_text(encoding="utf-8").split()


def departures() -> list[Departure]:
    """The list of departures."""
    found = tomllib.loads((HERE / "departures.toml").read_text(encoding="utf-8"))
    return [Departure(**entry) for entry in found.get("departure", [])]


class Judge:
    """One JVM, which answers questions one after the other."""

    def __init__(self, jars: str, folder: Path) -> None:
        # Unverified: SASL's tests name a Kerberos server (ApacheDS) that none of them starts.
        flags = [
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:-BytecodeVerificationRemote",
            f"-Dkgtool.python={sys.executable}",
            f"-Djava.io.tmpdir={folder}",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            "-Xmx768m",
        ]
        self._errors = (folder / "stderr").open("ab")
        self._process = subprocess.Popen(
            [str(find_java()), *FAST, *flags, "-cp", jars, f"{PACKAGE}.Judge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def ask(self, question: str) -> Any:
        """The answer to a line; AssertionError if the JVM ended over it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(f"{question}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        assert answer, f"{question}: the JVM ended, or was ended after {SECONDS:.0f} s"
        return json.loads(answer)

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


class Judges:
    """Several JVMs that share the work."""

    def __init__(self, folder: Path) -> None:
        jars = class_path([*kafka_jars("4.3.1-tests"), *kafka_jars("4.3.1")])
        classes = folder / "classes"
        subprocess.run(
            [
                "javac",
                "--release",
                "17",
                "-nowarn",
                "-proc:none",
                "-d",
                str(classes),
                "-cp",
                jars,
                *map(str, sorted((HERE / "java").glob("*.java"))),
            ],
            check=True,
        )
        self._jars, self._folder = f"{classes}{os.pathsep}{jars}", folder
        self._idle: queue.SimpleQueue[Judge | None] = queue.SimpleQueue()
        for _ in range(AT_ONCE):
            self._idle.put(None)
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._verdicts: dict[tuple[str, str], Future[Any]] = {}

    def begin(self, method: str, allow: str = "") -> Future[Any]:
        """The verdict on ``Class.method`` as it comes: ``runs``, ``failures``, ``seconds``."""
        if (method, allow) not in self._verdicts:
            question = f"{PACKAGE}.{method.replace('.', '#')} {allow}"
            self._verdicts[method, allow] = self._pool.submit(self._ask, question)
        return self._verdicts[method, allow]

    def methods_of(self, suite: str) -> list[str]:
        """The methods that JUnit finds in a class."""
        return self._pool.submit(self._ask, f"{PACKAGE}.{suite}").result()

    def _ask(self, question: str) -> Any:
        judge = self._idle.get()
        try:
            judge = judge or Judge(self._jars, self._folder)
            answer = judge.ask(question)
        except BaseException:
            if judge is not None:
                judge.close()
            self._idle.put(None)
            raise
        self._idle.put(judge)
        return answer

    def close(self) -> None:
        """End the JVMs and remove their brokers' logs; what has not begun does not begin."""
        self._pool.shutdown(cancel_futures=True)
        for _ in range(AT_ONCE):
            judge = self._idle.get()
            if judge is not None:
                judge.close()
        shutil.rmtree(self._folder, ignore_errors=True)
