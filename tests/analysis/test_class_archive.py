"""The archive of Spark's classes: recorded once, used then, and never in the way."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import pyspark
import pytest

from kgtool.analysis.spark import class_archive

JARS = Path(pyspark.__file__).parent / "jars"
OWN = "-XX:TieredStopAtLevel=1"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    return tmp_path / "a cache" / "kgtool" / "spark"


def run(options: str, *more: str) -> subprocess.CompletedProcess[str]:
    """A JVM with Spark's classes: its launcher prints the command that starts Spark."""
    jar = ":".join(map(str, sorted(JARS.glob("spark-launcher_*.jar"))))
    return subprocess.run(
        ["java", *shlex.split(options), *more, "-cp", jar, "org.apache.spark.launcher.Main",
         "org.apache.spark.deploy.SparkSubmit", "--version"],
        capture_output=True, text=True, check=True,
        env=os.environ | {"SPARK_HOME": str(JARS.parent), "SPARK_SCALA_VERSION": "2.13"},
    )  # fmt: skip


def test_recorded_by_the_first_used_by_the_next(cache: Path) -> None:
    cache.mkdir(parents=True)
    old = cache / "classes-000000000000-5.jsa"
    old.write_bytes(b"of an older Spark")
    os.utime(old, (0, 0))
    first = class_archive.options(OWN)
    assert first.startswith(f'{OWN} "-XX:ArchiveClassesAtExit={cache}/')
    assert class_archive.options(OWN) == OWN  # somebody is at it
    plain = run(OWN).stdout
    assert run(first).stdout == plain
    second = class_archive.options(OWN)
    (archive,) = cache.iterdir()
    assert second.startswith(f'{OWN} "-XX:SharedArchiveFile={archive}"')
    loaded = run(second, "-Xlog:class+load:file=" + str(cache / "loaded"))
    assert loaded.stdout == plain
    of_launcher = [
        line for line in (cache / "loaded").read_text().splitlines() if "spark.launcher" in line
    ]
    assert of_launcher and all("shared objects file" in line for line in of_launcher)


def test_another_collector_and_compiler_use_it_too(cache: Path) -> None:
    other = "-XX:+UseParallelGC"
    assert class_archive.recorded(OWN) == ""  # nothing is recorded by asking
    assert not cache.exists()
    plain = run(class_archive.options(OWN)).stdout
    cache.joinpath("seen").mkdir()
    using = f"{other}{class_archive.recorded(OWN)}"
    log = cache / "seen" / "loaded"
    assert run(using, f"-Xlog:class+load:file={log}").stdout == plain
    of_launcher = [line for line in log.read_text().splitlines() if "spark.launcher" in line]
    assert of_launcher and all("shared objects file" in line for line in of_launcher)


def test_a_damaged_one_does_no_harm(cache: Path) -> None:
    run(class_archive.options(OWN))
    class_archive.options(OWN)
    (archive,) = cache.iterdir()
    archive.chmod(0o600)
    archive.write_bytes(archive.read_bytes()[:50_000])
    again = class_archive.options(OWN)
    assert "ArchiveClassesAtExit" in again
    assert run(again).stdout == run(OWN).stdout
    assert "SharedArchiveFile" in class_archive.options(OWN)


def test_what_was_not_finished_is_not_used_and_tried_again_later(cache: Path) -> None:
    class_archive.options(OWN)
    (draft,) = cache.iterdir()
    draft.write_bytes(b"\0" * 1000)
    assert class_archive.options(OWN) == OWN
    long_ago = time.time() - 3600
    os.utime(draft, (long_ago, long_ago))
    assert "ArchiveClassesAtExit" in class_archive.options(OWN)


def test_other_options_have_an_archive_of_their_own(cache: Path) -> None:
    one, other = (class_archive.options(option) for option in (OWN, "-XX:+UseSerialGC"))
    assert one.split('"')[1] != other.split('"')[1]
    assert len(list(cache.iterdir())) == 2


def test_without_a_place_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert class_archive.options(OWN) == OWN
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / 'with "quotes"'))
    assert class_archive.options(OWN) == OWN
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive.options(OWN) == OWN
