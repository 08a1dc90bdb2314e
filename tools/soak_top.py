"""``make soak``: ``kgtool top`` for hours, while brokers die and somebody presses any key.

``python tools/soak_top.py [--minutes 120]`` prints its seed, and ``KGTOOL_SEED`` repeats the keys.
Three seeded brokers, one of which is killed, or stopped for some seconds, now and then. Held all
the time: no traceback; a row's lag is one that was true within the row's age, by a client that
knows what it committed; nothing changed that was not agreed to with ``y``, by the journals and by
the offsets that confluent-kafka reads; memory does not grow without bound. Ends with the figures,
and with 1 if anything was not so.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from textual.pilot import OutOfBounds, Pilot  # noqa: E402

from kgtool.config import Settings, parse_bootstrap  # noqa: E402
from kgtool.sandbox.cluster import Sandbox  # noqa: E402
from kgtool.sandbox.seeding.seed import seed  # noqa: E402
from kgtool.top.app import TopApp  # noqa: E402
from kgtool.top.change_screen import AskScreen, ChangeScreen  # noqa: E402
from tests.support import clients  # noqa: E402

Pilot._wait_for_screen.__defaults__ = (300.0,)  # others may use the machine; then it is stuck
SMALL = {
    "offsets.topic.num.partitions": "6",
    "offsets.retention.check.interval.ms": "3600000",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "broker.session.timeout.ms": "6000",
    "default.replication.factor": "3",
    "log.retention.ms": "-1",
}
TOPIC, RECORDS = "soaked", 1000
MOVING = tuple(f"moving-{number}" for number in range(4))
"""Groups whose commits are known: their rows must have been true within their age."""
RESTLESS = re.compile(
    r"moving-|billing$|fulfilment|shipping|analytics|connect-cluster|share-workers|enrichment"
    r"|transfers"
)
"""Groups that others change: members, transactions that end."""
SLACK_S = 4.0
"""Between a look and its line, and between two commits."""
UNKNOWN_S = 120.0
"""How long a commit without an answer may be on its way."""
CHECK_S = 90.0
ANSWERS = ("earliest", "latest", "5", "+3", "-3", "now-1h", "nowhere", "", "clicks", "orders:0,1")
ANSWERS += ("payments:9", "clicks orders", "a:b:c", "--help", "2026-13-01")
FILTERS = ("console", "mov", "state:empty", "/conso.*1/", "topic:orders", "*ing*", "finding:", "[")
LOOKING = ("down", "up", "pagedown", "pageup", "home", "end", "s", "t", "question_mark", "enter")
LOOKING += ("escape", "space", "left", "right", "tab", "f5", "x", "1")
SIZES = ((80, 24), (140, 40), (140, 40), (40, 10), (20, 5))
WAYS = {"look": 40, "filter": 10, "mark": 15, "change": 20, "click": 7, "resize": 3, "mash": 4}
"""What is done how often."""
CHANGING = ("d", "o", "r", "k", "p", "u")
READ = """
import json, sys
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
listed = admin.list_consumer_groups(request_timeout=20).result()
assert not listed.errors, listed.errors
found = {}
for name in sorted(group.group_id for group in listed.valid):
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)])
    try:
        parts = asked[name].result(timeout=20).topic_partitions or []
    except Exception as error:
        if "GROUP_ID_NOT_FOUND" in str(error) or "share" in name or "enrich" in name:
            continue
        raise
    found[name] = {f"{p.topic}:{p.partition}": p.offset for p in parts if p.offset >= 0}
print(json.dumps(found))
"""


class Agreed(NamedTuple):
    """A change that was agreed to."""

    command: str
    groups: tuple[str, ...]


class Soak:
    """The brokers, what was asked, and what was found wrong."""

    def __init__(self, kafka: Sandbox, journals: Path, draw: random.Random) -> None:
        self.kafka, self.journals, self.draw = kafka, journals, draw
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self.agreed: list[Agreed] = []
        self.known: dict[str, dict[str, int]] = {}
        self.rss: list[int] = []
        self.over = threading.Event()
        self.whole = threading.Lock()
        """Held while a broker is down, and while offsets are read."""
        self.commits = {group: deque[tuple[float, float, int]](maxlen=600) for group in MOVING}
        self._asked = 0

    def wrong(self, what: str, *lines: str) -> None:
        """Note something that must not be."""
        self.counts["problems"] += 1
        if len(self.problems) < 50:
            self.problems.append(what)
            print(f"WRONG {time.strftime('%H:%M:%S')} {what}", *lines, sep="\n  ", flush=True)

    # -- what happens -----------------------------------------------------------------------

    def chaos(self) -> None:
        """Kill brokers and start them again; one at a time."""
        draw = random.Random(self.draw.random())
        while not self.over.wait(draw.uniform(15, 60)):
            with self.whole:
                node = draw.choice(self.kafka.nodes).id
                pid = self.kafka.pid(node)
                if pid is not None and draw.random() < 0.3:
                    os.kill(pid, 19)
                    self.over.wait(draw.uniform(2, 20))
                    os.kill(pid, 18)
                    self.counts["stopped"] += 1
                    continue
                self.kafka.kill(node)
                self.counts["killed"] += 1
                self.over.wait(draw.uniform(5, 40))
                self.kafka.restart(node)

    def commit(self) -> None:
        """Commit known offsets, each with the time in which it may have taken effect."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        draw = random.Random(self.draw.random())
        servers = {
            "bootstrap.servers": self.kafka.bootstrap,
            "socket.timeout.ms": 5000,
            "log_level": 0,
        }
        homes = {group: Consumer({**servers, "group.id": group}) for group in MOVING}
        while not self.over.wait(0.5):
            group, offset = draw.choice(MOVING), draw.randrange(RECORDS)
            began, known = time.monotonic(), self.commits[group]
            known.append((began, began + UNKNOWN_S, offset))
            with contextlib.suppress(KafkaException):  # else it may be carried out yet
                homes[group].commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
                known[-1] = (began, time.monotonic(), offset)

    # -- what must be -----------------------------------------------------------------------

    def could_be(self, group: str, lag: int, since: float, until: float) -> bool:
        """Whether a moving group may have had a lag at some moment of a time."""
        offset, known = RECORDS - lag, list(self.commits[group])
        for at, (began, ended, value) in enumerate(known):
            later = next((end for _, end, _ in known[at + 1 :]), until)
            if ended == began + UNKNOWN_S:  # it may even come after the next one
                later = max(later, ended)
            if value == offset and began <= until and later >= since:
                return True
        return not known or known[0][1] > since

    def look_at_rows(self, app: TopApp) -> None:
        """Hold the lines of the table against what is known."""
        if len(app.screen_stack) > 1 or not app.table.size.height:
            return
        now = time.monotonic()
        width = app.size.width
        lines = [strip.text for strip in app.screen._compositor.render_strips()]
        if "s ago" not in lines[0] and "connecting" not in lines[0] and width >= 100:
            self.wrong("no age in the first line", lines[0])
        for line in lines[2:]:
            cells, at = {}, 1
            for column, size in app.table._columns.items():
                cells[column.key] = line[at + 1 : at + 1 + size].strip()
                at += 1 + size
            if not re.fullmatch(r"\d+[smhd]", cells.get("seen", "")):
                if re.fullmatch(r"[\d,]+", cells.get("lag", "")) and cells["seen"] == "-":
                    self.wrong("a row without an age", line)
                continue
            self.counts["rows"] += 1
            unit = {"s": 1, "m": 60, "h": 3600, "d": 86400}[cells["seen"][-1]]
            age = (int(cells["seen"][:-1]) + 1) * unit
            group, lag = cells["group"], cells["lag"].replace(",", "")
            touched = any(group in one.groups for one in self.agreed[-40:])
            if group in MOVING and lag.isdigit() and not touched:
                self.counts["true rows"] += 1
                if not self.could_be(group, int(lag), now - age - SLACK_S, now):
                    recent = [
                        f"{RECORDS - offset} from {now - began:.1f} to {now - ended:.1f} s ago"
                        for began, ended, offset in [*self.commits[group]][-8:]
                    ]
                    self.wrong(f"{group} had no lag of {lag} in the last {age} s", line, *recent)

    def read(self) -> dict[str, dict[str, int]] | None:
        """Read all offsets with another client, in a process of its own: librdkafka may crash."""
        for _ in range(5):
            command = [sys.executable, "-c", READ, self.kafka.bootstrap]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300)
            if done.returncode == 0:
                found: dict[str, dict[str, int]] = json.loads(done.stdout)
                return found
            time.sleep(5)
        self.counts["unread"] += 1
        return None

    def check_changes(self) -> None:
        """Hold the journals, and the offsets, against what was agreed to."""
        journals = list(self.journals.glob("*.jsonl"))
        if len(journals) > len(self.agreed):
            self.wrong(f"{len(journals)} journals of {len(self.agreed)} agreed changes")
        for path in journals:
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            command = rows[0]["command"]
            groups = {row["group"] for row in rows if row.get("kind") == "group"}
            if not any(one.command == command and groups <= {*one.groups} for one in self.agreed):
                self.wrong(f"the journal {path.name}: nobody agreed to {command} {groups}")
        now = self.read()
        if now is None:
            return
        self.counts["checks"] += 1
        new, self._asked = self.agreed[self._asked :], len(self.agreed)
        asked: dict[str, set[str]] = {}
        for one in new:
            for group in one.groups:
                asked.setdefault(group, set()).add(one.command)
        for group in (self.known.keys() | now.keys()) if self.known else ():
            was, has = self.known.get(group, {}), now.get(group, {})
            if not RESTLESS.match(group):
                self.counts["compared"] += 1
                self.counts["changed"] += was != has
                if why := _odd(was, has, asked.get(group, set())):
                    self.wrong(f"{group} {why}: {was} {has}")
        self.known = now

    # -- who presses keys -------------------------------------------------------------------

    async def press(self, app: TopApp, pilot: Pilot[None], *keys: str) -> None:
        """Press keys; a ``y`` on a preview is what was agreed to."""
        for key in keys:
            screen = app.screen
            if key == "y" and isinstance(screen, ChangeScreen) and screen._preview is not None:
                act = screen._preview.act
                self.agreed.append(Agreed(act.words[0], tuple(act.groups)))
                self.counts[f"y {act.words[0]}"] += screen._is_open
            self.counts["keys"] += 1
            await pilot.press(key)

    async def settle(self, app: TopApp, pilot: Pilot[None]) -> None:
        """Go back to the table."""
        until = time.monotonic() + 300
        while len(app.screen_stack) > 1 and time.monotonic() < until:
            await self.press(app, pilot, "escape")
            await pilot.pause(0.2)
        if len(app.screen_stack) > 1:
            self.wrong("Escape does not go back", app.screen.__class__.__name__)

    async def act(self, app: TopApp, pilot: Pilot[None]) -> None:
        """Do something that somebody might do."""
        draw, screen = self.draw, app.screen
        if isinstance(screen, AskScreen):
            keys = [*draw.choice(ANSWERS), draw.choice(("enter", "enter", "enter", "escape"))]
            await self.press(app, pilot, *("space" if key == " " else key for key in keys))
        elif isinstance(screen, ChangeScreen):
            await self.answer(screen, app, pilot)
        elif len(app.screen_stack) > 1:
            await self.press(app, pilot, draw.choice(("escape", "q", "down", "pagedown", "enter")))
        else:
            (way,) = draw.choices((*WAYS,), (*WAYS.values(),))
            await getattr(self, way)(app, pilot)

    async def answer(self, screen: ChangeScreen, app: TopApp, pilot: Pilot[None]) -> None:
        """Answer a preview, mostly once the question is there."""
        until = time.monotonic() + self.draw.choice((0, 0.2, 5, 20, 20))
        while time.monotonic() < until and not screen._is_open and app.screen is screen:
            await pilot.pause(0.1)
        keys = ("y", "y", "y", "escape", "n", "enter", "d", "q")
        await self.press(app, pilot, self.draw.choice(keys))
        if self.draw.random() < 0.5:
            await pilot.pause(2)
            await self.press(app, pilot, "escape", self.draw.choice(("u", "down")))

    async def look(self, app: TopApp, pilot: Pilot[None]) -> None:
        """Press a key that only looks."""
        await self.press(app, pilot, self.draw.choice(LOOKING))

    async def filter(self, app: TopApp, pilot: Pilot[None]) -> None:
        """Type a filter, and keep it or not."""
        keys = [*self.draw.choice(FILTERS), self.draw.choice(("enter", "enter", "escape"))]
        await self.press(app, pilot, "slash", *keys)

    async def mark(self, app: TopApp, pilot: Pilot[None]) -> None:
        """Mark some groups."""
        await self.press(app, pilot, *["down", "space"] * self.draw.randint(1, 3))

    async def change(self, app: TopApp, pilot: Pilot[None]) -> None:
        """Ask for a change."""
        await self.press(app, pilot, self.draw.choice(CHANGING))

    async def click(self, app: TopApp, pilot: Pilot[None]) -> None:
        """Click somewhere."""
        place = (self.draw.randrange(app.size.width), self.draw.randrange(app.size.height))
        with contextlib.suppress(OutOfBounds):
            await pilot.click(offset=place, times=self.draw.choice((1, 2)))

    async def resize(self, _app: TopApp, pilot: Pilot[None]) -> None:
        """Make the window larger or smaller."""
        await pilot.resize_terminal(*self.draw.choice(SIZES))

    async def mash(self, app: TopApp, pilot: Pilot[None]) -> None:
        """Press any keys, quickly."""
        keys = self.draw.choices((*LOOKING, *CHANGING, "slash", "n"), k=6)
        await self.press(app, pilot, *keys)

    async def sit(self, until: float) -> None:
        """Use one screen until a time."""
        app = TopApp(Settings(parse_bootstrap(self.kafka.bootstrap), 10_000), 2.0)
        checked = time.monotonic()
        async with app.run_test(size=self.draw.choice(((80, 24), (140, 40)))) as pilot:
            while time.monotonic() < until and app.is_running:
                await self.act(app, pilot)
                await pilot.pause(self.draw.choice((0, 0.05, 0.3, 1)))
                self.look_at_rows(app)
                if any("This is a bug" in line for line in _texts(app)):
                    self.wrong("a bug on the screen", *_texts(app))
                    await self.settle(app, pilot)
                if time.monotonic() - checked > CHECK_S and self.whole.acquire(blocking=False):
                    try:
                        await self.settle(app, pilot)
                        await asyncio.to_thread(self.check_changes)
                    finally:
                        self.whole.release()
                    checked = time.monotonic()
                    self.rss.append(_rss())
                    print(
                        time.strftime("%H:%M:%S"),
                        self.rss[-1],
                        "MiB",
                        dict(self.counts),
                        flush=True,
                    )
            await self.settle(app, pilot)
            await self.press(app, pilot, "q")


def _odd(was: dict[str, int], has: dict[str, int], commands: set[str]) -> str | None:
    """Say what must not have become of a group's offsets by the commands that were agreed to."""
    if was == has:
        return None
    if not commands - {"keep"}:
        return "has changed, and nobody asked"
    if commands == {"delete"} and has:
        return "is half deleted"
    if commands == {"delete-offsets"} and not has.items() <= was.items():
        return "has other offsets after delete-offsets"
    if commands <= {"reset-offsets", "keep"} and has.keys() != was.keys():
        return "has other partitions after a reset"
    return None


def _texts(app: TopApp) -> list[str]:
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def _rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 2**20


def main() -> int:
    """Run for the time given; 0 if all was as promised."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=120)
    minutes = parser.parse_args().minutes
    first = int(os.environ.get("KGTOOL_SEED") or random.SystemRandom().randrange(10**9))
    print(f"KGTOOL_SEED={first}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kgtool-soak-top-") as name:
        folder = Path(name)
        os.chdir(folder)  # cleanup plans are written here
        os.environ["KGTOOL_JOURNAL_DIR"] = str(folder / "journal")
        with Sandbox.start("soak-top", brokers=3, root=folder / "state", config=SMALL) as kafka:
            seed(kafka)
            clients.create_topic(kafka.bootstrap, TOPIC, replication=3)
            clients.produce(kafka.bootstrap, TOPIC, RECORDS)
            return run(Soak(kafka, folder / "journal", random.Random(first)), minutes)


def run(soak: Soak, minutes: float) -> int:
    """Run it, in screens of up to ten minutes, and print the figures."""
    threading.excepthook = lambda given: soak.wrong(f"a thread ended: {given.exc_value!r}")
    threads = [threading.Thread(target=what) for what in (soak.commit, soak.chaos)]
    time.sleep(5)
    soak.check_changes()
    for thread in threads:
        thread.start()
    end = time.monotonic() + 60 * minutes
    try:
        while time.monotonic() < end:
            try:
                asyncio.run(soak.sit(min(end, time.monotonic() + 600)))
                soak.counts["screens"] += 1
            except Exception as error:  # noqa: BLE001 - what the soak is for
                soak.wrong(f"a traceback: {error!r}", *traceback.format_exception(error))
    finally:
        soak.over.set()
        for thread in threads:
            thread.join(120)
    soak.check_changes()
    third = len(soak.rss) // 3
    early, late = max(soak.rss[:third] or [0]), max(soak.rss[-third:] or [0])
    if third >= 3 and late > 1.3 * early + 20:
        soak.wrong(f"memory grew from {early} to {late} MiB")
    print(f"\n{minutes:g} minutes, memory {early} MiB early and {late} MiB late")
    print("\n".join(f"{count:8} {what}" for what, count in sorted(soak.counts.items())))
    return 1 if soak.counts["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
