"""The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), positioned and stored as PyTorch's CPU generator is.

NumPy produces the words. Its seeding by Knuth's recurrence (`init_genrand`) is reachable only through
`_legacy_seeding`, a private name: this file is the one place that uses it, and tests hold it to a known stream.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from tdt._kernels import LARGE_DRAW, chosen, kernel, large_draw
from tdt._kernels._launches import WATCH

WORDS = 624  # the size of the state, and of the batches in which words are computed

# PyTorch's `get_state()` of a CPU generator: 5056 bytes, little-endian, as its C++ structs lie in memory.
STATE = np.dtype(
    {
        "names": ["seed", "left", "seeded", "next", "key", "normal", "normal_valid", "normal32", "normal32_valid"],
        "formats": ["<u8", "<i4", "<i4", "<u8", ("<u8", WORDS), "<f8", "<i4", "<f4", "u1"],
        "offsets": [0, 8, 12, 16, 24, 5024, 5040, 5048, 5052],
        "itemsize": 5056,
    }
)


@functools.cache
def _unseeded() -> Any:
    """Replaces a SeedSequence if the state is set afterwards: mixing a real one takes 0.1 ms, noticeable per epoch."""
    from numpy.random.bit_generator import ISeedSequence

    class Unseeded(ISeedSequence):
        def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
            return np.ones(n_words, dtype)

    return Unseeded()


_WORDS = (kernel("mersenne_cpu:words", large_draw),)
_PAIRS = (kernel("mersenne_cpu:pairs", large_draw),)
_DRAW = (kernel("mersenne_cpu:draw", large_draw),)


class MersenneTwister:
    """32-bit words from MT19937; `cached` is the second half of a Box–Muller pair, for the next small normal draw.

    Attributes:
        seeds: how often it was seeded, or given a state.
    """

    xp: Any = np
    seeds = 0

    def __init__(self, seed: int) -> None:
        self._generator: Any = None
        self._words: tuple[int, Any] = 0, None
        self.seed(seed)

    @property
    def _bits(self) -> Any:
        """NumPy's generator, created at the first draw: importing numpy.random would add 10 ms to `import tdt`."""
        if self._generator is None:
            generator: Any = np.random.MT19937(_unseeded())
            generator._legacy_seeding(self.initial_seed & 0xFFFFFFFF)
            self._generator = generator
        return self._generator

    @property
    def words(self) -> np.ndarray:
        """A view of NumPy's state: 624 words, and the position of the next one."""
        address = self._bits.ctypes.state_address
        if self._words[0] != address:  # new, or that of the generator that this one is a copy of
            self._words = address, np.ctypeslib.as_array((ctypes.c_uint32 * (WORDS + 1)).from_address(address))
        return self._words[1]

    def seed(self, seed: int) -> None:
        """Seed the generator; MT19937 uses the low 32 bits."""
        self.initial_seed = seed
        self.seeds += 1
        self.cached: float | None = None
        if self._generator is not None:
            self._generator._legacy_seeding(seed & 0xFFFFFFFF)

    def raw(self, n: int) -> np.ndarray:
        """The next `n` 32-bit words, in uint64."""
        if n >= LARGE_DRAW and (fast := chosen(_WORDS, np, self.words, n=n)):
            return fast(self.words, n)
        return self._bits.random_raw(n)

    def drawn(self, n: int, how: str, dtype: Any, low: float = 0.0, high: float = 1.0, bound: int = 0) -> Any:
        """`n` numbers computed as they are drawn, as `mersenne_cpu.draw` says; None where there are few, or kernels are off.

        Few are drawn so too where somebody watches what kernels launch.
        """
        many = n if WATCH.own() is None else max(n, LARGE_DRAW)
        if many < LARGE_DRAW or (fast := chosen(_DRAW, np, self.words, n=many)) is None:
            return None
        return fast(self.words, n, how, dtype, low, high, bound)

    def raw64(self, n: int) -> np.ndarray:
        """The next `n` 64-bit words (uint64); of the two draws for each, the first is the high half."""
        if 2 * n >= LARGE_DRAW and (fast := chosen(_PAIRS, np, self.words, n=2 * n)):
            return fast(self.words, n)
        pairs = self._bits.random_raw(2 * n)
        high = pairs[0::2] << np.uint64(32)
        high |= pairs[1::2]
        return high

    def state(self) -> np.ndarray:
        """The state as uint8 (5056,), equal byte for byte to PyTorch's after the same calls."""
        inner: Any = self._bits.state["state"]
        key, position = inner["key"], int(inner["pos"])
        # A new stream has generated no outputs yet; its first word is still the seed itself.
        fresh = position == WORDS and int(key[0]) == self.initial_seed & 0xFFFFFFFF
        record = np.zeros(1, STATE)
        record["seed"], record["seeded"], record["key"] = self.initial_seed, 1, key
        record["left"], record["next"] = WORDS + 1 - position, 0 if fresh else position
        if self.cached is not None:
            record["normal"], record["normal_valid"] = self.cached, 1
        return record.view(np.uint8)

    def set_state(self, state: np.ndarray) -> None:
        """Restore `state`; RuntimeError unless it has 5056 bytes."""
        if state.size != STATE.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE.itemsize} but found the input RNG state size to be "
                f"{state.size}; pass what get_state() of a CPU generator gave"
            )
        record = np.ascontiguousarray(state).reshape(-1).view(STATE)[0]
        if record["seeded"] != 1 or not 1 <= record["left"] <= WORDS or record["next"] > WORDS:
            raise RuntimeError("Invalid mt19937 state; pass what get_state() of a CPU generator gave")
        inner: Any = {"key": record["key"].astype(np.uint32), "pos": WORDS + 1 - int(record["left"])}
        self._bits.state = {"bit_generator": "MT19937", "state": inner}
        self.initial_seed = int(record["seed"])
        self.seeds += 1
        self.cached = float(record["normal"]) if record["normal_valid"] else None
