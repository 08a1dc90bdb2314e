"""``kgtool context``, and what a context does to other commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgtool.config.contexts import load
from kgtool.config.paths import contexts_file
from kgtool.sandbox.cluster import Sandbox
from tests.cli import run
from tests.cli.pseudo import Terminal
from tests.cli.run import Result, call
from tests.support import clients


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("KGTOOL_CONTEXT", raising=False)
    yield tmp_path


@pytest.fixture
def context(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    return lambda *argv: call(capsys, "context", *argv)


def test_add_list_use_remove(context: Callable[..., Result]) -> None:
    assert "no context yet" in context("list").err
    assert context("add", "dev", "--bootstrap-server", "localhost:1").status == 0
    assert context("add", "prod-eu", "--bootstrap-server", "b1:1,b2:1").status == 0
    listed = context("list", "-o", "json").json["results"]
    assert [(row["context"], row["protected"], row["current"]) for row in listed] == [
        ("dev", False, False),
        ("prod-eu", True, False),
    ]
    assert context("use", "dev").status == 0
    assert [row["current"] for row in context("list", "-o", "json").json["results"]] == [
        True,
        False,
    ]
    assert context("use", "--none").status == 0
    assert load().current is None
    assert context("remove", "dev").status == 0
    assert "dev" not in context("list").out
    assert context("remove", "dev").status == 2


def test_a_name_is_not_taken_by_accident(context: Callable[..., Result]) -> None:
    context("add", "dev", "--bootstrap-server", "localhost:1")
    again = context("add", "dev", "--bootstrap-server", "localhost:2")
    assert again.status == 2
    assert "--replace" in again.err
    assert load().by_name["dev"].bootstrap == "localhost:1"
    assert context("add", "dev", "--bootstrap-server", "localhost:2", "--replace").status == 0
    assert load().by_name["dev"].bootstrap == "localhost:2"


SECRETS: dict[str, list[str]] = {
    "a password": [
        "--user",
        "a",
        "--password",
        "h1dden",
        "--property",
        "security.protocol=SASL_SSL",
    ],
    "a secret": ["--secret", "ssl.key.password=h1dden"],
    "a secret property": ["--property", "ssl.key.password=h1dden"],
    "a JAAS line": ["--property", 'sasl.jaas.config=x.Y required password="h1dden";'],
    "an odd word": ["--property", "=h1dden"],
    "an odd secret": ["--secret", "env:h1dden"],
}


@pytest.mark.parametrize("options", SECRETS.values(), ids=SECRETS)
def test_secrets_are_kept_by_reference_only(
    context: Callable[..., Result], options: list[str]
) -> None:
    result = context("add", "a", "--bootstrap-server", "b:1", *options)
    assert result.status == 2
    assert "h1dden" not in (result.out + result.err).replace("'env:h1dden'", "")
    assert not Path(contexts_file()).exists()


def test_what_can_be_refused_at_once(context: Callable[..., Result]) -> None:
    for options, said in (
        (["a"], "--bootstrap-server"),
        (["a b", "--bootstrap-server", "b:1"], "can't be called"),
        (["a", "--bootstrap-server", "b"], "host:port"),
        (["a", "--bootstrap-server", "b:1", "--user", "x"], "belong together"),
        (["a", "--bootstrap-server", "b:1", "--user", "x", "--password", "env:P"], "SASL"),
    ):
        result = context("add", *options)
        assert result.status == 2
        assert said in result.err
    assert context("use").status == 2
    assert context("use", "a", "--none").status == 2


def test_a_variable_in_a_jaas_line_is_no_secret(context: Callable[..., Result]) -> None:
    line = 'sasl.jaas.config=x.Y required username="a" password="${env:PW}";'
    assert context("add", "a", "--bootstrap-server", "b:1", "--property", line).status == 0
    assert "${env:PW}" in Path(contexts_file()).read_text()


def test_a_misspelt_property_is_pointed_out(context: Callable[..., Result]) -> None:
    added = context(
        "add",
        "a",
        "--bootstrap-server",
        "b:1",
        "--property",
        "sasl.mechansim=PLAIN",
        "--secret",
        "ssl.truststore.passwort=env:P",
    )
    assert added.status == 0
    assert "Is sasl.mechanism meant?" in added.err
    assert "Is ssl.truststore.password meant?" in added.err
    good = context(
        "add",
        "b",
        "--bootstrap-server",
        "b:1",
        "--property",
        "security.protocol=SASL_SSL",
        "--user",
        "u",
        "--password",
        "env:P",
    )
    assert good.err == ""


# -- on a real broker -------------------------------------------------------------------------


@pytest.mark.broker
@pytest.mark.parametrize("form", [["list"], ["--list"]], ids=["subcommand", "drop-in"])
def test_a_context_is_enough(
    kafka: Sandbox,
    context: Callable[..., Result],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    form: list[str],
) -> None:
    context("add", "dev", "--bootstrap-server", kafka.bootstrap)
    assert call(capsys, *form).status == 2, "it is not in use yet"
    assert call(capsys, "--context", "dev", *form).status == 0
    assert load().by_name["dev"].cluster_id == kafka.cluster_id
    monkeypatch.setenv("KGTOOL_CONTEXT", "dev")
    assert call(capsys, *form).status == 0
    monkeypatch.delenv("KGTOOL_CONTEXT")
    context("use", "dev")
    assert call(capsys, *form).status == 0
    unknown = call(capsys, "--context", "dvv", *form)
    assert unknown.status == 2
    assert "known: dev" in unknown.err


@pytest.mark.broker
def test_another_cluster_behind_the_same_name_is_refused(
    kafka: Sandbox, context: Callable[..., Result], capsys: pytest.CaptureFixture[str]
) -> None:
    group, topic = (
        clients.unique("pinned"),
        clients.create_topic(kafka.bootstrap, clients.unique("t")),
    )
    clients.commit(kafka.bootstrap, group, {(topic, 0): 0})
    address = ("--bootstrap-server", kafka.bootstrap)
    context("add", "dev", *address, "--cluster-id", "AnotherClusterXXXXXXXX")
    for argv in (["list"], ["describe", "--group", group], ["delete", "--group", group, "--yes"]):
        result = call(capsys, "--context", "dev", *argv)
        assert (result.status, result.out) == (4, "")
        assert "AnotherClusterXXXXXXXX" in result.err
        assert kafka.cluster_id in result.err
        assert "--replace" in result.err
    assert group in clients.group_ids(kafka.bootstrap), "nothing was changed"
    listed = call(capsys, "--context", "dev", "list", "-o", "json")
    assert [error["name"] for error in listed.json["errors"]] == ["WRONG_CLUSTER"]


@pytest.mark.broker
def test_a_protected_context_asks_twice(kafka: Sandbox, context: Callable[..., Result]) -> None:
    context("add", "prod-eu", "--bootstrap-server", kafka.bootstrap)
    topic = clients.create_topic(kafka.bootstrap, clients.unique("t"))
    for typed, status in (("n\n", 1), ("y\n\x04", 1), ("y\nprod\n", 1), ("y\nprod-eu\n", 0)):
        group = clients.unique("protected")
        clients.commit(kafka.bootstrap, group, {(topic, 0): 0})
        argv = run.command_line("--context", "prod-eu", "delete", "--group", group)
        with Terminal(argv, columns=200, env=dict(os.environ)) as terminal:
            asked = terminal.read_until(r"\[y/N\]: ")
            assert "prod-eu (" in asked and "): Delete 1 group?" in asked
            answer, _, name = typed.partition("\n")
            terminal.type(f"{answer}\n")
            if name:
                asked = terminal.read_until("to confirm: ")
                assert "prod-eu is protected. Type its name" in asked
                terminal.type(name)
            assert terminal.read_all() == status
        assert (group in clients.group_ids(kafka.bootstrap)) == (status != 0)


@pytest.mark.broker
def test_an_unprotected_context_asks_once(kafka: Sandbox, context: Callable[..., Result]) -> None:
    context("add", "prod-not", "--bootstrap-server", kafka.bootstrap, "--not-protected")
    topic = clients.create_topic(kafka.bootstrap, clients.unique("t"))
    group = clients.unique("unprotected")
    clients.commit(kafka.bootstrap, group, {(topic, 0): 0})
    argv = run.command_line("--context", "prod-not", "delete", "--group", group)
    with Terminal(argv, columns=200, env=dict(os.environ)) as terminal:
        terminal.read_until(r"\[y/N\]: ")
        terminal.type("y\n")
        assert terminal.read_all() == 0
    assert group not in clients.group_ids(kafka.bootstrap)


def test_show_and_rename(context: Callable[..., Result]) -> None:
    assert (
        context(
            "add",
            "dev",
            "--bootstrap-server",
            "b:1",
            "--user",
            "alice",
            "--password",
            "env:SECRET",
            "--property",
            "security.protocol=SASL_SSL",
            "--property",
            "sasl.mechanism=PLAIN",
            "--use",
        ).status
        == 0
    )
    shown = context("show")
    assert (shown.status, shown.err) == (0, "")
    assert "secrets         password=env:SECRET" in shown.out.splitlines()
    (row,) = context("show", "dev", "-o", "json").json["results"]
    assert row["secrets"] == {"password": "env:SECRET"}
    assert row["properties"] == {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    assert context("rename", "dev", "staging").status == 0
    assert load().current == "staging"
    assert list(load().by_name) == ["staging"]
    assert load().get("staging").user == "alice"
    for argv, said in (
        (["show", "dev"], "There is no context 'dev'; known: staging."),
        (["rename", "dev", "x"], "There is no context 'dev'"),
        (["rename", "staging", "a b"], "can't be called 'a b'"),
        (["rename", "staging", "staging"], "There is a context staging already."),
    ):
        refused = context(*argv)
        assert (refused.status, refused.out) == (2, "")
        assert said in refused.err
    assert context("use", "--none").status == 0
    assert "No context is in use" in context("show").err
