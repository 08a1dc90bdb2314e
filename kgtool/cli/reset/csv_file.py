"""The CSV files of ``--reset-offsets --export`` and ``--from-file``, both forms.

One group: ``topic,partition,offset``; several: ``group,topic,partition,offset``, which may also
be given for one group (other groups' lines are ignored). Every line is checked before anything is
sent, and errors have line numbers; Kafka's tool takes a missing offset for 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kgtool.errors import ConfigError
from kgtool.held import SILENT_MS, NotText, hold
from kgtool.json_rows import LONGEST_NAME, shown
from kgtool.model import TopicPartition
from kgtool.text import counted

_LARGEST_OFFSET = 2**63 - 1
_LARGEST_PARTITION = 2**31 - 1
_FORMS = {3: "topic,partition,offset", 4: "group,topic,partition,offset"}

OffsetsByGroup = dict[str, dict[TopicPartition, int]]
"""New offsets by group and partition."""


class ResetFile(NamedTuple):
    """The offsets of a file; ``replaced``: notes on lines that a later line overrides."""

    offsets: OffsetsByGroup
    replaced: list[str]


def read(path: str, group: str | None, timeout_ms: int | None = SILENT_MS) -> ResetFile:
    """Read a file. ``group``: the only group; None if there may be several.

    :raises ConfigError: the file can't be read, or one of its lines is invalid.
    """
    try:
        file = hold(path, timeout_ms)
        text = file.text("utf-8-sig")
    except NotText as error:
        raise ConfigError(f"Unable to read file {path}: it is not UTF-8 text.") from error
    except ConfigError as error:  # in the words of Kafka's tool
        said = error.message.replace("Can't read", "Unable to read file", 1)
        raise ConfigError(said, hint=error.hint) from error
    return parse(text, str(file), group)


def parse(text: str, path: str, group: str | None) -> ResetFile:
    """Parse the text of a file; ``path`` is for messages."""
    lines = list(_fields(text, path))
    while lines and not lines[-1][1]:
        lines.pop()
    if not lines:
        raise ConfigError(
            f"{path} is empty: it needs lines of {_FORMS[4 if group is None else 3]}."
        )
    width = _width(lines[0][1], path, lines[0][0], group)
    offsets: OffsetsByGroup = {}
    seen: dict[tuple[str, TopicPartition], int] = {}
    replaced: list[str] = []
    for number, fields in lines:
        name, partition, offset = _line(fields, width, f"{path}, line {number}", group)
        earlier = seen.get((name, partition))
        if earlier is not None:
            replaced.append(f"line {number} replaces line {earlier} ({partition})")
        seen[name, partition] = number
        offsets.setdefault(name, {})[partition] = offset
    return ResetFile(offsets, replaced)


def _fields(text: str, path: str) -> Iterable[tuple[int, list[str]]]:
    """Return the fields of each line with its number; blank lines have none."""
    import csv
    from io import StringIO

    reader = csv.reader(StringIO(text, newline=""), skipinitialspace=True, strict=True)
    try:
        for fields in reader:
            is_blank = not any(field.strip() for field in fields) and len(fields) < 2
            yield reader.line_num, [] if is_blank else fields
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num}: {error}.") from error


def _width(fields: Sequence[str], path: str, number: int, group: str | None) -> int:
    if len(fields) == 4:
        return 4
    if group is None and len(fields) == 3:
        raise ConfigError(
            f"{path}, line {number}: 3 fields are for a single --group; this needs {_FORMS[4]}."
        )
    return 3 if group is not None else 4


def _line(
    fields: Sequence[str], width: int, where: str, group: str | None
) -> tuple[str, TopicPartition, int]:
    if not fields:
        raise ConfigError(f"{where} is blank: only the end of the file may be.")
    form = _FORMS[width]
    topic, partition, offset = ([field.strip() for field in fields] + ["", "", ""])[width - 3 :][:3]
    is_words = bool(partition and offset) and not (_is_number(partition) or _is_number(offset))
    if len(fields) != width or is_words:
        shown = ",".join(fields)
        if fields[0].startswith("#"):
            raise ConfigError(f"{where} is a comment, which such a file can't have: '{shown}'.")
        if len(fields) == width:
            raise ConfigError(f"{where} is not {form}, perhaps a header: '{shown}'.")
        wrong = (
            "the offset is missing" if len(fields) == width - 1 else counted(len(fields), "field")
        )
        raise ConfigError(f"{where}: {wrong}; {form} is expected.")
    if max(len(field.encode("utf-8", "surrogateescape")) for field in fields) > LONGEST_NAME:
        raise ConfigError(f"{where}: a name is longer than {LONGEST_NAME:,} bytes.")
    if not topic:
        raise ConfigError(f"{where}: the topic is missing; {form} is expected.")
    number = _number(partition, "partition", where, form, _LARGEST_PARTITION)
    name = fields[0] if width == 4 else str(group)
    return name, TopicPartition(topic, number), _number(offset, "offset", where, form)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def _number(text: str, what: str, where: str, form: str, largest: int = _LARGEST_OFFSET) -> int:
    if not text:
        raise ConfigError(f"{where}: the {what} is missing; {form} is expected.")
    if text.startswith("-") and text[1:].isdigit():
        raise ConfigError(f"{where}: Invalid negative {what} {text}.")
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= largest):
        raise ConfigError(f"{where}: {shown(text)} is no {what}.")
    return int(text)


def export(rows: Iterable[tuple[str, TopicPartition, int]], with_group: bool) -> str:
    """Return lines as Kafka's ``--export`` prints them.

        >>> from kgtool.json_rows import LONGEST_NAME, shown
    from kgtool.model import TopicPartition as P
        >>> export([("g", P("t", 0), 5)], with_group=True)
        'g,t,0,5\\n'
    """
    lines = []
    for group, partition, offset in rows:
        names = [group, partition.topic] if with_group else [partition.topic]
        lines.append(",".join([*map(_quoted, names), str(partition.partition), str(offset)]))
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    """Quote a name if Jackson's CsvEncoder does.

    It quotes names longer than 24 UTF-16 units, and any with a character up to the comma.
    """
    units = len(text) + sum(char > "\uffff" for char in text)
    if units <= 24 and not any(char <= "," for char in text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'
