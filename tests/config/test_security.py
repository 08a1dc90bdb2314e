"""What a client.properties may say about security, and what is refused before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgtool.config import settings
from kgtool.config.logins import (
    AwsLogin,
    ClientCredentials,
    KerberosLogin,
    OAuthLogin,
    PasswordLogin,
    Secret,
    StaticToken,
)
from kgtool.config.properties import parse
from kgtool.config.security import Security, security
from kgtool.errors import ConfigError

PLAIN = 'sasl.jaas.config=x.PlainLoginModule required username="alice" password="h1dden";\n'


def read(text: str) -> Security:
    found = security(parse(text), "client.properties")
    assert found is not None
    return found


def test_plaintext_is_the_default() -> None:
    assert security(parse("client.id=a"), "f") is None
    assert security(parse("security.protocol=plaintext"), "f") is None


def test_protocols_in_any_case() -> None:
    assert read("security.protocol=ssl").protocol == "SSL"
    found = read(f"security.protocol=sasl_Ssl \nsasl.mechanism= PLAIN \n{PLAIN}")
    assert found.protocol == "SASL_SSL"
    assert found.tls is not None and found.tls.check_host
    assert found.sasl == ("PLAIN", PasswordLogin("alice", Secret("h1dden"), False))


def test_tls_defaults_are_kafkas() -> None:
    tls = read("security.protocol=SSL").tls
    assert tls is not None
    assert tls == (None, None, True, ("TLSv1.2", "TLSv1.3"), ())


@pytest.mark.parametrize("text", ["", " ", "\\u0020"])
def test_an_empty_algorithm_switches_the_host_name_check_off(text: str) -> None:
    found = read(f"security.protocol=SSL\nssl.endpoint.identification.algorithm={text}\n")
    assert found.tls is not None and not found.tls.check_host


REFUSED = {
    "unknown protocol": ("security.protocol=TLS", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    "unknown store type": ("security.protocol=SSL\nssl.truststore.type=BCFKS", "BCFKS"),
    "unknown algorithm": (
        "security.protocol=SSL\nssl.endpoint.identification.algorithm=no",
        "ssl.endpoint.identification.algorithm",
    ),
    "no TLS version": ("security.protocol=SSL\nssl.enabled.protocols=SSLv3", "SSLv3"),
    "password without store": (
        "security.protocol=SSL\nssl.truststore.password=h1dden",
        "no ssl.truststore.location",
    ),
    "key store without password": (
        "security.protocol=SSL\nssl.keystore.location=/k.jks",
        "no ssl.keystore.password",
    ),
    "inline PEM of another type": (
        "security.protocol=SSL\nssl.truststore.certificates=h1dden",
        "ssl.truststore.type=PEM",
    ),
    "inline PEM and a file": (
        "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=h1dden\n"
        "ssl.truststore.location=/t.pem",
        "both",
    ),
    "key without chain": (
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.key=h1dden",
        "ssl.keystore.certificate.chain",
    ),
    "chain without key": (
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.certificate.chain=h1dden",
        "no ssl.keystore.key",
    ),
    "PEM with a store password": (
        "security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location=/k.pem\n"
        "ssl.keystore.password=h1dden",
        "ssl.key.password",
    ),
    "nothing about the login": ("security.protocol=SASL_SSL", "sasl.mechanism and sasl.jaas"),
    "mechanism forgotten": (f"security.protocol=SASL_SSL\n{PLAIN}", "Kafka's default is GSSAPI"),
    "no jaas": ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.jaas.config is missing"),
    "no password": (
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=x.Y required username="a";',
        "no password",
    ),
    "broken jaas": (
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x.Y required h1dden",
        "can't be read",
    ),
    "no token": (
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.jaas.config=x.Y required;",
        "where the OAUTHBEARER token comes from",
    ),
    "no client id": (
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=https://x/y",
        "client.credentials.client.id",
    ),
    "a token endpoint that is none": (
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.oauthbearer.token.endpoint.url=ftp://x/y",
        "ftp://x/y",
    ),
    **{
        f"a token endpoint at {place}": (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.oauthbearer.token.endpoint.url=https://{place}/y",
            "is not an http:, https: or file: URL",
        )
        for place in ("x:port", "x:65536", "[::1", "u:h1dden@x:-1", "")
    },
    **{
        f"a token endpoint without {missing}": (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.oauthbearer.token.endpoint.url=https://x/y\n{given}",
            f"sasl.oauthbearer.client.credentials.{missing} is missing",
        )
        for missing, given in (
            ("client.id", "sasl.oauthbearer.client.credentials.client.secret=s"),
            ("client.secret", "sasl.oauthbearer.client.credentials.client.id=i"),
        )
    },
    "no service name": (
        "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI",
        "sasl.kerberos.service.name",
    ),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        settings("localhost:1", str(path), environ={})
    assert said in f"{caught.value} {caught.value.hint}"
    assert "client.properties" in str(caught.value)
    assert "h1dden" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.exit_code == 2


def test_a_mechanism_that_kgtool_lacks_is_left_to_the_broker_to_refuse() -> None:
    found = read("security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-1")
    assert found.sasl == ("SCRAM-SHA-1", None)


def oauth(options: str = "", properties: str = "") -> OAuthLogin:
    found = read(
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config=x.OAuthBearerLoginModule required {options};\n{properties}"
    )
    assert found.sasl is not None and isinstance(found.sasl.login, OAuthLogin)
    return found.sasl.login


def test_where_tokens_come_from() -> None:
    url = "sasl.oauthbearer.token.endpoint.url="
    assert oauth('token="t"').source == StaticToken(Secret("t"))
    assert oauth("", f"{url}file:///run/token").source == StaticToken(None, "/run/token")
    source = oauth('clientId="i" clientSecret="s" scope="x y"', f"{url}https://h/t").source
    assert isinstance(source, ClientCredentials)
    assert (source.client_id, source.client_secret, source.scope) == ("i", Secret("s"), "x y")
    new = "sasl.oauthbearer.client.credentials.client."
    text = f"{url}https://h/t\n{new}id=j\n{new}secret=z\nsasl.oauthbearer.scope=w\n"
    source = oauth('clientId="i" clientSecret="s"', text).source
    assert isinstance(source, ClientCredentials)
    assert (source.client_id, source.client_secret, source.scope) == ("j", Secret("z"), "w")
    assert oauth('token="t" extension_logicalCluster="lkc-1"').extensions == {
        "logicalCluster": "lkc-1"
    }


def test_kerberos_options() -> None:
    text = "security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
    line = 'useKeyTab=true keyTab="/a.keytab" principal="a@B"'
    found = read(f"{text}sasl.jaas.config=x.Krb5LoginModule required {line};\n").sasl
    assert found == ("GSSAPI", KerberosLogin("kafka", "a@B", "/a.keytab", None))
    assert read(text).sasl == ("GSSAPI", KerberosLogin("kafka"))
    named = 'sasl.jaas.config=x.Krb5LoginModule required serviceName="k" useTicketCache=true;'
    found = read(f"security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n{named}\n").sasl
    assert found == ("GSSAPI", KerberosLogin("k"))


def test_aws_options() -> None:
    module = "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required"
    options = 'awsProfileName="p" awsRoleArn="r" awsRoleSessionName="s" awsStsRegion="e"'
    text = f"security.protocol=SASL_SSL\n{module} {options};\n"
    login = AwsLogin("p", "r", "s", None, "e")
    assert read(f"{text}sasl.mechanism=AWS_MSK_IAM\n").sasl == ("AWS_MSK_IAM", login)
    found = read(f"{text}sasl.mechanism=OAUTHBEARER\n").sasl
    assert found is not None and isinstance(found.login, OAuthLogin)
    assert found.login.source == login


def test_secrets_are_hidden_in_every_repr() -> None:
    for login in (
        PasswordLogin("a", Secret("h1dden")),
        StaticToken(Secret("h1dden")),
        oauth('token="h1dden"'),
        oauth('unsecuredLoginStringClaim_sub="a" password="h1dden"'),
        oauth(
            'clientId="i" clientSecret="h1dden"', "sasl.oauthbearer.token.endpoint.url=https://h/t"
        ),
    ):
        assert "h1dden" not in f"{login!r} {login}"
