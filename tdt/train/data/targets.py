"""The targets of a whole dataset as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import Tensor
from tdt.train.data.nested import leaves, mapped
from tdt.utils.data import default_collate


def targets_of(dataset: Any) -> Any:
    """The targets of all samples as arrays (n, …), nested as they are in a sample. Reads the samples if it has to.

    Raises ValueError if they have different shapes.
    """
    known = known_targets(dataset)
    if known is not None:
        return known
    try:
        return mapped(_array, default_collate([dataset[i][1] for i in range(len(dataset))]))
    except RuntimeError as error:
        raise ValueError(f"the targets of the samples do not form an array: {error}") from error


def known_targets(dataset: Any) -> Any:
    """The dataset's attribute `targets` as arrays, if it is that: a row for each sample, the first one as in a sample."""
    known = getattr(dataset, "targets", None)
    if known is None:
        return None
    try:
        arrays = {key: _array(part) for key, part in known.items()} if isinstance(known, dict) else _array(known)
    except ValueError:  # rows of different lengths
        return None
    if any(rows.shape[:1] != (len(dataset),) for rows in leaves(arrays)):
        return None
    of_first = [rows[0] for rows in leaves(arrays)], [_array(part) for part in leaves(dataset[0][1])]
    same = len(of_first[0]) == len(of_first[1]) and all(
        np.array_equal(row, part, equal_nan=is_float(row)) for row, part in zip(*of_first, strict=True)
    )
    return arrays if same else None


def _array(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def is_float(values: np.ndarray) -> bool:
    """Whether values are floating-point numbers."""
    return values.dtype.kind == "f"
