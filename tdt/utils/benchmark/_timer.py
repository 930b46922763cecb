"""`Timer`: how long a snippet of code takes."""

from __future__ import annotations

import enum
import math
import statistics
import textwrap
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tdt
from tdt.utils.benchmark._measurement import Measurement, TaskSpec


def timer() -> float:
    """The clock, after the GPU, if there is one, has done what it was given."""
    if tdt.accelerator.is_available():
        tdt.accelerator.synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """What a snippet is written in; only Python can be timed here."""

    PYTHON = 0
    CPP = 1


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Run a block with `n` threads."""
    before = tdt.get_num_threads()
    tdt.set_num_threads(n)
    try:
        yield
    finally:
        tdt.set_num_threads(before)


class Timer:
    """Times a snippet of code as `timeit` does, on `num_threads` threads and after a warm-up.

    stmt: the code that is timed; it sees `globals`, and `tdt` and `torch` as this library. setup: code that runs before,
    once a measurement. label, sub_label, description, env: the table, row, column and kind of row of `Compare`.
    ValueError for code that is no text or not Python.

    >>> import tdt
    >>> timer = tdt.utils.benchmark.Timer("x.sum()", globals={"x": tdt.ones(8)}, label="sums", description="8 numbers")
    >>> timer.blocked_autorange(min_run_time=0.001).median < 1
    True
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None, label: str | None = None, sub_label: str | None = None,
        description: str | None = None, env: str | None = None, num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:  # fmt: skip
        if not isinstance(stmt, str):
            raise ValueError(f"Currently only a `str` stmt is supported, but got {type(stmt).__name__}.")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`: only Python can be timed.")
        if global_setup:
            raise ValueError(f"global_setup is C++ only, got `{global_setup}`. Put this code into `setup`.")
        stmt, setup = (textwrap.dedent(code).removeprefix("\n").rstrip() for code in (stmt, setup))
        names = {"tdt": tdt, "torch": tdt, **(globals or {})}
        self._timer = timeit.Timer(stmt, setup, timer, names)
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)  # never 0: it is divided by

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of `number` runs."""
        with set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(number // 100, 2))
            return self._measured(number, [self._timeit(number)])

    def blocked_autorange(
        self, callback: Callable[[int, float], None] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measurements of so many runs each that the clock does not weigh in, for at least `min_run_time` seconds.

        callback: is given the number of runs and the seconds of each measurement.
        """
        return self._repeat(self._block_size(min_run_time), lambda m: True, min_run_time, math.inf, callback)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Callable[[int, float], None] | None = None,
    ) -> Measurement:  # fmt: skip
        """As `blocked_autorange`, until iqr / median is less than `threshold`, or `max_run_time` has passed."""
        steady = lambda m: len(m.raw_times) > 3 and m.meets_confidence(threshold)  # noqa: E731
        return self._repeat(self._block_size(0.05), steady, min_run_time, max_run_time, callback)

    def _repeat(
        self, number: int, enough: Callable[[Measurement], bool], least: float, most: float,
        callback: Callable[[int, float], None] | None,
    ) -> Measurement:  # fmt: skip
        measurement = self._measured(number, [])
        total = 0.0
        with set_torch_threads(self._task_spec.num_threads):
            while total <= most and (total < least or not measurement.raw_times or not enough(measurement)):
                measurement.raw_times.append(self._timeit(number))
                total += measurement.raw_times[-1]
                if callback is not None:
                    callback(number, measurement.raw_times[-1])
        return measurement

    def _block_size(self, min_run_time: float) -> int:
        """A number of runs that takes 10,000 times as long as the clock, and a thousandth of `min_run_time`."""
        with set_torch_threads(self._task_spec.num_threads):
            overhead = statistics.median(self._timeit(0) for _ in range(5))
            number = 1
            while True:
                elapsed = self._timeit(number)
                steady = overhead / elapsed <= 1e-4 and elapsed >= min_run_time / 1000
                if steady or elapsed > min_run_time or number * 10 > 2**31:
                    return number
                number *= 10

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)
