"""Whole networks beside PyTorch: training steps, inference and memory; above 1 tdt is faster, or holds less.

    python -m benchmarks.training                          # every family at two sizes, one thread and all
    python -m benchmarks.training --only ViT --pairs 30    # families whose name holds a text
    python -m benchmarks.training --mode memory            # training, inference, memory: one or several
    python -m benchmarks.training --compile both           # tdt's whole steps, and PyTorch's loss, compiled
    python -m benchmarks.training --bfloat16               # under autocast, beside PyTorch's and beside tdt's float32
    python -m benchmarks.training --workloads              # the fixed list of `benchmarks.workloads`, and optimizer steps

Each library runs in a process of its own and does a block of steps by turns; a line is the median of the ratios of PyTorch's
time to tdt's, with its 95 % interval. Both must compute the same losses and outputs from the same weights. One thread is
measured in processor time, which other processes disturb little; several by the wall clock, so the machine must be idle.
Memory is the peak of three training steps, or of all compiled ones before the first block, less what the import of the library
holds. Of compiled training the seconds that the first step took are shown: they hold PyTorch's compile time, and tdt's recording.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from benchmarks._pairs import interval, ratios, settings
from benchmarks._side import INFERENCE, LOSSES, TRAINING
from benchmarks.families import FAMILIES, SIZES
from benchmarks.workloads import IMAGES, WORKLOADS

ROOT = Path(__file__).resolve().parents[1]
BLOCK = 0.1  # seconds of a block of steps, about
ROUNDED = 0.02  # how far two losses may be apart under autocast to bfloat16, whose numbers have 8 bits
NUDGED = 6  # trainings of PyTorch's with other rounding errors, where the losses differ
COMPILED = {"": ("", ""), "tdt": ("step", ""), "both": ("step", "loss")}  # what of training, by tdt and by PyTorch
MODES: dict[str, tuple[str, ...]] = {"training": (TRAINING,), "inference": tuple(INFERENCE), "memory": ()}


class Side:
    """A process of `benchmarks._side`. compiled: what of training is compiled: nothing, the "loss" or the "step"."""

    def __init__(
        self, library: str, name: str, layout: str = "contiguous", threads: int | None = None, compiled: str = "",
        dtype: str = "float32",
    ):  # fmt: skip
        env = os.environ | {"PYTHONPATH": str(ROOT)} | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
        clock = "process_time" if threads == 1 else "perf_counter"
        side = [library, name, layout, clock, compiled, dtype]
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks._side", *side]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts: dict[str, Any] = {}
        self.mode, self.steps = TRAINING, 1

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

    def wait(self) -> None:
        """Read the losses, outputs and memory of the first steps."""
        self.facts = json.loads(self._line())

    def seconds(self) -> float:
        """A step's time over one block of steps."""
        print(self.mode, self.steps, file=self.process.stdin, flush=True)
        return float(self._line())

    def losses(self, seed: int) -> list[float] | None:
        """Those of the first steps in float64 (seed 0), or in float32 with weights that differ by rounding errors."""
        print(LOSSES, seed, file=self.process.stdin, flush=True)
        found: list[float] | None = json.loads(self._line())
        return found

    def select(self, mode: str) -> None:
        """Go over to a mode, and find how many steps make a block."""
        self.mode, self.steps = mode, 1
        for _ in range(2):
            self.steps = max(1, round(BLOCK / self.seconds()))

    @property
    def memory(self) -> float:
        """MiB that training needs over what the import holds."""
        return self.facts["peak"] - self.facts["imported"]


class Results:
    """The ratios of each mode, and which lie below 1 with their whole interval."""

    def __init__(self) -> None:
        self.found: dict[str, list[float]] = {}
        self.below: list[str] = []

    def add(
        self, name: str, mode: str, threads: int | None, median: float, low: float, high: float, figures: str
    ) -> None:
        """Print a line and keep its ratio."""
        kind = f"{mode}, {threads or 'all'} thread{'' if threads == 1 else 's'}"
        self.found.setdefault(kind, []).append(median)
        if high < 1:
            self.below.append(f"{name}, {kind}: {median:.2f} [{low:.2f}, {high:.2f}]")
        print(f"{name:<40} {kind:<30} {median:6.2f} [{low:5.2f}, {high:5.2f}] {figures}", flush=True)

    def print_summary(self) -> None:
        """Print the geometric mean of each mode, and the lines below 1."""
        for kind, ratios_found in self.found.items():
            mean = math.exp(sum(map(math.log, ratios_found)) / len(ratios_found))
            print(f"geometric mean of {len(ratios_found)}, {kind}: {mean:.2f}, least {min(ratios_found):.2f}")
        print(f"{len(self.below)} lines lie below 1 with their whole interval{':' if self.below else ''}")
        for line in self.below:
            print(" ", line)


def compile_kernels(name: str, layout: str, threads: int | None, compiled: str, dtype: str) -> None:
    """Fill the cache of compiled kernels, by a process that is not measured: compiling takes 150 MiB."""
    for _ in range(3):
        with Side("tdt", name, layout, threads, compiled, dtype) as side:
            side.wait()
        if not side.facts["compiled"]:
            return


def same_training(ours: Side, theirs: Side) -> bool:
    """Whether two losses differ only because rounding errors grow: where one of them changes the sign of a ReLU's input, say.

    Then both libraries compute the same losses in float64, from which float32's of PyTorch, with weights that are off by a
    rounding error, are about as far away as those of tdt.
    """
    exact = theirs.losses(0)
    if exact is None or not np.allclose(ours.losses(0), exact, rtol=1e-9, atol=0):
        return False
    runs = [theirs.facts["losses"], *[theirs.losses(seed) for seed in range(1, 1 + NUDGED)]]
    reached = np.abs(np.array(runs) - exact).max(axis=0)
    return bool((np.abs(np.array(ours.facts["losses"]) - exact) <= 3 * reached).all())


def compare(
    results: Results,
    name: str,
    layout: str,
    threads: int | None,
    modes: Iterable[str],
    pairs: int,
    memory: bool,
    compiled: tuple[str, str] = ("", ""),
    dtype: str = "float32",
) -> None:
    """Print the lines of a network. compiled: what of training, by tdt and by PyTorch."""
    if memory:
        compile_kernels(name, layout, threads, compiled[0], dtype)
    with (
        Side("tdt", name, layout, threads, compiled[0], dtype) as ours,
        Side("torch", name, layout, threads, compiled[1], dtype) as theirs,
        Side("tdt", name, layout, threads, compiled[0]) if dtype != "float32" else nullcontext() as full,
    ):
        for side in (ours, theirs, full):
            if side is not None:
                side.wait()
        # The weights' rounding errors do not shrink with the loss: two of PyTorch's own algorithms differ by as much.
        # Compiled training has no outputs, and PyTorch's other random numbers, so other losses after dropout.
        kinds = () if compiled[1] else (("losses", 1e-3, 1e-4), ("outputs", 1e-2, 0.0))
        if full is not None and kinds:  # roundings to bfloat16 differ where the sums before them do
            kinds = (("losses", ROUNDED, ROUNDED), ("outputs", 2 * ROUNDED, ROUNDED))
        for kind, tolerance, share in kinds[: 1 if compiled[0] else 2]:
            a, b = ours.facts[kind], theirs.facts[kind]
            least = max(1e-5, share * max(map(abs, b), default=0.0))
            if all(math.isclose(p, q, rel_tol=tolerance, abs_tol=least) for p, q in zip(a, b, strict=True)):
                continue
            if kind != "losses" or ": " not in name or full is not None or not same_training(ours, theirs):
                raise SystemExit(f"{name}: the {kind} differ: {a}, PyTorch {b}")
        title = name if layout == "contiguous" else f"{name}, {layout}"
        if memory:
            ratio = theirs.memory / max(ours.memory, 1)
            results.add(title, "memory", threads, ratio, ratio, ratio, f"{ours.memory:9.0f} {theirs.memory:9.0f} MiB")
        for mode in modes:
            ours.select(mode)
            theirs.select(mode)
            bounds = interval(ratios(theirs.seconds, ours.seconds, pairs))
            figures = f"{ours.seconds() * 1e3:9.3f} {theirs.seconds() * 1e3:9.3f} ms"
            if any(compiled):
                figures += f", first step {ours.facts['first']:.1f} {theirs.facts['first']:.1f} s"
            results.add(title, mode, threads, *bounds, figures)
            if full is not None:
                full.select(mode)
                bounds = interval(ratios(full.seconds, ours.seconds, pairs))
                figures = f"{ours.seconds() * 1e3:9.3f} {full.seconds() * 1e3:9.3f} ms"
                results.add(title, f"{mode}, of tdt's float32", threads, *bounds, figures)


def busy(seconds: float = 1.0) -> float:
    """How much of the machine's time other processes take, from 0 to 1."""

    def read() -> tuple[int, int]:
        numbers = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return sum(numbers), numbers[3] + numbers[4]

    total, idle = read()
    time.sleep(seconds)
    total_now, idle_now = read()
    return 1 - (idle_now - idle) / max(1, total_now - total)


def networks(only: str, workloads: bool) -> list[tuple[str, str]]:
    """The names and layouts to compare."""
    if workloads:
        return [
            (name, layout)
            for name in WORKLOADS
            if only in name
            for layout in (("contiguous", "channels-last") if name in IMAGES else ("contiguous",))
        ]
    return [(f"{family}: {size}", "contiguous") for family in FAMILIES for size in SIZES if only in f"{family}: {size}"]


def main() -> None:
    """Print a line for each network and mode, and their geometric means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="compare only networks whose name holds this text")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 0], help="numbers of threads; 0: all cores")
    parser.add_argument("--mode", choices=list(MODES), nargs="+", default=list(MODES))
    parser.add_argument(
        "--compile", choices=list(COMPILED)[1:], default="", help="compile training steps, of one or both"
    )
    parser.add_argument("--bfloat16", action="store_true", help="under autocast; beside tdt's own float32 as well")
    parser.add_argument("--workloads", action="store_true", help="compare the fixed workloads instead of the families")
    parser.add_argument("--busy", action="store_true", help="measure even if the machine is busy")
    args = parser.parse_args()
    load = busy()
    if load > 0.1 and args.threads != [1] and not args.busy:
        raise SystemExit(
            f"other processes take {load:.0%} of this machine: nothing measured now would hold (--busy measures all the same)"
        )
    if args.compile and (args.workloads or "inference" in args.mode):
        parser.error("--compile is for the training of families: give --mode training or memory, and no --workloads")
    if args.bfloat16 and args.workloads:
        parser.error("--bfloat16 is for families: give no --workloads")
    names = networks(args.only, args.workloads)
    if not names:
        raise SystemExit(f"no network holds {args.only!r}")
    print(settings())
    print(f"{'':<40} {'':<30}  ratio 95 % interval         tdt     torch")
    results = Results()
    modes = [TRAINING] if args.workloads else [each for mode in args.mode for each in MODES[mode]]
    for threads in args.threads:
        for name, layout in names:
            compare(
                results, name, layout, threads or None, modes, args.pairs, "memory" in args.mode, COMPILED[args.compile],
                "bfloat16" if args.bfloat16 else "float32",
            )  # fmt: skip
    results.print_summary()


if __name__ == "__main__":
    main()
