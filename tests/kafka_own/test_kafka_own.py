"""Kafka's own tests of its command pass with kgtool, but for the departures that are listed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka_own.judges import ROOT, Judges, departures, methods

pytestmark = [pytest.mark.kafka_own, pytest.mark.broker]

LISTED = {departure.method: departure for departure in departures()}


@pytest.fixture(scope="module")
def judges(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judges]:
    """The JVMs, at work on everything that this run has selected."""
    running = Judges(tmp_path_factory.mktemp("kafka_own"))
    for item in request.session.items:
        call = getattr(item, "callspec", None)
        if item.path == request.path and call is not None and "method" in call.params:
            method = call.params["method"]
            running.begin(method)
            if method in LISTED and LISTED[method].allow:
                running.begin(method, LISTED[method].allow)
    try:
        yield running
    finally:
        running.close()


@pytest.mark.parametrize("method", methods())
def test_method(method: str, judges: Judges, record_property: pytest.RecordProperty) -> None:
    verdict = judges.begin(method).result()
    record_property("seconds", verdict["seconds"])
    failed = "\n".join(verdict["failures"])
    assert verdict["runs"], f"JUnit ran nothing: {failed}"
    if method not in LISTED:
        assert not failed, failed
        return
    departure = LISTED[method]
    assert departure.says in failed, f"stale entry of departures.toml: {failed or 'it passes'}"
    if departure.allow:
        rest = "\n".join(judges.begin(method, departure.allow).result()["failures"])
        assert not rest, f"with {departure.allow}: {rest}"


def test_every_method_is_judged(judges: Judges) -> None:
    suites = sorted({method.split(".")[0] for method in methods()})
    found = [f"{suite}.{method}" for suite in suites for method in judges.methods_of(suite)]
    assert found == sorted(methods())


@pytest.mark.parametrize("departure", LISTED.values(), ids=lambda departure: departure.method)
def test_departure_is_documented(departure) -> None:
    assert departure.method in methods()
    text = " ".join((ROOT / departure.where).read_text(encoding="utf-8").split())
    assert departure.words in text
