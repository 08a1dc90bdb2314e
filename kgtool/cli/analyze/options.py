"""The options of ``kgtool analyze``, as values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kgtool.cli.analyze.fail_on import FailCondition

if TYPE_CHECKING:
    from kgtool.analysis.input.broker_settings import RetentionPhases
    from kgtool.retention.phases import RulePhases


class AnalyzeOptions(NamedTuple):
    """What a command line asks for; spans and times are in ms, paths as they were given."""

    rules: tuple[str | RulePhases, ...]
    retention: tuple[int, ...]
    retention_was: RetentionPhases
    check_interval: tuple[int, ...]
    horizon: int
    as_of: int | None
    out: str | None
    only: tuple[str, ...]
    overwrite: bool
    state: str | None
    rebuild: bool
    report: Path | None
    plan: Path | None
    idle: int | None
    table: str | None
    group: str | None
    bucket: int
    fail_on: tuple[FailCondition, ...]
    strict: bool
    engine: str
    master: str | None
    conf: tuple[tuple[str, str], ...]
