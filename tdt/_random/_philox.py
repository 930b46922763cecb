"""Philox4x32-10, a counter-based generator (Salmon et al., *Parallel Random Numbers: As Easy as 1, 2, 3*, 2011).

Word `i` of a stream depends on the seed and `i` alone, so a GPU computes all words of a draw at once. It is written in
array arithmetic that runs on NumPy and CuPy alike; on NumPy the tests hold it to the authors' known answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt._kernels import always, capture_gpu, chosen, gpu_kernel
from tdt._random._mersenne import WIDE_RANGE

_WORDS = (gpu_kernel("random_gpu:words", always),)
# By the way of drawing: the dtypes of its kernel, and the kernel.
FLOATS = frozenset((np.dtype(np.float32), np.dtype(np.float64)))
_FILLED = {
    "uniform": (FLOATS, (gpu_kernel("random_gpu:uniform", always),)),
    "normal": (FLOATS, (gpu_kernel("random_gpu:normal", always),)),
    "integers": (frozenset((np.dtype(np.int64),)), (gpu_kernel("random_gpu:integers", always),)),
}
_FILLED["pairs"] = _FILLED["normal"]

MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox4x32(counter: tuple[Any, Any, Any, Any], key: tuple[int, int]) -> tuple[Any, Any, Any, Any]:
    """The four words of each counter. `counter`: four uint64 arrays holding 32-bit words; likewise the result."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        p, q = a * np.uint64(MULTIPLIERS[0]), c * np.uint64(MULTIPLIERS[1])
        a, b, c, d = (
            (q >> np.uint64(32)) ^ b ^ np.uint64(k0),
            q & np.uint64(MASK),
            (p >> np.uint64(32)) ^ d ^ np.uint64(k1),
            p & np.uint64(MASK),
        )
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    return a, b, c, d


class Philox:
    """32-bit words from Philox4x32-10 in arrays of `xp`; `offset` counts the blocks of four words handed out."""

    cached = None  # a counter-based stream caches no second number of a pair

    def __init__(self, seed: int, xp: Any) -> None:
        self.xp = xp
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Seed the generator."""
        self.initial_seed = seed
        self.offset = 0

    def take(self, n: int) -> tuple[int, int, Any]:
        """Seed and block at which the next `n` words begin, for a kernel that computes them; later draws go on behind.

        Third: None; in a CUDA graph, an array with seed and block from which that block counts, see `capture_gpu.Draws`.
        """
        if (capture := capture_gpu.current()) is not None:
            return capture.draws(self).take(-(-n // 4))
        offset = self.offset
        self.offset += -(-n // 4)
        return self.initial_seed, offset, None

    def filled(self, shape: tuple[int, ...], dtype: np.dtype, how: str, numbers: tuple) -> Any:
        """A new array of numbers that a kernel draws; None where none does."""
        dtypes, kernels = _FILLED.get(how, (frozenset(), ()))
        fast = chosen(kernels, self.xp) if dtype in dtypes else None
        if how == "integers":
            numbers = *numbers, numbers[1] - numbers[0] >= WIDE_RANGE
        return fast and fast(self, shape, dtype, *numbers)

    def raw(self, n: int) -> Any:
        """The next `n` 32-bit words, in uint64. A draw begins a new block of four."""
        xp, blocks = self.xp, -(-n // 4)
        seed, offset, place = self.take(n)
        if fast := chosen(_WORDS, xp):
            return fast(seed, offset, place, n)
        if place is not None:
            raise RuntimeError("random numbers in a CUDA graph need kernels: unset TDT_KERNELS=reference")
        index = xp.arange(offset, offset + blocks, dtype=np.uint64)
        zero = xp.zeros_like(index)
        counter = (index & np.uint64(MASK), index >> np.uint64(32), zero, zero)
        words = philox4x32(counter, (self.initial_seed & MASK, self.initial_seed >> 32))
        return xp.stack(words, 1).reshape(-1)[:n]

    def raw64(self, n: int) -> Any:
        """The next `n` 64-bit words, in uint64."""
        pairs = self.raw(2 * n)
        return (pairs[0::2] << np.uint64(32)) | pairs[1::2]

    def state(self) -> np.ndarray:
        """Seed and offset as uint8 (16,)."""
        return np.array([self.initial_seed, self.offset], np.uint64).view(np.uint8)

    def set_state(self, state: np.ndarray) -> None:
        """Restore `state`; RuntimeError unless it has 16 bytes."""
        if state.size != 16:
            raise RuntimeError(f"RNG state is wrong size: a GPU generator's has 16 bytes, got {state.size}")
        self.initial_seed, self.offset = (int(v) for v in np.ascontiguousarray(state).reshape(-1).view(np.uint64))
