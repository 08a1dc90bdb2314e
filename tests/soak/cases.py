"""What the runs of ``make soak`` do: drawn from a seed, so that one that went wrong runs again.

A run is a command, what it is done to, and one thing that happens to it at a counted request: what
the broker says is lost, late or another, somebody else commits at that moment, the process is
killed, the disk is full, a second kgtool does something to the same groups.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from kgtool.protocol.frame import skip_response_header
from kgtool.protocol.plan import decode, encode
from kgtool.protocol.schema import Struct
from tests.support.proxy import KINDS, Fault

TOPIC = "soak"
PARTITIONS = 4
RECORDS = 20
BEFORE = {(TOPIC, 0): 3, (TOPIC, 1): 4}
TARGET, OTHER_TARGET, FOREIGN, MOVED = 9, 11, 7, 5
CONFIG, VALUE = "consumer.session.timeout.ms", "50000"

COMMANDS = (
    "delete",
    "delete-offsets",
    "reset-offsets",
    "undo",
    "restore",
    "cleanup",
    "keep",
    "configs",
    "remove-members",
)
CHANGING = {
    "delete": 42,
    "delete-offsets": 47,
    "reset-offsets": 8,
    "undo": 8,
    "restore": 8,
    "cleanup": 42,
    "keep": 8,
    "configs": 44,
    "remove-members": 13,
}
"""The API that makes each command's change."""
READING = {"configs": (3, 32), "remove-members": (3, 10, 15), "keep": (3, 10, 15, 9, 2)}
USUAL = (3, 10, 15, 9, 2)
CODES = (7, 14, 15, 16)
CONNECTION = "connection"
"""The connection is damaged, at whatever request it then is."""
KILLS = ("kill-before", "kill-after")
OFFSETS = ("delete", "delete-offsets", "reset-offsets", "undo", "restore", "cleanup", "keep")
BOUNDED = ("delete", "delete-offsets", "reset-offsets")
"""What ``--timeout`` bounds as a whole."""


class Case(NamedTuple):
    """One run, reproducible from its seed.

    ``what`` happens, at the ``at``-th request of ``api`` to a broker; ``is_raced``: somebody else
    commits for the first group at that moment; ``limit``: the largest file that can be written;
    ``origin``: what an undo takes back, or how a restore finds the groups.
    """

    seed: int
    command: str
    what: str
    api: int = 0
    at: int = 0
    is_raced: bool = False
    code: int = 0
    limit: int | None = None
    origin: str = ""
    timeout_ms: int = 4000
    size: int = 1

    @property
    def name(self) -> str:
        return f"soak-{self.seed}"

    @property
    def groups(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(self.size)]

    def __str__(self) -> str:
        raced = ", raced" if self.is_raced else ""
        where = f" at request {self.at} of API {self.api}" if self.api else ""
        code = f" {self.code}" if self.what == "rewrite" else ""
        limit = "" if self.limit is None else f" after {self.limit} bytes"
        origin = f" ({self.origin})" if self.origin else ""
        return f"seed {self.seed}: {self.command}{origin}, {self.what}{code}{where}{limit}{raced}"


def draw(seed: int) -> Case:
    """Make up a run; seeds that follow each other go through all commands."""
    rng = random.Random(seed)
    command = COMMANDS[seed % len(COMMANDS)]
    origin = {"undo": ("delete", "delete-offsets", "reset-offsets"), "restore": ("moved", "gone")}
    case = Case(seed, command, "", origin=rng.choice(origin.get(command, ("",))))
    mode = rng.choices(("answer", "look", "kill", CONNECTION, "disk", "two"), (8, 3, 4, 2, 2, 1))[0]
    if mode == "disk":
        # A journal of a few items is some hundred bytes.
        return case._replace(what="disk full", limit=rng.randrange(0, 2400), size=2)
    if mode == CONNECTION:
        kind = rng.choice(KINDS)
        return case._replace(what=kind, at=rng.choice((0, 1, 1, 2, 3)), size=3)
    change = CHANGING[command]
    looks = READING.get(command, USUAL)
    if mode == "two" and command in OFFSETS and command != "cleanup":
        return case._replace(what="two", api=change, timeout_ms=6000)
    if mode == "kill":
        api = rng.choice((change, change, change, *looks))
        return case._replace(
            what=rng.choice(KILLS), api=api, at=_nth(rng, api, change), size=rng.choice((1, 3))
        )
    api = rng.choice(looks) if mode == "look" else change
    kinds = (
        "lost-answer",
        "lost-answer",
        "rewrite",
        "rewrite",
        "stall",
        "swallow",
        "cut",
        "reset",
        "garbage",
        "twice",
        "late",
        "watch",
    )
    what = rng.choice(kinds)
    if what == "rewrite" and api != change:
        what = "lost-answer"
    raced = command in OFFSETS and (what == "watch" or rng.random() < 0.6)
    return case._replace(
        what=what,
        api=api,
        at=_nth(rng, api, change),
        is_raced=raced,
        code=rng.choice(CODES),
        size=1 if raced else rng.choice((1, 3)),
    )


def _nth(rng: random.Random, api: int, change: int) -> int:
    """A change is one request a broker; a look may be repeated."""
    return 0 if api == change else rng.choice((0, 0, 1))


def faults(case: Case, hook: Callable[[], object] | None) -> list[Fault]:
    """The same fault at each broker: whichever is asked meets it."""
    kind = {"kill-before": "swallow", "kill-after": "watch", "two": "watch"}.get(
        case.what, case.what
    )
    if case.what == "disk full":
        return []
    if not case.api:
        return [Fault(kind, broker, at=case.at, seed=case.seed) for broker in (1, 2, 3)]
    rewrite = refusing(case.api, case.code) if kind == "rewrite" else None
    return [
        Fault(
            kind,
            broker,
            at=case.at,
            seed=case.seed,
            api=case.api,
            hook=hook,
            rewrite=rewrite,
            seconds=0.7,
        )
        for broker in (1, 2, 3)
    ]


# ---------------------------------------------------------------------------------------------


def refusing(api: int, code: int) -> Callable[[bytes], bytes]:
    """Return a rewrite that puts an error code at every item of an answer."""
    request = next(each for each in _requests() if api == each.KEY)
    reply = request.REPLY

    def rewrite(frame: bytes) -> bytes:
        version = request.VERSIONS.high
        start = 4 + skip_response_header(frame[4:], api, version in request.FLEXIBLE)
        body = encode(_refused(decode(reply, version, frame[start:]), code), version)
        return (len(body) + start - 4).to_bytes(4, "big") + frame[4:start] + body

    return rewrite


def _requests() -> list[Any]:
    from kgtool.protocol.api import (
        delete_groups,
        incremental_alter_configs,
        leave_group,
        offset_commit,
        offset_delete,
    )

    modules = (offset_commit, leave_group, delete_groups, incremental_alter_configs, offset_delete)
    return [module.Request for module in modules]


def _refused(part: Any, code: int) -> Any:
    """Put the code at the innermost structs that have one."""
    inner = {
        name: [_refused(each, code) for each in value]
        for name, value in part.items()
        if isinstance(value, list) and value and isinstance(value[0], Struct)
    }
    if inner:
        return part.replace(**inner)
    names = [name for name, _ in part.items()]
    return part.replace(error_code=code) if "error_code" in names else part


__all__ = ["COMMANDS", "Case", "draw", "faults"]
