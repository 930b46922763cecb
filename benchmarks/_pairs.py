"""Comparisons on a noisy machine: alternates both sides, and reports the median ratio with its 95 % confidence interval."""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

SHORTEST = 2e-3  # seconds that a measurement of `compared` takes, about
# Idle threads of PyTorch's look for work for milliseconds, on cores that tdt's need. So measurements by the wall clock begin
# after a rest in which they fall asleep, and are so long that waking them counts little.
REST, LONG = 0.02, 0.04
WARM_UP = 5  # calls before it: the first ones may each compile a part, the fourth prepares further ones
_measured = itertools.count(1)


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


def compared(clock: Callable[[], float], ours: Callable, theirs: Callable, pairs: int) -> tuple[float, float, float]:
    """The median of theirs / ours, and both times in seconds."""
    rest, shortest = (REST, LONG) if clock is time.perf_counter else (0.0, SHORTEST)
    times: tuple[list[float], list[float]] = ([], [])
    repeat = []
    for run in (ours, theirs):
        took = []
        for _ in range(WARM_UP):
            start = clock()
            run()
            took.append(clock() - start)
        repeat.append(max(1, round(shortest / max(min(took), 1e-6))))
    for i in range(pairs):
        for which in (0, 1) if i % 2 else (1, 0):
            run = (ours, theirs)[which]
            time.sleep(rest)
            start = clock()
            for _ in range(repeat[which]):
                run()
            times[which].append((clock() - start) / repeat[which])
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    if sys.stderr.isatty():
        print(f"\r{next(_measured)} measured ", end="", file=sys.stderr, flush=True)
    return ratio, statistics.median(times[0]), statistics.median(times[1])


def geomean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def sweep_parser(doc: str | None, count: int, worst: int) -> argparse.ArgumentParser:
    """The command line of a benchmark that draws shapes at random, with these defaults."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=count, help=f"number of shapes ({count})")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10_000)
    parser.add_argument("--threads", type=int, default=0, help="number of threads; 0: all cores")
    parser.add_argument("--family", default="", help="families whose name contains this text")
    parser.add_argument("--pairs", type=int, default=9, help="alternating measurements of each (9)")
    parser.add_argument("--worst", type=int, default=worst, help=f"how many of the slowest to print ({worst})")
    parser.add_argument("--all", action="store_true", help="print a line for every measurement")
    return parser


def begin_sweep(args: argparse.Namespace) -> tuple[Callable[[], float], Any, Any, np.random.Generator]:
    """Print what the figures depend on. The clock, tdt, PyTorch, both on as many threads, and the generator of shapes."""
    threads = args.threads or os.cpu_count() or 1
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    import tdt

    torch.set_num_threads(threads)
    tdt.set_num_threads(threads)
    print(f"seed {args.seed}, {threads} threads, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"PyTorch {torch.__version__} | PyTorch's time / tdt's: above 1 is faster")  # fmt: skip
    clock = time.process_time if threads == 1 else time.perf_counter  # the first is little disturbed by a busy machine
    return clock, tdt, torch, np.random.default_rng(args.seed)


def summary(found: Sequence[tuple[float, Sequence[str], object]], bounds: Sequence[float], worst: int) -> None:
    """Print geometric means and shares of slow ratios, of all and by group, and the slowest.

    Args:
        found: of each measurement, the ratio, the names of its groups, and what to print of it.
        bounds: the ratios below which shares are printed.
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for ratio, names, _ in found:
        for key in ("all", *names):
            groups[key].append(ratio)
    print(f"\n{'':<14} shapes  geomean" + "".join(f"  {f'below {bound}':>10}" for bound in bounds) + "   least")
    for key, ratios in groups.items():
        shares = "".join(f"  {100 * sum(r < bound for r in ratios) / len(ratios):8.1f} %" for bound in bounds)
        print(f"{key:<14} {len(ratios):6}  {geomean(ratios):7.2f}{shares}  {min(ratios):6.2f}")
    print("\nthe slowest")
    for ratio, names, text in sorted(found, key=lambda f: f[0])[:worst]:
        print(f"{ratio:6.2f}  {names[0]:<8} {text}")
