"""Digits: 1,797 handwritten digits of 8 × 8 pixels, part of the package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from tdt import Tensor
from tdt._tensor import wrap
from tdt.utils.data import Dataset, default_collate
from tdt.vision.transforms import Transform

SPLITS = {"train": 0, "valid": 1, "test": 2}


class Digits(Dataset):
    """The test partition of the UCI *Optical Recognition of Handwritten Digits* (Alpaydin & Kaynak, 1998), CC BY 4.0.

    Items are (image, label): a float32 array (8, 8) of 0..1 in steps of 1/16, after `transform` what that makes of it,
    and an int in 0..9. The splits are fixed and stratified by class: train 1,149, valid 288, test 360.

    transform, target_transform: callables for the image and for the label.
    data: all images, float32 (n, 8, 8). targets: all labels, int64 (n,).

    Raises ValueError for an unknown split.

    >>> from tdt.vision.datasets import Digits
    >>> digits = Digits(split="test")
    >>> image, label = digits[0]
    >>> len(digits), image.shape, label
    (360, (8, 8), 5)
    """

    classes = [str(digit) for digit in range(10)]

    def __init__(
        self,
        split: Literal["train", "valid", "test"] = "train",
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[int], Any] | None = None,
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f"Digits: split {split!r} is not one of {', '.join(SPLITS)}")
        self.split = split
        self.transform = transform
        self.target_transform = target_transform
        with (files("tdt.vision.datasets") / "data" / "digits.npz").open("rb") as file, np.load(file) as stored:
            chosen = stored["split"] == SPLITS[split]
            self.data: np.ndarray = stored["images"][chosen] / np.float32(16)  # exact
            self.targets: np.ndarray = stored["labels"][chosen].astype(np.int64)

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, label = self.data[index], int(self.targets[index])
        return (
            image if self.transform is None else self.transform(image),
            label if self.target_transform is None else self.target_transform(label),
        )

    def batch(self, indices: Sequence[int] | slice | np.ndarray) -> tuple[Any, Any]:
        """The items of `indices` at once, equal to `default_collate([digits[i] for i in indices])` but faster.

        Raises TypeError where the transform is a plain callable, which takes one image only.

        >>> from tdt.vision.datasets import Digits
        >>> from tdt.vision.transforms import ToTensor
        >>> images, labels = Digits("test", transform=ToTensor()).batch(slice(None))
        >>> images.shape, labels.shape
        (tdt.Size([360, 1, 8, 8]), tdt.Size([360]))
        """
        if not isinstance(self.transform, Transform | None):
            raise TypeError(f"Digits.batch: {self.transform!r} takes one image only; derive it from Transform")
        images, labels = self.data[indices], self.targets[indices]
        return (
            wrap(images.copy()) if self.transform is None else self.transform.batch(images),
            wrap(labels.copy()) if self.target_transform is None else self._targets(labels),
        )

    def _targets(self, labels: np.ndarray) -> Tensor:
        assert self.target_transform is not None
        return default_collate([self.target_transform(label) for label in labels.tolist()])
