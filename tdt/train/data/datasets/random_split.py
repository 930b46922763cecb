"""RandomSplit: a part of another dataset's samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt.train.data.nested import Pairs, mapped
from tdt.train.data.targets import known_targets, targets_of
from tdt.utils.data import Dataset, Subset
from tdt.utils.data._splits import SPLITS, Split, check_split, split_indices, stratified_indices

FORWARDED = ("classes", "has_masks", "source_files", "check_files", "notes", "state_dict", "load_state_dict")
OF_ROWS = ("batch", "sample_name", "targets")  # of the dataset too, but about the samples of the split


class RandomSplit(Subset):
    """A part of the samples of another dataset, which does not divide them itself; `data.dataset` with `data.split` writes it.

    split: "train", "valid" or "test": shares of the samples, drawn with `seed`: `valid` and `test`, and the rest for "train".
    stratify: divide each class alike.

    Raises ValueError for a dataset without a length, for shares that leave nothing for training, and with `stratify` for targets
    that are not class numbers.

    >>> from tdt.train.data.datasets.random_split import RandomSplit
    >>> pairs = [(float(i), i % 2) for i in range(10)]
    >>> len(RandomSplit(pairs, "train", valid=0.2)), len(RandomSplit(pairs, "valid", valid=0.2, stratify=True))
    (8, 2)
    """

    def __init__(
        self,
        dataset: Dataset,
        split: Split,
        valid: float = 0.0,
        test: float = 0.0,
        seed: int = 0,
        stratify: bool = False,
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f"RandomSplit: split {split!r} is not one of {', '.join(SPLITS)}")
        check_split("RandomSplit", split, valid, test)
        if not hasattr(dataset, "__len__"):
            raise ValueError(
                f"{type(dataset).__name__} has no __len__, so that its samples cannot be divided into splits"
            )
        pairs = Pairs.of(dataset)
        if stratify:
            indices = stratified_indices(_class_numbers(pairs), valid, test, seed)[split]
        else:
            indices = split_indices(len(pairs), valid, test, seed)[split]
        super().__init__(pairs, indices.tolist())

    def __getattr__(self, name: str) -> Any:
        if name in OF_ROWS:
            return getattr(self, f"_{name}")()
        if name not in FORWARDED:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.dataset, name)

    def _batch(self) -> Any:
        whole, rows = self.dataset.batch, np.array(self.indices)  # type: ignore[attr-defined]
        return lambda indices: whole(rows[indices])

    def _sample_name(self) -> Any:
        name_of = self.dataset.sample_name  # type: ignore[attr-defined]
        return lambda index: name_of(self.indices[index])

    def _targets(self) -> Any:
        known = known_targets(self.dataset)
        if known is None:
            raise AttributeError("targets")
        return mapped(lambda rows: rows[self.indices], known)


def _class_numbers(pairs: Any) -> Sequence[int]:
    """The class of each sample. ValueError if targets are anything else."""
    targets = targets_of(pairs) if len(pairs) else np.zeros(0, dtype=int)
    if not isinstance(targets, np.ndarray) or targets.ndim != 1 or targets.dtype.kind not in "iub":
        raise ValueError("stratify divides each class alike, but the targets are not class numbers; leave it out")
    numbers: list[int] = targets.tolist()
    return numbers
