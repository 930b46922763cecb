"""Modules of `nn` beside PyTorch's, at sizes drawn at random: without gradients, and forward and backward.

    python -m benchmarks.modules --threads 1                     # every module at three sizes, on one thread
    python -m benchmarks.modules --threads 1 --family Cell       # those whose name holds a text

Sizes come from what small and usual networks have: batches of 1 to 128 samples, 4 to 512 features, images of 4 to 64 pixels.
Measurements alternate; one thread is measured in processor time. Convolutions and products have sweeps of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._pairs import begin_sweep, compared, summary, sweep_parser

Build = Callable[[Any], Any]
Case = tuple[str, Build, tuple[np.ndarray, ...]]
BOUNDS = (0.6, 0.8, 1.0)

ACTIVATIONS = ("ReLU", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Hardswish", "Hardsigmoid", "Hardtanh",
               "ReLU6", "Softplus", "Softsign", "Tanh", "Sigmoid", "LogSigmoid", "Tanhshrink", "Softshrink", "Hardshrink",
               "RReLU", "PReLU", "GLU")  # fmt: skip
# Losses of two arrays of one shape; those below take classes.
LOSSES = ("MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCEWithLogitsLoss", "KLDivLoss", "PoissonNLLLoss",
          "SoftMarginLoss", "MultiLabelSoftMarginLoss")  # fmt: skip
CLASS_LOSSES = ("CrossEntropyLoss", "NLLLoss", "MultiMarginLoss")
CELLS = ("RNNCell", "GRUCell", "LSTMCell")
SEQUENCES = ("RNN", "GRU", "LSTM")
# With the dimensions of an image's pixels.
WINDOWS: tuple[tuple[str, int, tuple, dict], ...] = (
    ("MaxPool", 1, (2,), {}), ("MaxPool", 2, (2,), {}), ("MaxPool", 2, (3, 2, 1), {}), ("MaxPool", 3, (2,), {}),
    ("AvgPool", 1, (2,), {}), ("AvgPool", 2, (2,), {}), ("AvgPool", 2, (3, 1, 1), {}), ("AvgPool", 3, (2,), {}),
    ("AdaptiveAvgPool", 2, (1,), {}), ("AdaptiveAvgPool", 2, (3,), {}), ("AdaptiveMaxPool", 2, (3,), {}),
    ("LPPool", 2, (2, 2), {}), ("ZeroPad", 2, (1,), {}), ("ReflectionPad", 2, (1,), {}), ("ReplicationPad", 2, (1,), {}),
    ("Dropout", 2, (0.3,), {}),
)  # fmt: skip
IMAGES: tuple[tuple[str, tuple, dict], ...] = (
    ("PixelShuffle", (2,), {}), ("PixelUnshuffle", (2,), {}), ("ChannelShuffle", (2,), {}), ("Softmax2d", (), {}),
    ("LocalResponseNorm", (5,), {}), ("Upsample", (), {"scale_factor": 2}), ("Unfold", (3,), {"padding": 1}),
    ("Upsample", (), {"scale_factor": 2, "mode": "bilinear"}), ("Upsample", (), {"scale_factor": 2, "mode": "bicubic"}),
    ("Dropout", (0.3,), {}), ("AlphaDropout", (0.3,), {}), ("Flatten", (), {}),
)  # fmt: skip


def module(name: str, *args: Any, **how: Any) -> Build:
    """What makes a module of this name of either library."""
    return lambda library: getattr(library.nn, name)(*args, **how)


def cases(rng: np.random.Generator) -> Iterator[Case]:
    """Every module once, at a size drawn for it: name, module, inputs."""

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    def draw(low: int, high: int) -> int:
        """A number between the bounds, evenly in its logarithm."""
        return round(float(np.exp(rng.uniform(np.log(low), np.log(high)))))

    def image(dimensions: int) -> np.ndarray:
        side = 2 * draw(2, 32 if dimensions < 3 else 8)
        return floats(draw(1, 32), 4 * draw(1, 16), *[side] * dimensions)

    for name in ACTIVATIONS:
        yield name, module(name), (floats(draw(1, 128), 2 * draw(2, 256)),)
    for name in LOSSES:
        x = floats(draw(1, 128), draw(4, 512))
        yield name, module(name), (x, rng.random(x.shape, np.float32))
    for name in CLASS_LOSSES:
        n, classes = draw(1, 128), draw(4, 512)
        yield name, module(name), (floats(n, classes), rng.integers(0, classes, n))
    for name in ("CosineSimilarity", "PairwiseDistance"):
        x = floats(draw(1, 128), draw(4, 512))
        yield name, module(name), (x, floats(*x.shape))
    for name in CELLS:
        inside, size = draw(8, 512), draw(8, 512)
        yield name, module(name, inside, size), (floats(draw(1, 64), inside),)
    for name in SEQUENCES:
        inside, size = draw(8, 256), draw(8, 256)
        yield name, module(name, inside, size, batch_first=True), (floats(draw(1, 32), draw(2, 32), inside),)
    yield from _of_tokens(floats, draw, rng)
    for name, dimensions, args, how in WINDOWS:
        title = f"{name}{dimensions}d{args}"
        yield title, module(f"{name}{dimensions}d", *args, **how), (image(dimensions),)
    for name, args, how in IMAGES:
        yield f"{name} {how.get('mode', '')}".strip(), module(name, *args, **how), (image(2),)
    for dimensions in (1, 2, 3):
        x = image(dimensions)
        yield f"BatchNorm{dimensions}d", module(f"BatchNorm{dimensions}d", x.shape[1]), (x,)
        yield f"InstanceNorm{dimensions}d", module(f"InstanceNorm{dimensions}d", x.shape[1]), (x,)
    x = image(2)
    yield "GroupNorm", module("GroupNorm", 4, x.shape[1]), (x,)


def _of_tokens(
    floats: Callable[..., np.ndarray], draw: Callable[[int, int], int], rng: np.random.Generator
) -> Iterator[Case]:
    """Modules of tables and of sequences of vectors."""
    n, length, width = draw(1, 32), draw(4, 64), 4 * draw(2, 128)
    x = floats(n, length, width)
    for name in ("LayerNorm", "RMSNorm"):
        yield name, module(name, width), (x,)
    yield "Softmax", module("Softmax", -1), (x,)
    yield "MultiheadAttention", module("MultiheadAttention", width, 4, batch_first=True), (x, x, x)
    yield "TransformerEncoderLayer", module("TransformerEncoderLayer", width, 4, 2 * width, 0.0, batch_first=True), (x,)
    for name in ("Embedding", "EmbeddingBag"):
        yield name, module(name, draw(10, 5000), width), (rng.integers(0, 10, (n, length)),)
    yield "Bilinear", module("Bilinear", width // 4, 8, 8), (floats(n, width // 4), floats(n, 8))


def run(library: Any, build: Build, inputs: tuple[np.ndarray, ...], trains: bool) -> Callable[[], Any]:
    """A call of the module; `trains`: with the gradients of its parameters and of the first input."""
    library.manual_seed(0)
    model = build(library).train(trains)
    tensors = [library.from_numpy(array.copy()) for array in inputs]
    if not trains:

        def infer() -> Any:
            with library.no_grad():
                return model(*tensors)

        return infer
    if tensors[0].is_floating_point():
        tensors[0].requires_grad_()
    leaves = [t for t in (tensors[0], *model.parameters()) if t.requires_grad]
    g = library.ones_like(_first(model(*tensors)))
    return lambda: library.autograd.grad(_first(model(*tensors)), leaves, g, allow_unused=True)


def _first(output: Any) -> Any:
    return _first(output[0]) if isinstance(output, tuple) else output


def main() -> None:
    """Compare all modules `count` times at other sizes."""
    args = sweep_parser(__doc__, 3, 40).parse_args()
    clock, tdt, torch, rng = begin_sweep(args)
    found = []
    for _ in range(args.count):
        for name, build, inputs in cases(rng):
            if args.family not in name:
                continue
            for mode in ("without gradients", "with gradients"):
                sides = [run(library, build, inputs, mode == "with gradients") for library in (tdt, torch)]
                ratio, ours, theirs = compared(clock, *sides, args.pairs)
                shapes = " ".join("×".join(map(str, array.shape)) for array in inputs)
                text = f"{name}, {mode}: {shapes}   {ours * 1e6:.1f} µs, PyTorch {theirs * 1e6:.1f}"
                if args.all:
                    print(f"{ratio:6.2f}  {text}", flush=True)
                found.append((ratio, (mode,), text))
    summary(found, BOUNDS, args.worst)


if __name__ == "__main__":
    main()
