"""Configs that `tdt init` writes for folders of images with masks."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tdt.train._printable import counted
from tdt.train.data.starters.images import (
    Damaged,
    about_sizes,
    some_sizes,
    split_folders,
    split_settings,
    unreadable_notes,
)
from tdt.train.data.starters.writing import Tail, UnsupportedDataError, config_text, relative
from tdt.vision._images import UnreadableImage, open_image
from tdt.vision.datasets import ImageMasks
from tdt.vision.datasets.masks import files_by_stem, read_mask

IMAGES = ("images", "image", "imgs", "photos")  # usual names of the folders
MASKS = ("masks", "mask", "labels", "annotations", "segmentation")
LARGEST, MULTIPLE = (
    192,
    8,
)  # of an image's sides: what the network takes in reasonable time, and what it halves three times
MOST_CLASSES = 200
IGNORED = 255  # the usual value of pixels that do not count
BORDER = 0xE0E0C0  # their color in Pascal VOC

Pair = tuple[Path, Path]

UNET = """\
blocks:                 # a small U-Net (Ronneberger et al., 2015)
  conv(inp, out): ["Conv2d(inp, out, 3, padding=1, bias=false)", BatchNorm2d(out), ReLU]
  double(inp, out): ["conv(inp, out)", "conv(out, out)"]
model:
  graph:
    level1: double(3, 16)
    level2: [MaxPool2d(2), "double(16, 32)"]
    level3: [MaxPool2d(2), "double(32, 64)"]
    level4: [MaxPool2d(2), "double(64, 128)"]
    up3: ConvTranspose2d(128, 64, 2, stride=2)
    both3: {type: Concat, from: [level3, up3]}
    up2: ["double(128, 64)", "ConvTranspose2d(64, 32, 2, stride=2)"]
    both2: {type: Concat, from: [level2, up2]}
    up1: ["double(64, 32)", "ConvTranspose2d(32, 16, 2, stride=2)"]
    both1: {type: Concat, from: [level1, up1]}
    scores: ["double(32, 16)", "Conv2d(16, CLASSES, 1)"]"""


LOG = "log: {images: 8}     # in TensorBoard: image, truth and prediction side by side\n"


def find_pairs(folder: Path) -> dict[str, Pair]:
    """The folders of images and of masks of each split; empty if there are none.

    They are images/ and masks/ (or other usual names) in `folder`; in train/, valid/ and test/ of it; or both with these
    folders in them.
    """
    found = {name: pair for name, place in split_folders(folder).items() if (pair := _pair(place))}
    if (pair := found.get("train")) and not _has_files(pair):
        splits = [split_folders(part) for part in pair]
        return {name: (splits[0][name], splits[1][name]) for name in splits[0] if name in splits[1]}
    return found if pair else {}


def _pair(folder: Path) -> Pair | None:
    places = [[folder / name for name in usual if (folder / name).is_dir()] for usual in (IMAGES, MASKS)]
    return (places[0][0], places[1][0]) if all(places) else None


def _has_files(pair: Pair) -> bool:
    return any(path.is_file() for path in pair[0].iterdir())


class Pixels(NamedTuple):
    """What the pixels of masks are: class name → value or color, the pixels of each, and the value that does not count."""

    classes: dict[str, int | str]
    counts: Counter[str]
    ignored: int | str | None

    def settings(self) -> dict[str, Any]:
        """The arguments of the dataset."""
        plain = list(self.classes.values()) == list(range(len(self.classes)))
        return {"classes": list(self.classes) if plain else self.classes} | (
            {} if self.ignored == IGNORED else {"ignore": self.ignored}
        )

    def line(self) -> str:
        """Their frequencies."""
        shown = ", ".join(f"{name} {self.counts[name] / self.counts.total():.1%}" for name in list(self.classes)[:5])
        more = ", …" if len(self.classes) > 5 else ""
        ignored = f"; {self.ignored} does not count" if self.ignored is not None and self.counts["ignored"] else ""
        return f"{len(self.classes)} classes of pixels: {shown}{more}{ignored}"


def masks(folder: Path, pairs: Mapping[str, Pair], file: Path, damaged: Damaged = "error") -> str:
    """A config that finds the class of each pixel, for the pairs from `find_pairs`.

    Missing splits are drawn from the training images. UnsupportedDataError names all images that cannot be read, unless
    `damaged` is "skip".
    """
    pixels = _pixels_of([path for _, place in pairs.values() for path in files_by_stem(place).values()])
    try:
        found = {name: ImageMasks(*pair, **pixels.settings(), damaged="skip") for name, pair in pairs.items()}
    except (FileNotFoundError, ValueError) as error:
        raise UnsupportedDataError(str(error).removeprefix("ImageMasks: ")) from error
    notes = unreadable_notes(folder, found, damaged)
    n = len(found["train"])
    if n < 2:
        raise UnsupportedDataError(f"{pairs['train'][0]}: has {counted(n, 'image')} with a mask; at least 2 are needed")
    sizes = some_sizes([photo for photo, _ in found["train"].samples])
    width, height = network_size(sizes)
    resize = [] if set(sizes) == {(width, height)} else [f'"Resize([{height}, {width}])"']
    images = [f"{counted(len(data), 'image')} in {name}" for name, data in found.items()]
    splits = _splits(pairs, file, n, pixels, notes)
    text = config_text(
        file,
        [f"{folder.name}: {', '.join(images)}, with masks, {about_sizes(sizes)}", f"  {pixels.line()}", *notes],
        splits,
        [*resize, "ToTensor", '"Normalize(0.5, 0.5)"'],
        n,
        UNET.replace("CLASSES", str(len(pixels.classes))).splitlines(),
        Tail(["loss: CrossEntropyLoss", "metrics: [iou, dice, accuracy]"]),
    )
    return text + LOG if "valid" in splits else text


def _splits(
    pairs: Mapping[str, Pair], file: Path, n: int, pixels: Pixels, skips: Sequence[str]
) -> dict[str, dict[str, Any]]:
    splits = {}
    for name, settings in split_settings(pairs, n, skips).items():
        photos, own = (relative(place, file) for place in pairs.get(name, pairs["train"]))
        same = {"classes": "${data.train.classes}"} if name in pairs and name != "train" else {}
        splits[name] = {"type": "ImageMasks", "images": photos, "masks": own, **pixels.settings(), **same, **settings}
    return splits


def network_size(sizes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Width and height for the network: of the median shape, not larger than LARGEST, multiples of MULTIPLE.

    >>> from tdt.train.data.starters.masks import network_size
    >>> network_size([(640, 480)] * 3), network_size([(64, 50)])
    ((192, 144), (64, 48))
    """
    width, height = (statistics.median(size[i] for size in sizes) for i in (0, 1))
    scale = min(1, LARGEST / max(width, height)) / MULTIPLE
    return max(MULTIPLE, round(width * scale) * MULTIPLE), max(MULTIPLE, round(height * scale) * MULTIPLE)


def _pixels_of(paths: Sequence[str]) -> Pixels:
    """The classes of the pixels of masks: values, or colors if a mask has any. Masks that cannot be read are left out."""
    colored = any(_is_colored(path) for path in paths)
    counts: Counter[int] = Counter()
    for path in paths:
        with suppress(UnreadableImage):  # reported with the images
            values, times = np.unique(read_mask(path, colored), return_counts=True)
            counts.update(dict(zip(values.tolist(), times.tolist(), strict=True)))
        lossy = len(counts) > 2 and path.lower().endswith((".jpg", ".jpeg"))
        if lossy or len(counts) > MOST_CLASSES:
            what = "colors" if colored else "values"
            raise UnsupportedDataError(
                f"{path}: the masks up to this one have {len(counts):,} {what}; expected one for each class. JPEG and smooth "
                "borders add others: save masks as PNG without smoothing"
            )
    if not counts:
        raise UnsupportedDataError(f"none of the {len(paths)} masks can be read")
    outside = BORDER if colored else IGNORED
    ignored = outside if outside in counts and len(counts) > 2 else None
    found = sorted(counts.keys() - {ignored})
    if len(found) < 2:
        raise UnsupportedDataError(f"all pixels of the masks have the {'color' if colored else 'value'} "
                                   f"{format(found[0], '06x' if colored else 'd')}; at least two classes are needed")  # fmt: skip
    other = iter(["foreground"] if len(found) == 2 and 0 in found else (f"class{i}" for i in itertools.count(1)))
    names = {value: "background" if value == 0 else next(other) for value in found}
    written = {value: f"#{value:06x}" if colored else value for value in (*found, ignored or 0)}
    usual = ignored is None and (colored or IGNORED not in counts)  # there is no such pixel
    return Pixels(
        {name: written[value] for value, name in names.items()},
        Counter({names.get(value, "ignored"): count for value, count in counts.items()}),
        IGNORED if usual else None if ignored is None else written[ignored],
    )


def _is_colored(path: str) -> bool:
    """Whether a mask has pixels that are not gray. Those of a palette are numbers."""
    with suppress(UnreadableImage), open_image(path, path) as image:
        if image.mode in ("RGB", "RGBA", "CMYK"):
            pixels = np.asarray(image.convert("RGB"))
            return bool((pixels != pixels[..., :1]).any())
    return False
