"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677; KIP-84).

::

    client-first   n,,n=user,r=NONCE[,tokenauth=true]
    server-first   r=NONCE+MORE,s=SALT,i=ITERATIONS
    client-final   c=biws,r=NONCE+MORE,p=PROOF
    server-final   v=SIGNATURE

The server's signature proves that it knows the password (or its salted form) too. Kafka does not
normalise names (no SASLprep): ScramFormatter takes the UTF-8 bytes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

from kgtool.errors import AuthenticationError

MIN_ITERATIONS = 4096
"""``ScramMechanism.minIterations``: fewer would be a server that wants weak proofs."""
MAX_ITERATIONS = 1_000_000
"""Kafka allows 16384; a server that asks for far more would only keep the client busy."""

_COUNT = re.compile("[0-9]{1,9}")
"""Python refuses to read numbers of thousands of digits."""

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class Scram:
    """One login.

    :param nonce: printable ASCII without commas, new for each login.
    :param is_token: the name and password are a delegation token's id and HMAC (KIP-48).
    """

    def __init__(
        self, mechanism: str, username: str, password: str, nonce: str, *, is_token: bool = False
    ) -> None:
        self.name = mechanism
        self.is_done = False
        self._hash = _HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        extension = ",tokenauth=true" if is_token else ""
        self._first_bare = f"n={escaped},r={nonce}{extension}"
        self._signature: bytes | None = None

    def start(self) -> bytes:
        """Return client-first."""
        return f"n,,{self._first_bare}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Answer server-first with client-final; check server-final."""
        if self._signature is None:
            return self._answer(challenge)
        if self.is_done:
            raise self._refusal("it goes on after the end")
        self._verify(challenge)
        return None

    def _answer(self, challenge: bytes) -> bytes:
        fields = self._fields(challenge)
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise self._refusal("its nonce does not continue ours")
        salt, count = self._decode(fields.get("s", "")), fields.get("i", "")
        if not _COUNT.fullmatch(count) or not MIN_ITERATIONS <= int(count) <= MAX_ITERATIONS:
            raise self._refusal(f"it wants {count[:20] or 'no number of'} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, int(count))
        without_proof = f"c=biws,r={nonce}"
        first = challenge.decode()
        message = f"{self._first_bare},{first},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = self._hmac(stored_key, message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _verify(self, challenge: bytes) -> None:
        fields = self._fields(challenge)
        if "e" in fields:
            raise self._refusal(f"it says {fields['e']}")
        if not hmac.compare_digest(self._decode(fields.get("v", "")), self._signature or b""):
            raise AuthenticationError(
                f"The broker's {self.name} signature is wrong: it does not know the password, "
                "and may not be the broker that it claims to be."
            )
        self.is_done = True

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)

    def _fields(self, message: bytes) -> dict[str, str]:
        try:
            text = message.decode()
        except UnicodeDecodeError:
            raise self._refusal("it is not UTF-8 text") from None
        return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}

    def _decode(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise self._refusal("it is not base64") from None

    def _refusal(self, reason: str) -> AuthenticationError:
        return AuthenticationError(f"The broker's {self.name} message is wrong: {reason}.")
