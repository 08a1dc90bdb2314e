"""OAUTHBEARER by the JWT bearer grant (KIP-1139): the endpoint checks the signature, a real broker
the token that it buys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.net.conftest import Refused, Run
from tests.support.oidc import JWT_BEARER, Endpoint, serve
from tests.support.secure import SecureKafka, oauth

pytestmark = pytest.mark.broker
RETRIEVER = "org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever"


def _key(algorithm: str) -> Any:
    if algorithm == "RS256":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def _pem(path: Path, key: Any, passphrase: str | None = None) -> Path:
    cipher: Any = serialization.NoEncryption()
    if passphrase is not None:
        cipher = serialization.BestAvailableEncryption(passphrase.encode())
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, cipher)
    )
    return path


def bearer(endpoint: Endpoint, **assertion: object) -> dict[str, object]:
    named = {f"sasl_oauthbearer_assertion_{key}": value for key, value in assertion.items()}
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_jaas_config": oauth(),
        "sasl_oauthbearer_token_endpoint_url": endpoint.url,
        "sasl_oauthbearer_jwt_retriever_class": RETRIEVER,
        **named,
    }


@pytest.mark.parametrize(("algorithm", "passphrase"), [("RS256", None), ("ES256", "l0cked")])
def test_an_assertion_buys_a_token(
    secure: SecureKafka, list_groups: Run, tmp_path: Path, algorithm: str, passphrase: str | None
) -> None:
    key = _key(algorithm)
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"header": {"kid": "k7"}, "payload": {"iss": "t", "x": [1]}}))
    with serve(Endpoint(secure.keys)) as endpoint:
        endpoint.trusted = key.public_key()
        given: dict[str, object] = {
            "algorithm": algorithm,
            "private_key_file": _pem(tmp_path / "key.pem", key, passphrase),
            "template_file": template,
            "claim_sub": "alice",
            "claim_aud": "https://issuer.example.org",
            "claim_exp_seconds": 120,
            "claim_jti_include": "true",
        }
        if passphrase:
            given["private_key_passphrase"] = passphrase
        result = list_groups("OIDC", **bearer(endpoint, **given))
    assert result.status == 0, result.err
    (request,) = endpoint.requests
    assert request["form"]["grant_type"] == [JWT_BEARER]
    assert "authorization" not in request["headers"]
    assert request["header"] == {"kid": "k7", "alg": algorithm, "typ": "JWT"}
    claims = request["claims"]
    assert (claims["sub"], claims["iss"], claims["x"]) == ("alice", "t", [1])
    assert claims["exp"] - claims["iat"] == 120
    assert claims["iat"] - claims["nbf"] == 60
    assert claims["jti"]


def test_another_key_is_refused_and_named(
    secure: SecureKafka, list_groups: Run, refused: Refused, tmp_path: Path
) -> None:
    with serve(Endpoint(secure.keys)) as endpoint:
        endpoint.trusted = _key("RS256").public_key()
        file = _pem(tmp_path / "key.pem", _key("RS256"))
        result = refused(
            "OIDC", lambda: list_groups("OIDC", **bearer(endpoint, private_key_file=file))
        )
    assert "HTTP 400 (invalid_grant Bad signature)" in result.err
    assert "claims (iss, sub, aud)" in result.err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "assertion.private.key.file is missing"),
        ({"algorithm": "HS256"}, "choose one of RS256, ES256"),
        ({"private_key_file": "/nowhere.pem"}, "Can't read /nowhere.pem"),
        ({"private_key_file": "/etc/hostname"}, "can't be used"),
        ({"file": "/nowhere.jwt"}, "Can't read /nowhere.jwt"),
        ({"private_key_file": "x", "claim_exp_seconds": "-1"}, "is not 0 to 86400 seconds"),
        ({"private_key_file": "x", "template_file": "/etc/hostname"}, "is not a JSON object"),
    ],
    ids=str,
)
def test_what_can_not_be_used_is_said(
    secure: SecureKafka, list_groups: Run, given: dict[str, object], said: str
) -> None:
    """2: nothing was sent."""
    with serve(Endpoint(secure.keys)) as endpoint:
        result = list_groups("OIDC", **bearer(endpoint, **given))
    assert result.status == 2, result.err
    assert said in result.err
    assert not endpoint.requests
