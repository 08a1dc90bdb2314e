"""Times, durations and numbers as users write them. The current time is an argument.

Times are ISO 8601 (with or without seconds, fraction and zone; no zone is UTC, as in Kafka's
tool), milliseconds since the epoch, or relative to now (``2h``: before it). Unlike
``Utils.getDateTime`` of Kafka's tool, ``.1`` is a tenth of a second, milliseconds may be missing,
and junk at the end is refused.

>>> time_ms("2023-11-14T22:18:20.000Z", 0)
1700000300000
>>> time_ms("2023-11-14T23:18:20+01:00", 0)
1700000300000
>>> time_ms("now-2h", 7_200_000), time_ms("2h", 7_200_000)
(0, 0)
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from kgtool.errors import UsageError

_LONG = range(-(2**63), 2**63)
"""Java's ``long``."""

_SECOND_NS = 1_000_000_000
_MILLISECOND_NS = 1_000_000
_UNIT_NS = {
    "ms": _MILLISECOND_NS,
    "s": _SECOND_NS,
    "m": 60 * _SECOND_NS,
    "h": 3600 * _SECOND_NS,
    "d": 86_400 * _SECOND_NS,
    "w": 7 * 86_400 * _SECOND_NS,
}
LONGEST_MS = 2**53
"""More than 280,000 years; the sum with any timestamp is an int64."""

LONGEST_WAIT_MS = 2_000_000_000
"""23 days: system calls and librdkafka take the milliseconds of a wait as an int."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_RELATIVE = re.compile(r"now(?:([+-])(.+))?", re.IGNORECASE)
_SPAN = re.compile(r"(?:\d{1,18}(?:ms|[smhdw]))+", re.ASCII)
_SPAN_PART = re.compile(r"(\d+)(ms|[smhdw])", re.ASCII)
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d{1,18})D)?"
    r"(T(?:([-+]?\d{1,18})H)?(?:([-+]?\d{1,18})M)?(?:([-+]?\d{1,18})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
"""``java.time.Duration.PATTERN``."""

_TIME_EXAMPLES = (
    "Write it like 2023-11-14T22:18:20.000Z, 2023-11-14T23:18+01:00, 1700000300000 (ms since the "
    "epoch), now-1d or 2h30m (before now)."
)


def is_number(text: str) -> bool:
    """Whether it is a whole number of at most 19 digits."""
    return bool(_NUMBER.fullmatch(text.strip()))


def parse_long(text: str, option: str) -> int:
    """Read a whole number of 64 bits; refusals have the words of Kafka's tool.

    >>> parse_long("-100", "shift-by")
    -100
    """
    if is_number(text) and int(text) in _LONG:
        return int(text)
    raise UsageError(f"Cannot parse argument '{text}' of option {option}")


def time_ms(text: str, now_ms: int) -> int:
    """Read a time; return ms since the epoch, negative before 1970.

    A fraction of a millisecond is rounded up, so that no earlier record is found.
    """
    text = text.strip()
    relative = _RELATIVE.fullmatch(text) or _RELATIVE.fullmatch(f"now-{text}")
    if relative and (relative[2] is None or _is_length(relative[2])):
        return _relative(relative, now_ms)
    if _NUMBER.fullmatch(text):
        return parse_long(text, "to-datetime")
    found = _TIME.fullmatch(text)
    if found is None:
        raise UsageError(f"Unparseable date: '{text}'", hint=_TIME_EXAMPLES)
    try:
        return _absolute(found)
    except ValueError as error:
        raise UsageError(f"Unparseable date: '{text}' ({error})", hint=_TIME_EXAMPLES) from None


def may_be_seconds(text: str) -> bool:
    """Whether a number is probably in seconds: as milliseconds it would be before 1973."""
    return is_number(text) and abs(int(text)) < 10**11


def _absolute(found: re.Match[str]) -> int:
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    moment = datetime(year, month, day, hour, minute, second, tzinfo=_zone(found[8]))
    whole = (moment - _EPOCH) // timedelta(seconds=1)
    fraction_ns = int((found[7] or "").ljust(9, "0"))
    return whole * 1000 - (-fraction_ns // _MILLISECOND_NS)


def _zone(text: str | None) -> timezone:
    if not text or text in "Zz":
        return timezone.utc
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if minutes > 59 or hours > 23:
        raise ValueError(f"{text} is not a zone offset")
    shift = timedelta(hours=hours, minutes=minutes)
    return timezone(-shift if text[0] == "-" else shift)


def _relative(found: re.Match[str], now_ms: int) -> int:
    if found[2] is None:
        return now_ms
    length_ns = _length_ns(found[2])
    return _shifted(now_ms, -length_ns if found[1] == "-" else length_ns, found[0])


def before_ms(text: str, now_ms: int) -> int:
    """Return the time that is a duration before now, in ms since the epoch.

    >>> before_ms("PT0.5S", 1000), before_ms("1s500ms", 2000)
    (500, 500)
    """
    return _shifted(now_ms, -_length_ns(text), text)


def _shifted(now_ms: int, by_ns: int, text: str) -> int:
    moment_ms = (now_ms * _MILLISECOND_NS + by_ns) // _MILLISECOND_NS
    if moment_ms not in _LONG:
        raise UsageError(f"'{text}' leads to a time that Kafka can't hold.")
    return moment_ms


def duration_ns(text: str) -> int:
    """Read ``PnDTnHnMn.nS`` as ``java.time.Duration.parse`` does; return nanoseconds.

    >>> duration_ns("-PT1.5S")
    -1500000000
    """
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.group(2, 4, 5, 6)) or found[3] in ("T", "t"):
        raise UsageError(
            f"Text cannot be parsed to a Duration: '{text}'",
            hint="Write it like 30s, 1d12h or PT2H30M (ISO 8601).",
        )
    days, hours, minutes, seconds = (int(part or 0) for part in found.group(2, 4, 5, 6))
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    fraction_ns = int((found[7] or "").ljust(9, "0"))
    if (found[6] or "").startswith("-"):
        fraction_ns = -fraction_ns
    length_ns = whole * _SECOND_NS + fraction_ns
    return -length_ns if found[1] == "-" else length_ns


def _is_length(text: str) -> bool:
    return bool(_SPAN.fullmatch(text) or _DURATION.fullmatch(text))


def _length_ns(text: str) -> int:
    return _span_ns(text) if _SPAN.fullmatch(text) else duration_ns(text)


def _span_ns(text: str) -> int:
    return sum(int(number) * _UNIT_NS[unit] for number, unit in _SPAN_PART.findall(text))


def span_ms(text: str, option: str, *, bare_ms: int | None = None, least_ms: int = 1) -> int:
    """Read a duration: ``30s``, ``1d12h``, ``500ms``, ``PT1M``; return ms.

    :param bare_ms: the unit of a bare number (1000: seconds); None: it is refused.
    :raises UsageError: it is not a duration, or shorter than ``least_ms``.

    >>> span_ms("1m30s", "wait-empty"), span_ms("0.5", "watch", bare_ms=1000)
    (90000, 500)
    """
    text = text.strip()
    if _SPAN.fullmatch(text):
        length_ms = _span_ns(text) // _MILLISECOND_NS
    elif bare_ms is not None and re.fullmatch(r"\d{1,15}(\.\d{1,9})?", text, re.ASCII):
        length_ms = round(float(text) * bare_ms)
    else:
        try:
            length_ms = duration_ns(text) // _MILLISECOND_NS
        except UsageError:
            raise UsageError(
                f"--{option} takes a duration such as 30s, 1d12h or 500ms, not '{text}'."
            ) from None
    if length_ms < least_ms:
        raise UsageError(f"--{option} {text}: it must be longer than 0.")
    return min(length_ms, LONGEST_MS)


def waiting_seconds(text: str | None) -> float:
    """Read the value of ``--wait-empty``; a bare number is seconds, None is 0."""
    if text is None:
        return 0.0
    return span_ms(text, "wait-empty", bare_ms=1000, least_ms=0) / 1000
