"""Planning and executing resets on a cluster made of dictionaries, with everything going wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgtool.changes.groups.members import still_busy
from kgtool.changes.offsets.commit import ADMIN, REQUEST_BYTES, CommitIdentity
from kgtool.changes.offsets.verify import Write
from kgtool.changes.offsets.write import write_offsets
from kgtool.changes.reset.plan import plan_resets
from kgtool.changes.reset.targets import GroupReset, ResetRequest, ResetRow, Strategy, target
from kgtool.changes.snapshot import GroupChange
from kgtool.client.ops import DeadlineExceeded
from kgtool.errors import BrokerError, ConnectionLost, KgError
from kgtool.model import CommittedOffset, TopicPartition, TopicSpec
from kgtool.protocol import codes
from kgtool.protocol.api import list_groups, list_offsets, metadata, offset_commit, offset_fetch
from kgtool.protocol.codes import broker_error
from kgtool.queries.offsets.leader_epochs import leader_epochs
from kgtool.queries.offsets.list_offsets import LogPoint, LogRange, log_ranges
from tests.support.changing import execute_resets
from tests.support.reset_world import Group, Log, World

EARLIEST, LATEST, CURRENT = Strategy("to-earliest"), Strategy("to-latest"), Strategy("to-current")
P = TopicPartition


def world() -> World:
    """Topic t: partition 0 has offsets 2 to 10, partition 1 has 0 to 20, partition 2 nothing."""
    logs = [Log(10, 2, epochs=((1, 0), (4, 6))), Log(20, epochs=((3, 0),)), Log()]
    return World({"t": logs}, {"g": Group({("t", 0): 4, ("t", 1): 5}), "h": Group({("t", 1): 7})})


def plan(
    world: World,
    strategy: Strategy,
    *topics: TopicSpec,
    groups: tuple[str, ...] = ("g",),
    **more: bool,
) -> list[GroupReset]:
    request = ResetRequest(groups, strategy, topics or None, **more)
    found: list[GroupReset] = world.run(plan_resets(world.cluster(), request))
    return found


def execute(world: World, resets: list[GroupReset], **options: object) -> list[GroupReset]:
    found: list[GroupReset] = world.run(execute_resets(world.cluster(), resets, **options))  # type: ignore[arg-type]
    return found


def rows(resets: list[GroupReset]) -> dict[tuple[str, str, int | None], ResetRow]:
    return {(row.group, row.topic, row.partition): row for reset in resets for row in reset.rows}


def outcome(resets: list[GroupReset]) -> dict[tuple[str, int | None], tuple[str, str | None]]:
    return {
        (row.topic, row.partition): (row.status, row.error.name if row.error else None)
        for row in rows(resets).values()
    }


class TestTarget:
    LOG = LogRange(LogPoint(2, 0), LogPoint(10, 3), LogPoint(7, 2))

    @pytest.mark.parametrize(
        ("strategy", "committed", "given_", "expected"),
        [
            (EARLIEST, None, None, (2, 0, None)),
            (LATEST, 4, None, (10, 3, None)),
            (CURRENT, 4, None, (4, 9, None)),
            (CURRENT, 99, None, (99, 9, None)),
            (CURRENT, None, None, None),
            (Strategy("to-offset", 2), None, None, (2, 0, None)),
            (Strategy("to-offset", -1), None, None, (2, 0, "start")),
            (Strategy("to-offset", 10), None, None, (10, 3, None)),
            (Strategy("to-offset", 11), None, None, (10, 3, "end")),
            (Strategy("shift-by", -2), 4, None, (2, 0, None)),
            (Strategy("shift-by", -(2**63)), 4, None, (2, 0, "start")),
            (Strategy("shift-by", 2**63 - 1), 4, None, (10, 3, "end")),
            (Strategy("shift-by", 1), None, None, None),
            (Strategy("to-datetime", 1000), None, None, (7, 2, None)),
            (Strategy("to-datetime", -1), None, None, (2, 0, None)),
            (Strategy("from-file"), None, 1, (2, 0, "start")),
            (Strategy("like"), 4, 12, (10, 3, "end")),
            (Strategy("like"), 4, None, None),
        ],
    )
    def test_where_it_goes(
        self,
        strategy: Strategy,
        committed: int | None,
        given_: int | None,
        expected: tuple[int, int, str | None] | None,
    ) -> None:
        old = None if committed is None else CommittedOffset(committed, 9, "m")
        found = target(strategy, self.LOG, old, given_)
        if expected is None:
            assert found is None
        else:
            assert found is not None
            aim = found[0]
            assert (aim.offset, aim.leader_epoch, aim.clamp) == expected
            assert not aim.needs_epoch

    def test_a_time_after_the_last_record_leads_to_the_end(self) -> None:
        found = target(Strategy("to-datetime", 5), self.LOG._replace(at_time=None), None)
        assert found is not None
        assert (found[0].offset, found[0].clamp) == (10, "late")

    @given(st.integers(0, 50), st.integers(0, 50), st.integers(-(2**64), 2**64))
    def test_never_leaves_the_log(self, start: int, length: int, offset: int) -> None:
        log = LogRange(LogPoint(start, 0), LogPoint(start + length, 1))
        found = target(Strategy("to-offset", offset), log, None)
        assert found is not None
        aim, asked = found
        assert start <= aim.offset <= start + length
        assert asked == offset
        assert (aim.clamp is None) == (aim.offset == offset)

    @given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 60), st.integers(0, 60))
    def test_what_is_read_again_or_never(self, start: int, length: int, old: int, new: int) -> None:
        """Counted one by one: an offset of the log is read after the old or the new commit."""
        log = LogRange(LogPoint(start, 0), LogPoint(start + length, 0))
        row = ResetRow(
            "g", "t", 0, CommittedOffset(old, None, ""), CommittedOffset(new, None, ""), log
        )
        offsets = range(start, start + length)
        assert row.records_replayed == sum(new <= offset < old for offset in offsets)
        assert row.records_skipped == sum(old <= offset < new for offset in offsets)


class TestPlan:
    def test_nothing_is_written(self) -> None:
        cluster = world()
        for strategy in (EARLIEST, LATEST, CURRENT, Strategy("to-offset", 3)):
            plan(cluster, strategy, TopicSpec("t"))
        assert cluster.asked(offset_commit) == []

    def test_old_and_new_with_metadata_and_epoch(self) -> None:
        found = rows(plan(world(), Strategy("to-offset", 7), TopicSpec("t")))
        first, second, third = (found["g", "t", number] for number in range(3))
        assert first.old == CommittedOffset(4, 0, "m")
        assert first.new == CommittedOffset(7, 4, "m")  # epoch 4 begins at offset 6
        assert (first.records_replayed, first.records_skipped) == (0, 3)
        assert second.new == CommittedOffset(7, 3, "m")
        assert third.old is None
        assert third.new == CommittedOffset(0, 0, "")
        assert (third.records_replayed, third.clamp) == (None, "end")

    def test_all_topics_are_those_with_a_commit(self) -> None:
        found = rows(plan(world(), LATEST, groups=("g", "h")))
        assert {at: row.new_offset for at, row in found.items()} == {
            ("g", "t", 0): 10,
            ("g", "t", 1): 20,
            ("h", "t", 1): 20,
        }

    def test_to_current_leaves_partitions_without_a_commit_alone(self) -> None:
        """F6: Kafka's tool moves them to the end of the log."""
        found = outcome(plan(world(), CURRENT, TopicSpec("t")))
        assert found["t", 2] == ("no-commit", None)
        assert found["t", 0] == ("would-reset", None)

    def test_a_shift_needs_something_to_shift(self) -> None:
        found = rows(plan(world(), Strategy("shift-by", 1), TopicSpec("t")))
        failed = found["g", "t", 2]
        assert failed.status == "failed"
        assert failed.error is not None
        assert failed.error.message == (
            "Cannot shift offset for partition t-2 since there is no current committed offset"
        )
        assert found["g", "t", 0].new_offset == 5

    def test_a_file_says_partition_by_partition(self) -> None:
        offsets = {"g": {P("t", 0): 3, P("t", 1): 99}, "other": {P("t", 0): 1}}
        resets = plan(world(), Strategy("from-file", offsets=offsets), groups=("g", "h"))
        found = rows(resets)
        assert {at: (row.new_offset, row.clamp) for at, row in found.items()} == {
            ("g", "t", 0): (3, None),
            ("g", "t", 1): (20, "end"),
        }
        error = resets[1].error
        assert error is not None
        assert error.message == "No reset plan for group h found"

    def test_like_another_group_brings_its_metadata_and_epoch(self) -> None:
        cluster = world()
        cluster.groups["model"] = Group(
            {("t", 0): CommittedOffset(8, 2, "theirs"), ("t", 1): CommittedOffset(30, 9, "x")}
        )
        found = rows(plan(cluster, Strategy("like", like="model")))
        assert found["g", "t", 0].new == CommittedOffset(8, 2, "theirs")
        assert found["g", "t", 1].new == CommittedOffset(20, 3, "m")  # fitted: no longer theirs
        assert found["g", "t", 1].clamp == "end"

    def test_like_looks_for_an_epoch_the_model_does_not_have(self) -> None:
        cluster = world()
        cluster.groups["model"] = Group({("t", 0): CommittedOffset(5, None, "theirs")})
        found = rows(plan(cluster, Strategy("like", like="model")))
        assert found["g", "t", 0].new == CommittedOffset(5, 1, "theirs")

    def test_like_can_be_narrowed_and_leaves_the_rest_alone(self) -> None:
        cluster = world()
        cluster.groups["model"] = Group({("t", 0): 8, ("t", 1): 9})
        spec = TopicSpec("t", (1, 2))
        found = outcome(plan(cluster, Strategy("like", like="model"), spec))
        assert found == {("t", 1): ("would-reset", None), ("t", 2): ("no-commit", None)}

    def test_like_a_group_without_offsets_is_an_error(self) -> None:
        with pytest.raises(KgError, match="Group 'nobody' has no committed offsets"):
            plan(world(), Strategy("like", like="nobody"))

    def test_a_time_is_looked_up_once_for_all_groups(self) -> None:
        cluster = world()
        found = rows(plan(cluster, Strategy("to-datetime", 5), TopicSpec("t"), groups=("g", "h")))
        assert found["g", "t", 0].new_offset == 5
        assert found["g", "t", 2].clamp == "late"
        asked = [
            (row.partition, row.timestamp)
            for request in cluster.asked(list_offsets)
            for topic in request.topics
            for row in topic.partitions
        ]
        assert sorted(asked) == sorted((p, time) for p in range(3) for time in (5, -1, -2))

    def test_a_time_before_1970_is_the_start_and_is_not_asked_for(self) -> None:
        """Negative timestamps mean other things: Kafka's tool gets UNSUPPORTED_VERSION here."""
        cluster = world()
        found = rows(plan(cluster, Strategy("to-datetime", -5), TopicSpec("t")))
        assert found["g", "t", 0].new_offset == 2
        timestamps = {
            row.timestamp
            for request in cluster.asked(list_offsets)
            for topic in request.topics
            for row in topic.partitions
        }
        assert timestamps == {-1, -2}


class TestRefusals:
    def test_what_is_not_there_fails_alone_after_one_refresh(self) -> None:
        cluster = world()
        cluster.topics["t"].append(Log(5, leader=-1))
        specs = TopicSpec("t", (0, 3, 99)), TopicSpec("nosuch"), TopicSpec("nosuch2", (0,))
        found = rows(plan(cluster, EARLIEST, *specs))
        said = {at: (row.error.code, row.error.message) for at, row in found.items() if row.error}
        assert said == {
            ("g", "t", 3): (5, 'The partitions "t-3" have no leader'),
            ("g", "t", 99): (3, 'The partitions "t-99" do not exist'),
            ("g", "nosuch2", 0): (3, 'The partitions "nosuch2-0" do not exist'),
            ("g", "nosuch", None): (3, "This server does not host this topic-partition."),
        }
        assert found["g", "t", 0].status == "would-reset"
        assert len(cluster.asked(metadata)) == 2
        assert len(cluster.script.pauses) == 1

    def test_an_invalid_topic_name(self) -> None:
        cluster = world()
        cluster.invalid_topics["bad topic"] = 17
        found = outcome(plan(cluster, EARLIEST, TopicSpec("bad topic"), TopicSpec("t", (0,))))
        assert found["bad topic", None] == ("failed", "INVALID_TOPIC_EXCEPTION")
        assert found["t", 0] == ("would-reset", None)

    def test_a_topic_that_may_not_be_described(self) -> None:
        cluster = world()
        cluster.invalid_topics["secret"] = codes.TOPIC_AUTHORIZATION_FAILED
        found = outcome(plan(cluster, EARLIEST, TopicSpec("secret"), TopicSpec("t", (0,))))
        assert found["secret", None] == ("failed", "TOPIC_AUTHORIZATION_FAILED")
        assert found["t", 0] == ("would-reset", None)

    def test_groups(self) -> None:
        cluster = world()
        cluster.groups |= {
            "alive": Group(state="Stable", members=["app-1", "app-2", "app-2"]),
            "modern": Group(state="Stable", type="consumer", members=["m"]),
            "joining": Group(state="PreparingRebalance"),
            "share": Group(type="share", protocol_type="share"),
            "streams": Group(type="streams", protocol_type="streams"),
            "connect": Group(protocol_type="connect"),
            "schema": Group(protocol_type="sr"),
        }
        names = (*cluster.groups, "typo")
        resets = {r.group: r for r in plan(cluster, EARLIEST, TopicSpec("t", (0,)), groups=names)}
        assert [row.status for row in resets["g"].rows] == ["would-reset"]
        said = {name: f"{r.error.message} {r.error.hint}" for name, r in resets.items() if r.error}
        assert set(said) == set(names) - {"g", "h", "share", "streams"}
        assert said["alive"].startswith(
            "Assignments can only be reset if the group 'alive' is inactive, but the current state "
            "is Stable. It has 3 members: app-1 on /10.0.0.1, app-2 on /10.0.0.1."
        )
        assert "current state is Stable. It has 1 member: m on" in said["modern"]
        assert "current state is PreparingRebalance" in said["joining"]
        assert "/connectors/" in said["connect"]
        assert "'sr' group" in said["schema"]
        assert said["typo"].startswith("Group typo not found. ")
        assert "--create" in said["typo"]
        assert all(not resets[name].rows for name in said)

    def test_only_create_makes_a_group(self) -> None:
        """F10: with Kafka's tool a typo in --group makes a group."""
        cluster = world()
        spec = TopicSpec("t", (0,))
        assert plan(cluster, LATEST, spec, groups=("typo",))[0].error is not None
        resets = plan(cluster, LATEST, spec, groups=("typo",), can_create=True)
        assert resets[0].error is None
        done = execute(cluster, resets)
        assert outcome(done) == {("t", 0): ("reset", None)}
        assert cluster.groups["typo"].offsets == {P("t", 0): CommittedOffset(10, 4, "")}

    def test_a_pending_transaction(self) -> None:
        cluster = world()
        cluster.groups["g"].pending = {P("t", 0), P("t", 2)}  # 2 is the first commit there
        found = outcome(plan(cluster, EARLIEST, TopicSpec("t")))
        assert found == {
            ("t", 0): ("failed", "UNSTABLE_OFFSET_COMMIT"),
            ("t", 1): ("would-reset", None),
            ("t", 2): ("failed", "UNSTABLE_OFFSET_COMMIT"),
        }
        assert outcome(plan(cluster, EARLIEST))["t", 0][1] == "UNSTABLE_OFFSET_COMMIT"
        forced = plan(cluster, EARLIEST, TopicSpec("t"), force=True)
        assert set(outcome(forced).values()) == {("would-reset", None)}
        done = execute(cluster, forced, force=True)
        assert set(outcome(done).values()) == {("reset", None)}

    def test_a_pending_transaction_of_the_model(self) -> None:
        cluster = world()
        cluster.groups["h"].pending = {P("t", 1)}
        (row,) = plan(cluster, Strategy("like", like="h"))[0].rows
        assert row.error is not None
        assert "group 'h'" in row.error.message

    def test_a_group_whose_offsets_may_not_be_read(self) -> None:
        cluster = world()
        denied = broker_error(codes.GROUP_AUTHORIZATION_FAILED)

        def before(request: object) -> object:
            return denied if isinstance(request, offset_fetch.Request) else None

        cluster.before = before
        for topics in ((), (TopicSpec("t"),)):
            (reset,) = plan(cluster, EARLIEST, *topics)
            assert reset.rows == []
            assert reset.error is not None
            assert reset.error.name == "GROUP_AUTHORIZATION_FAILED"


class TestExecute:
    def test_writes_what_was_planned_and_nothing_else(self) -> None:
        cluster = world()
        before = dict(cluster.groups["g"].offsets)
        done = execute(cluster, plan(cluster, Strategy("to-offset", 7), TopicSpec("t", (0,))))
        assert outcome(done) == {("t", 0): ("reset", None)}
        assert cluster.groups["g"].offsets == {**before, P("t", 0): CommittedOffset(7, 4, "m")}
        (request,) = cluster.commits
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")

    def test_every_group_is_looked_at_again_before_the_first_is_changed(self) -> None:
        """F13: Kafka's tool has changed the first groups when it finds the last one alive."""
        cluster = world()
        resets = plan(cluster, EARLIEST, TopicSpec("t", (1,)), groups=("g", "h"))
        cluster.groups["h"].members = ["late"]
        cluster.groups["h"].state = "Stable"
        order: list[str] = []

        def before(request: object) -> None:
            order.append(type(request).__module__.rpartition(".")[2])

        cluster.before = before
        done = {reset.group: reset for reset in execute(cluster, resets)}
        assert [row.status for row in done["g"].rows] == ["reset"]
        assert [row.status for row in done["h"].rows] == ["failed"]
        assert done["h"].error is not None
        assert "late on /10.0.0.1" in (done["h"].error.hint or "")
        assert max(i for i, name in enumerate(order) if name == "describe_groups") < order.index(
            "offset_commit"
        )

    @pytest.mark.parametrize(
        ("now", "said"),
        [
            (CommittedOffset(6, 0, "m"), "offset 6, leader epoch 0, metadata 'm' is there now"),
            (CommittedOffset(4, 0, "other"), "offset 4, leader epoch 0, metadata 'other' is there"),
            (None, "offset 4, leader epoch 0, metadata 'm' was there, no offset is there now"),
        ],
    )
    def test_what_changed_meanwhile_is_left_alone(
        self, now: CommittedOffset | None, said: str
    ) -> None:
        cluster = world()
        resets = plan(cluster, LATEST, TopicSpec("t", (0, 1)))
        offsets = cluster.groups["g"].offsets
        del offsets[P("t", 0)]
        if now is not None:
            offsets[P("t", 0)] = now
        done = rows(execute(cluster, resets))
        failed = done["g", "t", 0]
        assert failed.error is not None
        assert failed.error.name == "CHANGED_MEANWHILE"
        assert said in failed.error.message
        assert offsets.get(P("t", 0)) == now
        assert done["g", "t", 1].status == "reset"

    def test_a_transaction_that_began_meanwhile(self) -> None:
        cluster = world()
        resets = plan(cluster, LATEST)
        cluster.groups["g"].pending = {P("t", 0)}
        assert outcome(execute(cluster, resets)) == {
            ("t", 0): ("changed-meanwhile", "CHANGED_MEANWHILE"),
            ("t", 1): ("reset", None),
        }
        assert outcome(execute(cluster, resets[:1], force=True))["t", 0] == ("reset", None)

    def test_a_group_deleted_meanwhile_is_not_made_again(self) -> None:
        cluster = world()
        resets = plan(cluster, LATEST)
        del cluster.groups["g"]
        (reset,) = execute(cluster, resets)
        assert reset.error is not None
        assert reset.error.name == "GROUP_ID_NOT_FOUND"
        assert cluster.commits == []

    def test_authorisation_is_denied_per_partition(self) -> None:
        cluster = world()
        cluster.commit_errors[P("t", 0)] = codes.TOPIC_AUTHORIZATION_FAILED
        assert outcome(execute(cluster, plan(cluster, LATEST))) == {
            ("t", 0): ("failed", "TOPIC_AUTHORIZATION_FAILED"),
            ("t", 1): ("reset", None),
        }

    def test_a_member_that_joins_between_the_look_and_the_write(self) -> None:
        cluster = world()

        def before(request: object) -> None:
            if isinstance(request, offset_commit.Request):
                cluster.groups["g"].members = ["late"]

        resets = plan(cluster, LATEST)
        cluster.before = before
        done = rows(execute(cluster, resets))
        error = done["g", "t", 0].error
        assert error is not None
        assert error.code == codes.UNKNOWN_MEMBER_ID
        assert "Assignments can only be reset if the group 'g' is inactive" in error.message

    def test_what_is_read_back_is_what_counts(self) -> None:
        cluster = world()
        resets = plan(cluster, LATEST)
        seen: list[object] = []

        def before(request: object) -> None:
            if isinstance(request, offset_commit.Request):
                seen.append(request)
            elif isinstance(request, offset_fetch.Request) and seen:
                cluster.groups["g"].offsets[P("t", 0)] = CommittedOffset(3, 0, "m")

        cluster.before = before
        done = rows(execute(cluster, resets))
        error = done["g", "t", 0].error
        assert error is not None
        assert error.name == "NOT_VERIFIED"
        assert "accepted offset 10, leader epoch 4, metadata 'm', but offset 3" in error.message
        assert done["g", "t", 1].status == "reset"

    @pytest.mark.parametrize("is_written", [True, False])
    def test_a_lost_answer_is_decided_by_what_is_there(self, is_written: bool) -> None:
        cluster = world()
        resets = plan(cluster, LATEST)

        def before(request: object) -> object:
            if not isinstance(request, offset_commit.Request):
                return None
            if is_written:
                cluster._commit(request)
            return DeadlineExceeded("b1:9092 did not answer.").after_sending()

        cluster.before = before
        expected = ("reset", None) if is_written else ("failed", "TIMEOUT")
        assert set(outcome(execute(cluster, resets)).values()) == {expected}

    def test_all_or_nothing(self) -> None:
        cluster = world()
        resets = plan(cluster, LATEST, TopicSpec("t", (0, 99)))
        done = execute(cluster, resets, all_or_nothing=True)
        assert outcome(done) == {
            ("t", 0): ("skipped", None),
            ("t", 99): ("failed", "UNKNOWN_TOPIC_OR_PARTITION"),
        }
        resets = plan(cluster, LATEST, TopicSpec("t", (0, 1)))
        cluster.groups["g"].offsets[P("t", 0)] = CommittedOffset(9, 0, "m")
        done = execute(cluster, resets, all_or_nothing=True)
        assert outcome(done) == {
            ("t", 0): ("changed-meanwhile", "CHANGED_MEANWHILE"),
            ("t", 1): ("skipped", None),
        }
        assert cluster.commits == []

    def test_the_journal_sees_everything_before_the_first_write(self) -> None:
        cluster = world()
        seen: list[GroupChange] = []

        def journal(about_to_change: object) -> None:
            assert cluster.commits == []
            seen.extend(about_to_change)  # type: ignore[call-overload]

        resets = plan(cluster, LATEST, TopicSpec("t", (0, 99)), groups=("g", "typo"))
        execute(cluster, resets, before_change=journal)
        (change,) = seen
        ((partition, was),) = change.image.offsets.items()
        assert (change.image.group, partition) == ("g", P("t", 0))
        then, after = was.committed, change.after[partition]
        assert then is not None and after is not None
        assert (then.offset, after.offset) == (4, 10)
        assert len(cluster.commits) == 1

    def test_no_journal_no_change(self) -> None:
        cluster = world()

        def broken(_rows: object) -> None:
            raise KgError("The journal can't be written.")

        with pytest.raises(KgError, match="journal"):
            execute(cluster, plan(cluster, LATEST), before_change=broken)
        assert cluster.commits == []

    def test_nothing_to_do_is_no_request(self) -> None:
        cluster = world()
        resets = plan(cluster, CURRENT, TopicSpec("t", (2,)))
        before = len(cluster.script.calls)
        assert outcome(execute(cluster, resets)) == {("t", 2): ("no-commit", None)}
        assert len(cluster.script.calls) == before


class TestCommit:
    def _commit(
        self, world: World, offsets: dict[tuple[str, int], CommittedOffset], **more: CommitIdentity
    ) -> dict[TopicPartition, KgError | None]:
        has = world.groups["g"].offsets
        parts = {P(*at): Write(has.get(P(*at)), value) for at, value in offsets.items()}
        found: dict[str, dict[TopicPartition, KgError | None]] = world.run(
            write_offsets(world.cluster(), {"g": parts}, more)
        )
        return found["g"]

    def test_in_a_members_name(self) -> None:
        cluster = world()
        cluster.groups["g"].members = ["app"]
        offsets = {("t", 0): CommittedOffset(7, 4, None)}
        assert self._commit(cluster, offsets)[P("t", 0)] is not None
        assert self._commit(cluster, offsets, g=CommitIdentity("app-1", 12, "i-1")) == {
            P("t", 0): None
        }
        request = cluster.commits[-1]
        assert (request.member_id, request.generation_id_or_member_epoch) == ("app-1", 12)
        assert request.group_instance_id == "i-1"
        assert ADMIN == ("", -1, None)
        (row,) = request.topics[0].partitions
        assert (row.offset, row.leader_epoch, row.metadata) == (7, 4, None)

    def test_many_partitions_take_several_requests_that_stay_small(self) -> None:
        cluster = world()
        offsets = {("t", n): CommittedOffset(n, None, "x" * 4000) for n in range(500)}
        outcome_ = self._commit(cluster, offsets)
        assert set(outcome_.values()) == {None}
        assert len(outcome_) == 500
        sizes = [sum(len(topic.partitions) for topic in r.topics) for r in cluster.commits]
        assert sum(sizes) == 500
        assert max(sizes) * 4000 <= REQUEST_BYTES + 4200
        assert len(cluster.groups["g"].offsets) == 500

    @pytest.mark.parametrize("code", [14, 15, 16])
    def test_a_coordinator_on_its_way_is_asked_again(self, code: int) -> None:
        cluster = world()
        cluster.commit_errors = {P("t", 1): code, P("t", 2): codes.TOPIC_AUTHORIZATION_FAILED}

        def before(request: object) -> None:
            if isinstance(request, offset_commit.Request) and len(cluster.commits) == 2:
                del cluster.commit_errors[P("t", 1)]

        cluster.before = before
        offsets = {("t", n): CommittedOffset(1, None, "") for n in range(3)}
        found = self._commit(cluster, offsets)
        assert {at.partition: error and error.code for at, error in found.items()} == {
            0: None,
            1: None,
            2: codes.TOPIC_AUTHORIZATION_FAILED,
        }
        # What is stored is not written again: somebody else may have committed meanwhile.
        assert [write.at.partition for write in cluster.writes] == [0, 1]
        assert len(cluster.script.pauses) == 2

    def test_a_rebalance_is_waited_out_but_not_for_ever(self) -> None:
        cluster = world()
        cluster.commit_errors[P("t", 0)] = codes.REBALANCE_IN_PROGRESS
        found = self._commit(cluster, {("t", 0): CommittedOffset(1, None, "")})
        error = found[P("t", 0)]
        assert error is not None
        assert error.code == codes.REBALANCE_IN_PROGRESS
        assert 5 <= len(cluster.commits) <= 20

    @pytest.mark.parametrize("code", [3, 12, 22, 25, 28, 29, 30, 69, 110, 113])
    def test_everything_else_is_final(self, code: int) -> None:
        cluster = world()
        cluster.commit_errors[P("t", 0)] = code
        offsets = {("t", n): CommittedOffset(1, None, "") for n in range(2)}
        found = self._commit(cluster, offsets)
        error = found[P("t", 0)]
        assert isinstance(error, BrokerError)
        assert error.code == code
        assert found[P("t", 1)] is None
        assert len(cluster.commits) == 1

    def test_a_connection_that_breaks_is_tried_again(self) -> None:
        cluster = world()
        broken: list[object] = [ConnectionLost("gone"), ConnectionLost("gone")]

        def before(request: object) -> object:
            return broken.pop() if isinstance(request, offset_commit.Request) and broken else None

        cluster.before = before
        assert self._commit(cluster, {("t", 0): CommittedOffset(1, None, "")}) == {P("t", 0): None}

    def test_names_are_not_sent_as_topic_ids(self) -> None:
        cluster = world()
        self._commit(cluster, {("t", 0): CommittedOffset(1, None, "")})
        assert cluster.commits[0].topics[0].name == "t"


class TestEpochs:
    @given(st.data())
    def test_the_search_finds_what_the_log_has(self, data: st.DataObject) -> None:
        logs = []
        for _ in range(data.draw(st.integers(1, 3))):
            end = data.draw(st.integers(1, 60))
            start = data.draw(st.integers(0, end - 1))
            epochs = data.draw(st.lists(st.integers(0, 1000), min_size=1, max_size=12, unique=True))
            firsts = data.draw(
                st.lists(st.integers(0, end), min_size=len(epochs) - 1, max_size=len(epochs) - 1)
            )
            table = list(zip(sorted(epochs), sorted([0, *firsts]), strict=True))
            # Kafka keeps no epoch without a record but the last one.
            table = [
                (epoch, first)
                for index, (epoch, first) in enumerate(table)
                if index == len(table) - 1 or table[index + 1][1] > first
            ]
            logs.append(Log(end, start, epochs=table))
        cluster = World({"t": logs})
        state = cluster.cluster()
        parts = [P("t", number) for number in range(len(logs))]
        ranges = cluster.run(log_ranges(state, parts))
        points = [
            (P("t", number), offset)
            for number, log in enumerate(logs)
            for offset in data.draw(st.lists(st.integers(log.start, log.end - 1), max_size=4))
        ]
        found = cluster.run(leader_epochs(state, points, ranges))
        expected = {(at, offset): logs[at.partition].epoch_at(offset) for at, offset in points}
        assert found == expected

    def test_an_epoch_that_cannot_be_found_out_is_left_open(self) -> None:
        cluster = world()
        denied = broker_error(codes.TOPIC_AUTHORIZATION_FAILED)

        def before(request: object) -> object:
            return denied if type(request).__module__.endswith("leader_epoch") else None

        cluster.before = before
        found = rows(plan(cluster, Strategy("to-offset", 5), TopicSpec("t", (0,))))
        assert found["g", "t", 0].new == CommittedOffset(5, None, "m")


def test_who_is_waited_for() -> None:
    """Groups of any type; not one that does not exist."""
    cluster = world()
    cluster.groups["g"].state, cluster.groups["g"].members = "Stable", ["app"]
    cluster.groups["s"] = Group(type="share", state="Stable", protocol_type="share")
    busy = cluster.run(still_busy(cluster.cluster(), ["g", "h", "nosuch", "s"]))
    assert [group.group for group in busy] == ["g", "s"]
    assert len(cluster.asked(list_groups)) == 1
    for name in "gs":
        cluster.groups[name].state, cluster.groups[name].members = "Empty", []
    assert cluster.run(still_busy(cluster.cluster(), ["g"])) == []
