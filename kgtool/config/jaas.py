"""JAAS configuration lines, read as Kafka's ``JaasConfig`` reads them.

::

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="se\\"cret";

Kafka cuts the text with ``java.io.StreamTokenizer``: words of letters, digits and ``-_$.``, strings
in either kind of quotes with C escapes, ``/* */`` and ``//`` comments. The same is done here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kgtool.config.properties import Properties
from kgtool.errors import ConfigError
from kgtool.held import NotText, hold

FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")

_NAMED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
# A single slash begins a comment too: StreamTokenizer's default. It has read the next character by
# then, so that a comment goes on where that one ends the line. A dash with no digit behind it is a
# character of its own where a word would begin.
_TOKEN = re.compile(
    r"""[\0-\x20]+|/\*.*?(?:\*/|$(?![\s\S]))|/.?[^\r\n]*"""
    r"""|(?P<quote>["'])(?P<text>(?:\\[\s\S]|(?!(?P=quote))[^\\\r\n])*)"""
    r"""(?:(?P=quote)|(?=[\r\n])|$(?![\s\S]))"""
    r"""|(?P<number>-?(?:\d[\d.]*|\.\d[\d.]*)|\.(?!\d))"""
    r"""|(?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\-\xa0-\U0010ffff]*)|(?P<other>.)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|([\s\S]))")

_END = "end"

_FILE = re.compile(r"(?:^|\s)-Djava\.security\.auth\.login\.config==?(\S+)")
"""As the JVM reads it; kafka-run-class.sh takes no quotes in KAFKA_OPTS."""


class LoginModule(NamedTuple):
    """One entry: the class of the login module and its options."""

    module: str
    options: Properties

    def __repr__(self) -> str:
        return f"LoginModule({self.module!r}, {sorted(self.options)})"


class _Token(NamedTuple):
    """A word or string with its ``text``, or a single character."""

    kind: str
    text: str | None = None


def parse_jaas(text: str, where: str) -> LoginModule:
    """Read the one login module of a ``sasl.jaas.config``.

    :param where: the file or context, for messages. No message shows a value.
    :raises ConfigError: the text is not a JAAS configuration, or has several modules.
    """
    place = f"sasl.jaas.config in {where}"
    return _only(_entries(_tokens(text), _END, place), place)


def from_kafka_opts(properties: Properties, options: str) -> Properties:
    """Add the login of the JAAS file that ``KAFKA_OPTS`` names, where a login is needed.

    Kafka's scripts hand that variable to the JVM; its clients then take the section
    ``KafkaClient`` where ``sasl.jaas.config`` is not given.

    :raises ConfigError: the file can't be read, or has no such section.
    """
    named = _FILE.findall(options)
    if not named or not (properties.value("security.protocol") or "").upper().startswith("SASL"):
        return properties
    path = named[-1].removeprefix("file:")
    module = _client_section(path)
    return Properties({**properties, "sasl.jaas.config": jaas_line(*module)})


def jaas_line(module: str, options: Mapping[str, str]) -> str:
    """Write a ``sasl.jaas.config``."""
    pairs = "".join(f" {_quoted(key)}={_quoted(value)}" for key, value in options.items())
    return f"{module} required{pairs};"


def _client_section(path: str) -> LoginModule:
    place = f"The JAAS file {path}, which KAFKA_OPTS names,"
    try:
        tokens = _tokens(hold(path).text())
    except NotText:
        raise ConfigError(f"{place} can't be read: it is not UTF-8 text.") from None
    except ConfigError as error:
        reason = error.message.partition(": ")[2]
        raise ConfigError(f"{place} can't be read: {reason}") from None
    for name in tokens:
        if name.kind == _END:
            raise ConfigError(f"{place} has no section KafkaClient.")
        if next(tokens).kind != "{":
            raise _refusal(place, "a section begins with NAME {")
        found = _entries(tokens, "}", place)
        if next(tokens).kind != ";":
            raise _refusal(place, "a section ends with };")
        if name.text == "KafkaClient":
            return _only(found, place)
    raise AssertionError


def _entries(tokens: Iterator[_Token], end: str, place: str) -> list[LoginModule]:
    found = []
    for first in tokens:
        if first.kind in (end, _END):
            break
        found.append(_entry(first, tokens, place))
    return found


def _only(found: list[LoginModule], place: str) -> LoginModule:
    if not found:
        raise _refusal(place, "Login module not specified in JAAS config")
    if len(found) > 1:
        modules = f"JAAS config property contains {len(found)} login modules, should be 1 module"
        raise _refusal(place, modules)
    return found[0]


def _quoted(text: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _entry(first: _Token, tokens: Iterator[_Token], place: str) -> LoginModule:
    flag = next(tokens)
    if flag.kind == _END:
        raise _refusal(place, "Login module control flag not specified in JAAS config")
    if first.text is None or flag.text is None or flag.text.upper() not in FLAGS:
        raise _refusal(place, "it begins with CLASS required, and these are missing")
    options = Properties()
    for key in tokens:
        if key.kind == ";":
            return LoginModule(first.text, options)
        if key.kind == _END:
            break
        equals = next(tokens)
        value = next(tokens) if equals.kind == "=" else equals
        if equals.kind != "=" or value.text is None or key.text is None:
            # Not by its name: what stands there may be half of a password.
            raise _refusal(place, f"Value not specified for option {len(options) + 1} of it")
        options[key.text] = value.text
    raise _refusal(place, "JAAS config entry not terminated by semi-colon")


def _refusal(place: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{place} can't be read: {reason}.", hint='Expected: CLASS required key="value" ...;'
    )


def _tokens(text: str) -> Iterator[_Token]:
    """Cut as StreamTokenizer does; after the end, more ends."""
    for found in _TOKEN.finditer(text):
        if found.lastgroup == "text":
            yield _Token(found["quote"], _ESCAPE.sub(_character, found["text"]))
        elif found.lastgroup in ("number", "word"):
            yield _Token(found.lastgroup, found["word"])
        elif found.lastgroup == "other":
            yield _Token(found["other"])
    while True:
        yield _Token(_END)


def _character(match: re.Match[str]) -> str:
    octal, other = match[1], match[2]
    return chr(int(octal, 8)) if octal else _NAMED.get(other, other)
