"""From arrays to tensors, and to the scale that a network likes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from tdt import Tensor
from tdt._core.dtype import get_default_dtype
from tdt._core.tensor import wrap
from tdt.vision.transforms._base import Transform


class ToTensor(Transform):
    """Arrays (H, W) or (H, W, C) as tensors (C, H, W).

    uint8 in 0..255 becomes the default float dtype in 0..1; any other dtype keeps its values and its dtype, such as
    the pixels of `Digits`, which are 0..1 already. Raises ValueError for arrays that are no images.

    >>> import numpy as np
    >>> from tdt.vision.transforms import ToTensor
    >>> ToTensor()(np.zeros((8, 8, 3), dtype=np.uint8)).shape
    tdt.Size([3, 8, 8])
    """

    moves_pixels = False

    def batch(self, images: np.ndarray) -> Tensor:
        """Images (N, H, W) or (N, H, W, C) as a tensor (N, C, H, W), bytes scaled to [0, 1].

        Raises:
            ValueError: when `images` has another number of dimensions.
        """
        if isinstance(images, Tensor) or images.ndim not in (3, 4):
            raise ValueError(f"ToTensor: expected arrays (H, W) or (H, W, C), got {type(images).__name__} of "
                             f"shape {tuple(images.shape[1:])}")  # fmt: skip
        if images.ndim == 3:
            images = images[..., None]
        chw = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
        return wrap(np.divide(chw, 255, dtype=get_default_dtype().np) if chw.dtype == np.uint8 else chw)

    def __repr__(self) -> str:
        return "ToTensor()"


class Normalize(Transform):
    """Standardises channels: (x - mean) / std.

    Args:
        mean, std: one number for all channels, or one for each.
    Shape: image (C, H, W); result the same shape.
    Raises:
        ValueError: when a std is 0, or there are more numbers than channels.
        TypeError: when the image is not a floating-point tensor.

    >>> import tdt
    >>> from tdt.vision.transforms import Normalize
    >>> Normalize(mean=[0.0, 1.0], std=[1.0, 2.0])(tdt.ones(2, 1, 1)).flatten()
    tensor([1., 0.])
    """

    moves_pixels = False

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        if not np.all(np.asarray(std)):
            raise ValueError(f"Normalize: std must not be 0, got {std}")
        self.mean, self.std = mean, std

    def batch(self, images: Tensor) -> Tensor:
        """Tensors (N, C, H, W), standardised.

        Raises:
            TypeError: when `images` is not a floating-point tensor.
            ValueError: when the numbers of means or stds do not match the channels.
        """
        if not isinstance(images, Tensor) or not images.is_floating_point():
            got = images.dtype if isinstance(images, Tensor) else type(images).__name__
            raise TypeError(f"Normalize: expected a floating-point tensor, got {got}; put ToTensor before it")
        for name, value in (("mean", self.mean), ("std", self.std)):
            if np.size(value) not in (1, images.shape[-3]):
                raise ValueError(f"Normalize: {name} has {np.size(value)} numbers for {images.shape[-3]} channels")
        mean, std = (
            wrap(np.asarray(value, dtype=images.dtype.np).reshape(-1, 1, 1)).to(images.device)
            for value in (self.mean, self.std)
        )
        return (images - mean) / std

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


class PILToTensor(Transform):
    """Pillow images, or arrays (H, W) or (H, W, C), as tensors (C, H, W) of the same values and dtype.

    >>> import numpy as np
    >>> from tdt.vision.transforms import PILToTensor
    >>> PILToTensor()(np.full((1, 2), 7, dtype=np.uint8))
    tensor([[[7, 7]]], dtype=tdt.uint8)
    """

    moves_pixels = False

    def batch(self, images: np.ndarray) -> Tensor:
        """Images (N, H, W) or (N, H, W, C) as a tensor (N, C, H, W) of the same values.

        Raises:
            TypeError: when `images` are tensors.
        """
        if isinstance(images, Tensor) or images.ndim not in (3, 4):
            raise TypeError(f"pic should be PIL Image. Got {type(images)}")
        return wrap((images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)).copy())

    def __repr__(self) -> str:
        return "PILToTensor()"


# The mode that an image of so many channels and of this dtype is read in; another one with as many channels may be requested.
MODES = {
    (1, "uint8"): ("L",), (1, "int16"): ("I;16",), (1, "int32"): ("I",), (1, "float32"): ("F",), (2, "uint8"): ("LA",),
    (3, "uint8"): ("RGB", "YCbCr", "HSV"), (4, "uint8"): ("RGBA", "CMYK", "RGBX"),
}  # fmt: skip


class ToPILImage:
    """Tensor or array as a Pillow image.

    Args:
        mode: Pillow's mode; None chooses it by channels and dtype. Floating-point values in [0, 1] become bytes unless
            it
            is "F".
    Shape: tensor (C, H, W) or (H, W), or array (H, W, C) or (H, W).
    Raises:
        TypeError: when the argument is neither a tensor nor an array, or of a dtype without a mode.
        ValueError: when the number of dimensions or channels, or the mode, does not fit.

    >>> import tdt
    >>> from tdt.vision.transforms import ToPILImage
    >>> ToPILImage()(tdt.ones(3, 2, 2)).getpixel((0, 0))
    (255, 255, 255)
    """

    random = False

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: np.ndarray | Tensor) -> Image.Image:
        if not isinstance(pic, (Tensor, np.ndarray)):
            raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        if isinstance(pic, Tensor):
            pic = pic.detach().cpu().numpy()
            pic = pic.transpose(1, 2, 0) if pic.ndim == 3 else pic
        pic = pic[:, :, None] if pic.ndim == 2 else pic
        channels = pic.shape[2]
        if channels > 4:
            raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
        if pic.dtype.kind in "fV" and self.mode != "F":
            pic = (pic * 255).astype(np.uint8)
        modes = MODES.get((channels, pic.dtype.name))
        if modes is None:
            raise TypeError(f"Input type {pic.dtype} is not supported")
        if self.mode is not None and self.mode not in modes:
            raise ValueError(
                f"ToPILImage: {channels} channels of {pic.dtype} have mode {' or '.join(modes)}, not {self.mode}"
            )
        size = pic.shape[1::-1]
        mode = self.mode or modes[0]
        return Image.frombuffer(mode, size, np.ascontiguousarray(pic).tobytes(), "raw", mode, 0, 1)

    def __repr__(self) -> str:
        return f"ToPILImage({'' if self.mode is None else f'mode={self.mode}'})"
