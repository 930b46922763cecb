"""Finds the images of a dataset that cannot be used, all at once, before a run depends on them."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

from PIL import Image, UnidentifiedImageError
from PIL import __version__ as pillow

from tdt._files import replace_file
from tdt._kernels._private import private_folder
from tdt.vision._images import FORMATS, UnreadableImage, pillow_warnings

Damaged = Literal["error", "skip"]
Show = Callable[[int, int | None], None]

SHOWN = 100  # files that a message lists
SAVED_AFTER = 2.0  # seconds from which on a result is saved for the next time
_THREADS, _BLOCK = 8, 4096  # and samples that wait for them at a time
_show: ContextVar[Show] = ContextVar("show", default=lambda done, of: None)


@contextmanager
def showing(show: Show) -> Iterator[None]:
    """Context manager in which `show(done, of)` is called as images are checked."""
    token = _show.set(show)
    try:
        yield
    finally:
        _show.reset(token)


class UnreadableSamples:
    """Base of datasets of image files, which can leave out those that cannot be read.

    Attributes:
        samples: what each sample is read from.
        left_out: why each sample that was left out cannot be read.
    """

    samples: list[Any]
    left_out: list[str]

    def _files_of(self, sample: Any) -> tuple[str, ...]:
        """The paths of a sample, on which alone it depends whether it can be read; empty if on more."""
        raise NotImplementedError

    def _check_sample(self, sample: Any) -> None:
        """Read a sample. Raises ValueError if that fails."""
        raise NotImplementedError

    def _leave_out(self, damaged: Damaged) -> None:
        """Remove the samples with files that cannot be read if `damaged` says so. ValueError names all with other mistakes."""
        if damaged not in ("error", "skip"):
            raise ValueError(f"{type(self).__name__}: damaged is error or skip, got {damaged!r}")
        found = self._faults() if damaged == "skip" else {}
        if invalid := [error for error in found.values() if not isinstance(error, UnreadableImage)]:
            raise ValueError("; ".join(map(str.strip, listed(invalid, len(self.samples)))))
        self.left_out = list(map(str, found.values()))
        self.samples = [sample for number, sample in enumerate(self.samples) if number not in found]

    def _faults(self) -> dict[int, ValueError]:
        return faults(self.samples, [self._files_of(sample) for sample in self.samples], self._check_sample)

    def check_files(self) -> list[str]:
        """A line for each sample that cannot be used, below their number."""
        found = self._faults()
        unreadable = any(isinstance(error, UnreadableImage) for error in found.values())
        advice = (
            " replace or remove files that cannot be read, or leave them out with damaged: skip" if unreadable else ""
        )
        count, *lines = listed(found.values(), len(self.samples))
        return [count + advice, *map(str.strip, lines)] if found else []

    def notes(self) -> list[str]:
        """How many samples were left out, and why."""
        if not self.left_out:
            return []
        count, *reasons = listed(self.left_out, len(self.samples) + len(self.left_out))
        return [f"{count.rstrip(':')}, left out: {'; '.join(map(str.strip, reasons))}"]


def faults(
    samples: Sequence[Any], files: Sequence[Sequence[str]], read: Callable[[Any], object]
) -> dict[int, ValueError]:
    """The positions of samples that cannot be used, with the reason: an UnreadableImage, or another ValueError.

    A result that took long is saved in the user's cache, for files of the same names, sizes and times.

    Args:
        samples: given to `read`, each in one of several threads.
        files: the paths of each sample's files.
        read: raises ValueError, or Pillow's UnidentifiedImageError; other exceptions are passed on.
    """
    from concurrent.futures import ThreadPoolExecutor

    saved, began = _result_file(files), time.monotonic()
    if saved is not None and (known := _saved(saved)) is not None:
        return known
    found, show = {}, _show.get()

    def fault(sample: Any) -> ValueError | None:
        try:
            read(sample)
        except UnidentifiedImageError as error:
            return UnreadableImage(str(error))
        except ValueError as error:
            return error
        return None

    with pillow_warnings(), ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        for first in range(0, len(samples), _BLOCK):
            for number, error in enumerate(pool.map(fault, samples[first : first + _BLOCK]), first):
                show(number + 1, len(samples))
                if error is not None:
                    found[number] = error
    lasting = all(isinstance(error, UnreadableImage) for error in found.values())  # whatever the classes of masks are
    if saved is not None and lasting and time.monotonic() - began >= SAVED_AFTER:
        with suppress(OSError):  # checked again next time
            replace_file(saved, json.dumps({number: str(error) for number, error in found.items()}).encode())
    return found


def listed(reasons: Iterable[object], of: int) -> list[str]:
    """A line with the number of images that cannot be used, and one for each of the first.

    >>> from tdt.vision.datasets._unreadable import listed
    >>> listed(["a.png: is empty: 0 bytes"], 3)
    ['1 of 3 images cannot be used:', '  a.png: is empty: 0 bytes']
    """
    reasons = list(reasons)
    lines = [f"{len(reasons):,} of {of:,} images cannot be used:", *(f"  {why}" for why in reasons[:SHOWN])]
    return [*lines, f"  … and {len(reasons) - SHOWN:,} more"] if len(reasons) > SHOWN else lines


def _result_file(files: Sequence[Sequence[str]]) -> Path | None:
    """Where the result for these files is saved; None if other users could change what is there, or samples have no files."""
    about = hashlib.sha256(repr((1, pillow, FORMATS, Image.MAX_IMAGE_PIXELS)).encode())
    if not all(files):
        return None
    for path in (path for paths in files for path in paths):
        state = os.stat(path)
        about.update(os.fsencode(os.path.abspath(path)) + b"\0%d %d\n" % (state.st_size, state.st_mtime_ns))
    import platformdirs

    try:
        return private_folder(Path(platformdirs.user_cache_dir("tdt")) / "images") / f"{about.hexdigest()}.json"
    except OSError:
        return None


def _saved(file: Path) -> dict[int, ValueError] | None:
    try:
        return {int(number): UnreadableImage(why) for number, why in json.loads(file.read_bytes()).items()}
    except (OSError, ValueError, AttributeError):  # not checked yet, or damaged
        return None
