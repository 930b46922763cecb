"""What data sets in memory share: items and whole batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt._tensor import wrap
from tdt.utils.data import Dataset


class Arrays(Dataset):
    """Row i of two arrays: items are (input, target), tensors, but a class number is an int.

    as_arrays: inputs stay NumPy arrays, as images do until ToTensor.
    """

    data: np.ndarray
    targets: np.ndarray
    as_arrays = False

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        inputs, target = self.data[index], self.targets[index]
        return inputs if self.as_arrays else wrap(inputs.copy()), int(target) if is_class(target) else wrap(
            np.array(target)
        )

    def batch(self, indices: Sequence[int] | slice | np.ndarray) -> tuple[Any, Any]:
        """The items of `indices` at once, as tensors (n, …)."""
        return wrap(np.array(self.data[indices])), wrap(np.array(self.targets[indices]))


def is_class(target: Any) -> bool:
    """Whether a target is the number of a class."""
    return np.ndim(target) == 0 and np.issubdtype(np.asarray(target).dtype, np.integer)
