"""The transforms without a draw, as functions of one image under torchvision's names.

An image is a Pillow image, an array (H, W) or (H, W, C), or a tensor (C, H, W) or (N, C, H, W); the result is of the
same kind, but for the functions that convert.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

import tdt
from tdt import Tensor
from tdt.vision._types import AnyImage, ImageLike, ImageTransform
from tdt.vision.transforms.color import ADJUST, ConvertImageDtype, Grayscale, channels_first, restore_layout
from tdt.vision.transforms.convert import Normalize, PILToTensor, ToPILImage, ToTensor
from tdt.vision.transforms.geometry import CenterCrop, Pad
from tdt.vision.transforms.resize import Interpolation, InterpolationMode, Resize

__all__ = [
    "InterpolationMode",
    "adjust_brightness", "adjust_contrast", "adjust_hue", "adjust_saturation", "center_crop", "convert_image_dtype",
    "crop", "get_dimensions", "get_image_num_channels", "get_image_size", "hflip", "normalize", "pad", "pil_to_tensor",
    "resize", "resized_crop", "rgb_to_grayscale", "to_grayscale", "to_pil_image", "to_tensor", "vflip",
]  # fmt: skip


def _each(img: AnyImage, step: ImageTransform) -> AnyImage:
    """`step`, which takes a batch, of one image or of a batch of tensors."""
    if isinstance(img, Tensor):
        return step(img) if img.ndim == 4 else step(img[None])[0]
    output = step(np.asarray(img)[None])[0]
    if isinstance(img, Image.Image):
        return Image.fromarray(output[..., 0] if output.ndim == 3 and output.shape[2] == 1 else output)
    return output


def to_tensor(pic: Image.Image | np.ndarray) -> Tensor:
    """Pillow image or array as a tensor, bytes scaled to [0, 1].

    Shape: result (C, H, W).

    >>> import numpy as np
    >>> from tdt.vision.transforms import functional as F
    >>> F.to_tensor(np.full((1, 1), 255, dtype=np.uint8))
    tensor([[[1.]]])
    """
    return ToTensor()(pic)


def pil_to_tensor(pic: Image.Image | np.ndarray) -> Tensor:
    """Pillow image or array as a tensor of the same values.

    Shape: result (C, H, W).

    >>> import numpy as np
    >>> from tdt.vision.transforms import functional as F
    >>> F.pil_to_tensor(np.full((1, 1), 255, dtype=np.uint8))
    tensor([[[255]]], dtype=tdt.uint8)
    """
    return PILToTensor()(pic)


def to_pil_image(pic: np.ndarray | Tensor, mode: str | None = None) -> Image.Image:
    """A tensor or an array as a Pillow image.

    Shape: pic a tensor (C, H, W) or (H, W), or an array (H, W, C) or (H, W).

    >>> import tdt
    >>> from tdt.vision.transforms import functional as F
    >>> F.to_pil_image(tdt.zeros(3, 4, 5)).size
    (5, 4)
    """
    return ToPILImage(mode)(pic)


def convert_image_dtype(image: Tensor, dtype: tdt.dtype = tdt.float32) -> Tensor:
    """Image of another dtype, scaled so that white stays white.

    Shape: image (C, H, W); result the same shape.

    >>> import tdt
    >>> tdt.vision.transforms.functional.convert_image_dtype(tdt.full((1, 1, 1), 255, dtype=tdt.uint8)).item()
    1.0
    """
    return _each(image, ConvertImageDtype(dtype).batch)


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """Standardises channels: (x - mean) / std.

    Args:
        inplace: write the result into the tensor's memory.
    Shape: tensor (C, H, W) or (N, C, H, W); result the same shape.

    >>> import tdt
    >>> from tdt.vision.transforms import functional as F
    >>> F.normalize(tdt.ones(1, 1, 2), [0.5], [0.25])
    tensor([[[2., 2.]]])
    """
    normalized = _each(tensor, Normalize(mean, std).batch)
    return tensor.copy_(normalized) if inplace else normalized


def resize(
    img: AnyImage,
    size: int | Sequence[int],
    interpolation: Interpolation = "bilinear",
    max_size: int | None = None,
    antialias: bool = True,
) -> AnyImage:
    """The image at another size, as `Resize` does it.

    >>> import tdt
    >>> from tdt.vision.transforms import functional as F
    >>> F.resize(tdt.zeros(3, 8, 12), 4).shape
    tdt.Size([3, 4, 6])
    """
    new_size = size if isinstance(size, int) else size[0] if len(size) == 1 else (size[0], size[1])
    return _each(img, Resize(new_size, interpolation, max_size, antialias).batch)


def pad(img: AnyImage, padding: int | Sequence[int], fill: float = 0, padding_mode: str = "constant") -> AnyImage:
    """Image with a border.

    Args:
        padding: pixels on all sides; (left and right, top and bottom); or (left, top, right, bottom).
        fill: value of the border if `padding_mode` is "constant"; else "edge", "reflect" or "symmetric".

    >>> import tdt
    >>> tdt.vision.transforms.functional.pad(tdt.zeros(1, 2, 2), [1, 0]).shape
    tdt.Size([1, 2, 4])
    """
    return _each(img, Pad(padding if isinstance(padding, int) else tuple(padding), fill, padding_mode).batch)


def crop(img: AnyImage, top: int, left: int, height: int, width: int) -> AnyImage:
    """The window whose upper left corner is at (top, left); what lies outside of the image is black.

    >>> import tdt
    >>> from tdt.vision.transforms import functional as F
    >>> F.crop(tdt.arange(9).reshape(1, 3, 3), 1, 1, 1, 3)
    tensor([[[4, 5, 0]]])
    """
    _, h, w = get_dimensions(img)
    outside = [max(0, -left), max(0, -top), max(0, left + width - w), max(0, top + height - h)]
    img = pad(img, outside) if any(outside) else img
    rows, columns = (slice(start + more, start + more + n) for start, more, n in
                     ((top, outside[1], height), (left, outside[0], width)))  # fmt: skip
    return _each(img, lambda x: x[..., rows, columns] if isinstance(x, Tensor) else x[:, rows, columns])


def center_crop(img: AnyImage, output_size: int | Sequence[int]) -> AnyImage:
    """Window in the middle of an image.

    >>> import tdt
    >>> tdt.vision.transforms.functional.center_crop(tdt.zeros(1, 5, 5), 3).shape
    tdt.Size([1, 3, 3])
    """
    size = output_size if isinstance(output_size, int) else tuple(output_size) * (1 + (len(output_size) == 1))
    return _each(img, CenterCrop(size).batch)  # type: ignore[arg-type]


def resized_crop(
    img: AnyImage, top: int, left: int, height: int, width: int, size: int | Sequence[int],
    interpolation: Interpolation = "bilinear", antialias: bool = True,
) -> AnyImage:  # fmt: skip
    """Part of an image, resized to `size`.

    >>> import tdt
    >>> tdt.vision.transforms.functional.resized_crop(tdt.zeros(1, 8, 8), 0, 0, 4, 4, size=2).shape
    tdt.Size([1, 2, 2])
    """
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: AnyImage) -> AnyImage:
    """The image mirrored, left for right.

    >>> import tdt
    >>> from tdt.vision.transforms import functional as F
    >>> F.hflip(tdt.arange(3).reshape(1, 1, 3))
    tensor([[[2, 1, 0]]])
    """
    return _each(img, lambda x: x.flip(-1) if isinstance(x, Tensor) else np.flip(x, 2))


def vflip(img: AnyImage) -> AnyImage:
    """Image mirrored upside down.

    >>> import tdt
    >>> tdt.vision.transforms.functional.vflip(tdt.tensor([[[1.0], [2.0]]])).flatten()
    tensor([2., 1.])
    """
    return _each(img, lambda x: x.flip(-2) if isinstance(x, Tensor) else np.flip(x, 1))


def rgb_to_grayscale(img: AnyImage, num_output_channels: int = 1) -> AnyImage:
    """Grey image with 1 or 3 equal channels.

    >>> import tdt
    >>> tdt.vision.transforms.functional.rgb_to_grayscale(tdt.ones(3, 2, 2)).shape
    tdt.Size([1, 2, 2])
    """
    return _each(img, Grayscale(num_output_channels).batch)


def to_grayscale(img: AnyImage, num_output_channels: int = 1) -> AnyImage:
    """Alias of `rgb_to_grayscale`."""
    return rgb_to_grayscale(img, num_output_channels)


def _adjust(number: int, img: AnyImage, factor: float) -> AnyImage:
    return _each(img, lambda x: restore_layout(np.stack([ADJUST[number](one, factor) for one in channels_first(x)]), x))


def adjust_brightness(img: AnyImage, brightness_factor: float) -> AnyImage:
    """The image `brightness_factor` times as bright; 0 is black.

    >>> import tdt
    >>> from tdt.vision.transforms import functional as F
    >>> F.adjust_brightness(tdt.full((3, 1, 1), 0.5), 0.5).flatten()
    tensor([0.2500, 0.2500, 0.2500])
    """
    return _adjust(0, img, brightness_factor)


def adjust_contrast(img: AnyImage, contrast_factor: float) -> AnyImage:
    """Image moved away from its mean grey by a factor; 0 gives grey, 1 the image itself.

    >>> import tdt
    >>> tdt.vision.transforms.functional.adjust_contrast(tdt.tensor([[[0.2, 0.4]]] * 3), 0.0)[0].round(decimals=2)
    tensor([[0.3000, 0.3000]])
    """
    return _adjust(1, img, contrast_factor)


def adjust_saturation(img: AnyImage, saturation_factor: float) -> AnyImage:
    """Image moved away from its grey form by a factor; 0 gives that form, 1 the image itself.

    >>> import tdt
    >>> tdt.vision.transforms.functional.adjust_saturation(tdt.ones(3, 1, 1), 0.5).flatten().round(decimals=2)
    tensor([1., 1., 1.])
    """
    return _adjust(2, img, saturation_factor)


def adjust_hue(img: AnyImage, hue_factor: float) -> AnyImage:
    """Image with its hues turned by `hue_factor`, a fraction of the colour circle in [-0.5, 0.5].

    Raises:
        ValueError: when `hue_factor` is outside [-0.5, 0.5].

    >>> import tdt
    >>> tdt.vision.transforms.functional.adjust_hue(tdt.tensor([1.0, 0.0, 0.0]).reshape(3, 1, 1), 0.5).flatten()
    tensor([0., 1., 1.])
    """
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    return _adjust(3, img, hue_factor)


def get_dimensions(img: ImageLike) -> list[int]:
    """[channels, height, width] of an image.

    >>> import tdt
    >>> from tdt.vision.transforms import functional as F
    >>> F.get_dimensions(tdt.zeros(3, 4, 5))
    [3, 4, 5]
    """
    if isinstance(img, Tensor):
        return [1 if img.ndim == 2 else img.shape[-3], *img.shape[-2:]]
    shape = np.asarray(img).shape
    return [shape[2] if len(shape) == 3 else 1, *shape[:2]]


def get_image_size(img: ImageLike) -> list[int]:
    """Width and height of an image, in pixels.

    >>> import tdt
    >>> tdt.vision.transforms.functional.get_image_size(tdt.zeros(3, 4, 5))
    [5, 4]
    """
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: ImageLike) -> int:
    """Number of channels of an image.

    >>> import tdt
    >>> tdt.vision.transforms.functional.get_image_num_channels(tdt.zeros(3, 4, 5))
    3
    """
    return get_dimensions(img)[0]
