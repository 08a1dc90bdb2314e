"""Runs cases against brokers behind proxies, and looks at what is left; see ``judge``."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kgtool.records.subscription import encode_topics
from kgtool.sandbox.seeding import group_client
from tests.soak.cases import (
    BEFORE,
    CONFIG,
    KILLS,
    MOVED,
    PARTITIONS,
    RECORDS,
    TARGET,
    TOPIC,
    VALUE,
    Case,
    faults,
)
from tests.soak.happening import FIRST, Happening
from tests.soak.judge import Event, Seen, State, problems_of
from tests.support import clients
from tests.support.faulty import FaultyKafka, client_config
from tests.support.proxy import Plan, Proxies
from tests.support.warm_kgtool import Run, Warm

THREADS = 4


class Verdict(NamedTuple):
    """How a run went; ``problems`` is empty where all is as promised."""

    case: Case
    run: Run
    struck: int
    problems: list[str]
    undone: str = ""


def make_topic(bootstrap: str) -> None:
    """Make the topic of all runs, where it is not there yet."""
    if TOPIC not in clients.admin(bootstrap).list_topics(timeout=10).topics:
        clients.create_topic(bootstrap, TOPIC, PARTITIONS, replication=3)
        for partition in range(PARTITIONS):
            clients.produce(bootstrap, TOPIC, RECORDS, partition=partition)


class Soak:
    """Runs cases; safe to use from several threads."""

    def __init__(self, kafka: FaultyKafka, proxies: Proxies, folder: Path, threads: int) -> None:
        self._kafka = kafka
        self.direct = kafka.cluster.bootstrap
        self._proxies = proxies
        self._folder = folder
        self.admin: AdminClient = clients.admin(self.direct)
        self._warm: SimpleQueue[Warm] = SimpleQueue()
        # A second kgtool may run in the middle of the first.
        self._all = [Warm(folder / f"warm-{number}") for number in range(2 * threads)]
        for warm in self._all:
            self._warm.put(warm)
        make_topic(self.direct)

    def close(self) -> None:
        for warm in self._all:
            warm.close()

    # -- the pieces -------------------------------------------------------------------------

    @contextlib.contextmanager
    def _lent(self) -> Iterator[Warm]:
        warm = self._warm.get()
        try:
            yield warm
        finally:
            self._warm.put(warm)

    def kgtool(self, journal: Path, *argv: str) -> Run:
        """Run kgtool past the proxies, where all is well."""
        with self._lent() as warm:
            return warm.run(*argv, "--bootstrap-server", self.direct, "-o", "json", journal=journal)

    def state(self, case: Case) -> State:
        """What an independent client sees of a case's groups."""
        if case.command == "remove-members":
            described = self.admin.describe_consumer_groups(case.groups)
            found: State = {}
            for group, future in described.items():
                members = future.result(timeout=30).members
                found[group, "members"] = (members[0].member_id,) if members else None
            return found
        if case.command == "configs":
            return {(group, CONFIG): None for group in case.groups}
        state: State = {}
        for group in case.groups:
            request = [ConsumerGroupTopicPartitions(group)]
            answer = self.admin.list_consumer_group_offsets(request)[group].result(timeout=30)
            for part in answer.topic_partitions or []:
                assert part.error is None, part
                if part.offset >= 0:
                    place = (group, part.topic, str(part.partition))
                    state[place] = (part.offset, part.metadata or "")
        return state

    def configs(self) -> dict[str, str]:
        """The config of all groups: confluent-kafka has none of groups, Kafka's own tool has."""
        tool = ("kafka-configs", "--describe", "--entity-type", "groups")
        shown = self._kafka.cluster.run_tool(*tool)
        assert shown.returncode == 0, shown.stderr
        found: dict[str, str] = {}
        group = ""
        for line in shown.stdout.splitlines():
            if "configs for group " in line:
                group = line.split("configs for group ")[1].split()[0]
            elif line.strip().startswith(f"{CONFIG}="):
                found[group] = line.strip().split("=")[1].split()[0]
        return found

    # -- before -----------------------------------------------------------------------------

    def _prepare(self, case: Case, journal: Path) -> tuple[list[str], State]:
        """Make what the command is about; return its arguments, and what it is to bring about."""
        if case.command == "configs":
            named = [word for group in case.groups for word in ("--group", group)]
            argv = ["configs", *named, "--alter", "--add-config", f"{CONFIG}={VALUE}", "--yes"]
            return argv, {(group, CONFIG): (VALUE,) for group in case.groups}
        if case.command == "remove-members":
            for group in case.groups:
                with group_client.connect(self.direct, group, "stuck") as socket:
                    socket.join(group, "consumer", "range", encode_topics([TOPIC]))
            # The coordinator describes what it has committed, which is a moment behind.
            clients.wait_for(lambda: all(self.state(case).values()), "the members", 30)
            argv = ["remove-members", *case.groups, "--all", "--yes"]
            return argv, dict.fromkeys(((group, "members") for group in case.groups), None)
        self.commit(case.groups, BEFORE, "m" if case.seed % 3 == 0 else "")
        return _PREPARE[case.command](self, case, journal)

    def commit(
        self, groups: list[str], offsets: dict[tuple[str, int], int], metadata: str = ""
    ) -> None:
        """Commit as somebody else; without metadata for all groups at the same time."""
        if metadata:
            for group in groups:
                clients.commit(self.direct, group, offsets, metadata)
            return
        parts = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        asked = [ConsumerGroupTopicPartitions(group, parts) for group in groups]
        futures = [self.admin.alter_consumer_group_offsets([each]) for each in asked]
        for future in (each for found in futures for each in found.values()):
            assert all(part.error is None for part in future.result(30).topic_partitions)

    def change(
        self, case: Case, command: str, target: int = TARGET
    ) -> tuple[list[str], Callable[[State], State]]:
        """A change that needs nothing but its groups, and what it makes of them."""
        named = [word for group in case.groups for word in ("--group", group)]
        place = f"{TOPIC}:0"
        if command == "delete":
            return ["delete", *named, "--yes"], lambda state: {}
        if command == "delete-offsets":
            argv = ["delete-offsets", *named, "--topic", place, "--yes"]
            return argv, lambda state: {k: v for k, v in state.items() if k[1:] != FIRST}
        argv = ["reset-offsets", *named, "--topic", place, "--to-offset", str(target), "--execute"]

        def reset(state: State) -> State:
            return {k: (target, v[1]) if v and k[1:] == FIRST else v for k, v in state.items()}

        return [*argv, "--yes"], reset

    # -- one run ----------------------------------------------------------------------------

    def __call__(self, case: Case) -> Callable[[dict[str, str]], Verdict]:
        """Run a case; return what makes its verdict out of the configs that all groups have."""
        folder = self._folder / case.name
        journal = folder / "journal"
        folder.mkdir(parents=True)
        argv, wanted = self._prepare(case, journal)
        known = set(journal.glob("*.jsonl"))
        before = self.state(case)
        if case.command not in ("configs", "remove-members", "undo", "restore"):
            wanted = _WANTED[case.command](before)
        happening = Happening(self, case, journal)
        plan = Plan(*faults(case, happening.hook))
        self._proxies.plans[case.name] = plan
        try:
            run = self._run(case, argv, journal, happening)
        finally:
            self._proxies.plans.pop(case.name)
        happening.settle(plan.struck)
        if case.what == "stall":
            self._proxies.wait_for_late()  # the request is not lost
        now = self.state(case)
        struck = plan.struck if case.what != "disk full" else int(_is_full(run, journal, case))
        events = [Event(*each) for each in self._proxies.trace.pop(case.name, [])]
        new = set(journal.glob("*.jsonl")) - known - happening.journals
        made = sorted(new, key=lambda path: path.stat().st_mtime_ns)
        seen = Seen(
            case, run, struck, before, wanted, now, made, events, happening.foreign, happening.at
        )
        if case.command == "configs":
            return lambda configs: self._judge(_with_configs(seen, configs), happening)
        verdict = self._judge(seen, happening)
        if not verdict.problems:
            original = before if case.command != "undo" else wanted
            verdict = verdict._replace(problems=self._take_back(seen, journal, original))
        return lambda _: verdict

    def _judge(self, seen: Seen, happening: Happening) -> Verdict:
        if seen.case.what in KILLS and not seen.struck:
            return Verdict(seen.case, seen.run, 0, [])
        problems = [*problems_of(seen), *happening.problems]
        return Verdict(seen.case, seen.run, seen.struck, problems)

    def _run(self, case: Case, argv: list[str], journal: Path, happening: Happening) -> Run:
        connection = [
            "--bootstrap-server",
            self._proxies.bootstrap,
            "--timeout",
            str(case.timeout_ms),
            "--command-config",
            client_config(self._folder, case.name),
            "-o",
            "json",
        ]
        with self._lent() as warm:
            return warm.run(
                *argv, *connection, journal=journal, limit=case.limit, started=happening.started
            )

    def _take_back(self, seen: Seen, journal: Path, original: State) -> list[str]:
        """``undo last`` brings back what was there; of what somebody else has, nothing is lost."""
        case = seen.case
        if case.command in ("keep", "configs", "remove-members"):
            return []
        done = self.kgtool(journal, "undo", "last", "--yes")
        now = self.state(case)
        if seen.foreign:
            lost = [k for k in seen.foreign if seen.now.get(k) == seen.foreign[k] != now.get(k)]
            return [f"undo has taken somebody else's commit: {lost}\n{done}"] if lost else []
        if now != original:
            return [f"after undo: {now}, not {original}\n{done}"]
        if case.seed % 4:
            return []
        again = self.kgtool(journal, "undo", "last", "--yes")
        if self.state(case) != original or "nothing to undo" not in again.err:
            return [f"undo, twice: {self.state(case)}\n{again}"]
        return []


def _with_configs(seen: Seen, configs: dict[str, str]) -> Seen:
    now: State = {
        (group, CONFIG): (configs[group],) if group in configs else None
        for group in seen.case.groups
    }
    return seen._replace(now=now)


def _is_full(run: Run, journal: Path, case: Case) -> bool:
    """Whether a file has met the limit: it is as long, or the run says so."""
    sizes = [path.stat().st_size for path in journal.glob("*") if path.is_file()]
    return case.limit in sizes or "File too large" in run.err


# ---------------------------------------------------------------------------------------------
# Commands that need something beforehand

_WANTED: dict[str, Callable[[State], State]] = {
    "delete": lambda state: {},
    "delete-offsets": lambda state: {k: v for k, v in state.items() if k[1:] != FIRST},
    "reset-offsets": lambda state: {
        k: (TARGET, v[1]) if v and k[1:] == FIRST else v for k, v in state.items()
    },
    "cleanup": lambda state: {},
    "keep": dict,
}


def _plain(soak: Soak, case: Case, _journal: Path) -> tuple[list[str], State]:
    return soak.change(case, case.command)[0], {}


def _keep(_soak: Soak, case: Case, _journal: Path) -> tuple[list[str], State]:
    return ["keep", *case.groups, "--yes"], {}


def _undo(soak: Soak, case: Case, journal: Path) -> tuple[list[str], State]:
    wanted = soak.state(case)
    done = soak.kgtool(journal, *soak.change(case, case.origin)[0])
    assert done.status == 0, done
    return ["undo", "last", "--yes"], wanted


def _restore(soak: Soak, case: Case, journal: Path) -> tuple[list[str], State]:
    wanted = soak.state(case)
    backup = str(journal.parent / "backup.jsonl")
    named = [word for group in case.groups for word in ("--group", group)]
    done = soak.kgtool(journal, "backup", *named, "--out", backup)
    assert done.status == 0, done
    if case.origin == "gone":
        for future in soak.admin.delete_consumer_groups(case.groups).values():
            future.result(timeout=30)
    else:
        soak.commit(case.groups, {(TOPIC, 0): MOVED})
    return ["restore", backup, "--yes"], wanted


def _cleanup(soak: Soak, case: Case, journal: Path) -> tuple[list[str], State]:
    plan = str(journal.parent / "plan.json")
    named = [word for group in case.groups for word in ("--group", group)]
    done = soak.kgtool(journal, "cleanup", "plan", *named, "--out", plan)
    assert done.status == 0, done
    return ["cleanup", "apply", plan, "--yes"], {}


_PREPARE: dict[str, Callable[[Soak, Case, Path], tuple[list[str], State]]] = {
    "delete": _plain,
    "delete-offsets": _plain,
    "reset-offsets": _plain,
    "keep": _keep,
    "undo": _undo,
    "restore": _restore,
    "cleanup": _cleanup,
}


def run_all(
    kafka: FaultyKafka,
    proxies: Proxies,
    folder: Path,
    cases: Iterable[Case],
    threads: int = THREADS,
    until: float | None = None,
) -> Iterator[Verdict]:
    """Run cases side by side, most of their time is waiting; none begins after ``until``."""
    soak = Soak(kafka, proxies, folder, threads)

    def work(case: Case) -> Callable[[dict[str, str]], Verdict] | None:
        return None if until is not None and time.monotonic() > until else soak(case)

    try:
        with ThreadPoolExecutor(threads) as pool:
            later = []
            for made in pool.map(work, cases):
                if made is not None and made({}).case.command == "configs":
                    later.append(made)
                elif made is not None:
                    yield made({})
        configs = soak.configs() if later else {}
        yield from (made(configs) for made in later)
    finally:
        soak.close()
