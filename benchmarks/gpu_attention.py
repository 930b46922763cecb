"""Times of attention on a GPU in bfloat16: PyTorch, tdt (cuDNN's engines) and tdt's own kernels.

python -m benchmarks.gpu_attention
python -m benchmarks.gpu_attention --lengths 1024 --dtype float16

For sequences of each length, causal and not: milliseconds of the result, and of the result with the gradients of queries, keys
and values; the largest difference of tdt's numbers from those of its own kernels, relative to the largest number, where it is
above `FAR`. Each time is the median of some replays of a CUDA graph of ten calls. Queries, keys and values are in one array.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

import tdt
from benchmarks.gpu_conv import milliseconds, replayed
from tdt import _backend
from tdt._kernels import attention_gpu, cudnn_attention_gpu

LENGTHS, TOKENS, HEADS, WIDTH, FAR = (256, 1024, 4096), 16384, 16, 64, 3e-2
PASSES = "result", "result and gradients"


def parts(x: Any) -> list[Any]:
    """Queries, keys and values (N, H, L, E) of one array (N, L, 3, H, E)."""
    return [x[:, :, k].transpose(0, 2, 1, 3) for k in range(3)]


def computed(kernels: Any, x: Any, g: Any, causal: bool, gradients: bool) -> list[Any]:
    """The result and, if `gradients`, these."""
    how = {"causal": causal, "scale": 1 / math.sqrt(WIDTH)}
    out, norms = kernels.attention(*parts(x), **how)
    if not gradients:
        return [out]
    return [out, *kernels.attention_vjp(g, *parts(x), None, None, out, norms, needs=(True,) * 3, dropped=0.0, **how)]


def torch_milliseconds(x: Any, g: Any, dtype: str, causal: bool, gradients: bool) -> float:
    """PyTorch's time for arrays of float32."""
    import torch

    leaf, grad = (torch.from_dlpack(a).to(getattr(torch, dtype)) for a in (x, g))
    leaf.requires_grad_(gradients)

    def call() -> Any:
        q, k, v = (leaf[:, :, k].transpose(1, 2) for k in range(3))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return torch.autograd.grad(out, (q, k, v), grad) if gradients else out

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    return replayed(torch, call)


def apart(found: list[Any], expected: list[Any]) -> float:
    """The largest difference, relative to the largest number."""
    pairs = [(a.astype(np.float32), b.astype(np.float32)) for a, b in zip(found, expected, strict=True)]
    return max(float(abs(a - b).max() / abs(b).max()) for a, b in pairs)


def lengths(
    required: tuple[int, ...] = LENGTHS, dtype: str = "bfloat16", tokens: int = TOKENS
) -> Iterator[tuple[str, str]]:
    """(Length and pass, milliseconds of each contestant)."""
    cupy, rng, kind = _backend.gpu(), np.random.default_rng(0), getattr(tdt, dtype)
    for length, causal, which in itertools.product(required, (False, True), PASSES):
        n, gradients = max(1, tokens // length), which == PASSES[1]
        x, g = (cupy.asarray(rng.standard_normal(size, np.float32))
                for size in ((n, length, 3, HEADS, WIDTH), (n, HEADS, length, WIDTH)))  # fmt: skip
        found = []
        if find_spec("torch"):
            found.append(f"PyTorch {torch_milliseconds(x, g, dtype, causal, gradients):.3f}")
        x, g = (tdt.tensor(a).to(kind)._a for a in (x, g))
        calls: dict[str, Callable[[], list[Any]]] = {
            name: functools.partial(computed, kernels, x, g, causal, gradients)
            for name, kernels in (("tdt's kernels", attention_gpu), ("tdt", cudnn_attention_gpu))
        }
        expected = calls["tdt's kernels"]()
        for name, call in calls.items():
            far = apart(call(), expected)
            found.append(f"{name} {milliseconds(call):.3f}" + f" ({far:.0e})" * (far > FAR))
        yield f"attention of {length}, {'causal, ' * causal}{which}", "; ".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    args = parser.parse_args()
    print(f"{tdt.cuda.get_device_name()}, cuDNN {tdt.backends.cudnn.version()}, milliseconds")
    for title, found in lengths(tuple(args.lengths), args.dtype):
        print(f"{title}: {found}", flush=True)


if __name__ == "__main__":
    main()
