"""What a broker or token endpoint says, and be it nonsense, is never anything but a KgError."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kgtool.config.logins import ClientCredentials, Secret
from kgtool.config.properties import Properties
from kgtool.errors import AuthenticationError, ConfigError, KgError
from kgtool.net.auth.tokens import _read
from kgtool.protocol.sasl.msk_iam import AwsCredentials, MskIam
from kgtool.protocol.sasl.oauthbearer import OAuthBearer, unsecured_token
from kgtool.protocol.sasl.scram import MAX_ITERATIONS, Scram

LOGIN = ClientCredentials("http://localhost/token", "id", Secret("s"), None, Properties())
DEEP = b"[" * 100_000
HUGE = b"1" + b"0" * 400
LONG = b"9" * 5000

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
LIFETIMES = VALUES | st.integers(min_value=10**300, max_value=10**310)


@given(
    st.binary()
    | st.builds(lambda text: text.encode(), st.text("rsi=,0123456789+/=ve.", max_size=60))
)
@example(b"r=nonceX,s=QQ==,i=" + LONG)
@example(b"r=nonceX,s=QQ==,i=" + "\u0664\u0660\u0669\u0666".encode())
@example(b"r=nonceX,s=QQ==,i=4096")
@example("r=nonceX,s=\xe9,i=4096".encode())
def test_scram_takes_no_nonsense(challenge: bytes) -> None:
    login = Scram("SCRAM-SHA-256", "alice", "secret", "nonce")
    try:
        assert login.step(challenge) is not None
    except AuthenticationError as error:
        assert len(str(error)) < 300
        return
    with pytest.raises(AuthenticationError):
        login.step(challenge)  # no signature


def test_scram_counts_no_further_than_it_says() -> None:
    for count in (0, 4095, MAX_ITERATIONS + 1):
        login = Scram("SCRAM-SHA-256", "alice", "secret", "nonce")
        with pytest.raises(AuthenticationError, match=f"it wants {count} iterations"):
            login.step(f"r=nonceX,s=QQ==,i={count}".encode())


@given(st.binary() | VALUES.map(lambda value: json.dumps(value).encode()))
@example(DEEP)
@example(b'{"version":' + LONG + b"}")
def test_msk_iam_takes_no_nonsense(challenge: bytes) -> None:
    login = MskIam("host", AwsCredentials("a", "b"), "eu-west-1", 0.0, "agent")
    try:
        assert login.step(challenge) is None
    except AuthenticationError:
        assert not login.is_done


@given(st.binary() | VALUES.map(lambda value: json.dumps(value).encode()))
@example(DEEP)
@example(b'{"access_token":' + DEEP)
@example(b'{"access_token":"a.b.c","expires_in":' + HUGE + b"}")
@example(b'{"access_token":"a.b.c","expires_in":NaN}')
@example(b'{"access_token":"a.b.c","expires_in":-Infinity}')
@example(b'{"access_token":"a.' + base64.b64encode(DEEP) + b'.c"}')
@example(b'{"access_token":"a.' + base64.b64encode(b'{"exp":"soon"}') + b'.c"}')
@example(b'{"access_token":"a.' + base64.b64encode(b'{"exp":[]}') + b'.c"}')
@example('{"access_token":"a.\xe9.c"}'.encode())
def test_an_endpoint_that_answers_nonsense(body: bytes) -> None:
    try:
        token = _read(body, LOGIN)
    except AuthenticationError:
        return
    assert token.text and 0 < token.fresh_until < 1e13


@given(LIFETIMES, LIFETIMES)
def test_a_token_with_any_claims(expires_in: object, exp: object) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": exp}).encode()).decode()
    body = json.dumps({"access_token": f"a.{claims}.c", "expires_in": expires_in}).encode()
    assert 0 < _read(body, LOGIN).fresh_until < 1e13


@given(st.text(), st.binary())
def test_oauthbearer_takes_no_nonsense(token: str, challenge: bytes) -> None:
    try:
        login = OAuthBearer(token)
    except KgError:
        return
    assert login.step(challenge) in (None, b"\x01")


@pytest.mark.parametrize("lifetime", ["nan", "inf", "1e999", "soon"])
def test_a_lifetime_that_is_no_number(lifetime: str) -> None:
    options = {"unsecuredLoginStringClaim_sub": "alice", "unsecuredLoginLifetimeSeconds": lifetime}
    with pytest.raises(ConfigError, match="is not a number"):
        unsecured_token(options, 0.0)
