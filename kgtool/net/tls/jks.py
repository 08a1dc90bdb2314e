"""Java's own key store format, as ``sun.security.provider.JavaKeyStore`` writes it.

::

    FEEDFEED, version 1 or 2, number of entries
      1 (a key)          alias, time, EncryptedPrivateKeyInfo, number of certificates, certificates
      2 (a certificate)  alias, time, certificate
    SHA-1 of the password in UTF-16, "Mighty Aphrodite" and everything before

A key is encrypted with Sun's own key stream: SHA-1 of the password and the last 20 bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import NamedTuple

MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"

_WHITENER = b"Mighty Aphrodite"
_DIGEST = 20
# SEQUENCE { SEQUENCE { OID 1.3.6.1.4.1.42.2.17.1.1, NULL }, OCTET STRING }
_SUN_KEY_PROTECTOR = bytes.fromhex("060a2b060104012a02110101")


class WrongPassword(ValueError):
    """The password of the store, or of a key, is another one."""


class KeyEntry(NamedTuple):
    """A private key, still encrypted, and its certificate chain in DER, the key's own first."""

    alias: str
    encrypted: bytes
    chain: tuple[bytes, ...]


class KeyStore(NamedTuple):
    """The entries of a store; certificates are DER."""

    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


class _ByteReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if count < 0 or len(part) < count:
            raise ValueError("it is cut off")
        self._at += count
        return part

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def text(self) -> str:
        # Java's modified UTF-8; names are only shown.
        return self.take(struct.unpack(">H", self.take(2))[0]).decode("utf-8", "replace")

    def blob(self) -> bytes:
        return self.take(self.int32())


def read_store(data: bytes, password: str | None) -> KeyStore:
    """Read a store.

    :param password: None reads the certificates without a check, as Java does.
    :raises WrongPassword: the checksum does not agree: a wrong password, or a damaged file.
    :raises ValueError: it is not a key store.
    """
    if data[:4] != MAGIC or len(data) < 12 + _DIGEST:
        raise ValueError("it is not a JKS store")
    if password is not None:
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        found = hashlib.sha1(_utf16(password) + _WHITENER + body).digest()
        if not hmac.compare_digest(found, digest):
            raise WrongPassword("the password is wrong, or the file is damaged")
    reader = _ByteReader(data[4:])
    version, count = reader.int32(), reader.int32()
    if version not in (1, 2):
        raise ValueError(f"its format has version {version}")
    keys, trusted = [], []
    for _ in range(count):
        tag, alias, _ = reader.int32(), reader.text(), reader.take(8)
        if tag == 1:
            encrypted = reader.blob()
            chain = tuple(_certificate(reader, version) for _ in range(reader.int32()))
            keys.append(KeyEntry(alias, encrypted, chain))
        elif tag == 2:
            trusted.append(_certificate(reader, version))
        else:
            raise ValueError(f"it has an entry of kind {tag}")
    return KeyStore(tuple(keys), tuple(trusted))


def _certificate(reader: _ByteReader, version: int) -> bytes:
    kind = reader.text() if version == 2 else "X.509"
    if kind != "X.509":
        raise ValueError(f"it has a certificate of kind {kind}")
    return reader.blob()


def decrypt_key(key: KeyEntry, password: str) -> bytes:
    """Return a private key as PKCS #8 in DER.

    :raises WrongPassword: the key has another password.
    :raises ValueError: the key is encrypted in another way.
    """
    sealed = _sealed(key.encrypted)
    salt, body, check = sealed[:_DIGEST], sealed[_DIGEST:-_DIGEST], sealed[-_DIGEST:]
    secret = _utf16(password)
    stream, block = bytearray(), salt
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(body, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):
        raise WrongPassword("the key has another password")
    return plain


def _sealed(info: bytes) -> bytes:
    """Return the octets inside an EncryptedPrivateKeyInfo of Sun's key protector."""
    outer, _ = _der(info, 0, 0x30)
    algorithm, after = _der(outer, 0, 0x30)
    if not algorithm.startswith(_SUN_KEY_PROTECTOR):
        raise ValueError("its key is encrypted in a way that is not JKS's own")
    octets, _ = _der(outer, after, 0x04)
    if len(octets) < 2 * _DIGEST:
        raise ValueError("its key is cut off")
    return octets


def _der(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """Return the content of one DER value, and where the next one begins."""
    if len(data) < at + 2 or data[at] != tag:
        raise ValueError("its key can't be read")
    size, at = data[at + 1], at + 2
    if size >= 0x80:
        count = size & 0x7F
        size, at = int.from_bytes(data[at : at + count], "big"), at + count
    if len(data) < at + size:
        raise ValueError("its key is cut off")
    return data[at : at + size], at + size


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")
