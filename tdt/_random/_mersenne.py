"""The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), positioned and stored as PyTorch's CPU generator is.

NumPy produces the words. Its seeding by Knuth's recurrence (`init_genrand`) is reachable only through
`_legacy_seeding`, a private name: this file is the one place that uses it, and tests hold it to a known stream.
"""

from __future__ import annotations

import ctypes
import functools
from math import copysign
from typing import Any

import numpy as np

from tdt._kernels import LARGE_DRAW, UFUNCS, chosen, kernel, large_draw
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


_KERNELS = {name: (kernel(f"mersenne_cpu:{name}", large_draw),)
            for name in ("words", "pairs", "draw", "flips")}  # fmt: skip
_KERNELS |= {name: (kernel(f"counts_cpu:{name}", large_draw),) for name in ("filler", "prepared_choices")}
_OFTEN = 50  # small draws after which their kernel is loaded, which takes as long as some hundred of them
_ready: dict[str, Any] = {}  # kernels that are loaded
_fillers: dict[tuple, Any] = {}  # what `filler` gave
_small_draws = dict.fromkeys(_KERNELS, 0)
MOST_FILLERS = 1000
UFUNCS += [_ready, _fillers]
WIDE_RANGE = 1 << 28  # from this range on, an integer takes a 64-bit draw
STANDARD = 0.0, 1.0  # the ends of uniform numbers, mean and deviation of normal ones


def _kernel_for(name: str, n: int) -> Any:
    """The kernel that draws `n` numbers; None where they are few and it is not loaded, or kernels are off.

    Few are drawn by it too where somebody watches what kernels launch.
    """
    found = _ready.get(name)
    if found is None:
        _small_draws[name] += 1
        many = _small_draws[name] > _OFTEN or WATCH.own() is not None
        found = chosen(_KERNELS[name], np, n=max(n, LARGE_DRAW) if many else n)
        if found is not None:
            _ready[name] = found
    return found


class MersenneTwister:
    """32-bit words from MT19937.

    Attributes:
        cached: the second half of a Box–Muller pair, for the next small normal draw.
        seeds: how often it was seeded, or given a state.
    """

    xp: Any = np
    seeds = 0

    def __init__(self, seed: int) -> None:
        self._generator: Any = None
        self._words: tuple[int, Any] = 0, None
        self._spare = np.zeros(2)  # the number that is `cached`, and 1, or 0 if none is
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
    def cached(self) -> float | None:
        value, used = self._spare.tolist()
        return value if used else None

    @cached.setter
    def cached(self, value: float | None) -> None:
        self._spare[:] = (0.0, 0.0) if value is None else (value, 1.0)

    @property
    def words(self) -> np.ndarray:
        """A view of NumPy's state: 624 words, and the position of the next one."""
        owner, words = self._words
        if owner != id(self._generator):  # new, or that of the generator that this one is a copy of
            address = self._bits.ctypes.state_address
            words = np.ctypeslib.as_array((ctypes.c_uint32 * (WORDS + 1)).from_address(address))
            self._words = id(self._generator), words
        return words

    def seed(self, seed: int) -> None:
        """Seed the generator; MT19937 uses the low 32 bits."""
        self.initial_seed = seed
        self.seeds += 1
        self.cached = None
        if self._generator is not None:
            self._generator._legacy_seeding(seed & 0xFFFFFFFF)

    def raw(self, n: int) -> np.ndarray:
        """The next `n` 32-bit words, in uint64."""
        fast = _kernel_for("words", n)
        return fast(self.words, n) if fast else self._bits.random_raw(n)

    def drawn(self, n: int, how: str, dtype: Any, low: float = 0.0, high: float = 1.0, bound: int = 0) -> Any:
        """`n` numbers computed as they are drawn, as `mersenne_cpu.draw` says; None where no kernel draws them."""
        fast = _kernel_for("draw", n)
        return fast and fast(self.words, n, how, dtype, low, high, bound)

    def fill(self, out: np.ndarray, how: str, numbers: tuple[float, ...]) -> bool:
        """Fill a contiguous array as `counts_cpu.filler` says; False, with nothing drawn, where no kernel does."""
        # 0.0 and -0.0 are equal.
        signs = None if numbers is STANDARD or all(numbers) else tuple([copysign(1, number) for number in numbers])
        key = how, out.dtype, out.size, numbers, signs
        found = _fillers.get(key)
        if found is None:
            prepare = _kernel_for("filler", out.size)
            if prepare is None:
                return False
            wide = how == "integers" and numbers[1] - numbers[0] >= WIDE_RANGE
            found = prepare(how, out.dtype, out.size, numbers, wide)
            if found is None:
                return False
            if len(_fillers) >= MOST_FILLERS:
                _fillers.clear()
            _fillers[key] = found
        run, takes_spare = found
        if takes_spare:
            WATCH.lose()  # a tape would not know of `cached`
            run(self.words, self._spare, out)
        else:
            run(self.words, out)
        return True

    def flips(self, probabilities: np.ndarray) -> Any:
        """What `mersenne_cpu.flips` gives; False where no kernel draws them."""
        fast = _kernel_for("flips", probabilities.size)
        return fast(self.words, probabilities) if fast else False

    def prepared_choices(self, weights: np.ndarray, count: int) -> Any:
        """What `counts_cpu.prepared_choices` gives for weights of this type and shape; None where it is not used."""
        fast = _kernel_for("prepared_choices", 2 * weights.size // weights.shape[-1] * count)
        return fast and fast(weights.dtype, weights.shape, count)

    def raw64(self, n: int) -> np.ndarray:
        """The next `n` 64-bit words (uint64); of the two draws for each, the first is the high half."""
        if fast := _kernel_for("pairs", 2 * n):
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
