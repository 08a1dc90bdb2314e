"""Trust and key stores in PEM, PKCS #12 and JKS, put into an ``ssl.SSLContext``.

The format of a file is detected by its first bytes, as Java does for JKS and PKCS #12. OpenSSL
reads a private key only from a file: it is in memory (memfd), or, where that does not exist, in a
temporary file of the user's own, encrypted with a one-time password.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kgtool.errors import ConfigError, readable
from kgtool.net.tls import jks

if TYPE_CHECKING:
    from kgtool.config.security import TlsStore

_PEM = b"-----BEGIN "


class Identity(NamedTuple):
    """A private key and its certificate chain as one PEM text, and the key's password."""

    pem: str
    password: str | None
    is_encrypted: bool = True


def read_trusted(store: TlsStore) -> tuple[str, ...]:
    """Return the certificates that a store trusts, as PEM texts.

    :raises ConfigError: the store can't be read, or has no certificate.
    """
    if store.certificates is not None:
        found = read_pem(store.certificates.reveal()).certificates
    else:
        data = _read(store)
        is_pem = _PEM in data or store.type == "PEM"
        found = read_pem(data.decode("latin-1")).certificates if is_pem else _trusted(data, store)
    if not found:
        raise ConfigError(f"{_name(store)} has no certificate to trust.")
    return tuple(found)


def trusted_certificates(context: ssl.SSLContext, store: TlsStore) -> None:
    """Trust the certificates of a store.

    :raises ConfigError: the store can't be read, or has no certificate.
    """
    texts = "".join(read_trusted(store))
    try:
        if not texts.isascii():
            raise ValueError("something in it is not ASCII")
        context.load_verify_locations(cadata=texts)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise ConfigError(
            f"{_name(store)} has a certificate that can't be read: {reason}."
        ) from None


def load_identity(context: ssl.SSLContext, store: TlsStore) -> None:
    """Use the certificate of a key store for brokers that require one.

    :raises ConfigError: the store can't be read, or its password is wrong.
    """
    found = read_identity(store)
    name = _name(store)
    password = found.password

    def answer() -> str:
        # Without it OpenSSL would ask on the terminal.
        if password is None:
            raise ConfigError(f"{name} has an encrypted key: ssl.key.password is missing.")
        return password

    try:
        with _file_with(found.pem.encode()) as path:
            context.load_cert_chain(path, password=answer)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = "the key does not belong to the certificate"
        elif found.is_encrypted:
            why = "its key can't be decrypted: ssl.key.password is wrong"
        else:
            why = "its key or certificate can't be read"
        raise ConfigError(f"{name} can't be used: {why}.") from None


def _name(store: TlsStore) -> str:
    return store.location or f"The {store.role} in the configuration"


def _read(store: TlsStore) -> bytes:
    assert store.location is not None
    place = f"ssl.{store.role}.location {store.location}"
    # Not by pathlib, which costs start-up time.
    with readable(place), open(store.location, "rb") as file:  # noqa: PTH123
        return file.read()


# -- trust ------------------------------------------------------------------------------------


def _trusted(data: bytes, store: TlsStore) -> tuple[str, ...]:
    """Return the trusted certificates of a binary store as PEM texts."""
    password = store.password.reveal() if store.password else None
    if data[:4] == jks.MAGIC:
        found = _jks(data, password, store)
        # Java trusts the first certificate of a key entry's chain too.
        ders = [*found.trusted, *(key.chain[0] for key in found.keys if key.chain)]
        return tuple(map(ssl.DER_cert_to_PEM_cert, ders))
    opened = _pkcs12(data, password, store)
    others = opened.additional_certs
    if opened.cert is not None:
        others = [opened.cert, *filter(_is_entry, others)]
    return tuple(dict.fromkeys(_pem_of(entry.certificate) for entry in others))


def _is_entry(found: Any) -> bool:
    """Whether a certificate beside a key is an entry of its own, which Java trusts.

    The rest of a key's chain is not. The attribute that distinguishes them is not accessible here,
    but entries have an alias, and keytool gives a chain's certificate its subject's name, or none.
    """
    name = found.friendly_name
    return name is not None and b"=" not in name


def _pem_of(certificate: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    text: bytes = certificate.public_bytes(Encoding.PEM)
    return text.decode()


# -- identity ---------------------------------------------------------------------------------


def read_identity(store: TlsStore) -> Identity:
    """Read the key of a key store with its certificates.

    :raises ConfigError: the store can't be read, or its password is wrong.
    """
    key_password = store.key_password.reveal() if store.key_password else None
    if store.key is not None and store.certificates is not None:
        return _pem_identity(f"{store.key.reveal()}\n{store.certificates.reveal()}", store)
    data = _read(store)
    if _PEM in data or store.type == "PEM":
        return _pem_identity(data.decode("latin-1"), store)
    assert store.password is not None  # checked with the configuration
    password = store.password.reveal()
    if data[:4] == jks.MAGIC:
        return _jks_identity(data, password, key_password or password, store)
    return _pkcs12_identity(data, password, store)


def _pem_identity(text: str, store: TlsStore) -> Identity:
    found = read_pem(text)
    if found.key is None or not found.certificates:
        missing = "private key" if found.key is None else "certificate"
        raise ConfigError(f"{_name(store)} has no {missing}.")
    password = store.key_password.reveal() if store.key_password else None
    if hasattr(os, "memfd_create") or found.is_encrypted:
        return Identity(found.key + "".join(found.certificates), password, found.is_encrypted)
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(found.key.encode(), None)
    except ValueError:
        raise ConfigError(f"{_name(store)} has a key that can't be read.") from None
    return _encrypted(key, found.certificates)


def _jks_identity(data: bytes, password: str, key_password: str, store: TlsStore) -> Identity:
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    found = _jks(data, password, store)
    if not found.keys:
        raise ConfigError(f"{_name(store)} has no private key.")
    entry = found.keys[0]
    try:
        key = load_der_private_key(jks.decrypt_key(entry, key_password), None)
    except jks.WrongPassword:
        raise ConfigError(
            f"{_name(store)}: the key {entry.alias} has another password; set ssl.key.password."
        ) from None
    except ValueError as error:
        raise ConfigError(f"{_name(store)} can't be used: {error}.") from None
    return _encrypted(key, map(ssl.DER_cert_to_PEM_cert, entry.chain))


def _pkcs12_identity(data: bytes, password: str, store: TlsStore) -> Identity:
    opened = _pkcs12(data, password, store)
    if opened.key is None or opened.cert is None:
        raise ConfigError(f"{_name(store)} has no private key with a certificate.")
    chain = _chain(opened.cert.certificate, [c.certificate for c in opened.additional_certs])
    return _encrypted(opened.key, map(_pem_of, chain))


def _chain(leaf: Any, others: list[Any]) -> list[Any]:
    """Order a chain from the key's own certificate up: the file may have it in any order."""
    chain = [leaf]
    while above := [c for c in others if c.subject == chain[-1].issuer and c not in chain]:
        chain.append(above[0])
    return chain


def _encrypted(key: Any, certificates: Iterable[str]) -> Identity:
    import secrets

    from cryptography.hazmat.primitives import serialization

    password = secrets.token_urlsafe(24)
    sealed = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    )
    return Identity(sealed.decode() + "".join(certificates), password)


# -- formats ----------------------------------------------------------------------------------


def _jks(data: bytes, password: str | None, store: TlsStore) -> jks.KeyStore:
    try:
        return jks.read_store(data, password)
    except ValueError as error:
        raise _unreadable(store, str(error)) from None


def _pkcs12(data: bytes, password: str | None, store: TlsStore) -> Any:
    if data[:4] == jks.JCEKS_MAGIC:
        raise _unreadable(
            store,
            "it is a JCEKS store",
            "Convert it: keytool -importkeystore -deststoretype pkcs12.",
        )
    if data[:1] != b"\x30":
        raise _unreadable(store, "it is not a PEM, PKCS12 or JKS store")
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        return pkcs12.load_pkcs12(data, password.encode() if password is not None else None)
    except ValueError as error:
        if "password" in str(error).lower():
            given = "the password is wrong" if password is not None else "its password is missing"
            raise _unreadable(store, given) from None
        raise _unreadable(store, "it is damaged, or not a PKCS12 store") from None


def _unreadable(store: TlsStore, reason: str, hint: str | None = None) -> ConfigError:
    if "password" in reason:
        hint = f"Check ssl.{store.role}.password."
    return ConfigError(
        f"Can't read ssl.{store.role}.location {store.location}: {reason}.", hint=hint
    )


@contextlib.contextmanager
def _file_with(content: bytes) -> Iterator[str]:
    """Give the content a path for as long as OpenSSL reads it.

    In a real file, the content is encrypted (``_pem_identity``, ``_encrypted``).
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("kgtool", os.MFD_CLOEXEC)
        path, remove = f"/proc/self/fd/{number}", False
    else:
        import tempfile

        number, path = tempfile.mkstemp(prefix="kgtool-")  # 0600
        remove = True
    try:
        with open(number, "wb", closefd=False) as file:  # noqa: PTH123
            file.write(content)
        yield path
    finally:
        os.close(number)
        if remove:
            os.unlink(path)  # noqa: PTH108


# ---------------------------------------------------------------------------------------------
# PEM texts from configurations. A continued line of a properties file loses its line breaks, which
# OpenSSL needs, unlike Kafka's PemStore. So blocks are extracted and written again.


_BLOCK = re.compile(
    r"-----BEGIN\s+([A-Z0-9 ]+?)\s*-----\s*(.*?)\s*-----END\s+\1\s*-----", re.DOTALL
)
_BLANKS = re.compile(r"\s+")
_WIDTH = 64


class Pem(NamedTuple):
    """The blocks of a PEM text, formatted for OpenSSL."""

    certificates: tuple[str, ...]
    key: str | None

    @property
    def is_encrypted(self) -> bool:
        """Whether the key needs a password."""
        return self.key is not None and "ENCRYPTED" in self.key


def read_pem(text: str) -> Pem:
    """Find the certificates and the first private key of a text."""
    certificates, keys = [], []
    for label, body in _BLOCK.findall(text):
        if label in ("CERTIFICATE", "X509 CERTIFICATE"):
            certificates.append(_block("CERTIFICATE", body))
        elif label.endswith("PRIVATE KEY"):
            keys.append(_block(label, body))
    return Pem(tuple(certificates), keys[0] if keys else None)


def _block(label: str, body: str) -> str:
    # A key of OpenSSL's older form has headers, which need their line breaks.
    if ":" not in body:
        packed = _BLANKS.sub("", body)
        body = "\n".join(packed[at : at + _WIDTH] for at in range(0, len(packed), _WIDTH))
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n"
