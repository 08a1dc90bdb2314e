"""Raw requests from JSON: any API and version that the schemas know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgtool import __version__
from kgtool.errors import EncodeError, UsageError
from kgtool.protocol.api import load, names
from kgtool.protocol.as_json import carries, from_json
from kgtool.protocol.plan import encode

_OURS: dict[tuple[str, str], Any] = {
    ("ListOffsets", "replica_id"): -1,
    ("Metadata", "allow_auto_topic_creation"): False,
    ("ApiVersions", "client_software_name"): "kgtool",
    ("ApiVersions", "client_software_version"): __version__,
}
"""Defaults that are not the schema's: a client is no replica, to look at a topic must not make it,
and brokers refuse clients without a name (KIP-511)."""


def find_api(word: str) -> str:
    """Return Kafka's name of an API, which may be given in any case.

    :raises UsageError: there is none; the nearest one is named.
    """
    from difflib import get_close_matches

    by_name = {name.lower(): name for name in names()}
    plain = word.lower().removesuffix("request")
    if plain in by_name:
        return by_name[plain]
    near = get_close_matches(plain, by_name, n=1)
    more = f"did you mean {by_name[near[0]]}?" if near else "kgtool request --list shows them"
    raise UsageError(f"No such API '{word}' ({more}).")


def schema_of(api: str) -> Any:
    """Return the class of the request."""
    return load(api).Request


def check_version(api: str, version: int | None) -> None:
    """Refuse a version that the schema does not have; None is any.

    :raises UsageError: it hasn't.
    """
    known = schema_of(api).VERSIONS
    if version is not None and version not in known:
        raise UsageError(f"{api} has versions {known} here, and no {version}.")


def make_request(api: str, version: int, body: Mapping[str, Any]) -> Any:
    """Make the message; defaults are filled in.

    :raises UsageError: it can't be written: an unknown name, or a value of the wrong type.
    """
    cls = schema_of(api)
    request = from_json(cls, version, body)
    given = {str(key).replace("_", "").lower() for key in body}
    for field in cls.FIELDS:
        is_named = field.name.replace("_", "") in given
        if (api, field.name) in _OURS and not is_named and carries(field, version, True):
            request = request.replace(**{field.name: _OURS[api, field.name]})
    if api == "Produce" and request.acks == 0:
        raise UsageError("acks: brokers never answer a Produce request with acks 0: use 1 or -1.")
    try:
        encode(request, version)
    except EncodeError as error:
        raise UsageError(error.message) from error
    return request
