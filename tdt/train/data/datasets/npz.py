"""NPZ: arrays that NumPy has saved."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import tdt
from tdt.train._regular_file import open_regular
from tdt.train.data.datasets._base import Arrays
from tdt.train.data.nested import leaves, mapped
from tdt.utils.data._splits import Split, check_split, split_indices

LARGEST, DENSEST = 1 << 30, 100  # an array above that size, packed more than so many times, is taken for a bomb
MOST_CLASSES = 1 << 20


class NPZ(Arrays):
    """Two arrays of a `.npz` file with a row for each sample: inputs `x`, targets `y`. Several of either, for a model with
    as many inputs or outputs, are a list of names, `x: [left, right]`, or a mapping from the model's to the file's names.

    Items are (input, target). Inputs are tensors of the default dtype where the array is of floats, else of its own dtype.
    Whole numbers are classes; other targets are tensors of the default dtype.

    images: inputs stay arrays (H, W) or (H, W, C), for ToTensor and the other image transforms.
    split: "train", "valid" or "test": what is left of the rows, the share `valid` and the share `test`, drawn with
        `seed`. Without it all rows.
    classes: their names, in the order of their numbers.

    FileNotFoundError; ValueError for a damaged file, a missing array, arrays that do not fit together or hold objects.

    >>> import numpy as np, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "points.npz")
    >>> np.savez(path, x=np.zeros((10, 3)), y=np.arange(10) % 2)
    >>> data = NPZ(path, split="train", valid=0.2)
    >>> len(data), data[1]
    (8, (tensor([0., 0., 0.]), 1))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        x: str | list[str] | dict[str, str] = "x",
        y: str | list[str] | dict[str, str] = "y",
        images: bool = False,
        *,
        split: Split | None = None,
        valid: float = 0.0,
        test: float = 0.0,
        seed: int = 0,
        classes: list[str] | None = None,
    ) -> None:
        check_split("NPZ", split, valid, test)
        path = self._path = Path(path).expanduser()
        names = tuple({name: name for name in side} if isinstance(side, list) else side for side in (x, y))
        stored = _read(path, tuple(leaves(names)))
        inputs, targets = mapped(lambda name: _plain(stored[name], path, name), names)
        count = len(next(leaves(targets)))
        if any(part.ndim < 2 for part in leaves(inputs)) or any(
            len(part) != count for part in leaves((inputs, targets))
        ):
            shapes = " and ".join(f"{name} {stored[name].shape}" for name in leaves(names))
            raise ValueError(f"NPZ: {path}: {shapes}: expected two axes or more, and a row for each target")
        rows = np.arange(count) if split is None else split_indices(count, valid, test, seed)[split]
        self.as_arrays = images
        self.data, self.targets = mapped(lambda part: part[rows], (inputs, targets))
        if isinstance(targets, np.ndarray) and targets.dtype.kind in "iu" and targets.ndim == 1 and len(targets):
            largest = int(targets.max())
            if largest >= MOST_CLASSES:
                raise ValueError(f"NPZ: {path}: {y} holds {largest}, which is too large for the number of a class; "
                                 "numbers to predict are saved as floats")  # fmt: skip
            self.classes = classes or [str(number) for number in range(largest + 1)]

    def source_files(self) -> list[Path]:
        """The file that the arrays come from."""
        return [self._path]


def _read(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as packed:
            for info in packed.infolist():
                if info.file_size > LARGEST and info.file_size > DENSEST * info.compress_size:
                    raise ValueError(f"NPZ: {path}: {info.filename} unpacks to {info.file_size} bytes from "
                                     f"{info.compress_size}; save it with numpy.savez to be taken")  # fmt: skip
        with np.load(path, allow_pickle=False) as stored:
            lacking = [name for name in names if name not in stored]
            if lacking:
                raise ValueError(f"NPZ: {path} has no array {', '.join(lacking)}; it has {', '.join(stored.files)}")
            return {name: _array(stored, name, path) for name in names}
    except (zipfile.BadZipFile, zlib.error, EOFError, zipfile.LargeZipFile) as error:
        raise ValueError(f"NPZ: {path}: is damaged or no .npz file: {error}") from error


def _array(stored: Any, name: str, path: Path) -> np.ndarray:
    try:
        return np.asarray(stored[name])
    except ValueError as error:
        raise ValueError(f"NPZ: {path}: {name} holds objects, or is damaged: {error}") from error


def _plain(array: np.ndarray, path: Path, name: str) -> np.ndarray:
    if array.dtype.kind not in "fiub" or not array.ndim:
        raise ValueError(f"NPZ: {path}: {name} holds {array.dtype} of shape {array.shape}; expected numbers in rows")
    if array.dtype.kind == "f":
        return array.astype(tdt.get_default_dtype().np)
    return array if array.dtype == np.uint8 and array.ndim > 1 else array.astype(np.int64)
