"""A small OIDC provider: signed tokens, a token endpoint, and the keys that a broker checks."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

ISSUER = "https://issuer.example.org/kgtool"
AUDIENCE = "kafka"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT = ("kgtool-client", "cl1ent s3cret+/=:%")


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Keys:
    """The provider's key pair: ``signing.pem``, and ``jwks.json`` for the broker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jwks = folder / "jwks.json"

    @property
    def broker_flags(self) -> str:
        """Kafka 4 reads keys and tokens only from places that its JVM was told to allow."""
        prefix = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
        return f"{prefix}.urls={self.jwks.as_uri()} {prefix}.files={self.jwks}"

    def make(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        (self.folder / "signing.pem").write_bytes(pem)
        numbers = key.public_key().public_numbers()
        jwk = {
            "kty": "RSA",
            "kid": "k1",
            "use": "sig",
            "alg": "RS256",
            "n": _b64(numbers.n.to_bytes(256, "big")),
            "e": _b64(b"\x01\x00\x01"),
        }
        self.jwks.write_text(json.dumps({"keys": [jwk]}))

    def token(self, subject: str = "alice", lifetime: float = 600, **claims: Any) -> str:
        """A signed JWT."""
        now = int(time.time())
        header = {"alg": "RS256", "kid": "k1", "typ": "JWT"}
        body = {
            "sub": subject,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now - 5,
            "exp": now + lifetime,
            **claims,
        }
        text = ".".join(_b64(json.dumps(part).encode()) for part in (header, body))
        key = serialization.load_pem_private_key((self.folder / "signing.pem").read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        return f"{text}.{_b64(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class Endpoint:
    """A token endpoint on 127.0.0.1; ``requests`` are the forms it got, with their headers."""

    def __init__(self, keys: Keys, *, lifetime: float = 600, fail: list[int] | None = None) -> None:
        self.keys = keys
        self.lifetime = lifetime
        self.fail = fail or []
        self.requests: list[dict[str, Any]] = []
        self.trusted: Any = None
        """The public key that assertions are checked with."""
        self.url = ""

    def answer(self, headers: dict[str, str], form: dict[str, list[str]]) -> tuple[int, Any]:
        self.requests.append({"headers": headers, "form": form})
        if self.fail:
            return self.fail.pop(0), {"error": "temporarily_unavailable"}
        if form.get("grant_type") == [JWT_BEARER]:
            return self._exchange(*form.get("assertion", [""]))
        credentials = base64.b64encode(":".join(CLIENT).encode()).decode()
        if headers.get("authorization") != f"Basic {credentials}":
            return 401, {"error": "invalid_client", "error_description": "Bad credentials\x1b[31m"}
        if form.get("grant_type") != ["client_credentials"]:
            return 400, {"error": "unsupported_grant_type"}
        token = self.keys.token(lifetime=self.lifetime, scope=" ".join(form.get("scope", [])))
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}

    def _exchange(self, assertion: str) -> tuple[int, Any]:
        """Sell a token for an assertion that is signed as it says, and still valid."""
        text, _, signature = assertion.rpartition(".")
        header, claims = (json.loads(_bytes(part)) for part in text.split("."))
        self.requests[-1].update(header=header, claims=claims)
        try:
            self._verify(header["alg"], text.encode(), _bytes(signature))
        except InvalidSignature:
            return 400, {"error": "invalid_grant", "error_description": "Bad signature"}
        if not claims["nbf"] <= time.time() < claims["exp"]:
            return 400, {"error": "invalid_grant", "error_description": "Not valid now"}
        token = self.keys.token(claims.get("sub", "nobody"), lifetime=self.lifetime)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}

    def _verify(self, algorithm: str, text: bytes, signature: bytes) -> None:
        key = self.trusted
        if isinstance(key, rsa.RSAPublicKey) and algorithm == "RS256":
            key.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        elif isinstance(key, ec.EllipticCurvePublicKey) and algorithm == "ES256":
            numbers = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
            key.verify(utils.encode_dss_signature(*numbers), text, ec.ECDSA(hashes.SHA256()))
        else:
            raise InvalidSignature


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@contextlib.contextmanager
def serve(endpoint: Endpoint, context: Any = None) -> Iterator[Endpoint]:
    """Run an endpoint, in TLS with ``context``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            headers = {key.lower(): value for key, value in self.headers.items()}
            status, answer = endpoint.answer(headers, parse_qs(body))
            raw = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    scheme = "http" if context is None else "https"
    endpoint.url = f"{scheme}://localhost:{server.server_address[1]}/token"
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
