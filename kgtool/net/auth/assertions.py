"""The signed assertions of the JWT bearer grant (RFC 7523), as Kafka 4.1 makes them (KIP-1139).

``sasl.oauthbearer.assertion.file`` holds a finished one; else kgtool signs its own: the template's
claims, over them those of the properties, over them what only the moment knows. Classes:
FileAssertionCreator, DefaultAssertionCreator, LayeredAssertionJwtTemplate.
"""

from __future__ import annotations

import base64
import json
import uuid
from typing import TYPE_CHECKING, Any

from kgtool.errors import ConfigError

if TYPE_CHECKING:
    from kgtool.config.logins import JwtBearer

PREFIX = "sasl.oauthbearer.assertion."


def assertion(login: JwtBearer, now: float) -> str:
    """Return the assertion to send.

    :param now: seconds since the epoch.
    :raises ConfigError: the key, the template or the assertion's file can't be used.
    """
    if login.assertion_file is not None:
        return _read(login.assertion_file, "file").decode("ascii", "replace").strip()
    template = _template(login.template_file)
    header = {**template["header"], "alg": login.algorithm, "typ": "JWT"}
    payload = {**template["payload"], **login.claims, "iat": int(now)}
    payload["exp"] = int(now) + login.expires_seconds
    payload["nbf"] = int(now) - login.not_before_seconds
    if login.has_id:
        payload["jti"] = str(uuid.uuid4())
    text = f"{_encode(header)}.{_encode(payload)}"
    return f"{text}.{_base64(_sign(login, text.encode()))}"


def _encode(part: dict[str, Any]) -> str:
    return _base64(json.dumps(part).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _template(path: str | None) -> dict[str, dict[str, Any]]:
    """Read ``{"header": {…}, "payload": {…}}``."""
    if path is None:
        return {"header": {}, "payload": {}}
    try:
        found = json.loads(_read(path, "template.file"))
        parts = {name: dict(found.get(name) or {}) for name in ("header", "payload")}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ConfigError(
            f'{path} ({PREFIX}template.file) is not a JSON object with "header" and "payload".'
        ) from None
    return parts


def _read(path: str, name: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs start-up time
            return file.read()
    except OSError as error:
        raise ConfigError(f"Can't read {path} ({PREFIX}{name}): {error.strerror}.") from None


def _sign(login: JwtBearer, text: bytes) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    name = f"{login.key_file} ({PREFIX}private.key.file)"
    raw = _read(login.key_file, "private.key.file")
    secret = login.passphrase.reveal().encode() if login.passphrase else None
    try:
        key = serialization.load_pem_private_key(raw, secret)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{name} can't be used: {error}",
            hint=f"It must be a PEM file; {PREFIX}private.key.passphrase opens an encrypted one.",
        ) from None
    if login.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return key.sign(text, padding.PKCS1v15(), hashes.SHA256())
    if login.algorithm == "ES256" and isinstance(key, ec.EllipticCurvePrivateKey):
        # RFC 7518: the two numbers one after the other, not their DER.
        numbers = utils.decode_dss_signature(key.sign(text, ec.ECDSA(hashes.SHA256())))
        return b"".join(number.to_bytes(32, "big") for number in numbers)
    raise ConfigError(
        f"{name} is not a key for {PREFIX}algorithm={login.algorithm}.",
        hint="RS256 takes an RSA key, ES256 one of the curve P-256.",
    )
