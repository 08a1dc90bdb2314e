"""Start Spark, quietly, with what the job needs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kgtool.errors import AnalysisError, MissingExtra

JAVA_HINT = (
    "Spark needs Java 17 or newer: install it (for example: apt install openjdk-17-jre-headless) "
    "or point JAVA_HOME at it."
)
BYTES_PER_SHUFFLE_PARTITION = 64 << 20
SMALL_BYTES = 64 << 20
"""Up to here most of the time goes into starting: the JVM's first compiler alone is then faster
(measured: 32 instead of 56 CPU seconds for a log of 50 kB, analyzed twice)."""


def build_session(master: str, conf: Mapping[str, str], input_bytes: int) -> Any:
    """A SparkSession on ``master``; ``conf`` has the last word about every setting.

    Raises MissingExtra without pyspark, AnalysisError without Java or if Spark does not start.
    """
    try:
        import numpy  # noqa: F401
        import pyarrow  # type: ignore[import-untyped]  # noqa: F401
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtra(
            f"analyze needs {error.name}, which is not installed",
            hint="pip install 'kgtool[analyze]'",
        ) from None
    _check_java()
    # Workers must be this Python, whatever the PATH says, and must find kgtool.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))
    settings = {**_settings(master, input_bytes), **conf}
    builder = SparkSession.builder.master(master).appName("kgtool analyze")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _own_log() as log:
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise AnalysisError(f"Spark did not start: {_reason(log, error)}") from error
    session.sparkContext.setLogLevel("OFF")
    if not master.startswith("local"):
        _ship_code(session, root)
    return session


@contextmanager
def job_failures() -> Iterator[None]:
    """Turn what Spark itself reports while a job runs into an AnalysisError of one sentence."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # The last line of a worker's traceback is its cause; the first one is only Spark's frame.
        causes = [line for line in lines if "Error: " in line and not line.startswith("at ")]
        reason = (causes or lines or [type(error).__name__])[-1 if causes else 0]
        raise AnalysisError(f"The Spark job failed: {reason}") from error


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise AnalysisError(f"JAVA_HOME is {home}, where there is no bin/java", hint=JAVA_HINT)
    if not home and shutil.which("java") is None:
        raise AnalysisError("No Java was found", hint=JAVA_HINT)


def _settings(master: str, input_bytes: int) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # Times in tables are integers; nothing else may depend on the machine's zone.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    if master.startswith("local"):
        cores = os.cpu_count() or 2
        wanted = max(cores, min(input_bytes // BYTES_PER_SHUFFLE_PARTITION, 2000))
        settings |= {
            "spark.sql.shuffle.partitions": str(wanted),
            "spark.driver.memory": _driver_memory(),
            "spark.driver.extraJavaOptions": _java_options(input_bytes),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    return settings


def _java_options(input_bytes: int) -> str:
    return "-XX:TieredStopAtLevel=1" if input_bytes <= SMALL_BYTES else "-XX:+UseParallelGC"


def _driver_memory() -> str:
    """A quarter of the machine's memory, 1 to 8 GB."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{min(max(total // 4 >> 20, 1024), 8192)}m"


@contextmanager
def _own_log() -> Iterator[Path]:
    """Give the JVM that starts meanwhile a file for its stderr, where it would write notices."""
    folder = Path(tempfile.gettempdir())
    handle, name = tempfile.mkstemp(prefix="kgtool-spark-", suffix=".log", dir=folder)
    kept = os.dup(2)
    try:
        sys.stderr.flush()
        os.dup2(handle, 2)
        yield Path(name)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(handle)
        Path(name).unlink(missing_ok=True)


def _reason(log: Path, error: Exception) -> str:
    """The line of the JVM's output that says most."""
    text = log.read_text(errors="replace")
    if "UnsupportedClassVersionError" in text:
        return f"this Java is too old. {JAVA_HINT}"
    lines = [line for line in text.splitlines() if "Exception" in line or "Error" in line]
    first = lines[0] if lines else str(error)
    return first.strip().splitlines()[0]


def _ship_code(session: Any, root: str) -> None:
    """Send the package to executors on other machines."""
    folder = tempfile.mkdtemp(prefix="kgtool-code-")
    try:
        archive = shutil.make_archive(f"{folder}/kgtool", "zip", root, "kgtool")
        session.sparkContext.addPyFile(archive)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
