"""Overhead of ops on tiny tensors: ratio of tdt's time to PyTorch's, for forward with autograd, and backward per node.

python -m benchmarks.small_ops
"""

from __future__ import annotations

import numpy as np
import torch

import tdt
from benchmarks._pairs import arguments, ratios, report, settings, timed

LENGTH = 100
OPS = {
    "x + y": lambda z, y: z + y,
    "x * y": lambda z, y: z * y,
    "x * 1.01": lambda z, y: z * 1.01,
    "tanh": lambda z, y: z.tanh(),
    "sigmoid": lambda z, y: z.sigmoid(),
    "matmul": lambda z, y: z @ y,
    "reshape": lambda z, y: z.reshape(4, 4),
    "transpose": lambda z, y: z.transpose(0, 1),
}


def chain(library, op, length):
    """A function that applies `op` `length` times to a 4×4 leaf, and the gradient to start from."""
    values = np.random.default_rng(0).uniform(0.2, 0.9, (2, 4, 4)).astype(np.float32) / 4
    x, y = (library.tensor(v.tolist()).requires_grad_() for v in values)
    seed = library.ones(4, 4)

    def forward():
        z = x
        for _ in range(length):
            z = op(z, y)
        return z

    return forward, seed


def main() -> None:
    """Print a line for each op and direction."""
    torch.set_num_threads(1)
    print(settings())
    for name, op in OPS.items():
        ours, our_seed = chain(tdt, op, LENGTH)
        theirs, their_seed = chain(torch, op, LENGTH)
        report(f"{name}, forward", ratios(timed(ours, 20), timed(theirs, 20), 40))

        def backward(forward, seed):
            def measure() -> float:
                ends = [forward() for _ in range(20)]
                return timed(lambda: ends.pop().backward(seed), 20)()

            return measure

        report(f"{name}, backward", ratios(backward(ours, our_seed), backward(theirs, their_seed), 40))


if __name__ == "__main__":
    main(*arguments(__doc__))
