"""Steps made of steps: some of them, one of them, all in any order; and a step made of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tdt
from tdt import Generator, Tensor
from tdt._backend.device import CPU
from tdt._random import generator_for, permutation, uniform
from tdt.vision._types import ImageLike, ImageTransform
from tdt.vision.transforms._base import Compose, Transform


class _Drawn(Transform):
    """Steps of which some, in an order, are drawn for each image."""

    random = True

    def __init__(self, transforms: Sequence[Transform], generator: Generator | None = None) -> None:
        if not isinstance(transforms, Sequence):
            raise TypeError(f"{type(self).__name__}: transforms should be a sequence, got {type(transforms).__name__}")
        self.transforms, self.generator = list(transforms), generator
        self.takes_tensors = any(getattr(step, "takes_tensors", False) for step in self.transforms)
        self.moves_pixels = Compose(self.transforms).moves_pixels

    def _steps(self) -> Sequence[Transform]:
        raise NotImplementedError

    def __call__(self, image: ImageLike) -> Any:
        return Compose(self._steps())(image)

    def batch(self, images: Any) -> Any:
        """Each of the images with steps of its own; these must leave all at one size."""
        outputs = [Compose(self._steps()).batch(images[i : i + 1]) for i in range(len(images))]
        if not outputs:
            return images
        return tdt.cat(outputs) if isinstance(outputs[0], Tensor) else np.concatenate(outputs)

    def draw_from(self, generator: Generator | None) -> None:
        self.generator = generator
        Compose(self.transforms).draw_from(generator)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.transforms!r})"


class RandomApply(_Drawn):
    """All of the steps with probability `p`, else none.

    Args:
        transforms: the steps, in order.

    >>> import tdt
    >>> from tdt.vision.transforms import RandomApply, RandomHorizontalFlip
    >>> RandomApply([RandomHorizontalFlip(1.0)], p=1.0)(tdt.arange(3).reshape(1, 1, 3))
    tensor([[[2, 1, 0]]])
    """

    def __init__(self, transforms: Sequence[Transform], p: float = 0.5, *, generator: Generator | None = None) -> None:
        super().__init__(transforms, generator)
        self.p = p

    def _steps(self) -> Sequence[Transform]:
        drawn = uniform(generator_for(self.generator, CPU), (1,), np.float32)[0]
        return () if self.p < drawn else self.transforms

    def __repr__(self) -> str:
        return f"RandomApply({self.transforms!r}, p={self.p})"


class RandomChoice(_Drawn):
    """One of several transforms, drawn for each call from the default generator, with weights `p`.

    Args:
        transforms: the steps, of which one is drawn.
    Raises:
        TypeError: when `transforms` or `p` is not a sequence.
        ValueError: when there are not as many weights as transforms.

    >>> import tdt
    >>> from tdt.vision.transforms import CenterCrop, RandomChoice
    >>> RandomChoice([CenterCrop(1), CenterCrop(2)], p=[1, 0])(tdt.zeros(1, 4, 4)).shape
    tdt.Size([1, 1, 1])
    """

    def __init__(
        self, transforms: Sequence[Transform], p: Sequence[float] | None = None, *, generator: Generator | None = None
    ) -> None:
        super().__init__(transforms, generator)
        if p is not None and not isinstance(p, Sequence):
            raise TypeError("Argument p should be a sequence")
        if p is not None and len(p) != len(self.transforms):
            raise ValueError(f"RandomChoice: {len(p)} weights for {len(self.transforms)} transforms")
        self.p = p

    def _steps(self) -> Sequence[Transform]:
        weights = np.cumsum(np.ones(len(self.transforms)) if self.p is None else np.asarray(self.p, float))
        drawn = uniform(generator_for(self.generator, CPU), (1,), np.float64)[0] * weights[-1]
        return [self.transforms[int(np.searchsorted(weights, drawn, side="right"))]]


class RandomOrder(_Drawn):
    """All of the steps, in an order drawn for each image.

    Args:
        transforms: the steps.

    >>> import tdt
    >>> from tdt.vision.transforms import CenterCrop, RandomOrder
    >>> RandomOrder([CenterCrop(3), CenterCrop(2)])(tdt.zeros(1, 2, 2)).shape[0]
    1
    """

    def __init__(self, transforms: Sequence[Transform], *, generator: Generator | None = None) -> None:
        super().__init__(transforms, generator)

    def _steps(self) -> Sequence[Transform]:
        order = permutation(generator_for(self.generator, CPU), len(self.transforms), np.int64)
        return [self.transforms[i] for i in order.tolist()]


class Lambda(Transform):
    """Function of one image as a transform; it is assumed to be random, so its results are not kept.

    Raises:
        TypeError: when `lambd` is not callable.

    >>> import tdt
    >>> from tdt.vision.transforms import Lambda
    >>> Lambda(lambda image: image * 2)(tdt.ones(1))
    tensor([2.])
    """

    random = True

    def __init__(self, lambd: ImageTransform) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, image: ImageLike) -> Any:
        return self.lambd(image)

    def batch(self, images: Any) -> Any:
        """The function of each of the images."""
        outputs = [self.lambd(image) for image in images]
        return tdt.stack(outputs) if isinstance(images, Tensor) else np.stack(outputs)

    def __repr__(self) -> str:
        return "Lambda()"
