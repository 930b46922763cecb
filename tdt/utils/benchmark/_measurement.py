"""What a `Timer` finds: times of a snippet, what they say, and units to say it in."""

from __future__ import annotations

import math
import statistics
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

UNITS = {"ns": (1e-9, "nanosecond"), "us": (1e-6, "microsecond"), "ms": (1e-3, "millisecond"), "s": (1.0, "second")}
UNSTEADY, VERY_UNSTEADY = 0.1, 0.25  # interquartile range by median
SHORTEST = 25e-9  # no time is known more exactly than that


@dataclass(frozen=True, repr=False)
class TaskSpec:
    """What a `Timer` times, and what it is called in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or else the code."""
        more = f": {self.sub_label}" if self.sub_label else ""
        if self.label is not None:
            return self.label + more
        if "\n" not in self.stmt:
            return self.stmt + more
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self) -> str:
        """The setup for people to read; nothing where there is none."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup."""
        parts = [part for part in (self.title, self.description, self.setup_str()) if part]
        return "\n".join(f"{part}\n" if "\n" in part else part for part in parts)


@dataclass(repr=False)
class Measurement:
    """Times of one snippet: `times` in seconds for one run, their `median`, `mean` and `iqr`; printed, a summary.

    raw_times: the seconds that `number_per_run` runs took, once for each measurement. What `task_spec` has can be asked of
    the measurement itself.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @property
    def times(self) -> list[float]:
        """Seconds of one run, for each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """Half of the measurements took less."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """The average of the measurements."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """How far apart the quarter points are, between which half of the measurements lie."""
        return self._quantile(0.75) - self._quantile(0.25)

    def _quantile(self, q: float) -> float:
        return float(np.quantile(self.times, q))

    @property
    def significant_figures(self) -> int:
        """About how many digits of the median are known, 1 to 4: its interval of confidence (90 %) within the quarters."""
        n = len(self.times)
        inner = sorted(self.times)[n // 4 : math.ceil(3 * n / 4)]
        spread = max(1.645 * statistics.pstdev(inner) / math.sqrt(len(inner)), SHORTEST)
        return min(max(math.floor(math.log10(self.median / spread)), 1), 4)

    def meets_confidence(self, threshold: float = UNSTEADY) -> bool:
        """Whether the interquartile range is less than this part of the median."""
        return self.iqr / self.median < threshold

    @property
    def has_warnings(self) -> bool:
        """Whether the measurements differ much."""
        return not self.meets_confidence()

    @property
    def title(self) -> str:
        """The label, or else the code."""
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What a row of `Compare` is called."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __repr__(self) -> str:
        n, (unit, scale) = len(self.raw_times), select_unit(self.median)
        low, high = (self._quantile(q) / scale for q in (0.25, 0.75))
        lines = [object.__repr__(self), self.task_spec.summarize()]
        lines.append(f"  {'Median: ' if n > 1 else ''}{self.median / scale:.2f} {unit}")
        if n >= 4:
            lines.append(f"  IQR:    {high - low:.2f} {unit} ({low:.2f} to {high:.2f})")
        threads = self.task_spec.num_threads
        lines.append(
            f"  {n} measurement{'s' * (n > 1)}, {self.number_per_run} runs {'per measurement,' if n > 1 else ','} "
            f"{threads} thread{'s' * (threads > 1)}"
        )
        if self.has_warnings:
            gross = not self.meets_confidence(VERY_UNSTEADY)
            why = (
                "This suggests significant environmental influence."
                if gross
                else "This could indicate system fluctuation."
            )
            lines.append(f"  WARNING: Interquartile range is {self.iqr / self.median:.1%} of the median measurement.")
            lines.append(f"           {why}")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, which merges all measurements of it as single runs."""
        groups: dict[TaskSpec, list[float]] = defaultdict(list)
        for m in measurements:
            groups[m.task_spec].extend(m.times)
        return [Measurement(1, times, task) for task, times in groups.items()]


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which `t` seconds are a number from 1 to 1000, and its seconds.

    >>> import tdt
    >>> tdt.utils.benchmark.select_unit(0.002)
    ('ms', 0.001)
    """
    unit = {-3: "ns", -2: "us", -1: "ms"}.get(int(math.log10(t) // 3), "s")
    return unit, UNITS[unit][0]


def unit_to_english(u: str) -> str:
    """The unit in a word.

    >>> import tdt
    >>> tdt.utils.benchmark.unit_to_english("us")
    'microsecond'
    """
    return UNITS[u][1]


def trim_sigfig(x: float, n: int) -> float:
    """`x` rounded to `n` digits.

    >>> import tdt
    >>> tdt.utils.benchmark.trim_sigfig(314.159, 2)
    310.0
    """
    return float(f"{x:.{n - 1}e}")


def ordered_unique(elements: Iterable[T]) -> list[T]:
    """Each element once, in the order of the first ones.

    >>> import tdt
    >>> tdt.utils.benchmark.ordered_unique("banana")
    ['b', 'a', 'n']
    """
    return list(dict.fromkeys(elements))
