"""Base classes of image datasets in memory: items, batches, and placeholders for missing files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from tdt import Tensor
from tdt._core.tensor import wrap
from tdt.utils.data import Dataset, default_collate
from tdt.vision._types import ImageTransform, TargetTransform
from tdt.vision.datasets._files import MissingFiles, home, missing
from tdt.vision.transforms import Transform


class ImageArrays(Dataset):
    """Images and labels in memory. Items are (image, label), through `transform` and `target_transform`.

    data: all images (n, H, W) or (n, H, W, C). targets: all labels, int64 (n,).
    """

    classes: Sequence[str] = ()

    def __init__(
        self,
        data: np.ndarray,
        targets: np.ndarray,
        transform: ImageTransform | None = None,
        target_transform: TargetTransform | None = None,
    ) -> None:
        self.data, self.targets = data, targets
        self.transform, self.target_transform = transform, target_transform

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, label = self.data[index], int(self.targets[index])
        return (
            image if self.transform is None else self.transform(image),
            label if self.target_transform is None else self.target_transform(label),
        )

    def batch(self, indices: Sequence[int] | slice | np.ndarray) -> tuple[Any, Any]:
        """Items of several indices at once, equal to `default_collate([data[i] for i in indices])` but faster.

        Raises:
            TypeError: when the transform is a plain callable, which takes one image only.

        >>> from tdt.vision.datasets import Digits
        >>> from tdt.vision.transforms import ToTensor
        >>> images, labels = Digits("test", transform=ToTensor()).batch(slice(None))
        >>> images.shape, labels.shape
        (tdt.Size([360, 1, 8, 8]), tdt.Size([360]))
        """
        if not isinstance(self.transform, Transform | None):
            name = type(self).__name__
            raise TypeError(f"{name}.batch: {self.transform!r} takes one image only; derive it from Transform")
        images, labels = self.data[indices], self.targets[indices]
        return (
            wrap(images.copy()) if self.transform is None else self.transform.batch(images),
            wrap(labels.copy()) if self.target_transform is None else self._targets(labels),
        )

    def _targets(self, labels: np.ndarray) -> Tensor:
        assert self.target_transform is not None
        return default_collate([self.target_transform(label) for label in labels.tolist()])


class FileImages(ImageArrays):
    """Images of a known number and shape, from files. A subclass reads them in `_load(part)`.

    sizes: how many images the parts "train" and "test" have. shape: of one image. held_out: how many of the last
    training images the split "valid" is.
    """

    sizes: dict[str, int]
    shape: tuple[int, ...]
    held_out: int
    download_size: int  # bytes of all files
    _files: Sequence[Path] = ()  # set by `_load`

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        train: bool = True,
        transform: ImageTransform | None = None,
        target_transform: TargetTransform | None = None,
        download: bool = False,
        *,
        split: Literal["train", "valid", "test"] | None = None,
    ) -> None:
        self.root, self.download = home(root), download
        if split not in (None, "train", "valid", "test"):
            raise ValueError(f"{type(self).__name__}: split {split!r} is not one of train, valid, test")
        self.train = train if split is None else split != "test"
        part = "train" if self.train else "test"
        data, targets = self._load(part)
        if data.shape[1:] != self.shape or len(data) != len(targets):
            raise ValueError(
                f"{type(self).__name__}: expected images of shape {self.shape}, one for each label; the files hold "
                f"{data.shape} images and {len(targets)} labels"
            )
        if len(targets) and not 0 <= targets.min() <= targets.max() < len(self.classes):
            raise ValueError(f"{type(self).__name__}: labels are not all in 0..{len(self.classes) - 1}")
        train_size = max(0, len(data) - self.held_out)
        chosen = {"train": slice(train_size), "valid": slice(train_size, None)}.get(split or "", slice(None))
        super().__init__(data[chosen], targets[chosen], transform, target_transform)

    def _missing(self, names: Sequence[str], folder: Path) -> MissingFiles:
        """The error for missing files `names`, which belong into `folder`."""
        root = [] if self.root == home(None) else [json.dumps(str(self.root))]
        part = [] if self.train else ["train=False"]
        return missing(type(self).__name__, names, folder, self.download_size, root + part)

    def source_files(self) -> list[Path]:
        """The files that the images and labels come from."""
        return list(self._files)

    def _load(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    @classmethod
    def blank(cls, *args: Any, **kwargs: Any) -> Self:
        """As `cls(...)` would be, without its files: as many images, all zeros, of the classes in turn."""
        return type(cls.__name__, (cls,), {"_load": cls._zeros})(*args, **kwargs)

    def missing_files(self) -> FileNotFoundError | None:
        """Error that reading would raise for a missing file, without reading any; None if all are there.

        Raises:
            NotImplementedError: when a subclass does not write it.
        """
        raise NotImplementedError

    def _zeros(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        n = self.sizes[part]
        return np.broadcast_to(np.uint8(0), (n, *self.shape)), np.arange(n) % len(self.classes)
