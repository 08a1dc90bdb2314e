"""Times, durations and numbers: what Kafka's tool takes, what it gets wrong, and what we add."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgtool import timespec
from kgtool.errors import UsageError
from kgtool.text import moment as shown

T = 1_700_000_300_000  # 2023-11-14T22:18:20Z
DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Kafka's own grammar: milliseconds, and a zone or none, which is UTC.
        ("2023-11-14T22:18:20.000", T),
        ("2023-11-14T22:18:20.000Z", T),
        ("2023-11-14T23:18:20.000+01", T),
        ("2023-11-14T23:18:20.000+0100", T),
        ("2023-11-14T23:18:20.000+01:00", T),
        ("2023-11-14T16:48:20.000-05:30", T),
        ("1999-11-14T22:18:20.000", T - 24 * 365 * DAY - 6 * DAY),
        ("2023-11-14T22:18:20.000000Z", T),
        # What Kafka's tool refuses.
        ("2023-11-14T22:18:20", T),
        ("2023-11-14T22:18:20Z", T),
        ("2023-11-14T22:18:20,000", T),
        ("2023-11-14t22:18:20z", T),
        ("2023-11-14 22:18:20", T),
        ("2023-11-14T22:18", T - 20_000),
        ("2023-11-14", T - T % DAY),
        (str(T), T),
        ("0", 0),
        # What Kafka's tool misreads: there, .1 is 1 ms.
        ("2023-11-14T22:18:20.1", T + 100),
        ("2023-11-14T22:18:20.25Z", T + 250),
        # The first record from then on is one of the next millisecond.
        ("2023-11-14T22:18:20.000001", T + 1),
        ("2023-11-14T22:18:20.999000001", T + 1000),
        ("1969-12-31T23:59:59.999", -1),
        ("  2023-11-14T22:18:20Z ", T),
    ],
)
def test_absolute_times(text: str, expected: int) -> None:
    assert timespec.time_ms(text, now_ms=5) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", T),
        ("NOW", T),
        ("now-2h", T - 7_200_000),
        ("now-1d12h30m", T - 131_400_000),
        ("now-1w", T - 7 * DAY),
        ("now-500ms", T - 500),
        ("now-90s", T - 90_000),
        ("now+5m", T + 300_000),
        ("now-PT2H", T - 7_200_000),
        ("now-P1DT1S", T - DAY - 1000),
    ],
)
def test_relative_times(text: str, expected: int) -> None:
    assert timespec.time_ms(text, T) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "2023-13-14T22:18:20.000",
        "2023-02-29",
        "2023-11-14T24:00:00",
        "2023-11-14T22:60:00",
        "2023-11-14T22:18:20.000Zjunk",
        "2023-11-14T22:18:20.000+25:00",
        "2023-11-14T22:18:20.000+01:75",
        "2023-11-14T22:18:20.",
        "2023-11-14T",
        "2023-11-14Z",
        "23-11-14",
        "2023-11-14T22",
        "now-",
        "now-2",
        "now-2y",
        "now-2h x",
        "now2h",
        "yesterday",
        "2023-11-14T22:18:20.0000000001",
        "1e12",
        "0x10",
        "\u0662\u0660\u0662\u0663-11-14",
        "now-99999999999999999w",
        "99999999999999999999",
    ],
)
def test_refused_times(text: str) -> None:
    with pytest.raises(UsageError) as failure:
        timespec.time_ms(text, T)
    assert text in failure.value.message


@given(
    st.datetimes(datetime(1970, 1, 2), datetime(9998, 1, 1)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
    st.sampled_from(["seconds", "milliseconds", "microseconds"]),
)
def test_agrees_with_pythons_own_reader(moment: datetime, shift: int, precision: str) -> None:
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=shift)))
    text = zoned.isoformat(timespec=precision)
    exact = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    milliseconds = -(-exact // timedelta(milliseconds=1))
    assert timespec.time_ms(text, 0) == milliseconds
    assert timespec.time_ms(shown(milliseconds, "milliseconds"), 0) == milliseconds


@pytest.mark.parametrize(
    ("text", "expected_ns"),
    [
        # From the documentation and tests of java.time.Duration.
        ("PT20.345S", 20_345_000_000),
        ("PT15M", 900_000_000_000),
        ("PT10H", 36_000_000_000_000),
        ("P2D", 172_800_000_000_000),
        ("P2DT3H4M", 183_840_000_000_000),
        ("PT-6H3M", -21_420_000_000_000),
        ("-PT6H3M", -21_780_000_000_000),
        ("-PT-6H+3M", 21_420_000_000_000),
        ("PT0S", 0),
        ("pt1.5s", 1_500_000_000),
        ("PT-0.5S", -500_000_000),
        ("PT1,5S", 1_500_000_000),
        ("PT1.S", 1_000_000_000),
        ("P-1D", -86_400_000_000_000),
        ("-P1D", -86_400_000_000_000),
        ("PT0.000000001S", 1),
    ],
)
def test_durations(text: str, expected_ns: int) -> None:
    assert timespec.duration_ns(text) == expected_ns


@pytest.mark.parametrize(
    "text",
    ["", "1D", "P", "PT", "P1M", "P1Y", "P1DT", "PT1H1D", "P1.5D", "PT.5S", "P1D ", "-2h", "3600"],
)
def test_refused_durations(text: str) -> None:
    with pytest.raises(UsageError) as failure:
        timespec.before_ms(text, T)
    # Kafka's sentence, and then what it was about.
    assert failure.value.message == f"Text cannot be parsed to a Duration: '{text}'"
    assert "PT2H30M" in (failure.value.hint or "")


def test_a_duration_counts_back_from_now() -> None:
    assert timespec.before_ms("P1D", T) == T - DAY
    assert timespec.before_ms("-P1D", T) == T + DAY
    assert timespec.before_ms("PT0.1S", T) == T - 100
    assert timespec.before_ms("1d12h", T) == T - DAY * 3 // 2
    assert timespec.before_ms("90m", T) == T - 5_400_000
    assert timespec.before_ms("P30000D", T) < 0
    with pytest.raises(UsageError):
        timespec.before_ms("P999999999999999999D", T)


SPANS = [
    ("60s", 60_000),
    ("2m30s", 150_000),
    ("500ms", 500),
    ("1d12h", 129_600_000),
    ("2w", 14 * DAY),
    ("PT1M", 60_000),
    ("PT0.5S", 500),
]


@pytest.mark.parametrize(("text", "expected"), SPANS)
def test_durations_have_one_grammar(text: str, expected: int) -> None:
    assert timespec.span_ms(text, "idle") == expected
    assert timespec.span_ms(text, "watch", bare_ms=1000) == expected
    assert timespec.waiting_seconds(text) == expected / 1000


def test_a_bare_number_counts_only_where_its_unit_is_known() -> None:
    assert timespec.span_ms("60", "wait-empty", bare_ms=1000) == 60_000
    assert timespec.span_ms("1.5", "watch", bare_ms=1000) == 1_500
    assert timespec.waiting_seconds("0") == 0.0
    assert timespec.waiting_seconds(None) == 0.0
    with pytest.raises(UsageError, match="--idle takes a duration such as 30s"):
        timespec.span_ms("60", "idle")


@pytest.mark.parametrize("text", ["", "-5s", "1y", "soon", "s", "1.5h", "nan", "\u0661s"])
def test_refused_durations_of_options(text: str) -> None:
    with pytest.raises(UsageError, match="--wait-empty takes a duration such as 30s"):
        timespec.span_ms(text, "wait-empty", bare_ms=1000)


@pytest.mark.parametrize("text", ["0s", "PT-1S", "PT0S"])
def test_durations_are_longer_than_nothing(text: str) -> None:
    with pytest.raises(UsageError, match="must be longer than 0"):
        timespec.span_ms(text, "idle")


def test_numbers_are_javas_long() -> None:
    assert timespec.parse_long("-100", "shift-by") == -100
    assert timespec.parse_long("9223372036854775807", "to-offset") == 2**63 - 1
    for text in ("abc", "", "1.5", "9223372036854775808", "1_000", "\u0661"):
        with pytest.raises(UsageError) as failure:
            timespec.parse_long(text, "shift-by")
        assert failure.value.message == f"Cannot parse argument '{text}' of option shift-by"


def test_seconds_in_the_place_of_milliseconds_are_noticed() -> None:
    assert timespec.may_be_seconds("1700000300")
    assert not timespec.may_be_seconds("1700000300000")
    assert not timespec.may_be_seconds("2023-11-14")


@pytest.mark.parametrize(
    ("moment_ms", "text"),
    [
        (T, "2023-11-14T22:18:20.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),  # was a year 1 of one digit
        (2**62, str(2**62)),
    ],
)
def test_times_are_shown_in_utc(moment_ms: int, text: str) -> None:
    assert shown(moment_ms, "milliseconds") == text
