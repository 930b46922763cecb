"""The files of the data sets that bundled configs download, with a few images of noise."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from tdt.vision.datasets import CIFAR10, MNIST

PARTS = {"train": 24, "t10k": 4}


def _text(folder: Path) -> list[str]:
    (folder / "text.txt").write_bytes(np.random.RandomState(0).bytes(700).hex().encode())
    return [f"data.{split}.path={folder / 'text.txt'}" for split in ("train", "valid")]


# What else a bundled config needs to train where nothing can be downloaded: config → overrides, given the folder.
OVERRIDES: dict[str, Callable[[Path], list[str]]] = {
    "digits-finetune": lambda folder: ["weights=null"],
    "char-lstm": _text,
    "char-gpt": _text,
}


@contextlib.contextmanager
def write_all(folder: Path) -> Iterator[Path]:
    """MNIST, FashionMNIST and CIFAR-10 in `folder`, which is where data sets are looked for within the block."""
    draw = np.random.RandomState(0)
    for name in ("MNIST", "FashionMNIST"):
        raw = folder / name / "raw"
        raw.mkdir(parents=True)
        for part, n in PARTS.items():
            _write_idx(raw / f"{part}-images-idx3-ubyte", draw.randint(0, 256, (n, 28, 28)))
            _write_idx(raw / f"{part}-labels-idx1-ubyte", np.arange(n) % 10)
    _write_cifar(folder / "cifar-10-python.tar.gz", draw)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {"TDT_DATA": str(folder)}))
        for kind in (MNIST, CIFAR10):
            stack.enter_context(mock.patch.object(kind, "held_out", 4))
        yield folder


def _write_idx(path: Path, array: np.ndarray) -> None:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes())


def _write_cifar(path: Path, draw: np.random.RandomState) -> None:
    with tarfile.open(path, "w:gz") as archive:
        for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
            images = draw.randint(0, 256, (3, 3072)).astype(np.uint8)
            text = pickle.dumps({"data": images, "labels": [0, 1, 2]}, protocol=4)
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
