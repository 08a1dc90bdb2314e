"""AWS_MSK_IAM without AWS: what is signed is checked with Amazon's own signer (botocore)."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from kgtool.config.logins import AwsLogin, OAuthLogin
from kgtool.config.security import Sasl
from kgtool.errors import AuthenticationError, ConfigError
from kgtool.net.auth import aws
from kgtool.net.auth.logins import LoginSource
from kgtool.protocol.sasl.msk_iam import AwsCredentials, MskIam, region_of, signed_payload
from tests.cli.run import call
from tests.net.conftest import Refused
from tests.support.certificates import PASSWORD, Certificates
from tests.support.fakemsk import GROUP, KEYS, REGION, FakeMsk
from tests.support.outcomes import Outcome

HOST = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com"
NOW = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _no_aws_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_SESSION_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def of_botocore(credentials: AwsCredentials, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The same request, signed by botocore at the same time."""
    moment = datetime.fromtimestamp(NOW, timezone.utc).replace(tzinfo=None)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda *_a, **_k: moment)
    request = AWSRequest("GET", f"https://{HOST}/?Action=kafka-cluster%3AConnect")
    signer = SigV4QueryAuth(Credentials(*credentials), "kafka-cluster", "eu-west-1", expires=900)
    signer.add_auth(request)
    return {key.lower(): values[0] for key, values in parse_qs(urlsplit(request.url).query).items()}


@pytest.mark.parametrize(
    "credentials",
    [
        AwsCredentials("AKIDEXAMPLE", "wJalr/XUtnFEMI+K7MDENG"),
        AwsCredentials("ASIAEXAMPLE", "secret/+=", "session+/=token=="),
    ],
    ids=["lasting", "temporary"],
)
def test_the_payload_is_what_amazon_would_sign(
    credentials: AwsCredentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = signed_payload(HOST, credentials, "eu-west-1", NOW, "kgtool/1")
    theirs = of_botocore(credentials, monkeypatch)
    assert theirs.pop("action") == payload["action"] == "kafka-cluster:Connect"
    assert {key: value for key, value in payload.items() if key.startswith("x-amz-")} == theirs
    assert payload["version"] == "2020_10_22"
    assert payload["host"] == HOST
    assert payload["user-agent"] == "kgtool/1"
    assert credentials.secret_key not in json.dumps(payload)


def test_the_dialogue() -> None:
    mechanism = MskIam(HOST, AwsCredentials("A", "s"), "eu-west-1", NOW, "kgtool/1")
    assert json.loads(mechanism.start())["host"] == HOST
    assert mechanism.step(b'{"version":"2020_10_22","request-id":"1"}') is None
    assert mechanism.is_done


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"\xff", b'{"version":"2030"}'])
def test_answers_that_are_none(answer: bytes) -> None:
    mechanism = MskIam(HOST, AwsCredentials("A", "s"), "eu-west-1", NOW, "kgtool/1")
    with pytest.raises(AuthenticationError):
        mechanism.step(answer)
    assert not mechanism.is_done


def test_regions_are_read_from_the_brokers_names() -> None:
    assert region_of(HOST) == "eu-west-1"
    serverless = "boot-x1.c1.kafka-serverless.us-east-2.amazonaws.com"
    assert region_of(serverless) == "us-east-2"
    assert region_of("b-1.x.c1.kafka.cn-north-1.amazonaws.com.cn") == "cn-north-1"
    assert region_of("localhost") is None


def test_credentials_of_the_environment_and_of_a_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-env")
    assert aws.credentials(AwsLogin()) == ("AKIDENV", "s3cret-env", None)
    (tmp_path / "credentials").write_text(
        "[ops]\naws_access_key_id = AKIDOPS\naws_secret_access_key = s3cret-ops\n"
        "aws_session_token = t0ken\n"
    )
    assert aws.credentials(AwsLogin("ops")) == ("AKIDOPS", "s3cret-ops", "t0ken")
    with pytest.raises(AuthenticationError, match="nobody"):
        aws.credentials(AwsLogin("nobody"))


def test_no_credentials_and_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AuthenticationError, match="No AWS credentials"):
        aws.credentials(AwsLogin())
    with pytest.raises(ConfigError, match="region of localhost"):
        aws.region(AwsLogin(), "localhost")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    assert aws.region(AwsLogin(), "localhost") == "eu-north-1"
    assert aws.region(AwsLogin(), HOST) == "eu-west-1"


def test_a_role_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """STS itself is out of reach here: what it is asked is recorded."""
    asked: dict[str, Any] = {}

    class Sts:
        def assume_role(self, **given: str) -> dict[str, Any]:
            asked.update(given)
            return {
                "Credentials": {"AccessKeyId": "ASIA", "SecretAccessKey": "s", "SessionToken": "t"}
            }

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-env")
    monkeypatch.setattr("botocore.session.Session.create_client", lambda *_a, **_k: Sts())
    login = AwsLogin(role_arn="arn:aws:iam::1:role/ops", external_id="x")
    assert aws.credentials(login) == ("ASIA", "s", "t")
    assert asked == {
        "RoleArn": "arn:aws:iam::1:role/ops",
        "RoleSessionName": "kgtool",
        "ExternalId": "x",
    }


def test_logins_of_both_mechanisms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "h1dden")
    iam = LoginSource(Sasl("AWS_MSK_IAM", AwsLogin())).mechanism(HOST)
    payload = json.loads(iam.start())
    assert payload["x-amz-credential"].startswith("AKIDENV/")
    bearer = LoginSource(Sasl("OAUTHBEARER", OAuthLogin(AwsLogin(), {}))).mechanism(HOST)
    message = bearer.start()
    token = message.split(b"Bearer ")[1].split(b"\x01")[0].decode()
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    assert "kafka.eu-west-1.amazonaws.com" in url
    assert "Action=kafka-cluster%3AConnect" in url
    assert "h1dden" not in url + message.decode() + json.dumps(payload)


def test_the_repr_hides_secrets() -> None:
    assert "h1dden" not in repr(AwsCredentials("A", "h1dden", "h1dden"))


# -- the whole way, to a listener that is a fake ----------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    made.make()
    made.make_java_stores()
    return made


@pytest.mark.parametrize("store", ["trust.pem", "trust.p12", "trust.jks", "none"])
def test_a_login_in_tls_with_every_kind_of_store_and_without(
    certificates: Certificates,
    client_file: Callable[..., str],
    outcome: Outcome,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    store: str,
    refused: Refused,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "broker.pem", certificates / "broker.key")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS[0])
    monkeypatch.setenv("AWS_REGION", REGION)
    kind = {"pem": "PEM", "p12": "PKCS12", "jks": "JKS", "none": "none"}[store.rpartition(".")[2]]
    given: dict[str, object] = {
        "security_protocol": "SASL_PLAINTEXT" if kind == "none" else "SASL_SSL",
        "sasl_mechanism": "AWS_MSK_IAM",
        "sasl_jaas_config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
    }
    if kind != "none":
        given |= {"ssl_truststore_type": kind, "ssl_truststore_location": certificates / store}
    if kind in ("PKCS12", "JKS"):
        given["ssl_truststore_password"] = PASSWORD
    path = client_file(**given)
    with (
        outcome("Logins and stores", "AWS_MSK_IAM (fake broker)", kind),
        FakeMsk(None if kind == "none" else context).running() as address,
    ):
        argv = ("list", "--bootstrap-server", address, "--command-config", path)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS[1])
        accepted = call(capsys, *argv)
        assert accepted.status == 0, accepted.err
        assert GROUP in accepted.out
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wr0ng-key")
        wrong = refused("AWS_MSK_IAM: wrong key (fake broker)", lambda: call(capsys, *argv))
        assert "refused the login (AWS_MSK_IAM): Access denied" in wrong.err
        assert "wr0ng-key" not in wrong.err
