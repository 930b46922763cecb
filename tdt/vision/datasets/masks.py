"""ImageMasks: images with a class for each pixel."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageColor

from tdt.utils.data import Dataset
from tdt.utils.data._splits import Split, check_split, split_indices
from tdt.vision._images import UnreadableImage, open_image, upright
from tdt.vision.datasets._unreadable import Damaged, UnreadableSamples
from tdt.vision.datasets.folder import IMG_EXTENSIONS, pil_loader
from tdt.vision.transforms.masks import IGNORED


class ImageMasks(UnreadableSamples, Dataset):
    """Images with masks, files of the same name up to the ending, for semantic segmentation.

    Items are (image, mask): a Pillow image in RGB, and class numbers (height, width), uint8, with 255 for pixels that do not
    count. In a config, transforms that move pixels (flips, crops, resizing, rotation) move both alike, and pixels that do not
    count become -100, which `CrossEntropyLoss` ignores.

    Args:
        images, masks: a folder, or a pattern such as `photos/*.jpg`.
        classes: their names, if a pixel's value is the number of its class; or a mapping from each name to the pixel's value,
            or to its color: `[255, 0, 0]` or "#ff0000".
        ignore: the value, or the color, of pixels that do not count.
        split: None for all images, or "train", "valid" or "test".
        valid, test: fractions that these splits get, drawn with `seed`.
        damaged: "skip" reads all files at once and leaves out pairs of which one cannot be read; the splits stay the same.
    Raises:
        FileNotFoundError: when there is no image, or images or masks lack their partner; all are named.
        ValueError: when two files have the same name; as it is read, when a mask has another value or size.

    >>> import tdt
    >>> import tempfile, pathlib
    >>> from PIL import Image
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for folder, mode in (("photos", "RGB"), ("masks", "L")):
    ...     (root / folder).mkdir()
    ...     Image.new(mode, (4, 3)).save(root / folder / "1.png")
    >>> data = tdt.vision.datasets.ImageMasks(root / "photos", root / "masks", ["ground", "house"])
    >>> data[0][0].size, data[0][1].shape
    ((4, 3), (3, 4))
    """

    has_masks = True

    def __init__(
        self,
        images: str | os.PathLike[str],
        masks: str | os.PathLike[str],
        classes: Sequence[str] | Mapping[str, Any],
        ignore: int | str | Sequence[int] | None = IGNORED,
        *,
        split: Split | None = None,
        valid: float = 0.0,
        test: float = 0.0,
        seed: int = 0,
        damaged: Damaged = "error",
    ) -> None:
        check_split("ImageMasks", split, valid, test)
        self.classes = list(classes)
        if not 1 <= len(self.classes) <= IGNORED:
            raise ValueError(f"ImageMasks: expected 1 to {IGNORED} classes, got {len(self.classes)}")
        values = list(classes.values()) if isinstance(classes, Mapping) else range(len(self.classes))
        self._values = [_value(value) for value in values]
        self._ignored = None if ignore is None else _value(ignore)
        self._colored = any(isinstance(value, tuple) for value in self._values)
        if self._colored and not all(isinstance(value, tuple) for value in self._values):
            raise ValueError("ImageMasks: give every class a value, or every class a color")
        photos, own = files_by_stem(images), files_by_stem(masks)
        if not photos:
            raise FileNotFoundError(f"ImageMasks: no images in {images}; they end in {', '.join(IMG_EXTENSIONS)}")
        alone = [f"{path} has no mask" for stem, path in photos.items() if stem not in own]
        alone += [f"{path} has no image" for stem, path in own.items() if stem not in photos]
        if alone:
            raise FileNotFoundError(f"ImageMasks: {'; '.join(alone)}")
        names = sorted(photos)
        chosen = range(len(names)) if split is None else split_indices(len(names), valid, test, seed)[split]
        self.samples = [(photos[names[i]], own[names[i]]) for i in chosen]
        self._leave_out(damaged)

    def source_files(self) -> list[str]:
        """The paths of images and masks."""
        return [path for pair in self.samples for path in pair]

    def _files_of(self, sample: tuple[str, str]) -> tuple[str, str]:
        return sample

    def _check_sample(self, sample: tuple[str, str]) -> None:
        self._read(*sample)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Image.Image, np.ndarray]:
        return self._read(*self.samples[index])

    def _read(self, photo: str, mask: str) -> tuple[Image.Image, np.ndarray]:
        image, classes = pil_loader(photo), self._read_mask(mask)
        if image.size != classes.shape[::-1]:
            with open_image(photo, photo) as stored:
                turned = " once turned as its EXIF orientation says" if stored.size != image.size else ""
            size = f"{image.width}x{image.height}{turned}"
            raise ValueError(f"{mask}: is {classes.shape[1]}x{classes.shape[0]}, but its image {size}")
        return image, classes

    def _read_mask(self, path: str) -> np.ndarray:
        values, expected, outside = read_mask(path, self._colored), self._values, self._ignored
        if self._colored:
            expected = [r << 16 | g << 8 | b for r, g, b in self._values]
            outside = (outside[0] << 16 | outside[1] << 8 | outside[2]) if isinstance(outside, tuple) else None
        classes = np.full(values.shape, IGNORED, np.uint8)
        known = values == outside if outside is not None else np.zeros(values.shape, bool)
        for number, value in enumerate(expected):
            classes[values == value] = number
            known |= values == value
        if not known.all():
            other = int(values[~known][0])
            shown = f"the color #{other:06x}" if self._colored else f"the value {other}"
            raise ValueError(f"{path}: has {shown}, which is that of no class; name it in classes, or as ignore")
        return classes


def read_mask(path: str, colored: bool) -> np.ndarray:
    """The pixels (height, width) of a mask as int64: their values, those of a palette its numbers; or their colors 0xrrggbb.

    Turned as its EXIF orientation says. Raises UnreadableImage that names the file, OSError.
    """
    with open_image(path, path) as image:
        mask = upright(image)
        if mask.mode == "F":
            raise UnreadableImage("has fractions as pixels; a mask has whole numbers or colors")
        if colored:
            return np.asarray(mask.convert("RGB")).astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
        whole = mask.mode in ("P", "L", "I", "1") or mask.mode.startswith("I;16")
        return np.asarray(mask if whole else mask.convert("L")).astype(np.int64)


def _value(value: Any) -> Any:
    """A pixel's value, or its color as (red, green, blue)."""
    if isinstance(value, str):
        return ImageColor.getrgb(value)[:3]
    if isinstance(value, (list, tuple)):
        if len(value) != 3 or not all(isinstance(part, int) and 0 <= part <= 255 for part in value):
            raise ValueError(f"ImageMasks: a color has three numbers from 0 to 255, got {list(value)}")
        return tuple(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"ImageMasks: expected a pixel value or a color, got {value!r}")
    return value


def files_by_stem(place: str | os.PathLike[str]) -> dict[str, str]:
    """The images in a folder, or of a pattern, by name without ending."""
    path = os.fspath(Path(place).expanduser())
    found = sorted(glob.glob(os.path.join(glob.escape(path), "*") if os.path.isdir(path) else path))
    images = [name for name in found if name.lower().endswith(IMG_EXTENSIONS) and os.path.isfile(name)]
    by_stem: dict[str, str] = {}
    for name in images:
        if (other := by_stem.setdefault(Path(name).stem, name)) != name:
            raise ValueError(f"ImageMasks: {other} and {name} have the same name up to the ending")
    return by_stem
