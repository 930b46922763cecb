"""`Generator`: a stream of random numbers with a seed and a state, and the default one of each device."""

from __future__ import annotations

import contextlib
import operator
import os
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt._backend import gpu, gpu_index, known_gpu
from tdt._backend.device import as_device, device
from tdt._random._mersenne import MersenneTwister
from tdt._random._philox import Philox

if TYPE_CHECKING:
    from tdt._core.tensor import Tensor

DEFAULT_SEED = 67280421310721  # the seed of PyTorch's unseeded generators


_on_cpu: weakref.WeakSet[Generator] = weakref.WeakSet()


class Generator:
    """A stream of pseudo-random numbers; pass it as `generator=` to any random function.

    On the CPU it is MT19937 and gives PyTorch's numbers for PyTorch's seeds; on a GPU it is Philox4x32-10. A lock makes
    each draw whole when threads share one. RuntimeError for the device "meta".

    >>> import tdt
    >>> g = tdt.Generator().manual_seed(0)
    >>> tdt.rand(2, generator=g)
    tensor([0.4963, 0.7682])
    """

    def __init__(self, device: device | str | int = "cpu") -> None:
        self.device = as_device(device)
        self.lock = threading.RLock()
        self.engine = _engine(self.device, DEFAULT_SEED)
        if self.device.type == "cpu":
            _on_cpu.add(self)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` and return self. A negative seed counts down from 2⁶⁴.

        Raises:
            RuntimeError: when `seed` is not an integer.
            ValueError: when it is outside [-2⁶³, 2⁶⁴).
        """
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        number = operator.index(seed)
        if not -(2**63) <= number < 2**64:
            raise ValueError(f"Overflow when unpacking long long: a seed lies in [-2**63, 2**64), got {number}")
        with self.lock:
            self.engine.seed(number % 2**64)
        return self

    def seed(self) -> int:
        """Seed the generator with a random seed from the operating system; returns the seed."""
        number = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """The seed of the generator."""
        return self.engine.initial_seed

    def fill(self, out: np.ndarray, how: str, numbers: tuple[float, ...]) -> bool:
        """Fill a contiguous array of NumPy's as `MersenneTwister.fill` says; False, with nothing drawn, where no kernel does."""
        with self.lock:
            return self.engine.fill(out, how, numbers)

    def filled(
        self, shape: tuple[int, ...], dtype: np.dtype, how: str, numbers: tuple[float, ...]
    ) -> np.ndarray | None:
        """A new array that is filled so; None where no kernel does."""
        if not isinstance(self.engine, MersenneTwister):
            with self.lock:
                return self.engine.filled(shape, dtype, how, numbers)
        out = np.empty(shape, dtype)
        return out if self.fill(out, how, numbers) else None

    def state_array(self) -> np.ndarray:
        """The state as a NumPy uint8 array: 5056 bytes in PyTorch's layout, or 16 for a GPU's generator."""
        with self.lock:
            return self.engine.state()

    def set_state_array(self, state: np.ndarray) -> None:
        """Restore the state of `state_array()`; RuntimeError for an invalid size or content."""
        with self.lock:
            self.engine.set_state(state)

    def get_state(self) -> Tensor:
        """The state as a uint8 tensor; `torch.set_rng_state` takes the CPU generator's, and the other way round."""
        from tdt._core.tensor import wrap

        return wrap(self.state_array())

    def set_state(self, new_state: Tensor) -> Generator:
        """Continue from a state of `get_state()`, and return self.

        Raises:
            TypeError: when `new_state` is not a uint8 tensor on the CPU.
        """
        from tdt._core.tensor import Tensor

        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a tdt.ByteTensor, but got {type(new_state).__qualname__}")
        if new_state.dtype.np != np.uint8 or new_state.device.type != "cpu":
            raise TypeError(f"RNG state must be a tdt.ByteTensor on the CPU, got {new_state.dtype}")
        self.set_state_array(new_state._a)
        return self

    def clone_state(self) -> Generator:
        """A new generator with a copy of this generator's state."""
        clone = Generator(self.device)
        clone.set_state_array(self.state_array())
        return clone

    def get_offset(self) -> int:
        """The number of blocks of four words that a GPU generator has produced; RuntimeError on the CPU."""
        return self._philox().offset

    def set_offset(self, offset: int) -> Generator:
        """Set the position of a GPU generator to block `offset`; RuntimeError on the CPU."""
        self._philox().offset = operator.index(offset)
        return self

    def _philox(self) -> Philox:
        if not isinstance(self.engine, Philox):
            raise RuntimeError("CPU Generator does not use offset; use get_state() and set_state()")
        return self.engine

    def __getstate__(self) -> tuple[str, np.ndarray]:
        return str(self.device), self.state_array()

    def __setstate__(self, saved: tuple[str, np.ndarray]) -> None:
        self.__init__(saved[0])  # type: ignore[misc]
        self.set_state_array(saved[1])

    def renew_locks(self) -> None:
        """Replace the locks in a forked child: another thread of the parent may have held the old ones."""
        state = self.engine.state()
        self.lock, self.engine = threading.RLock(), _engine(self.device, DEFAULT_SEED)
        self.engine.set_state(state)


def _engine(where: device, seed: int) -> Any:
    if where.type == "cpu":
        return MersenneTwister(seed)
    if where.type == "cuda":
        known_gpu(where)
        return Philox(seed, gpu())
    raise RuntimeError(f"Generator: device {where} has no random numbers; use 'cpu' or 'cuda'")


default_generator = Generator()
_cuda: dict[int, Generator] = {}  # created on first use, with the seed of the CPU's


def _renew_all() -> None:
    for generator in [*_on_cpu]:
        generator.renew_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


def cuda_generator(index: int) -> Generator:
    """The default generator of GPU `index`."""
    if index not in _cuda:
        _cuda[index] = Generator(f"cuda:{index}").manual_seed(default_generator.initial_seed())
    return _cuda[index]


def generator_for(generator: Generator | None, where: device) -> Generator:
    """`generator`, or the default one of the device `where`; RuntimeError when its device is another, TypeError for what
    is no generator.
    """
    if generator is None:
        return default_generator if where.type != "cuda" else cuda_generator(gpu_index(where))
    if not isinstance(generator, Generator):
        raise TypeError(f"generator must be a tdt.Generator, not {type(generator).__name__}")
    if generator.device.type != where.type and where.type != "meta":
        raise RuntimeError(f"Expected a '{where.type}' device type for generator but found '{generator.device.type}'")
    return generator


def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices; returns the CPU's.

    >>> import tdt
    >>> _ = tdt.manual_seed(0); tdt.randint(10, (3,))
    tensor([4, 9, 3])
    """
    default_generator.manual_seed(int(seed))
    for generator in _cuda.values():
        generator.manual_seed(int(seed))
    return default_generator


def seed() -> int:
    """Seed every default generator from the operating system's randomness and return that seed.

    >>> import tdt
    >>> tdt.seed() == tdt.initial_seed()
    True
    """
    number = default_generator.seed()
    for generator in _cuda.values():
        generator.manual_seed(number)
    return number


def initial_seed() -> int:
    """The seed from which the default CPU generator started.

    >>> import tdt
    >>> _ = tdt.manual_seed(3); tdt.initial_seed()
    3
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default CPU generator, as bytes in PyTorch's layout.

    Shape: result (5056), uint8.

    >>> import tdt
    >>> tdt.get_rng_state().shape
    tdt.Size([5056])
    """
    return default_generator.get_state()


def position() -> tuple[np.ndarray, float | None, int]:
    """Where the default CPU generator is in its stream, in a fiftieth of the time of `get_rng_state`."""
    engine: Any = default_generator.engine
    return engine.words.copy(), engine.cached, engine.initial_seed


def moved_since(before: tuple[np.ndarray, float | None, int]) -> bool:
    """Whether the default CPU generator is elsewhere than at an earlier `position()`; then it goes back there."""
    engine: Any = default_generator.engine
    words, cached, seed = before
    if engine.cached == cached and engine.initial_seed == seed and np.array_equal(engine.words, words):
        return False
    engine.cached, engine.initial_seed = cached, seed
    engine.words[:] = words
    return True


def set_rng_state(new_state: Tensor) -> None:
    """Continue the default CPU generator from a state of `get_rng_state()`.

    Shape: new_state (5056), uint8.

    >>> import tdt
    >>> state = tdt.get_rng_state()
    >>> first = tdt.rand(1); tdt.set_rng_state(state); bool(first == tdt.rand(1))
    True
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[int] | None = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:  # fmt: skip
    """Context manager that restores the states of the default generators at its end.

    devices: the GPUs to include, by default those whose generators are in use. With enabled=False nothing is done.
    RuntimeError for a `device_type` without random numbers.

    >>> import tdt
    >>> _ = tdt.manual_seed(0)
    >>> with tdt.random.fork_rng():
    ...     _ = tdt.rand(100)
    >>> tdt.rand(1)
    tensor([0.4963])
    """
    if device_type not in ("cpu", "cuda"):
        raise RuntimeError(f"fork_rng: device_type must be 'cuda' or 'cpu', got {device_type!r}")
    if not enabled:
        yield
        return
    chosen = _cuda.values() if devices is None else [cuda_generator(index) for index in devices]
    saved = [(generator, generator.state_array()) for generator in (default_generator, *chosen)]
    try:
        yield
    finally:
        for generator, state in saved:
            generator.set_state_array(state)
