"""Damage to inputs, drawn by Hypothesis, and what all fuzzing has in common."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

HUGE = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x80" * 6, b"\x7f\xff", b"\xff" * 8)
TOKENS = (
    b"",
    b"\0",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"\n",
    b"${",
    b",",
    b"=",
    b"\xff\xfe",
    b"9" * 30,
    b"-1",
    b"null",
    b"1e400",
    b"NaN",
    b"\xed\xa0\x80",
    b"/*",
)
"""What means something to some text format or other."""

EDITS = st.lists(
    st.tuples(
        st.integers(0, 1 << 20),
        st.one_of(
            st.tuples(st.just("flip"), st.integers(0, 7)),
            st.tuples(st.just("put"), st.sampled_from(HUGE + TOKENS)),
            st.tuples(st.just("insert"), st.one_of(st.sampled_from(HUGE + TOKENS), st.binary())),
            st.tuples(st.just("cut"), st.integers(1, 40)),
            st.tuples(st.just("end"), st.just(0)),
            st.tuples(st.just("twice"), st.integers(1, 40)),
        ),
    ),
    min_size=1,
    max_size=5,
)
MORE = int(os.environ.get("KGTOOL_FUZZ", "1"))
"""Times as many examples, for whoever looks for more: KGTOOL_FUZZ=20."""
COMMON = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def fuzz(examples: int) -> settings:
    """Return the settings of a test that tries so many inputs."""
    return settings(COMMON, max_examples=examples * MORE)


def damaged(raw: bytes, edits: list[tuple[int, tuple[str, Any]]]) -> bytes:
    out = bytearray(raw)
    for place, (kind, detail) in edits:
        at = place % (len(out) + 1)
        if kind == "flip" and at < len(out):
            out[at] ^= 1 << detail
        elif kind == "put":
            out[at : at + len(detail)] = detail
        elif kind == "insert":
            out[at:at] = detail
        elif kind == "cut":
            del out[at : at + detail]
        elif kind == "end":
            del out[at:]
        elif kind == "twice":
            out[at:at] = out[at : at + detail]
    return bytes(out)


@contextmanager
def alarm(seconds: int = 120 * MORE) -> Iterator[None]:
    """Turn a hang into a failure."""

    def ring(*_: object) -> None:
        raise AssertionError(f"decoding takes longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
