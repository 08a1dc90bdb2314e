"""OAUTHBEARER with signed tokens: a real broker checks them, a real endpoint gives them out."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kgtool.client.ops import Operation, Pause, call, gather
from kgtool.config import settings
from kgtool.config.logins import ClientCredentials, OAuthLogin, Secret
from kgtool.config.properties import Properties
from kgtool.errors import AuthenticationError, ConfigError, KgError
from kgtool.net.auth.tokens import TokenSource
from kgtool.net.session import Session
from kgtool.protocol.api import metadata
from kgtool.protocol.sasl.oauthbearer import unsecured_token
from tests.net.conftest import Refused, Run
from tests.support.oidc import CLIENT, Endpoint, serve
from tests.support.secure import SecureKafka, oauth

pytestmark = pytest.mark.broker


def bearer(line: str = oauth(), **properties: object) -> dict[str, object]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_jaas_config": line,
        **properties,
    }


def credentials(endpoint: Endpoint, secret: str = CLIENT[1]) -> dict[str, object]:
    """As Kafka 4.1 wants them (KIP-1139)."""
    return bearer(
        sasl_oauthbearer_token_endpoint_url=endpoint.url,
        sasl_oauthbearer_client_credentials_client_id=CLIENT[0],
        sasl_oauthbearer_client_credentials_client_secret=secret,
        sasl_oauthbearer_scope="kafka admin",
    )


def test_client_credentials(secure: SecureKafka, list_groups: Run) -> None:
    with serve(Endpoint(secure.keys)) as endpoint:
        result = list_groups("OIDC", **credentials(endpoint))
    assert result.status == 0, result.err
    (request,) = endpoint.requests
    assert request["form"] == {"grant_type": ["client_credentials"], "scope": ["kafka admin"]}
    assert request["headers"]["content-type"] == "application/x-www-form-urlencoded"


def test_client_credentials_as_options_of_the_login_module(
    secure: SecureKafka, list_groups: Run
) -> None:
    """Before Kafka 4.1 they had to be there."""
    line = oauth(clientId=CLIENT[0], clientSecret=CLIENT[1], scope="kafka")
    with serve(Endpoint(secure.keys)) as endpoint:
        given = bearer(line, sasl_oauthbearer_token_endpoint_url=endpoint.url)
        result = list_groups("OIDC", **given)
    assert result.status == 0, result.err
    assert endpoint.requests[0]["form"]["scope"] == ["kafka"]


def test_a_token_as_it_is_and_a_token_in_a_file(
    secure: SecureKafka, list_groups: Run, tmp_path: Path
) -> None:
    token = secure.keys.token()
    assert list_groups("OIDC", **bearer(oauth(token=token))).status == 0
    (tmp_path / "token.jwt").write_text(token + "\n")
    for url in (f"file://{tmp_path}/token.jwt", f"file:{tmp_path}/token.jwt"):
        given = bearer(sasl_oauthbearer_token_endpoint_url=url)
        assert list_groups("OIDC", **given).status == 0


BAD_TOKENS: dict[str, dict[str, object]] = {
    "expired": {"lifetime": -60},
    "another audience": {"aud": "somebody else"},
    "another issuer": {"iss": "https://elsewhere.example.org"},
    "forged": {},
}


@pytest.mark.parametrize("kind", BAD_TOKENS)
def test_tokens_that_the_broker_refuses(
    secure: SecureKafka, list_groups: Run, refused: Refused, kind: str
) -> None:
    token = secure.keys.token(**BAD_TOKENS[kind])
    if kind == "forged":
        end = "AAAAAAAA" if not token.endswith("AAAAAAAA") else "BBBBBBBB"
        token = token[:-8] + end
    result = refused(
        f"OAUTHBEARER: a token, {kind}", lambda: list_groups("OIDC", **bearer(oauth(token=token)))
    )
    assert "refused the login (OAUTHBEARER)" in result.err
    assert token not in result.err


def test_an_unsecured_token_is_refused_where_signatures_are_checked(list_groups: Run) -> None:
    result = list_groups("OIDC", **bearer(oauth(unsecuredLoginStringClaim_sub="alice")))
    assert result.status == 4


def test_a_wrong_secret_is_named_and_not_shown(
    secure: SecureKafka, list_groups: Run, refused: Refused
) -> None:
    with serve(Endpoint(secure.keys)) as endpoint:
        result = refused(
            "OAUTHBEARER: wrong client secret",
            lambda: list_groups("OIDC", **credentials(endpoint, "wr0ng-secret")),
        )
    assert "invalid_client" in result.err
    assert "401" in result.err
    assert endpoint.url in result.err
    assert "wr0ng-secret" not in result.err
    assert "\x1b" not in result.err, "what an endpoint says is no terminal's business"
    assert len(endpoint.requests) == 1, "a refusal is not tried again"


def test_an_endpoint_with_a_passing_problem_is_asked_again(
    secure: SecureKafka, list_groups: Run
) -> None:
    with serve(Endpoint(secure.keys, fail=[503])) as endpoint:
        result = list_groups("OIDC", **credentials(endpoint))
    assert result.status == 0, result.err
    assert len(endpoint.requests) == 2
    with serve(Endpoint(secure.keys, fail=[500] * 10)) as endpoint:
        result = list_groups("OIDC", **credentials(endpoint))
    assert result.status == 4
    assert "HTTP 500" in result.err
    assert len(endpoint.requests) == 3


def test_no_endpoint(list_groups: Run, refused: Refused) -> None:
    endpoint = Endpoint.__new__(Endpoint)
    endpoint.url = "http://user:h1dden@localhost:1/token?key=h1dden"
    result = refused(
        "OAUTHBEARER: no token endpoint", lambda: list_groups("OIDC", **credentials(endpoint))
    )
    assert "http://localhost:1/token can't be reached: Connection refused." in result.err
    assert "h1dden" not in result.err


@pytest.mark.timed
def test_an_endpoint_that_says_nothing_costs_no_more_than_the_timeout(list_groups: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = Endpoint.__new__(Endpoint)
        endpoint.url = f"http://localhost:{silent.getsockname()[1]}/token"
        began = time.monotonic()
        # Long enough that a busy broker has sent kgtool to the endpoint before it is over.
        result = list_groups("OIDC", "--timeout", "3000", **credentials(endpoint))
        assert time.monotonic() - began < 4.5
    assert result.status == 4
    assert "no answer in time" in result.err


@pytest.mark.timed
@pytest.mark.parametrize("part", ["head", "body"])
def test_an_endpoint_that_drips_has_the_time_of_the_command_in_total(
    secure: SecureKafka, list_groups: Run, part: str
) -> None:
    """A byte now and then is no timeout of a socket: it took 8 s where 2 s were allowed."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listener, contextlib.ExitStack() as stack:

        def drip() -> None:
            peer = stack.enter_context(listener.accept()[0])
            if part == "body":
                peer.sendall(head)
            with contextlib.suppress(OSError):
                for byte in b"{" + b" " * 79 if part == "body" else head:
                    peer.send(bytes([byte]))
                    time.sleep(0.1)

        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        endpoint = Endpoint(secure.keys)
        endpoint.url = f"http://localhost:{listener.getsockname()[1]}/token"
        began = time.monotonic()
        result = list_groups("OIDC", "--timeout", "2000", **credentials(endpoint))
        assert time.monotonic() - began < 3.5
        assert result.status == 4
        assert "no answer in time" in result.err
        dripping.join(15)


def test_an_endpoint_in_tls(secure: SecureKafka, list_groups: Run) -> None:
    certificates = secure.certificates
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "broker.pem", certificates / "broker.key")
    with serve(Endpoint(secure.keys), context) as endpoint:
        untrusted = list_groups("OIDC", **credentials(endpoint))
        line = oauth().replace(
            ";", f' ssl.truststore.type=PEM ssl.truststore.location="{certificates / "ca.pem"}";'
        )
        trusted = list_groups("OIDC", **{**credentials(endpoint), "sasl_jaas_config": line})
    assert untrusted.status == 4
    assert "not trusted" in untrusted.err
    assert trusted.status == 0, trusted.err


def test_one_token_serves_all_connections_until_most_of_its_time_is_over(
    secure: SecureKafka, client_file: Callable[..., str]
) -> None:
    with serve(Endpoint(secure.keys)) as endpoint:
        for _ in range(2):
            made = settings(secure.at("OIDC"), client_file(**credentials(endpoint)))
            assert made is not None
            with Session(made) as session:
                session.connect()
        assert len(endpoint.requests) == 2, "one a session"
        source = _source(endpoint)
        assert source.get("a") == source.get("b")
        assert len(endpoint.requests) == 3
    with serve(Endpoint(secure.keys, lifetime=1)) as endpoint:
        source = _source(endpoint)
        source.get("a")
        time.sleep(0.9)
        source.get("a")
        assert len(endpoint.requests) == 2


def test_nothing_is_asked_while_a_token_for_a_new_login_is_fetched(
    secure: SecureKafka, client_file: Callable[..., str]
) -> None:
    """The session may end meanwhile (KIP-368), and what is asked then ends the connection."""
    endpoint = Endpoint(secure.keys)

    def answer(headers: object, form: object) -> tuple[int, object]:
        endpoint.requests.append({})
        if len(endpoint.requests) > 1:
            time.sleep(1.5)  # past the end of a session of 2 s
        token = unsecured_token({"unsecuredLoginStringClaim_sub": "alice"}, time.time())
        return 200, {"access_token": token, "expires_in": 1}

    endpoint.answer = answer  # type: ignore[method-assign]
    with serve(endpoint):
        made = settings(secure.at("SHORT"), client_file(**credentials(endpoint)))
        assert made is not None
        with Session(made) as session:
            session.connect()
            (connection,) = session.loop._pool._connections.values()
            (broker,) = session.cluster.brokers
            replies = session.run(gather([_ask(broker, number / 4) for number in range(20)]))
            assert [str(reply) for reply in replies if isinstance(reply, KgError)] == []
            assert len(endpoint.requests) > 1
            assert list(session.loop._pool._connections.values()) == [connection]


def _ask(broker: int, seconds: float) -> Operation[object]:
    yield Pause(seconds)
    return (yield from call(broker, metadata.Request(topics=[])))


def _source(endpoint: Endpoint, **changes: object) -> TokenSource:
    login = ClientCredentials(endpoint.url, CLIENT[0], Secret(CLIENT[1]), None, Properties())
    return TokenSource(OAuthLogin(login._replace(**changes), {}))


def test_answers_that_are_no_tokens(secure: SecureKafka) -> None:
    for body in ({}, {"access_token": 7}, {"access_token": ""}, [], "text"):
        endpoint = Endpoint(secure.keys)
        endpoint.answer = lambda headers, form, body=body: (200, body)  # type: ignore[method-assign]
        with serve(endpoint), pytest.raises(AuthenticationError, match="without a token"):
            _source(endpoint).get("a")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"\0\0\0\x10" + bytes(200),
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200,
    ],
)
def test_what_is_no_http_is_a_refusal(secure: SecureKafka, said: bytes) -> None:
    """Was: http.client's own errors ended the run."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    peer = listener.accept()[0]
                    with peer:
                        peer.recv(65536)
                        peer.sendall(said)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        endpoint = Endpoint(secure.keys)
        endpoint.url = f"http://localhost:{listener.getsockname()[1]}/token"
        with pytest.raises(AuthenticationError, match="token endpoint"):
            _source(endpoint).get("a")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_redirects_are_not_followed(secure: SecureKafka) -> None:
    """The secret is for the endpoint that was configured."""
    with serve(Endpoint(secure.keys)) as other:
        endpoint = Endpoint(secure.keys)
        endpoint.answer = lambda headers, form: (302, {})  # type: ignore[method-assign]
        with serve(endpoint), pytest.raises(AuthenticationError, match="302"):
            _source(endpoint).get("a")
        assert other.requests == []


def test_urlencoded_credentials(secure: SecureKafka) -> None:
    """RFC 6749 section 2.3.1, with sasl.oauthbearer.header.urlencode=true."""
    import base64

    endpoint = Endpoint(secure.keys)
    seen: list[str] = []

    def answer(headers: dict[str, str], form: object) -> tuple[int, object]:
        seen.append(base64.b64decode(headers["authorization"].split()[1]).decode())
        return 200, {"access_token": "a.b.c"}

    endpoint.answer = answer  # type: ignore[method-assign]
    with serve(endpoint):
        _source(endpoint, urlencode=True).get("a")
        _source(endpoint).get("a")
    assert seen == ["kgtool-client:cl1ent+s3cret%2B%2F%3D%3A%25", ":".join(CLIENT)]


def test_a_file_that_is_not_there_is_the_configurations_fault(
    list_groups: Run, tmp_path: Path
) -> None:
    given = bearer(sasl_oauthbearer_token_endpoint_url=f"file://{tmp_path}/nothing")
    result = list_groups("OIDC", **given)
    assert result.status == 2
    assert f"{tmp_path}/nothing" in result.err
    assert ConfigError.exit_code == 2
