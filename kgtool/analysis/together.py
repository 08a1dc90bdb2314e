"""Ask Spark several things at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - is used as cached_property is
    """A ``cached_property`` whose value threads wait for while another one computes it.

    That of Python 3.12 and later lets each of them compute it.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self._lock = RLock()
        self.__doc__ = compute.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        """Return the value; the second time it is the instance's own attribute."""
        with self._lock:
            known: dict[str, T] = vars(instance)
            if self._name not in known:
                known[self._name] = self._compute(instance)
            return known[self._name]


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
