"""Folders of datasets, and downloads: atomic, and verified by checksum."""

from __future__ import annotations

import os
import shlex
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


def missing(owner: str, names: Sequence[str], folder: Path, size: int, arguments: Sequence[str]) -> MissingFiles:
    """The error for missing files: which file to put where, and how to download them.

    Args:
        size: bytes of the whole download.
        arguments: those of the dataset `owner`, as Python writes them, with which it downloads these files.
    """
    what = f"{owner}: put {', '.join(names)} into {folder}"
    why = _refusal.get()
    if why is None:
        return MissingFiles(f"{what}, or set download=true; a file is missing there")
    code = f"from tdt.vision.datasets import {owner}; {owner}({', '.join([*arguments, 'download=True'])})"
    command = shlex.join(["python", "-c", code])
    return MissingFiles(
        f"{what}; a file is missing there, and {why}; to download {owner} ({size / 1e6:,.0f} MB): {command}"
    )


_refusal: ContextVar[str | None] = ContextVar("refusal", default=None)


def may_download() -> bool:
    """Whether missing files may be downloaded here: not within `no_downloads`."""
    return _refusal.get() is None


@contextmanager
def no_downloads(why: str) -> Iterator[None]:
    """Context manager without downloads: a missing file raises MissingFiles with the reason `why`, and a command that works."""
    token = _refusal.set(why)
    try:
        yield
    finally:
        _refusal.reset(token)


def fetch(remote: Remote, folder: Path) -> Path:
    """`remote`, downloaded into `folder` unless it is there already.

    It comes under a temporary name and takes its own once it is whole and its checksum right. Raises OSError where the
    server cannot be reached or gives something else.
    """
    import pooch

    target = folder / remote.name
    if target.is_file() and pooch.file_hash(str(target), "md5") == remote.md5:
        return target
    assert may_download()
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
