"""``request``: any API of the protocol by hand, on real brokers."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kgtool.protocol import api
from tests.cli.run import Result, call, command_line
from tests.support import clients

Kgtool = Callable[..., Result]


@pytest.fixture
def kgtool(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> Kgtool:
    return lambda *argv: call(capsys, "--bootstrap-server", bootstrap, *argv)


@pytest.fixture
def offline(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Kgtool:
    monkeypatch.delenv("KGTOOL_BOOTSTRAP_SERVER", raising=False)
    return lambda *argv: call(capsys, *argv)


@pytest.fixture
def group(bootstrap: str, new_topic: Callable[..., str]) -> tuple[str, str]:
    topic, name = new_topic(partitions=2), clients.unique("raw")
    clients.produce(bootstrap, topic, 5)
    clients.commit(bootstrap, name, {(topic, 0): 3}, metadata="here")
    return name, topic


def answer(result: Result) -> dict[str, Any]:
    (row,) = result.json["results"]
    found: dict[str, Any] = row["response"]
    return found


def ask(kgtool: Kgtool, name: str, version: int, body: object, *more: str) -> Result:
    return kgtool(
        "request", name, "--version", str(version), "--body", json.dumps(body), "-o", "json", *more
    )


class TestWhatItIsFor:
    """The requests that no other tool sends (KIP-88, KIP-447, KIP-709, KIP-848, KIP-211)."""

    def test_all_offsets_with_null_topics(self, kgtool: Kgtool, group: tuple[str, str]) -> None:
        name, topic = group
        part = {"partitionIndex": 0, "committedOffset": 3, "metadata": "here\0", "errorCode": 0}
        found = ask(kgtool, "OffsetFetch", 2, {"groupId": name, "topics": None})
        assert answer(found)["topics"] == [{"name": topic, "partitions": [part]}]
        assert (found.status, found.json["errors"]) == (0, [])

    def test_many_groups_at_once(self, kgtool: Kgtool, group: tuple[str, str]) -> None:
        name, topic = group
        other = clients.unique("none")
        groups = [{"groupId": one, "topics": None} for one in (name, other)]
        rows = answer(ask(kgtool, "OffsetFetch", 8, {"groups": groups}))["groups"]
        assert {row["groupId"]: len(row["topics"]) for row in rows} == {name: 1, other: 0}

    def test_a_members_epoch_is_fenced(self, bootstrap: str, kgtool: Kgtool, group: Any) -> None:
        _, topic = group
        living = clients.unique("living")
        member = clients.join(bootstrap, living, [topic], group_protocol="consumer")
        try:
            member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            who = member.memberid()
            for epoch, code in ((99, 113), (-1, 25)):
                asked = {
                    "groupId": living,
                    "memberId": who if epoch > 0 else "nobody",
                    "memberEpoch": epoch if epoch > 0 else 3,
                    "topics": None,
                }
                result = ask(kgtool, "OffsetFetch", 9, {"groups": [asked]})
                assert answer(result)["groups"][0]["errorCode"] == code
                assert result.status == 1
        finally:
            member.close()

    def test_a_commit_with_a_retention_time(
        self, bootstrap: str, kgtool: Kgtool, group: tuple[str, str]
    ) -> None:
        name, topic = group
        parts = [{"partitionIndex": 1, "committedOffset": 7}]
        body = {
            "groupId": name,
            "retentionTimeMs": 60000,
            "topics": [{"name": topic, "partitions": parts}],
        }
        refused = ask(kgtool, "OffsetCommit", 2, body)
        assert (refused.status, clients.committed(bootstrap, name)) == (2, {(topic, 0): 3})
        done = ask(kgtool, "OffsetCommit", 2, body, "--yes")
        assert done.status == 0, done.err
        assert "can't undo" in done.err
        assert clients.committed(bootstrap, name) == {(topic, 0): 3, (topic, 1): 7}


class TestRouting:
    def test_what_fails_makes_the_status(
        self, bootstrap: str, kgtool: Kgtool, group: tuple[str, str]
    ) -> None:
        name, topic = group
        topics = [{"name": topic, "partitions": [{"partitionIndex": 0}, {"partitionIndex": 99}]}]
        partly = ask(kgtool, "OffsetDelete", 0, {"groupId": name, "topics": topics}, "--yes")
        assert partly.status == 3
        (error,) = partly.json["errors"]
        assert (error["code"], error["target"]["topic"], error["target"]["partition"]) == (
            3,
            topic,
            99,
        )
        assert clients.committed(bootstrap, name) == {}
        none = ask(kgtool, "OffsetDelete", 0, {"groupId": clients.unique("no")}, "--yes")
        assert none.status == 1
        assert "GROUP_ID_NOT_FOUND" in none.err

    def test_leaders_are_asked_for_their_partitions(
        self, kgtool: Kgtool, group: tuple[str, str]
    ) -> None:
        _, topic = group
        parts = [{"partitionIndex": 0, "timestamp": -1}, {"partitionIndex": 1, "timestamp": -1}]
        body = {"topics": [{"name": topic, "partitions": parts}]}
        rows = answer(ask(kgtool, "ListOffsets", 7, body))["topics"][0]["partitions"]
        assert {row["partitionIndex"]: row["offset"] for row in rows} == {0: 5, 1: 0}

    def test_records_come_as_bytes(self, kgtool: Kgtool, group: tuple[str, str]) -> None:
        from base64 import b64decode

        _, topic = group
        parts = [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}]
        body = {"maxWaitMs": 10, "topics": [{"topic": topic, "partitions": parts}]}
        found = answer(ask(kgtool, "Fetch", 12, body))["responses"][0]["partitions"][0]
        assert found["highWatermark"] == 5
        assert b64decode(found["records"]).count(b"value") == 5

    def test_looking_at_a_topic_does_not_make_it(self, bootstrap: str, kgtool: Kgtool) -> None:
        name = clients.unique("never-made")
        result = ask(kgtool, "Metadata", 9, {"topics": [{"name": name}]})
        assert result.status == 1
        assert answer(result)["topics"][0]["errorCode"] == 3
        assert name not in clients.admin(bootstrap).list_topics(timeout=10).topics
        asked = {"topics": [{"name": name}], "allowAutoTopicCreation": True}
        assert ask(kgtool, "Metadata", 9, asked).status == 2

    @pytest.mark.parametrize(
        "name",
        [
            "ApiVersions",
            "DescribeCluster",
            "ListGroups",
            "ListTransactions",
            "Metadata",
            "FindCoordinator",
            "DescribeGroups",
            "DescribeTopicPartitions",
            "DescribeConfigs",
            "DescribeTransactions",
        ],
    )
    def test_every_version_that_both_speak(self, kgtool: Kgtool, name: str) -> None:
        versions = answer(kgtool("request", "ApiVersions", "-o", "json"))["apiKeys"]
        request = api.load(name).Request
        (offered,) = [row for row in versions if row["apiKey"] == request.KEY]
        ours = request.VERSIONS
        low, high = max(offered["minVersion"], ours.low), min(offered["maxVersion"], ours.high)
        for version in range(low, high + 1):
            result = ask(kgtool, name, version, {})
            row = result.json["results"][0]
            assert (row["version"], row["response"] is not None) == (version, True), result.err
        if low > 0:
            refused = ask(kgtool, name, low - 1, {})
            assert refused.status == 1
            assert f"speaks {name} {low} to" in refused.err

    def test_a_broker_that_is_named(self, kgtool: Kgtool, group: tuple[str, str]) -> None:
        listed = answer(kgtool("request", "listgroups", "--broker", "1", "-o", "json"))["groups"]
        assert group[0] in [row["groupId"] for row in listed]
        wrong = kgtool("request", "ListGroups", "--broker", "77", "-o", "json")
        assert (wrong.status, wrong.json["results"]) == (4, [])


class TestBytes:
    def test_they_are_what_kio_reads(self, offline: Kgtool) -> None:
        from kio.index import load_request_schema
        from kio.serial import entity_reader

        body = {"groups": [{"groupId": "g", "memberId": "m", "memberEpoch": 4, "topics": None}]}
        result = ask(offline, "OffsetFetch", 9, body, "--dry-run")
        (row,) = result.json["results"]
        schema = load_request_schema(9, 9)
        read, size = entity_reader(schema)(bytes.fromhex(row["request_hex"]), 0)
        assert size == len(row["request_hex"]) // 2
        assert (read.groups[0].group_id, read.groups[0].member_epoch) == ("g", 4)
        header, _ = entity_reader(schema.__header_schema__)(bytes.fromhex(row["header_hex"]), 0)
        assert (header.request_api_key, header.request_api_version) == (9, 9)
        assert (result.status, row["response"]) == (0, None)

    def test_hex_shows_request_and_answer(self, kgtool: Kgtool) -> None:
        from kio.index import load_response_schema
        from kio.serial import entity_reader

        result = kgtool("request", "DescribeCluster", "--version", "0", "--hex", "-o", "json")
        (row,) = result.json["results"]
        read, _ = entity_reader(load_response_schema(60, 0))(bytes.fromhex(row["response_hex"]), 0)
        assert read.cluster_id == row["response"]["clusterId"] == result.json["cluster_id"]
        text = kgtool("request", "DescribeCluster", "--version", "0", "--hex").out
        for heading in ("Header, ", "Request, ", "Response, "):
            assert heading in text
        assert json.loads(text[text.index("\n{") :])["clusterId"] == read.cluster_id

    def test_a_dry_run_sends_nothing(
        self, bootstrap: str, kgtool: Kgtool, group: tuple[str, str]
    ) -> None:
        name, topic = group
        body = {"groupsNames": [name]}
        result = ask(kgtool, "DeleteGroups", 2, body, "--dry-run")
        (row,) = result.json["results"]
        assert (result.status, row["broker"], row["request"]) == (0, 1, body)
        assert clients.committed(bootstrap, name) == {(topic, 0): 3}


class TestBodies:
    def test_from_a_file_and_from_stdin(
        self, kgtool: Kgtool, bootstrap: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "body.json"
        path.write_text('{"includeAuthorizedOperations": true, "groups": []}', encoding="utf-8")
        said = kgtool("request", "DescribeGroups", "--body", f"@{path}", "--dry-run")
        assert (said.status, '"includeAuthorizedOperations": true' in said.out) == (0, True)
        argv = ["--bootstrap-server", bootstrap, "request", "DescribeGroups", "--body", "-"]
        piped = subprocess.run(
            command_line(*argv, "--dry-run"),
            input='{"groups": ["piped"]}',
            capture_output=True,
            text=True,
            check=True,
        )
        assert '"piped"' in piped.stdout

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["OffsetFtch"], "did you mean OffsetFetch?"),
            (["nonsense-entirely"], "request --list shows them"),
            ([], "takes the name of an API"),
            (["OffsetFetch", "--version", "11"], "has versions 0-10 here"),
            (["OffsetFetch", "--body", "{"], "is not JSON"),
            (
                ["OffsetFetch", "--body", '{"a": 1, "a": 2}'],
                "--body is not JSON: 'a' appears twice.",
            ),
            (["OffsetFetch", "--body", "@/no/such/file"], "Can't read /no/such/file"),
            (["OffsetFetch", "--version", "9", "--body", '{"group": 1}'], "did you mean groups?"),
            (["OffsetFetch", "--version", "9", "--body", "[]"], "a JSON object must be here"),
            (["Produce", "--version", "9", "--body", "{}"], "acks 0"),
            (["DeleteGroups", "--version", "2"], "give --yes"),
        ],
        ids=str,
    )
    def test_what_is_wrong_is_said_before_anything_is_sent(
        self, capsys: pytest.CaptureFixture[str], argv: list[str], said: str
    ) -> None:
        result = call(capsys, "--bootstrap-server", "127.0.0.1:1", "request", *argv)
        assert result.status == 2
        assert said in result.err
        assert result.err.count("\n") == 1


class TestOnPaper:
    def test_the_list_has_every_api(self, offline: Kgtool) -> None:
        listed = offline("request", "--list", "-o", "json").json["results"]
        rows = {row["api"]: row for row in listed}
        assert set(rows) == set(api.names())
        assert rows["OffsetDelete"]["changes"] is True
        assert rows["OffsetFetch"] | {"about": ""} == {
            "api": "OffsetFetch",
            "api_key": 9,
            "versions": "0-10",
            "flexible": "6+",
            "route": "coordinator",
            "changes": False,
            "about": "",
        }

    def test_the_schema_has_the_fields_of_a_version(self, offline: Kgtool) -> None:
        rows = offline("request", "OffsetCommit", "--schema", "--version", "3", "-o", "json").json
        fields = {row["field"]: row for row in rows["results"] if row["message"] == "request"}
        assert fields["retentionTimeMs"]["versions"] == "2-4"
        assert fields["retentionTimeMs"]["note"] == "-1: the broker's own retention"
        assert fields["committedMetadata"]["nullable"] == "0+"
        assert "groupInstanceId" not in fields
        text = offline("request", "OffsetCommit", "--schema").out
        assert "KIP-211" in text
        assert "      committedOffset" not in text.split("Response,")[1]


def test_a_change_whose_answer_is_lost_may_have_been_made() -> None:
    from kgtool.changes.raw_request import Answer, RoutedRequest
    from kgtool.cli.commands.request import RequestOptions, _show
    from kgtool.cli.options.change import ChangeOptions
    from kgtool.cli.output.output import Output
    from kgtool.columns.tools import REQUEST
    from kgtool.errors import ConnectionLost
    from kgtool.protocol.api import delete_groups, list_groups

    lost = ConnectionLost("b:9092 closed the connection.").after_sending()
    for name, request, is_told in (
        ("DeleteGroups", delete_groups.Request(group_ids=["g"]), True),
        ("ListGroups", list_groups.Request(), False),
    ):
        out, err = io.StringIO(), io.StringIO()
        output = Output("json", "request", out, err)
        output.begin(REQUEST)
        wanted = RequestOptions(name, {}, 2, None, False, ChangeOptions(yes=True))
        _show(output, wanted, Answer(RoutedRequest(1, request), lost), 2, "kgtool")
        assert ("may have been carried out" in err.getvalue()) is is_told
        assert output.finish() == 4
        assert json.loads(out.getvalue())["results"][0]["error"]["name"] == "CONNECTION_LOST"
