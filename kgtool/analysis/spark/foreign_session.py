"""An existing Spark session, of a program or a notebook: used, and left as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from kgtool.analysis.spark import session as own
from kgtool.errors import UsageError


@contextmanager
def changed(session: Any, conf: Mapping[str, str]) -> Iterator[None]:
    """Apply these settings, then restore them. Raises UsageError if one can't be changed."""
    from pyspark.errors import PySparkException

    before: dict[str, str | None] = {}
    try:
        for key, value in conf.items():
            was = session.conf.get(key, None)
            if was != value:
                try:
                    session.conf.set(key, value)
                except PySparkException:
                    raise UsageError(
                        f"--conf {key} can't be changed in the Spark session that is there."
                    ) from None
                before[key] = was
        yield
    finally:
        for key, was in before.items():
            if was is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, was)


def guest(master: str | None, conf: Mapping[str, str]) -> tuple[Any, ExitStack] | None:
    """The existing session and a stack that restores its settings; None: there is no session.

    Raises UsageError if ``master`` is given too, or a setting that can't be changed.
    """
    session = _session()
    if session is None:
        return None
    if master is not None:
        there = session.conf.get("spark.master", "")
        raise UsageError(
            f"--master can't be given beside the Spark session that is there ({there})."
        )
    own.ship_code(session)
    settings = ExitStack()
    settings.enter_context(changed(session, conf))
    return session, settings


def _session() -> Any:
    with suppress(ImportError):
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if SparkContext._active_spark_context is not None:
            return SparkSession.builder.getOrCreate()
    return None
