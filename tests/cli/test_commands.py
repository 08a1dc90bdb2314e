"""The commands with canned answers: what is shown, where, and with which status."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kgtool.changes.cleanup.facts import GroupFacts, Survey
from kgtool.changes.kinds.delete_groups import DeleteGroups
from kgtool.changes.kinds.delete_offsets import DeleteOffsets
from kgtool.client.ops import Operation
from kgtool.model import (
    Broker,
    CommittedOffset,
    GroupDeletion,
    GroupDescription,
    GroupListing,
    GroupOffsetDeletions,
    GroupOffsets,
    ItemError,
    Listing,
    Member,
    OffsetDeletion,
    OffsetRow,
    Target,
    TopicPartition,
)
from kgtool.queries.offsets.lag import LogEnds
from tests.cli.run import Result

Kgtool = Callable[..., Result]
Canned = Callable[..., None]

BROKER = Broker(1, "b1", 9092)
MISSING = ItemError(Target(group="nosuch"), 69, "GROUP_ID_NOT_FOUND", "Group nosuch not found.")
DEAD_BROKER = ItemError(
    Target(broker=3), None, "TIMEOUT", "b3:9092 did not answer.", unreachable=True
)
LISTED = [
    GroupListing("app", "classic", "Stable", "consumer", 1),
    GroupListing("app-2", "consumer", "Empty", "consumer", 2),
    GroupListing("connect-x", "classic", "Stable", "connect", 1),
    GroupListing("old", None, None, "", 1),
    GroupListing("share-1", "share", "Empty", "share", 1),
]


def _group(name: str, state: str = "Empty", **fields: Any) -> GroupDescription:
    return GroupDescription(name, "classic", state, "consumer", "", BROKER, (), **fields)


def _row(group: str, partition: int, lag: int | None = 5, **fields: Any) -> OffsetRow:
    row = OffsetRow(group, "t", partition, 10, 0, 15, lag, 2, "m", None, None, None, False, "ok")
    return row._replace(**fields)


class TestList:
    def test_kafka_form_shows_what_kafka_shows(self, kgtool: Kgtool, canned: Canned) -> None:
        canned(listing__list_groups=Listing(LISTED, []))
        assert kgtool("--list") == (0, "app\napp-2\nold\n", "")

    def test_subcommand_shows_every_type(self, kgtool: Kgtool, canned: Canned) -> None:
        canned(listing__list_groups=Listing(LISTED, []))
        result = kgtool("list")
        assert result.status == 0
        lines = [line.split() for line in result.out.splitlines()]
        assert lines[0] == ["GROUP", "TYPE", "STATE", "MEMBERS", "PROTOCOL", "COORDINATOR"]
        assert lines[2] == ["app-2", "Consumer", "Empty", "2", "-", "2"]
        assert lines[4] == ["old", "Unknown", "Unknown", "2", "-", "1"]
        assert [line[0] for line in lines[1:]] == [group.group for group in LISTED]

    def test_json_rows(self, kgtool: Kgtool, canned: Canned) -> None:
        canned(listing__list_groups=Listing(LISTED, []))
        document = kgtool("list", "-o", "json").json
        assert document["cluster_id"] == "cluster-1"
        assert document["results"][3] == {
            "group": "old",
            "type": None,
            "state": None,
            "protocol_type": "",
            "coordinator": 1,
        }

    def test_filters_reach_the_brokers(self, kgtool: Kgtool, canned: Canned) -> None:
        asked: list[Any] = []

        def list_groups(states: Any, types: Any, **_options: Any) -> Listing:
            asked.append((states, types))
            return Listing([], [])

        canned(listing__list_groups=list_groups)
        kgtool("--list", "--state", "stable, EMPTY", "--type=CONSUMER")
        kgtool("list", "--type", "share", "--state")
        kgtool("--list", "--state=", "--type")
        assert asked == [(("Stable", "Empty"), ("consumer",)), ((), ("share",)), ((), ())]

    def test_a_dead_broker_is_named_and_the_rest_is_shown(
        self, kgtool: Kgtool, canned: Canned
    ) -> None:
        canned(listing__list_groups=Listing(LISTED, [DEAD_BROKER]))
        result = kgtool("--list")
        assert result == (3, "app\napp-2\nold\n", "Error: broker 3: b3:9092 did not answer.\n")
        document = kgtool("--list", "-o", "json").json
        assert document["errors"][0]["target"]["broker"] == 3
        canned(listing__list_groups=Listing([], [DEAD_BROKER]))
        assert kgtool("--list").status == 4

    @pytest.mark.parametrize(
        ("argv", "names"),
        [
            (["--match", "app*"], ["app", "app-2"]),
            (["--match", "app", "--match", "s*"], ["app", "share-1"]),
            (["--regex", "app-[0-9]"], ["app-2"]),
            (["--regex", "app"], ["app"]),
            (["--match", "APP*"], []),
        ],
    )
    def test_choosing_by_name(
        self, kgtool: Kgtool, canned: Canned, argv: list[str], names: list[str]
    ) -> None:
        canned(listing__list_groups=Listing(LISTED, []))
        rows = kgtool("list", *argv, "-o", "json").json["results"]
        assert [row["group"] for row in rows] == names


class TestDescribe:
    def test_a_missing_group_does_not_hide_the_others(self, kgtool: Kgtool, canned: Canned) -> None:
        found = [
            GroupOffsets(_group("g"), [_row("g", 0)], []),
            GroupOffsets(_group("nosuch", "Dead", error=MISSING), [], []),
        ]
        canned(offsets__describe_offsets=_emitting(found))
        result = kgtool("--describe", "--group", "nosuch", "--group", "g")
        assert result.status == 3
        assert result.out.startswith("\nGROUP           TOPIC")
        assert "\nConsumer group 'g' has no active members.\n" in result.err
        assert "\nError: Group nosuch not found.\n" in result.err
        lines = kgtool("describe", "--group", "nosuch", "--group", "g", "-o", "ndjson")
        assert [("error" in json.loads(line)) for line in lines.out.splitlines()] == [False, True]
        document = kgtool("describe", "--group", "nosuch", "--group", "g", "-o", "json").json
        assert document["results"][0]["lag"] == 5
        assert document["errors"][0]["name"] == "GROUP_ID_NOT_FOUND"

    def test_only_missing_is_1(self, kgtool: Kgtool, canned: Canned) -> None:
        canned(groups__describe_groups=[_group("nosuch", error=MISSING)])
        for view in ("--members", "--state"):
            result = kgtool("--describe", "--group", "nosuch", view)
            assert result == (1, "", "Error: Group nosuch not found.\n")

    def test_text_keeps_the_order_asked_and_ndjson_that_of_arrival(
        self, kgtool: Kgtool, canned: Canned
    ) -> None:
        found = [GroupOffsets(_group(name), [_row(name, 0)], []) for name in ("c", "a", "b")]
        canned(offsets__describe_offsets=_emitting(found))
        argv = ["describe", "--group", "b", "--group", "a", "--group", "c"]
        text = kgtool(*argv).out
        assert [line[0] for line in text.split("\n") if line[1:2] == " "] == ["a", "b", "c"]
        lines = kgtool(*argv, "-o", "ndjson").out.splitlines()
        assert [json.loads(line)["group"] for line in lines] == ["c", "a", "b"]

    def test_all_groups_are_those_kafka_lists(self, kgtool: Kgtool, canned: Canned) -> None:
        asked: list[Any] = []

        def describe_groups(groups: Any, kinds: Any) -> Any:
            asked.append((groups, kinds))
            return [_group("app"), _group("app-2", error=MISSING), _group("old")]

        canned(listing__list_groups=Listing(LISTED, []), groups__describe_groups=describe_groups)
        result = kgtool("--describe", "--all-groups", "--state")
        assert asked[0][0] == ["app", "app-2", "old"]
        assert asked[0][1]["app-2"] == "consumer"
        assert result.status == 0  # a group that vanished meanwhile is no failure
        assert "nosuch" not in result.err

    def test_nothing_to_describe(self, kgtool: Kgtool, canned: Canned) -> None:
        canned(listing__list_groups=Listing([], []))
        assert kgtool("--describe", "--all-groups") == (0, "", "")
        assert kgtool("describe", "--match", "x*") == (0, "", "No group matches.\n")

    def test_nothing_to_list(self, kgtool: Kgtool, canned: Canned) -> None:
        canned(listing__list_groups=Listing([], []))
        assert kgtool("--list") == (0, "", "")
        assert kgtool("list") == (0, "", "There are no groups.\n")
        assert kgtool("list", "--state", "Dead") == (0, "", "No group matches.\n")
        assert kgtool("list", "-q") == (0, "", "There are no groups.\n")

    def test_lagging_and_sort(self, kgtool: Kgtool, canned: Canned) -> None:
        rows = [_row("g", 0, 1), _row("g", 1, 0), _row("g", 2, None), _row("g", 3, 9)]
        canned(offsets__describe_offsets=_emitting([GroupOffsets(_group("g"), rows, [])]))
        argv = ["describe", "--group", "g", "-o", "json"]
        partitions = [r["partition"] for r in kgtool(*argv, "--sort", "lag").json["results"]]
        assert partitions == [3, 0, 1, 2]
        partitions = [r["partition"] for r in kgtool(*argv, "--lagging").json["results"]]
        assert partitions == [0, 3]

    def test_subcommand_adds_the_status(self, kgtool: Kgtool, canned: Canned) -> None:
        rows = [_row("g", 0, -3, status="beyond-end")]
        canned(offsets__describe_offsets=_emitting([GroupOffsets(_group("g"), rows, [])]))
        assert kgtool("describe", "--group", "g").out.rstrip().endswith("beyond-end")
        assert "beyond-end" not in kgtool("--describe", "--group", "g").out

    def test_rows_that_failed(self, kgtool: Kgtool, canned: Canned) -> None:
        error = ItemError(Target("g", "t", 1), 29, "TOPIC_AUTHORIZATION_FAILED", "Not allowed.")
        rows = [_row("g", 0), _row("g", 1, None, status="denied", error=error)]
        canned(offsets__describe_offsets=_emitting([GroupOffsets(_group("g"), rows, [error])]))
        result = kgtool("describe", "--group", "g")
        assert result.status == 3
        assert "Error: group g, t:1: Not allowed.\n" in result.err

    def test_json_of_members_and_state(self, kgtool: Kgtool, canned: Canned) -> None:
        member = Member(
            "m-1",
            "i-1",
            "c",
            "/10.0.0.1",
            (("t", (0, 1)),),
            ("t",),
            epoch=4,
            target=(("t", (0, 1)),),
            is_classic=False,
        )
        group = GroupDescription(
            "g", "consumer", "Stable", "consumer", "uniform", BROKER, (member,), 5, 4
        )
        canned(groups__describe_groups=[group])
        members = kgtool("describe", "--group", "g", "--members", "-o", "json").json["results"]
        assert members == [
            {
                "group": "g",
                "consumer_id": "m-1",
                "group_instance_id": "i-1",
                "host": "/10.0.0.1",
                "client_id": "c",
                "partitions": 2,
                "current_epoch": 4,
                "current_assignment": "t:0,1",
                "target_epoch": 4,
                "target_assignment": "t:0,1",
                "upgraded": None,
                "subscribed_topics": ["t"],
                "subscribed_regex": None,
                "assignor": "uniform",
                "rack": None,
            }
        ]
        states = kgtool("describe", "--group", "g", "--state", "-o", "json").json["results"]
        assert states == [
            {
                "group": "g",
                "coordinator": "b1:9092",
                "coordinator_id": 1,
                "assignment_strategy": "uniform",
                "state": "Stable",
                "group_epoch": 5,
                "target_assignment_epoch": 4,
                "members": 1,
            }
        ]


def _emitting(found: list[GroupOffsets]) -> Callable[..., list[GroupOffsets]]:
    def describe_offsets(
        _groups: Any, _topics: Any = None, emit: Any = None, **_options: Any
    ) -> list[GroupOffsets]:
        for group in found:
            if emit is not None:
                emit(group)
        return found

    return describe_offsets


@pytest.mark.parametrize(
    ("readable", "status", "left"), [("ab", 0, False), ("a", 3, False), ("", 1, True)]
)
def test_an_older_plan_stays_where_no_group_could_be_read(
    kgtool: Kgtool,
    canned: Canned,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    readable: str,
    status: int,
    left: bool,
) -> None:
    """Else there is nothing to do any more, so what it says may not be done."""

    def survey(_cluster: Any, groups: Sequence[str], *_: Any) -> Operation[Survey]:
        yield from ()
        unread = {g: None if g in readable else MISSING for g in groups}
        return Survey([GroupFacts(_group(g, "Stable"), {}, error=e) for g, e in unread.items()], {})

    canned(listing__list_groups=Listing([], []))
    monkeypatch.setattr("kgtool.changes.cleanup.plan.survey", survey)
    older = tmp_path / "plan.json"
    older.write_text("{}")
    named = ("--group", "a", "--group", "b", "--state", "Empty")
    result = kgtool("cleanup", "plan", *named, "--out", str(older), "--overwrite")
    assert (result.status, older.exists()) == (status, left)


NOT_EMPTY = ItemError(
    Target(group="live"), 68, "NON_EMPTY_GROUP", "The group is not empty.", "Stop it."
)


class TestDelete:
    def _canned(self, canned_kind: Any, outcomes: dict[str, ItemError | None]) -> list[Any]:
        def foresee(groups: list[str]) -> list[GroupDeletion]:
            rows = [GroupDeletion(g, "would-delete", None, 1) for g in groups]
            return [
                row._replace(status="failed", error=outcomes[row.group])
                if outcomes[row.group]
                else row
                for row in rows
            ]

        done = lambda row: row._replace(status="deleted")  # noqa: E731
        calls: list[Any] = canned_kind(DeleteGroups, foresee, done)
        return calls

    def test_kafka_form_asks_nothing(self, kgtool: Kgtool, canned_kind: Any) -> None:
        calls = self._canned(canned_kind, {"g1": None, "g2": None})
        result = kgtool("--delete", "--group", "g1", "--group", "g2", "--group", "g1")
        assert result == (
            0,
            "Deletion of requested consumer groups ('g1', 'g2') was successful.\n",
            "",
        )
        assert calls == [(["g1", "g2"], True), (["g1", "g2"], False)]

    def test_some_fail(self, kgtool: Kgtool, canned_kind: Any) -> None:
        self._canned(canned_kind, {"a": None, "live": NOT_EMPTY, "nosuch": MISSING})
        argv = ["--delete", "--group", "nosuch", "--group", "live", "--group", "a"]
        result = kgtool(*argv)
        assert result.status == 3
        assert result.out == "\nThese consumer groups were deleted successfully: 'a'\n"
        assert result.err == (
            "Error: Deletion of some consumer groups failed:\n"
            "* Group 'live' could not be deleted due to: "
            "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty. "
            "Stop it.\n"
            "* Group 'nosuch' could not be deleted due to: "
            "org.apache.kafka.common.errors.GroupIdNotFoundException: "
            "The group id does not exist.\n"
        )
        document = kgtool(*argv, "-o", "json").json
        assert [row["status"] for row in document["results"]] == ["deleted", "failed", "failed"]
        assert document["results"][1]["error"]["code"] == 68
        assert [error["code"] for error in document["errors"]] == [68, 69]

    def test_all_fail(self, kgtool: Kgtool, canned_kind: Any) -> None:
        self._canned(canned_kind, {"live": NOT_EMPTY})
        assert kgtool("--delete", "--group", "live").status == 1
        assert kgtool("delete", "--group", "live", "--yes").status == 1

    def test_nothing_to_delete(self, kgtool: Kgtool, canned: Canned, canned_kind: Any) -> None:
        self._canned(canned_kind, {})
        canned(listing__list_groups=Listing([], []))
        assert kgtool("--delete", "--all-groups") == (
            0,
            "Deletion of requested consumer groups () was successful.\n",
            "",
        )
        # Was: the same sentence.
        assert kgtool("--delete", "--all-groups", "--dry-run") == (
            0,
            "Dry run: no consumer group would be deleted.\n",
            "",
        )

    @pytest.mark.parametrize("argv", [["--delete"], ["delete"], ["delete", "--yes"]])
    def test_dry_run_deletes_nothing(
        self, kgtool: Kgtool, canned_kind: Any, argv: list[str]
    ) -> None:
        calls = self._canned(canned_kind, {"a": None})
        result = kgtool(*argv, "--dry-run", "--group", "a")
        assert result.status == 0
        assert "'a'" in result.out
        assert "uccess" not in result.out
        assert all(dry_run for _, dry_run in calls)
        rows = kgtool(*argv, "--dry-run", "--group", "a", "-o", "json").json["results"]
        assert rows == [{"group": "a", "status": "would-delete", "error": None}]

    def test_the_plan_comes_first_and_warns(self, kgtool: Kgtool, canned_kind: Any) -> None:
        calls = self._canned(canned_kind, {"a": None, "live": NOT_EMPTY})
        result = kgtool("delete", "--yes", "--group", "a", "--group", "live")
        assert result.status == 3
        assert calls == [(["a", "live"], True), (["a"], False)]
        assert "kgtool undo restores them" in result.err
        assert "live: will not be deleted: The group is not empty." in result.err
        assert "share groups" not in result.err, "there is none"


class TestDeleteOffsets:
    def _canned(
        self, canned: Canned, canned_kind: Any, results: dict[str, GroupOffsetDeletions]
    ) -> list[Any]:
        canned(offset_delete__ends_of={TopicPartition("t", 0): LogEnds(0, 9)})
        calls: list[Any] = canned_kind(
            DeleteOffsets,
            lambda groups: [_foreseen(results[group]) for group in groups],
            lambda group: results[group.group],
        )
        return calls

    def test_success(self, kgtool: Kgtool, canned: Canned, canned_kind: Any) -> None:
        self._canned(canned, canned_kind, {"g": _deletions("g", ("t", 0, None))})
        result = kgtool("--delete-offsets", "--group", "g", "--topic", "t:0")
        assert result == (
            0,
            "Request succeeded for deleting offsets from group g.\n"
            "\nTOPIC           PARTITION  STATUS         "
            "\nt               0          Successful     \n",
            "",
        )

    def test_an_unknown_topic_is_no_success(
        self, kgtool: Kgtool, canned: Canned, canned_kind: Any
    ) -> None:
        """F9: Kafka's tool says that the request succeeded."""
        self._canned(canned, canned_kind, {"g": _deletions("g", ("nosuch", None, 3))})
        for argv in (["--delete-offsets"], ["delete-offsets", "--yes"]):
            result = kgtool(*argv, "--group", "g", "--topic", "nosuch")
            assert result.status == 1
            assert "succe" not in (result.out + result.err).lower()
            if argv[0] == "delete-offsets":
                assert "Error: Topic nosuch does not exist." in result.err
            else:
                assert "Encountered some partition-level error, see the follow-up" in result.err
                assert "* group g, nosuch: This server does not host" in result.err

    def test_no_offset_counts_as_done_and_is_said(
        self, kgtool: Kgtool, canned: Canned, canned_kind: Any
    ) -> None:
        rows = [OffsetDeletion("g", "t", 0, "no-offset"), OffsetDeletion("g", "t", 1, "deleted")]
        self._canned(canned, canned_kind, {"g": GroupOffsetDeletions("g", rows)})
        result = kgtool("--delete-offsets", "--group", "g", "--topic", "t")
        assert result.status == 0
        assert result.out.count("Successful") == 2
        assert result.err == "Note: group g had no committed offset for t:0.\n"
        rows_shown = kgtool("--delete-offsets", "--group", "g", "--topic", "t", "-o", "json").json[
            "results"
        ]
        assert [row["status"] for row in rows_shown] == ["no-offset", "deleted"]

    def test_a_dry_run_without_offsets_is_no_request(
        self, kgtool: Kgtool, canned: Canned, canned_kind: Any
    ) -> None:
        self._canned(
            canned,
            canned_kind,
            {"g": GroupOffsetDeletions("g", [OffsetDeletion("g", "t", 0, "no-offset")])},
        )
        for argv in (["--delete-offsets"], ["delete-offsets"]):
            result = kgtool(*argv, "--dry-run", "--group", "g", "--topic", "t")
            assert result.status == 0
            assert "Dry run: nothing was deleted from group g." in result.out
            assert "Request succeeded" not in result.out

    def test_partly(self, kgtool: Kgtool, canned: Canned, canned_kind: Any) -> None:
        self._canned(canned, canned_kind, {"g": _deletions("g", ("t", 0, None), ("t", 1, 86))})
        result = kgtool("--delete-offsets", "--group", "g", "--topic", "t")
        assert result.status == 3
        assert (
            "t               1          Error: org.apache.kafka.common.errors."
            "GroupSubscribedToTopicException: Deleting offsets of a topic is forbidden while the "
            "consumer group is actively subscribed to it.\n"
        ) in result.out

    def test_unknown_group(self, kgtool: Kgtool, canned: Canned, canned_kind: Any) -> None:
        rows = [OffsetDeletion("nosuch", "t", p, "failed", MISSING) for p in (0, 1)]
        self._canned(canned, canned_kind, {"nosuch": GroupOffsetDeletions("nosuch", rows, MISSING)})
        argv = ["--delete-offsets", "--group", "nosuch", "--topic", "t"]
        result = kgtool(*argv)
        assert result.status == 1
        assert result.err == "Error: The group id does not exist. (group nosuch)\n"
        assert result.out.count("GroupIdNotFoundException: The group id does not exist.") == 2
        document = kgtool(*argv, "-o", "json").json
        assert len(document["errors"]) == 1
        assert [row["status"] for row in document["results"]] == ["failed", "failed"]
        lines = [json.loads(line) for line in kgtool(*argv, "-o", "ndjson").out.splitlines()]
        assert lines == document["results"]

    def test_several_groups(self, kgtool: Kgtool, canned: Canned, canned_kind: Any) -> None:
        results = {name: _deletions(name, ("t", 0, None)) for name in ("a", "b")}
        calls = self._canned(canned, canned_kind, results)
        result = kgtool("delete-offsets", "--group", "b", "--group", "a", "--topic", "t:0", "--yes")
        assert result.status == 0
        assert [dry_run for _, dry_run in calls] == [True, False]
        for name in "ab":
            assert f"Deleted 1 offset of {name}.\n" in result.out
        assert "kgtool undo restores them" in result.err

    def test_dry_run(self, kgtool: Kgtool, canned: Canned, canned_kind: Any) -> None:
        calls = self._canned(canned, canned_kind, {"g": _deletions("g", ("t", 0, None))})
        for argv in (["--delete-offsets"], ["delete-offsets"]):
            result = kgtool(*argv, "--dry-run", "--group", "g", "--topic", "t:0")
            assert result.status == 0
            assert "succe" not in result.out.lower()
            assert ("Would be deleted" if argv[0][0] == "-" else "would-delete") in result.out
        assert all(dry_run for _, dry_run in calls)


def _deletions(group: str, *rows: tuple[str, int | None, int | None]) -> GroupOffsetDeletions:
    from kgtool.protocol.codes import CODES

    made = []
    for topic, partition, code in rows:
        error = None
        if code is not None:
            known = CODES[code]
            error = ItemError(Target(group, topic, partition), code, known.name, known.message)
        made.append(
            OffsetDeletion(group, topic, partition, "failed" if error else "deleted", error)
        )
    return GroupOffsetDeletions(group, made)


def _foreseen(result: GroupOffsetDeletions) -> GroupOffsetDeletions:
    rows = [
        row._replace(status="would-delete", old=CommittedOffset(5, None, ""))
        if row.status == "deleted"
        else row
        for row in result.rows
    ]
    return result._replace(rows=rows)
