"""Which group names tools have made up: nobody ever comes back to those."""

from __future__ import annotations

import re

_FAMILIES = (
    r"console-consumer-\d+", r"console-share-consumer-\d+", r"perf-consumer-\d+",
    r"verifiable-consumer-\d+", r"anonymous\.[0-9a-fA-F-]{22,36}", r"anonymous\.[\w-]{22}",
)  # fmt: skip
"""kafka-console-consumer, kafka-consumer-perf-test, Spring Cloud Stream's anonymous groups."""
_FAMILY = re.compile("|".join(f"({family})" for family in _FAMILIES))
_UUID = re.compile(
    r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1"
    r"[0-9a-fA-F]{12}(?![0-9A-Za-z])"
)
"""spark-kafka-source-UUID-…, and what everybody's scripts do."""


def family(name: str) -> str | None:
    """Return the family of a generated name, its own part as ``*``; None for any other name.

    Numbers and dates alone are no sign: people name groups ``report-2024`` and ``shard-17``.

    >>> family("console-consumer-48213"), family("billing-2024"), family("billing")
    ('console-consumer-*', None, None)
    """
    if _FAMILY.fullmatch(name):
        return re.sub(r"(?<=[-.])[^-.][^.]*$" if name.startswith("anon") else r"\d+$", "*", name)
    if _UUID.search(name):
        return _UUID.sub("*", name)
    return None
