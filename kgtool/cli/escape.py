r"""Names and metadata come from strangers: make them harmless for a terminal and a spreadsheet.

Only what can't be printed is replaced; a backslash stays what it is, so that ordinary names come
out byte for byte as in Kafka's own tables.

>>> escape("red \x1b[31m")
'red \\x1b[31m'
>>> escape("caf\u00e9 \u65e5\u672c")
'café 日本'
"""

from __future__ import annotations

_FORMULA = "=+-@\t\r"


def escape(text: str) -> str:
    """Escape control characters, bidi overrides, line separators and lone surrogates.

    ``str.isprintable`` is False for exactly these (Unicode categories C* and Z*, but the space).
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def cell(value: object) -> str:
    """Return a value for CSV: empty for None, strings escaped and never the start of a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    text = escape(value)
    return f"'{text}" if value[:1] and value[0] in _FORMULA else text
