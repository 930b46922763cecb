"""CIFAR-10 and CIFAR-100: 60,000 colour images of 32 × 32 pixels."""

from __future__ import annotations

import io
import pickle
import tarfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from tdt.serialization._restricted import GlobalNotAllowed, RestrictedUnpickler
from tdt.vision.datasets._base import FileImages
from tdt.vision.datasets._files import Remote, fetch, find, may_download

LARGEST = 1 << 28  # bytes of a batch file; the largest is 155 MB


class CIFAR10(FileImages):
    """CIFAR-10: colour images of ten kinds of things and animals, 50,000 for training and 10,000 for testing.

    Items are (image, label): a uint8 array (32, 32, 3), or the result of `transform`, and an int in 0..9. The files are
    pickles; they are read without running any code that they contain.

    Args:
        root: folder of `cifar-10-python.tar.gz`, or of the folder `cifar-10-batches-py` from it; None stands for the
            environment variable TDT_DATA, or else `tdt/data` in the user's cache.
        train: whether the training or the test part is read.
        split: the same in other words: "train" (all but the last 5,000 training images, as He et al., 2016), "valid"
            (these)
            or "test".
        download: download the archive if it is missing.
    Raises:
        FileNotFoundError: when the files are missing; the message says which to put where.
        ValueError: when a file is damaged or something else, or `split` is another name.
    Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.

    >>> from tdt.vision.datasets import CIFAR10
    >>> try:
    ...     CIFAR10("no/such/folder")
    ... except FileNotFoundError as error:
    ...     print(str(error)[:35])
    CIFAR10: put cifar-10-python.tar.gz
    """

    sizes = {"train": 50_000, "test": 10_000}
    shape = (32, 32, 3)
    held_out = 5_000
    classes = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    folder = "cifar-10-batches-py"
    download_size = 170_498_071
    archive = Remote("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a", "https://www.cs.toronto.edu/~kriz/")
    batches = {"train": tuple(f"data_batch_{i}" for i in range(1, 6)), "test": ("test_batch",)}
    labels = "labels"

    def _load(self, part: str) -> tuple[np.ndarray, np.ndarray]:
        names, paths = self.batches[part], self._find(part)
        if None not in paths:
            self._files = [path for path in paths if path]
            contents = []
            for path in paths:
                assert path is not None
                with open(path, "rb") as file:
                    contents.append(read_batch(file, str(path), self.labels))
        else:
            contents = self._from_archive(names)
        pixels = np.concatenate([images for images, _ in contents]).reshape(-1, 3, 32, 32)
        return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1)), np.concatenate([labels for _, labels in contents])

    def _find(self, part: str) -> list[Path | None]:
        return [find([name], [self.root / self.folder, self.root]) for name in self.batches[part]]

    def missing_files(self) -> FileNotFoundError | None:
        """What reading the files would raise because one is not there, without reading any; None where all are."""
        found = self._find("train" if self.train else "test")
        if None not in found or find([self.archive.name], [self.root]):
            return None
        return self._missing([self.archive.name], self.root)

    def _from_archive(self, names: tuple[str, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Read the batches from the archive without extracting files to disk."""
        path = find([self.archive.name], [self.root])
        if path is None:
            if not (self.download and may_download()):
                raise self._missing([self.archive.name], self.root)
            path = fetch(self.archive, self.root)
        self._files = [path]
        found = {}
        try:
            with tarfile.open(path, "r|gz") as archive:
                for member in archive:
                    name = member.name.removeprefix("./").removeprefix(f"{self.folder}/")
                    if name in names and member.isfile():
                        file = archive.extractfile(member)
                        assert file is not None
                        found[name] = read_batch(file, f"{path}: {name}", self.labels)
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise ValueError(f"{path}: is damaged or truncated: {error}") from error
        lacking = [name for name in names if name not in found]
        if lacking:
            raise ValueError(f"{path}: does not contain {', '.join(lacking)}")
        return [found[name] for name in names]


class CIFAR100(CIFAR10):
    """CIFAR-100: colour images of a hundred classes, 500 of each for training and 100 for testing.

    Items and arguments are those of `CIFAR10`; `root` holds `cifar-100-python.tar.gz` or the folder `cifar-100-python`.

    Raises:
        FileNotFoundError: when the files are missing; the message says which to put where.
        ValueError: when a file is damaged or something else, or `split` is another name.
    Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.

    >>> from tdt.vision.datasets import CIFAR100
    >>> len(CIFAR100.classes), CIFAR100.classes[0]
    (100, 'apple')
    """

    classes = [
        "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
        "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
        "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur",
        "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house", "kangaroo",
        "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man", "maple_tree",
        "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid", "otter", "palm_tree",
        "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine", "possum", "rabbit",
        "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper",
        "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank",
        "telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe",
        "whale", "willow_tree", "wolf", "woman", "worm"
    ]  # fmt: skip
    folder = "cifar-100-python"
    download_size = 169_001_437
    archive = CIFAR10.archive._replace(name="cifar-100-python.tar.gz", md5="eb9058c3a382ffc7106e4002c42a8d85")
    batches = {"train": ("train",), "test": ("test",)}
    labels = "fine_labels"


class _ByteType:
    """Replaces the NumPy dtype of a batch, which must be uint8."""

    def __init__(self, name: str, *_: Any) -> None:
        if name not in ("u1", "|u1"):
            raise ValueError(f"its array contains {name!r}, not bytes")

    def __setstate__(self, state: Any) -> None:
        """Set the state of the dtype: nothing to do for uint8."""


class _ByteArray:
    """Replaces the NumPy array of a batch; `pixels`: its elements."""

    pixels: np.ndarray

    def __setstate__(self, state: Any) -> None:
        """Take (version, shape, dtype, whether in Fortran's order, bytes), as NumPy's own arrays do."""
        _, shape, kind, fortran, data = state
        if not isinstance(kind, _ByteType) or not isinstance(data, str | bytes):
            raise ValueError("its array does not contain bytes")
        flat = np.frombuffer(data.encode("latin1") if isinstance(data, str) else data, np.uint8)
        self.pixels = flat.reshape(tuple(shape), order="F" if fortran else "C")


def _array(*_: Any) -> _ByteArray:
    """The function that a batch calls to create an array; the state that follows sets its contents."""
    return _ByteArray()


# The globals that a batch may refer to. NumPy's own classes could allocate any size, and accept invalid states.
_NAMES = {
    **{f"numpy.{core}.multiarray._reconstruct": _array for core in ("core", "_core")},
    "numpy.ndarray": _ByteArray, "numpy.dtype": _ByteType,
}  # fmt: skip


def _no_storage(named: Any) -> Any:
    raise pickle.UnpicklingError("it refers to a storage")


def read_batch(file: IO[bytes], name: str, labels: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3072) and labels (n,) of one of CIFAR's pickles. ValueError if it is anything else.

    name: what errors call the file. labels: the key of the labels.
    """
    if len(text := file.read(LARGEST + 1)) > LARGEST:
        raise ValueError(f"{name}: is larger than any CIFAR batch file")
    try:
        entry = RestrictedUnpickler(io.BytesIO(text), _NAMES, _no_storage).load()
        found, numbers = entry["data"], np.asarray(entry[labels], dtype=np.int64)
        images = found.pixels if isinstance(found, _ByteArray) else found
    except GlobalNotAllowed as error:
        raise ValueError(f"{name}: is not a CIFAR batch: it refers to {error.name}") from error
    except (pickle.UnpicklingError, ValueError, LookupError, TypeError, AttributeError, EOFError, MemoryError) as error:
        raise ValueError(f"{name}: is not a CIFAR batch: {error}") from error
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape != (len(numbers), 3072):
        raise ValueError(f"{name}: is not a CIFAR batch: expected one row of 3,072 bytes per label")
    return images, numbers
