"""Base of datasets in memory: items and whole batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._core.tensor import wrap
from tdt.train.data.nested import leaves, mapped
from tdt.utils.data import Dataset


class Arrays(Dataset):
    """A dataset over two arrays: item i is (input, target), tensors, but a class number is an int.

    Inputs or targets may be several arrays by name; then so are those of an item.
    as_arrays: keep inputs as NumPy arrays, for image transforms.
    """

    data: Any
    targets: Any
    as_arrays = False

    def __len__(self) -> int:
        return len(next(leaves(self.data)))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        inputs = mapped(lambda rows: rows[index] if self.as_arrays else wrap(rows[index].copy()), self.data)
        return inputs, mapped(lambda rows: _target(rows[index]), self.targets)

    def batch(self, indices: Sequence[int] | slice | np.ndarray) -> tuple[Any, Any]:
        """The items at `indices` as one batch of tensors (n, …)."""
        return mapped(lambda rows: wrap(np.array(rows[indices])), (self.data, self.targets))


def _target(target: Any) -> Any:
    return int(target) if is_class(target) else wrap(np.array(target))


def is_class(target: Any) -> bool:
    """Whether a target is a class number."""
    return np.ndim(target) == 0 and np.issubdtype(np.asarray(target).dtype, np.integer)
