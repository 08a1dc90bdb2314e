"""Finds out why a connection that was closed at once was closed: is it a TLS listener?

A broker's TLS listener answers plaintext with an alert, but the alert is often lost to the reset
that follows it. So a closed connection is asked once more, in TLS.
"""

from __future__ import annotations

import socket

from kgtool.errors import ConnectionLost, KgError, NotKafka

PROBE_SECONDS = 2.0

# A TLS 1.2 ClientHello with one cipher suite and no extensions: any server answers it with a
# record of its own, a ServerHello or an alert, and both begin with a content type and 03.
_HELLO_BODY = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x00\x2f" + b"\x01\x00"
_HANDSHAKE = b"\x01" + len(_HELLO_BODY).to_bytes(3, "big") + _HELLO_BODY
CLIENT_HELLO = b"\x16\x03\x01" + len(_HANDSHAKE).to_bytes(2, "big") + _HANDSHAKE


def speaks_tls(host: str, port: int) -> bool:
    """Say whether a TLS server listens there (blocking, at most ``PROBE_SECONDS``)."""
    try:
        with socket.create_connection((host, port), timeout=PROBE_SECONDS) as probe:
            probe.settimeout(PROBE_SECONDS)
            probe.sendall(CLIENT_HELLO)
            head = probe.recv(2)
    except OSError:
        return False
    return len(head) == 2 and head[0] in (0x15, 0x16) and head[1] == 3


def explain(error: KgError, host: str, port: int) -> KgError:
    """Return a better error for a connection that was closed before it said a word."""
    if not isinstance(error, ConnectionLost):
        return error
    if speaks_tls(host, port):
        return NotKafka(
            f"{host}:{port} speaks TLS, and kgtool connected without it.",
            hint="Set security.protocol=SSL or SASL_SSL in the --command-config file.",
        )
    if error.hint is None:
        hint = "Is it a TLS or SASL listener, or no Kafka broker at all?"
        return ConnectionLost(error.message, hint=hint)
    return error
