"""Fetch an exact list of jars with the Ivy that PySpark ships, or with Maven."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from kgtool.errors import SandboxError
from kgtool.sandbox.install.java import find_java

if TYPE_CHECKING:
    from kgtool.sandbox.install.pin import Pin
    from kgtool.sandbox.reporter import Reporter

STALL_S = 120.0

# No POMs and nothing transitive: the list is complete, and a POM would be one more thing that
# could change behind our back.
IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
IVY_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kgtool" module="sandbox"/>
  <configurations><conf name="runtime"/></configurations>
  <dependencies>
{}
  </dependencies>
</ivy-module>
"""
IVY_DEPENDENCY = (
    '    <dependency org="{0.group}" name="{0.artifact}" rev="{0.revision}"'
    ' transitive="false" conf="runtime->default">{1}</dependency>'
)
IVY_CLASSIFIER = '<artifact name="{0.artifact}" type="jar" m:classifier="{0.classifier}"/>'
POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>kgtool</groupId><artifactId>sandbox</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{}
  </dependencies>
</project>
"""
POM_DEPENDENCY = (
    "    <dependency><groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId>"
    "<version>{0.revision}</version>{1}<scope>runtime</scope><exclusions><exclusion>"
    "<groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)
POM_CLASSIFIER = "<classifier>{0.classifier}</classifier>"


class Downloader(NamedTuple):
    """A program that can download the jars into ``libs`` of its working folder."""

    name: str
    command: Sequence[str]


def download(version: str, pins: Sequence[Pin], work: Path, reporter: Reporter) -> None:
    """Put ``pins`` into ``work/libs``; SandboxError if no program can."""
    reasons = []
    for downloader in _downloaders(pins, work):
        reason = _run(downloader, pins, work, reporter)
        if reason is None:
            return
        reasons.append(f"{downloader.name}: {reason}")
    if not reasons:
        raise SandboxError(
            f"Nothing here can download the jars of Kafka {version}: neither PySpark (its Ivy) "
            "nor Maven is installed",
            hint="pip install 'kafka-kgtool[analyze]', or install Maven (apt-get install maven).",
        )
    raise SandboxError(
        f"The jars of Kafka {version} could not be downloaded ({'; '.join(reasons)})",
        hint="Check the network and the proxy settings (HTTPS_PROXY); a mirror is used when it "
        "stands in Maven's settings.xml.",
    )


def find_ivy() -> Path | None:
    """The Ivy jar inside the installed PySpark or in ``SPARK_HOME``, if there is one."""
    folders = []
    spec = importlib.util.find_spec("pyspark")  # finds it without importing it
    if spec is not None and spec.submodule_search_locations:
        folders += [Path(place) / "jars" for place in spec.submodule_search_locations]
    if os.environ.get("SPARK_HOME"):
        folders.append(Path(os.environ["SPARK_HOME"]) / "jars")
    return next((jar for folder in folders for jar in sorted(folder.glob("ivy-*.jar"))), None)


def _downloaders(pins: Sequence[Pin], work: Path) -> Iterator[Downloader]:
    ivy = find_ivy()
    if ivy is not None:
        yield Downloader("Ivy", ivy_command(ivy, pins, work))
    maven = shutil.which("mvn")
    if maven is not None:
        yield Downloader("Maven", _maven_command(maven, pins, work))


def ivy_command(ivy: Path, pins: Sequence[Pin], work: Path) -> list[str]:
    """The command line that retrieves ``pins`` into ``libs`` of its working folder."""
    lines = _dependencies(pins, IVY_DEPENDENCY, IVY_CLASSIFIER)
    (work / "settings.xml").write_text(IVY_SETTINGS, encoding="utf-8")
    (work / "ivy.xml").write_text(IVY_MODULE.format(lines), encoding="utf-8")
    flags = [f"-Divy.default.ivy.user.dir={work / 'ivy'}", *proxy_flags(os.environ)]
    options = {
        "-settings": work / "settings.xml",
        "-ivy": work / "ivy.xml",
        "-cache": work / "ivy" / "cache",
        "-confs": "runtime",
        "-retrieve": work / "libs" / "[artifact]-[revision](-[classifier]).[ext]",
    }
    words = [str(word) for option in options.items() for word in option]
    return [str(find_java()), *flags, "-jar", str(ivy), *words]


def _maven_command(maven: str, pins: Sequence[Pin], work: Path) -> list[str]:
    lines = _dependencies(pins, POM_DEPENDENCY, POM_CLASSIFIER)
    (work / "pom.xml").write_text(POM.format(lines), encoding="utf-8")
    goal = "dependency:copy-dependencies"
    return [maven, "-B", "-f", str(work / "pom.xml"), goal, f"-DoutputDirectory={work / 'libs'}"]


def _dependencies(pins: Sequence[Pin], one: str, classifier: str) -> str:
    """A line for each jar; ``classifier`` is added to those that have one."""
    return "\n".join(
        one.format(pin, classifier.format(pin) if pin.classifier else "") for pin in pins
    )


def proxy_flags(environ: Mapping[str, str]) -> list[str]:
    """HTTPS_PROXY and NO_PROXY as Java's own flags: Java does not read the variables."""
    proxy = environ.get("HTTPS_PROXY") or environ.get("https_proxy")
    if not proxy:
        return []
    parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    if not parts.hostname:
        return []
    flags = [f"-Dhttps.proxyHost={parts.hostname}", f"-Dhttps.proxyPort={parts.port or 443}"]
    exempt = environ.get("NO_PROXY") or environ.get("no_proxy")
    if exempt:
        hosts = "|".join(f"*{host}" if host.startswith(".") else host for host in exempt.split(","))
        flags.append(f"-Dhttp.nonProxyHosts={hosts}")
    return flags


def _run(downloader: Downloader, pins: Sequence[Pin], work: Path, reporter: Reporter) -> str | None:
    """Run it to its end; None, or the reason why it failed."""
    shutil.rmtree(work / "libs", ignore_errors=True)
    log = work / "download.log"
    total = sum(pin.size for pin in pins)
    with log.open("w") as out, reporter.download(total) as report:
        process = subprocess.Popen(
            downloader.command, cwd=work, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            stalled = _follow(process, work, lambda done: report(min(done, total)))
        finally:
            process.kill()
            process.wait()
    missing = [pin for pin in pins if not (work / "libs" / pin.file_name).is_file()]
    if not missing:
        return None
    if stalled:
        return f"nothing arrived for {STALL_S:.0f} s"
    return _reason(log) or f"{missing[0].file_name} is missing (exit {process.returncode})"


def _follow(process: subprocess.Popen[bytes], work: Path, report: Callable[[int], None]) -> bool:
    """Report the bytes on disk until the process ends; True if it had to be given up."""
    seen, since = 0, time.monotonic()
    while process.poll() is None:
        now = _jar_bytes(work)
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > STALL_S:
            return True
        report(seen)
        time.sleep(0.1)
    report(_jar_bytes(work))
    return False


def _jar_bytes(work: Path) -> int:
    total = 0
    for path in work.rglob("*.jar*"):
        with contextlib.suppress(FileNotFoundError):  # Ivy renames its .part files meanwhile
            total += path.stat().st_size
    return total


def _reason(log: Path) -> str | None:
    text = log.read_text(encoding="utf-8", errors="replace")
    patterns = (
        r"\b(UnknownHostException: \S+)",
        r"\b(\w+Exception: [^\n]+)",
        r"\[ERROR\] ([^\n]+)",
        r"((?:UNRESOLVED|FAILED)[^\n]+)",
    )
    found = (re.search(pattern, text) for pattern in patterns)
    return next((match.group(1).strip()[:200] for match in found if match), None)
