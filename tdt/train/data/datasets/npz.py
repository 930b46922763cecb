"""NPZ: arrays saved by NumPy."""

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

LARGEST, DENSEST = 1 << 30, 100  # bytes and compression ratio above which an array is rejected as a zip bomb
MOST_CLASSES = 1 << 20


class NPZ(Arrays):
    """Two arrays of a `.npz` file with one row per sample: inputs `x`, targets `y`.

    For a model with several inputs or outputs, `x` or `y` is a list of array names, `x: [left, right]`, or a mapping from
    the model's names to the file's.

    Items are (input, target). Inputs of a floating-point array have the default dtype, others the array's own.
    Integer targets are classes; others are tensors of the default dtype.

    images: keep inputs as arrays (H, W) or (H, W, C), for ToTensor and the other image transforms.
    split: "train", "valid" or "test": shares of the rows, drawn with `seed`: `valid` and `test`, and the rest for "train".
        Without it all rows.
    classes: their names, in the order of their numbers.

    Raises FileNotFoundError; ValueError for a damaged file, a missing array, and arrays of different lengths or objects.

    >>> from tdt.train.data.datasets.npz import NPZ
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
        self._name_of_targets = y if isinstance(y, str) else "targets"
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
        self._rows, self.as_arrays = rows, images
        self.data, self.targets = mapped(lambda part: part[rows], (inputs, targets))
        if isinstance(targets, np.ndarray) and targets.dtype.kind in "iu" and targets.ndim == 1 and len(targets):
            largest = int(targets.max())
            if largest >= MOST_CLASSES:
                raise ValueError(f"NPZ: {path}: {y} contains {largest}, which is too large for a class number; "
                                 "save numbers to predict as floats")  # fmt: skip
            self.classes = classes or [str(number) for number in range(largest + 1)]

    def sample_name(self, index: int) -> str:
        """The row of the sample in the file."""
        return f"{self._name_of_targets}[{self._rows[index]}] of {self._path}"

    def source_files(self) -> list[Path]:
        """The `.npz` file."""
        return [self._path]


def _read(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as packed:
            for info in packed.infolist():
                if info.file_size > LARGEST and info.file_size > DENSEST * info.compress_size:
                    raise ValueError(f"NPZ: {path}: {info.filename} unpacks to {info.file_size} bytes from "
                                     f"{info.compress_size}; save it uncompressed with numpy.savez")  # fmt: skip
        with np.load(path, allow_pickle=False) as stored:
            lacking = [name for name in names if name not in stored]
            if lacking:
                raise ValueError(f"NPZ: {path} has no array {', '.join(lacking)}; it has {', '.join(stored.files)}")
            return {name: _array(stored, name, path) for name in names}
    except (zipfile.BadZipFile, zlib.error, EOFError, zipfile.LargeZipFile) as error:
        raise ValueError(f"NPZ: {path}: is damaged or not a .npz file: {error}") from error


def _array(stored: Any, name: str, path: Path) -> np.ndarray:
    try:
        return np.asarray(stored[name])
    except ValueError as error:
        raise ValueError(f"NPZ: {path}: {name} contains objects, or is damaged: {error}") from error


def _plain(array: np.ndarray, path: Path, name: str) -> np.ndarray:
    if array.dtype.kind not in "fiub" or not array.ndim:
        raise ValueError(f"NPZ: {path}: {name} is {array.dtype} of shape {array.shape}; expected numbers in rows")
    if array.dtype.kind == "f":
        return array.astype(tdt.get_default_dtype().np)
    return array if array.dtype == np.uint8 and array.ndim > 1 else array.astype(np.int64)
