"""MNIST and the sets that came after it in the same format: 70,000 grey images of 28 × 28 pixels in 10 classes."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from tdt.vision.datasets._base import FileImages
from tdt.vision.datasets._files import Remote, fetch, find, may_download

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


class MNIST(FileImages):
    """MNIST: handwritten digits of 28×28 pixels, 60,000 for training and 10,000 for testing.

    Items are (image, label): a uint8 array (28, 28), or the result of `transform`, and an int in 0..9.

    Args:
        root: the files are in `root/MNIST/raw`, `root/MNIST` or `root`, with or without `.gz`; None stands for the
            environment variable TDT_DATA, or else `tdt/data` in the user's cache.
        train: whether the training or the test part is read.
        split: the same in other words: "train" (all but the last 10,000 training images), "valid" (these) or "test".
        download: download missing files.
    Raises:
        FileNotFoundError: when files are missing; the message says which to put where.
        ValueError: when a file is damaged or something else, or `split` is another name.
    Source: LeCun, Bottou, Bengio and Haffner, "Gradient-Based Learning Applied to Document Recognition", 1998.

    >>> from tdt.vision.datasets import MNIST
    >>> try:
    ...     MNIST("no/such/folder")
    ... except FileNotFoundError as error:
    ...     print(str(error)[:37])
    MNIST: put train-images-idx3-ubyte.gz
    """

    sizes = {"train": 60_000, "test": 10_000}
    shape = (28, 28)
    held_out = 10_000
    classes = ["0 - zero", "1 - one", "2 - two", "3 - three", "4 - four",
               "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine"]  # fmt: skip
    download_size = 11_594_722
    base = "https://ossci-datasets.s3.amazonaws.com/mnist/"
    md5 = {
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    }

    @property
    def raw_folder(self) -> Path:
        """Where downloads go: `root/MNIST/raw`."""
        return self.root / type(self).__name__ / "raw"

    def _load(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        paths = [self._path(name) for name in FILES[part]]
        if None in paths:
            raise self._missing_part(part)
        self._files = [path for path in paths if path]
        pixels, numbers = (read_idx(path, dims) for path, dims in zip(self._files, (3, 1), strict=True))
        return pixels, numbers.astype(np.int64)

    def missing_files(self) -> FileNotFoundError | None:
        """What reading the files would raise because one is not there, without reading any; None where all are."""
        part = "train" if self.train else "test"
        return None if all(map(self._find, FILES[part])) else self._missing_part(part)

    def _missing_part(self, part: str) -> FileNotFoundError:
        return self._missing([f"{name}.gz" for name in FILES[part]], self.raw_folder)

    def _find(self, name: str) -> Path | None:
        return find([name, f"{name}.gz"], [self.raw_folder, self.raw_folder.parent, self.root])

    def _path(self, name: str) -> Path | None:
        path = self._find(name)
        if path is None and self.download and may_download():
            return fetch(Remote(f"{name}.gz", self.md5[name], self.base), self.raw_folder)
        return path


class FashionMNIST(MNIST):
    """Fashion-MNIST: articles of clothing; items and arguments are those of `MNIST`, files in `root/FashionMNIST/raw`.

    Raises:
        FileNotFoundError: when files are missing; the message says which to put where.
        ValueError: when a file is damaged or something else, or `split` is another name.
    Source: Xiao, Rasul and Vollgraf, "Fashion-MNIST: a Novel Image Dataset", 2017.

    >>> from tdt.vision.datasets import FashionMNIST
    >>> FashionMNIST.classes[9]
    'Ankle boot'
    """

    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
               "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]  # fmt: skip
    download_size = 30_878_645
    base = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
    md5 = {
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    }


class KMNIST(MNIST):
    """Kuzushiji-MNIST: cursive Japanese characters; items and arguments are those of `MNIST`, files in `root/KMNIST/raw`.

    Raises:
        FileNotFoundError: when files are missing; the message says which to put where.
        ValueError: when a file is damaged or something else, or `split` is another name.
    Source: Clanuwat et al., "Deep Learning for Classical Japanese Literature", 2018.

    >>> from tdt.vision.datasets import KMNIST
    >>> KMNIST.classes[:3]
    ['o', 'ki', 'su']
    """

    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
    download_size = 21_240_888
    base = "http://codh.rois.ac.jp/kmnist/dataset/kmnist/"
    md5 = {
        "train-images-idx3-ubyte": "bdb82020997e1d708af4cf47b453dcf7",
        "train-labels-idx1-ubyte": "e144d726b3acfaa3e44228e80efcd344",
        "t10k-images-idx3-ubyte": "5c965bf0a639b31b8f53240b1b52f4d7",
        "t10k-labels-idx1-ubyte": "7320c461ea6c1c855c0b718fb2a4b134",
    }


def read_idx(path: Path, dims: int) -> np.ndarray:
    """The uint8 array of `dims` axes in an IDX file: bytes 0, 0, 8, dims, sizes as big-endian int32, then the values.

    Of a packed file no more is unpacked than its own sizes ask for. ValueError if it is damaged or of another kind.
    """
    with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
        try:
            head = file.read(4 + 4 * dims)
            if len(head) < 4 + 4 * dims or head[:4] != bytes([0, 0, 8, dims]):
                raise ValueError(f"{path}: expected an IDX file of bytes with {dims} axes; it begins with {head[:4]!r}")
            shape = tuple(int.from_bytes(head[4 * i : 4 * i + 4], "big") for i in range(1, dims + 1))
            size = math.prod(shape)
            if size > 1 << 30:
                raise ValueError(f"{path}: says that it holds {shape}, more than a GiB")
            values = file.read(size + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: is damaged or truncated: {error}") from error
    if len(values) != size:
        raise ValueError(f"{path}: should hold {size} values for its shape {shape}, but holds "
                         f"{'more' if len(values) > size else len(values)}")  # fmt: skip
    return np.frombuffer(bytearray(values), np.uint8).reshape(shape)
