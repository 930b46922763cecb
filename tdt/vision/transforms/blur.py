"""GaussianBlur: images out of focus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tdt import Generator
from tdt._backend.device import CPU
from tdt._core.tensor import wrap
from tdt._random import generator_for, uniform
from tdt.nn import functional as F
from tdt.vision._types import Images
from tdt.vision.transforms._base import Transform
from tdt.vision.transforms.color import channels_first, restore_layout
from tdt.vision.transforms.geometry import pair


class GaussianBlur(Transform):
    """Gaussian blur of each image; borders are mirrored.

    Args:
        kernel_size: width and height in pixels, odd, or one number for both.
        sigma: standard deviation in pixels, or a range from which one is drawn for each image.
        generator: source of random numbers; None stands for the default generator.
    Shape: image (C, H, W) or (H, W, C); result the same shape.
    Raises:
        ValueError: when a size is not odd and positive, or `sigma` is not positive or not a range.

    >>> import tdt
    >>> from tdt.vision.transforms import GaussianBlur
    >>> GaussianBlur(3, sigma=0.5)(tdt.tensor([[0.0, 0.0, 1.0, 0.0, 0.0]] * 3)[None])[0, 1]
    tensor([0.0000, 0.1065, 0.7870, 0.1065, 0.0000])
    """

    moves_pixels = False
    random = True

    def __init__(
        self, kernel_size: int | tuple[int, int], sigma: float | Sequence[float] = (0.1, 2.0), *,
        generator: Generator | None = None,
    ) -> None:  # fmt: skip
        self.kernel_size, self.generator = pair(kernel_size), generator
        if any(size <= 0 or size % 2 == 0 for size in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        low, high = (sigma, sigma) if isinstance(sigma, (int, float)) else (sigma[0], sigma[-1])
        if not 0 < low <= high:
            raise ValueError(f"sigma values should be positive and of the form (min, max). Got {sigma}")
        self.sigma = (float(low), float(high))

    def batch(self, images: Images) -> Images:
        """Each of (N, H, W), (N, H, W, C) or tensors (N, C, H, W), blurred."""
        planes = channels_first(images)
        blurred = np.stack([self._blur(image) for image in planes]) if len(planes) else planes
        return restore_layout(blurred, images)

    def _blur(self, image: np.ndarray) -> np.ndarray:
        sigma = float(uniform(generator_for(self.generator, CPU), (1,), np.float32, *self.sigma)[0])
        real: Any = np.float64 if image.dtype == np.float64 else np.float32
        columns, rows = (_bell(size, sigma).astype(real) for size in self.kernel_size)
        weight = wrap(np.broadcast_to(rows[:, None] * columns, (len(image), 1, len(rows), len(columns))).copy())
        across, down = len(columns) // 2, len(rows) // 2
        padded = F.pad(wrap(image[None].astype(real)), [across, across, down, down], mode="reflect")
        blurred = F.conv2d(padded, weight, groups=len(image)).numpy()[0]
        return (np.rint(blurred) if image.dtype.kind in "iu" else blurred).astype(image.dtype)

    def __repr__(self) -> str:
        return f"GaussianBlur(kernel_size={self.kernel_size}, sigma={self.sigma})"


def _bell(size: int, sigma: float) -> np.ndarray:
    heights = np.exp(-0.5 * (np.linspace(-(size - 1) / 2, (size - 1) / 2, size) / sigma) ** 2)
    return heights / heights.sum()
