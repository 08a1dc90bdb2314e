"""Ask Spark several things at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Any


def together(tasks: Sequence[Callable[[], Any]], at_once: int) -> list[Any]:
    """What the tasks return, in their order; the first error of any of them is raised.

    Nobody waits for their threads who does not wait for this call: an interruption ends it.
    """
    results: list[Any] = [None] * len(tasks)
    errors: list[BaseException] = []
    left = iter(range(len(tasks)))

    def work() -> None:
        for number in left:
            try:
                results[number] = tasks[number]()
            except BaseException as error:  # noqa: BLE001 - raised where the results are wanted
                errors.append(error)
                return

    threads = [Thread(target=work, daemon=True) for _ in range(min(at_once, len(tasks)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
