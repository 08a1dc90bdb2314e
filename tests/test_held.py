"""Input files are read once, whole, and held.

Kind: a file that is another one at its second reading, and a file that is not a plain one.
Siblings: replaced and rewritten files, pipes, FIFOs without a writer, stdin, devices, folders.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kgtool import held
from kgtool.errors import ConfigError
from kgtool.held import hold


def content(path: str | Path) -> bytes:
    with hold(path, 10_000).open() as file:
        return file.read()


@pytest.mark.parametrize("in_memory", [1, 10**6])
def test_what_was_read_stays(
    tmp_path: Path, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held, "IN_MEMORY", in_memory)
    path = tmp_path / "file"
    text = b"".join(b"line %d\n" % n for n in range(1000))
    path.write_bytes(text)
    found = hold(path)
    path.write_bytes(b"something else")
    path.unlink()
    with found.open() as one, found.open() as two:
        assert one.readline() == b"line 0\n"
        assert two.read() == text
        assert one.readline() == b"line 1\n"
        assert two.seek(-4, os.SEEK_END) == len(text) - 4
        assert (two.tell(), two.read(), two.seek(7)) == (len(text) - 4, text[-4:], 7)
        assert next(iter(two)) == b"line 1\n"
    assert (str(found), found.text()) == (str(path), text.decode())


@pytest.mark.parametrize("way", ["fifo", "fd", "-", "/dev/stdin"])
def test_pipes(tmp_path: Path, way: str) -> None:
    text = b"0123456789" * 50_000
    path, saved = tmp_path / "fifo", os.dup(0)
    if way == "fifo":
        os.mkfifo(path)
        name, number = str(path), -1
    else:
        ours, number = os.pipe()
        os.dup2(ours, 0)
        name = f"/dev/fd/{ours}" if way == "fd" else way

    def write() -> None:
        with open(path if number < 0 else number, "wb") as file:
            file.write(text)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert content(name) == text
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        writer.join()


def test_an_empty_pipe_whose_writer_is_done() -> None:
    ours, theirs = os.pipe()
    os.close(theirs)
    assert content(f"/dev/fd/{ours}") == b""
    os.close(ours)
    assert content(os.devnull) == b""


def test_a_fifo_without_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ConfigError, match=r"fifo: nothing was written to it for 0\.05 s"):
        hold(tmp_path / "fifo", 50)
    ours, theirs = os.pipe()
    os.write(theirs, b"half")
    with pytest.raises(ConfigError, match="nothing was written"):
        hold(f"/dev/fd/{ours}", 50)


@pytest.mark.parametrize(
    ("name", "said"),
    [("/dev/zero", "it is a device"), ("", "Is a directory"), ("nothing", "No such file")],
)
def test_what_is_not_a_file(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"Can't read .*: {said}"):
        hold(tmp_path / name)


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="file is not UTF-8 text"):
        hold(tmp_path / "file").text()
