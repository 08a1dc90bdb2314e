"""OAUTHBEARER (RFC 7628; KIP-255, KIP-342): a bearer token; and unsecured tokens for tests."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from kgtool.errors import AuthenticationError, ConfigError

_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")


class OAuthBearer:
    """One login.

    :param token: a bearer token, with or without a signature.
    :param extensions: more names and values for the broker (KIP-342).
    """

    name = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        self.is_done = False
        if not _TOKEN.fullmatch(token):
            raise AuthenticationError("The OAUTHBEARER token has characters that no token has.")
        for key, value in (extensions or {}).items():
            if key == "auth" or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise ConfigError(f"extension_{key} in sasl.jaas.config can't be sent (RFC 7628).")
        pairs = {"auth": f"Bearer {token}", **(extensions or {})}
        body = "\x01".join(f"{key}={value}" for key, value in pairs.items())
        self._message = f"n,,\x01{body}\x01\x01".encode()

    def start(self) -> bytes:
        """Return the initial response with the token."""
        return self._message

    def step(self, challenge: bytes) -> bytes | None:
        """Take the empty answer; a JSON error must be answered, then SaslAuthenticate fails."""
        if not challenge:
            self.is_done = True
            return None
        return b"\x01"


def unsecured_token(options: Mapping[str, str], now: float) -> str:
    """Make a JWT without a signature, as OAuthBearerUnsecuredLoginCallbackHandler does.

    :param options: ``unsecuredLoginStringClaim_sub`` and its relatives.
    :param now: seconds since the epoch.
    :raises ConfigError: an option has no usable value.
    """
    prefix = "unsecuredLogin"
    claims: dict[str, Any] = {}
    for key, value in options.items():
        for kind, read in _CLAIMS.items():
            start = f"{prefix}{kind}Claim_"
            if key.startswith(start):
                claims[key[len(start) :]] = read(key, value)
    principal = options.get(f"{prefix}PrincipalClaimName", "sub")
    if principal not in claims:
        raise ConfigError(
            f"An unsecured OAUTHBEARER token needs {prefix}StringClaim_{principal} in "
            "sasl.jaas.config: it is the principal."
        )
    lifetime = options.get(f"{prefix}LifetimeSeconds", "3600")
    claims.setdefault("iat", now)
    claims.setdefault("exp", now + _number(f"{prefix}LifetimeSeconds", lifetime))
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def _part(content: dict[str, Any]) -> str:
    raw = json.dumps(content, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _number(key: str, text: str) -> float:
    try:
        number = float(text)
        return int(number) if number == int(number) else number
    except (ValueError, OverflowError):  # also NaN and infinity
        raise ConfigError(f"{key}={text} in sasl.jaas.config is not a number.") from None


def _string(_key: str, text: str) -> str:
    return text


def _list(_key: str, text: str) -> list[str]:
    """Read a list whose first character is the separator of its items."""
    return text[1:].split(text[0]) if text else []


_CLAIMS = {"String": _string, "Number": _number, "List": _list}
