"""How samples are shared out among the splits train, valid and test."""

from __future__ import annotations

from typing import Literal

import numpy as np

import tdt

Split = Literal["train", "valid", "test"]


def check_split(owner: str, split: str | None, valid: float, test: float) -> None:
    """ValueError for a split or for shares that there cannot be."""
    if split not in (None, "train", "valid", "test"):
        raise ValueError(f"{owner}: split {split!r} is not one of train, valid, test")
    if min(valid, test) < 0 or valid + test >= 1:
        raise ValueError(f"{owner}: valid and test are shares that leave some for training, got {valid} and {test}")


def share_out(n: int, valid: float, test: float, seed: int | None) -> dict[str, np.ndarray]:
    """The indices of n rows in each split, ascending: of an order drawn with `seed`; without one in their own order."""
    sizes = {"test": round(n * test), "valid": round(n * valid)}
    drawn = None if seed is None else tdt.randperm(n, generator=tdt.Generator().manual_seed(seed)).numpy()
    kept = n - sum(sizes.values())
    parts = np.split(np.arange(n) if drawn is None else drawn, [kept, kept + sizes["valid"]])
    ascending = parts if drawn is None else map(np.sort, parts)
    return dict(zip(("train", "valid", "test"), ascending, strict=True))
