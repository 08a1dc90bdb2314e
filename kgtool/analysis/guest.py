"""The session that is there already, a program's or a notebook's: used, and left as it was."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from kgtool.analysis import session as own
from kgtool.errors import UsageError


class Guest:
    """Works on a session of somebody else's."""

    def __init__(self, session: Any, conf: Mapping[str, str], input_bytes: int) -> None:
        self.session = session
        wanted = {**own.sizes(session, conf, input_bytes), **conf}
        self._before = {key: session.conf.get(key, None) for key in wanted}
        for key, value in wanted.items():
            if self._before[key] != value:
                self._set(key, value)

    def leave(self) -> None:
        """Put its settings back; it goes on."""
        for key, value in self._before.items():
            if self.session.conf.get(key, None) == value:
                continue
            if value is None:
                self.session.conf.unset(key)
            else:
                self.session.conf.set(key, value)

    def _set(self, key: str, value: str) -> None:
        from pyspark.errors import PySparkException

        try:
            self.session.conf.set(key, value)
        except PySparkException:
            self.leave()
            raise UsageError(
                f"--conf {key} can't be changed in the Spark session that is there."
            ) from None


def guest(master: str | None, conf: Mapping[str, str], input_bytes: int) -> Guest | None:
    """The session that this process has, to be left in the end; None: it has none.

    Raises UsageError if ``master`` is given beside it, or a setting that can't be changed in it.
    """
    session = _session()
    if session is None:
        return None
    there = session.sparkContext.master
    if master is not None:
        raise UsageError(
            f"--master can't be given beside the Spark session that is there ({there})."
        )
    if not there.startswith("local"):
        own.ship_code(session)
    return Guest(session, conf, input_bytes)


def _session() -> Any:
    with suppress(ImportError):
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if SparkContext._active_spark_context is not None:
            return SparkSession.builder.getOrCreate()
    return None
