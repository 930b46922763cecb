"""Moving and cutting images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import Generator, Tensor, _backend
from tdt._device import CPU
from tdt._random import generator_for, integers
from tdt._tensor import wrap
from tdt.vision.transforms._base import Transform


class RandomCrop(Transform):
    """A window of `size` (height, width; one number for both) from a random place, of arrays or of tensors.

    padding: pixels added around the image first: one number, (left and right, top and bottom), or (left, top, right,
        bottom).
    pad_if_needed: add what a smaller image lacks, on both sides.
    fill: the value of added pixels. padding_mode: "constant", "edge", "reflect" or "symmetric".
    generator: where the places are drawn from; None is the default generator.

    For each image the top row is drawn, then the left column, so a batch and its images one by one get the same
    places. An image of exactly `size` draws nothing. No gradient passes. Raises ValueError where the image is smaller.

    >>> import tdt
    >>> from tdt.vision.transforms import RandomCrop
    >>> RandomCrop(8, padding=1)(tdt.zeros(1, 8, 8)).shape
    tdt.Size([1, 8, 8])
    """

    random = True

    def __init__(
        self,
        size: int | tuple[int, int],
        padding: int | tuple[int, ...] | None = None,
        pad_if_needed: bool = False,
        fill: float = 0,
        padding_mode: str = "constant",
        *,
        generator: Generator | None = None,
    ) -> None:
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise ValueError(f"RandomCrop: padding_mode {padding_mode!r} is not constant, edge, reflect or symmetric")
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode
        self.generator = generator

    def batch(self, images: Any) -> Any:
        """A window of each of (N, H, W), (N, H, W, C) or tensors (N, C, H, W), each from its own place."""
        if isinstance(images, Tensor):
            cut = self._cut(images._a.transpose(0, 2, 3, 1))
            return wrap(_backend.namespace(cut).ascontiguousarray(cut.transpose(0, 3, 1, 2)))
        return self._cut(images) if images.ndim == 4 else self._cut(images[..., None])[..., 0]

    def _cut(self, images: Any) -> Any:
        xp = _backend.namespace(images)
        images = self._padded(xp, images)  # (n, h, w, c)
        n, h, w, _ = images.shape
        height, width = self.size
        if h < height or w < width:
            raise ValueError(f"RandomCrop: the window {self.size} is larger than the image ({h}, {w}) after padding")
        if (h, w) == self.size:
            return images
        tops, lefts = (xp.asarray(places) for places in self._places(n, h - height + 1, w - width + 1))
        windows = xp.lib.stride_tricks.sliding_window_view(images, self.size, axis=(1, 2))
        return windows[xp.arange(n), tops, lefts].transpose(0, 2, 3, 1)  # (n, c, height, width) before the transpose

    def _places(self, n: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        # A draw below rows * columns, taken modulo rows, is the draw that randint(rows) would have made: both are one
        # 32-bit number of the stream modulo their range. So one call makes all draws, in the order of single images.
        draws = integers(generator_for(self.generator, CPU), (n, 2), np.int64, 0, rows * columns)
        return draws[:, 0] % rows, draws[:, 1] % columns

    def _padded(self, xp: Any, images: Any) -> Any:
        images = self._pad(xp, images, *_sides(self.padding))
        if self.pad_if_needed:
            tall, wide = (max(0, size - n) for size, n in zip(self.size, images.shape[1:3], strict=True))
            images = self._pad(xp, images, wide, tall, wide, tall)
        return images

    def _pad(self, xp: Any, images: Any, left: int, top: int, right: int, bottom: int) -> Any:
        if not (left or top or right or bottom):
            return images
        value = {"constant_values": self.fill} if self.padding_mode == "constant" else {}
        return xp.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)), self.padding_mode, **value)

    def __repr__(self) -> str:
        return f"RandomCrop(size={self.size}, padding={self.padding})"


def _sides(padding: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Padding as (left, top, right, bottom)."""
    if padding is None:
        return (0, 0, 0, 0)
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) not in (1, 2, 4):
        raise ValueError(f"RandomCrop: padding takes 1, 2 or 4 numbers, got {padding}")
    return tuple(padding) * (4 // len(padding))
