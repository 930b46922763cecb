"""Transform an image and its mask together."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np

import tdt
from tdt import Tensor
from tdt._core.tensor import wrap
from tdt.vision.transforms.resize import RandomResizedCrop, Resize

IGNORED = 255  # the value of mask pixels that do not count
IGNORE_INDEX = -100  # their class in the target, the default of CrossEntropyLoss


def transform_both(steps: Iterable[Any], image: Any, mask: np.ndarray) -> tuple[Any, Tensor]:
    """Apply transforms to an image; those that move pixels move the mask alike, with the same random draws.

    The mask is resampled to the nearest pixel, and what comes from outside of it is ignored.

    Args:
        mask: class numbers below 255, and 255 for pixels that do not count.
    Shape: mask (H, W), uint8; result (H, W), int64, with -100 for pixels that do not count.
    Raises:
        ValueError: when a step draws which transforms it applies, some of which may be for the image alone.

    >>> import numpy as np
    >>> from tdt.vision.transforms import RandomHorizontalFlip
    >>> from tdt.vision.transforms.masks import transform_both
    >>> transform_both([RandomHorizontalFlip(1.0)], np.zeros((1, 2), np.uint8), np.array([[0, 255]], np.uint8))[1]
    tensor([[-100,    0]])
    """
    shifted = mask + np.uint8(1)  # 0, with which transforms fill what they add, is now the value of ignored pixels
    for step in steps:
        if not getattr(step, "moves_pixels", True):
            image = step(image)
            continue
        if hasattr(step, "transforms"):
            raise ValueError(f"{type(step).__name__}: with masks, write its transforms one by one")
        generator = getattr(step, "generator", None) or tdt.default_generator
        before = generator.get_state()
        is_tensor, image = isinstance(image, Tensor), step(image)
        after = generator.get_state()
        generator.set_state(before)
        copied = _for_masks(step)
        shifted = copied(wrap(np.array(shifted))[None]).numpy()[0] if is_tensor else copied(shifted)
        generator.set_state(after)
    classes = np.asarray(shifted).astype(np.int64) - 1
    return image, wrap(np.where(classes < 0, IGNORE_INDEX, classes))


def _for_masks(step: Any) -> Any:
    """The same step for class numbers: nearest pixels, and 0 outside."""
    copied = copy.copy(step)
    nearest = (
        "nearest-exact" if isinstance(step, (Resize, RandomResizedCrop)) else "nearest"
    )  # as Pillow's and PyTorch's
    for name, value in (("interpolation", nearest), ("fill", 0)):
        if hasattr(copied, name):
            setattr(copied, name, value)
    return copied
