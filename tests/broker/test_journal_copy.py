"""``--journal-copy``: the journal's second home, and an undo from there, the machine gone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import clients
from tests.support.faulty import kgtool

pytestmark = pytest.mark.broker


class Pod:
    """A machine with a disk of its own, three dead groups, and a bucket elsewhere."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap, self.disk, self.bucket = bootstrap, folder / "disk", folder / "bucket"
        self.topic = clients.create_topic(bootstrap, clients.unique("copied"), 1)
        clients.produce(bootstrap, self.topic, 3)
        self.name = clients.unique("dead")
        self.groups = [f"{self.name}-{n}" for n in range(3)]
        for number, group in enumerate(self.groups):
            clients.commit(bootstrap, group, {(self.topic, 0): number})
        self.argv = [
            "delete",
            "--match",
            f"{self.name}-*",
            "--yes",
            "--journal-copy",
            self.bucket.as_uri(),
        ]

    def run(self, *argv: str, **environ: str):
        env = {"KGTOOL_JOURNAL_DIR": str(self.disk), **environ}
        return kgtool(*argv, "--bootstrap-server", self.bootstrap, environ=env)

    @property
    def left(self) -> int:
        return sum(bool(clients.committed(self.bootstrap, group)) for group in self.groups)

    def copied(self) -> str:
        (folder,) = self.bucket.iterdir()
        return "".join(path.read_text() for path in sorted(folder.iterdir()))

    def undo(self, *argv: str):
        """From another machine, that has nothing but the bucket."""
        (folder,) = self.bucket.iterdir()
        return self.run(
            "undo",
            "--from",
            folder.as_uri(),
            "--yes",
            *argv,
            KGTOOL_JOURNAL_DIR=str(self.disk.parent / "elsewhere"),
        )


@pytest.fixture
def pod(bootstrap: str, tmp_path: Path) -> Pod:
    return Pod(bootstrap, tmp_path)


def test_the_copy_is_the_journal(pod: Pod) -> None:
    done = pod.run(*pod.argv)
    assert done.status == 0, done
    assert pod.left == 0
    (journal,) = pod.disk.glob("*.jsonl")
    assert pod.copied() == journal.read_text()
    shutil.rmtree(pod.disk)
    undone = pod.undo()
    assert undone.status == 0, undone
    assert [clients.committed(pod.bootstrap, group) for group in pod.groups] == [
        {(pod.topic, 0): number} for number in range(3)
    ]
    assert '"undone"' in pod.copied()
    again = pod.undo()
    assert again.status == 1 and "was undone already" in again.err, again


def test_an_undo_from_what_can_only_be_read(pod: Pod, tmp_path: Path) -> None:
    """Was: everything is back, and the status said that nothing could be done."""
    assert pod.run(*pod.argv).status == 0
    archive = shutil.make_archive(str(tmp_path / "copies"), "zip", pod.bucket)
    (folder,) = pod.bucket.iterdir()
    undone = pod.run("undo", "--from", f"zip://{folder.name}::file://{archive}", "--yes")
    assert pod.left == 3
    assert undone.status == 0 and "can't be marked as undone" in undone.err, undone


def _apply_slowly(pod: Pod) -> subprocess.Popen[str]:
    """A cleanup with a wait of seconds behind each group; returns behind the first."""
    plan = pod.disk.parent / "plan.json"
    made = pod.run("cleanup", "plan", "--match", f"{pod.name}-*", "--out", str(plan))
    assert made.status == 0, made
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "kgtool",
            "cleanup",
            "apply",
            str(plan),
            "--yes",
            "--rate",
            "0.3",
            "--bootstrap-server",
            pod.bootstrap,
        ],
        env={
            **os.environ,
            "KGTOOL_JOURNAL_DIR": str(pod.disk),
            "KGTOOL_JOURNAL_COPY": pod.bucket.as_uri(),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    clients.wait_for(lambda: pod.left == 2, "the first group is gone")
    return process


def test_a_pod_that_dies_is_undone_from_elsewhere(pod: Pod) -> None:
    process = _apply_slowly(pod)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    shutil.rmtree(pod.disk)
    assert '"end"' not in pod.copied()
    undone = pod.undo()
    assert undone.status == 0 and ", interrupted" in undone.err, undone
    assert pod.left == 3


def test_an_upload_that_fails_stops_the_change_before_it(pod: Pod) -> None:
    process = _apply_slowly(pod)
    shutil.rmtree(pod.bucket)
    pod.bucket.write_text("no folder any more")
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 3 and "Nothing more is changed without it" in said, said
    assert pod.left == 2
    undone = pod.run("undo", "last", "--yes")  # the machine's own journal is whole
    assert undone.status == 0, undone
    assert pod.left == 3


def test_a_bucket_that_can_not_be_written_stops_everything(pod: Pod) -> None:
    pod.bucket.write_text("no folder")
    done = pod.run(*pod.argv)
    assert done.status == 1 and "The journal's copy" in done.err, done
    assert pod.left == 3
    assert not list(pod.disk.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("url", "status", "said"),
    [
        ("/tmp/x", 2, "takes a URL such as"),
        ("sftp://me:pw@host/x", 2, "has a password in it"),
        ("nosuchthing://host/x", 1, "nosuchthing"),
    ],
)
def test_urls_that_are_none(pod: Pod, url: str, status: int, said: str) -> None:
    argv = [*pod.argv[:-1], url]
    done = pod.run(*argv)
    assert done.status == status and said in done.err, done
    assert "Traceback" not in done.err and "pw" not in done.err.replace("password", "")
    assert pod.left == 3


def test_a_copy_that_is_not_there(pod: Pod) -> None:
    done = pod.run("undo", "--from", f"{pod.bucket.as_uri()}/none", "--yes")
    assert done.status == 2 and "Can't read the journal file://" in done.err, done


def test_the_folder_of_all_copies_names_the_newest(pod: Pod) -> None:
    assert pod.run(*pod.argv).status == 0
    (folder,) = pod.bucket.iterdir()
    done = pod.run("undo", "--from", pod.bucket.as_uri(), "--yes")
    assert done.status == 2 and f"It takes URL/ID; the newest there: {folder.name}." in done.err
    assert pod.left == 0
