"""Timing snippets of code, under PyTorch's names: `Timer`, `Measurement`, and `Compare` for tables of them.

>>> from tdt.utils.benchmark import Compare, Timer
>>> m = Timer("x + 1", "x = tdt.ones(8)", label="adding", description="8 numbers").timeit(100)
>>> m.number_per_run, m.median > 0
(100, True)
>>> str(Compare([m])).splitlines()[-1][:13]
'Times are in '
"""

from tdt.utils.benchmark._compare import Colorize, Compare
from tdt.utils.benchmark._measurement import (
    Measurement,
    TaskSpec,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)
from tdt.utils.benchmark._timer import Language, Timer, set_torch_threads, timer

__all__ = [
    "Colorize", "Compare", "Language", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit",
    "set_torch_threads", "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip
