"""Resize: images of another size; RandomResizedCrop: a part of them at one size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from enum import Enum
from typing import Literal, TypeAlias

import numpy as np
from PIL import Image

import tdt
from tdt import Generator, Tensor
from tdt._backend.device import CPU
from tdt._core.tensor import wrap
from tdt._random import generator_for, integers, uniform
from tdt.nn import functional as F
from tdt.vision._types import Images
from tdt.vision.transforms._base import Transform
from tdt.vision.transforms.geometry import pair

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "nearest-exact": Image.Resampling.NEAREST,  # Pillow's is exact
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "box": Image.Resampling.BOX,
    "hamming": Image.Resampling.HAMMING,
    "lanczos": Image.Resampling.LANCZOS,
}
FOR_TENSORS = ("nearest", "nearest-exact", "bilinear", "bicubic")


class InterpolationMode(Enum):
    """The filters of `Resize` by name, as scripts write them; the strings are the same. The last three need Pillow images.

    >>> import tdt
    >>> tdt.vision.transforms.InterpolationMode.BICUBIC.value
    'bicubic'
    """

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


Interpolation: TypeAlias = Literal["nearest", "bilinear", "bicubic"] | InterpolationMode


def filter_name(owner: str, interpolation: str | Enum) -> str:
    """The name of a filter given as a string, a member of InterpolationMode or of Pillow's. ValueError for another one."""
    name = interpolation
    if isinstance(interpolation, Enum):
        name = interpolation.name.lower().replace("_", "-")
    if name not in FILTERS:
        raise ValueError(f"{owner}: interpolation {name!r} is not one of {', '.join(FILTERS)}")
    return name


class Resize(Transform):
    """Images resized to a given size, arrays and Pillow images by Pillow, tensors by `interpolate`.

    Args:
        size: (height, width) of the result; one number is the shorter side's, and proportions stay.
        interpolation: "nearest", "bilinear" or "bicubic".
        max_size: bound of the longer side, with one number as size.
        antialias: filter tensors that become smaller, as Pillow does.
    Shape: image (C, H, W) or (H, W, C); result (C, *size) or (*size, C).
    Raises:
        ValueError: when `max_size` does not go with `size`, or `interpolation` is another name.

    >>> import tdt
    >>> from tdt.vision.transforms import Resize
    >>> Resize(4)(tdt.zeros(3, 8, 12)).shape
    tdt.Size([3, 4, 6])
    """

    def __init__(
        self,
        size: int | tuple[int, int],
        interpolation: Interpolation = "bilinear",
        max_size: int | None = None,
        antialias: bool = True,
    ) -> None:
        if max_size is not None and (not isinstance(size, int) or max_size <= size):
            raise ValueError(f"Resize: max_size goes with one number as size and is larger; got {max_size} and {size}")
        self.interpolation = filter_name("Resize", interpolation)
        self.size, self.max_size, self.antialias = size, max_size, antialias

    def batch(self, images: Images) -> Images:
        """Images (N, H, W), (N, H, W, C) or tensors (N, C, H, W), resized.

        Raises:
            ValueError: when the images do not have the dimensions of one of these.
        """
        if isinstance(images, Tensor):
            if self.interpolation not in FOR_TENSORS:
                raise ValueError(
                    f"{type(self).__name__}: interpolation '{self.interpolation}' takes Pillow images and uint8 arrays; "
                    f"for tensors take one of {', '.join(FOR_TENSORS)}"
                )
            smooth = self.interpolation in ("bilinear", "bicubic")
            options = {"align_corners": False, "antialias": self.antialias} if smooth else {}
            return F.interpolate(images, self._target(*images.shape[2:]), mode=self.interpolation, **options)
        height, width = self._target(*images.shape[1:3])
        if images.dtype != np.uint8:
            planes = wrap(np.ascontiguousarray(images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)))
            resized = self.batch(planes).numpy()
            return resized[:, 0] if images.ndim == 3 else np.ascontiguousarray(resized.transpose(0, 2, 3, 1))
        filter = FILTERS[self.interpolation]
        shape = (len(images), height, width, *images.shape[3:])
        resized = np.empty(shape, np.uint8)
        for image, out in zip(images, resized, strict=True):
            flat = image[..., 0] if image.ndim == 3 and image.shape[-1] == 1 else image
            out[...] = np.asarray(Image.fromarray(flat).resize((width, height), filter)).reshape(out.shape)
        return resized

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


class RandomResizedCrop(Transform):
    """Random part of each image, resized to `size`, as Inception was trained.

    Up to ten times an area and a ratio are drawn, as in torchvision, until the part fits into the image, and then its
    place;
    else the largest part in the middle whose ratio is allowed is taken.

    Args:
        size: (height, width) of the result, or one number for both.
        scale: range of the part's area as a fraction of the image's.
        ratio: range of its width divided by its height, drawn by logarithm.
        interpolation: "nearest", "bilinear" or "bicubic".
        antialias: filter tensors that become smaller, as Pillow does.
        generator: source of random numbers; None stands for the default generator.
    Shape: image (C, H, W) or (H, W, C); result (C, *size) or (*size, C).
    Raises:
        TypeError: when `scale` or `ratio` is not a sequence.
    Source: Szegedy et al., "Going Deeper with Convolutions", 2015.

    >>> import tdt
    >>> from tdt.vision.transforms import RandomResizedCrop
    >>> RandomResizedCrop(4)(tdt.zeros(3, 8, 12)).shape
    tdt.Size([3, 4, 4])
    """

    random = True

    def __init__(
        self,
        size: int | tuple[int, int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Interpolation = "bilinear",
        antialias: bool = True,
        *,
        generator: Generator | None = None,
    ) -> None:
        for name, value in (("Scale", scale), ("Ratio", ratio)):
            if not isinstance(value, Sequence):
                raise TypeError(f"{name} should be a sequence")
        if scale[0] > scale[1] or ratio[0] > ratio[1]:
            warnings.warn("Scale and ratio should be of kind (min, max)", stacklevel=2)
        self.size, self.scale, self.ratio, self.generator = pair(size), tuple(scale), tuple(ratio), generator
        self._resize = Resize(self.size, interpolation, antialias=antialias)
        self.interpolation = self._resize.interpolation

    def batch(self, images: Images) -> Images:
        """A part of each of (N, H, W), (N, H, W, C) or tensors (N, C, H, W)."""
        h, w = images.shape[2:] if isinstance(images, Tensor) else images.shape[1:3]
        crops = []
        for i in range(len(images)):
            top, left, height, width = self._place(h, w)
            rows, columns = slice(top, top + height), slice(left, left + width)
            one = (
                images[i : i + 1, ..., rows, columns]
                if isinstance(images, Tensor)
                else images[i : i + 1, rows, columns]
            )
            crops.append(self._resize.batch(one))
        return (
            self._resize.batch(images)
            if not crops
            else tdt.cat(crops)
            if isinstance(images, Tensor)
            else np.concatenate(crops)
        )

    def _place(self, h: int, w: int) -> tuple[int, int, int, int]:
        """(top, left, height, width) of the part."""
        gen = generator_for(self.generator, CPU)
        low, high = (float(np.log(np.float32(end))) for end in self.ratio)
        for _ in range(10):
            area = h * w * float(uniform(gen, (1,), np.float32, self.scale[0], self.scale[1])[0])
            ratio = float(np.exp(uniform(gen, (1,), np.float32, low, high)[0]))
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < width <= w and 0 < height <= h:
                top = int(integers(gen, (1,), np.int64, 0, h - height + 1)[0])
                return top, int(integers(gen, (1,), np.int64, 0, w - width + 1)[0]), height, width
        height, width = h, w
        if w / h < min(self.ratio):
            height = round(w / min(self.ratio))
        elif w / h > max(self.ratio):
            width = round(h * max(self.ratio))
        return (h - height) // 2, (w - width) // 2, height, width

    def __repr__(self) -> str:
        return f"RandomResizedCrop(size={self.size}, scale={self.scale}, ratio={self.ratio})"
