"""Convolution kernels and the training step of the digits CNN: ratio of tdt's time to PyTorch's.

python -m benchmarks.conv              # default threads, wall time
OMP_NUM_THREADS=1 python -m benchmarks.conv    # one thread, CPU time: not disturbed by a busy machine
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import torch

import tdt
from benchmarks._pairs import arguments, interval, settings

# (batch, in, out, size, kernel, padding)
LAYERS = [
    (64, 1, 32, 8, 3, 1),
    (64, 32, 64, 8, 3, 1),
    (64, 16, 16, 32, 3, 1),
    (64, 64, 64, 8, 3, 1),
    (16, 256, 256, 14, 3, 1),
    (16, 128, 128, 14, 1, 0),
]
CLOCK = time.process_time if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter


def compare(name: str, ours: Callable[[], object], theirs: Callable[[], object], work: float, pairs: int = 30) -> None:
    """A line: the ratio with its interval, both times, and our rate in 10⁹ multiplications and additions a second."""
    times: tuple[list, list] = ([], [])
    for i in range(pairs + 2):
        for which in (0, 1) if i % 2 else (1, 0):
            start = CLOCK()
            (ours, theirs)[which]()
            if i >= 2:  # the first two fetch code and memory
                times[which].append(CLOCK() - start)
    median, low, high = interval([a / b for a, b in zip(*times, strict=True)])
    our_ms, their_ms = (1e3 * float(np.median(t)) for t in times)
    rate = f"{work / our_ms / 1e6:6.0f} GFLOP/s" if work else ""
    print(f"{name:<46} {median:5.2f} [{low:.2f}, {high:.2f}]  {our_ms:7.2f} / {their_ms:7.2f} ms {rate}", flush=True)


def layer(batch: int, channels: int, out: int, size: int, kernel: int, padding: int, last: bool) -> None:
    """Three lines for a layer: result, input gradient, weight gradient."""
    shapes = (batch, channels, size, size), (out, channels, kernel, kernel), (out,), (batch, out, size, size)
    arrays = [np.random.default_rng(0).standard_normal(s, np.float32) for s in shapes]
    name = f"{batch}x{channels}x{size}x{size} -> {out}, {kernel}x{kernel}, {'channels-last' if last else 'contiguous'}"
    work = 2.0 * batch * out * size * size * channels * kernel * kernel
    runs = []
    for library in (tdt, torch):
        x, w, b, g = (library.from_numpy(a.copy()) for a in arrays)
        if last:
            x, g = (a.contiguous(memory_format=library.channels_last) for a in (x, g))
        runs.append(_passes(library, x, w, b, g, padding))
    for what, ours, theirs in zip(("result", "input gradient", "weight gradient"), *runs, strict=True):
        compare(f"{name}: {what}"[-46:], ours, theirs, work)


def _passes(library, x, w, b, g, padding) -> list[Callable[[], object]]:
    conv = library.nn.functional.conv2d
    inputs, weights = x.detach().requires_grad_(), w.detach().requires_grad_()
    of_input, of_weights = conv(inputs, w, b, padding=padding), conv(x, weights, b, padding=padding)
    return [
        lambda: conv(x, w, b, padding=padding),
        lambda: library.autograd.grad(of_input, inputs, g, retain_graph=True),
        lambda: library.autograd.grad(of_weights, weights, g, retain_graph=True),
    ]


def digits_step(library, last: bool) -> Callable[[], object]:
    """A training step of the digits CNN on a batch of 64."""
    nn = library.nn
    library.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10),
    )  # fmt: skip
    net = net.to(memory_format=library.channels_last) if last else net
    optimizer = library.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    x, y = library.randn(64, 1, 8, 8), library.randint(0, 10, (64,))
    loss = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss(net(x), y).backward()
        optimizer.step()

    return step


def main() -> None:
    """Print all lines."""
    if os.environ.get("OMP_NUM_THREADS") == "1":
        torch.set_num_threads(1)
    print(settings(), "| tdt / PyTorch, below 1 is faster")
    for last in (False, True):
        how = "channels-last" if last else "contiguous"
        compare(f"digits step, {how}", digits_step(tdt, last), digits_step(torch, last), 0, 100)
    for case in LAYERS:
        for last in (False, True):
            layer(*case, last)


if __name__ == "__main__":
    main(*arguments(__doc__))
