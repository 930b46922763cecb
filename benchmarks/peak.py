"""Fraction of this machine's measured peak that each kernel reaches: of matrix-product throughput, or of memory bandwidth.

python -m benchmarks.peak                     # all threads
OMP_NUM_THREADS=1 python -m benchmarks.peak   # one

The peaks are measured here and now: the best product of two 1536×1536 matrices, and the best sum of two vectors of 64 MiB
into a third. A kernel whose arrays fit the cache may pass the bandwidth's peak.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable

import numpy as np

import tdt
from benchmarks._pairs import arguments, settings
from tdt._backend.layout import to_front
from tdt._kernels import (
    conv_cpu,
    embedding_cpu,
    gru_cpu,
    lstm_cpu,
    norm_cpu,
    optim_cpu,
    pool_cpu,
    softmax_cpu,
)
from tdt._kernels._jit import jit
from tdt._kernels._pool import parallel
from tdt._kernels._table import Table
from tdt._kernels.product_cpu import product
from tdt._ops.nn.rnn._steps import steps_of
from tdt.autograd._op_table import OPS

CONVOLUTIONS = [(64, 1, 32, 28, 3), (64, 32, 64, 26, 3), (64, 16, 16, 32, 3), (64, 64, 64, 8, 3), (16, 256, 256, 14, 3),
                (16, 128, 128, 14, 1)]  # fmt: skip
POOLING = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": False}


@jit
def _add(first, last, a, b, out):
    xs, ys, zs = a[first << 16 : last << 16], b[first << 16 : last << 16], out[first << 16 : last << 16]
    for i in range(zs.size):
        zs[i] = xs[i] + ys[i]


def seconds(run: Callable[[], object]) -> float:
    """The best of the repetitions that fit into a third of a second: what the code can do without other load."""
    run()
    best, end = math.inf, time.perf_counter() + 0.35
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def random(*shape: int, last: bool = False) -> np.ndarray:
    """Normal float32 numbers; channels-last in memory if `last`."""
    if last:
        return to_front(random(shape[0], *shape[2:], shape[1]))
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def computing() -> list[tuple[str, Callable[[], object], float]]:
    """(name, call, multiply-adds) of kernels that the multipliers limit."""
    found: list[tuple[str, Callable[[], object], float]] = []
    for m, n, k in ((128, 512, 784), (32, 128, 1024), (512, 512, 512)):
        a, b = random(m, k), random(n, k).T
        found.append((f"product {m}x{k} by {k}x{n}", lambda a=a, b=b: product(a, b), m * n * k))
    for batch, inside, outside, size, kernel in CONVOLUTIONS:
        how = {"stride": (1, 1), "padding": (kernel // 2,) * 2, "dilation": (1, 1), "groups": 1}
        x, g = random(batch, inside, size, size, last=True), random(batch, outside, size, size, last=True)
        w = random(outside, inside, kernel, kernel)
        work = batch * size * size * w.size
        name = f"convolution {batch}x{inside}x{size}x{size} to {outside}, {kernel}x{kernel}"
        found += [
            (f"{name}: result", lambda x=x, w=w, how=how: conv_cpu.conv(x, w, None, **how), work),
            (f"{name}: input", lambda g=g, w=w, s=(size, size), how=how: conv_cpu.conv_input_grad(g, w, size=s, **how), work),
            (f"{name}: weights", lambda g=g, x=x, k=(kernel, kernel), how=how: conv_cpu.conv_weight_grad(g, x, kernel=k, **how),
             work),
        ]  # fmt: skip
    return found + recurrent()


def recurrent() -> list[tuple[str, Callable[[], object], float]]:
    """The steps of an LSTM and of a GRU, by the multiply-adds of their products."""
    found: list[tuple[str, Callable[[], object], float]] = []
    for steps, batch, size in ((64, 32, 128), (32, 64, 512)):
        plan, rows = steps_of((batch,) * steps, False), steps * batch
        states = random(batch + rows, size)
        g, own = random(batch + rows, size), random(rows, size)
        for name, count in (("LSTM", 4), ("GRU", 3)):
            gates, w, b = random(rows, count * size), random(count * size, size), random(count * size)
            if name == "LSTM":
                forward = functools.partial(lstm_cpu.forward, plan, gates, states, states.copy(), w, b)
                backward = functools.partial(lstm_cpu.backward, plan, g, g.copy(), w, gates, states)
            else:
                forward = functools.partial(gru_cpu.forward, plan, gates, states, own, w, b, b)
                backward = functools.partial(gru_cpu.backward, plan, g, w, gates, own, states[:batch], states[batch:])
            name, work = f"{name} of {size}, {steps} steps of {batch}", gates.size * size
            found += [(f"{name}: result", forward, work), (f"{name}: gates", backward, work)]
    return found


def slope(name: str) -> Callable[..., np.ndarray]:
    """The array-level gradient of an activation."""
    fast = OPS[name].rules["x"].fast
    assert fast is not None
    return fast


def moving() -> list[tuple[str, Callable[[], object], float]]:
    """(name, call, bytes read and written) of kernels that memory limits."""
    x, g = random(64, 64, 32, 32, last=True), random(64, 64, 32, 32, last=True)
    flat, size = random(1 << 22), x.nbytes
    rows, classes = flat.reshape(-1, 256), np.arange(flat.size // 256) * 7 % 256
    w, mean = random(64), random(64)
    pooled = pool_cpu.max_pool(x, **POOLING)
    params = [random(25_000) for _ in range(160)]
    table = Table([params, params, [p.copy() for p in params], [abs(p) for p in params], None])
    numbers = np.array([(-1e-3, 0.0, 1e-8, 1.0)] * len(params))
    adam = {"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 0.0, "decoupled_weight_decay": False, "maximize": False}
    return [
        ("relu", lambda: OPS["relu"].forward(np, x), 2 * size),
        ("relu, gradient", lambda: slope("relu")(np, g, x), 3 * size),
        ("gelu", lambda: OPS["gelu"].forward(np, flat, approximate="none"), 2 * flat.nbytes),
        ("gelu, gradient", lambda: slope("gelu")(np, flat, flat, "none"), 3 * flat.nbytes),
        ("sigmoid", lambda: OPS["sigmoid"].forward(np, flat), 2 * flat.nbytes),
        ("SiLU, gradient", lambda: slope("silu")(np, flat, flat), 3 * flat.nbytes),
        ("softmax of rows of 256", lambda: softmax_cpu.softmax(rows, dim=1), 2 * rows.nbytes),
        ("softmax, gradient", lambda: softmax_cpu.softmax_vjp(rows, rows, dim=1), 3 * rows.nbytes),
        ("cross-entropy of 256 classes", lambda: softmax_cpu.cross_entropy(rows, classes), 2 * rows.nbytes),
        (
            "embedding, gradient",
            lambda: embedding_cpu.embedding_grad(rows, classes, rows=256, padding_idx=None, by_frequency=False),
            2 * rows.nbytes,
        ),
        ("max pooling", lambda: pool_cpu.max_pool(x, **POOLING), size + pooled.nbytes),
        ("max pooling, gradient", lambda: pool_cpu.max_pool_vjp(pooled, pooled, x), 2 * size + 2 * pooled.nbytes),
        ("batch norm", lambda: norm_cpu.batch_norm(x, w, w, eps=1e-5), 3 * size),
        ("batch norm, sums of the gradient", lambda: norm_cpu.batch_norm_sums(g, x, mean), 2 * size),
        ("batch norm, gradient", lambda: norm_cpu.batch_norm_input_grad(g, x, mean, w, w, w), 3 * size),
        ("batch norm, eval", lambda: norm_cpu.affine(x, mean, w, w), 2 * size),
        ("Adam, 160 tensors", lambda: optim_cpu.moments(table, numbers, **adam), 7 * 160 * 25_000 * 4),
    ]


def main() -> None:
    """Print a line for each kernel."""
    print(settings(), "|", tdt.get_num_threads(), "threads")
    a, b = random(1536, 1536), random(1536, 1536)
    rate = 1536**3 / seconds(lambda: product(a, b))
    x, y = random(1 << 24), random(1 << 24)
    out = np.empty_like(x)
    bandwidth = 3 * x.nbytes / seconds(lambda: parallel(_add, x.size >> 16, x, y, out))
    print(f"peak: {2 * rate / 1e9:.0f} GFLOP/s, {bandwidth / 1e9:.1f} GB/s")
    for kernels, peak, unit, scale in ((computing(), rate, "GFLOP/s", 2e-9), (moving(), bandwidth, "GB/s", 1e-9)):
        for name, run, work in kernels:
            reached = work / seconds(run)
            print(f"{name:<52} {reached * scale:8.1f} {unit:<8} {reached / peak:4.0%}", flush=True)


if __name__ == "__main__":
    main(*arguments(__doc__))
