"""Which group names tools make up for one run: no consumer comes back to those."""

from __future__ import annotations

import re

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FAMILIES = (
    r"(console-consumer-)\d+", r"(console-share-consumer-)\d+", r"(perf-consumer-)\d+",
    r"(verifiable-consumer-)\d+", rf"(anonymous\.)(?:{_UUID}|[\w-]{{22}})",
    rf"(spark-kafka-(?:source|relation)-){_UUID}.*",
)  # fmt: skip
"""kafka-console-consumer, kafka-consumer-perf-test, Spring Cloud Stream's anonymous groups,
Spark."""
_FAMILY = re.compile("|".join(_FAMILIES))


def family(name: str) -> str | None:
    """Return the family of a generated name, its own part as ``*``; None for any other name.

    Numbers, dates and UUIDs alone are no sign: people name groups ``report-2024``, and a platform
    names them by the id of a tenant.

    >>> family("console-consumer-48213"), family("billing-2024")
    ('console-consumer-*', None)
    """
    found = _FAMILY.fullmatch(name)
    return f"{found[found.lastindex or 0]}*" if found else None
