"""Calls whose results PyTorch's CPU generator fixes, and the streams it gave for them.

`python -m tests.references.random_streams` (needs torch 2.13 on a processor that is not Intel's: there PyTorch draws
`bernoulli_(p)` from MKL) writes `random_streams.npz`, so that the tests hold without torch.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FILE = Path(__file__).with_suffix(".npz")
SEEDS = (0, 1, 42, 2**32 + 5, -1)
SIZES = (0, 1, 2, 7, 8, 15, 16, 17, 24, 31, 32, 33, 100, 1000)
EXACT = ("rand", "uniform", "randint", "random", "randperm", "bernoulli", "bernoulli_each")


class Call(NamedTuple):
    """One draw: what, how many, in which dtype, with which numbers."""

    what: str
    size: int
    dtype: str
    args: tuple = ()


FLOATS = ("float32", "float64")

# Each is made from a freshly seeded generator.
SINGLE = [
    *(Call("randn", n, dtype) for n in SIZES[:-2] for dtype in FLOATS),
    *(Call("rand", 33, dtype) for dtype in (*FLOATS, "float16")),
    *(Call("uniform", 33, dtype, (-0.3, 0.9)) for dtype in FLOATS),
    Call("uniform", 33, "float16", (-0.3, 0.9)),
    Call("normal", 24, "float32", (2.0, 3.0)),
    Call("normal", 7, "float64", (2.0, 3.0)),
    *(Call("randint", 20, "int64", ends) for ends in ((0, 10), (-5, 2**28 - 5), (0, 2**28 - 1), (7, 2**40))),
    *(Call("random", 9, dtype) for dtype in ("int64", "int32", "uint8", "bool", "float32", "float64")),
    *(Call("randperm", n, "int64") for n in (0, 1, 2, 17, 100)),
    Call("bernoulli", 40, "float32", (0.3,)),
    *(Call("bernoulli_each", 40, dtype) for dtype in FLOATS),
    *(Call("exponential", 17, dtype, (2.5,)) for dtype in FLOATS),
    Call("log_normal", 9, "float64", (0.2, 0.5)),
    Call("cauchy", 9, "float64", (0.0, 2.0)),
    Call("geometric", 30, "int64", (0.3,)),
]  # fmt: skip

# Made one after the other from one generator; the small normal draws leave and take each other's second halves.
SEQUENCE = [
    Call("randn", 1, "float32"), Call("rand", 3, "float64"), Call("randn", 2, "float64"), Call("randperm", 10, "int64"),
    Call("randn", 17, "float32"), Call("randn", 3, "float32"), Call("bernoulli", 5, "float32", (0.5,)),
    Call("randn", 16, "float64"), Call("randint", 3, "int64", (0, 100)), Call("exponential", 3, "float32", (1.0,)),
    Call("randn", 15, "float32"), Call("random", 1, "int64"), Call("randn", 100, "float32"),
    Call("rand", 1000, "float32"), Call("randn", 1, "float64"),
]  # fmt: skip


def torch_draw(torch: Any, generator: Any, call: Call) -> np.ndarray:
    """What PyTorch gives for `call`."""
    dtype, n, g = getattr(torch, call.dtype), call.size, generator
    empty = torch.empty(n, dtype=dtype)
    draws = {
        "rand": lambda: torch.rand(n, dtype=dtype, generator=g),
        "randn": lambda: torch.randn(n, dtype=dtype, generator=g),
        "uniform": lambda: empty.uniform_(*call.args, generator=g),
        "normal": lambda: empty.normal_(*call.args, generator=g),
        "randint": lambda: torch.randint(*call.args, (n,), dtype=dtype, generator=g),
        "random": lambda: empty.random_(generator=g),
        "randperm": lambda: torch.randperm(n, generator=g),
        "bernoulli": lambda: empty.bernoulli_(*call.args, generator=g),
        "bernoulli_each": lambda: torch.bernoulli(torch.linspace(0, 1, n, dtype=dtype), generator=g),
        "exponential": lambda: empty.exponential_(*call.args, generator=g),
        "log_normal": lambda: empty.log_normal_(*call.args, generator=g),
        "cauchy": lambda: empty.cauchy_(*call.args, generator=g),
        "geometric": lambda: empty.geometric_(*call.args, generator=g),
    }
    return draws[call.what]().numpy()


def digest(state: np.ndarray) -> bytes:
    """16 bytes that identify a generator's state."""
    return hashlib.sha256(state.tobytes()).digest()[:16]


def stored(seed: int) -> tuple[list[tuple[Call, np.ndarray]], list[tuple[Call, np.ndarray]], bytes]:
    """PyTorch's results for the calls of SINGLE and of SEQUENCE, and the digest of the state after SEQUENCE."""
    with np.load(FILE) as file:
        data = file[str(seed)].tobytes()
    results, position = [], 0
    for call in (*singles(seed), *SEQUENCE):
        dtype = np.dtype(call.dtype)
        results.append((call, np.frombuffer(data, dtype, call.size, position)))
        position += call.size * dtype.itemsize
    n = len(results) - len(SEQUENCE)
    return results[:n], results[n:], data[position:]


def singles(seed: int) -> list[Call]:
    """The calls that are stored for `seed`: the large ones for seed 0 only."""
    return SINGLE + [Call("randn", n, dtype) for n in SIZES[-2:] for dtype in FLOATS if seed == 0]


def main() -> None:
    import torch

    blobs = {}
    for seed in SEEDS:
        arrays = [torch_draw(torch, torch.Generator().manual_seed(seed), call) for call in singles(seed)]
        generator = torch.Generator().manual_seed(seed)
        arrays += [torch_draw(torch, generator, call) for call in SEQUENCE]
        blob = b"".join(a.tobytes() for a in arrays) + digest(generator.get_state().numpy())
        blobs[str(seed)] = np.frombuffer(blob, np.uint8)
    np.savez_compressed(FILE, **blobs)
    print(f"{FILE.name}: {FILE.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
