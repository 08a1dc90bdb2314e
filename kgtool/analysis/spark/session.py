"""Starts Spark, without its log output, with the settings that the job needs."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

from kgtool.analysis.spark.jvm_process import no_orphans
from kgtool.class_archive import ClassArchive
from kgtool.errors import AnalysisError, MissingExtra, UsageError

NO_SPARK = "--engine local reads files of this machine without Java."
JAVA_HINT = (
    "Spark needs Java 17 or newer: install it (for example: apt install openjdk-17-jre-headless) "
    f"or point JAVA_HOME at it. {NO_SPARK}"
)
LOCAL = "local[*]"
"""The default master."""
FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
"""The JVM only moves blobs, so its second compiler does not pay off (8 M records: 17 instead of 24
CPU seconds of the JVM, and 90 MB less; two executors with a core each: 43 instead of 53 s)."""
FAST_START = f"{FIRST_COMPILER} -XX:+UseSerialGC"
WORKERS = (
    "The Python of Spark's workers lacks it: install kafka-kgtool[analyze] there, or name a "
    "Python that has it with --conf spark.pyspark.python=PATH."
)
HEAP = "640m"
"""Spark keeps blobs, and spills to disk if they do not fit: 8 M records take as long as with 1 GB
(39.8-42.6 and 41.7-42.4 s), with 16 tasks at once and every table written too."""
TOO_OLD = "this Java is too old"
_SAMPLE = (
    "[group,topic,0]::OffsetAndMetadata(offset=1, leaderEpoch=Optional[0], metadata=, "
    "commitTimestamp=1700000000000, expireTimestamp=None)\n"
)
"""What a run for the class archive analyses."""
PARTITIONS = "spark.sql.shuffle.partitions"
ELSEWHERE_PARTITIONS = 16
"""Shuffle partitions on a cluster; Spark coalesces small ones."""


def build_session(master: str | None, conf: Mapping[str, str]) -> Any:
    """A SparkSession on ``master``; ``conf`` overrides every default.

    Under spark-submit it is the existing session, with its own master and settings.

    Raises MissingExtra without pyspark, AnalysisError without Java or if Spark does not start,
    UsageError if ``master`` is given under spark-submit.
    """
    check_packages()
    from pyspark.sql import SparkSession

    if is_submitted():
        return _submitted(SparkSession.builder, master, conf)
    if (master or "").startswith("sc://"):
        raise UsageError(
            "--master takes no address of Spark Connect: kgtool.analysis.analyze() works over it."
        )
    build_context(master or LOCAL, conf)
    session = SparkSession.builder.getOrCreate()
    ship_code(session)
    return session


def check_packages() -> None:
    """Raise MissingExtra without numpy, pyarrow or pyspark."""
    try:
        import numpy  # noqa: F401
        import pyarrow  # type: ignore[import-untyped]  # noqa: F401
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"analyze needs {error.name}, which is not installed",
            hint="pip install 'kafka-kgtool[analyze]'",
        ) from None


def build_context(master: str, conf: Mapping[str, str], *, sql: bool = True) -> Any:
    """A new SparkContext. Raises AnalysisError.

    :param sql: whether a session will be built on it.
    """
    from pyspark import SparkConf, SparkContext

    _check_java()
    root = str(Path(__file__).resolve().parents[3])
    _set_environment(root, is_local=master.startswith("local"))
    found = SparkConf().setMaster(master).setAppName("kgtool analyze")
    found.setAll([*settings(master, sql=sql).items(), *conf.items()])
    with _own_log() as log, _no_handler(), no_orphans():
        try:
            context = SparkContext(conf=found)
        except Exception as error:
            why = _reason(log, error)
            hint = JAVA_HINT if why == TOO_OLD else NO_SPARK
            raise AnalysisError(f"Spark did not start: {why}", hint=hint) from error
    context.setLogLevel("OFF")
    # If the JVM dies, a thread of PySpark would print a traceback over our message.
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
    return context


def is_submitted() -> bool:
    """Whether spark-submit has started this process; its JVM exists and has a master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted(builder: Any, master: str | None, conf: Mapping[str, str]) -> Any:
    if master is not None:
        raise UsageError("--master is spark-submit's own here: give it before the program.")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    ship_code(session)
    return session


def end_session(session: Any) -> None:
    """Stop a session, or a context without one; ignore a JVM that has died before."""
    from py4j.protocol import Py4JError

    options = ""
    context = getattr(session, "sparkContext", session)
    _end_accumulators(context)
    with suppress(Py4JError, OSError):
        options = context.getConf().get("spark.driver.extraJavaOptions", "")
    with suppress(Py4JError, OSError):
        session.stop()
        is_ours = FAST_START in options and context.master.startswith("local")
        if is_ours and "-XX:SharedArchiveFile" not in options and sys.exc_info()[0] is None:
            _record_apart(sql=session is not context)


def _end_accumulators(context: Any) -> None:
    """Stop PySpark's accumulator server in the background: it takes up to a second."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        context._accumulatorServer = None
        Thread(target=server.shutdown, daemon=True).start()


def _record_apart(*, sql: bool) -> None:
    """Record the class archive in a run of its own: a JVM that records takes twice as long."""
    archive = _class_archive(sql)
    words = [] if archive is None else archive.record()
    if archive is None or not words:
        return
    sample = archive.draft.with_suffix(".txt")
    sample.write_text(_SAMPLE)
    options = " ".join([FAST_START, *(f'"{word}"' for word in words)])
    conf = f"spark.driver.extraJavaOptions={options}"
    run = [sys.executable, "-m", "kgtool", "analyze", str(sample), "--conf", conf]
    run += ["--conf", f"{PARTITIONS}=1"] if sql else []
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        run, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/"
    )
    os.setpriority(os.PRIO_PROCESS, process.pid, 19)
    process.returncode = 0  # this process does not wait for it


def _set_environment(root: str, *, is_local: bool) -> None:
    """Local workers run this Python, whatever PATH says, and import kgtool from here.

    On a cluster the user may name a Python: PYSPARK_PYTHON, spark.pyspark.python.
    """
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # For the JVM that only builds the command line of Spark's JVM.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", FAST_START)
    if not is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Unlike Arrow's own, glibc's allocator gives memory back (``blobs.release``): 50 MB a worker.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # Spark starts workers with -m, which imports from the current folder first: a random.py there
    # would replace Python's own (3.11 and later obey this variable).
    os.environ["PYTHONSAFEPATH"] = "1"
    paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in paths if path))


@contextmanager
def job_failures() -> Iterator[None]:
    """Turn a failure of Spark during a job into an AnalysisError of one sentence."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise AnalysisError(
            "Spark's JVM is gone: it was killed, maybe because the machine ran out of memory",
            hint=f"Free some, or give it more than {HEAP}: --conf spark.driver.memory=4g. "
            f"{NO_SPARK}",
        ) from error
    except (PySparkException, Py4JError) as error:
        why = cause_of(str(error))
        hint = WORKERS if "ModuleNotFoundError" in why else None
        raise AnalysisError(f"The Spark job failed: {why}", hint=hint) from error


def cause_of(text: str) -> str:
    """The most informative line of an exception with its JVM and Python tracebacks."""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    frames = ("at ", "An error occurred while calling")  # the latter is py4j's
    lines = [line for line in lines if not line.startswith(frames)] or lines
    # The last line of a worker's traceback is its cause.
    of_python = [line for line in lines if "Error: " in line]
    of_java = [line for line in lines if line.startswith("Caused by: ")]
    return next(iter([*of_python[-1:], *of_java[-1:], *lines[:1]]), "it does not say why")


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise AnalysisError(f"JAVA_HOME is {home}, where there is no bin/java", hint=JAVA_HINT)
    if not home and shutil.which("java") is None:
        raise AnalysisError("No Java was found", hint=JAVA_HINT)


def settings(master: str, *, sql: bool = True) -> dict[str, str]:
    """The defaults for ``--conf``; ``sql``: for a session, not only a context."""
    cores = (os.cpu_count() or 2) if master.startswith("local") else ELSEWHERE_PARTITIONS
    found = {
        PARTITIONS: str(cores),
        "spark.ui.enabled": "false",
        # With it, every use of a column makes two more calls into the JVM to record its line
        # (18,350 instead of 7,956 calls for a summary).
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Times in tables are integers; nothing may depend on the machine's time zone.
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A row is a blob of up to 8 MB: by default, 64 MB of them are copied three times.
        "spark.sql.execution.arrow.maxBytesPerBatch": "4m",
        # Blobs are compressed already.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
    }
    if master.startswith("local"):
        found |= {
            "spark.driver.memory": HEAP,
            "spark.driver.extraJavaOptions": _java_options(sql),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    else:
        found |= {
            "spark.driver.extraJavaOptions": FAST_START,
            "spark.executor.extraJavaOptions": FIRST_COMPILER,
        }
    return found


def _java_options(sql: bool) -> str:
    archive = _class_archive(sql)
    words = [] if archive is None else archive.use()
    return " ".join([FAST_START, *(f'"{word}"' for word in words)])


def _class_archive(sql: bool) -> ClassArchive | None:
    """The archive of Spark's classes, with or without Spark SQL."""
    import pyspark

    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    folder = Path(cache).absolute() / "kgtool" / "spark"
    # The path is part of an option that is split like a shell command line.
    if set(str(folder)) & set("\"'\\\n"):
        return None
    key = (pyspark.__version__, pyspark.__file__, FAST_START, *(() if sql else ("core",)))
    return ClassArchive(folder, java, *key)


@contextmanager
def _own_log() -> Iterator[Path]:
    """Send the output of the JVM that starts meanwhile to a file instead of the terminal.

    The JVM also outlives this process a little; a reader of our output must not wait for it.
    """
    try:
        handle, name = tempfile.mkstemp(prefix="kgtool-spark-", suffix=".log")
    except OSError as error:
        raise AnalysisError(
            f"Spark did not start: it needs a folder for temporary files ({error.strerror})",
            hint=f"Point TMPDIR at one that can be written to. {NO_SPARK}",
        ) from error
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number in kept:
            os.dup2(handle, number)
        yield Path(name)
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
        os.close(handle)
        Path(name).unlink(missing_ok=True)


@contextmanager
def _no_handler() -> Iterator[None]:
    """Keep PySpark from handling Ctrl-C: it would call the JVM in the middle of another call."""
    from pyspark.core import context

    theirs: dict[str, Any] = vars(context)
    known = theirs["signal"]
    theirs["signal"] = SimpleNamespace(SIGINT=known.SIGINT, signal=lambda *_: None)
    try:
        yield
    finally:
        theirs["signal"] = known


def _reason(log: Path, error: Exception) -> str:
    """The most informative line of the JVM's output."""
    text = log.read_text(errors="replace")
    if "UnsupportedClassVersionError" in text or "Unrecognized option: --add" in text:
        return TOO_OLD
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marks = ("Exception", "Error", "insufficient memory", "annot allocate", "ould not")
    at = [number for number, line in enumerate(lines) if any(mark in line for mark in marks)]
    if not at:
        return str(error).strip().splitlines()[0]
    first = lines[at[0]].removeprefix("# ").removeprefix("Error: ")
    # The JVM's reason is on the next line.
    if first.startswith("Error occurred during initialization") and len(lines) > at[0] + 1:
        return f"{first}: {lines[at[0] + 1]}"
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return f"{first} ({causes[-1]})" if causes else first


def is_connect(session: Any) -> bool:
    """Whether the session is a Spark Connect client, without a JVM and SparkContext."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_local(session: Any) -> bool:
    """Whether the workers are local processes, which see this machine's code and folders."""
    return not is_connect(session) and session.sparkContext.master.startswith("local")


def ship_code(session: Any) -> None:
    """Send the package to executors if they may run on other machines."""
    if is_local(session):
        return
    try:
        session.addArtifacts(str(_archive()), pyfile=True)
    except Exception as error:
        raise AnalysisError(
            f"Spark does not take kgtool's code: {cause_of(str(error))}",
            hint="Install kafka-kgtool[analyze] for the Python of Spark's workers.",
        ) from error


@cache
def _archive() -> Path:
    """The package as a zip file; it stays, as executors fetch it with their first task."""
    folder = Path(tempfile.mkdtemp(prefix="kgtool-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = Path(__file__).resolve().parents[3]
    archive = folder / "kgtool.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as package:
        for path in sorted((root / "kgtool").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                package.write(path, path.relative_to(root))
    return archive
