"""Matrix products of shapes drawn at random: how many times as fast as PyTorch's, by family and kind.

python -m benchmarks.product --threads 1             # processor time, little disturbed by a busy machine
python -m benchmarks.product --count 200 --family transformer --all

Shapes are those of linear layers and their gradients in transformers, MLPs, image classifiers' heads, recurrent nets and
recommenders, of attention's and other stacks of products, and of products with few rows or columns. Each alternates with
PyTorch's; its figure is the median of the ratios, above 1 where tdt is faster.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.conv import compared, geomean

LARGEST = 1 << 31  # multiply-adds


class Shape(NamedTuple):
    """A product (batch, m, k) @ (batch, k, n); `how` says which operands are transposed views: "nn", "nt", "tn"."""

    family: str
    batch: int
    m: int
    n: int
    k: int
    how: str
    bias: bool = False

    def macs(self) -> int:
        return self.batch * self.m * self.n * self.k


def _linear(rng: np.random.Generator, family: str, rows: int, inside: int, out: int) -> Shape:
    """A linear layer's forward (twice as often, with or without a bias), or its gradient for the input or the weight."""
    which = rng.integers(4)
    if which == 2:
        return Shape(family, 1, rows, inside, out, "nn")
    if which == 3:
        return Shape(family, 1, out, inside, rows, "tn")
    return Shape(family, 1, rows, out, inside, "nt", bool(which))


def _transformer(rng: np.random.Generator) -> Shape:
    wide = int(rng.choice([64, 128, 192, 256, 320, 384, 512, 640, 768, 1024]))
    rows = int(rng.choice([16, 32, 49, 64, 128, 197, 256, 512, 577, 1024, 2048]) * rng.choice([1, 2, 4, 8]))
    factors = [(1, 1), (1, 3), (1, 4), (4, 1), (1, 2)][rng.integers(5)]
    return _linear(rng, "transformer", rows, wide * factors[0], wide * factors[1])


def _attention(rng: np.random.Generator) -> Shape:
    steps, head = int(rng.choice([16, 49, 64, 100, 128, 197, 256, 512])), int(rng.choice([16, 32, 48, 64, 96, 128]))
    batch = int(rng.choice([1, 2, 4, 8, 16]) * rng.choice([1, 2, 3, 4, 6, 8, 12]))
    m, n, k, how = [(steps, steps, head, "nt"), (steps, head, steps, "nn"), (steps, head, steps, "tn")][rng.integers(3)]
    return Shape("attention", batch, m, n, k, how)


def _mlp(rng: np.random.Generator) -> Shape:
    sizes = [20, 32, 50, 64, 100, 128, 200, 256, 300, 400, 512, 784, 1000, 1024, 2048, 4096]
    return _linear(
        rng, "mlp", int(rng.choice([16, 32, 64, 100, 128, 256, 512])), *(int(s) for s in rng.choice(sizes, 2))
    )


def _head(rng: np.random.Generator) -> Shape:
    inside = int(rng.choice([64, 320, 512, 576, 768, 1024, 1280, 2048, 4096, 9216]))
    return _linear(
        rng, "head", int(rng.choice([1, 8, 16, 32, 64, 128, 256])), inside, int(rng.choice([2, 10, 100, 257, 1000]))
    )


def _recurrent(rng: np.random.Generator) -> Shape:
    hidden, inside = (int(s) for s in rng.choice([32, 64, 100, 128, 200, 256, 300, 512, 650], 2))
    rows = int(rng.choice([1, 8, 16, 32, 64]) * rng.choice([1, 16, 28, 35, 64, 128]))
    return _linear(rng, "recurrent", rows, inside, hidden * int(rng.choice([1, 3, 4])))


def _recommender(rng: np.random.Generator) -> Shape:
    rows = int(rng.choice([128, 256, 512, 1024, 2048, 4096]))
    if rng.integers(4) == 0:
        fields, wide = int(rng.choice([8, 16, 27, 40])), int(rng.choice([8, 16, 32, 64]))
        return Shape("recommender", rows, fields, fields, wide, "nt")
    return _linear(
        rng, "recommender", rows, *(int(s) for s in rng.choice([1, 8, 13, 16, 32, 64, 128, 256, 367, 512, 1024], 2))
    )


def _skinny(rng: np.random.Generator) -> Shape:
    m, n, k = int(rng.integers(1, 9)), int(rng.choice([256, 512, 768, 1024, 2048, 3072, 4096])), 0
    k = int(rng.choice([256, 512, 768, 1024, 2048, 3072]))
    if rng.integers(2):
        m, n = n, m
    return Shape("skinny", 1, m, n, k, str(rng.choice(["nn", "nt", "tn"])))


FAMILIES: dict[str, Callable[[np.random.Generator], Shape]] = {
    "transformer": _transformer, "attention": _attention, "mlp": _mlp, "head": _head, "recurrent": _recurrent,
    "recommender": _recommender, "skinny": _skinny,
}  # fmt: skip


def draw(rng: np.random.Generator, family: str = "") -> Shape:
    """A random shape of a family whose name contains a text."""
    names = [name for name in FAMILIES if family in name]
    while True:
        shape = FAMILIES[str(rng.choice(names))](rng)
        if shape.macs() <= LARGEST:
            return shape


def call(library: Any, shape: Shape) -> Callable[[], object]:
    """The product by one library, on the same numbers, without recording."""
    rng = np.random.default_rng(0)
    a, b = (
        rng.standard_normal((shape.batch, *(reversed(size) if t == "t" else size)), np.float32)
        for t, size in zip(shape.how, ((shape.m, shape.k), (shape.k, shape.n)), strict=True)
    )
    bias = library.from_numpy(rng.standard_normal(shape.n, np.float32)) if shape.bias else None
    if shape.batch == 1:
        a, b = a[0], b[0]
    x, y = library.from_numpy(a), library.from_numpy(b)
    no_grad = library.no_grad()
    if shape.how == "nt" and shape.batch == 1:  # y is a linear layer's weight
        linear = library.nn.functional.linear
        run: Callable[[], object] = lambda: linear(x, y, bias)  # noqa: E731
    else:
        x, y = (z.mT if t == "t" else z for z, t in zip((x, y), shape.how, strict=True))
        run = lambda: library.matmul(x, y)  # noqa: E731

    def without_recording() -> object:
        with no_grad:
            return run()

    return without_recording


def summary(found: list[tuple[Shape, float]], worst: int) -> None:
    """Print geometric means and shares of slow shapes, and the slowest."""
    groups: dict[str, list[float]] = defaultdict(list)
    for shape, ratio in found:
        for key in ("all", shape.family, shape.how):
            groups[key].append(ratio)
    print(f"\n{'':<14} shapes  geomean  below 0.95  below 0.85   least")
    for key, ratios in groups.items():
        below = [100 * sum(r < bound for r in ratios) / len(ratios) for bound in (0.95, 0.85)]
        print(
            f"{key:<14} {len(ratios):6}  {geomean(ratios):7.2f}  {below[0]:8.1f} %  {below[1]:8.1f} %  {min(ratios):6.2f}"
        )
    print("\nthe slowest")
    for shape, ratio in sorted(found, key=lambda f: f[1])[:worst]:
        print(f"{ratio:6.2f}  {shape}")


def main() -> None:
    """Draw the shapes, measure them and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=80, help="number of shapes (80)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 10_000)
    parser.add_argument("--threads", type=int, default=0, help="number of threads; 0: all cores")
    parser.add_argument("--family", default="", help="families whose name contains this text")
    parser.add_argument("--pairs", type=int, default=9, help="alternating measurements of a shape (9)")
    parser.add_argument("--worst", type=int, default=12, help="how many of the slowest to print (12)")
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
        ratio, ours, theirs = compared(clock, call(tdt, shape), call(torch, shape), args.pairs)
        found.append((shape, ratio))
        if args.all:
            print(f"{ratio:6.2f}  {1e3 * ours:8.3f} / {1e3 * theirs:8.3f} ms {2e-9 * shape.macs() / ours:6.1f} GFLOP/s  "
                  f"{shape}", flush=True)  # fmt: skip
    summary(found, args.worst)


if __name__ == "__main__":
    main()
