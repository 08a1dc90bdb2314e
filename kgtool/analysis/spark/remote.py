"""Files on any file system that Spark's Hadoop libraries can read.

The driver lists them and reads their first bytes through the JVM; executors read them through
Spark's own sources. Those skip names that begin with ``_`` or ``.`` and treat brackets in names as
patterns, so each file gets a plain name: a link of a view file system (``fs.viewfs.mounttable``)
that exists only in the options of that one read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kgtool.analysis.input.discover import MOST_BYTES, classify
from kgtool.analysis.input.formats import HEAD_BYTES
from kgtool.analysis.input.input_files import InputFile, Inputs, ListedFile, Listing
from kgtool.analysis.input.resolve_inputs import merge, resolve
from kgtool.analysis.spark.session import cause_of, is_connect

DEPTH = 4
"""Levels of folders below a URL that are listed over Spark Connect."""
GLOB = str.maketrans({each: f"\\{each}" for each in "{}[]*?\\"})


def find_remote(session: SparkSession, inputs: Inputs) -> Inputs:
    """Add the files at the inputs' URLs. Raises ConfigError if there is nothing to read."""
    there = [_look_at(session, url) for url in inputs.remote]
    return resolve(merge(inputs._replace(remote=[]), *there))


def _look_at(session: SparkSession, url: str) -> Inputs:
    try:
        store = Listed(session, url) if is_connect(session) else Store(session, url)
        listing = store.listing()
    except OSError as error:
        return Inputs([], None, [f"{url} can't be read: {error}."], [], [])
    return classify(listing)


class Listed:
    """A URL seen through Spark's own sources, as Spark Connect has nothing else.

    Spark hides names that begin with ``_`` unless a pattern names them. Methods may raise OSError.
    """

    def __init__(self, session: SparkSession, url: str) -> None:
        self._session, self._url = session, url.rstrip("/")
        self._files: dict[str, int] = {}

    def listing(self) -> Listing:
        """All files below it, or the file itself."""
        for depth in range(DEPTH):
            pattern = self._url.translate(GLOB) + "/*" * depth
            found = self._collect(pattern, "path", "length", is_needed=depth == 0)
            self._files.update({row.path: row.length for row in found})
        entries = [ListedFile(*each) for each in sorted(self._files.items())]
        is_file = self._url in self._files
        return Listing(self._url, entries, self._head, self._content, is_file, True)

    def _content(self, path: str) -> bytes | None:
        if path not in self._files:
            return None
        (row,) = self._collect(path.translate(GLOB), "content")
        return bytes(row.content)

    def _head(self, entry: ListedFile) -> bytes:
        if entry.size > MOST_BYTES:
            raise OSError("it is larger than 256 MiB")
        head = F.substring("content", 1, HEAD_BYTES).alias("head")
        (row,) = self._collect(entry.path.translate(GLOB), head)
        return bytes(row.head)

    def _collect(self, path: str, *columns: Any, is_needed: bool = True) -> list[Any]:
        from pyspark.errors import PySparkException

        try:
            files = self._session.read.format("binaryFile").option("recursiveFileLookup", "true")
            return list(files.load(path).select(*columns).collect())
        except PySparkException as error:
            if not is_needed:
                return []
            if "PATH_NOT_FOUND" in str(error):
                raise OSError("it does not exist") from None
            raise OSError(cause_of(str(error)).rstrip(".")) from None


_LIBRARIES = (
    ("s3a", "org.apache.hadoop:hadoop-aws:{}"),
    ("azure", "org.apache.hadoop:hadoop-azure:{}"),
    ("abfs", "org.apache.hadoop:hadoop-azure:{}"),
    ("wasb", "org.apache.hadoop:hadoop-azure:{}"),
    ("fs.gs.", "org.apache.hadoop:hadoop-gcp:{}"),
    ('"gs"', "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26"),
    ('"oss"', "org.apache.hadoop:hadoop-aliyun:{}"),
)


def _library(text: str) -> str:
    """The setting that loads a file system, by the message that it is missing."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    found = [path.stem.rpartition("-")[2] for path in jars.glob("hadoop-client-api-*.jar")]
    names = (name for mark, name in _LIBRARIES if mark in text.lower())
    return (
        f"spark.jars.packages={next(names, 'GROUP:ARTIFACT:VERSION').format(*found or ['3.4.1'])}"
    )


@contextmanager
def _jvm_errors() -> Iterator[None]:
    """Turn a failed call into the JVM into an OSError with its reason."""
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        text = str(cause.getMessage() or cause.getClass().getSimpleName())
        if "ClassNotFoundException" in text or "No FileSystem" in text:
            text = f"{text.splitlines()[0]} (give its library: --conf {_library(text)})"
        raise OSError(
            (text.strip() or "its file system does not say why").splitlines()[0]
        ) from None
    except Py4JError as error:
        raise OSError(str(error).strip().splitlines()[0]) from None


class Store:
    """A URL seen through Hadoop's FileSystem. Every method may raise OSError."""

    @_jvm_errors()
    def __init__(self, session: SparkSession, url: str) -> None:
        self.url, self.base = url, url.rstrip("/")
        jvm: Any = session.sparkContext._jvm
        conf = session.sparkContext._jsc.hadoopConfiguration()
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._path = self._path_class(url)
        self._system = self._path.getFileSystem(conf)

    def held(self) -> AbstractContextManager[None]:
        """Do nothing: these file systems have no locks."""
        return nullcontext()

    @_jvm_errors()
    def kind(self) -> str:
        """Return ``file``, ``full`` or ``empty`` (a folder), or ``nothing``."""
        if not self._system.exists(self._path):
            return "nothing"
        if self._system.getFileStatus(self._path).isFile():
            return "file"
        return "full" if len(self._system.listStatus(self._path)) else "empty"

    @_jvm_errors()
    def names(self, folder: str = ".") -> list[str]:
        """Names in it, or in a folder of it."""
        found = self._system.listStatus(self._path_class(self._path, folder))
        return [str(each.getPath().getName()) for each in found]

    @_jvm_errors()
    def remove(self, name: str) -> None:
        """Delete a file or folder if it exists."""
        self._system.delete(self._path_class(self._path, name), True)

    @_jvm_errors()
    def rename(self, name: str, to: str) -> None:
        """Rename a folder; the new name does not exist yet."""
        before, behind = (self._path_class(self._path, each) for each in (name, to))
        if not self._system.rename(before, behind):
            raise OSError(f"{name} could not be renamed to {to}")

    @_jvm_errors()
    def read(self, name: str) -> bytes | None:
        """The content of a file; None: it does not exist."""
        path = self._path_class(self._path, name)
        return bytes(self._system.open(path).readAllBytes()) if self._system.exists(path) else None

    @_jvm_errors()
    def write(self, name: str, data: bytes) -> None:
        """Replace the content of a file; on a failure the file may be gone."""
        draft = f".{name}.writing"
        stream = self._system.create(self._path_class(self._path, draft), True)
        stream.write(bytearray(data))
        stream.close()
        self.remove(name)
        self.rename(draft, name)

    @_jvm_errors()
    def listing(self) -> Listing:
        """All files below it, or the file itself."""
        kind = self.kind()
        if kind == "nothing":
            raise OSError("it does not exist")
        entries = list(self._entries())
        return Listing(self.url, entries, self._head, self._content, kind == "file", True)

    @_jvm_errors()
    def _content(self, path: str) -> bytes | None:
        return self.read(path)

    def _entries(self) -> Iterator[ListedFile]:
        found = self._system.listFiles(self._path, True)
        while found.hasNext():
            status = found.next()
            yield ListedFile(status.getPath().toString(), int(status.getLen()))

    @_jvm_errors()
    def _head(self, entry: ListedFile) -> bytes:
        stream = self._system.open(self._path_class(entry.path))
        try:
            return bytes(stream.readNBytes(HEAD_BYTES))
        finally:
            stream.close()


class Links:
    """Plain names under which Spark's sources read files; over Connect, the files' own names."""

    def __init__(self, session: SparkSession, files: Sequence[InputFile]) -> None:
        self.options: dict[str, str] = {}
        if is_connect(session):
            self.paths = [file.path.translate(GLOB) for file in files]
            self.files = {file.path: file for file in files}
            return
        jvm: Any = session.sparkContext._jvm
        mount = f"kgtool{abs(hash(tuple(file.path for file in files))):x}"
        self.paths = [f"viewfs://{mount}/{number}" for number in range(len(files))]
        self.files = dict(zip(self.paths, files, strict=True))
        for number, file in enumerate(files):
            target = jvm.org.apache.hadoop.fs.Path(file.path).toUri().toASCIIString()
            self.options[f"fs.viewfs.mounttable.{mount}.link./{number}"] = target
