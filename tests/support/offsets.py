"""Committing with kgtool what a group does not have yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgtool.changes.offsets.verify import Write
from kgtool.changes.offsets.write import write_offsets
from kgtool.model import CommittedOffset, TopicPartition


def first_commits(
    cluster: Any, offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]], **options: Any
) -> Any:
    """Return the operation that gives groups their first offsets."""
    writes = {
        group: {partition: Write(None, value) for partition, value in parts.items()}
        for group, parts in offsets.items()
    }
    return write_offsets(cluster, writes, verify=False, **options)
