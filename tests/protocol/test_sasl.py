"""Mechanisms and the login dialogue, without sockets: published examples, and hostile brokers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
from typing import Any

import pytest

from kgtool.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionLost,
    DecodeError,
    KgError,
    NotKafka,
)
from kgtool.protocol.api import api_versions, list_groups, sasl_authenticate, sasl_handshake
from kgtool.protocol.channel import CLOSED, LOGIN, READY, Channel
from kgtool.protocol.plan import decode_prefix, encode
from kgtool.protocol.sasl import Mechanism, Unknown
from kgtool.protocol.sasl.gssapi import Gssapi
from kgtool.protocol.sasl.oauthbearer import OAuthBearer, unsecured_token
from kgtool.protocol.sasl.plain import Plain
from kgtool.protocol.sasl.scram import Scram
from tests.protocol.test_channel import frame, groups_body, versions_body

# -- PLAIN and SCRAM --------------------------------------------------------------------------


def test_plain_is_the_example_of_rfc_4616() -> None:
    mechanism = Plain("tim", "tanstaaftanstaaf")
    assert mechanism.start() == b"\0tim\0tanstaaftanstaaf"
    assert not mechanism.is_done
    assert mechanism.step(b"") is None
    assert mechanism.is_done


def test_scram_is_the_example_of_rfc_7677() -> None:
    mechanism = Scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert mechanism.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    first = (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert mechanism.step(first) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert not mechanism.is_done
    assert mechanism.step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None
    assert mechanism.is_done


def test_scram_escapes_names_and_marks_tokens() -> None:
    assert Scram("SCRAM-SHA-512", "a=b,c", "x", "N").start() == b"n,,n=a=3Db=2Cc,r=N"
    marked = Scram("SCRAM-SHA-256", "id", "hmac", "N", is_token=True).start()
    assert marked == b"n,,n=id,r=N,tokenauth=true"


class ScramServer:
    """RFC 5802 from the other side, written for the tests."""

    def __init__(self, password: str, algorithm: str = "sha512", iterations: int = 4096) -> None:
        self.algorithm, self.iterations, self.salt = algorithm, iterations, b"salty"
        self.salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), self.salt, iterations)
        self.messages: list[str] = []

    def first(self, client: bytes) -> bytes:
        bare = client.decode().removeprefix("n,,")
        nonce = bare.partition("r=")[2].partition(",")[0]
        salt = base64.b64encode(self.salt).decode()
        self.messages = [bare, f"r={nonce}more,s={salt},i={self.iterations}"]
        return self.messages[1].encode()

    def final(self, client: bytes) -> bytes:
        """Return server-final; assert that the proof is right."""
        without, _, proof = client.decode().rpartition(",p=")
        auth = ",".join([*self.messages, without]).encode()
        client_key = self._hmac(self.salted, b"Client Key")
        stored = hashlib.new(self.algorithm, client_key).digest()
        shown = bytes(
            a ^ b for a, b in zip(base64.b64decode(proof), self._hmac(stored, auth), strict=True)
        )
        assert shown == client_key
        signature = self._hmac(self._hmac(self.salted, b"Server Key"), auth)
        return b"v=" + base64.b64encode(signature)

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.algorithm)


def test_scram_sha_512_with_a_password_in_utf_8() -> None:
    client, server = Scram("SCRAM-SHA-512", "a", "pä$$€", "N0nce"), ScramServer("pä$$€")
    answer = client.step(server.first(client.start()))
    assert answer is not None
    assert client.step(server.final(answer)) is None
    assert client.is_done


HOSTILE = {
    "another nonce": b"r=elsewhere,s=c2FsdA==,i=4096",
    "our nonce and nothing more": b"r=N0nce,s=c2FsdA==,i=4096",
    "no nonce": b"s=c2FsdA==,i=4096",
    "too few iterations": b"r=N0ncex,s=c2FsdA==,i=4095",
    "iterations for ever": b"r=N0ncex,s=c2FsdA==,i=2000000000",
    "no number": b"r=N0ncex,s=c2FsdA==,i=-1",
    "not base64": b"r=N0ncex,s=***,i=4096",
    "no text": b"\xff\xfe",
    "nothing": b"",
}


@pytest.mark.parametrize("first", HOSTILE.values(), ids=HOSTILE)
def test_scram_refuses_a_broker_that_does_not_keep_to_it(first: bytes) -> None:
    client = Scram("SCRAM-SHA-256", "user", "h1dden", "N0nce")
    client.start()
    with pytest.raises(AuthenticationError) as caught:
        client.step(first)
    assert "h1dden" not in str(caught.value)
    assert not client.is_done


@pytest.mark.parametrize("final", [b"v=AAAA", b"", b"v=", b"e=unknown-user", b"v=***", b"x"])
def test_scram_refuses_a_broker_that_does_not_know_the_password(final: bytes) -> None:
    client = Scram("SCRAM-SHA-256", "user", "secret", "N0nce")
    client.start()
    client.step(b"r=N0ncex,s=c2FsdA==,i=4096")
    with pytest.raises(AuthenticationError):
        client.step(final)
    assert not client.is_done


# -- OAUTHBEARER ------------------------------------------------------------------------------


def test_oauthbearer_is_the_form_of_rfc_7628() -> None:
    mechanism = OAuthBearer("a.b.c", {"logicalCluster": "lkc-1"})
    assert mechanism.start() == b"n,,\x01auth=Bearer a.b.c\x01logicalCluster=lkc-1\x01\x01"
    assert mechanism.step(b"") is None
    assert mechanism.is_done


def test_oauthbearer_answers_an_error_with_its_one_byte() -> None:
    mechanism = OAuthBearer("a.b.c")
    mechanism.start()
    assert mechanism.step(b'{"status":"invalid_token"}') == b"\x01"
    assert not mechanism.is_done


@pytest.mark.parametrize("token", ["", "a b", "a\x01auth=x", "a\nb", "ä.b.c"])
def test_tokens_with_characters_that_would_end_the_field(token: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        OAuthBearer(token)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("pair", [("auth", "x"), ("a1", "x"), ("a", "x\x01y"), ("a", "")])
def test_extensions_that_rfc_7628_does_not_allow(pair: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"extension_{pair[0]}"):
        OAuthBearer("a.b.c", dict([pair]))


def claims(token: str) -> dict[str, Any]:
    header, body, signature = token.split(".")
    assert signature == ""
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=="))
    return found


def test_unsecured_tokens() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginListClaim_scope": "|a|b c",
        "unsecuredLoginNumberClaim_n": "1.5",
        "unsecuredLoginLifetimeSeconds": "60",
    }
    assert claims(unsecured_token(options, 1000.0)) == {
        "sub": "alice",
        "scope": ["a", "b c"],
        "n": 1.5,
        "iat": 1000,
        "exp": 1060,
    }
    renamed = {"unsecuredLoginPrincipalClaimName": "who", "unsecuredLoginStringClaim_who": "bob"}
    assert claims(unsecured_token(renamed, 0))["exp"] == 3600


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unsecuredLoginStringClaim_x": "1"},
        {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "soon"},
        {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginNumberClaim_n": "many"},
    ],
)
def test_unsecured_tokens_that_cannot_be_made(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="unsecuredLogin"):
        unsecured_token(options, 0)


# -- GSSAPI -----------------------------------------------------------------------------------


class FakeContext:
    """A security context of two tokens; messages are wrapped in brackets."""

    def __init__(self) -> None:
        self.complete = False
        self.seen: list[bytes | None] = []

    def step(self, token: bytes | None) -> bytes | None:
        self.seen.append(token)
        self.complete = token is not None
        return None if token else b"ticket"

    def wrap(self, data: bytes) -> bytes:
        return b"[" + data + b"]"

    def unwrap(self, data: bytes) -> bytes:
        return data[1:-1]


def test_gssapi_chooses_no_security_layer() -> None:
    mechanism = Gssapi(FakeContext())
    assert mechanism.start() == b"ticket"
    assert mechanism.step(b"reply") == b"", "the context is complete, but the server goes on"
    assert mechanism.step(b"[\x07\x00\x40\x00]") == b"[\x01\x00\x00\x00]"
    assert not mechanism.is_done
    assert mechanism.step(b"") is None
    assert mechanism.is_done


@pytest.mark.parametrize("offer", [b"[\x06\x00\x40\x00]", b"[]", b"[\x01]"])
def test_gssapi_refuses_a_broker_that_insists_on_a_layer(offer: bytes) -> None:
    mechanism = Gssapi(FakeContext())
    mechanism.start()
    mechanism.step(b"reply")
    with pytest.raises(AuthenticationError, match="layer"):
        mechanism.step(offer)


# -- the dialogue -----------------------------------------------------------------------------

OFFERED = {18: (0, 4), 17: (0, 1), 36: (0, 2), 16: (0, 5)}


class Dialogue:
    """A broker's side of one channel: takes requests one by one, and answers them."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.channel = Channel("broker:9092", "test")
        self.channel.start(mechanism)

    def take(self) -> tuple[int, int, int, bytes]:
        """Key, version, correlation id and body of the one request that was sent."""
        data = self.channel.data_to_send()
        (length,) = struct.unpack_from(">i", data)
        assert len(data) == 4 + length, "one request at a time"
        key, version, number = struct.unpack_from(">hhi", data, 4)
        (name,) = struct.unpack_from(">h", data, 12)
        flexible = key == 36 and version >= 2 or key == 18 and version >= 3
        return key, version, number, data[14 + name + flexible :]

    def versions(self, offered: dict[int, tuple[int, int]] | None = None) -> tuple[int, int]:
        key, version, number, _ = self.take()
        self.channel.receive(frame(number, versions_body(version, offered or OFFERED)))
        return key, version

    def handshake(self, code: int = 0, mechanisms: tuple[str, ...] = ("PLAIN",)) -> str:
        key, version, number, body = self.take()
        assert (key, version) == (17, 1)
        reply = sasl_handshake.Response(error_code=code, mechanisms=list(mechanisms))
        self.channel.receive(frame(number, encode(reply, 1)))
        asked: str = decode_prefix(sasl_handshake.Request, 1, body, 0)[0].mechanism
        return asked

    def token(self, answer: bytes = b"", code: int = 0, **fields: Any) -> bytes:
        key, version, number, body = self.take()
        assert key == 36
        reply = sasl_authenticate.Response(error_code=code, auth_bytes=answer, **fields)
        self.channel.receive(frame(number, encode(reply, version), flexible=version >= 2))
        got: bytes = decode_prefix(sasl_authenticate.Request, version, body, 0)[0].auth_bytes
        return got

    @property
    def error(self) -> KgError:
        assert self.channel.state == CLOSED
        assert self.channel.error is not None
        return self.channel.error


def test_the_order_is_versions_handshake_tokens_versions_work() -> None:
    dialogue = Dialogue(Plain("alice", "secret"))
    dialogue.channel.send("work", list_groups.Request())
    assert dialogue.channel.state == LOGIN
    assert dialogue.versions() == (18, 0)
    assert dialogue.handshake() == "PLAIN"
    assert dialogue.token() == b"\0alice\0secret"
    assert dialogue.versions() == (18, 4)
    assert dialogue.channel.state == READY
    key, _, number, _ = dialogue.take()
    assert key == 16
    dialogue.channel.receive(frame(number, groups_body(), flexible=True))
    ((token, reply),) = dialogue.channel.replies()
    assert (token, reply.groups[0].group_id) == ("work", "g")


def test_scram_through_the_dialogue() -> None:
    server = ScramServer("pencil", "sha256")
    dialogue = Dialogue(Scram("SCRAM-SHA-256", "user", "pencil", "N0nce"))
    dialogue.versions()
    dialogue.handshake()
    # What the mechanism says next is only known when it was asked: answer from the bytes.
    first = server.first(b"n,,n=user,r=N0nce")
    assert dialogue.token(first) == b"n,,n=user,r=N0nce"
    _, version, number, body = dialogue.take()
    proof = decode_prefix(sasl_authenticate.Request, version, body, 0)[0].auth_bytes
    reply = sasl_authenticate.Response(auth_bytes=server.final(proof), session_lifetime_ms=5000)
    dialogue.channel.receive(frame(number, encode(reply, version), flexible=True))
    assert dialogue.channel.session_lifetime_ms == 5000
    dialogue.versions()
    assert dialogue.channel.state == READY


def test_a_broker_that_skips_the_proof_is_refused() -> None:
    """Success without a signature would be an impostor that takes any password."""
    dialogue = Dialogue(Scram("SCRAM-SHA-256", "user", "pencil", "N0nce"))
    dialogue.versions()
    dialogue.handshake()
    dialogue.token(b"")
    assert isinstance(dialogue.error, AuthenticationError)


@pytest.mark.parametrize(("offered", "version"), [((0, 0), 0), ((0, 1), 1), ((0, 7), 2)])
def test_tokens_go_in_the_highest_version_of_both(offered: tuple[int, int], version: int) -> None:
    dialogue = Dialogue(Plain("a", "b"))
    dialogue.versions({**OFFERED, 36: offered})
    dialogue.handshake()
    assert dialogue.take()[1] == version


def test_a_mechanism_that_is_not_enabled_names_those_that_are() -> None:
    dialogue = Dialogue(Unknown("DIGEST-MD5", ("PLAIN",)))
    dialogue.versions()
    assert dialogue.handshake(33, ("SCRAM-SHA-256", "PLAIN")) == "DIGEST-MD5"
    assert "enabled there: PLAIN, SCRAM-SHA-256" in str(dialogue.error)


def test_a_mechanism_that_only_the_broker_has() -> None:
    dialogue = Dialogue(Unknown("DIGEST-MD5", ("PLAIN",)))
    dialogue.versions()
    dialogue.handshake(0, ("DIGEST-MD5",))
    assert "kgtool does not have it" in str(dialogue.error)


def test_a_listener_without_a_login() -> None:
    dialogue = Dialogue(Plain("a", "b"))
    dialogue.versions()
    dialogue.handshake(34, ())
    assert isinstance(dialogue.error, AuthenticationError)
    assert "without a login" in str(dialogue.error)


def test_a_refusal_has_the_brokers_words_and_no_secret() -> None:
    dialogue = Dialogue(Plain("alice", "h1dden"))
    dialogue.channel.send("work", list_groups.Request())
    dialogue.versions()
    dialogue.handshake()
    dialogue.token(code=58, error_message="Authentication failed: Invalid username or password")
    assert "Invalid username or password" in str(dialogue.error)
    assert "h1dden" not in f"{dialogue.error} {dialogue.error.hint}"
    assert dialogue.channel.replies() == [("work", dialogue.error)]


def test_a_broker_before_1_0_is_named() -> None:
    dialogue = Dialogue(Plain("a", "b"))
    dialogue.versions({18: (0, 0), 17: (0, 0)})
    assert "Kafka ≥ 1.0" in str(dialogue.error)


def test_a_peer_that_never_comes_to_an_end() -> None:
    dialogue = Dialogue(OAuthBearer("a.b.c"))
    dialogue.versions()
    dialogue.handshake()
    for _ in range(30):
        if dialogue.channel.state == CLOSED:
            break
        dialogue.token(b"{}")
    assert "does not come to an end" in str(dialogue.error)


def test_a_peer_that_hangs_up_in_the_middle() -> None:
    dialogue = Dialogue(Plain("a", "b"))
    dialogue.versions()
    dialogue.take()
    dialogue.channel.receive(b"")
    assert isinstance(dialogue.error, ConnectionLost)
    assert "during the login" in str(dialogue.error)


def test_garbage_instead_of_an_answer() -> None:
    dialogue = Dialogue(Plain("a", "b"))
    _, _, number, _ = dialogue.take()
    dialogue.channel.receive(frame(number, b"\x7f" * 40))
    assert isinstance(dialogue.error, NotKafka)
    for damaged in (b"", b"\x00", b"\x00\x00\x7f\xff\xff\xff"):
        dialogue = Dialogue(Plain("a", "b"))
        dialogue.versions()
        _, _, number, _ = dialogue.take()
        dialogue.channel.receive(frame(number, damaged))
        assert isinstance(dialogue.error, DecodeError)


def test_a_login_is_renewed_on_the_same_connection() -> None:
    dialogue = Dialogue(Plain("a", "b"))
    dialogue.versions()
    dialogue.handshake()
    dialogue.token(session_lifetime_ms=2000)
    dialogue.versions()
    channel = dialogue.channel
    channel.send("before", list_groups.Request())
    _, _, before, _ = dialogue.take()
    channel.renew_login(Plain("a", "c"))
    channel.send("after", list_groups.Request())
    _, _, number, _ = handshake = dialogue.take()
    assert handshake[0] == 17, "no ApiVersions this time"
    channel.receive(frame(before, groups_body(), flexible=True))
    reply = sasl_handshake.Response(mechanisms=["PLAIN"])
    channel.receive(frame(number, encode(reply, 1)))
    assert dialogue.token(session_lifetime_ms=3000) == b"\0a\0c"
    assert channel.state == READY
    assert channel.session_lifetime_ms == 3000
    assert dialogue.take()[0] == 16
    assert [token for token, _ in channel.replies()] == ["before"]
    assert api_versions.Request.KEY == 18
