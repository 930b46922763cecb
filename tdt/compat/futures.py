"""`torch.futures`: results of asynchronous work.

>>> from tdt.compat.futures import Future
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
    """The result of asynchronous work.

    Args:
        devices: the devices of tensors in the result; the CPU needs none.
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self._result: futures.Future[Any] = futures.Future()

    def done(self) -> bool:
        """Whether a result or an exception was set."""
        return self._result.done()

    def wait(self) -> Any:
        """Block until the result is set and return it; raises the exception that was set instead."""
        return self._result.result()

    def value(self) -> Any:
        """The result; raises the exception that was set instead, and RuntimeError if neither was set."""
        if not self.done():
            raise RuntimeError("Future.value: there is no result yet; wait() for it")
        return self.wait()

    def set_result(self, result: Any) -> None:
        """Set the result. RuntimeError if the future is completed already."""
        self._check_open()
        self._result.set_result(result)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception instead of a result. AssertionError if `result` is not an exception."""
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._check_open()
        self._result.set_exception(result)

    def _check_open(self) -> None:
        if self.done():
            raise RuntimeError("Future can only be marked completed once")

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call `callback` with this future when it completes; immediately if it is completed."""
        self._result.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of the value that `callback` returns when it is called with this completed future."""
        after: Future[Any] = Future()

        def run(done: Future) -> None:
            try:
                after.set_result(callback(done))
            except Exception as error:  # noqa: BLE001  (it is the result: `after.wait()` raises it)
                after.set_exception(error)

        self.add_done_callback(run)
        return after


def collect_all(futures: list[Future]) -> Future:
    """A future of the list of futures that completes when all of them have."""
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
    """Wait for all futures and return their results; raises the exception of one that failed."""
    return [future.wait() for future in futures]
