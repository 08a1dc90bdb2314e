"""The door where the cluster tells no id, as brokers that are not Apache Kafka may."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgtool.changes.policy import Guard, Origin, PolicyRefused
from kgtool.config.contexts import Context


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("KGTOOL_POLICY", "KGTOOL_CONFIRM"):
        monkeypatch.delenv(name, raising=False)


def guard(confirm: str | None, *, is_protected: bool = True) -> Guard:
    context = Context("prod", is_protected=is_protected)
    session: Any = SimpleNamespace(cluster_id=None, settings=SimpleNamespace(context=context))
    return Guard(session, Origin("delete", confirm=confirm))


@pytest.mark.parametrize("confirm", [None, "other"])
def test_a_protected_context_is_not_confirmed_by_nothing(confirm: str | None) -> None:
    """Was: the id that is not there was the one that was not given."""
    with pytest.raises(PolicyRefused, match="without id is protected") as refused:
        guard(confirm).check()
    assert "--confirm prod" in str(refused.value.hint)


def test_its_name_confirms() -> None:
    guard("prod").check()


def test_what_is_not_protected_takes_no_confirmation() -> None:
    guard(None, is_protected=False).check()
    with pytest.raises(PolicyRefused, match="not the one of --confirm"):
        guard("other", is_protected=False).check()
