"""The archive of a JVM's classes: recorded once, used then, and never in the way."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest

from kgtool.analysis.spark.session import FAST_START, settings
from kgtool.class_archive import ClassArchive

JARS = Path(pyspark.__file__).parent / "jars"
JAVA = Path(shutil.which("java") or "java")
OWN = "-XX:TieredStopAtLevel=1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a cache" / "spark"


def run(options: list[str], *more: str) -> subprocess.CompletedProcess[str]:
    """A JVM with Spark's classes: its launcher prints the command that starts Spark."""
    jar = ":".join(map(str, sorted(JARS.glob("spark-launcher_*.jar"))))
    return subprocess.run(
        [
            str(JAVA),
            *options,
            *more,
            "-cp",
            jar,
            "org.apache.spark.launcher.Main",
            "org.apache.spark.deploy.SparkSubmit",
            "--version",
        ],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"SPARK_HOME": str(JARS.parent), "SPARK_SCALA_VERSION": "2.13"},
    )


def of_launcher(words: list[str], folder: Path) -> list[str]:
    """Where a JVM with these options takes Spark's classes from."""
    run(words, f"-Xlog:class+load:file={folder / 'loaded'}")
    lines = (folder / "loaded").read_text().splitlines()
    return [line for line in lines if "spark.launcher" in line]


def test_recorded_by_the_first_used_by_the_next(folder: Path) -> None:
    folder.mkdir(parents=True)
    old = folder / "classes-000000000000-5.jsa"
    old.write_bytes(b"of an older Spark")
    os.utime(old, (0, 0))
    left = folder / "classes-000000000000.draft"
    left.write_bytes(b"of a JVM that was killed")
    os.utime(left, (time.time() - 3600,) * 2)
    archive = ClassArchive(folder, JAVA, OWN)
    assert archive.use() == []
    first = archive.record()
    assert first[0] == f"-XX:ArchiveClassesAtExit={archive.draft}"
    assert archive.record() == []  # somebody is at it
    plain = run([OWN]).stdout
    assert run([OWN, *first]).stdout == plain
    archive.publish()
    (made,) = folder.iterdir()
    assert archive.use()[0] == f"-XX:SharedArchiveFile={made}" and archive.record() == []
    for option in (OWN, "-XX:+UseParallelGC"):  # another collector and compiler use it too
        assert run([option, *archive.use()]).stdout == plain
        classes = of_launcher([option, *archive.use()], folder)
        assert classes and all("shared objects file" in line for line in classes)
    # A damaged one does no harm.
    made.chmod(0o600)
    made.write_bytes(made.read_bytes()[:50_000])
    assert archive.use() == [] and archive.record()


def test_what_was_not_finished_is_not_used_and_tried_again_later(folder: Path) -> None:
    archive = ClassArchive(folder, JAVA, OWN)
    assert archive.record()
    archive.draft.write_bytes(b"\0" * 1000)
    assert archive.record() == archive.use() == []
    long_ago = time.time() - 3600
    os.utime(archive.draft, (long_ago, long_ago))
    assert archive.record()


def test_a_jvm_that_writes_none_is_not_asked_again(folder: Path) -> None:
    archive = ClassArchive(folder, JAVA, OWN)
    assert archive.record()
    archive.draft.write_bytes(b"\0" * 1000)
    archive.publish()
    assert archive.record() == archive.use() == []
    (made,) = folder.iterdir()
    assert made.stat().st_size == 0


def test_what_else_decides_has_an_archive_of_its_own(folder: Path) -> None:
    one, other = (ClassArchive(folder, JAVA, key) for key in (OWN, "-XX:+UseSerialGC"))
    assert one.draft != other.draft and one.record() and other.record()


def test_a_java_without_a_base_archive_does_without(folder: Path) -> None:
    archive = ClassArchive(folder, folder / "bin" / "java")
    assert archive.use() == archive.record() == []
    archive.publish()
    assert not folder.exists()


def test_a_finished_draft_is_the_archive_of_the_next(folder: Path) -> None:
    """Nobody waits for the JVM that records: the next run finds what it has written."""
    archive = ClassArchive(folder, JAVA, OWN)
    run([OWN, *archive.record()])
    long_ago = time.time() - 3600
    os.utime(archive.draft, (long_ago, long_ago))
    (used, *_) = archive.use()
    (made,) = folder.iterdir()
    assert used == f"-XX:SharedArchiveFile={made}" and made.suffix == ".jsa"


def test_the_users_jvm_records_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM that records takes twice as long to load classes, and 11 s to end."""
    java = "spark.driver.extraJavaOptions"
    for place in ("a cache", 'with "quotes"'):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
        assert settings("local[*]")[java] == FAST_START
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_the_first_run_has_it_recorded_for_the_next(tmp_path: Path) -> None:
    """By a run of its own, which outlives the command and then ends by itself."""
    log = tmp_path / "log.txt"
    log.write_text(
        "[group,topic,0]::OffsetAndMetadata(offset=1, leaderEpoch=Optional.empty, metadata=, "
        "commitTimestamp=1700000000000, expireTimestamp=None)\n"
    )
    cache = tmp_path / "a cache"
    # Not at the least priority: beside other tests this would wait for a minute.
    kgtool = (
        "import os; os.setpriority = lambda *_: None; "
        "from kgtool.cli.app.main import main; raise SystemExit(main())"
    )
    subprocess.run(
        [sys.executable, "-c", kgtool, "analyze", str(log)],
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    (draft,) = (cache / "kgtool" / "spark").glob("*.draft")
    key = draft.stem.removeprefix("classes-")
    end_by = time.monotonic() + 300
    while processes_with(key) and time.monotonic() < end_by:
        time.sleep(0.2)
    used = shlex.split(settings_in(cache, sql=False))
    assert any(word.startswith("-XX:SharedArchiveFile=") for word in used)


def settings_in(cache: Path, *, sql: bool) -> str:
    """The JVM's options with this cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        return settings("local[*]", sql=sql)["spark.driver.extraJavaOptions"]


def processes_with(word: str) -> list[Path]:
    """The processes that have this in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [path] if word.encode() in path.read_bytes() else []
    return found
