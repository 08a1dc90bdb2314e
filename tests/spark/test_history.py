"""However a group's commits are followed, what becomes of them is the same.

``test_random_logs`` holds what follows every transaction to the replay in plain Python; here the
shorter ways are held to that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgtool.analysis import sources
from kgtool.analysis.decode import NO_DETAIL
from kgtool.analysis.early import Early
from kgtool.analysis.history import history
from kgtool.analysis.read import read
from kgtool.retention.rules import RULE_SETS
from tests.spark.test_random_logs import write_log

pytestmark = pytest.mark.spark
GROUPS = 60
# Between them every way in which a rule set can differ in what it makes of transactions.
NAMES = ("2.4", "3.7-new", "3.8-new", "4.1")


@pytest.fixture
def adaptive(spark: Any) -> Iterator[Any]:
    """Plans change while they are carried out, as they do where there is much to read."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield spark
    spark.conf.set("spark.sql.adaptive.enabled", "false")


def _records(spark: Any, folder: Path) -> Any:
    return read(spark, sources.find([str(folder)]).files, None, NO_DETAIL).persist()


def _rows(records: Any, name: str, transactional: bool | None) -> Counter[Any]:
    frame = records.transform(history(RULE_SETS[name], transactional))
    return Counter(str(row.asDict(recursive=True)) for row in frame.collect())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plain", [GROUPS, GROUPS // 2, 0])
def test_spark_finds_out_whom_to_follow(
    adaptive: Any, tmp_path: Path, name: str, plain: int
) -> None:
    kip_848 = RULE_SETS[name].new_coordinator
    write_log(tmp_path, 7, kip_848=kip_848, groups_in_all=GROUPS, plain=plain)
    records = _records(adaptive, tmp_path)
    followed = _rows(records, name, True)
    assert sum(followed.values()) > 200
    assert _rows(records, name, None) == followed
    if plain == GROUPS:
        assert _rows(records, name, False) == followed
    records.unpersist()


@pytest.mark.parametrize(("plain", "has_transactions"), [(GROUPS, False), (GROUPS - 1, True)])
def test_little_is_known_before_spark_is_there(
    tmp_path: Path, plain: int, has_transactions: bool
) -> None:
    write_log(tmp_path, 7, kip_848=True, groups_in_all=GROUPS, plain=plain)
    files = sources.find([str(tmp_path)]).files
    early = Early(files, None, NO_DETAIL, RULE_SETS["4.1"])
    assert early.has_transactions() is has_transactions
