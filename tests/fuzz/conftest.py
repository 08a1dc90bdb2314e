"""No fuzzing may hang."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.damage import alarm


@pytest.fixture(autouse=True)
def _alarm() -> Iterator[None]:
    with alarm():
        yield
