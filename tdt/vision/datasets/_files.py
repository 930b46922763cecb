"""Folders of datasets, and downloads: atomic, and verified by checksum."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple


class Remote(NamedTuple):
    """A file on a server: its name, MD5 checksum and the folder's address."""

    name: str
    md5: str
    base: str


def home(root: str | os.PathLike[str] | None) -> Path:
    """`root`; without one the folder in the environment variable TDT_DATA, else `tdt/data` in the user's cache."""
    if root is None:
        root = os.environ.get("TDT_DATA")
    if root is None:
        import platformdirs

        return Path(platformdirs.user_cache_dir("tdt")) / "data"
    return Path(root).expanduser()


def find(names: Sequence[str], folders: Sequence[Path]) -> Path | None:
    """The first of `names` that is a file in one of `folders`."""
    return next((folder / name for folder in folders for name in names if (folder / name).is_file()), None)


class MissingFiles(FileNotFoundError):
    """Files of a dataset are missing, and can be downloaded."""


def missing(owner: str, names: Sequence[str], folder: Path) -> MissingFiles:
    """The error for missing files: which file to put where."""
    files = ", ".join(names)
    return MissingFiles(f"{owner}: put {files} into {folder}, or set download=true; a file is missing there")


_refusal: ContextVar[str | None] = ContextVar("refusal", default=None)


@contextmanager
def no_downloads(why: str) -> Iterator[None]:
    """Context manager without downloads: a missing file raises FileNotFoundError with the reason `why`."""
    token = _refusal.set(why)
    try:
        yield
    finally:
        _refusal.reset(token)


def fetch(remote: Remote, folder: Path) -> Path:
    """`remote`, downloaded into `folder` unless it is there already.

    It comes under a temporary name and takes its own once it is whole and its checksum right. Raises OSError where the
    server cannot be reached or gives something else, FileNotFoundError within `no_downloads`.
    """
    import pooch

    target = folder / remote.name
    if target.is_file() and pooch.file_hash(str(target), "md5") == remote.md5:
        return target
    if (why := _refusal.get()) is not None:
        raise FileNotFoundError(f"{target} is missing, and {why}")
    folder.mkdir(parents=True, exist_ok=True)
    url = remote.base + remote.name
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as place:
        fresh = Path(place) / remote.name
        try:
            pooch.HTTPDownloader(timeout=60)(url, str(fresh), None)
        except Exception as error:
            raise OSError(f"download of {url} failed: {error}") from error
        got = pooch.file_hash(str(fresh), "md5")
        if got != remote.md5:
            raise OSError(f"download of {url}: its MD5 checksum is {got}, expected {remote.md5}; nothing was kept")
        os.replace(fresh, target)
    return target
