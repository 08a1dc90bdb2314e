"""TLS on a non-blocking socket: OpenSSL between two memory buffers.

The buffers make it possible to check the first bytes of the peer before OpenSSL, for a good error
about a listener without TLS, and to move a megabyte with one system call.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgtool.errors import ConfigError, KgError, NotKafka, TlsFailed
from kgtool.net.tcp import CHUNK, Stream, TlsLost, connection_error

if TYPE_CHECKING:
    from kgtool.config.security import Tls

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}

_RECORD = 16 * 1024


class TlsStream(Stream):
    """Bytes in TLS; bytes written before the end of the handshake wait for it.

    :param peer: host and port, for messages.
    """

    def __init__(
        self, connected: socket.socket, context: ssl.SSLContext, host: str, peer: str
    ) -> None:
        super().__init__(connected)
        self._peer = peer
        self._host = host.partition("%")[0]  # an IPv6 zone is only this machine's
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=self._host)
        self._plain = bytearray()
        self._is_secure = False
        self._head = b""
        self._shake_hands()

    def write(self, data: bytes) -> None:
        """Take bytes to send.

        :raises OSError: the connection broke.
        :raises NetworkError: TLS failed.
        """
        self._plain += data
        self._advance()

    def read(self) -> bytes | None:
        """Return what has arrived; None if nothing has, ``b""`` at the end.

        :raises OSError: the connection broke.
        :raises NetworkError: the peer speaks no TLS, or TLS failed.
        """
        raw = self._receive()
        if not raw:
            return raw
        self._check_head(raw)
        self._incoming.write(raw)
        self._shake_hands()
        data = self._decrypt() if self._is_secure else None
        self._advance()
        return data

    def _receive(self) -> bytes | None:
        try:
            raw = super().read()
        except OSError as error:
            if self._is_secure:
                raise
            reason = connection_error(error, self._peer).message.rstrip(".")
            raise TlsLost(f"{reason} in the middle of the TLS handshake.") from None
        if raw == b"" and not self._is_secure:
            raise TlsLost(f"{self._peer} closed the connection in the middle of the TLS handshake.")
        return raw

    def _check_head(self, raw: bytes) -> None:
        """Refuse a peer whose first bytes are not a TLS record (content type 20 to 23, then 03)."""
        if len(self._head) >= 5 or not raw:
            return
        self._head += raw[: 5 - len(self._head)]
        if self._head[0] in range(0x14, 0x18) and self._head[1:2] in (b"", b"\x03"):
            return
        what = "is a web server without TLS" if self._head[:4] == b"HTTP" else "does not speak TLS"
        raise NotKafka(
            f"{self._peer} {what}.",
            hint="Check the port, or set security.protocol to PLAINTEXT or SASL_PLAINTEXT.",
        )

    def _shake_hands(self) -> None:
        if not self._is_secure:
            try:
                self._tls.do_handshake()
                self._is_secure = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                self._send_alert()
                raise handshake_error(error, self._host, self._peer) from None

    def _send_alert(self) -> None:
        """Send the TLS alert, if the socket takes it."""
        self._unsent += self._outgoing.read()
        with contextlib.suppress(OSError):
            self._send()

    def _advance(self) -> None:
        """Encrypt waiting bytes, and send."""
        if self._is_secure and self._plain:
            self._encrypt()
        if self._outgoing.pending:
            self._unsent += self._outgoing.read()
        self._send()

    def _encrypt(self) -> None:
        try:
            while self._plain:
                # OpenSSL takes one record of 16 kB at a time.
                taken = self._tls.write(self._plain[:_RECORD])
                del self._plain[:taken]
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise handshake_error(error, self._host, self._peer) from None

    def _decrypt(self) -> bytes | None:
        parts = []
        try:
            while part := self._tls.read(CHUNK):
                parts.append(part)
            return b"".join(parts)
        except ssl.SSLWantReadError:
            return b"".join(parts) or None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            # Closed in order; bytes that came before it are returned first.
            return b"".join(parts)
        except ssl.SSLError as error:
            raise handshake_error(error, self._host, self._peer) from None


_OTHER_NAME = (
    "Use a name that is in it (also in the broker's advertised.listeners), or set "
    "ssl.endpoint.identification.algorithm= (empty) if you must."
)
_CERTIFICATE = {
    9: ("is not valid yet", "Check this machine's clock, and the broker's certificate."),
    10: ("has expired", "The broker needs a new certificate."),
    62: ("is not for the host name {host}", _OTHER_NAME),
    64: ("is not for the address {host}", _OTHER_NAME),
}
_UNTRUSTED = (
    "is not trusted: {reason}",
    "Add its certificate authority to ssl.truststore.location (or ssl.truststore.certificates).",
)

_ALERTS = {
    "CERTIFICATE_REQUIRED": "it requires a client certificate",
    "HANDSHAKE_FAILURE": "no cipher suite in common, or it requires a client certificate",
    "PROTOCOL_VERSION": "no TLS version in common",
    "UNKNOWN_CA": "it does not trust the client's certificate",
    "BAD_CERTIFICATE": "it requires a client certificate, or does not accept the one it got",
    "CERTIFICATE_UNKNOWN": "it does not accept the client's certificate",
    "CERTIFICATE_EXPIRED": "the client's certificate has expired",
    "CERTIFICATE_REVOKED": "the client's certificate was revoked",
    "UNSUPPORTED_CERTIFICATE": "the client's certificate is of a kind that it does not accept",
    "ACCESS_DENIED": "access denied",
}
_ABOUT_CLIENT = (
    "Check ssl.keystore.location (or ssl.keystore.certificate.chain) and its certificate."
)


def handshake_error(error: ssl.SSLError, host: str, peer: str) -> KgError:
    """Return the error for an exception of OpenSSL."""
    if isinstance(error, ssl.SSLCertVerificationError):
        problem, hint = _CERTIFICATE.get(error.verify_code, _UNTRUSTED)
        problem = problem.format(host=host, reason=error.verify_message)
        return TlsFailed(f"The certificate of {peer} {problem}.", hint=hint)
    symbol = error.reason or ""
    if "_ALERT_" in symbol:
        name = symbol.partition("_ALERT_")[2]
        reason = _ALERTS.get(name, name.replace("_", " ").lower())
        about_client = _ABOUT_CLIENT if "client" in reason else None
        return TlsFailed(f"{peer} refused the TLS connection: {reason}.", hint=about_client)
    if symbol in ("UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE"):
        return TlsFailed(f"{peer} and kgtool have no TLS version in common.")
    what = symbol.replace("_", " ").lower() or str(error)
    return TlsFailed(f"TLS with {peer} failed: {what}.")


def make_context(settings: Tls, where: str) -> ssl.SSLContext:
    """Make the context of all connections of a session.

    :param where: the file or context of the settings, for messages.
    :raises ConfigError: a store, a password or a cipher suite that can't be used.
    """
    from kgtool.net.tls.stores import load_identity, trusted_certificates

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_host
    # Java trusts any certificate in the store, also one that is not a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    _limit_versions(context, settings.protocols)
    if settings.ciphers:
        _set_ciphers(context, settings.ciphers, where)
    if settings.trust is None:
        context.load_default_certs()
    else:
        trusted_certificates(context, settings.trust)
    if settings.key is not None:
        load_identity(context, settings.key)
    return context


def _limit_versions(context: ssl.SSLContext, names: Sequence[str]) -> None:
    numbers = [_VERSIONS[name] for name in names]
    with warnings.catch_warnings():
        # TLS 1.0 and 1.1 are deprecated, but configured on purpose.
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = min(numbers), max(numbers)


def _set_ciphers(context: ssl.SSLContext, names: Sequence[str], where: str) -> None:
    """Set the cipher suites; those of TLS 1.3 can't be set with this OpenSSL interface."""
    older = [openssl_name(name) for name in names if not _is_tls13(name)]
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    if len(older) == len(names):
        context.maximum_version = min(context.maximum_version, ssl.TLSVersion.TLSv1_2)
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError:
        raise ConfigError(
            f"ssl.cipher.suites in {where} has no cipher suite that OpenSSL knows."
        ) from None


def _is_tls13(name: str) -> bool:
    return name.startswith(("TLS_AES_", "TLS_CHACHA20_"))


def openssl_name(name: str) -> str:
    """Translate a cipher suite's name in Java to OpenSSL's.

    >>> openssl_name("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    'ECDHE-RSA-AES128-GCM-SHA256'
    """
    if "_WITH_" not in name:
        return name
    exchange, _, cipher = name.removeprefix("TLS_").partition("_WITH_")
    prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256")
    if cipher == "CHACHA20_POLY1305_SHA256":
        cipher = "CHACHA20_POLY1305"
    return prefix + cipher.replace("_CBC_", "_").replace("_", "-")
