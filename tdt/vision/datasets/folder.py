"""ImageFolder: a folder for each class, with its images."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from tdt.utils.data import Dataset
from tdt.utils.data._splits import Split, check_split, split_indices
from tdt.vision._images import as_rgb, open_image
from tdt.vision._types import ImageLoader, ImageTransform, TargetTransform
from tdt.vision.datasets._unreadable import Damaged, UnreadableSamples

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def pil_loader(path: str | os.PathLike[str]) -> Image.Image:
    """The image in the file `path`, in RGB with 8 bits, turned as its EXIF orientation says.

    Of 16 bits the high byte is kept, of an animation the first frame, of transparency nothing. ValueError names the file that
    is no image, is cut short, has pixels of 32 bits, or would unpack to more pixels than Pillow takes for sane.
    """
    return read_image(path, str(path))


def read_image(file: str | os.PathLike[str] | BinaryIO, path: str) -> Image.Image:
    """`pil_loader` of a path or an open file, which an error calls `path`."""
    with open_image(file, path) as image:
        return as_rgb(image)


class ImageFolder(UnreadableSamples, Dataset):
    """Images in `root/<class>/…`, at any depth below the class.

    Items are (image, class number). Attributes: `classes`, the names of the folders, sorted; `class_to_idx`, their
    numbers;
    `samples` and `imgs`, all (path, class number), sorted; `targets`, all class numbers.

    Args:
        transform: callable for the image; resize or crop where sizes differ.
        loader: reads a path; by default as a Pillow image in RGB.
        extensions: endings of image files; None stands for jpg, png and the like.
        is_valid_file: function of a path that decides instead of the extensions.
        allow_empty: whether a class may have no images.
        split: None for all images, or "train", "valid" or "test".
        valid, test: fractions of each class that these splits get, drawn with `seed`.
        damaged: "skip" reads all images at once and leaves out those that cannot be read; the splits stay the same.
    Raises:
        FileNotFoundError: when there is no such folder, or a class without images.
        ValueError: when both extensions and is_valid_file are given; when an image is damaged, as it is read.

    >>> import tdt
    >>> import tempfile, pathlib
    >>> from PIL import Image
    >>> root = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("cat", "dog"):
    ...     (root / name).mkdir()
    ...     Image.new("RGB", (4, 3)).save(root / name / "1.png")
    >>> images = tdt.vision.datasets.ImageFolder(root)
    >>> images.classes, len(images), images[1][0].size, images[1][1]
    (['cat', 'dog'], 2, (4, 3), 1)
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: ImageTransform | None = None,
        target_transform: TargetTransform | None = None,
        loader: ImageLoader = pil_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
        *,
        extensions: Sequence[str] | None = None,
        split: Split | None = None,
        valid: float = 0.0,
        test: float = 0.0,
        seed: int = 0,
        damaged: Damaged = "error",
    ) -> None:
        check_split("ImageFolder", split, valid, test)
        self.root = Path(root).expanduser()
        self.transform, self.target_transform, self.loader = transform, target_transform, loader
        if extensions is not None and is_valid_file is not None:
            raise ValueError("ImageFolder: give extensions or is_valid_file, not both")
        endings = tuple(ending.lower() for ending in extensions or IMG_EXTENSIONS)
        is_image = is_valid_file or (lambda path: path.lower().endswith(endings))
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = [
            (path, self.class_to_idx[name]) for name in self.classes for path in _files(self.root / name, is_image)
        ]
        having = {number for _, number in self.samples}
        empty = [name for name in self.classes if self.class_to_idx[name] not in having]
        if empty and not allow_empty:
            raise FileNotFoundError(f"ImageFolder: no images in {self.root} for {', '.join(empty)}; "
                                    f"images end in {', '.join(endings)}; remove the folders that are not "
                                    "classes, or set allow_empty")  # fmt: skip
        if split is not None:
            self.samples = [sample for own in self._by_class() for sample in
                            (own[i] for i in split_indices(len(own), valid, test, seed)[split])]  # fmt: skip
        self._leave_out(damaged)
        self.targets = [number for _, number in self.samples]

    def sample_name(self, index: int) -> str:
        """The path of the image."""
        return self.samples[index][0]

    def source_files(self) -> list[str]:
        """The images' paths."""
        return [path for path, _ in self.samples]

    def state_dict(self) -> dict[str, Any]:
        """The names of the classes, by which other folders number theirs."""
        return {"classes": self.classes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Number the classes as another folder does; this one may lack some.

        Raises:
            ValueError: when this folder has a class that the other one lacks.
        """
        numbers = {name: number for number, name in enumerate(state["classes"])}
        unknown = [name for name in self.classes if name not in numbers]
        if unknown:
            raise ValueError(f"ImageFolder: {self.root} has a class {unknown[0]!r}, which the training data lack; these "
                             f"have {', '.join(map(repr, numbers))}")  # fmt: skip
        self.samples = [(path, numbers[self.classes[number]]) for path, number in self.samples]
        self.targets = [number for _, number in self.samples]
        self.classes, self.class_to_idx = list(numbers), numbers

    def _by_class(self) -> list[list[tuple[str, int]]]:
        return [[sample for sample in self.samples if sample[1] == number] for number in range(len(self.classes))]

    @property
    def imgs(self) -> list[tuple[str, int]]:
        """`samples` by torchvision's other name."""
        return self.samples

    def find_classes(self, directory: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
        """Names of the classes, and the number of each.

        Raises:
            FileNotFoundError: when there is no class.
        """
        if not Path(directory).is_dir():
            raise FileNotFoundError(f"ImageFolder: there is no folder {directory}; put a folder for each class into it")
        classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
        if not classes:
            raise FileNotFoundError(
                f"ImageFolder: {directory} has no folders; it takes one for each class, with images"
            )
        return classes, {name: number for number, name in enumerate(classes)}

    def _files_of(self, sample: tuple[str, int]) -> tuple[str, ...]:
        return (sample[0],) if self.loader is pil_loader else ()

    def _check_sample(self, sample: tuple[str, int]) -> None:
        self.loader(sample[0])

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        image = self.loader(path)
        return (
            image if self.transform is None else self.transform(image),
            label if self.target_transform is None else self.target_transform(label),
        )


def files_below(folder: str | os.PathLike[str]) -> Iterator[str]:
    """The regular files in a folder and, at any depth, below it, each folder read once: links to folders are followed, and
    may lead in a circle."""
    pending, visited = [os.fspath(folder)], set()
    while pending:
        place = pending.pop()
        about = os.stat(place)
        if (about.st_dev, about.st_ino) in visited:
            continue
        visited.add((about.st_dev, about.st_ino))
        for entry in os.scandir(place):
            with suppress(OSError):  # a circular or broken link
                if entry.is_dir():
                    pending.append(entry.path)
                elif entry.is_file():
                    yield entry.path


def _files(folder: Path, is_image: Callable[[str], bool]) -> list[str]:
    return sorted(path for path in files_below(folder) if is_image(path))
