"""`torch.futures`: results that come later.

>>> future = Future()
>>> doubled = future.then(lambda done: done.value() * 2)
>>> future.set_result(3)
>>> doubled.wait()
6
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A result that comes later.

    Args:
        devices: the devices of tensors in the result; the CPU needs none.
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self._result: futures.Future[Any] = futures.Future()

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        return self._result.done()

    def wait(self) -> Any:
        """The result, as soon as there is one; an exception is raised."""
        return self._result.result()

    def value(self) -> Any:
        """The result. RuntimeError before there is one; an exception is raised."""
        if not self.done():
            raise RuntimeError("Future.value: there is no result yet; wait() for it")
        return self.wait()

    def set_result(self, result: Any) -> None:
        """Give the result. RuntimeError if there is one already."""
        self._check_open()
        self._result.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Give an exception in the place of a result. AssertionError if it is none."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._check_open()
        self._result.set_exception(result)

    def _check_open(self) -> None:
        if self.done():
            raise RuntimeError("Future can only be marked completed once")

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback` with this future as soon as it is done, at once if it is."""
        self._result.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The future of what `callback` returns for this future, once it is done."""
        after: Future[Any] = Future()

        def run(done: Future) -> None:
            try:
                after.set_result(callback(done))
            except Exception as error:  # noqa: BLE001  (it is the result: `after.wait()` raises it)
                after.set_exception(error)

        self.add_done_callback(run)
        return after


def collect_all(futures: list[Future]) -> Future:
    """The future of the list of futures, done when all are."""
    together: Future[list[Future]] = Future()
    left = [len(futures)]
    if not futures:
        together.set_result([])

    def count(_: Future) -> None:
        left[0] -= 1
        if not left[0]:
            together.set_result(futures)

    for future in futures:
        future.add_done_callback(count)
    return together


def wait_all(futures: list[Future]) -> list[Any]:
    """The results of all; an exception of one is raised."""
    return [future.wait() for future in futures]
