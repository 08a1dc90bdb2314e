"""A remote copy of a journal: any URL that fsspec knows (``s3://…``, ``gs://…``, ``file:///…``).

``URL/ID/000000.jsonl`` is the header and the first part of the change, stored before its first
request; later appends go into further objects: results and the next part, the end, the mark of an
undo. Concatenated they are the journal's file. One without an end is that of a process that died:
it is read as interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kgtool.changes.journal.folder import JournalError
from kgtool.changes.journal.journal import SUFFIX
from kgtool.errors import ConfigError, KgError, UsageError

COPY_VARIABLE = "KGTOOL_JOURNAL_COPY"


def check_url(url: str) -> str:
    """Return a URL without its last slash.

    :raises UsageError: it is not a URL, or has a password in it, which the journal would keep.
    """
    scheme, mark, rest = url.partition("://")
    if not mark or not scheme or not rest:
        raise UsageError(f"--journal-copy takes a URL such as s3://bucket/journals, not '{url}'.")
    if ":" in rest.partition("/")[0].rpartition("@")[0]:
        raise UsageError(
            "--journal-copy: the URL has a password in it. Give it by the environment or the "
            "configuration of that storage."
        )
    return url.rstrip("/")


class RemoteCopy:
    """The objects of one journal.

    :param url: the journal's folder: that of all journals, and its id.
    :param goes_on: append to the objects that exist.
    :raises JournalError: nothing can be written there.
    """

    def __init__(self, url: str, *, goes_on: bool = False) -> None:
        self._url = check_url(url)
        self._fs, self._path = self._try(lambda: _open(self._url))
        self._count = len(self._try(lambda: _objects(self._fs, self._path))) if goes_on else 0

    def put(self, data: bytes) -> None:
        """Store what was appended.

        :raises JournalError: it can't be stored.
        """
        path = f"{self._path}/{self._count:06}{SUFFIX}"

        def store() -> None:
            self._fs.makedirs(self._path, exist_ok=True)
            self._fs.pipe_file(path, data)

        self._try(store)
        self._count += 1

    def _try(self, access: Callable[[], Any]) -> Any:
        try:
            return access()
        except KgError:
            raise
        except Exception as error:  # noqa: BLE001 - each storage raises what its library does
            raise JournalError(
                f"The journal's copy {self._url} can't be written ({_one_line(error)}).",
                hint="Nothing more is changed without it.",
            ) from error


def fetch(url: str, folder: Path) -> Path:
    """Concatenate a journal's objects; return its file in ``folder``.

    :param url: that of the journal (``…/ID``).
    :raises ConfigError: there is none, or it can't be read.
    """
    name = check_url(url).rpartition("/")[2]
    path = folder / f"{name}{SUFFIX}"
    try:
        fs, place = _open(url.rstrip("/"))
        names = _objects(fs, place)
        # Where the machine is lost, the ids are known from here only.
        below = [] if names else fs.ls(place, detail=False)
        path.write_bytes(b"".join(fs.cat_file(each) for each in names))
    except KgError:
        raise
    except Exception as error:  # noqa: BLE001 - each storage raises what its library does
        raise ConfigError(f"Can't read the journal {url}: {_one_line(error)}.") from error
    if not names:
        ids = sorted((each.rstrip("/").rpartition("/")[2] for each in below), reverse=True)
        hint = f"It takes URL/ID; the newest there: {', '.join(ids[:3])}." if ids else None
        raise ConfigError(f"There is no journal at {url}.", hint=hint)
    return path


def _objects(fs: Any, path: str) -> list[str]:
    return sorted(each for each in fs.ls(path, detail=False) if each.endswith(SUFFIX))


def _open(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(
            "--journal-copy needs the package fsspec: pip install 'kafka-kgtool[remote]'"
        ) from None
    return url_to_fs(url, use_listings_cache=False)  # type: ignore[no-any-return]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:300] or type(error).__name__
