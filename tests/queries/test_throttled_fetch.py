"""A Fetch that a quota delays is answered without a topic; what is left out otherwise is an error.

Stands for: an empty answer is not taken for "nothing there". Siblings: the first or any call of
several, twice in a row, an answer that departs from the protocol.
"""

from __future__ import annotations

from typing import Any

from kgtool.client.ops import Call
from kgtool.protocol.api import fetch
from kgtool.queries.log.fetch import fetch_calls
from tests.support.script import Script


def test_only_the_throttled_calls_are_repeated() -> None:
    whole = fetch.Response(topics=[fetch.Topic(topic="t", partitions=[])])
    throttled = fetch.Response(throttle_time_ms=700)
    empty = fetch.Response()  # no quota: for the caller to judge
    left: dict[int, list[Any]] = {1: [throttled, throttled, whole], 2: [whole], 3: [empty]}
    script = Script(lambda broker, _request: left[broker].pop(0))
    calls = [Call(broker, fetch.Request()) for broker in left]
    assert script.run(fetch_calls(calls)) == [whole, whole, empty]
    assert [broker for broker, _ in script.calls] == [1, 2, 3, 1, 1]
