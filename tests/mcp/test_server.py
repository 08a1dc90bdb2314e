"""``kgtool mcp`` on a real broker, spoken to with the client of the official package."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import click
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from kgtool.cli.app.root import root
from kgtool.errors import UsageError
from kgtool.mcp import plans, tools
from tests.support import clients

Call = Callable[..., Any]


def converse(conversation: Callable[[Client], Any], *argv: str) -> Any:
    """Run a conversation with a server of its own."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "kgtool", "mcp", *argv], env=dict(os.environ)
    )

    async def main() -> Any:
        async with Client(server, read_timeout_seconds=60) as client:
            return await conversation(client)

    return anyio.run(main)


@pytest.fixture
def talk(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a conversation with a server that has a policy, or none."""
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(tmp_path / "journal"))

    def run(conversation: Callable[[Client], Any], policy: str | None = None) -> Any:
        if policy is not None:
            (tmp_path / "policy.toml").write_text(policy)
            monkeypatch.setenv("KGTOOL_POLICY", str(tmp_path / "policy.toml"))
        return converse(conversation, "--bootstrap-server", bootstrap)

    return run


@pytest.fixture
def group(bootstrap: str, new_topic: Callable[..., str]) -> tuple[str, str]:
    """A group that lags 3 in one partition of a topic, and its topic."""
    topic, name = new_topic("asked"), clients.unique("agent")
    clients.produce(bootstrap, topic, 5)
    clients.commit(bootstrap, name, {(topic, 0): 2})
    return name, topic


async def said(client: Client, name: str, **given: Any) -> dict[str, Any]:
    result = await client.call_tool(name, given)
    assert result.structured_content is not None, result
    return result.structured_content


async def refused(client: Client, name: str, **given: Any) -> str:
    result = await client.call_tool(name, given)
    assert result.is_error, result
    return result.content[0].text


def test_reads_are_tools_and_changes_are_not(talk: Call, group: tuple[str, str]) -> None:
    name, topic = group

    async def ask(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"list", "describe", "explain", "doctor", "request", "history"} <= tools.keys()
        assert not [each for each in tools if each.startswith("plan_") or each == "apply"]
        assert all(tool.annotations.read_only_hint for tool in tools.values())
        found = await said(client, "describe", group=[name])
        ((row,), status) = found["results"], found["exit_status"]
        assert (row["topic"], row["lag"], status) == (topic, 3, 0)
        listed = await said(client, "list", match=[name])
        assert [one["group"] for one in listed["results"]] == [name]
        unknown = await said(client, "describe", group=["no-such-group"])
        assert unknown["errors"][0]["name"] == "GROUP_ID_NOT_FOUND"
        assert "mcp = [" in await refused(client, "plan_cleanup", generated=True)

    talk(ask)


@pytest.mark.parametrize(
    ("tool", "given", "words"),
    [
        ("describe", {"group": "x"}, "group takes array"),
        ("describe", {"yes": True}, "no argument 'yes'"),
        ("explain", {}, "needs the argument 'group'"),
        ("request", {"api": "--list"}, "api takes the name"),
        ("request", {"api": "ListGroups", "body": "@/etc/passwd"}, "body takes a JSON object"),
        ("nonsense", {}, "no tool 'nonsense'"),
    ],
)
def test_nonsense_is_refused(words: str, tool: str, given: dict[str, Any]) -> None:
    """Before any process is started."""
    from kgtool.mcp.server import Service
    from kgtool.mcp.tools import Rights

    service = Service([], "x", Rights)
    result = anyio.run(lambda: service.call(tool, given))
    assert result.is_error and words in result.content[0].text


def test_a_value_is_never_an_option(talk: Call, group: tuple[str, str], bootstrap: str) -> None:
    name, _ = group

    async def ask(client: Client) -> None:
        found = await said(client, "explain", group=["--help"])
        assert found["errors"] or found["results"], found
        body = f'{{"groupsNames": ["{name}"]}}'
        done = await said(client, "request", api="DeleteGroups", body=body)
        assert done["exit_status"] == 2, done

    talk(ask)
    assert clients.committed(bootstrap, name)


def test_a_cleanup_in_two_steps_and_undo(
    talk: Call, group: tuple[str, str], bootstrap: str
) -> None:
    name, topic = group

    async def ask(client: Client) -> None:
        plan = await said(client, "plan_cleanup", group=[name])
        assert plan["plan_id"], plan
        assert clients.committed(bootstrap, name) == {(topic, 0): 2}
        done = await said(client, "apply", plan_id=plan["plan_id"], reason="TICKET-1")
        assert done["exit_status"] == 0, done
        assert name not in clients.group_ids(bootstrap)
        assert "no such plan" in await refused(client, "apply", plan_id=plan["plan_id"])
        (change,) = (await said(client, "history"))["results"]
        assert "plan_id" not in await said(client, "describe", group=[name])
        back = await said(client, "plan_undo", journal=change["id"])
        assert name not in clients.group_ids(bootstrap)
        await said(client, "apply", plan_id=back["plan_id"])
        assert "one change" in await refused(client, "plan_undo", journal="last")

    talk(ask, 'mcp = ["cleanup", "undo"]')
    assert clients.committed(bootstrap, name) == {(topic, 0): 2}


def test_what_is_gone_comes_back_in_two_steps(
    talk: Call, group: tuple[str, str], bootstrap: str
) -> None:
    """The plan changes nothing; what was committed since it is left alone; undo takes it away."""
    name, topic = group
    clients.commit(bootstrap, name, {(topic, 0): 3}, "noted")
    clients.delete_groups(bootstrap, name)

    async def ask(client: Client) -> None:
        plan = await said(client, "plan_recover", group=name)
        (row,) = plan["results"]
        assert (row["offset"], row["status"], plan["exit_status"]) == (3, "would-restore", 0)
        assert clients.committed(bootstrap, name) == {}
        done = await said(client, "apply", plan_id=plan["plan_id"])
        assert [one["status"] for one in done["results"]] == ["restored"], done
        assert clients.committed(bootstrap, name) == {(topic, 0): 3}
        assert "no such plan" in await refused(client, "apply", plan_id=plan["plan_id"])
        (change,) = (await said(client, "history"))["results"]
        assert change["command"] == "recover"
        back = await said(client, "plan_undo", journal=change["id"])
        await said(client, "apply", plan_id=back["plan_id"])
        assert clients.committed(bootstrap, name) == {}
        again = await said(client, "plan_recover", group=name, topic=[topic])
        clients.commit(bootstrap, name, {(topic, 0): 4})
        told = await refused(client, "apply", plan_id=again["plan_id"])
        assert f"{topic}-0 has changed since the plan" in told

    talk(ask, 'mcp = ["recover", "undo"]')
    assert clients.committed(bootstrap, name) == {(topic, 0): 4}


def test_a_retention_in_two_steps_and_undo(
    talk: Call, group: tuple[str, str], bootstrap: str
) -> None:
    """The rules are text; what is due goes, and comes back; nothing is due: no plan."""
    name, topic = group
    rules = f'[[groups]]\nmatch = "{name}"\nretention = "1s"\n'
    clients.commit(bootstrap, clients.unique("other"), {(topic, 0): 1})
    time.sleep(1.2)  # the last commit is older

    async def ask(client: Client) -> None:
        shown = (await said(client, "retention", rules=rules))["results"]
        (row,) = (row for row in shown if row["group"] == name)  # the broker has others' groups
        assert (row["group"], row["retention_ms"], row["action"]) == (name, 1000, "delete-group")
        plan = await said(client, "plan_retention", rules=rules)
        assert plan["plan_id"], plan
        assert clients.committed(bootstrap, name) == {(topic, 0): 2}
        done = await said(client, "apply", plan_id=plan["plan_id"])
        assert done["exit_status"] == 0, done
        assert name not in clients.group_ids(bootstrap)
        (change,) = (await said(client, "history"))["results"]
        back = await said(client, "plan_undo", journal=change["id"])
        await said(client, "apply", plan_id=back["plan_id"])
        nothing = await said(client, "plan_retention", rules=rules.replace('"1s"', '"6d"'))
        assert (nothing["plan_id"], nothing["exit_status"]) == (None, 0)
        wrong = await said(client, "plan_retention", rules="[[groups]]\nmatsch = 1\n")
        assert (wrong["plan_id"], wrong["exit_status"]) == (None, 2)

    talk(ask, 'mcp = ["retention", "undo"]')
    assert clients.committed(bootstrap, name) == {(topic, 0): 2}


def test_only_the_planned_rows_are_sent(
    talk: Call, group: tuple[str, str], bootstrap: str, new_topic: Callable[..., str]
) -> None:
    """What came after the plan is no part of it."""
    name, topic = group

    async def ask(client: Client) -> None:
        reset = await said(
            client, "plan_reset-offsets", group=name, all_topics=True, to_latest=True
        )
        clients.produce(bootstrap, topic, 4)
        done = await said(client, "apply", plan_id=reset["plan_id"])
        assert done["exit_status"] == 0, done
        assert clients.committed(bootstrap, name) == {(topic, 0): 5}
        gone = await said(client, "plan_delete-offsets", group=name, topic=[topic])
        other = new_topic("later")
        clients.produce(bootstrap, other, 1)
        clients.commit(bootstrap, name, {(other, 0): 1})
        await said(client, "apply", plan_id=gone["plan_id"])
        assert clients.committed(bootstrap, name) == {(other, 0): 1}

    talk(ask, 'mcp = ["delete-offsets", "reset-offsets"]')


@pytest.mark.parametrize("command", ["delete-offsets", "reset-offsets"])
def test_what_was_committed_since_the_plan_is_left_alone(
    talk: Call, group: tuple[str, str], bootstrap: str, command: str
) -> None:
    name, topic = group
    more: dict[str, Any] = {"to_earliest": True} if command == "reset-offsets" else {}

    async def ask(client: Client) -> None:
        plan = await said(client, f"plan_{command}", group=name, topic=[topic], **more)
        clients.commit(bootstrap, name, {(topic, 0): 4})
        told = await refused(client, "apply", plan_id=plan["plan_id"])
        assert f"{topic}-0 has changed since the plan" in told
        assert "no such plan" in await refused(client, "apply", plan_id=plan["plan_id"])

    talk(ask, f'mcp = ["{command}"]')
    assert clients.committed(bootstrap, name) == {(topic, 0): 4}


def test_a_policy_that_is_changed_meanwhile_holds(
    talk: Call, group: tuple[str, str], bootstrap: str, tmp_path: Path
) -> None:
    name, _ = group

    async def ask(client: Client) -> None:
        plan = await said(client, "plan_cleanup", group=[name])
        (tmp_path / "policy.toml").write_text("mcp = []")
        assert "No policy lets an agent" in await refused(client, "apply", plan_id=plan["plan_id"])

    talk(ask, 'mcp = ["cleanup"]')
    assert clients.committed(bootstrap, name)


def test_calls_do_not_wait_for_each_other(talk: Call, group: tuple[str, str]) -> None:
    """Slow ones are overtaken: one after the other, the fast one would be the last."""
    name, _ = group

    async def ask(client: Client) -> None:
        order: list[str] = []

        async def call(what: str, tool: str, **given: Any) -> None:
            await client.call_tool(tool, given)
            order.append(what)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(lambda: call("slow", "doctor"))
            await anyio.sleep(0.1)
            tasks.start_soon(lambda: call("fast", "history"))
        assert sorted(order) == ["fast", *["slow"] * 4]
        assert order[-1] == "slow"

    talk(ask)


@pytest.mark.parametrize(
    "tool", [*tools.READS, *tools.CHANGES, tools.REQUEST], ids=lambda t: t.name
)
def test_every_argument_is_one_of_its_command(tool: tools.Tool) -> None:
    command: click.Command = root
    words = [word for word in tool.command if not word.startswith("--")]
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    known: dict[str, Any] = {
        name.lstrip("-").replace("-", "_"): option
        for option in command.params
        for name in option.opts
    }
    for param in tool.params:
        if param.name == "rules":  # the text of what the command takes as a file
            assert known["path"].metavar == "FILE"
            continue
        option = known[param.name]
        assert (param.kind == "flag") == bool(getattr(option, "is_flag", False)), param
        assert param.kind != "texts" or option.multiple, param


def test_a_plan_ends_after_fifteen_minutes() -> None:
    now = [time.monotonic()]
    kept = plans.Plans(lambda: now[0])
    one, other = kept.keep("undo", ((), None)), kept.keep("undo", ((), None))
    now[0] += plans.KEPT_S - 1
    assert kept.take(one).command == "undo"
    now[0] += 2
    with pytest.raises(UsageError, match="older than 15 minutes"):
        kept.take(other)
