"""Whole texts, as a person or a script gets them: tests/data/cli/golden holds each to the letter.

After a change that is wanted: ``KGTOOL_GOLDEN=write pytest tests/cli/test_golden.py``, and read
what git diff shows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kgtool.model import (
    Broker,
    GroupDescription,
    GroupListing,
    GroupOffsets,
    Listing,
    Member,
    OffsetRow,
)
from tests.cli.run import Result
from tests.cli.test_commands import _emitting

GOLDEN = Path(__file__).parents[1] / "data" / "cli" / "golden"

MEMBERS = (
    Member(
        "app-1-5f2c",
        "pod-1",
        "app-1",
        "/10.0.0.1",
        (("orders", (0, 1)),),
        ("orders",),
        epoch=4,
        target=(("orders", (0, 1)),),
        is_classic=False,
    ),
    Member(
        "app-2-77aa",
        None,
        "app-2",
        "/10.0.0.2",
        (("orders", (2,)),),
        ("orders",),
        epoch=4,
        target=(("orders", (2,)),),
        is_classic=False,
    ),
)
LIVE = GroupDescription(
    "billing", "consumer", "Stable", "consumer", "uniform", Broker(1, "b1", 9092), MEMBERS, 5, 4
)
EMPTY = GroupDescription("reporting", "classic", "Empty", "consumer", "", Broker(2, "b2", 9092), ())


def _row(group: str, partition: int, offset: int | None, end: int | None, **more: Any) -> OffsetRow:
    known = offset is not None and end is not None
    return OffsetRow(
        group,
        more.pop("topic", "orders"),
        partition,
        offset,
        0,
        end,
        end - offset if known else None,
        3,
        "",
        more.pop("member_id", None),
        more.pop("host", None),
        more.pop("client_id", None),
        True,
        more.pop("status", "ok"),
        **more,
    )


OFFSETS = [
    GroupOffsets(
        LIVE,
        [
            _row(
                "billing",
                0,
                100,
                120,
                member_id="app-1-5f2c",
                host="/10.0.0.1",
                client_id="app-1",
                lag_ms=61_500,
                last_stable_offset=115,
            ),
            _row(
                "billing",
                1,
                None,
                7,
                member_id="app-1-5f2c",
                host="/10.0.0.1",
                client_id="app-1",
                status="no-commit",
            ),
            _row("billing", 2, 40, 40, member_id="app-2-77aa", host="/10.0.0.2", client_id="app-2"),
            _row("billing", 0, 90, 50, topic="naïve\x1b[31m 日本", status="beyond-end"),
        ],
        [],
    ),
    GroupOffsets(EMPTY, [_row("reporting", 10, 5, 1005, lag_ms=200_000_000)], []),
]

BOTH = ["--group", "billing", "--group", "reporting"]
RUNS = {
    "describe": ["describe", *BOTH],
    "describe-kafka": ["--describe", *BOTH],
    "describe-verbose": ["describe", *BOTH, "--verbose"],
    "describe-more": ["describe", *BOTH, "--time-lag", "--committed", "--lagging"],
    "describe-sorted": ["describe", *BOTH, "--sort", "lag"],
    "describe-columns": ["describe", *BOTH, "--columns", "topic,partition,lag,subscribed,metadata"],
    "describe-totals": ["describe", *BOTH, "--totals", "--time-lag"],
    "describe-csv": ["describe", *BOTH, "-o", "csv"],
    "members": ["describe", *BOTH, "--members"],
    "members-verbose": ["describe", *BOTH, "--members", "--verbose"],
    "state": ["describe", *BOTH, "--state"],
    "state-verbose": ["describe", *BOTH, "--state", "--verbose"],
    "list": ["list"],
    "list-kafka": ["--list", "--state", "--type"],
}


@pytest.mark.parametrize("name", RUNS)
def test_text(name: str, kgtool: Callable[..., Result], canned: Callable[..., None]) -> None:
    canned(
        offsets__describe_offsets=_emitting(OFFSETS),
        groups__describe_groups=[LIVE, EMPTY],
        listing__list_groups=Listing(
            [
                GroupListing("billing", "consumer", "Stable", "consumer", 1),
                GroupListing("connect-sink", "classic", "Stable", "connect", 2),
                GroupListing("reporting", "classic", "Empty", "consumer", 2),
            ],
            [],
        ),
    )
    result = kgtool(*RUNS[name])
    assert result.status == 0
    _compare(name, f"{result.out}--- stderr\n{result.err}")


def _compare(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("KGTOOL_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "wanted? KGTOOL_GOLDEN=write, git diff"
