"""Transform: what every preparing step is; Compose: several as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tdt import Generator, Tensor
from tdt.vision._types import ImageLike, ImageTransform


class Transform:
    """Base class of transforms: `transform(image)` takes one image, `transform.batch(images)` many along the first axis.

    An image is a NumPy array (H, W) or (H, W, C), a Pillow image, or, after ToTensor, a Tensor (C, H, W). Subclasses
    write `batch`; one image is a batch of one. So a deterministic transform can prepare a whole data set once, and a
    random
    one a whole batch at a time; both give the same as image by image.

    random: whether two calls may differ. takes_tensors: whether it takes tensors only. moves_pixels: whether the result
    may show something at another place; False for a transform that changes values alone, such as colours.
    generator: source of random numbers; None is the default generator.
    refused_arguments: those of torchvision's that a transform does not take, and why, for messages about configs.

    >>> import tdt
    >>> class Invert(tdt.vision.transforms.Transform):
    ...     def batch(self, images):
    ...         return 1 - images
    >>> Invert()(tdt.zeros(1, 1, 1))
    tensor([[[1.]]])
    """

    refused_arguments: ClassVar[Mapping[str, str]] = {
        "inplace": "a step leaves the images that it is given as they are"
    }
    random = False
    takes_tensors = False
    moves_pixels = True
    generator: Generator | None = None

    def batch(self, images: Any) -> Any:
        """All `images` transformed: (N, H, W), (N, H, W, C) or a Tensor (N, C, H, W).

        Raises:
            NotImplementedError: when a subclass does not write it.
        """
        raise NotImplementedError(f"{type(self).__name__} must define batch(images)")

    def __call__(self, image: ImageLike) -> Any:
        """One image, prepared."""
        return self.batch(image[None] if isinstance(image, Tensor) else np.asarray(image)[None])[0]

    def draw_from(self, generator: Generator | None) -> None:
        """Let the random steps draw from `generator`."""
        self.generator = generator


class Compose(Transform):
    """Steps one after the other. `batch` needs every step to be a Transform; one image passes any callable.

    >>> import numpy as np
    >>> from tdt.vision.transforms import Compose, Normalize, ToTensor
    >>> prepare = Compose([ToTensor(), Normalize(0.5, 0.5)])
    >>> prepare(np.array([[0, 255]], dtype=np.uint8))
    tensor([[[-1.,  1.]]])
    """

    def __init__(self, transforms: Sequence[ImageTransform]) -> None:
        self.transforms = list(transforms)

    @property
    def random(self) -> bool:  # type: ignore[override]
        """Whether any step is random; a plain callable is taken to be."""
        return any(getattr(step, "random", True) for step in self.transforms)

    @property
    def moves_pixels(self) -> bool:  # type: ignore[override]
        """Whether any step moves pixels; a plain callable is taken to."""
        return any(getattr(step, "moves_pixels", True) for step in self.transforms)

    def __call__(self, image: ImageLike) -> Any:
        for step in self.transforms:
            image = step(image)
        return image

    def batch(self, images: Any) -> Any:
        for step in self.transforms:
            if not isinstance(step, Transform):
                raise TypeError(f"Compose.batch: {step!r} takes one image only; derive it from Transform")
            images = step.batch(images)
        return images

    def draw_from(self, generator: Generator | None) -> None:
        for step in self.transforms:
            if isinstance(step, Transform):
                step.draw_from(generator)

    def __repr__(self) -> str:
        return f"Compose({self.transforms!r})"
