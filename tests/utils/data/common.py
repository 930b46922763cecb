"""What the loader's tests share: the same program for PyTorch and for tdt, and datasets for it."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

import tdt._random as R
import tdt.utils.data as data
from tests.helpers import require_torch


def tdt_side() -> SimpleNamespace:
    return SimpleNamespace(
        data=data,
        manual_seed=R.manual_seed,
        Generator=R.Generator,
        rand=lambda: float(R.uniform(R.default_generator, (), np.float32)),
        state=R.default_generator.state_array,
    )


def torch_side() -> SimpleNamespace:
    torch = require_torch()
    return SimpleNamespace(
        data=torch.utils.data,
        manual_seed=torch.manual_seed,
        Generator=torch.Generator,
        rand=lambda: torch.rand(()).item(),
        state=lambda: torch.get_rng_state().numpy(),
    )


class Numbers(data.Dataset):
    """Sample `i` is the int `i`."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return self.length


class Noisy(Numbers):
    """Sample `i` is (i, a draw of the library's generator, one of NumPy's, one of Python's): an augmentation."""

    def __init__(self, length: int, side: Any = None) -> None:
        super().__init__(length)
        self.side = side
        self.reads = 0

    def __getitem__(self, index: int) -> tuple[int, float, float, float]:
        self.reads += 1
        return index, (self.side or tdt_side()).rand(), np.random.rand(), random.random()


def plain(batch: Any) -> Any:
    """A batch as nested lists and tuples of Python values."""
    if hasattr(batch, "tolist"):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: plain(value) for key, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return [plain(part) for part in batch]
    return batch
