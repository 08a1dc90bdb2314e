"""Files that are not on this machine: whatever file system Spark's Hadoop libraries can read.

The driver lists them and looks at their first bytes through the JVM; executors read them through
Spark's own sources. Those leave out files whose names begin with ``_`` or ``.`` and take brackets
in names for patterns, so every file is given to them under a plain name, as a link of a view file
system (``fs.viewfs.mounttable``) that exists in the options of the one read only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from kgtool.analysis.find import MANIFEST, read_manifest, sort_out, take
from kgtool.analysis.formats import HEAD_BYTES
from kgtool.analysis.inputs import Entry, InputFile, Inputs, Listing
from kgtool.analysis.settle import one_cluster, settled
from kgtool.errors import KgError


def find_remote(session: SparkSession, inputs: Inputs) -> Inputs:
    """Add what is under the inputs' URLs. Raises ConfigError if there is nothing to read."""
    manifests = [] if inputs.manifest is None else [inputs.manifest]
    for url in inputs.remote:
        try:
            store = Store(session, url)
            listing = store.listing()
            manifest = store.manifest()
        except OSError as error:
            inputs.problems.append(f"{url} can't be read: {error}.")
            continue
        if manifest is not None:
            manifests.append(manifest)
        take(inputs, sort_out(listing))
    return settled(inputs._replace(manifest=one_cluster(manifests), remote=[]))


class Store:
    """One URL, seen through Hadoop's FileSystem. Every method may raise OSError."""

    def __init__(self, session: SparkSession, url: str) -> None:
        self.url, self.base = url, url.rstrip("/")
        jvm: Any = session.sparkContext._jvm
        conf = session.sparkContext._jsc.hadoopConfiguration()
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._path = self._call(lambda: self._path_class(url))
        self._system = self._call(lambda: self._path.getFileSystem(conf))

    def kind(self) -> str:
        """What is there: ``file``, ``full`` or ``empty`` (a folder), ``nothing``."""
        if not self._call(lambda: self._system.exists(self._path)):
            return "nothing"
        if self._call(lambda: self._system.getFileStatus(self._path).isFile()):
            return "file"
        return "full" if self._call(lambda: len(self._system.listStatus(self._path))) else "empty"

    def names(self) -> list[str]:
        """What is in that folder."""
        return [
            str(status.getPath().getName())
            for status in self._call(lambda: self._system.listStatus(self._path))
        ]

    def remove(self, name: str) -> None:
        """Delete a file or folder in it, if it is there."""
        self._call(lambda: self._system.delete(self._path_class(self._path, name), True))

    def rename(self, name: str, to: str) -> None:
        """Move a folder in it to where nothing is."""
        before, behind = (self._path_class(self._path, each) for each in (name, to))
        if not self._call(lambda: self._system.rename(before, behind)):
            raise OSError(f"{name} could not be renamed to {to}")

    def read(self, name: str) -> bytes | None:
        """The content of a file in it; None: it is not there."""
        path = self._path_class(self._path, name)
        if not self._call(lambda: self._system.exists(path)):
            return None
        return self._call(lambda: bytes(self._open(path).readAllBytes()))  # type: ignore[no-any-return]

    def write(self, name: str, data: bytes) -> None:
        """Let a file in it have that content; where that fails it may be gone."""

        def write() -> None:
            stream = self._system.create(self._path_class(self._path, draft), True)
            stream.write(bytearray(data))
            stream.close()

        draft = f".{name}.writing"
        self._call(write)
        self.remove(name)
        self.rename(draft, name)

    def listing(self) -> Listing:
        """Every file below it, or the file itself."""
        if self.kind() == "nothing":
            raise OSError("it does not exist")
        status = self._call(lambda: self._system.getFileStatus(self._path))
        entries = self._call(lambda: list(self._entries()))
        return Listing(self.url, entries, self._head, bool(status.isFile()), True)

    def manifest(self) -> dict[str, Any] | None:
        """The content of the cluster.json in it."""
        raw = self.read(MANIFEST)
        return None if raw is None else read_manifest(f"{self.base}/{MANIFEST}", raw)

    def _entries(self) -> Iterator[Entry]:
        found = self._system.listFiles(self._path, True)
        while found.hasNext():
            status = found.next()
            yield Entry(status.getPath().toString(), int(status.getLen()))

    def _head(self, entry: Entry) -> bytes:
        def read() -> bytes:
            stream = self._open(self._path_class(entry.path))
            try:
                return bytes(stream.readNBytes(HEAD_BYTES))
            finally:
                stream.close()

        return self._call(read)  # type: ignore[no-any-return]

    def _open(self, path: Any) -> Any:
        return self._system.open(path)

    @staticmethod
    def _call(function: Any) -> Any:
        """Call into the JVM; OSError with the reason where that fails."""
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            return function()
        except KgError:
            raise
        except Py4JJavaError as error:
            cause = error.java_exception
            text = str(cause.getMessage() or cause.getClass().getSimpleName())
            if "ClassNotFoundException" in text or "No FileSystem" in text:
                text = f"{text.splitlines()[0]} (give its library: --conf spark.jars.packages=…)"
            raise OSError(text.strip().splitlines()[0].rstrip(".")) from None
        except Py4JError as error:
            raise OSError(str(error).strip().splitlines()[0]) from None


class Links:
    """Plain names for files, which Spark's sources read as they are."""

    def __init__(self, session: SparkSession, files: Iterable[InputFile]) -> None:
        self.files = list(files)
        jvm: Any = session.sparkContext._jvm
        self._mount = f"kgtool{abs(hash(tuple(file.path for file in self.files))):x}"
        self.options: dict[str, str] = {}
        for number, file in enumerate(self.files):
            link = f"fs.viewfs.mounttable.{self._mount}.link./{number}"
            target = jvm.org.apache.hadoop.fs.Path(file.path).toUri().toASCIIString()
            self.options[link] = target

    def paths(self) -> list[str]:
        """What to load; the file's number is the name."""
        return [f"viewfs://{self._mount}/{number}" for number in range(len(self.files))]
