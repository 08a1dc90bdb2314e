"""Groups with generated names, folded together: ``console-consumer-*``.

UUIDs, dates and times, hexadecimal and decimal numbers become ``*``. A name that is alone in its
family keeps its own: nothing says then that its digits are generated.
"""

from __future__ import annotations

import re
from typing import Final

_UUID = r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}(-?)[0-9a-fA-F]{4}(-?)[0-9a-fA-F]{4}(-?)[0-9a-fA-F]{12}"
_DAY = r"(19|20)\d\d[-_./]?(0[1-9]|1[0-2])[-_./]?(0[1-9]|[12]\d|3[01])"
_TIME = r"([T_ -]?([01]\d|2[0-3])[:.h-]?[0-5]\d([:.m-]?[0-5]\d)?([.,]\d+)?Z?)?"
PATTERNS: Final = (
    rf"(?<![0-9A-Za-z]){_UUID}(?![0-9A-Za-z])",
    rf"(?<!\d){_DAY}{_TIME}(?!\d)",
    # A word of hexadecimal digits: both letters and digits, or it may be a real word or a number.
    r"(?<![0-9A-Za-z])(0x)?(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{6,}(?![0-9A-Za-z])",
    r"(?<![0-9A-Za-z])\d+(?![0-9A-Za-z])",
    # Digits right behind letters are often a version (v2); three and more are a counter.
    r"(?<=[A-Za-z])\d{3,}(?![0-9A-Za-z])",
    r"\*([-_.:]*\*)+",
)
"""In this order."""
_COMPILED = [re.compile(pattern, re.ASCII) for pattern in PATTERNS]


def fold(name: str) -> str:
    """The family that a name would be in.

    >>> fold("console-consumer-12345"), fold("job-2026-11-21T15:00-7f3a9c21")
    ('console-consumer-*', 'job-*')
    """
    for pattern in _COMPILED:
        name = pattern.sub("*", name)
    return name
