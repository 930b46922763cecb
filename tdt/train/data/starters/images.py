"""Configs that `tdt init` writes for folders of images."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tdt.train._printable import counted
from tdt.train.data.datasets._detect import frequencies
from tdt.train.data.starters.writing import (
    UnsupportedDataError,
    class_loss,
    config_text,
    flow,
    relative,
    sequential,
)
from tdt.vision._images import open_image
from tdt.vision.datasets import ImageFolder

SIDES = (128, 96, 64, 32)  # to which images of different sizes are resized
LOOKED_AT = 200  # images whose size is read
NAMED = 5  # unreadable files that a message lists


def images(folder: Path, file: Path) -> str:
    """A config that classifies images in one folder per class.

    They may be below folders train, valid (or val) and test; missing splits are drawn from the training images of each
    class.
    """
    parts, found = _open_images(folder)
    classes, paths = found["train"].classes, [path for path, _ in found["train"].samples]
    sizes = _sizes(paths)
    widths, heights = (sorted(size[i] for size in sizes) for i in (0, 1))
    alike = len(set(sizes)) == 1
    shown = (
        f"all {widths[0]} x {heights[0]}"
        if alike
        else f"{widths[0]} to {widths[-1]} pixels wide, {heights[0]} to {heights[-1]} high"
    )
    counts = Counter(classes[label] for label in found["train"].targets)
    images = [f"{counted(len(data), 'image')} in {name}" for name, data in found.items()]
    report = [f"{folder.name}: {', '.join(images)}, {shown}"]
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
        [*report, f"  {frequencies(counts, 'classes')}"],
        {name: flow(settings) for name, settings in _image_splits(parts, file, min(counts.values())).items()},
        [*resize, "ToTensor", '"Normalize(0.5, 0.5)"'],
        len(paths),
        sequential(layers),
        class_loss(counts),
    )


def _image_splits(parts: dict[str, Path], file: Path, fewest: int) -> dict[str, dict[str, Any]]:
    """The dataset arguments of each split. fewest: images of the smallest class, of which each split needs some."""
    drawn = ("valid", "test") if fewest >= 7 else ("valid",) if fewest >= 4 else ()
    shares: dict[str, Any] = {name: 0.15 for name in drawn if name not in parts}
    splits = {}
    for name in ("train", *(name for name in ("valid", "test") if name in parts or name in shares)):
        root = relative(parts.get(name, parts["train"]), file)
        apart = {"split": name, **shares} if shares and (name == "train" or name in shares) else {}
        splits[name] = {"type": "ImageFolder", "root": root, **apart}
    return splits


def _open_images(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
    """The folder and the dataset of each split, all with the same classes, at least two."""
    parts: dict[str, Path] = {}
    for name, own in {"train": ("train",), "valid": ("valid", "val", "validation"), "test": ("test",)}.items():
        there = [folder / place for place in own if (folder / place).is_dir()]
        parts |= {name: there[0]} if there else {}
    if "train" not in parts:
        parts = {"train": folder}
    try:
        found = {name: ImageFolder(part) for name, part in parts.items()}
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
    return parts, found


def _sizes(paths: Sequence[str]) -> list[tuple[int, int]]:
    """Width and height of some images, spread over all."""
    sizes, unread = [], []
    for path in paths[:: -(-len(paths) // LOOKED_AT)]:
        try:
            with open_image(path, path) as image:
                sizes.append(image.size)
        except (OSError, ValueError) as error:
            unread.append(str(error))
    if unread:
        others = f" and {len(unread) - NAMED:,} more" if len(unread) > NAMED else ""
        advice = "remove or replace it" if len(unread) == 1 else f"remove these{others}"
        raise UnsupportedDataError("\n".join([*unread[:NAMED], advice]))
    return sizes
