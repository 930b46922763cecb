"""Digits: 1,797 handwritten digits of 8 × 8 pixels, part of the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Literal

import numpy as np

from tdt.vision._types import ImageTransform, TargetTransform
from tdt.vision.datasets._base import ImageArrays

SPLITS = {"train": 0, "valid": 1, "test": 2}


class Digits(ImageArrays):
    """Handwritten digits of 8×8 pixels that are part of tdt: 1,149 for training, 288 for validation, 360 for testing.

    Items are (image, label): a float32 array (8, 8) of 0..1 in steps of 1/16, or the result of `transform`, and an int
    in
    0..9. The splits are fixed and stratified by class.

    Args:
        split: "train", "valid" or "test".
        transform, target_transform: callables for the image and for the label.
    Raises:
        ValueError: when `split` is another name.
    Source: Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI, 1998, CC BY 4.0; its test partition.

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
        transform: ImageTransform | None = None,
        target_transform: TargetTransform | None = None,
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f"Digits: split {split!r} is not one of {', '.join(SPLITS)}")
        self.split = split
        with (files("tdt.vision.datasets") / "data" / "digits.npz").open("rb") as file, np.load(file) as stored:
            chosen = stored["split"] == SPLITS[split]
            data = stored["images"][chosen] / np.float32(16)  # exact
            super().__init__(data, stored["labels"][chosen].astype(np.int64), transform, target_transform)
