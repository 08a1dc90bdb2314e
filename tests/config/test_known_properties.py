"""Properties that nothing reads, and classes that only Java can run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgtool.config import Settings, settings
from kgtool.config.known_properties import KNOWN_CLASSES, NAMES, suspicious_names
from kgtool.config.properties import Properties
from kgtool.errors import ConfigError
from tests.cli.run import call

OAUTH = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
PLAIN = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    'sasl.jaas.config=x.PlainLoginModule required username="alice" password="h1dden";\n'
)


def read(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "client.properties"
    path.write_text(text)
    made = settings("b:1", str(path), environ={})
    assert made is not None
    return made


def odd(**properties: str) -> tuple[str, ...]:
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return suspicious_names(Properties(named), "f")


def test_the_names_are_those_of_kafkas_admin_client(java: Any) -> None:
    assert set(java.org.apache.kafka.clients.admin.AdminClientConfig.configNames()) == NAMES


@pytest.mark.parametrize("client", ["consumer.ConsumerConfig", "producer.ProducerConfig"])
def test_a_file_that_consumers_and_producers_share_is_no_matter(java: Any, client: str) -> None:
    package, name = client.split(".")
    names = getattr(getattr(java.org.apache.kafka.clients, package), name).configNames()
    assert len(names) > 80
    assert suspicious_names(Properties(dict.fromkeys(names, "x")), "f") == ()


def test_the_classes_are_kafkas(java: Any) -> None:
    for key, names in KNOWN_CLASSES.items():
        assert key in NAMES
        for name in names:
            if name.startswith("org.apache.kafka.") and ".secured." not in name:
                java.java.lang.Class.forName(name)  # raises what Java raises


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sasl.mechansim", "sasl.mechanism"),
        ("bootstrap.server", "bootstrap.servers"),
        ("security.protcol", "security.protocol"),
        ("ssl.truststore.passwort", "ssl.truststore.password"),
        ("ssl.ca.location", "ssl.truststore.location"),
        ("sasl.username", "sasl.jaas.config"),
        ("client_id", "client.id"),
    ],
)
def test_a_misspelt_name_is_pointed_out_without_its_value(key: str, meant: str) -> None:
    (told,) = suspicious_names(Properties({key: "h1dden"}), "client.properties")
    assert key in told
    assert meant in told
    assert "client.properties" in told
    assert "h1dden" not in told


def test_names_of_nobody_in_the_namespaces_of_security() -> None:
    (told,) = odd(ssl_quantum="x")
    assert told == "f has ssl.quantum, which is not a client property and is ignored."
    assert odd(my_own_note="x") == ()
    assert odd(config_providers_vault_class="x") == ()


def test_a_user_sees_it_on_stderr_and_the_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("sasl.mechansim=PLAIN\n")
    argv = ["list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(path)]
    result = call(capsys, *argv, "-o", "json", "--timeout", "300")
    assert result.status == 4
    assert "Warning: " in result.err
    assert "Is sasl.mechanism meant?" in result.err
    assert result.json["results"] == []


LOGIN_CALLBACK = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
REFUSED = {
    "another retriever": (
        f"{OAUTH}sasl.oauthbearer.jwt.retriever.class=my.Retriever",
        "Java class",
    ),
    "a login": (f"{PLAIN}sasl.login.class=my.Login", "sasl.login.class=my.Login"),
    "a login beside a callback that is known": (
        f"{OAUTH}sasl.login.callback.handler.class={LOGIN_CALLBACK}\nsasl.login.class=my.Login",
        "sasl.login.class=my.Login",
    ),
    "a callback": (f"{PLAIN}sasl.client.callback.handler.class=my.Vault", "my.Vault"),
    "TLS": ("security.protocol=SSL\nssl.engine.factory.class=my.Engine", "my.Engine"),
    "look-up": ("client.dns.lookup=default", "resolve_canonical_bootstrap_servers_only"),
    "set-up": ("socket.connection.setup.timeout.ms=soon", "socket.connection.setup.timeout.ms"),
    "no set-up": ("socket.connection.setup.timeout.ms=0", "at least 1"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_only_java_can_do_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
    assert "client.properties" in str(caught.value)
    assert "h1dden" not in str(caught.value)


def test_what_is_not_used_is_not_looked_at(tmp_path: Path) -> None:
    read(tmp_path, "ssl.engine.factory.class=my.Engine\nsasl.login.class=my.Login")
    read(tmp_path, f"{PLAIN}sasl.oauthbearer.jwt.retriever.class=my.Retriever")


def test_the_connections_own_settings(tmp_path: Path) -> None:
    made = read(tmp_path, "")
    assert (made.setup_ms, made.canonical_names, made.notes) == (None, False, ())
    made = read(
        tmp_path,
        "socket.connection.setup.timeout.ms= 2500 \n"
        "client.dns.lookup=resolve_canonical_bootstrap_servers_only\n",
    )
    assert (made.setup_ms, made.canonical_names) == (2500, True)
    assert not read(tmp_path, "client.dns.lookup=use_all_dns_ips").canonical_names


@pytest.mark.parametrize(
    "key",
    [
        "default.api.timeout.ms",
        "retries",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
    ],
)
def test_a_time_that_is_not_followed_is_named(key: str, tmp_path: Path) -> None:
    (told,) = read(tmp_path, f"{key}=5").notes
    assert f"client.properties has {key}, which is not used" in told and "--timeout" in told


def test_several_of_them_are_one_line(tmp_path: Path) -> None:
    (told,) = read(tmp_path, "retries=5\nretry.backoff.ms=1").notes
    assert "has retries, retry.backoff.ms, which are not used" in told


SETUP = "socket.connection.setup.timeout"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{SETUP}.ms=700", 700),
        (f"{SETUP}.ms=700\n{SETUP}.max.ms=500", 500),
        (f"{SETUP}.ms=700\n{SETUP}.max.ms=900", 700),
        (f"{SETUP}.max.ms=900", 900),
        (f"{SETUP}.max.ms=30000", None),
        ("", None),
    ],
)
def test_the_set_up_never_takes_longer_than_its_maximum(
    text: str, expected: int | None, tmp_path: Path
) -> None:
    assert read(tmp_path, text).setup_ms == expected


@pytest.mark.parametrize("key", ["request.timeout.ms", f"{SETUP}.ms", f"{SETUP}.max.ms"])
@pytest.mark.parametrize("value", ["0", "-1", "soon", "1.5", "9" * 5000])
def test_a_time_that_is_none_is_refused(key: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="for configuration " + key):
        read(tmp_path, f"{key}={value}")
