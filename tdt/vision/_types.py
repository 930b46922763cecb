"""Types of images and of transforms, for annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from PIL import Image

from tdt import Tensor

ImageLike: TypeAlias = Image.Image | np.ndarray | Tensor
Batch: TypeAlias = np.ndarray | Tensor
# An image, or a batch of images, whose kind the result has too.
AnyImage = TypeVar("AnyImage", Image.Image, np.ndarray, Tensor)
Images = TypeVar("Images", np.ndarray, Tensor)
# Any: a transform may make another kind of its image, as ToTensor does; a user's function may make anything.
ImageTransform: TypeAlias = Callable[[Any], Any]
ImageLoader: TypeAlias = Callable[[str], Any]
TargetTransform: TypeAlias = Callable[[int], Any]
