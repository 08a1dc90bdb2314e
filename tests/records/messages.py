"""Every key and value that kgtool knows, under Kafka's name for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kgtool.protocol.schema import Struct
from kgtool.records import offset_commit, record_types, share
from kgtool.records.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription

EARLY = share.EarlyShareGroupMetadataValue
"""3.9's form of ShareGroupMetadataValue, which 4.x changed under the same version."""


class Form(NamedTuple):
    """A key or value class; ``name`` is what Kafka calls it."""

    name: str
    cls: type[Struct]

    @property
    def versions(self) -> range:
        return range(self.cls.VERSIONS.low, self.cls.VERSIONS.high + 1)


def forms() -> Iterator[Form]:
    """Keys and values of ``__consumer_offsets``, each once."""
    for known in record_types().values():
        yield Form(f"{known.name}Key", known.key)
        if known.number == 0:
            yield Form("LegacyOffsetCommitValue", offset_commit.LegacyOffsetCommitValue)
        else:
            yield from (Form(f"{known.name}Value", cls) for cls in known.values)


def embedded() -> Iterator[Form]:
    """What classic members carry inside of them."""
    for cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment):
        yield Form(cls.__name__, cls)


EVERY = [*forms(), *embedded()]
IDS = [form.cls.__name__ for form in EVERY]
