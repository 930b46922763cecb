"""Convolutions of shapes drawn at random: how many times as fast as PyTorch's, by pass and family.

python -m benchmarks.conv --threads 1                        # processor time, little disturbed by a busy machine
python -m benchmarks.conv --count 50 --only weight --family video --all

Each pass alternates with PyTorch's; the figure of a pass is the median of the ratios, above 1 where tdt is faster.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks._conv_shapes import Shape, draw

PASSES = ("forward", "input", "weight")
SHORTEST = 1e-3  # seconds that a measurement takes, at least


def passes(library: Any, shape: Shape) -> dict[str, Callable[[], object]]:
    """The three passes of one library, on the same numbers: forward without recording, gradients of input and weight."""
    rng = np.random.default_rng(0)
    dims = len(shape.size)
    weight = (
        (shape.channels, shape.out // shape.groups) if shape.transposed else (shape.out, shape.channels // shape.groups)
    )
    shapes = ((shape.batch, shape.channels, *shape.size), (*weight, *shape.kernel), (shape.out,),
              (shape.batch, shape.out, *shape.result()))  # fmt: skip
    x, w, b, g = (library.from_numpy(rng.standard_normal(s, np.float32)) for s in shapes)
    if shape.last:
        x, g, w = (a.contiguous(memory_format=library.channels_last) for a in (x, g, w))
    function = getattr(library.nn.functional, f"conv{'_transpose' if shape.transposed else ''}{dims}d")
    how = {"stride": shape.stride, "padding": shape.padding, "dilation": shape.dilation, "groups": shape.groups}
    inputs, weights = x.detach().requires_grad_(), w.detach().requires_grad_()
    of_input, of_weights = function(inputs, w, b, **how), function(x, weights, b, **how)

    def forward() -> object:
        with library.no_grad():
            return function(x, w, b, **how)

    return {
        "forward": forward,
        "input": lambda: library.autograd.grad(of_input, inputs, g, retain_graph=True),
        "weight": lambda: library.autograd.grad(of_weights, weights, g, retain_graph=True),
    }


def compared(clock: Callable[[], float], ours: Callable, theirs: Callable, pairs: int) -> tuple[float, float, float]:
    """The median of theirs / ours, and both times in seconds."""
    times: tuple[list[float], list[float]] = ([], [])
    repeat = []
    for run in (ours, theirs):
        run()
        start = clock()
        run()
        repeat.append(max(1, round(SHORTEST / max(clock() - start, 1e-6))))
    for i in range(pairs):
        for which in (0, 1) if i % 2 else (1, 0):
            run = (ours, theirs)[which]
            start = clock()
            for _ in range(repeat[which]):
                run()
            times[which].append((clock() - start) / repeat[which])
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    return ratio, statistics.median(times[0]), statistics.median(times[1])


def geomean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def summary(found: list[tuple[str, Shape, float]], worst: int) -> None:
    """Print the geometric means, the shares of slow shapes, and the slowest."""
    groups: dict[str, list[float]] = defaultdict(list)
    for name, shape, ratio in found:
        for key in ("all", name, shape.family):
            groups[key].append(ratio)
    print(f"\n{'':<14} shapes  geomean  below 0.95  below 0.8   least")
    for key, ratios in groups.items():
        shares = [100 * sum(r < bound for r in ratios) / len(ratios) for bound in (0.95, 0.8)]
        print(
            f"{key:<14} {len(ratios):6}  {geomean(ratios):7.2f}  {shares[0]:8.1f} %  {shares[1]:7.1f} %  {min(ratios):6.2f}"
        )
    print("\nthe slowest")
    for name, shape, ratio in sorted(found, key=lambda f: f[2])[:worst]:
        print(f"{ratio:6.2f}  {name:<8} {shape.family:<13} {shape}")


def main() -> None:
    """Draw the shapes, measure them and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="number of shapes (300)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10_000)
    parser.add_argument("--threads", type=int, default=0, help="number of threads; 0: all cores")
    parser.add_argument("--only", choices=PASSES, help="this pass alone")
    parser.add_argument("--family", default="", help="families whose name contains this text")
    parser.add_argument("--pairs", type=int, default=9, help="alternating measurements of a pass (9)")
    parser.add_argument("--worst", type=int, default=25, help="how many of the slowest to print (25)")
    parser.add_argument("--all", action="store_true", help="print a line for every shape")
    args = parser.parse_args()
    threads = args.threads or os.cpu_count() or 1
    os.environ["OMP_NUM_THREADS"] = str(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    import torch

    import tdt

    torch.set_num_threads(threads)
    tdt.set_num_threads(threads)
    print(f"seed {args.seed}, {threads} threads, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
          f"PyTorch {torch.__version__} | PyTorch's time / tdt's: above 1 is faster")  # fmt: skip
    rng = np.random.default_rng(args.seed)
    found = []
    for _ in range(args.count):
        shape = draw(rng, args.family)
        ours, theirs = passes(tdt, shape), passes(torch, shape)
        for name in (args.only,) if args.only else PASSES:
            ratio, our_time, their_time = compared(clock, ours[name], theirs[name], args.pairs)
            found.append((name, shape, ratio))
            if args.all:
                rate = 2e-9 * shape.macs() / our_time
                print(f"{ratio:6.2f}  {name:<8} {shape.family:<13} {1e3 * our_time:8.3f} / {1e3 * their_time:8.3f} ms "
                      f"{rate:6.1f} GFLOP/s  {shape}", flush=True)  # fmt: skip
    summary(found, args.worst)


if __name__ == "__main__":
    main()
