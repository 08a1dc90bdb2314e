"""Numbers, times, durations, addresses and names as text. Imports nothing of kgtool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

DAY_MS = 86_400_000


def moment(ms: int, precision: str = "seconds") -> str:
    """Write a time (ms since the epoch) in UTC, to the second or with ``milliseconds``.

    >>> moment(1700000300999), moment(1700000300000, "milliseconds")
    ('2023-11-14T22:18:20Z', '2023-11-14T22:18:20.000Z')
    """
    from datetime import datetime, timedelta

    try:
        return (datetime(1970, 1, 1) + timedelta(milliseconds=ms)).isoformat("T", precision) + "Z"
    except OverflowError:
        return str(ms)  # out of datetime's range, but a client may have committed it


def span(ms: int) -> str:
    """Write a duration in its two largest units, to the second.

    >>> span(90_000_000), span(400)
    ('1d 1h', '0s')
    """
    seconds = max(ms, 0) // 1000
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"


def rough(ms: float) -> str:
    """Return a duration by its largest unit, ``3m``, where there is little room."""
    return span(round(ms / 1000) * 1000).split(" ")[0] if ms >= 500 else "0s"


def listed(items: Sequence[object], most: int, end: str = ", …") -> str:
    """Join the first ``most`` items; ``end`` follows if there are more, ``{}`` is their number.

    >>> listed([1, 2, 3], 2), listed("abc", 1, " and {} more"), listed("a", 1)
    ('1, 2, …', 'a and 2 more', 'a')
    """
    left = len(items) - most
    return ", ".join(map(str, items[:most])) + (end.format(left) if left > 0 else "")


def counted(count: int, word: str) -> str:
    """Write a number with its noun.

    >>> counted(1, "offset"), counted(2400, "offset")
    ('1 offset', '2,400 offsets')
    """
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def size(number: float) -> str:
    """Write a number of bytes in decimal units.

    >>> size(999), size(1_234_567)
    ('999 B', '1.2 MB')
    """
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def addresses(bootstrap: Iterable[tuple[str, int]]) -> str:
    """Return ``host:port,…`` as ``--bootstrap-server`` takes it.

    >>> addresses([("b1", 9092), ("::1", 9093)])
    'b1:9092,[::1]:9093'
    """
    return ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in bootstrap
    )


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escape(text: str) -> str:
    """Escape control characters, bidi overrides, line separators and lone surrogates.

    ``str.isprintable`` is False for exactly these (Unicode categories C* and Z*, but the space).
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def shell_word(text: str) -> str:
    """Quote a name for a command line on the screen, without anything that ``escape`` escapes.

    >>> shell_word("a b"), shell_word("it's\\n")
    ("'a b'", "$'it\\\\'s\\\\n'")
    """
    if text.isprintable():
        import shlex

        return shlex.quote(text)
    quoted = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{''.join(map(_in_shell, quoted))}'"


def _in_shell(char: str) -> str:
    if char.isprintable():
        return char
    return _escaped(char) if char.isascii() else f"\\U{ord(char):08x}"  # \x85 would be a byte


NO_VALUE = "-"


def shown(value: object) -> str:
    """Return a value for a table: ``-`` for None, control characters escaped."""
    if isinstance(value, str):
        return escape(value)
    if value is None:
        return NO_VALUE
    return str(value).lower() if isinstance(value, bool) else str(value)


def cell(value: object) -> str:
    """Return a value for CSV: empty for None, strings escaped and never a formula."""
    text = "" if value is None else shown(value)
    return f"'{text}" if isinstance(value, str) and value.startswith(_FORMULA) else text


def java_order(text: str) -> bytes:
    """Sort key that orders like ``java.lang.String.compareTo``: UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")
