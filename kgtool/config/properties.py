"""Java properties files, read as ``java.util.Properties.load`` reads them.

Logical lines may go on over several natural ones (an odd number of backslashes at the end);
the key ends at the first unescaped ``=``, ``:`` or blank; ``\\uXXXX`` and the usual escapes are
known, any other escaped character stands for itself. The bytes are ISO 8859-1, as in
``Utils.loadProps`` of Kafka: other characters are written ``\\uXXXX``.

>>> parse("a = 1\\nsasl.mechanism: PL\\\\\\n    AIN\\n# no\\nb\\\\u0041")
{'a': '1', 'sasl.mechanism': 'PLAIN', 'bA': ''}
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kgtool.errors import ConfigError
from kgtool.held import SILENT_MS, hold

_BLANK = " \t\f"
_NATURAL_LINE = re.compile(r"\r\n|\r|\n")
_LAST_LINE_END = re.compile(r"(?:\r\n|\r|\n)\Z")
# The key: escaped characters, and all others but the three that end it.
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*\\?", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(?:u(.{0,4})|(.)|$)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

_SECRET_KEY = re.compile(
    r"(?i)passw|secret|\.jaas\.|passphrase|token|credential|(?:^|\.)key$|store\.(?:key|cert)"
)
_PUBLIC_KEY_NAMES = ("sasl.oauthbearer.token.endpoint.url",)


class Properties(dict[str, str]):
    """Client properties; their repr hides secret values."""

    def __repr__(self) -> str:
        shown = {key: "[hidden]" if is_secret(key) else value for key, value in self.items()}
        return repr(shown)

    __str__ = __repr__

    def value(self, key: str) -> str | None:
        """Return a value as Kafka's ConfigDef sees it, without blanks around; None if absent."""
        found = self.get(key)
        return None if found is None else found.strip(_JAVA_TRIM)


_JAVA_TRIM = "".join(map(chr, range(0x21)))
"""The characters that ``String.trim`` removes."""


def is_secret(key: str) -> bool:
    """Whether a property of that name must not be shown."""
    return bool(_SECRET_KEY.search(key)) and key not in _PUBLIC_KEY_NAMES


def read_properties(path: str, timeout_ms: int | None = None) -> Properties:
    """Read a file.

    :param timeout_ms: how long a pipe may be silent (default: 30 s).
    :raises ConfigError: it can't be read, or has a malformed ``\\u`` escape.
    """
    text = hold(path, timeout_ms or SILENT_MS).text("latin-1")
    if "\0" in text:
        raise ConfigError(f"Can't read {path}: it is not a text file.")
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(f"Can't read {path}: {error}") from None


def parse(text: str) -> Properties:
    """Return the properties of a text, the last one of each name.

    :raises ValueError: a malformed ``\\u`` escape; the message names the key, not the value.
    """
    pairs = Properties()
    for line in _logical_lines(text):
        match = _KEY.match(line)
        raw = match[0] if match else ""
        separator = _SEPARATOR.match(line, len(raw))
        rest = line[separator.end() if separator else len(raw) :]
        key = _unescape(raw, "a key")
        pairs[key] = _unescape(rest, key)
    return pairs


def _logical_lines(text: str) -> Iterator[str]:
    begun, is_open = "", False
    for natural in _NATURAL_LINE.split(_LAST_LINE_END.sub("", text)):
        part = natural.lstrip(_BLANK)
        is_open = False
        if not begun and (not part or part[0] in "#!"):
            continue
        line = begun + part
        is_open = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        begun = line[:-1] if is_open else ""
        if not is_open:
            yield line
    # Of a text that ends in a line of nothing but a backslash Java makes a property without a name,
    # though not where that line ends in CR LF.
    if is_open and (begun or not text.endswith("\r\n")):
        yield begun


def _unescape(text: str, name: str) -> str:
    if "\\" not in text:
        return text

    def character(match: re.Match[str]) -> str:
        digits, other = match[1], match[2]
        if digits is not None:
            if not re.fullmatch("[0-9A-Fa-f]{4}", digits):
                raise ValueError(f"malformed \\uxxxx encoding at {name}.")
            return chr(int(digits, 16))
        return _NAMED.get(other, other) if other else ""

    plain = _ESCAPE.sub(character, text)
    # Java's strings are UTF-16: two escapes may be the halves of one character.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
