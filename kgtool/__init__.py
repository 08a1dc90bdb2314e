"""kgtool: an admin toolkit for Kafka consumer groups and their committed offsets.

::

    from kgtool import GroupAdmin

    with GroupAdmin("b1:9092") as admin:
        for group in admin.list_groups().groups:
            print(group.group, group.state)

Importing this package costs nothing: it holds the version, and looks up everything else when it is
first asked for.
"""

from __future__ import annotations

# Type checkers know this name; importing it from typing would cost more than --version does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from kgtool.api.group_admin import GroupAdmin
    from kgtool.errors import KgError
    from kgtool.model import CommittedOffset, TopicPartition, TopicSpec

__version__ = "0.1.0"
__all__ = ["CommittedOffset", "GroupAdmin", "KgError", "TopicPartition", "TopicSpec", "__version__"]

_PLACES = {
    "GroupAdmin": "kgtool.api.group_admin",
    "KgError": "kgtool.errors",
    "CommittedOffset": "kgtool.model",
    "TopicPartition": "kgtool.model",
    "TopicSpec": "kgtool.model",
}


def __getattr__(name: str) -> object:
    """Import a part of the public API when it is first used (PEP 562)."""
    if name not in _PLACES:
        raise AttributeError(f"module 'kgtool' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
