"""Several small results at once."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kgtool.analysis.session import is_tiny
from kgtool.analysis.together import together

Rows = dict[str, list[dict[str, Any]]]


def gather(frames: Mapping[str, DataFrame]) -> Rows:
    """Collect these frames, which must be small, as dictionaries; the order of rows is lost.

    They are one Spark job: starting a job costs more than such a result does. But where there is
    little to read, most of the time goes into the plans, and those can be made side by side.
    """
    parts = [_part(name, frame) for name, frame in frames.items()]
    found: Rows = {name: [] for name in frames}
    if parts and is_tiny(parts[0].sparkSession):
        collected = together([partial(_collect, part) for part in parts], os.cpu_count() or 2)
    else:
        collected = [_collect(_union(parts))] if parts else []
    for rows in collected:
        for part, row in rows:
            found[part].append(json.loads(row))
    return found


def _part(name: str, frame: DataFrame) -> DataFrame:
    columns = F.struct(*[F.col(f"`{column}`") for column in frame.columns])
    row = F.to_json(columns, {"ignoreNullFields": "false"})
    return frame.select(F.lit(name).alias("part"), row.alias("row"))


def _union(parts: list[DataFrame]) -> DataFrame:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    return whole


def _collect(frame: DataFrame) -> list[Any]:
    rows: list[Any] = frame.collect()
    return rows
