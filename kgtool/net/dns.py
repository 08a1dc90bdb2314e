"""Host names and their addresses: ``getaddrinfo`` and ``getnameinfo``."""

from __future__ import annotations

import socket
from itertools import zip_longest
from typing import TypeAlias

from kgtool.errors import ResolvedTooLate, ResolveFailed

_NAME_HINT = "Check --bootstrap-server, and the broker's advertised.listeners."

SocketAddress: TypeAlias = "tuple[socket.AddressFamily, tuple[object, ...]]"


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
    return _alternate([(family, address) for family, _, _, _, address in found])


def unresolved(host: str, waited: str) -> ResolvedTooLate:
    """Return the error of a name that the name server did not resolve in time."""
    return ResolvedTooLate(
        f"The host name {host!r} was not resolved within {waited}.", hint=_NAME_HINT
    )


def numeric(host: str, port: int) -> list[SocketAddress] | None:
    """Return the address where ``host`` is one, without a name server; None if it is a name."""
    if not host or host[-1].isalpha():
        return None  # the last character of an address is a digit, a colon or part of a zone
    try:
        found = socket.getaddrinfo(
            host.encode("ascii"), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except (OSError, UnicodeError):
        return None
    return [(family, address) for family, _, _, _, address in found]


def _alternate(found: list[SocketAddress]) -> list[SocketAddress]:
    """Alternate between IPv6 and IPv4 (RFC 8305): one family may be unreachable."""
    first = [item for item in found if item[0] == found[0][0]]
    others = [item for item in found if item[0] != found[0][0]]
    pairs = zip_longest(first, others)
    return [item for pair in pairs for item in pair if item is not None]


def canonical(places: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Replace names by the canonical names of their addresses (blocking), as ``ClientUtils`` does.

    One alias for all brokers, which Kerberos and host name checks would not accept, becomes the
    brokers' own names. An address without a name stays an address; a name without an address stays
    as it is, and fails when it is tried.
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
