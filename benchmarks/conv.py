"""Convolutions of shapes drawn at random: how many times as fast as PyTorch's, by pass and family.

python -m benchmarks.conv --threads 1                        # processor time, little disturbed by a busy machine
python -m benchmarks.conv --count 50 --only weight --family video --all
python -m benchmarks.conv --threads 1 --dtype bfloat16

Each pass alternates with PyTorch's; the figure of a pass is the median of the ratios, above 1 where tdt is faster.

With one thread on an AMD EPYC (Zen 4, processor time, beside programs that kept both cores busy several times over, which moves
single figures by a fifth): of 720 passes (seeds 61207 and 61311) 4.3 % are below 0.95 and 0.7 % below 0.8, in the mean 1.65
times as fast; with the vectors of both libraries limited to AVX2 (seeds 61208 and 61312) 5.6 % and 0.4 %, 1.57. A Zen 5 had of
960 passes (seeds 7301 and 8817) 2.4 % and 0.3 %, 1.82, where 878 before some changes (90417 and 55021) had 4.7 % and 0.7 %,
1.75; with AVX2 of 299 passes (7302) 2.0 % and none, 1.68. A Zen 3, which has AVX2 alone, had of 360 passes (88001, 88002) 1.7 %
and 0.3 %, 1.77, where 900 before some changes (7001 to 7003) had 2.0 % and 0.1 %, 1.68. On an Intel Xeon with AMX, as busy, of
900 passes (90215, 90216 and 90218) 4.1 % and 0.4 %, 1.59, where 1350 before some changes (90211 to 90213) had 6.9 % and 1.0 %,
1.52; with AVX2 (90217) 8.0 % and 0.7 %, 1.45. With both threads of an idle Zen 5, by the wall clock, of 509 passes (seeds 5, 4411
and 90901) 8.1 % and 2.9 %, 1.56; of a Zen 3 of 252 passes (40117 and 71903) 1.6 % and
0.4 %, 1.74, where the first 150 had 4.0 % and 1.3 %, 1.64, before some changes: least are lines of one channel.
Why:

- passes of less than 0.1 ms: the call. That of `autograd.grad` alone takes 50 µs, as long as all of PyTorch's small ones.
- contiguous images of 7 × 7 in groups of 32 channels (0.9): the copy with a border and turning the result take a fifth.
- on the Xeon large images of few channels, and few windows of volumes with many weights (0.85): operands come from memory, and
  packing waits for them.
- batches of small images, and 5 × 5 or 9 × 9 cells with padding (0.75 to 0.9): many numbers of the border are zeros.
- weight gradients of 3 × 7 × 7 cells (0.8 to 0.9): tiles of 22 rows for runs of 21 numbers.
- few channels of the result, channels-last: 12 of a vector's 16 numbers are used, and so are 4 channels of a stem's image.
- volumes of one channel, and weight gradients of lines of one: runs of three to ten numbers. A product of one column with all
  pixels: 1 × 1 to one channel.
- large dilations, weight gradients: patches with a border of zeros, or a product for each cell of the kernel; results of images
  as large as the dilation: each weight is packed for one or a few rows of pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._conv_shapes import Shape, draw
from benchmarks._pairs import begin_sweep, compared, summary, sweep_parser

PASSES = ("forward", "input", "weight")
CRASHING_CHANNELS = 8


def passes(library: Any, shape: Shape, dtype: str = "float32") -> dict[str, Callable[[], object]]:
    """The three passes of one library, on the same numbers: forward without recording, gradients of input and weight."""
    rng = np.random.default_rng(0)
    dims = len(shape.size)
    weight = (
        (shape.channels, shape.out // shape.groups) if shape.transposed else (shape.out, shape.channels // shape.groups)
    )
    shapes = ((shape.batch, shape.channels, *shape.size), (*weight, *shape.kernel), (shape.out,),
              (shape.batch, shape.out, *shape.result()))  # fmt: skip
    kind = getattr(library, dtype)
    x, w, b, g = (library.from_numpy(rng.standard_normal(s, np.float32)).to(kind) for s in shapes)
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


def crashes_pytorch(name: str, shape: Shape) -> bool:
    """Whether PyTorch 2.13 writes past its memory: in weight gradients of few channels-last channels by strided 1 × 1."""
    of_pixels = math.prod(shape.kernel) == 1 < max(shape.stride) and shape.groups == 1
    return name == "weight" and shape.last and of_pixels and shape.channels <= CRASHING_CHANNELS


def main() -> None:
    """Draw the shapes, measure them and print the summary."""
    parser = sweep_parser(__doc__, 300, 25)
    parser.add_argument("--only", choices=PASSES, help="this pass alone")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of all arrays (float32)")
    args = parser.parse_args()
    clock, tdt, torch, rng = begin_sweep(args)
    found = []
    for _ in range(args.count):
        shape = draw(rng, args.family)
        ours, theirs = (passes(library, shape, args.dtype) for library in (tdt, torch))
        for name in (args.only,) if args.only else PASSES:
            if crashes_pytorch(name, shape):
                print(f"left out, as PyTorch crashes: {name}, {shape}", flush=True)
                continue
            ratio, our_time, their_time = compared(clock, ours[name], theirs[name], args.pairs)
            found.append((ratio, (name, shape.family), f"{shape.family:<13} {shape}"))
            if args.all:
                rate = 2e-9 * shape.macs() / our_time
                print(f"{ratio:6.2f}  {name:<8} {shape.family:<13} {1e3 * our_time:8.3f} / {1e3 * their_time:8.3f} ms "
                      f"{rate:6.1f} GFLOP/s  {shape}", flush=True)  # fmt: skip
    summary(found, (0.95, 0.8), args.worst)


if __name__ == "__main__":
    main()
