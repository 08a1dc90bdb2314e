"""One file per Kafka API: the class body is the schema of all versions, and how it is routed.

A file holds ``Request`` and ``Response`` and the structs they are made of, or takes those of a
sister API that are the same there. ``Response`` says the versions of both (the union of what Kafka
3.9 and 4.3 know), and from which on they are flexible. The class statement of ``Request`` carries
Kafka's API key, the class of the reply, ``changes``: whether it changes anything on the cluster (or
a function of the request that tells), and ``route``: where it must be sent.

============== ===========================================================================
``any``        any broker
``all``        every broker, each answers for itself (ListGroups)
``coordinator`` the coordinator of the group (FindCoordinator)
``leader``     the leader of each partition
``controller`` the controller
============== ===========================================================================

Nothing is listed by hand: ``load("OffsetFetch")`` imports ``offset_fetch`` on demand.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any


def load(name: str) -> Any:
    """Import the module of an API by Kafka's name for it.

    :raises KeyError: there is no such API here.
    """
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    try:
        return import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as exc:
        raise KeyError(name) from exc


def names() -> list[str]:
    """List the APIs that kgtool knows, by Kafka's names, in alphabetical order."""
    from pkgutil import iter_modules

    return sorted(
        "".join(part.capitalize() for part in found.name.split("_"))
        for found in iter_modules(__path__)
    )
