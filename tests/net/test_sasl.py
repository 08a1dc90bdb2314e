"""Logins at real listeners: every mechanism and refusal, and nothing that gives a secret away."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool import GroupAdmin
from kgtool.client.ops import ANY, Pause, gather
from kgtool.client.ops import call as call_broker
from kgtool.config import settings
from kgtool.errors import AuthenticationError, KgError
from kgtool.net.session import Session
from kgtool.protocol.api import describe_configs, metadata
from kgtool.queries.groups.list import list_groups as list_operation
from kgtool.sandbox.broker import free_ports
from tests.cli.run import start
from tests.net.conftest import Refused, Run
from tests.net.ear import Ear
from tests.net.test_oidc import credentials
from tests.net.test_tls import TRUST, TYPES, trust
from tests.support import kerberos
from tests.support.clients import commit, create_topic, unique, wait_for
from tests.support.oidc import Endpoint, serve
from tests.support.outcomes import Outcome
from tests.support.proxy import Fault, Plan, Proxies
from tests.support.secure import ALICE, BOB, SecureKafka, krb5, oauth, plain, scram

pytestmark = pytest.mark.broker

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
UNSECURED = oauth(unsecuredLoginStringClaim_sub="alice", extension_team="ops")
PASSWORD_LINES = {
    "PLAIN": plain(ALICE),
    "SCRAM-SHA-256": scram(ALICE),
    "SCRAM-SHA-512": scram(ALICE),
}


def login(mechanism: str, line: str, protocol: str = "SASL_PLAINTEXT") -> dict[str, object]:
    return {"security_protocol": protocol, "sasl_mechanism": mechanism, "sasl_jaas_config": line}


def keytab_login(secure: SecureKafka) -> str:
    return krb5(
        useKeyTab="true",
        storeKey="true",
        keyTab=f"{secure.kdc.folder}/alice.keytab",
        principal=f"alice@{kerberos.REALM}",
    )


@pytest.fixture(scope="module")
def group(secure: SecureKafka) -> str:
    """A group to be seen through every listener."""
    bootstrap = secure.cluster.bootstrap
    name, topic = unique("seen"), create_topic(bootstrap, unique("t"))
    commit(bootstrap, name, {(topic, 0): 0})
    return name


NO_TLS = "none"
TOKENS = ("OAUTHBEARER (unsecured)", "OAUTHBEARER (a token)", "OAUTHBEARER (OIDC)")


@contextlib.contextmanager
def logged_in(
    secure: SecureKafka, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, object]]:
    """The properties of a login, and what it takes besides."""
    if mechanism == "GSSAPI":
        assert kerberos.is_installed(), kerberos.HOW
        for name, value in secure.kdc.environ.items():
            monkeypatch.setenv(name, value)
        yield {**login("GSSAPI", keytab_login(secure)), "sasl_kerberos_service_name": "kafka"}
    elif mechanism == TOKENS[0]:
        yield login("OAUTHBEARER", UNSECURED)
    elif mechanism == TOKENS[1]:
        yield login("OAUTHBEARER", oauth(token=secure.keys.token()))
    elif mechanism == TOKENS[2]:
        with serve(Endpoint(secure.keys)) as endpoint:
            yield credentials(endpoint)
    else:
        yield login(mechanism, PASSWORD_LINES[mechanism])


def listener_of(mechanism: str, is_tls: bool) -> str:
    """The listener that takes a login, with or without TLS around it."""
    if mechanism in TOKENS[1:]:
        return "OIDCTLS" if is_tls else "OIDC"
    if mechanism == "GSSAPI" and not is_tls:
        return "KERBEROS"
    return "SASLTLS" if is_tls else "SASL"


@pytest.mark.parametrize("store", [*TRUST, NO_TLS])
@pytest.mark.parametrize("mechanism", [*PASSWORD_LINES, *TOKENS, "GSSAPI"])
def test_every_mechanism_in_tls_with_every_kind_of_store_and_without(
    secure: SecureKafka,
    list_groups: Run,
    group: str,
    mechanism: str,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
) -> None:
    is_tls = store != NO_TLS
    kind = TYPES[store.rpartition(".")[2]] if is_tls else NO_TLS
    with (
        logged_in(secure, mechanism, monkeypatch) as given,
        outcome("Logins and stores", mechanism, kind),
    ):
        if is_tls:
            given = {**trust(secure, store), **given, "security_protocol": "SASL_SSL"}
        result = list_groups(listener_of(mechanism, is_tls), **given)
        assert result.status == 0, result.err
        assert group in result.out


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
def test_names_and_passwords_with_everything_that_needs_escaping(
    secure: SecureKafka,
    list_groups: Run,
    client_file: Callable[..., str],
    group: str,
    mechanism: str,
) -> None:
    line = plain(BOB) if mechanism == "PLAIN" else scram(BOB)
    result = list_groups("SASL", **login(mechanism, line))
    assert result.status == 0, result.err
    assert group in result.out
    if mechanism == SCRAM[0]:
        path = client_file(**login(mechanism, line))
        done = secure.cluster.run_tool(
            "kafka-consumer-groups",
            "--bootstrap-server",
            secure.at("SASL"),
            "--command-config",
            path,
            "--list",
        )
        assert group in done.stdout.splitlines(), "Kafka's own tool reads the file alike"


def test_values_of_the_environment_and_of_files(
    list_groups: Run, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_USER", ALICE[0])
    (tmp_path / "secrets.properties").write_text(f"alice.password = {ALICE[1]}\n")
    line = plain(("${env:KAFKA_USER}", f"${{file:{tmp_path}/secrets.properties:alice.password}}"))
    result = list_groups("SASL", **login("PLAIN", line))
    assert result.status == 0, result.err
    assert group in result.out


def test_a_delegation_token(
    secure: SecureKafka, list_groups: Run, client_file: Callable[..., str], group: str
) -> None:
    path = client_file(**login("SCRAM-SHA-256", scram(ALICE)))
    done = secure.cluster.run_tool(
        "org.apache.kafka.tools.DelegationTokenCommand",
        "--bootstrap-server",
        secure.at("SASL"),
        "--command-config",
        path,
        "--create",
        "--max-life-time-period",
        "-1",
    )
    row = done.stdout.splitlines()[-1].split()
    assert len(row) > 2, done.stdout + done.stderr
    token = (row[0], row[1])
    given = login("SCRAM-SHA-256", scram(token, tokenauth="true"))
    # The broker learns of the token from the controller's log, a moment after it was made.
    wait_for(lambda: group in list_groups("SASL", **given).out, "a login with the token")
    wrong = (row[0], "bm9wZQ==")
    result = list_groups("SASL", **login("SCRAM-SHA-256", scram(wrong, tokenauth="true")))
    assert result.status == 4


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", *SCRAM])
@pytest.mark.parametrize(
    "user",
    [("alice", "wr0ng-pass"), ("nobody", "wr0ng-pass")],
    ids=["wrong password", "unknown user"],
)
def test_a_refused_login_is_one_sentence_in_under_5_s(
    secure: SecureKafka, list_groups: Run, mechanism: str, user: tuple[str, str], refused: Refused
) -> None:
    line = plain(user) if mechanism == "PLAIN" else scram(user)
    what = "wrong password" if user[0] == ALICE[0] else "unknown user"
    result = refused(f"{mechanism}: {what}", lambda: list_groups("SASL", **login(mechanism, line)))
    assert secure.at("SASL") in result.err
    assert "refused the login" in result.err
    assert mechanism in result.err
    assert user[1] not in result.err


def test_a_refused_login_is_not_tried_again(
    secure: SecureKafka, client_file: Callable[..., str]
) -> None:
    """Failures are counted by whoever locks accounts: one a run, with many addresses too."""
    path = client_file(**login("PLAIN", plain(("alice", "wr0ng-pass"))))
    with (
        contextlib.closing(Ear(secure.ports["SASL"])) as first,
        contextlib.closing(Ear(secure.ports["SASL"])) as second,
    ):
        made = settings(f"{first.address},{second.address}", path)
        assert made is not None
        with Session(made) as session, pytest.raises(AuthenticationError, match="refused the"):
            session.connect()
        assert (first.heard + second.heard).count(b"wr0ng-pass") == 1


def test_a_mechanism_that_is_not_enabled_names_those_that_are(
    list_groups: Run, refused: Refused
) -> None:
    result = refused(
        "PLAIN: not enabled", lambda: list_groups("OIDC", **login("PLAIN", plain(ALICE)))
    )
    assert "enabled there: OAUTHBEARER" in result.err
    unknown = refused(
        "SCRAM-SHA-1: unknown", lambda: list_groups("SASL", **login("SCRAM-SHA-1", scram(ALICE)))
    )
    for name in (*PASSWORD_LINES, "OAUTHBEARER"):
        assert name in unknown.err


def test_a_login_at_a_listener_without_one(list_groups: Run, refused: Refused) -> None:
    result = refused(
        "PLAIN: a listener without logins",
        lambda: list_groups("PLAINTEXT", **login("PLAIN", plain(ALICE))),
    )
    assert "without a login" in result.err
    assert "security.protocol" in result.err


def test_no_login_at_a_listener_that_wants_one(list_groups: Run, refused: Refused) -> None:
    result = refused("no login", lambda: list_groups("SASL"))
    assert "requires a login" in result.err
    assert "SCRAM-SHA-256" in result.err


def test_a_login_without_tls_at_a_tls_listener(list_groups: Run, refused: Refused) -> None:
    result = refused(
        "PLAIN: no TLS at a listener with both",
        lambda: list_groups("SASLTLS", **login("PLAIN", plain(ALICE))),
    )
    assert "speaks TLS" in result.err


@pytest.mark.parametrize("kind", ["lost-answer", "reset"])
def test_a_broker_that_hangs_up_on_a_wrong_password(
    secure: SecureKafka, list_groups: Run, refused: Refused, kind: str
) -> None:
    """Not every broker answers with an error: it is no question of the listener then."""
    (port,) = free_ports(1)
    with Proxies({1: (port, secure.ports["SASL"])}) as proxies:
        plan = proxies.plans["wrong"] = Plan(Fault(kind, 1, api=36, times=9))
        given = {**login("PLAIN", plain(("alice", "wr0ng"))), "client_id": "wrong"}
        result = refused(
            f"PLAIN: wrong password, {kind}",
            lambda: list_groups("SASL", "--bootstrap-server", proxies.bootstrap, **given),
        )
    assert result.err.count("during the login (PLAIN)") == 1
    assert "Check username and password" in result.err
    assert "TLS or SASL listener" not in result.err
    assert plan.struck == 1, "accounts may be locked after some failures"


def test_json_has_the_error_too(list_groups: Run) -> None:
    result = list_groups("SASL", "-o", "json", **login("PLAIN", plain(("alice", "wr0ng"))))
    assert result.status == 4
    (error,) = result.json["errors"]
    assert error["name"] == "AUTHENTICATION_FAILED"
    assert error["code"] is None


def test_a_login_from_the_file_that_kafka_opts_names(
    list_groups: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """As with Kafka's scripts: it was not read, and not named."""
    file = tmp_path / "jaas.conf"
    file.write_text(f"KafkaClient {{\n  {plain(ALICE)}\n}};\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    result = list_groups("SASL", **given)
    assert result.status == 0 and group in result.out, result
    file.unlink()
    result = list_groups("SASL", **given)
    assert result.status == 2 and str(file) in result.err and "KAFKA_OPTS" in result.err


def test_a_program_gets_the_login_of_kafka_opts_and_hears_what_is_not_used(
    secure: SecureKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """Was: the file was ignored, and so was what the commands say of the configuration."""
    file = tmp_path / "jaas.conf"
    file.write_text(f"KafkaClient {{\n  {plain(ALICE)}\n}};\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    given = {
        "bootstrap.servers": secure.at("SASL"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "retries": "3",
        "sasl.mechanisn": "PLAIN",
    }
    with pytest.warns(UserWarning) as said:
        admin = GroupAdmin(properties=given)
    first, second = sorted(str(one.message) for one in said)
    assert "retries, which is not used" in first and "Is sasl.mechanism meant?" in second
    with admin:
        assert group in [row.group for row in admin.list_groups().groups]


def test_variables_in_the_properties_of_a_program(
    secure: SecureKafka, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    """Was: ``${env:PW}`` was taken for the password."""
    monkeypatch.setenv("PW", ALICE[1])
    given = {
        "bootstrap.servers": secure.at("SASL"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": plain((ALICE[0], "${env:PW}")),
    }
    with GroupAdmin(properties=given) as admin:
        assert group in [row.group for row in admin.list_groups().groups]


# -- sessions that end ------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_login_is_renewed_before_its_session_ends(
    secure: SecureKafka, client_file: Callable[..., str], mechanism: str
) -> None:
    """Sessions of 2 s (KIP-368): the broker hangs up on whoever asks later without a new login."""
    made = settings(secure.at("SHORT"), client_file(**login(mechanism, PASSWORD_LINES[mechanism])))
    assert made is not None
    with Session(made) as session:
        session.run(list_operation(session.cluster))
        connections = set(map(id, session.loop._pool._connections.values()))
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            listing = session.run(list_operation(session.cluster))
            assert listing.errors == []
            time.sleep(0.3)
        assert set(map(id, session.loop._pool._connections.values())) == connections
        time.sleep(2.5)  # past the end of the session: the login comes first all the same
        assert session.run(list_operation(session.cluster)).errors == []


def test_a_login_is_renewed_in_the_middle_of_a_long_answer(
    secure: SecureKafka, client_file: Callable[..., str]
) -> None:
    """Was: the renewed login waits behind the answer, and its waiting killed the connection."""
    with contextlib.closing(Ear(secure.ports["SHORT"])) as ear:
        place = ("127.0.0.1", ear.port)
        made = settings(ear.address, client_file(**login("PLAIN", plain(ALICE))), 9000)
        assert made is not None
        with Session(made, progress=True) as session:
            session.connect()
            (connection,) = session.loop._pool._connections.values()
            ear.slow = True
            replies = session.run(gather([_long_answer(), _later(2.0)]))
            assert [isinstance(reply, KgError) for reply in replies] == [False, False], replies
            assert session.loop._pool._connections[place] is connection
            assert not connection.is_closed
            ear.slow = False
            until = time.monotonic() + 10
            while ear.heard.count(ALICE[1].encode()) < 2 and time.monotonic() < until:
                session.run(_later(0.1))
            assert ear.heard.count(ALICE[1].encode()) == 2, "it was renewed"
            assert not connection.is_closed


def _long_answer() -> Any:
    """The configuration of the broker with all its documentation: some 100 kB."""
    resource = describe_configs.RequestResource(resource_type=4, resource_name="1")
    ask = describe_configs.Request(resources=[resource], include_documentation=True)
    return (yield from call_broker(ANY, ask))


def _later(seconds: float) -> Any:
    yield Pause(seconds)
    return (yield from call_broker(ANY, metadata.Request(topics=[])))


# -- secrets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [*PASSWORD_LINES, "OAUTHBEARER"])
@pytest.mark.parametrize("listener", ["SASL", "OIDC", "PLAINTEXT", "TLS"])
def test_no_secret_in_any_output(
    secure: SecureKafka, list_groups: Run, mechanism: str, listener: str
) -> None:
    """Whatever goes wrong or right, and however much is told of it."""
    token = secure.keys.token()
    line = oauth(token=token) if mechanism == "OAUTHBEARER" else PASSWORD_LINES[mechanism]
    result = list_groups(listener, "--debug", "-o", "json", **login(mechanism, line))
    shown = result.out + result.err
    if listener == "SASL" and mechanism != "OAUTHBEARER":
        assert "SaslAuthenticate" in result.err, "the wire log is there"
    assert ALICE[1] not in shown
    assert base64.b64encode(ALICE[1].encode()).decode() not in shown
    assert token not in shown
    assert token.split(".")[2] not in shown


def test_no_secret_in_the_process_list(
    secure: SecureKafka, client_file: Callable[..., str]
) -> None:
    path = client_file(
        **trust(secure),
        **{
            "ssl_keystore_location": secure.certificates / "apart.jks",
            "ssl_keystore_password": "unused here",
            "ssl_keystore_type": "JKS",
        },
    )
    Path(path).write_text(
        Path(path).read_text() + "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={plain(ALICE)}\n"
    )
    argv = ["list", "--bootstrap-server", secure.at("SASL"), "--command-config", path]
    with start(*argv) as process:
        seen = ""
        while process.poll() is None:
            with contextlib.suppress(OSError):  # it may end at any moment
                own = Path(f"/proc/{process.pid}")
                children = (own / f"task/{process.pid}/children").read_text().split()
                for pid in (str(process.pid), *children):
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                    seen += line.replace(b"\0", b" ").decode(errors="replace")
            time.sleep(0.01)
        assert process.returncode == 0
    assert "client.properties" in seen, "it was seen at all"
    assert ALICE[1] not in seen


def test_no_secret_in_the_repr_of_settings(
    secure: SecureKafka, client_file: Callable[..., str]
) -> None:
    path = client_file(
        **login("PLAIN", plain(ALICE), "SASL_SSL"),
        ssl_keystore_type="PKCS12",
        ssl_keystore_location="/nowhere.p12",
        ssl_keystore_password="h1dden-a",
        ssl_truststore_password="h1dden-b",
        ssl_truststore_location="/nowhere.jks",
        ssl_key_password="h1dden-c",
        sasl_oauthbearer_client_credentials_client_secret="h1dden-d",
        some_credential="h1dden-e",
    )
    made = settings("localhost:1", path)
    shown = f"{made!r} {made} {made.properties if made else ''}"
    assert "/nowhere.p12" in shown
    assert ALICE[1] not in shown
    assert "h1dden" not in shown
