"""Data sets of images. Each item is a pair (image, label). A set's module is imported when its name is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tdt import Tensor as _Tensor  # noqa: F401  (loads the core: from here on tensors have their methods)

if TYPE_CHECKING:
    from tdt.vision.datasets.cifar import CIFAR10 as CIFAR10
    from tdt.vision.datasets.cifar import CIFAR100 as CIFAR100
    from tdt.vision.datasets.digits import Digits as Digits
    from tdt.vision.datasets.folder import ImageFolder as ImageFolder
    from tdt.vision.datasets.masks import ImageMasks as ImageMasks
    from tdt.vision.datasets.mnist import KMNIST as KMNIST
    from tdt.vision.datasets.mnist import MNIST as MNIST
    from tdt.vision.datasets.mnist import FashionMNIST as FashionMNIST

_HOMES = {"CIFAR10": "cifar", "CIFAR100": "cifar", "Digits": "digits", "FashionMNIST": "mnist", "ImageFolder": "folder",
          "ImageMasks": "masks",
          "KMNIST": "mnist", "MNIST": "mnist"}  # fmt: skip
__all__ = ["CIFAR10", "CIFAR100", "Digits", "FashionMNIST", "ImageFolder", "ImageMasks", "KMNIST", "MNIST"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
