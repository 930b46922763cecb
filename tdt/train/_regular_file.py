"""Open files that users name, and refuse devices, pipes and folders instead of blocking on them."""

from __future__ import annotations

import errno
import os
import stat
from typing import IO


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file, or a link to one, for reading.

    Raises:
        OSError: a pipe, a device or a socket, which could block or never end; a folder.
    """
    _check_regular(os.stat(path).st_mode, path)  # before opening: opening alone triggers some devices
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
