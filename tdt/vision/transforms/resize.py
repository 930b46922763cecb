"""Resize: images of another size."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from PIL import Image

from tdt import Tensor
from tdt._tensor import wrap
from tdt.nn import functional as F
from tdt.vision.transforms._base import Transform

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


class Resize(Transform):
    """Images of `size` (height, width). One number is the shorter side's, and the image keeps its proportions.

    interpolation: "nearest", "bilinear" or "bicubic". max_size: bound of the longer side, with one number as size.
    antialias: filter tensors that become smaller, as Pillow does.

    uint8 arrays and Pillow images are resized by Pillow, tensors by `interpolate`.

    >>> import tdt
    >>> from tdt.vision.transforms import Resize
    >>> Resize(4)(tdt.zeros(3, 8, 12)).shape
    tdt.Size([3, 4, 6])
    """

    def __init__(
        self,
        size: int | tuple[int, int],
        interpolation: Literal["nearest", "bilinear", "bicubic"] = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
    ) -> None:
        if interpolation not in FILTERS:
            raise ValueError(f"Resize: interpolation {interpolation!r} is not one of {', '.join(FILTERS)}")
        if max_size is not None and (not isinstance(size, int) or max_size <= size):
            raise ValueError(f"Resize: max_size goes with one number as size and is larger; got {max_size} and {size}")
        self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias

    def batch(self, images: Any) -> Any:
        """(N, H, W), (N, H, W, C) or tensors (N, C, H, W), resized."""
        if isinstance(images, Tensor):
            smooth = self.interpolation != "nearest"
            options = {"align_corners": False, "antialias": self.antialias} if smooth else {}
            return F.interpolate(images, self._target(*images.shape[2:]), mode=self.interpolation, **options)
        height, width = self._target(*images.shape[1:3])
        if images.dtype != np.uint8:
            planes = wrap(np.ascontiguousarray(images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)))
            made = self.batch(planes).numpy()
            return made[:, 0] if images.ndim == 3 else np.ascontiguousarray(made.transpose(0, 2, 3, 1))
        filter = FILTERS[self.interpolation]
        shape = (len(images), height, width, *images.shape[3:])
        made = np.empty(shape, np.uint8)
        for image, out in zip(images, made, strict=True):
            flat = image[..., 0] if image.ndim == 3 and image.shape[-1] == 1 else image
            out[...] = np.asarray(Image.fromarray(flat).resize((width, height), filter)).reshape(out.shape)
        return made

    def _target(self, h: int, w: int) -> tuple[int, int]:
        if not isinstance(self.size, int):
            return self.size[0], self.size[1]
        short, long = min(h, w), max(h, w)
        new_short, new_long = self.size, int(self.size * long / short)
        if self.max_size is not None and new_long > self.max_size:
            new_short, new_long = int(self.max_size * new_short / new_long), self.max_size
        return (new_short, new_long) if h <= w else (new_long, new_short)

    def __repr__(self) -> str:
        return f"Resize(size={self.size}, interpolation={self.interpolation})"
