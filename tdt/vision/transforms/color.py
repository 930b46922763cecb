"""Colours: grey images, jitter, erased places, and the scale of a dtype."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

import tdt
from tdt import Generator, Tensor
from tdt._backend.device import CPU
from tdt._core.tensor import wrap
from tdt._random import generator_for, integers, normal, permutation, uniform
from tdt.vision._types import Batch, Images
from tdt.vision.transforms._base import Transform

WEIGHTS = (0.2989, 0.587, 0.114)  # of red, green and blue in a grey image: ITU-R BT.601


def channels_first(images: Batch) -> np.ndarray:
    """(N, C, H, W) of arrays (N, H, W), (N, H, W, C) or tensors (N, C, H, W)."""
    if isinstance(images, Tensor):
        return images.numpy()
    return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)


def restore_layout(planes: np.ndarray, images: Images) -> Images:
    """The inverse of `channels_first`: `planes` in the layout of `images`."""
    if isinstance(images, Tensor):
        return wrap(np.ascontiguousarray(planes)).to(images.device)
    return planes[:, 0] if images.ndim == 3 else np.ascontiguousarray(planes.transpose(0, 2, 3, 1))


class Grayscale(Transform):
    """Grey images, 0.2989 R + 0.587 G + 0.114 B, with `num_output_channels` 1 or 3 equal channels.

    Args:
        num_output_channels: channels of the result, 1 or 3.
    Shape: image (3, H, W) or (H, W, 3); result (num_output_channels, H, W) or (H, W, num_output_channels).
    Raises:
        ValueError: when `num_output_channels` is neither 1 nor 3.

    >>> import tdt
    >>> from tdt.vision.transforms import Grayscale
    >>> Grayscale()(tdt.ones(3, 2, 2)).shape
    tdt.Size([1, 2, 2])
    """

    moves_pixels = False

    def __init__(self, num_output_channels: int = 1) -> None:
        if num_output_channels not in (1, 3):
            raise ValueError(f"Grayscale: num_output_channels is 1 or 3, got {num_output_channels}")
        self.num_output_channels = num_output_channels

    def batch(self, images: Images) -> Images:
        """(N, H, W, 3) or tensors (N, 3, H, W), in grey; what is grey already stays so."""
        grey = np.repeat(_grey(channels_first(images)), self.num_output_channels, axis=1)
        if not isinstance(images, Tensor) and images.ndim == 3 and self.num_output_channels == 3:
            return np.ascontiguousarray(grey.transpose(0, 2, 3, 1))
        return restore_layout(grey, images)

    def __repr__(self) -> str:
        return f"Grayscale(num_output_channels={self.num_output_channels})"


def _grey(images: np.ndarray) -> np.ndarray:
    """(…, C, H, W) with one channel, of the same dtype; whole numbers are cut off."""
    if images.shape[-3] == 1:
        return images
    if images.shape[-3] != 3:
        raise ValueError(f"expected images of 1 or 3 channels, got {images.shape[-3]}")
    r, g, b = (images[..., channel, :, :] for channel in range(3))
    real = np.float64 if images.dtype == np.float64 else np.float32
    grey = sum(real(weight) * part for weight, part in zip(WEIGHTS, (r, g, b), strict=True))
    return np.asarray(grey).astype(images.dtype)[..., None, :, :]


class RandomGrayscale(Transform):
    """Each colour image with probability `p` in grey, with as many channels as before.

    >>> import tdt
    >>> from tdt.vision.transforms import RandomGrayscale
    >>> RandomGrayscale(p=1.0)(tdt.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1)).flatten()
    tensor([0.2989, 0.2989, 0.2989])
    """

    moves_pixels = False
    random = True

    def __init__(self, p: float = 0.1, *, generator: Generator | None = None) -> None:
        self.p, self.generator = p, generator

    def batch(self, images: Images) -> Images:
        """(N, H, W, 3) or tensors (N, 3, H, W), some in grey."""
        planes = channels_first(images)
        drawn = uniform(generator_for(self.generator, CPU), (len(planes),), np.float32) < self.p
        return restore_layout(np.where(drawn[:, None, None, None], _grey(planes), planes), images)

    def __repr__(self) -> str:
        return f"RandomGrayscale(p={self.p})"


Range = float | tuple[float, float]


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue of each image changed at random, in an order drawn for each.

    brightness, contrast, saturation: the factor is from 1 - it to 1 + it, not below 0, or from a range (low, high).
    hue: the turn of the colour circle, from -hue to hue ≤ 0.5, or from a range within -0.5..0.5.

    For each image are drawn, as in torchvision: the order, then the factors in the order above. The last two leave grey
    images alone. ValueError for a range that is none.

    >>> import tdt
    >>> from tdt.vision.transforms import ColorJitter
    >>> ColorJitter(brightness=(0.5, 0.5))(tdt.ones(3, 1, 1)).flatten()
    tensor([0.5000, 0.5000, 0.5000])
    """

    moves_pixels = False
    random = True

    def __init__(
        self,
        brightness: Range = 0.0,
        contrast: Range = 0.0,
        saturation: Range = 0.0,
        hue: Range = 0.0,
        *,
        generator: Generator | None = None,
    ) -> None:
        self.ranges = [
            *(_factors(name, value, 1.0, (0.0, math.inf)) for name, value in
              (("brightness", brightness), ("contrast", contrast), ("saturation", saturation))),
            _factors("hue", hue, 0.0, (-0.5, 0.5)),
        ]  # fmt: skip
        self.generator = generator

    def batch(self, images: Images) -> Images:
        """Each of (N, H, W), (N, H, W, C) or tensors (N, C, H, W) with colours of its own."""
        planes = channels_first(images)
        jittered = np.stack([self._jitter(image) for image in planes]) if len(planes) else planes
        return restore_layout(jittered, images)

    def _jitter(self, image: np.ndarray) -> np.ndarray:
        source = generator_for(self.generator, CPU)
        order = permutation(source, 4).tolist()
        factors = [r and float(uniform(source, (1,), np.float32, *r)[0]) for r in self.ranges]
        for number in order:
            if factors[number] is not None:
                image = ADJUST[number](image, factors[number])
        return image

    def __repr__(self) -> str:
        return "ColorJitter(brightness={}, contrast={}, saturation={}, hue={})".format(*self.ranges)


def _factors(name: str, value: Range, middle: float, bounds: tuple[float, float]) -> tuple[float, float] | None:
    if isinstance(value, (int, float)):
        low, high = middle - value, middle + value
        if value >= 0 and name != "hue":
            low = max(low, 0.0)
    else:
        low, high = value
    if not bounds[0] <= low <= high <= bounds[1]:
        raise ValueError(f"ColorJitter: {name} {value} is no range within {bounds[0]}..{bounds[1]}")
    return None if low == high == middle else (low, high)


def _blend(image: np.ndarray, other: Any, factor: float) -> np.ndarray:
    real = np.float64 if image.dtype == np.float64 else np.float32
    mixed = real(factor) * image + real(1 - factor) * other
    return np.clip(mixed, 0, 1 if image.dtype.kind == "f" else np.iinfo(image.dtype).max).astype(image.dtype)


def _contrast(image: np.ndarray, factor: float) -> np.ndarray:
    real = np.float64 if image.dtype == np.float64 else np.float32
    return _blend(image, _grey(image).astype(real).mean(dtype=real), factor)


def _saturation(image: np.ndarray, factor: float) -> np.ndarray:
    return image if len(image) == 1 else _blend(image, _grey(image), factor)


def _hue(image: np.ndarray, turn: float) -> np.ndarray:
    """By way of hue, saturation and value (Smith, 1978)."""
    if len(image) == 1:
        return image
    top = 1.0 if image.dtype.kind == "f" else float(np.iinfo(image.dtype).max)
    rgb = image.astype(np.float64) / top
    value, low = rgb.max(0), rgb.min(0)
    chroma = value - low
    safe = np.where(chroma == 0, 1, chroma)
    r, g, b = rgb
    sector = np.where(value == r, (g - b) / safe, np.where(value == g, 2 + (b - r) / safe, 4 + (r - g) / safe))
    hue = (sector / 6 + turn) % 1
    shift = (np.array([5.0, 3.0, 1.0])[:, None, None] + hue * 6) % 6
    channels = (value - chroma * np.clip(np.minimum(shift, 4 - shift), 0, 1)) * top
    return (channels if image.dtype.kind == "f" else np.round(channels)).astype(image.dtype)


ADJUST = (lambda image, factor: _blend(image, 0, factor), _contrast, _saturation, _hue)


class RandomErasing(Transform):
    """Overwrites a random rectangle of each image with probability `p`; the draws are torchvision's.

    Args:
        scale: range of the rectangle's area as a fraction of the image's.
        ratio: range of its height divided by its width.
        value: number to write, one for each channel, or "random" for normal noise.
        generator: source of random numbers; None stands for the default generator.
    Shape: image (C, H, W); result the same shape.
    Raises:
        ValueError: when `p`, `scale` or `ratio` is out of range.
    Source: Zhong et al., "Random Erasing Data Augmentation", 2020.

    >>> import tdt
    >>> from tdt.vision.transforms import RandomErasing
    >>> tdt.manual_seed(0)  # doctest: +ELLIPSIS
    <...>
    >>> erased = RandomErasing(p=1.0, value=5)(tdt.zeros(1, 8, 8))
    >>> bool((erased == 5).any())
    True
    """

    moves_pixels = False
    random = takes_tensors = True

    def __init__(
        self,
        p: float = 0.5,
        scale: tuple[float, float] = (0.02, 0.33),
        ratio: tuple[float, float] = (0.3, 3.3),
        value: float | list[float] | Literal["random"] = 0,
        *,
        generator: Generator | None = None,
    ) -> None:
        if not 0 <= p <= 1 or not 0 <= scale[0] <= scale[1] <= 1 or not 0 < ratio[0] <= ratio[1]:
            raise ValueError(f"RandomErasing: p, scale and ratio are shares, got {p}, {scale} and {ratio}")
        self.p, self.scale, self.ratio, self.value, self.generator = p, scale, ratio, value, generator

    def batch(self, images: Tensor) -> Tensor:
        """Tensors (N, C, H, W), each erased at a place of its own or left as it is.

        Raises:
            TypeError: when `images` is not a tensor.
        """
        if not isinstance(images, Tensor):
            raise TypeError(f"RandomErasing: expected tensors, got {type(images).__name__}; put ToTensor before it")
        erased = images.numpy().copy()
        for image in erased:
            self._erase(image, generator_for(self.generator, CPU))
        return wrap(erased).to(images.device)

    def _erase(self, image: np.ndarray, source: Generator) -> None:
        channels, height, width = image.shape

        def draw(low: float, high: float) -> np.float32:
            return uniform(source, (1,), np.float32, low, high)[0]

        if draw(0.0, 1.0) >= self.p:
            return
        low, high = (float(np.log(np.float32(end))) for end in self.ratio)
        for _ in range(10):
            area = height * width * float(draw(*self.scale))
            aspect = float(np.exp(draw(low, high)))
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if h >= height or w >= width:
                continue
            value: Any = np.asarray(0 if self.value == "random" else self.value, image.dtype).reshape(-1, 1, 1)
            if self.value == "random":
                value = normal(source, (channels, h, w), np.float32)
            top, left = (int(integers(source, (1,), np.int64, 0, n)[0]) for n in (height - h + 1, width - w + 1))
            image[:, top : top + h, left : left + w] = value
            return

    def __repr__(self) -> str:
        return f"RandomErasing(p={self.p}, scale={self.scale}, ratio={self.ratio}, value={self.value})"


class ConvertImageDtype(Transform):
    """Tensors of another dtype, scaled so that white stays white: 255 of uint8 is 1.0, and 32767 of int16.

    >>> import tdt
    >>> from tdt.vision.transforms import ConvertImageDtype
    >>> ConvertImageDtype(tdt.float32)(tdt.tensor([[[0, 255]]], dtype=tdt.uint8))
    tensor([[[0., 1.]]])
    """

    moves_pixels = False

    def __init__(self, dtype: tdt.dtype = tdt.float32) -> None:
        self.dtype = dtype

    def batch(self, images: Tensor) -> Tensor:
        """Tensors (N, C, H, W) in the new dtype."""
        old, new = images.dtype, self.dtype
        if old.is_floating_point and not new.is_floating_point:
            return (images * (tdt.iinfo(new).max + 1.0 - 1e-3)).to(new)
        if old.is_floating_point or old == new:
            return images.to(new)
        if new.is_floating_point:
            return images.to(new) / tdt.iinfo(old).max
        here, there = tdt.iinfo(old).max, tdt.iinfo(new).max
        if here > there:
            return (images // ((here + 1) // (there + 1))).to(new)
        return images.to(new) * ((there + 1) // (here + 1))

    def __repr__(self) -> str:
        return f"ConvertImageDtype({self.dtype})"


class ToDtype(Transform):
    """Tensors of another dtype and the same values, such as integers as floats; with `scale`, as ConvertImageDtype.

    Args:
        scale: whether values change with the dtype: integers of an image become numbers from 0 to 1.

    >>> import tdt
    >>> from tdt.vision.transforms import ToDtype
    >>> ToDtype(tdt.float32)(tdt.tensor([3, 255])), ToDtype(tdt.float32, scale=True)(tdt.tensor([255], dtype=tdt.uint8))
    (tensor([  3., 255.]), tensor([1.]))
    """

    moves_pixels = False

    def __init__(self, dtype: tdt.dtype = tdt.float32, scale: bool = False) -> None:
        self.dtype, self.scale = dtype, scale

    def batch(self, images: Tensor) -> Tensor:
        """The tensors in the new dtype."""
        return ConvertImageDtype(self.dtype).batch(images) if self.scale else images.to(self.dtype)

    def __repr__(self) -> str:
        return f"ToDtype({self.dtype}, scale={self.scale})"
