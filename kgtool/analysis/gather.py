"""Several small results from one Spark job: starting a job costs more than such a result does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Rows = dict[str, list[dict[str, Any]]]


def gather(frames: Mapping[str, DataFrame]) -> Rows:
    """Collect these frames, which must be small, as dictionaries; the order of rows is lost."""
    union: DataFrame | None = None
    for name, frame in frames.items():
        columns = F.struct(*[F.col(f"`{column}`") for column in frame.columns])
        row = F.to_json(columns, {"ignoreNullFields": "false"})
        part = frame.select(F.lit(name).alias("part"), row.alias("row"))
        union = part if union is None else union.unionByName(part)
    found: Rows = {name: [] for name in frames}
    for part, row in union.collect() if union is not None else ():
        found[part].append(json.loads(row))
    return found
