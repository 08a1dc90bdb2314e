"""Turns errors of the operating system into ours, here and nowhere else."""

from __future__ import annotations

import errno
import os
import socket
from itertools import zip_longest
from typing import TypeAlias

from kgtool.errors import (
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    ResolvedTooLate,
    ResolveFailed,
)

_NAME_HINT = "Check --bootstrap-server, and the broker's advertised.listeners."

SocketAddress: TypeAlias = "tuple[socket.AddressFamily, tuple[object, ...]]"


class TlsLost(ConnectionLost):
    """The peer went away in the middle of the TLS handshake: does it speak TLS at all?"""


def connect_error(number: int, peer: str) -> NetworkError:
    """Say why no connection could be made, from an ``errno``."""
    if number == errno.ECONNREFUSED:
        return ConnectFailed(
            f"Nothing listens on {peer}.",
            hint="Check host and port, and that the broker is running.",
        )
    if number in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return ConnectFailed(f"No route to {peer}.")
    return ConnectFailed(f"Could not connect to {peer}: {os.strerror(number)}.")


def connection_error(error: OSError, peer: str) -> NetworkError:
    """Say how a connection that stood has broken."""
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return ConnectionLost(f"{peer} reset the connection.")
    reason = error.strerror or str(error)
    return ConnectionLost(f"The connection to {peer} broke: {reason}.")


def resolve(host: str, port: int) -> list[SocketAddress]:
    """Look a host up (blocking) and return its socket addresses, the families taking turns.

    :raises ResolveFailed: the name has no address.
    """
    try:
        # A str would have Python import its codec for international names.
        name = host.encode("ascii") if host.isascii() else host
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        raise ResolveFailed(f"The host name {host!r} can't be resolved.", hint=_NAME_HINT) from exc
    return _take_turns([(family, address) for family, _, _, _, address in found])


def unresolved(host: str, waited: str) -> ResolvedTooLate:
    """Say that nobody has told the address of a name in all the time."""
    return ResolvedTooLate(
        f"The host name {host!r} was not resolved within {waited}.", hint=_NAME_HINT
    )


def numeric(host: str, port: int) -> list[SocketAddress] | None:
    """Return the address that ``host`` is, without asking anybody; None if it is a name."""
    if not host or host[-1].isalpha():
        return None  # the last character of an address is a digit, a colon or part of a zone
    try:
        found = socket.getaddrinfo(
            host.encode("ascii"), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except (OSError, UnicodeError):
        return None
    return [(family, address) for family, _, _, _, address in found]


def _take_turns(found: list[SocketAddress]) -> list[SocketAddress]:
    """Alternate between IPv6 and IPv4, as RFC 8305 says: one of them may lead nowhere."""
    first = [item for item in found if item[0] == found[0][0]]
    others = [item for item in found if item[0] != found[0][0]]
    pairs = zip_longest(first, others)
    return [item for pair in pairs for item in pair if item is not None]


def canonical(places: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Replace names by those that their addresses lead back to (blocking), as ``ClientUtils`` does.

    One alias for all brokers, which Kerberos and host name checks would not accept, becomes the
    brokers' own names. An address that leads to no name stays an address; a name without any
    address stays as it is, and is named when it is tried.
    """
    found: dict[tuple[str, int], None] = {}
    for host, port in places:
        try:
            addresses = [address for _, address in resolve(host, port)]
        except ResolveFailed:
            found[host, port] = None
            continue
        for address in addresses:
            found[_name_of(address), port] = None
    return tuple(found)


def _name_of(address: tuple[object, ...]) -> str:
    try:
        return socket.getnameinfo(address, socket.NI_NAMEREQD)[0]  # type: ignore[arg-type]
    except OSError:
        return str(address[0])
