"""Comparisons on a noisy machine: alternates both sides, and reports the median ratio with its 95 % confidence interval."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any


def ratios(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> list[float]:
    """ours()/theirs() for `pairs` alternating measurements; each call returns what it measured."""
    found = []
    for i in range(pairs):
        first, second = (ours, theirs) if i % 2 == 0 else (theirs, ours)
        a, b = first(), second()
        found.append(a / b if i % 2 == 0 else b / a)
    return found


def interval(values: list[float]) -> tuple[float, float, float]:
    """The median and the bounds of its 95 % interval from order statistics."""
    ordered, n = sorted(values), len(values)
    reach = 0.98 * n**0.5
    low, high = max(0, round(n / 2 - reach) - 1), min(n - 1, round(n / 2 + reach))
    return statistics.median(values), ordered[low], ordered[high]


def report(name: str, values: list[float]) -> None:
    """One line: the name, the median ratio and its interval."""
    median, low, high = interval(values)
    print(f"{name:<44} {median:6.2f}   [{low:.2f}, {high:.2f}]   {len(values)} pairs", flush=True)


def timed(run: Callable[[], object], repeat: int) -> Callable[[], float]:
    """A measurement: seconds per call of `run` over `repeat` calls."""

    def measure() -> float:
        start = time.perf_counter()
        for _ in range(repeat):
            run()
        return (time.perf_counter() - start) / repeat

    return measure


def settings() -> str:
    """What the figures depend on: cores, load, threads."""
    threads = {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS") or k.startswith("TDT_")}
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {threads or 'default threads'}"


def arguments(doc: str | None, **defaults: Any) -> list[Any]:
    """The command line's values for these names, in order and all optional; `--help` shows `doc`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(name, nargs="?", type=type(default), default=default, help=f"default {default}")
    return list(vars(parser.parse_args()).values())
