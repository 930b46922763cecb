"""Moving and cutting images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from tdt import Generator, Tensor, _backend
from tdt._backend.device import CPU
from tdt._core.tensor import wrap
from tdt._random import generator_for, integers, uniform
from tdt.vision._types import Images
from tdt.vision.transforms._base import Transform

MODES = ("constant", "edge", "reflect", "symmetric")


class Moving(Transform):
    """A step that moves pixels, whatever they are. Subclasses write `_move(images)` for (N, H, W, C), as they like it."""

    def batch(self, images: Images) -> Images:
        """Each of (N, H, W), (N, H, W, C) or tensors (N, C, H, W), moved. No gradient passes."""
        if isinstance(images, Tensor):
            moved = self._move(images._a.transpose(0, 2, 3, 1))
            return wrap(_backend.namespace(moved).ascontiguousarray(moved.transpose(0, 3, 1, 2)))
        return self._move(images) if images.ndim == 4 else self._move(images[..., None])[..., 0]

    def _move(self, images: Any) -> Any:
        raise NotImplementedError


class RandomCrop(Moving):
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
        _check_mode("RandomCrop", padding_mode)
        self.size = pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode
        self.generator = generator

    def _move(self, images: Any) -> Any:
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
        images = _pad(xp, images, sides("RandomCrop", self.padding), self.fill, self.padding_mode)
        if self.pad_if_needed:
            bottom, right = (max(0, size - n) for size, n in zip(self.size, images.shape[1:3], strict=True))
            images = _pad(xp, images, (right, bottom, right, bottom), self.fill, self.padding_mode)
        return images

    def __repr__(self) -> str:
        return f"RandomCrop(size={self.size}, padding={self.padding})"


class Pad(Moving):
    """Images with a border: `padding` pixels on all sides, (left and right, top and bottom) or (left, top, right, bottom).

    fill: the value of the border. padding_mode: "constant", "edge", "reflect" or "symmetric".

    >>> import tdt
    >>> from tdt.vision.transforms import Pad
    >>> Pad((1, 0), fill=7)(tdt.zeros(1, 1, 2))
    tensor([[[7., 0., 0., 7.]]])
    """

    def __init__(self, padding: int | tuple[int, ...], fill: float = 0, padding_mode: str = "constant") -> None:
        _check_mode("Pad", padding_mode)
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode
        self._sides = sides("Pad", padding)

    def _move(self, images: Any) -> Any:
        return _pad(_backend.namespace(images), images, self._sides, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return f"Pad(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class CenterCrop(Moving):
    """The window of `size` (height, width; one number for both) in the middle; a smaller image gets a black border.

    >>> import tdt
    >>> from tdt.vision.transforms import CenterCrop
    >>> CenterCrop(1)(tdt.arange(9).reshape(1, 3, 3))
    tensor([[[4]]])
    """

    def __init__(self, size: int | tuple[int, int]) -> None:
        self.size = pair(size)

    def _move(self, images: Any) -> Any:
        (h, w), (height, width) = images.shape[1:3], self.size
        left, top = max(0, width - w) // 2, max(0, height - h) // 2
        right, bottom = (max(0, width - w) + 1) // 2, (max(0, height - h) + 1) // 2
        images = _pad(_backend.namespace(images), images, (left, top, right, bottom), 0, "constant")
        (h, w) = images.shape[1:3]
        top, left = round((h - height) / 2), round((w - width) / 2)
        return images[:, top : top + height, left : left + width]

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"


class RandomHorizontalFlip(Moving):
    """Mirrors each image left to right with probability `p`.

    Shape: image (C, H, W) or (H, W, C); result the same shape.
    Raises:
        ValueError: when `p` is outside [0, 1].

    >>> import tdt
    >>> from tdt.vision.transforms import RandomHorizontalFlip
    >>> RandomHorizontalFlip(p=1.0)(tdt.arange(3).reshape(1, 1, 3))
    tensor([[[2, 1, 0]]])
    """

    random = True
    _axis = 2

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p is a probability, got {p}")
        self.p, self.generator = p, generator

    def _move(self, images: Any) -> Any:
        xp = _backend.namespace(images)
        flip = xp.asarray(uniform(generator_for(self.generator, CPU), (len(images),), np.float32) < self.p)
        return xp.where(flip[:, None, None, None], xp.flip(images, self._axis), images)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p={self.p})"


class RandomVerticalFlip(RandomHorizontalFlip):
    """Mirrors each image upside down with probability `p`.

    Shape: image (C, H, W) or (H, W, C); result the same shape.
    Raises:
        ValueError: when `p` is outside [0, 1].

    >>> import tdt
    >>> from tdt.vision.transforms import RandomVerticalFlip
    >>> RandomVerticalFlip(p=1.0)(tdt.arange(3).reshape(1, 3, 1)).flatten()
    tensor([2, 1, 0])
    """

    _axis = 1


class RandomRotation(Moving):
    """Rotates each image counter-clockwise by a random angle; the values are Pillow's.

    Args:
        degrees: range of the angle; one number stands for (-degrees, degrees).
        interpolation: "nearest" pixel, or "bilinear" between four.
        center: (x, y) from the upper left corner; None stands for the middle.
        fill: value of pixels from outside the image.
        generator: source of random numbers; None stands for the default generator.
    Shape: image (C, H, W) or (H, W, C); result the same shape.
    Raises:
        ValueError: when `degrees` is one negative number, or `interpolation` is another name.

    >>> import tdt
    >>> from tdt.vision.transforms import RandomRotation
    >>> RandomRotation((90, 90))(tdt.arange(4).reshape(1, 2, 2))
    tensor([[[1, 3],
             [0, 2]]])
    """

    refused_arguments: ClassVar[Mapping[str, str]] = {"expand": "images of several sizes would make no batch"}
    random = True

    def __init__(
        self,
        degrees: float | tuple[float, float],
        interpolation: Literal["nearest", "bilinear"] = "nearest",
        *,
        center: tuple[float, float] | None = None,
        fill: float = 0,
        generator: Generator | None = None,
    ) -> None:
        if isinstance(degrees, (int, float)):
            if degrees < 0:
                raise ValueError(f"RandomRotation: degrees as one number must not be negative, got {degrees}")
            degrees = (-degrees, degrees)
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError(f"RandomRotation: interpolation {interpolation!r} is not nearest or bilinear")
        self.interpolation = interpolation
        self.degrees, self.center, self.fill, self.generator = tuple(degrees), center, fill, generator

    def _move(self, images: Any) -> Any:
        xp = _backend.namespace(images)
        low, high = self.degrees
        drawn = uniform(generator_for(self.generator, CPU), (len(images),), np.float32, low, high)
        turned = xp.full_like(images, self.fill)
        for image, out, angle in zip(images, turned, drawn.tolist(), strict=True):
            self._turn(xp, image, out, angle)
        return turned

    def _turn(self, xp: Any, image: Any, out: Any, angle: float) -> None:
        """Write the turned image (h, w, c) into `out`, which holds the fill."""
        h, w, _ = image.shape
        x0, y0 = self.center or (w / 2, h / 2)
        turn = -math.radians(angle % 360)
        cos, sin = round(math.cos(turn), 15), round(math.sin(turn), 15)
        across, down = x0 - cos * x0 - sin * y0, y0 + sin * x0 - cos * y0
        y, x = np.ogrid[:h, :w]
        if self.interpolation == "nearest":

            def fixed(value: float) -> int:  # Pillow's 16 bits behind the point
                return math.floor(value * 65536 + 0.5)

            columns = (fixed(across + cos / 2 + sin / 2) + x * fixed(cos) + y * fixed(sin)) >> 16
            rows = (fixed(down - sin / 2 + cos / 2) + x * fixed(-sin) + y * fixed(cos)) >> 16
        else:
            columns = cos * (x + 0.5) + sin * (y + 0.5) + across
            rows = -sin * (x + 0.5) + cos * (y + 0.5) + down
        inside = (columns >= 0) & (columns < w) & (rows >= 0) & (rows < h)
        places = (xp.asarray(part[inside]) for part in (rows, columns))
        out[xp.asarray(inside)] = (
            image[tuple(places)] if self.interpolation == "nearest" else _between(xp, image, *places)
        )

    def __repr__(self) -> str:
        return f"RandomRotation(degrees={self.degrees})"


def _between(xp: Any, image: Any, rows: Any, columns: Any) -> Any:
    """The values (n, c) of an image (h, w, c) at places between its pixels' centres; beyond the outer ones, theirs."""
    h, w, _ = image.shape
    top, left = xp.floor(rows - 0.5), xp.floor(columns - 0.5)
    down, across = (rows - 0.5 - top)[:, None], (columns - 0.5 - left)[:, None]
    (y0, y1), (x0, x1) = (
        [xp.clip(first + step, 0, size - 1).astype(int) for step in (0, 1)] for first, size in ((top, h), (left, w))
    )
    upper, lower = (image[y, x0] + (image[y, x1] * 1.0 - image[y, x0]) * across for y in (y0, y1))
    return (upper + (lower - upper) * down).astype(image.dtype)


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """(height, width); one number is both."""
    height, width = (size, size) if isinstance(size, int) else size
    return height, width


def _check_mode(owner: str, mode: str) -> None:
    if mode not in MODES:
        raise ValueError(f"{owner}: padding_mode {mode!r} is not constant, edge, reflect or symmetric")


def _pad(xp: Any, images: Any, border: tuple[int, ...], fill: float, mode: str) -> Any:
    left, top, right, bottom = border
    if not any(border):
        return images
    value = {"constant_values": fill} if mode == "constant" else {}
    return xp.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)), mode, **value)


def sides(owner: str, padding: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Padding as (left, top, right, bottom)."""
    if padding is None:
        return (0, 0, 0, 0)
    if isinstance(padding, int):
        return (padding,) * 4
    if len(padding) not in (1, 2, 4):
        raise ValueError(f"{owner}: padding takes 1, 2 or 4 numbers, got {padding}")
    return tuple(padding) * (4 // len(padding))
