"""Divides samples into the splits train, valid and test."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

import tdt

Split = Literal["train", "valid", "test"]
SPLITS = ("train", "valid", "test")


def check_split(owner: str, split: str | None, valid: float, test: float) -> None:
    """Raise ValueError for an unknown split, or for fractions that leave nothing for training."""
    if split not in (None, "train", "valid", "test"):
        raise ValueError(f"{owner}: split {split!r} is not one of train, valid, test")
    if min(valid, test) < 0 or valid + test >= 1:
        raise ValueError(f"{owner}: valid and test must be fractions with a sum below 1, got {valid} and {test}")


def split_indices(n: int, valid: float, test: float, seed: int | None) -> dict[str, np.ndarray]:
    """The indices of n rows in each split, ascending: random with `seed`, consecutive without one."""
    sizes = {"test": round(n * test), "valid": round(n * valid)}
    order = None if seed is None else tdt.randperm(n, generator=tdt.Generator().manual_seed(seed)).numpy()
    train = n - sum(sizes.values())
    parts = np.split(np.arange(n) if order is None else order, [train, train + sizes["valid"]])
    ascending = parts if order is None else map(np.sort, parts)
    return dict(zip(SPLITS, ascending, strict=True))


def stratified_indices(classes: Iterable[object], valid: float, test: float, seed: int | None) -> dict[str, np.ndarray]:
    """The same for rows of these classes, each of which is divided in these proportions, rounded to whole rows."""
    rows: dict[object, list[int]] = {}
    for row, name in enumerate(classes):
        rows.setdefault(name, []).append(row)
    each = [(np.array(own), split_indices(len(own), valid, test, seed)) for own in rows.values()]
    return {name: np.sort(np.concatenate([own[places[name]] for own, places in each])) for name in SPLITS}
