"""Explains connections that were closed at once: do the security settings match the listener?

A broker's TLS listener answers plaintext with an alert, but the alert is often lost to the reset
that follows it; a plaintext listener takes a TLS ClientHello for a request of 350 MB and hangs up;
a SASL listener hangs up at a request before the login. So such a port is probed in the other way.
Everything here blocks, and runs in ``background``.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from kgtool.errors import AuthenticationError, ConnectionLost, KgError, NotKafka, TlsFailed
from kgtool.net.tcp import TlsLost

PROBE_SECONDS = 2.0

# A TLS 1.2 ClientHello with one cipher suite and no extensions: any server answers it with a
# record of its own, a ServerHello or an alert, and both begin with a content type and 03.
_HELLO_BODY = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x00\x2f" + b"\x01\x00"
_HANDSHAKE = b"\x01" + len(_HELLO_BODY).to_bytes(3, "big") + _HELLO_BODY
CLIENT_HELLO = b"\x16\x03\x01" + len(_HANDSHAKE).to_bytes(2, "big") + _HANDSHAKE

_PROBE_MECHANISM = "NONE"
"""Unknown to every broker: the answer names the enabled mechanisms, and there is no login."""

Wrap = Callable[[socket.socket], socket.socket]


def _plain(connected: socket.socket) -> socket.socket:
    return connected


def speaks_tls(host: str, port: int) -> bool:
    """Whether a TLS server listens there (blocking, at most ``PROBE_SECONDS``)."""
    head = _exchange(host, port, CLIENT_HELLO, lambda data: len(data) >= 2)
    return len(head) >= 2 and head[0] in (0x15, 0x16) and head[1] == 3


def mechanisms_at(host: str, port: int, wrap: Wrap = _plain) -> tuple[str, ...] | None:
    """Return the SASL mechanisms of a broker's listener; None if it is no such listener.

    Blocking, at most ``PROBE_SECONDS``.

    :param wrap: puts TLS on the connected socket.
    """
    from kgtool.protocol.api import api_versions, sasl_handshake
    from kgtool.protocol.frame import FrameBuffer, encode_request
    from kgtool.protocol.plan import decode

    ask = encode_request(api_versions.Request(), 0, 1, "kgtool")
    ask += encode_request(sasl_handshake.Request(mechanism=_PROBE_MECHANISM), 1, 2, "kgtool")
    data = _exchange(host, port, ask, _has_two_frames, wrap)
    buffer = FrameBuffer(f"{host}:{port}")
    buffer.feed(data)
    try:
        frames = [buffer.next_frame(), buffer.next_frame()]
        if frames[0] is None or frames[1] is None:
            return None
        return tuple(decode(sasl_handshake.Response, 1, frames[1][4:]).mechanisms)
    except KgError:
        return None


def _has_two_frames(data: bytes) -> bool:
    first = 4 + int.from_bytes(data[:4], "big")
    return len(data) >= first + 4 and len(data) >= first + 4 + int.from_bytes(
        data[first : first + 4], "big"
    )


def _exchange(
    host: str, port: int, ask: bytes, is_enough: Callable[[bytes], bool], wrap: Wrap = _plain
) -> bytes:
    """Send bytes and collect the answer, until it is enough or the time is up."""
    deadline = time.monotonic() + PROBE_SECONDS
    data = b""
    try:
        with wrap(socket.create_connection((host, port), timeout=PROBE_SECONDS)) as probe:
            probe.sendall(ask)
            while not is_enough(data):
                probe.settimeout(max(0.01, deadline - time.monotonic()))
                more = probe.recv(65536)
                if not more:
                    break
                data += more
    except OSError:
        pass
    return data


def explain(error: KgError, host: str, port: int, has_tls: bool = False) -> KgError:
    """Return a better error for a connection that was closed before the first answer.

    :param has_tls: whether the connection had TLS: then that is not what the peer misses.
    """
    if isinstance(error, TlsLost):
        return _explain_tls(error, host, port)
    if not isinstance(error, ConnectionLost):
        return error
    if has_tls:
        hint = "Does it want a client certificate (ssl.keystore.location), or a login (SASL_SSL)?"
        return ConnectionLost(error.message, hint=hint)
    if speaks_tls(host, port):
        return NotKafka(
            f"{host}:{port} speaks TLS, and kgtool connected without it.",
            hint="Set security.protocol=SSL or SASL_SSL in the --command-config file.",
        )
    if error.hint is None:
        hint = "Is it a TLS or SASL listener, or no Kafka broker at all?"
        return ConnectionLost(error.message, hint=hint)
    return error


def _explain_tls(error: TlsLost, host: str, port: int) -> KgError:
    mechanisms = mechanisms_at(host, port)
    if mechanisms is None:
        return error
    protocol = "SASL_PLAINTEXT" if mechanisms else "PLAINTEXT"
    return TlsFailed(
        f"{host}:{port} is a broker's listener without TLS, and kgtool connected with it.",
        hint=f"Set security.protocol={protocol}, or connect to the port of the TLS listener.",
    )


def explain_silence(error: KgError, host: str, port: int, wrap: Wrap | None) -> KgError:
    """Return a better error for a connection without a login, closed at the first request.

    :param wrap: puts TLS on a socket; None for connections without it.
    """
    mechanisms = mechanisms_at(host, port, wrap or _plain)
    if not mechanisms:
        return error
    protocol = "SASL_SSL" if wrap else "SASL_PLAINTEXT"
    return AuthenticationError(
        f"{host}:{port} requires a login, and kgtool connected without one. It accepts "
        f"{', '.join(sorted(mechanisms))}.",
        hint=f"Set security.protocol={protocol}, sasl.mechanism and sasl.jaas.config in the "
        "--command-config file.",
    )
