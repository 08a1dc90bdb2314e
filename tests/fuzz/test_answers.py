"""Answers that are well-formed and make no sense: a result or a KgError, whatever is asked."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from kgtool.client.cluster import Cluster
from kgtool.client.ops import DeadlineExceeded
from kgtool.errors import ConnectionLost, KgError
from kgtool.model import Broker, TopicPartition
from kgtool.queries.cluster.coordinators import locate_groups
from kgtool.queries.cluster.pending import first_commits
from kgtool.queries.cluster.permissions import permissions
from kgtool.queries.cluster.transactions import open_transactions
from kgtool.queries.doctor.examine import DoctorOptions, diagnose
from kgtool.queries.groups.describe import describe_with_type
from kgtool.queries.groups.list import list_groups
from kgtool.queries.groups.share_and_streams import (
    describe_other_groups,
    describe_other_offsets,
    streams_topics,
)
from kgtool.queries.log.export import describe_cluster
from kgtool.queries.log.reader import LogReader, newest_record_ms
from kgtool.queries.log.removals import group_past
from kgtool.queries.offsets.describe import describe_offsets
from kgtool.queries.offsets.fetch import fetch_selected
from kgtool.queries.offsets.leader_epochs import leader_epochs
from kgtool.queries.offsets.list_offsets import log_ranges
from kgtool.retention.rules import RULES_4_1
from tests.fuzz.damage import MORE
from tests.protocol.messages import Maker, Message
from tests.support.script import Script

GROUPS = ["g", "h"]
TOPICS = ["t", "__consumer_offsets"]
PLACES = [TopicPartition("t", 0), TopicPartition("t", 1)]
WORLDS = 40 * MORE
MOST_CALLS = 150


class Plausible(Maker):
    """Speaks mostly of what it is asked for, so that nonsense gets far."""

    def scalar(self, kind: str, name: str) -> Any:
        if self.rng.random() < 0.2:
            return super().scalar(kind, name)
        if name == "error_code":
            return self.rng.choice((0, 0, 0, 0, 0, 0, -1, 3, 14, 16, 29, 30, 69, 88))
        if kind == "string":
            known = ("Empty", "Stable", "consumer", "streams", "share", "1", "compact")
            return self.rng.choice((*GROUPS, *TOPICS, *TOPICS, *known))
        if kind in ("int32", "int64"):
            return self.rng.choice((0, 1, 1, 2, 3))
        return super().scalar(kind, name)


def _ask(text: str) -> DoctorOptions:
    return DoctorOptions(10**12, 3_600_000, text == "all", lambda _: None)


def _others(cluster: Cluster) -> Any:
    found = yield from describe_other_groups(cluster, GROUPS)
    known = [one for one in found.values() if one is not None and not isinstance(one, KgError)]
    return (yield from describe_other_offsets(cluster, known))


def _epochs(cluster: Cluster) -> Any:
    logs = yield from log_ranges(cluster, PLACES, 10**12)
    known = {at: log for at, log in logs.items() if not isinstance(log, KgError)}
    return (yield from leader_epochs(cluster, [(at, 2) for at in known], known))


QUERIES: dict[str, Callable[[Cluster], Any]] = {
    "list": lambda cluster: list_groups(cluster, ["empty"], ["classic"], complete=True),
    "describe": lambda cluster: describe_offsets(
        cluster, GROUPS, committed=True, clock=lambda: 10**12
    ),
    "types": lambda cluster: describe_with_type(cluster, GROUPS),
    "others": _others,
    "streams": lambda cluster: streams_topics(cluster, GROUPS),
    "selected": lambda cluster: fetch_selected(cluster, dict.fromkeys(GROUPS, PLACES)),
    "coordinators": lambda cluster: locate_groups(cluster, GROUPS),
    "permissions": lambda cluster: permissions(cluster, "g", TOPICS),
    "first commits": lambda cluster: first_commits(cluster, GROUPS, strict=True),
    "transactions": lambda cluster: open_transactions(cluster, {"g": 0}, {0: 1}, RULES_4_1),
    "epochs": _epochs,
    "log": lambda cluster: LogReader(GROUPS, 10**12).read(cluster, GROUPS),
    "newest": newest_record_ms,
    "past": lambda cluster: group_past(cluster, "g", RULES_4_1, 10**9, None),
    "export": lambda cluster: describe_cluster(cluster, 10**12),
    "doctor": lambda cluster: diagnose(cluster, GROUPS, {"g": "classic"}, _ask("all")),
    "doctor of groups": lambda cluster: diagnose(cluster, GROUPS, {}, _ask("some")),
}


def answers(rng: random.Random) -> Callable[[int, Any], Any]:
    """Answer every request with its reply's class, until there were too many of them."""
    maker, calls = Plausible(rng.random()), [0]

    def answer(_to: int, request: Any) -> Any:
        calls[0] += 1
        if calls[0] > MOST_CALLS:
            return DeadlineExceeded("The time is up.")
        if rng.random() < 0.05:
            return ConnectionLost("one:9092 closed the connection.")
        version = request.VERSIONS.high
        reply = Message(request.NAME, "Response", request.REPLY, version)
        return maker.message(reply)

    return answer


@pytest.mark.parametrize("query", QUERIES)
def test_answers_without_sense_end_in_a_result_or_a_kgerror(query: str) -> None:
    for seed in range(WORLDS):
        rng = random.Random(f"{query} {seed}")
        cluster = Cluster()
        if rng.random() < 0.7:
            cluster.brokers = {1: Broker(1, "one", 9092), 2: Broker(2, "two", 9092)}
        offered = {key: (0, rng.choice((0, 3, 5, 100, 100, 100))) for key in range(100)}
        try:
            Script(answers(rng), offered).run(QUERIES[query](cluster))
        except KgError:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
