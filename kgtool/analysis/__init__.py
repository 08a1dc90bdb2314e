"""What ``__consumer_offsets`` tells: what is live, what expires when, what was removed and why.

::

    from kgtool.analysis import analyze

    with analyze(spark, "export/") as tables:
        tables.live.where("expires_at_ms < …").show()

``input`` finds what there is and reads each format, ``decode`` makes rows of it, ``fold`` all that
one partition of the log says, ``tables`` and ``report`` what people see of it; ``pipeline`` puts
them together on an engine: ``local`` or ``spark``. pyspark is imported there and in ``api`` only.
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
