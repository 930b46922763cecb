"""`make_grid` and `save_image`, with torchvision's names and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, TypedDict, Unpack

from PIL import Image

import tdt
from tdt import Tensor

__all__ = ["make_grid", "save_image"]


class GridOptions(TypedDict, total=False):
    """Arguments of `make_grid`, without the images."""

    nrow: int
    padding: int
    normalize: bool
    value_range: tuple[float, float] | None
    scale_each: bool
    pad_value: float


@tdt.no_grad()
def make_grid(
    tensor: Tensor | list[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Images of a batch or a list side by side in one image, `nrow` in a row.

    One channel becomes three. One image, also (H, W) or (C, H, W), is returned without a border.

    Args:
        padding: pixels of `pad_value` around each image.
        normalize: map values from `value_range`, or from the least to the largest, to [0, 1].
        scale_each: take each image's own range.
    Shape: tensor (N, C, H, W), or a list of (C, H, W); result (3, height, width).
    Raises:
        TypeError: when the argument is neither a tensor nor a list of tensors, or `value_range` is not a pair.

    >>> import tdt
    >>> from tdt.vision.utils import make_grid
    >>> make_grid(tdt.zeros(5, 3, 8, 8), nrow=4).shape
    tdt.Size([3, 22, 42])
    """
    images = _batch(tensor)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range has to be a tuple (min, max) if specified. min and max are numbers")
        images = images.clone()
        for part in images if scale_each else [images]:
            low, high = value_range or (float(part.min()), float(part.max()))
            part.clamp_(low, high).sub_(low).div_(max(high - low, 1e-5))
    count, channels, h, w = images.shape
    if count == 1:
        return images.squeeze(0)
    columns = min(nrow, count)
    height, width = h + padding, w + padding
    grid = images.new_full((channels, height * -(-count // columns) + padding, width * columns + padding), pad_value)
    for i, image in enumerate(images):
        top, left = i // columns * height + padding, i % columns * width + padding
        grid[:, top : top + h, left : left + w] = image
    return grid


def _batch(tensor: Any) -> Tensor:
    """Images as (n, c, h, w), grey ones with three channels; TypeError if they are not tensors."""
    if isinstance(tensor, list):
        for each in tensor:
            if not isinstance(each, Tensor):
                raise TypeError(f"tensor or list of tensors expected, got a list containing {type(each)}")
        tensor = tdt.stack(tensor)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
    if tensor.ndim == 2:
        tensor = tensor.unsqueeze(0)
    if tensor.ndim == 3:
        tensor = tensor.unsqueeze(0)
    if tensor.ndim != 4:
        raise ValueError(
            f"make_grid: expected images (n, c, h, w), (c, h, w) or (h, w), got shape {list(tensor.shape)}"
        )
    return tdt.cat([tensor] * 3, 1) if tensor.shape[1] == 1 else tensor


@tdt.no_grad()
def save_image(
    tensor: Tensor | list[Tensor], fp: str | Path | BinaryIO, format: str | None = None, **kwargs: Unpack[GridOptions]
) -> None:
    """Write images to a file, arranged by `make_grid(tensor, **kwargs)`; values lie in [0, 1].

    Args:
        format: Pillow's name of the file format, if the file's name does not say it.
    Shape: tensor (N, C, H, W) or (C, H, W), or a list of (C, H, W).

    >>> import tdt
    >>> from tdt.vision.utils import save_image
    >>> save_image(tdt.rand(16, 1, 8, 8), "grid.png", nrow=4)
    """
    grid = make_grid(tensor, **kwargs)
    pixels = grid.mul(255).add_(0.5).clamp_(0, 255).permute(1, 2, 0).to("cpu", tdt.uint8)
    Image.fromarray(pixels.numpy()).save(fp, format=format)
