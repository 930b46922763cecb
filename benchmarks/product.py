"""Matrix products of shapes drawn at random: how many times as fast as PyTorch's, by family and kind.

python -m benchmarks.product --threads 1             # processor time, little disturbed by a busy machine
python -m benchmarks.product --count 200 --family transformer --all
python -m benchmarks.product --threads 1 --dtype float64     # or bfloat16

Shapes are those of linear layers and their gradients in transformers, MLPs, image classifiers' heads, recurrent nets and
recommenders, of attention's and other stacks of products, and of products with few rows or columns. Each alternates with
PyTorch's; its figure is the median of the ratios, above 1 where tdt is faster.

On an Intel Xeon with AVX-512 and AMX, on one thread beside other programs, 240 shapes (seeds 31337, 90909 and 424242) are 1.07 to
1.18 times as fast; 16 % lie below 0.95 and 3 % below 0.85. In float64, 160 shapes (seeds 5150 and 424243) are 1.05 to 1.10 times
as fast, 21 % lie below 0.95 and 4 % below 0.85. Slowest there: one or two rows with a linear layer's weights that no level-two
cache keeps (0.6 to 0.9), and two or three rows with weights of some hundred inputs (0.7 to 0.9).

On an AMD EPYC of Zen 5, on one thread beside other programs, 900 shapes (seeds 770001, 770002 and 770003) are 2.1 to 2.2 times as
fast, 0.7 % lie below 0.95 and one below 0.85; 160 later ones (seed 40817) are 2.6 times as
fast, one is below 0.95. On one of Zen 4, 240 shapes (seeds 9911 and 60607) are 1.29 to 1.38 times as fast, 5 % lie below 0.95
and 3 % below 0.85: stacks of thousands of products of 8 × 64 with 64 × 8 numbers (0.6), and one row or column with weights
whose rows lie a multiple of 4096 bytes apart (0.65 to 1; those of other weights 1.1 to 1.6). In four later sweeps (seeds 31337,
5150, 12021 and 90909) float32 is 1.38 to 1.52 times as fast, with 2 % below 0.85: one row with weights whose rows lie a
multiple of 8192 bytes apart (0.6), 16 rows and two columns (0.7). Float64 is 1.38 to 1.41 times as fast, with 4 % below 0.85:
outer products (0.55 to 0.7) and two columns (0.6 to 0.8).

On an AMD EPYC of Zen 3, which has AVX2, on one thread beside other programs, 420 shapes (seeds 31337, 5150, 12021 and 90909) are
1.22 to 1.33 times as fast, 11 % lie below 0.95 and 2 % below 0.85: one row with weights whose rows lie a multiple of 4096 bytes
apart (0.55 to 1). Two to eight rows with a linear layer's weights are 1.2 to 2.9 times as fast. In float64 the same shapes are
1.35 to 1.38 times as fast (1.1 by NumPy's OpenBLAS), and 6 % lie below 0.85: outer products (0.4 to 0.7), two columns (0.7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks._pairs import begin_sweep, compared, summary, sweep_parser

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


def _kind(shape: Shape) -> str:
    """What makes a product hard to compute at the full rate."""
    kinds = {"few rows": min(shape.m, shape.n) < 16, "short sums": shape.k <= 16, "small": shape.macs() < 1 << 20}
    return next((name for name, holds in kinds.items() if holds), "large")


def draw(rng: np.random.Generator, family: str = "") -> Shape:
    """A random shape of a family whose name contains a text."""
    names = [name for name in FAMILIES if family in name]
    while True:
        shape = FAMILIES[str(rng.choice(names))](rng)
        if shape.macs() <= LARGEST:
            return shape


def call(library: Any, shape: Shape, dtype: str = "float32") -> Callable[[], object]:
    """The product by one library, on the same numbers, without recording."""
    rng = np.random.default_rng(0)

    def numbers(*size: int) -> Any:
        return library.from_numpy(rng.standard_normal(size, np.float32)).to(getattr(library, dtype))

    x, y = (
        numbers(shape.batch, *(reversed(size) if t == "t" else size))
        for t, size in zip(shape.how, ((shape.m, shape.k), (shape.k, shape.n)), strict=True)
    )
    bias = numbers(shape.n) if shape.bias else None
    if shape.batch == 1:
        x, y = x[0], y[0]
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


def main() -> None:
    """Draw the shapes, measure them and print the summary."""
    parser = sweep_parser(__doc__, 80, 12)
    parser.add_argument(
        "--dtype", choices=["float32", "float64", "bfloat16"], default="float32", help="of the matrices (float32)"
    )
    args = parser.parse_args()
    clock, tdt, torch, rng = begin_sweep(args)
    found = []
    for _ in range(args.count):
        shape = draw(rng, args.family)
        ratio, ours, theirs = compared(
            clock, *(call(library, shape, args.dtype) for library in (tdt, torch)), args.pairs
        )
        found.append((ratio, (shape.family, shape.how, _kind(shape)), shape))
        if args.all:
            print(f"{ratio:6.2f}  {1e3 * ours:8.3f} / {1e3 * theirs:8.3f} ms {2e-9 * shape.macs() / ours:6.1f} GFLOP/s  "
                  f"{shape}", flush=True)  # fmt: skip
    summary(found, (0.95, 0.85), args.worst)


if __name__ == "__main__":
    main()
