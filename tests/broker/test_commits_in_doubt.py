"""What becomes of a commit whose answer is lost or unclear: fault × command, on three brokers.

Each fault strikes the first OffsetCommit of a command. Either nobody else is there: then the
command must succeed, without a second commit where the first one is found. Or a standalone
consumer commits 250 at that moment: then 250 stays, and the command says so.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kgtool.changes.cleanup.execute import RebuildGroups
from kgtool.changes.driver import look_and_carry_out
from kgtool.changes.hidden_offsets import HiddenOffsets
from kgtool.config import settings
from kgtool.model import TopicPartition
from kgtool.net.session import Session
from kgtool.protocol import codes
from tests.support import clients, faulty, outcomes
from tests.support.faulty import FaultyKafka, client_config, kgtool
from tests.support.outcomes import Outcome
from tests.support.proxy import Fault, Plan, Proxies

TABLE, DELETIONS = "A commit in doubt", "A deletion in doubt"
LIST_OFFSETS, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 2, 8, 9, 10
DELETE_GROUPS, OFFSET_DELETE = 42, 47
OLD, NEW, FOREIGN = 5, 10, 250
CODES = {"7": 7, "14": 14, "15": 15, "16": 16, "100": 100}
FAULTS = ("lost-answer", "swallow", *CODES)
SAID = {
    "lost-answer": "the answer is lost",
    "swallow": "the request is lost",
    "hole": "the broker falls silent",
    **{name: f"error {code.name} ({name})" for name in CODES for code in [codes.code(int(name))]},
}
"""The faults, as the page calls them."""
COMMANDS = ("reset-offsets", "keep", "undo", "restore", "rebuild-group")
PAIRS = [
    *((fault, command) for fault in ("lost-answer", "swallow", "7") for command in COMMANDS),
    *(("14", "restore"), ("15", "rebuild-group"), ("16", "reset-offsets"), ("100", "undo")),
]
"""Where nothing tells if the broker has written, with each command; errors after which it has not
are one branch of the driver's for all, so each with one."""


class Found(NamedTuple):
    """What a command left, and what it said."""

    offset: int | None
    status: int
    error: str | None
    journaled: list[dict[str, Any]]
    struck: int
    commits: int
    text: str


def with_code(code: int) -> Callable[[bytes], bytes]:
    """Make an OffsetCommit answer (v8+) for one partition say this code."""

    def rewrite(frame: bytes) -> bytes:
        assert frame[-5:] == bytes(5), "the code and three empty sets of tagged fields"
        return frame[:-5] + struct.pack(">h", code) + frame[-3:]

    return rewrite


class DoubtfulCommit:
    """A topic, the brokers and their proxies; each command gets a group of its own."""

    def __init__(self, kafka: FaultyKafka, proxies: Proxies, folder: Path) -> None:
        self.bootstrap = kafka.cluster.bootstrap
        self.brokers = sorted(kafka.ports)
        self.proxies = proxies
        self.folder = folder
        self.topic = clients.create_topic(self.bootstrap, clients.unique("doubt"))
        clients.produce(self.bootstrap, self.topic, 300)
        self.name = clients.unique("doubt")
        self.environ = {"KGTOOL_JOURNAL_DIR": str(folder / "journal")}

    def commit(self, offset: int) -> None:
        clients.commit(self.bootstrap, self.name, {(self.topic, 0): offset})

    def offset(self) -> int | None:
        return clients.committed(self.bootstrap, self.name).get((self.topic, 0))

    def quietly(self, *argv: str) -> None:
        """Run a command past the proxies."""
        done = kgtool(*argv, "--bootstrap-server", self.bootstrap, environ=self.environ)
        assert done.status == 0, done

    def fault(self, name: str, hook: Callable[[], object] | None, **more: Any) -> Plan:
        kind = "rewrite" if name in CODES else name
        rewrite = with_code(CODES[name]) if name in CODES else None
        options = {"api": OFFSET_COMMIT, "hook": hook, "rewrite": rewrite, **more}
        return Plan(*(Fault(kind, broker, **options) for broker in self.brokers))

    def run(
        self, command: str, plan: Plan, timeout_ms: int = 9000, patience_ms: int | None = None
    ) -> Found:
        """Run a command through the proxies."""
        argv = getattr(self, f"_{command.replace('-', '_')}")()
        self.proxies.plans[self.name] = plan
        config = client_config(self.folder, self.name)
        if patience_ms:
            with Path(config).open("a") as more:
                more.write(f"request.timeout.ms={patience_ms}\n")
        if command == "rebuild-group":
            status, error, text = self._rebuild(config)
        else:
            connection = [
                "--bootstrap-server",
                self.proxies.bootstrap,
                "--timeout",
                str(timeout_ms),
            ]
            done = kgtool(
                *argv,
                *connection,
                "--command-config",
                config,
                "--yes",
                "-o",
                "json",
                environ=self.environ,
            )
            errors = done.document["errors"]
            status, error = done.status, errors[0]["name"] if errors else None
            text = str(done)
        self.proxies.plans.pop(self.name)
        commits = self.proxies.requests[self.name][OFFSET_COMMIT]
        return Found(self.offset(), status, error, self._journaled(), plan.struck, commits, text)

    def _journaled(self) -> list[dict[str, Any]]:
        """Return the results in the newest journal."""
        paths = sorted((self.folder / "journal").glob("*.jsonl"), key=lambda p: p.stat().st_mtime)
        lines = [json.loads(line) for line in paths[-1].read_text().splitlines()] if paths else []
        return [line for line in lines if line.get("kind") == "result"]

    def _reset_offsets(self) -> list[str]:
        self.commit(OLD)
        return [
            "reset-offsets",
            "--group",
            self.name,
            "--topic",
            self.topic,
            "--to-offset",
            str(NEW),
            "--execute",
        ]

    def _keep(self) -> list[str]:
        self.commit(NEW)
        return ["keep", self.name]

    def _undo(self) -> list[str]:
        self.commit(NEW)
        self.quietly(
            "reset-offsets",
            "--group",
            self.name,
            "--topic",
            self.topic,
            "--to-offset",
            str(OLD),
            "--execute",
            "--yes",
        )
        return ["undo", "last"]

    def _restore(self) -> list[str]:
        self.commit(NEW)
        out = str(self.folder / "backup.json")
        self.quietly("backup", "--group", self.name, "--out", out)
        self.commit(OLD)
        return ["restore", out]

    def _delete(self) -> list[str]:
        self.commit(OLD)
        return ["delete", "--group", self.name]

    def _delete_offsets(self) -> list[str]:
        self.commit(OLD)
        return ["delete-offsets", "--group", self.name, "--topic", self.topic]

    def _rebuild_group(self) -> list[str]:
        self.commit(NEW)
        return []

    def _rebuild(self, config: str) -> tuple[int, str | None, str]:
        """Delete the group and give it back what it had, as ``cleanup apply`` does."""
        found = settings(self.proxies.bootstrap, command_config=config, timeout_ms=9000)
        assert found is not None
        at = TopicPartition(self.topic, 0)
        with Session(found) as session:
            kind = RebuildGroups(
                [self.name],
                lambda change: {at: change.image.offsets[at].committed},  # type: ignore[dict-item]
                hidden=HiddenOffsets([self.name], refuse=False),
            )
            rebuilding = look_and_carry_out(session.cluster, kind, [self.name], lambda _: None)
            (row,) = session.run(rebuilding)
        if row.error is None:
            return 0, None, str(row)
        return (
            1,
            "CHANGED_MEANWHILE" if "nother client" in row.error.message else row.error.name,
            (str(row)),
        )


@pytest.fixture(scope="module")
def proxied() -> Iterator[tuple[FaultyKafka, Proxies]]:
    kafka = faulty.shared()
    with kafka.proxies() as proxies:
        yield kafka, proxies


@pytest.fixture
def doubtful(proxied: tuple[FaultyKafka, Proxies], tmp_path: Path) -> DoubtfulCommit:
    return DoubtfulCommit(*proxied, tmp_path)


@pytest.mark.parametrize(("fault", "command"), PAIRS)
class TestInDoubt:
    def test_somebody_else_has_committed(
        self, doubtful: DoubtfulCommit, outcome: Outcome, fault: str, command: str
    ) -> None:
        """Another client's commit is never overwritten by a repeated one."""
        with outcome(TABLE, f"{SAID[fault]}; another client commits", command) as cell:
            done = doubtful.run(command, doubtful.fault(fault, lambda: doubtful.commit(FOREIGN)))
            assert done.struck == 1, done.text
            assert done.offset == FOREIGN, done.text
            assert (done.status, done.error) == (1, "CHANGED_MEANWHILE"), done.text
            assert done.commits == 1, "nothing was sent a second time"
            if command != "rebuild-group":
                (line,) = done.journaled
                assert line["status"] == "changed-meanwhile", line
                assert line["error"]["name"] == "CHANGED_MEANWHILE", line
                # Without an answer nobody knows if the broker still has it before it.
                assert line["outcome"] == ("failed" if fault in CODES else "unknown"), line
            cell.says(f"the other commit, status {done.status}")

    def test_nobody_else_was_there(
        self, doubtful: DoubtfulCommit, outcome: Outcome, fault: str, command: str
    ) -> None:
        """The commit is found or made again; either way the command succeeds."""
        with outcome(TABLE, SAID[fault], command) as cell:
            done = doubtful.run(command, doubtful.fault(fault, None))
            assert done.struck == 1, done.text
            assert done.offset == NEW, done.text
            assert (done.status, done.error) == (0, None), done.text
            # In keep the commit counts, and not the value: it is made again.
            is_found = fault != "swallow" and command != "keep"
            assert done.commits == (1 if is_found else 2), done.text
            cell.says(f"the new offset, status {done.status}, {done.commits} sent")


@pytest.mark.parametrize("command", ["reset-offsets", "undo", "restore", "rebuild-group"])
def test_an_accepted_commit_is_read_back(doubtful: DoubtfulCommit, command: str) -> None:
    """The coordinator says yes, and another client commits before that is looked up."""
    hook = lambda: doubtful.commit(FOREIGN)  # noqa: E731
    done = doubtful.run(command, doubtful.fault("rewrite", hook, rewrite=bytes))
    assert done.struck == 1, done.text
    error = "NOT_RESTORED" if command == "rebuild-group" else "NOT_VERIFIED"
    assert (done.offset, done.status, done.error) == (FOREIGN, 1, error), done.text
    assert f"The coordinator accepted offset {NEW}" in done.text


@pytest.mark.parametrize("command", ["reset-offsets", "keep", "undo", "restore"])
def test_a_commit_that_lands_after_all_looks_is_unknown(
    doubtful: DoubtfulCommit, command: str
) -> None:
    """Another client has committed, and then the broker gets the request that was on its way."""
    plan = doubtful.fault("stall", lambda: doubtful.commit(FOREIGN), seconds=2.0)
    done = doubtful.run(command, plan)
    assert done.struck == 1, done.text
    assert (done.offset, done.status, done.error) == (FOREIGN, 1, "CHANGED_MEANWHILE"), done.text
    assert "it may still be carried out" in done.text
    (line,) = done.journaled
    assert (line["status"], line["outcome"]) == ("changed-meanwhile", "unknown"), line
    clients.wait_for(lambda: doubtful.offset() == NEW, "the late commit")


def test_what_was_not_possible_at_the_first_look_is_an_error(doubtful: DoubtfulCommit) -> None:
    """No coordinator is found at first: nothing was asked and nothing is done."""
    done = doubtful.run("restore", doubtful.fault("swallow", None, api=FIND_COORDINATOR), 4000)
    assert done.struck >= 1, done.text
    assert (done.offset, done.status, done.error) == (OLD, 4, "TIMEOUT"), done.text
    assert '"status": "would-restore"' not in done.text


@pytest.mark.parametrize("command", ["reset-offsets", "undo", "restore"])
@pytest.mark.parametrize("fault", ["lost-answer", "7"])
def test_a_member_joins_after_the_commit(
    doubtful: DoubtfulCommit, outcome: Outcome, fault: str, command: str
) -> None:
    """What was written is done, also where a repeated commit would be refused (25)."""
    members = []

    def join() -> None:
        members.append(clients.join(doubtful.bootstrap, doubtful.name, [doubtful.topic]))

    try:
        with outcome(TABLE, f"{SAID[fault]}; a member joins", command) as cell:
            done = doubtful.run(command, doubtful.fault(fault, join))
            assert done.struck == 1, done.text
            assert done.offset == NEW, done.text
            assert (done.status, done.error) == (0, None), done.text
            (line,) = done.journaled
            assert line.get("error") is None, line
            cell.says(f"the new offset, status {done.status}")
    finally:
        for member in members:
            member.close()


@pytest.mark.parametrize(
    ("fault", "left", "status", "error"), [("hole", NEW, 0, None), ("swallow", OLD, 4, "TIMEOUT")]
)
def test_the_read_back_does_not_wait_behind_the_silence(
    doubtful: DoubtfulCommit,
    outcome: Outcome,
    fault: str,
    left: int,
    status: int,
    error: str | None,
) -> None:
    """The connection is never given up in time: it is closed before it is looked up."""
    with outcome(TABLE, f"{SAID[fault]}; no time is left", "reset-offsets") as cell:
        plan = doubtful.fault(fault, None)
        done = doubtful.run("reset-offsets", plan, timeout_ms=4000, patience_ms=3999)
        assert done.struck == 1, done.text
        assert (done.offset, done.status, done.error) == (left, status, error), done.text
        assert done.commits == 1
        cell.says(f"the {'new' if left == NEW else 'old'} offset, status {status}")


def test_what_can_not_be_read_back_is_unknown_and_can_be_undone(
    doubtful: DoubtfulCommit, outcome: Outcome
) -> None:
    """The commit was made, its answer is lost, and the coordinator answers no more questions."""
    commit = doubtful.fault("lost-answer", None)
    # OffsetFetch: the plan, the look under the lock, the look before the commit.
    reads = doubtful.fault("swallow", None, api=OFFSET_FETCH, at=3, times=99)
    with outcome(TABLE, f"{SAID['lost-answer']}; then silence", "reset-offsets") as cell:
        done = doubtful.run("reset-offsets", Plan(*commit.left, *reads.left), timeout_ms=4000)
        assert done.struck >= 2, done.text
        assert (done.offset, done.status, done.error) == (NEW, 4, "OUTCOME_UNKNOWN"), done.text
        (line,) = done.journaled
        assert (line["status"], line["outcome"]) == ("unknown", "unknown"), line
        cell.says(f"the new offset, reported unknown, status {done.status}")
    doubtful.quietly("undo", "last", "--yes")
    assert doubtful.offset() == OLD


@pytest.mark.parametrize(
    ("command", "api"), [("delete", DELETE_GROUPS), ("delete-offsets", OFFSET_DELETE)]
)
@pytest.mark.parametrize("fault", ["lost-answer", "swallow"])
class TestDeletionsInDoubt:
    def test_nobody_else_was_there(
        self, doubtful: DoubtfulCommit, outcome: Outcome, fault: str, command: str, api: int
    ) -> None:
        """The deletion is found or made again."""
        with outcome(DELETIONS, SAID[fault], command) as cell:
            done = doubtful.run(command, doubtful.fault(fault, None, api=api))
            assert done.struck == 1, done.text
            assert (done.offset, done.status) == (None, 0), done.text
            cell.says(f"no offset, status {done.status}")

    def test_somebody_else_has_committed(
        self, doubtful: DoubtfulCommit, outcome: Outcome, fault: str, command: str, api: int
    ) -> None:
        """Another client's commit is never deleted by a repeated request."""
        with outcome(DELETIONS, f"{SAID[fault]}; another client commits", command) as cell:
            hook = lambda: doubtful.commit(FOREIGN)  # noqa: E731
            done = doubtful.run(command, doubtful.fault(fault, hook, api=api))
            assert done.struck == 1, done.text
            assert done.offset == FOREIGN, done.text
            assert doubtful.proxies.requests[doubtful.name][api] == 1, (
                "nothing was sent a second time"
            )
            (line,) = done.journaled
            assert (done.status, line["outcome"]) == (1, "unknown"), (done.text, line)
            cell.says(f"the other commit, status {done.status}")


@pytest.mark.parametrize(
    ("command", "api", "at"), [("delete", DELETE_GROUPS, 0), ("delete-offsets", OFFSET_DELETE, 1)]
)
def test_a_commit_between_the_look_and_the_deletion(
    doubtful: DoubtfulCommit, command: str, api: int, at: int
) -> None:
    """Images and the journal lie between them: a silent leader or a slow disk, and it is long.

    The commit was deleted, and undo restored the one before it.
    """
    plan = doubtful.fault("watch", lambda: doubtful.commit(FOREIGN), api=LIST_OFFSETS, at=at)
    done = doubtful.run(command, plan)
    assert done.struck == 1, done.text
    assert (done.offset, done.status, done.error) == (FOREIGN, 1, "CHANGED_MEANWHILE"), done.text
    assert doubtful.proxies.requests[doubtful.name][api] == 0, "nothing was sent"
    (line,) = done.journaled
    assert (line["status"], line["outcome"]) == ("changed-meanwhile", "failed"), line


def test_the_pages_have_no_cell_that_no_test_fills() -> None:
    """Each test compares its own cell."""
    hindered = ("", "; another client commits")
    page = outcomes.read_page(TABLE)
    wanted = {f"{SAID[fault]}{more}" for fault in FAULTS for more in hindered}
    wanted |= {f"{SAID[fault]}; a member joins" for fault in ("lost-answer", "7")}
    wanted |= {f"{SAID[fault]}; no time is left" for fault in ("hole", "swallow")}
    assert set(page) == wanted | {f"{SAID['lost-answer']}; then silence"}
    assert {column for cells in page.values() for column in cells} == set(COMMANDS)
    for fault in FAULTS:
        tried = {command for each, command in PAIRS if each == fault}
        for cells in (page[f"{SAID[fault]}{more}"] for more in hindered):
            assert {command for command, said in cells.items() if said} == tried, fault
    page = outcomes.read_page(DELETIONS)
    assert set(page) == {SAID[f] + more for f in ("lost-answer", "swallow") for more in hindered}
