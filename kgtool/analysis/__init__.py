"""What ``__consumer_offsets`` tells: what is live, what expires when, what was removed and why.

::

    from kgtool.analysis import analyze

    with analyze(spark, "export/") as tables:
        tables.live.where("expires_at_ms < …").show()

``input`` discovers the inputs and reads each format, ``decode`` turns them into rows, ``fold``
computes everything about one log partition, ``tables`` and ``report`` present it. ``pipeline`` runs
these steps on an engine, ``local_engine`` or ``spark``; only ``spark`` and ``api`` import pyspark.
"""

from __future__ import annotations

# Type checkers know these names; importing them takes pyarrow.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from kgtool.analysis.api import Tables, analyze
    from kgtool.analysis.spark.data_source import register

__all__ = ["Tables", "analyze", "register"]

_PLACES = {
    "Tables": "kgtool.analysis.api",
    "analyze": "kgtool.analysis.api",
    "register": "kgtool.analysis.spark.data_source",
}


def __getattr__(name: str) -> object:
    """Import a part of the public API when it is first used (PEP 562)."""
    if name not in _PLACES:
        raise AttributeError(f"module 'kgtool.analysis' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)
