"""No secret is left anywhere: not on the terminal, in the journal, in a context, nor in --debug."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

import pytest
from mcp import Client

from tests.cli.run import Result, call
from tests.exporter.test_exporter import running as exporting
from tests.mcp.test_server import converse
from tests.net.test_sasl import PASSWORD_LINES, TOKENS, listener_of, logged_in
from tests.net.test_tls import key, trust
from tests.support.certificates import PASSWORD, TRICKY
from tests.support.clients import commit, committed, create_topic, unique
from tests.support.oidc import CLIENT
from tests.support.outcomes import Outcome
from tests.support.secure import ALICE, SecureKafka

pytestmark = pytest.mark.broker
TABLE = "Secrets found in output, journal, contexts and wire log"


def forms(secret: str) -> set[bytes]:
    """A secret as it is, and as it is written in headers, forms, logs and dumps."""
    raw = secret.encode()
    texts = {
        secret,
        base64.b64encode(raw).decode().rstrip("="),
        quote(secret, safe=""),
        quote_plus(secret),
        raw.hex(),
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
    }
    return {text.encode() for text in texts}


class Traces(NamedTuple):
    """Everything that a user's machine keeps or shows of some runs."""

    folder: Path
    shown: list[str]

    def find(self, *secrets: str) -> list[str]:
        places = {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}
        places |= {f"output {at}": text.encode() for at, text in enumerate(self.shown)}
        return [
            place
            for place, data in places.items()
            for secret in secrets
            if any(form in data for form in forms(secret))
        ]


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    folder = tmp_path / "kept"
    folder.mkdir()
    monkeypatch.setenv("KGTOOL_JOURNAL_DIR", str(folder / "journal"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    yield Traces(folder, [])


@pytest.mark.parametrize("mechanism", [*PASSWORD_LINES, *TOKENS, "GSSAPI"])
def test_changes_and_their_undoing_leave_no_secret(
    secure: SecureKafka,
    client_file: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
    traces: Traces,
    monkeypatch: pytest.MonkeyPatch,
    mechanism: str,
    outcome: Outcome,
) -> None:
    at = secure.cluster.bootstrap
    topic, group = create_topic(at, unique("t")), unique("secret")
    commit(at, group, {(topic, 0): 0})
    secrets = [ALICE[1], CLIENT[1], PASSWORD, TRICKY]

    def run(*argv: str) -> Result:
        done = call(capsys, *argv, "--debug")
        traces.shown.append(done.out + done.err)
        return done

    with (
        outcome(TABLE, mechanism, "found") as cell,
        logged_in(secure, mechanism, monkeypatch) as given,
    ):
        tls = {**trust(secure, "trust.jks"), **key(secure, "apart.jks")}
        file = client_file(**{**tls, **given, "security_protocol": "SASL_SSL"})
        if mechanism == TOKENS[1]:
            secrets.append(str(given["sasl_jaas_config"]).split('token="')[1].split('"')[0])
        login = ["--bootstrap-server", secure.at(listener_of(mechanism, True))]
        login += ["--command-config", file]
        assert run("context", "add", "kept", *login).status == 0
        for argv in (
            ["describe", "--group", group, "-o", "json"],
            ["delete-offsets", "--group", group, "--topic", f"{topic}:0", "--yes"],
            ["undo", "last", "--yes", "-o", "yaml"],
            ["--delete", "--group", group],
        ):
            assert run(*argv, "--context", "kept").status == 0, (argv, traces.shown[-1])
        assert run("history").status == 0
        wire = "".join(traces.shown)
        assert "SaslAuthenticate" in wire, "the wire log is there"
        assert "OffsetDelete" in wire
        assert list(traces.folder.rglob("*.jsonl")), "the journal is there"
        assert traces.find(*secrets) == []
        cell.says("none")
    assert committed(at, group) == {}


def test_a_context_with_a_password_of_its_own(
    secure: SecureKafka,
    capsys: pytest.CaptureFixture[str],
    traces: Traces,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
) -> None:
    monkeypatch.setenv("ALICES_PASSWORD", ALICE[1])
    added = call(
        capsys,
        "context",
        "add",
        "alice",
        "--bootstrap-server",
        secure.at("SASL"),
        "--user",
        "alice",
        "--password",
        "env:ALICES_PASSWORD",
        "--property",
        "security.protocol=SASL_PLAINTEXT",
        "--property",
        "sasl.mechanism=SCRAM-SHA-256",
    )
    assert added.status == 0, added.err
    with outcome(TABLE, "a context's password", "found") as cell:
        for argv in (["context", "list", "-o", "json"], ["--context", "alice", "list"]):
            done = call(capsys, *argv, "--debug")
            traces.shown.append(done.out + done.err)
            assert done.status == 0, done.err
        assert (traces.folder / "config/kgtool/contexts.toml").exists()
        assert traces.find(ALICE[1]) == []
        cell.says("none")


def test_no_secret_leaves_by_exporter_agent_or_second_journal(
    secure: SecureKafka,
    client_file: Callable[..., str],
    traces: Traces,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
) -> None:
    at = secure.cluster.bootstrap
    topic, group = create_topic(at, unique("t")), unique("secret")
    commit(at, group, {(topic, 0): 0})
    monkeypatch.setenv("KGTOOL_JOURNAL_COPY", (traces.folder / "copy").as_uri())
    policy, token = traces.folder / "policy.toml", traces.folder.parent / "token"
    policy.write_text('mcp = ["cleanup"]')
    token.write_text(TRICKY)
    monkeypatch.setenv("KGTOOL_POLICY", str(policy))
    login = [
        "--command-config",
        client_file(
            **{
                **trust(secure, "trust.jks"),
                **key(secure, "apart.jks"),
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "PLAIN",
                "sasl_jaas_config": PASSWORD_LINES["PLAIN"],
            }
        ),
    ]

    async def agent(client: Client) -> None:
        async def ask(name: str, **given: object) -> Any:
            result = await client.call_tool(name, given)
            traces.shown.append(repr(result))
            return result.structured_content

        await ask("describe", group=[group])
        await ask("doctor", group=[group])
        await ask(
            "request",
            api="DescribeConfigs",
            body='{"resources": [{"resourceType": 4, '
            '"resourceName": "1", "configurationKeys": null}]}',
        )
        plan = await ask("plan_cleanup", group=[group])
        assert (await ask("apply", plan_id=plan["plan_id"]))["exit_status"] == 0, traces.shown
        await ask("history")

    with outcome(TABLE, "exporter, mcp, a journal's copy", "found") as cell:
        with exporting(
            secure.at("SASLTLS"), "--token-file", str(token), "--match", group, *login
        ) as exporter:
            traces.shown.append(str(exporter.until_up(token=TRICKY).keys()))
            traces.shown.append(exporter.text(TRICKY))
        assert f'group="{group}"' in traces.shown[-1], traces.shown
        converse(agent, "--bootstrap-server", secure.at("SASLTLS"), *login)
        assert list(traces.folder.glob("copy/*/*")), "the journal's copy is there"
        assert traces.find(ALICE[1], PASSWORD, TRICKY) == []
        cell.says("none")


def test_the_search_would_find_them(traces: Traces) -> None:
    secret = 'a/b+c "d"'
    for text in (secret, base64.b64encode(secret.encode()).decode(), quote_plus(secret)):
        traces.shown[:] = [f"before {text} after"]
        assert traces.find(secret) == ["output 0"]
    traces.shown.clear()
    (traces.folder / "journal").mkdir()
    (traces.folder / "journal" / "x.jsonl").write_text(f"{{{secret}}}")
    assert traces.find(secret) == [str(traces.folder / "journal" / "x.jsonl")]
