"""Group names that tools generate for one run, and abandon after it."""

from __future__ import annotations

import re

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FAMILIES = (
    r"(console-consumer-)\d+",
    r"(console-share-consumer-)\d+",
    r"(perf-consumer-)\d+",
    r"(verifiable-consumer-)\d+",
    rf"(anonymous\.)(?:{_UUID}|[\w-]{{22}})",
    rf"(spark-kafka-(?:source|relation)-){_UUID}.*",
)
"""kafka-console-consumer, kafka-consumer-perf-test, Spring Cloud Stream's anonymous groups,
Spark."""
_FAMILY = re.compile("|".join(_FAMILIES))


def family(name: str) -> str | None:
    """Return the family of a generated name, with ``*`` for the variable part; None for others.

    Numbers, dates and UUIDs alone are not enough: people name groups ``report-2024``, and platforms
    name them by the id of a tenant.

    >>> family("console-consumer-48213"), family("billing-2024")
    ('console-consumer-*', None)
    """
    found = _FAMILY.fullmatch(name)
    return f"{found[found.lastindex or 0]}*" if found else None
