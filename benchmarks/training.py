"""Training steps, inference and optimizer steps: ratio of PyTorch's time to tdt's; above 1 tdt is faster.

    python -m benchmarks.training                          # every workload, default threads and one
    python -m benchmarks.training --only ResNet --pairs 30 # those whose name holds a word

Each library runs in a process of its own and does a block of steps by turns; a line is the median of the ratios with its
95 % interval. Both must compute the same losses from the same weights, and the machine must be idle.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks._pairs import interval, ratios, settings
from benchmarks.workloads import IMAGES, WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
BLOCK = 0.15  # seconds of a block of steps, about


class Side:
    """A process of `benchmarks._side`."""

    def __init__(self, library: str, workload: str, layout: str, threads: int | None):
        env = os.environ | {"PYTHONPATH": str(ROOT)} | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
        command = [sys.executable, "-m", "benchmarks._side", library, workload, layout]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts: dict[str, Any] = json.loads(self._line())
        self.steps = 1

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.stdin.close()  # type: ignore[union-attr]
        self.process.wait()

    def _line(self) -> str:
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if not line:
            raise SystemExit(f"{' '.join(self.process.args)} ended with status {self.process.wait()}")  # type: ignore[arg-type]
        return line

    def seconds(self) -> float:
        """A step's time over one block of steps."""
        print(self.steps, file=self.process.stdin, flush=True)
        return float(self._line())

    def find_block_size(self) -> None:
        """Find how many steps make a block."""
        for _ in range(2):
            self.steps = max(1, round(BLOCK / self.seconds()))


def compare(workload: str, layout: str, threads: int | None, pairs: int) -> float:
    """Print a line for a workload; its ratio."""
    with Side("tdt", workload, layout, threads) as ours, Side("torch", workload, layout, threads) as theirs:
        same = [
            math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-5)
            for a, b in zip(ours.facts["losses"], theirs.facts["losses"], strict=True)
        ]
        if not all(same):
            raise SystemExit(f"{workload}: the losses differ: {ours.facts['losses']}, PyTorch {theirs.facts['losses']}")
        ours.find_block_size()
        theirs.find_block_size()
        median, low, high = interval(ratios(theirs.seconds, ours.seconds, pairs))
        our_ms, their_ms = ours.seconds() * 1e3, theirs.seconds() * 1e3
        a, b = ours.facts, theirs.facts
    print(
        f"{workload:<42} {layout:<14} {threads or 'all':>3} {median:6.2f} [{low:5.2f}, {high:5.2f}] "
        f"{our_ms:9.3f} {their_ms:9.3f} {a['peak']:6.0f} {b['peak']:6.0f} "
        f"{a['peak'] - a['before']:6.0f} {b['peak'] - b['before']:6.0f}",
        flush=True,
    )
    return median


def busy(seconds: float = 1.0) -> float:
    """How much of the machine's time other processes take, from 0 to 1."""

    def read() -> tuple[int, int]:
        numbers = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(numbers), numbers[3] + numbers[4]

    total, idle = read()
    time.sleep(seconds)
    total_now, idle_now = read()
    return 1 - (idle_now - idle) / max(1, total_now - total)


def main() -> None:
    """Print the table and its geometric mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only workloads whose name contains this text")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, nargs="*", default=[0, 1], help="numbers of threads; 0: all cores")
    parser.add_argument("--busy", action="store_true", help="measure even if the machine is busy")
    args = parser.parse_args()
    load = busy()
    if load > 0.1 and not args.busy:
        raise SystemExit(
            f"other processes take {load:.0%} of this machine: nothing measured now would hold (--busy measures all the same)"
        )
    print(settings())
    print(f"{'':<42} {'layout':<14} thr  ratio 95 % interval      tdt ms  torch ms  peak MiB      over start")
    found = []
    for workload in WORKLOADS:
        if args.only in workload:
            for layout in ("contiguous", "channels-last") if workload in IMAGES else ("contiguous",):
                found += [compare(workload, layout, threads or None, args.pairs) for threads in args.threads]
    print(
        f"geometric mean {math.exp(sum(map(math.log, found)) / len(found)):.2f}"
        if found
        else f"no workload holds {args.only!r}"
    )


if __name__ == "__main__":
    main()
