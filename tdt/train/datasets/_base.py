"""What data sets in memory share: items, whole batches, and how rows are shared out among the splits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import tdt
from tdt._tensor import wrap
from tdt.utils.data import Dataset

Split = Literal["train", "valid", "test"]


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


def check_split(owner: str, split: str | None, valid: float, test: float) -> None:
    """ValueError for a split or for shares that there cannot be."""
    if split not in (None, "train", "valid", "test"):
        raise ValueError(f"{owner}: split {split!r} is not one of train, valid, test")
    if min(valid, test) < 0 or valid + test >= 1:
        raise ValueError(f"{owner}: valid and test are shares that leave some for training, got {valid} and {test}")


def share_out(n: int, valid: float, test: float, seed: int | None) -> dict[str, np.ndarray]:
    """The indices of n rows in each split, ascending: of an order drawn with `seed`; without one in their own order."""
    sizes = {"test": round(n * test), "valid": round(n * valid)}
    order = np.arange(n) if seed is None else tdt.randperm(n, generator=tdt.Generator().manual_seed(seed)).numpy()
    kept = n - sum(sizes.values())
    parts = np.split(order, [kept, kept + sizes["valid"]])
    return {name: np.sort(part) for name, part in zip(("train", "valid", "test"), parts, strict=True)}
