"""Which of a name's addresses were of no use: they are tried last from then on."""

from __future__ import annotations

from collections.abc import Iterable

from kgtool.net.translate import SocketAddress


class Addresses:
    """What a session knows of the addresses that it has tried."""

    def __init__(self) -> None:
        self._bad: set[SocketAddress] = set()

    def in_order(self, found: Iterable[SocketAddress]) -> list[SocketAddress]:
        """Return the addresses as they were found, bad ones last."""
        return sorted(found, key=self._bad.__contains__)

    def is_bad(self, address: SocketAddress) -> None:
        """Remember that it refused, failed or said nothing."""
        self._bad.add(address)

    def is_good(self, address: SocketAddress) -> None:
        """Remember that a broker answered there."""
        self._bad.discard(address)
