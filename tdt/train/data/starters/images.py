"""Configs that `tdt init` writes for folders of images."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tdt.train._printable import counted
from tdt.train.data.datasets._detect import frequencies
from tdt.train.data.starters.writing import (
    UnsupportedDataError,
    class_loss,
    config_text,
    relative,
    sequential,
)
from tdt.vision._images import open_image, upright
from tdt.vision.datasets import ImageFolder
from tdt.vision.datasets._unreadable import UnreadableSamples, listed
from tdt.vision.datasets.folder import IMG_EXTENSIONS, files_below

SIDES = (128, 96, 64, 32)  # to which images of different sizes are resized
LOOKED_AT = 200  # images whose size is read
SPLITS = {
    "train": ("train",),
    "valid": ("valid", "val", "validation"),
    "test": ("test",),
}  # → usual names of their folders
Damaged = Literal["error", "skip"]


def images(folder: Path, file: Path, damaged: Damaged = "error") -> str:
    """A config that classifies images in one folder per class.

    They may be below folders train, valid (or val) and test; missing splits are drawn from the training images of each
    class. UnsupportedDataError names all images that cannot be read, unless `damaged` is "skip".
    """
    parts = split_folders(folder)
    found = _open_images(parts)
    notes = unreadable_notes(folder, found, damaged)
    classes, paths = found["train"].classes, [path for path, _ in found["train"].samples]
    sizes = some_sizes(paths)
    alike = len(set(sizes)) == 1
    counts = Counter(classes[label] for label in found["train"].targets)
    images = [f"{counted(len(data), 'image')} in {name}" for name, data in found.items()]
    report = [f"{folder.name}: {', '.join(images)}, {about_sizes(sizes)}"]
    side = next((side for side in SIDES if side <= statistics.median(map(min, sizes))), SIDES[-1])
    resize = [] if alike and max(sizes[0]) <= SIDES[0] else [f'"Resize([{side}, {side}])"']
    blocks = [(3, 32), (32, 64), (64, 128)]
    layers = [layer for i, o in blocks for layer in (f"Conv2d({i}, {o}, 3, padding=1)", "ReLU", "MaxPool2d(2)")]
    layers += [
        "AdaptiveAvgPool2d(4)",
        "Flatten",
        "LazyLinear(128)",
        "ReLU",
        "Dropout(0.2)",
        f"Linear(128, {len(classes)})",
    ]
    return config_text(
        file,
        [*report, f"  {frequencies(counts, 'classes')}", *notes, *_not_read(parts["train"])],
        _image_splits(parts, file, min(counts.values()), notes),
        [*resize, "ToTensor", '"Normalize(0.5, 0.5)"'],
        len(paths),
        sequential(layers),
        class_loss(counts),
    )


def _image_splits(parts: dict[str, Path], file: Path, fewest: int, skips: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The dataset arguments of each split. fewest: images of the smallest class, of which each split needs some."""
    return {
        name: {"type": "ImageFolder", "root": relative(parts.get(name, parts["train"]), file), **settings}
        for name, settings in split_settings(parts, fewest, skips).items()
    }


def split_settings(parts: Mapping[str, object], fewest: int, skips: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The arguments of each split: those that there are no folders for are drawn from the training images.

    Args:
        parts: the splits that have folders.
        fewest: samples of the smallest class, of which each split needs some.
        skips: whether to leave out images that cannot be read.
    """
    drawn = ("valid", "test") if fewest >= 7 else ("valid",) if fewest >= 4 else ()
    shares: dict[str, Any] = {name: 0.15 for name in drawn if name not in parts}
    skip = {"damaged": "skip"} if skips else {}
    return {
        name: ({"split": name, **shares} if shares and (name == "train" or name in shares) else {}) | skip
        for name in SPLITS
        if name == "train" or name in parts or name in shares
    }


def split_folders(folder: Path) -> dict[str, Path]:
    """The folder of each split below `folder`; if there is none for training, `folder` itself."""
    there = {
        name: [folder / place for place in usual if (folder / place).is_dir()][:1] for name, usual in SPLITS.items()
    }
    return {name: place for name, places in there.items() for place in places} if there["train"] else {"train": folder}


def _open_images(parts: dict[str, Path]) -> dict[str, ImageFolder]:
    """The dataset of each split, all with the same classes, at least two."""
    try:
        found = {name: ImageFolder(part, damaged="skip") for name, part in parts.items()}
    except FileNotFoundError as error:
        raise UnsupportedDataError(str(error).removeprefix("ImageFolder: ")) from error
    classes = found["train"].classes
    for name, other in found.items():
        if other.classes != classes:
            raise UnsupportedDataError(
                f"{parts[name]} has the classes {', '.join(other.classes)}, but train {', '.join(classes)}"
            )
    if len(classes) < 2:
        raise UnsupportedDataError(
            f"{parts['train']}: one folder, {classes[0]}; images of two classes are needed, a folder for each"
        )
    for number, name in enumerate(classes):
        if number not in found["train"].targets:
            raise UnsupportedDataError("\n".join(["no image of " + name + " can be read:", *found["train"].left_out]))
    return found


def unreadable_notes(folder: Path, found: Mapping[str, UnreadableSamples], damaged: Damaged) -> list[str]:
    """Lines about the samples that the splits left out because they cannot be read; UnsupportedDataError for "error"."""
    reasons = [why for data in found.values() for why in data.left_out]
    if not reasons:
        return []
    count, *lines = listed(reasons, sum(len(data.samples) for data in found.values()) + len(reasons))
    if damaged == "error":
        command = shlex.join(["tdt", "init", str(folder), "--skip-damaged"])
        raise UnsupportedDataError("\n".join([count, *lines, f"replace or remove them, or leave them out: {command}"]))
    return [f"  left out: {count}", *(f"  {line}" for line in lines)]


def _not_read(folder: Path) -> list[str]:
    """A line about files whose names do not end as those of images that are read."""
    endings = Counter(Path(name).suffix.lower() for name in files_below(folder))
    others = [(ending or "without an ending", n) for ending, n in endings.most_common() if ending not in IMG_EXTENSIONS]
    shown = ", ".join(f"{n:,} {ending}" for ending, n in others[:5])
    return [f"  files that are not read: {shown}; images end in {', '.join(IMG_EXTENSIONS)}"] if others else []


def some_sizes(paths: Sequence[str]) -> list[tuple[int, int]]:
    """Width and height of some images, spread over all."""
    sizes = []
    for path in paths[:: -(-len(paths) // LOOKED_AT)]:
        with open_image(path, path) as image:
            sizes.append(upright(image).size)
    return sizes


def about_sizes(sizes: Sequence[tuple[int, int]]) -> str:
    """The range of widths and heights."""
    widths, heights = (sorted(size[i] for size in sizes) for i in (0, 1))
    if len(set(sizes)) == 1:
        return f"all {widths[0]} x {heights[0]}"
    return f"{widths[0]} to {widths[-1]} pixels wide, {heights[0]} to {heights[-1]} high"
