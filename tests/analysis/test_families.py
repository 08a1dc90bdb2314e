"""Which names are taken for generated."""

from __future__ import annotations

import pytest

from kgtool.analysis.fold.folded_log import fold

UUID = "7f3a9c21-4b5d-4e6f-8a9b-0c1d2e3f4a5b"


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("console-consumer-41217", "console-consumer-*"),
        ("perf-consumer-98034", "perf-consumer-*"),
        (f"anonymous.{UUID}", "anonymous.*"),
        (f"spark-kafka-source-{UUID}-1699999999-driver-0", "spark-kafka-source-*-driver-*"),
        (UUID.replace("-", ""), "*"),
        (f"app_{UUID.upper()}", "app_*"),
        ("nightly-2026-11-21", "nightly-*"),
        ("nightly-20261121T150000Z", "nightly-*"),
        ("nightly-2026-11-21 15:00:00.123", "nightly-*"),
        ("job.20261121.17", "job.*"),
        ("build-deadbeef42", "build-*"),
        ("0x7f3a9c21-worker", "*-worker"),
        ("worker12345", "worker*"),
        ("10.0.0.17-agent", "*-agent"),
        ("schema-registry-10.0.0.1-8081", "schema-registry-*"),
        ("42", "*"),
    ],
)
def test_generated_parts_become_stars(name: str, family: str) -> None:
    assert fold(name) == family


@pytest.mark.parametrize(
    "name",
    [
        "billing",
        "orders-v2",
        "payments-eu1",
        "feed-facade",
        "decade",
        "s3-sink",
        "b2b",
        "",
        "größe-ß",
        "<script>alert()</script>",
        "connect-jdbc-sink",
    ],
)
def test_names_that_somebody_chose_stay(name: str) -> None:
    assert fold(name) == name
