"""``kgtool request``: one raw Kafka request from JSON, and the response as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from kgtool.changes.raw_request import (
    Answer,
    RoutedRequest,
    check_version,
    common_version,
    find_api,
    make_request,
    route,
    schema_of,
    send_parts,
)
from kgtool.cli.change import confirm
from kgtool.cli.options.change import ChangeOptions, consent_options
from kgtool.cli.options.declare import declare, flag, option
from kgtool.cli.options.shared import cluster_options, open_session
from kgtool.cli.options.types import number
from kgtool.cli.output.errors import error_object
from kgtool.cli.output.output import Output
from kgtool.cli.output.tables import show_table
from kgtool.client.ops import ANY
from kgtool.columns import shown
from kgtool.columns.tools import APIS, FIELDS, REQUEST
from kgtool.config import Settings
from kgtool.errors import KgError, UsageError
from kgtool.held import hold
from kgtool.json_rows import unique
from kgtool.model import ItemError, Target
from kgtool.protocol import api
from kgtool.protocol.api import load, names
from kgtool.protocol.as_json import ResponseError, error_codes, to_json
from kgtool.protocol.codes import broker_error
from kgtool.protocol.described import about, field_rows
from kgtool.protocol.frame import encode_request
from kgtool.protocol.plan import encode
from kgtool.protocol.schema import changes
from kgtool.text import counted

GOES_TO = {
    "any": "any broker",
    "all": "every broker",
    "coordinator": "coordinator",
    "leader": "leader",
    "controller": "controller",
}


class Api(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """Kafka's name of an API, in any case."""

    def __init__(self) -> None:
        super().__init__(names(), case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the API's name; refuse others, with the nearest one."""
        return find_api(str(value))


class RequestOptions(NamedTuple):
    """The options of the command."""

    api: str
    body: Any
    """Parsed: see ``_body``."""
    version: int | None
    broker: int | None
    hex: bool
    change: ChangeOptions

    def request(self, version: int) -> Any:
        """Build the message; refuse invalid ones, and changes without a terminal or ``--yes``."""
        request = make_request(self.api, version, self.body)
        if changes(request):
            confirm.require(self.change)
        return request


@declare(
    "request",
    "kgtool request --list",
    "kgtool request OffsetFetch --schema --version 8",
    'kgtool request OffsetFetch --version 2 --body \'{"groupId": "billing", "topics": null}\'',
    "kgtool request ApiVersions --broker 1 --hex",
    "kgtool request OffsetDelete --body @delete.json --dry-run",
)
@click.argument("api", required=False, type=Api(), metavar="API")
@option("--body", "JSON|@FILE|-", "The request: JSON, a file, or stdin.")
@option(
    "--version --api-version version",
    "N",
    "The API's version (default: the highest that both sides speak).",
    type=number(0, 32767),
)
@option("--broker", "ID", "Send it to this broker instead of the usual one.", type=number(0))
@flag("--hex", "Also show the bytes of request and response.")
@flag("--list list_", "Show all APIs that kgtool knows.")
@flag("--schema", "Show the fields of the API's request and response.")
@flag("--dry-run", "Show where the request would go, and its bytes; send nothing.")
@consent_options
@cluster_options(required=False)
def command(
    settings: Settings | None,
    output: Output,
    api: str | None,
    list_: bool,
    schema: bool,
    body: str | None,
    change: ChangeOptions,
    version: int | None,
    broker: int | None,
    hex: bool,  # noqa: A002 - the name of the option
) -> None:
    """Send one raw Kafka request, and show the response.

    The body is JSON with the names of Kafka's message JSON (--schema shows them; groupId and
    group_id are the same), bytes in Base64. Missing fields have their defaults; fields that the
    version does not have are refused. The request is routed to the right coordinator, leader or
    controller, in parts if need be. Nothing is retried.

    The answer is on stdout as JSON; error codes in it are named on stderr and make the exit
    status. A request that changes something asks first; there is no journal and no undo for it.
    With --dry-run no cluster is needed. The correlation id stands as 0 in the header's bytes.
    """
    if list_:
        _list(output)
        return
    if api is None:
        raise UsageError("request takes the name of an API: kgtool request --list shows them.")
    options = RequestOptions(api, None, version, broker, hex, change)
    check_version(options.api, options.version)
    if schema:
        _schema(output, options)
        return
    options = options._replace(body=_body(body, settings and settings.timeout_ms))
    if settings is not None:
        _send(settings, output, options)
    elif options.change.dry_run:
        _only_show(output, options)
    else:
        raise UsageError(
            'Missing required argument "[bootstrap-server]": give --bootstrap-server HOST:PORT, '
            "or --dry-run, which needs none."
        )


# -- lists and schemas ------------------------------------------------------------------------


def _list(output: Output) -> None:
    output.begin(APIS)
    rows = api_rows()
    show_table(output, shown(APIS), rows, page=True)
    for row in rows:
        output.row(row)


def _schema(output: Output, options: RequestOptions) -> None:
    output.begin(FIELDS)
    module = load(options.api)
    output.page()
    output.text((module.__doc__ or "").replace("``", "").strip())
    for message, cls in (("request", module.Request), ("response", module.Response)):
        rows = list(field_rows(message, cls, options.version))
        output.text(f"\n{message.capitalize()}, versions {cls.VERSIONS}, flexible {cls.FLEXIBLE}")
        show_table(output, shown(FIELDS), rows)
        for row in rows:
            output.row(row)


# -- the body ---------------------------------------------------------------------------------


def _body(text: str | None, timeout_ms: int | None) -> Any:
    """Read the body; an empty object where there is none."""
    if text is None:
        return {}
    where = "--body"
    if text == "-" or text.startswith("@"):
        file = hold(text.removeprefix("@"), timeout_ms)
        where, text = str(file), file.text()
    try:
        return json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        why = error if text.strip() else "it is empty"
        raise UsageError(f"{where} is not JSON: {why}.") from error


# -- sending ----------------------------------------------------------------------------------


def _only_show(output: Output, options: RequestOptions) -> None:
    version = schema_of(options.api).VERSIONS.high if options.version is None else options.version
    output.begin(REQUEST)
    goes_to = GOES_TO[schema_of(options.api).ROUTE]
    output.note(f"Without a cluster: where it goes ({goes_to}) is open.")
    _would_send(output, options, [RoutedRequest(ANY, options.request(version))], version, "kgtool")


def _send(settings: Settings, output: Output, options: RequestOptions) -> None:
    if options.version is not None:  # errors in the body need no cluster
        options.request(options.version)
    with open_session(settings) as session:
        session.connect()
        output.begin(REQUEST, session.cluster_id)
        version = options.version
        if version is None:
            to = ANY if options.broker is None else options.broker
            version = session.run(common_version(session.cluster, to, schema_of(options.api)))
        request = options.request(version)
        if options.broker is None:
            parts = session.run(route(session.cluster, request))
        else:
            parts = [RoutedRequest(options.broker, request)]
        if options.change.dry_run:
            _would_send(output, options, parts, version, settings.client_id)
            return
        if changes(request):
            output.note("A raw request is not in the journal: kgtool can't undo it.")
            question = f"Send {options.api} version {version}?"
            confirm.ask(session, output, options.change, question, is_raw=True)
        for answer in session.run(send_parts(session.cluster, parts, version)):
            _show(output, options, answer, version, settings.client_id)


# -- showing ----------------------------------------------------------------------------------


def _would_send(
    output: Output,
    options: RequestOptions,
    parts: Sequence[RoutedRequest],
    version: int,
    client_id: str,
) -> None:
    for part in parts:
        row = _row(options, part, version, client_id)
        where = "any broker" if row["broker"] is None else f"broker {row['broker']}"
        output.note(f"Dry run: {options.api} version {version} would go to {where}.")
        output.text(json.dumps(row["request"], indent=2))
        output.text(_bytes(row), end="")
        output.item(row)


def _row(
    options: RequestOptions, part: RoutedRequest, version: int, client_id: str
) -> dict[str, Any]:
    """Return the row without the response: the request as JSON and as bytes."""
    row: dict[str, Any] = {
        "api": options.api,
        "api_key": schema_of(options.api).KEY,
        "version": version,
        "broker": None if part.to == ANY else part.to,
        "request": to_json(part.request, version),
    }
    if options.hex or options.change.dry_run:
        body = encode(part.request, version)
        frame = encode_request(part.request, version, 0, client_id)
        row["header_hex"] = frame[4 : len(frame) - len(body)].hex()
        row["request_hex"] = body.hex()
    return row


def _show(
    output: Output, options: RequestOptions, answer: Answer, version: int, client_id: str
) -> None:
    row = _row(options, answer.part, version, client_id)
    reply = answer.reply
    if isinstance(reply, KgError):
        failed = ItemError.of(reply, Target(broker=answer.broker))
        if reply.maybe_done and changes(answer.part.request):
            failed = failed._replace(
                hint="It was sent but not answered: it may have been carried out."
            )
        output.failed(failed, row={**row, "error": error_object(failed)})
        return
    where = "" if answer.broker is None else f" of broker {answer.broker}"
    if output.is_text:
        output.note(f"{options.api} version {version}, the answer{where}:")
    row["response"] = to_json(reply, version)
    if options.hex:
        row["response_hex"] = encode(reply, version).hex()
        output.text(_bytes(row), end="")
    output.text(json.dumps(row["response"], indent=2))  # ASCII: harmless for any terminal
    output.row(row)
    errors = list(error_codes(reply))
    output.done += not errors
    for error in errors:
        if error.code:
            output.failed(_item_error(error, answer.broker))
        else:
            output.done += 1


def _item_error(found: ResponseError, broker: int | None) -> ItemError:
    error = broker_error(found.code, found.message)
    known = {"broker": broker, **found.target}
    target = Target(**{key: known.get(key) for key in Target._fields})
    message = f"{found.path} {found.code} {error.name}: {error.message}"
    return ItemError.of(error, target)._replace(message=message)


def _bytes(row: dict[str, Any]) -> str:
    titles = {"header_hex": "Header", "request_hex": "Request", "response_hex": "Response"}
    return "".join(
        hexdump(title, bytes.fromhex(row[key])) for key, title in titles.items() if key in row
    )


# ---------------------------------------------------------------------------------------------
# The table of APIs, and bytes


def api_rows() -> list[dict[str, Any]]:
    """Return a row for each API."""
    rows = []
    for name in api.names():
        module = api.load(name)
        request = module.Request
        rows.append(
            {
                "api": name,
                "api_key": request.KEY,
                "versions": str(request.VERSIONS),
                "flexible": str(request.FLEXIBLE),
                "route": GOES_TO[request.ROUTE],
                "changes": changes(request()),
                "about": about(module),
            }
        )
    return rows


def hexdump(title: str, data: bytes) -> str:
    """Return bytes in hexadecimal and ASCII, sixteen a line.

    >>> print(hexdump("Body", b"kgtool"), end="")
    Body, 6 bytes
      0000  6b 67 74 6f 6f 6c                                 kgtool
    """
    lines = [f"{title}, {counted(len(data), 'byte')}"]
    for at in range(0, len(data), 16):
        part = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"  {at:04x}  {part.hex(' '):<47}   {text}")
    return "\n".join(lines) + "\n"
