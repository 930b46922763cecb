"""The states of a process's random generators, as NumPy uint8 arrays."""

from __future__ import annotations

import array
import random
from typing import Any

import numpy as np

from tdt._core.tensor import Tensor, wrap
from tdt._random import default_generator, manual_seed

States = dict[str, np.ndarray]


def capture() -> States:
    """The states of tdt's default generator, of NumPy's global one, and of Python's `random`."""
    _, words, gauss = random.getstate()
    python = array.array("I", words).tobytes() + np.array([gauss is not None, gauss or 0.0]).tobytes()
    _, key, position, has_gauss, cached = np.random.get_state()
    numpy = np.asarray(key, np.uint32).tobytes() + np.array([position, has_gauss, cached], np.float64).tobytes()
    return {
        "tdt": default_generator.state_array(),
        "numpy": np.frombuffer(numpy, np.uint8),
        "python": np.frombuffer(python, np.uint8),
    }


def restore(states: States) -> None:
    """Restore the generator states of `capture()`."""
    default_generator.set_state_array(states["tdt"])
    numpy = np.ascontiguousarray(states["numpy"])
    position, has_gauss, cached = numpy[-24:].view(np.float64)
    np.random.set_state(("MT19937", numpy[:-24].view(np.uint32), int(position), int(has_gauss), float(cached)))
    python = np.ascontiguousarray(states["python"])
    valid, gauss = python[-16:].view(np.float64)
    random.setstate((3, tuple(python[:-16].view(np.uint32).tolist()), float(gauss) if valid else None))


def same(a: States | None, b: States | None) -> bool:
    """Whether two states are equal."""
    return a is not None and b is not None and all(np.array_equal(a[name], b[name]) for name in a)


def seed_worker(base_seed: int, worker: int) -> None:
    """Seed the three generators as PyTorch does in worker number `worker`."""
    seed = base_seed + worker
    random.seed(seed)
    manual_seed(seed)
    words: Any = np.random.SeedSequence([worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4)
    np.random.seed(words)


def as_tensors(value: Any) -> Any:
    """Replace arrays by tensors in nested containers.

    >>> import numpy as np
    >>> from tdt.utils.data._states import as_tensors
    >>> as_tensors({"order": np.zeros(2, np.uint8), "drawn": 1})
    {'order': tensor([0, 0], dtype=tdt.uint8), 'drawn': 1}
    """
    if isinstance(value, np.ndarray):
        return wrap(value.copy())
    if isinstance(value, dict):
        return {key: as_tensors(item) for key, item in value.items()}
    return [as_tensors(item) for item in value] if isinstance(value, list) else value


def as_arrays(value: Any) -> Any:
    """Replace tensors by arrays in nested containers: the inverse of `as_tensors`."""
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, dict):
        return {key: as_arrays(item) for key, item in value.items()}
    return [as_arrays(item) for item in value] if isinstance(value, list) else value
