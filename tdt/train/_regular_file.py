"""Open files from outside; devices, pipes and folders are refused instead of waited for."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """A regular file, or a link to one, to read. OSError for a pipe, a device or a socket, which could wait for ever or
    never end, and for a folder."""
    _check_regular(os.stat(path).st_mode, path)  # before it is opened: that alone makes some devices do something
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    try:
        _check_regular(os.fstat(handle).st_mode, path)
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check_regular(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory; a file is expected", os.fspath(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file, but a pipe, a device or a socket", os.fspath(path))
