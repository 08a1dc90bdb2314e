"""Which release a broker is taken for, by what it offers."""

from __future__ import annotations

import pytest

from kgtool.protocol.api import load
from kgtool.protocol.capabilities import CAPABILITIES, broker_release, is_kafka, not_offered

# The stable versions in the message JSONs of each kafka-clients jar (validVersions, less one where
# latestVersionUnstable says so); 2.1.1, 3.9.1 and 4.3.1 are asked themselves (test_generations).
OFFERED = {
    "2.3.1": {2: (0, 5), 9: (0, 5), 10: (0, 2), 16: (0, 2), 44: (0, 0)},
    "2.4.1": {2: (0, 5), 9: (0, 6), 10: (0, 3), 16: (0, 3), 44: (0, 1), 47: (0, 0)},
    "2.6.3": {2: (0, 5), 9: (0, 7), 44: (0, 1), 47: (0, 0), 48: (0, 0)},
    "2.7.2": {2: (0, 5), 9: (0, 7), 44: (0, 1), 47: (0, 0), 48: (0, 0), 50: (0, 0)},
    "2.8.2": {2: (0, 6), 9: (0, 7), 10: (0, 3), 16: (0, 4), 44: (0, 1), 47: (0, 0), 60: (0, 0)},
    "3.6.2": {
        2: (0, 8),
        9: (0, 8),
        10: (0, 4),
        16: (0, 4),
        44: (0, 1),
        47: (0, 0),
        60: (0, 0),
        66: (0, 0),
    },
    "3.7.2": {
        2: (0, 8),
        9: (0, 9),
        10: (0, 4),
        16: (0, 4),
        44: (0, 1),
        47: (0, 0),
        60: (0, 1),
        66: (0, 0),
    },
    "3.8.1": {
        2: (0, 8),
        9: (0, 9),
        10: (0, 5),
        16: (0, 5),
        44: (0, 1),
        47: (0, 0),
        60: (0, 1),
        66: (0, 1),
        69: (0, 0),
    },
    "4.0.0": {
        2: (1, 10),
        9: (1, 9),
        10: (0, 6),
        16: (0, 5),
        44: (0, 1),
        47: (0, 0),
        60: (0, 2),
        66: (0, 1),
        69: (0, 1),
    },
    "4.1.0": {
        2: (1, 10),
        9: (1, 9),
        10: (0, 6),
        16: (0, 5),
        44: (0, 1),
        47: (0, 0),
        60: (0, 2),
        66: (0, 2),
        69: (0, 1),
    },
}
EXPECTED = {
    "2.3.1": (2, 3),
    "2.4.1": (2, 4),
    "2.6.3": (2, 6),
    "2.7.2": (2, 7),
    "2.8.2": (2, 8),
    "3.6.2": (2, 8),
    "3.7.2": (3, 7),
    "3.8.1": (3, 8),
    "4.0.0": (4, 0),
    "4.1.0": (4, 1),
}


@pytest.mark.parametrize("version", OFFERED)
def test_a_release_is_told_by_its_stable_versions(version: str) -> None:
    assert broker_release(OFFERED[version]) == EXPECTED[version]


def test_what_is_older_than_anything_known() -> None:
    assert broker_release({9: (0, 4), 2: (0, 3)}) == (0, 0)
    assert broker_release({}) == (0, 0)


def test_a_missing_api_is_said_with_what_needs_it_and_the_kafka_that_brought_it() -> None:
    error = not_offered("b:9092", "OffsetDelete")
    assert str(error) == (
        "b:9092 doesn't offer OffsetDelete (Kafka does since 2.4), used for: "
        "delete-offsets, cleanup --unsubscribed."
    )
    assert str(not_offered("b:9092", "Produce")) == "b:9092 doesn't offer Produce."


def test_the_table_has_kafkas_names_and_keys() -> None:
    for each in CAPABILITIES:
        if each.key is not None:
            assert each.key == load(each.name).Request.KEY, each


def test_what_lacks_a_part_of_its_release_is_no_kafka() -> None:
    every = dict.fromkeys(range(93), (1, 20))
    assert is_kafka(every)
    assert not is_kafka({key: each for key, each in every.items() if key != 55})
    old = dict.fromkeys(range(43), (0, 5))
    assert is_kafka(old)
    assert not is_kafka({key: each for key, each in old.items() if key != 34})
