"""``kgtool peek``: the records around a committed offset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kgtool.cli.commands.delete_offsets import with_bare_topics, with_topics
from kgtool.cli.options.declare import declare, flag, option
from kgtool.cli.options.group_selection import Selection, choose_in_order
from kgtool.cli.options.shared import cluster_options, group_arguments, open_session, topics_option
from kgtool.cli.options.types import OneOf, number
from kgtool.cli.output.output import Output
from kgtool.cli.output.rows import build_row
from kgtool.cli.output.tables import show_table
from kgtool.client import denied
from kgtool.columns.tools import PEEK, PEEK_TEXT
from kgtool.config import Settings
from kgtool.errors import BrokerError, KgError
from kgtool.model import ItemError, Target, TopicSpec
from kgtool.net.session import Session
from kgtool.queries.peek import CommittedPosition, PeekedRecord, find_positions, read_around
from kgtool.text import counted, escape

FORMATS = ("auto", "text", "json", "hex")


class PeekOptions(NamedTuple):
    """How many records to show on both sides, and the formats of keys and values."""

    before: int
    after: int
    committed_only: bool
    keys: str
    values: str


@declare(
    "peek",
    "kgtool peek billing --topic payments:0",
    "kgtool peek billing --topic payments:0,1 --before 0 --after 20 --format json",
    "kgtool peek billing --topic payments -o ndjson | jq .value",
)
@group_arguments
@topics_option(
    "A topic, or some of its partitions; repeatable (default: all that have a committed offset)."
)
@option(
    "--before",
    "N",
    "Records before the offset: what was read last (default: 5).",
    type=number(0, 10_000),
    default=5,
)
@option(
    "--after",
    "N",
    "Records from the offset on: what is read next (default: 5).",
    type=number(0, 10_000),
    default=5,
)
@option(
    "--format format_",
    None,
    "How to show keys and values; auto (default): as text if they are.",
    type=OneOf(FORMATS),
    default="auto",
)
@option("--key-format", None, "Only the keys.", type=OneOf(FORMATS))
@flag(
    "--read-committed --committed read_committed",
    "Without records of open or aborted transactions.",
)
@cluster_options()
def command(
    settings: Settings,
    output: Output,
    selection: Selection,
    topics: Sequence[TopicSpec],
    before: int,
    after: int,
    format_: str,
    key_format: str | None,
    read_committed: bool,
) -> None:
    """Show the records around a committed offset.

    Topics may also follow the groups: kgtool peek billing orders:0. `->` marks the record that the
    group reads next. Records are decompressed; text is shown only
    where bytes are text that a terminal can show, everything else as 0x and hexadecimal numbers.
    The group is not affected: no member joins it, and nothing is committed. It needs the ACL
    operation READ on the topic. Give up after --timeout without a record.
    """
    if not topics:
        selection, topics = with_topics(selection)
    options = PeekOptions(before, after, read_committed, key_format or format_, format_)
    with open_session(settings) as session:
        if not topics:
            selection, topics = with_bare_topics(session, selection)
        groups = choose_in_order(session, output, selection, PEEK)
        places = {group: _places(session, output, group, topics) for group in groups}
    output.page()
    with open_session(settings, progress=True) as session:
        for group, found in places.items():
            for place in found:
                if not output.reader_gone:
                    _peek(session, output, group, place, options)


def _places(
    session: Session, output: Output, group: str, topics: Sequence[TopicSpec]
) -> list[CommittedPosition]:
    """Find the committed offsets; report partitions that can't be shown."""
    try:
        asked = session.run(find_positions(session.cluster, group, topics))
    except KgError as error:
        output.failed(ItemError.of(error, Target(group)))
        return []
    places = []
    for partition, found in asked.items():
        if isinstance(found, CommittedPosition):
            places.append(found)
        else:
            output.failed(ItemError.of(found, Target(group, *partition)))
    return places


def _peek(
    session: Session, output: Output, group: str, place: CommittedPosition, options: PeekOptions
) -> None:
    try:
        reading = read_around(
            session.cluster,
            place,
            options.before,
            options.after,
            committed_only=options.committed_only,
        )
        records = session.run(reading)
    except KgError as error:
        if isinstance(error, BrokerError):  # say which ACL is missing
            error = denied.explain(error, denied.COMMIT, topic=place.partition.topic)
        output.failed(ItemError.of(error, Target(group, *place.partition)))
        return
    following = next((r.offset for r in records if r.offset >= place.offset), None)
    rows = [_row(group, place, record, record.offset == following, options) for record in records]
    at = place.partition
    is_bare = following is None and options.after > 0
    said = f"committed {place.offset}, {_remaining(place, is_bare=is_bare)}"
    output.text(f"{escape(at.topic)}:{at.partition}: {said}")
    show_table(output, PEEK_TEXT, rows)
    output.text("")
    for row in rows:
        output.row(row)
    output.done += 1


def _remaining(place: CommittedPosition, *, is_bare: bool) -> str:
    log = f"log {place.start}–{place.end - 1}" if place.end > place.start else "log empty"
    if place.offset > place.end:
        return f"{log}: beyond its end, which was truncated or re-created"
    if place.offset < place.start:
        return f"{log}: before its start, {place.start - place.offset} offsets are gone unread"
    if place.offset == place.end:
        return f"{log}: nothing is left to read"
    left = place.end - place.offset
    if is_bare:
        what = "only transaction markers, or aborted or compacted records, are left"
        return f"{log}: no record to read ({counted(left, 'offset')}: {what})"
    return f"{log}: {counted(left, 'offset')} left to read"


def _row(
    group: str, place: CommittedPosition, record: PeekedRecord, is_next: bool, options: PeekOptions
) -> dict[str, Any]:
    key, key_encoding = decoded(record.key, options.keys)
    value, value_encoding = decoded(record.value, options.values)
    headers = []
    for name, raw in record.headers:
        shown, encoding = decoded(raw, "hex" if options.values == "hex" else "auto")
        headers.append({"name": name, "value": shown, "encoding": encoding})
    return build_row(
        record,
        PEEK,
        group=group,
        **place.partition._asdict(),
        committed_offset=place.offset,
        is_next=is_next,
        key=key,
        key_encoding=key_encoding,
        value=value,
        value_encoding=value_encoding,
        headers=headers,
    )


def decoded(raw: bytes | None, format_: str) -> tuple[Any, str | None]:
    r"""Return bytes as something to show, and how: ``text``, ``json``, ``hex``, None for null.

    >>> decoded(b"caf\xc3\xa9", "auto"), decoded(b"\x00\x01", "auto"), decoded(b"[1]", "json")
    (('café', 'text'), ('0001', 'hex'), ([1], 'json'))
    """
    import json

    if raw is None:
        return None, None
    if format_ == "hex":
        return raw.hex(), "hex"
    if format_ == "text":
        return raw.decode("utf-8", "backslashreplace"), "text"
    if format_ == "json":
        try:
            return json.loads(raw), "json"
        except (ValueError, RecursionError):
            pass  # not JSON: text or hex
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.hex(), "hex"
    is_text = text.isprintable() or all(char.isprintable() or char in "\r\n\t" for char in text)
    return (text, "text") if is_text else (raw.hex(), "hex")
