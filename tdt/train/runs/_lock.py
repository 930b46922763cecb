"""A lock on a file, which ends with the process that holds it, however the process ends."""

from __future__ import annotations

import os
import socket
import time
from io import FileIO
from pathlib import Path

from tdt.utils._files import UNSUPPORTED, open_file, read_file, warn_once

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

GLANCE = 0.01  # seconds; who looks whether a lock is held has it for a hundredth of that

MOST = 1000  # bytes that are read of what the holder has written

_held: set[FileIO] = set()


class Locked(Exception):
    """Another process holds the lock; the message says which, as "by process 12 on host"."""


def lock(path: Path) -> FileIO:
    """Take the lock of `path`, made where missing; closing the returned file lets it go. Raises Locked at once.

    Where the file system has no locks it warns once, and nothing keeps a second process out. OSError for a link.
    """
    file = FileIO(open_file(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
    try:
        if not _take(file):
            time.sleep(GLANCE)  # somebody may only be looking
            if not _take(file):
                raise Locked(_told(path))
        if os.fstat(file.fileno()).st_nlink == 1:  # else the file is also somebody else's, who may need what it says
            file.truncate(0)
            file.write(f"by process {os.getpid()} on {socket.gethostname()}".encode())
    except (OSError, Locked):
        file.close()
        raise
    _held.add(file)
    return file


def holder(path: Path) -> str | None:
    """Who holds the lock of `path`, as "by process 12 on host"; None where nobody does, or there are no locks.

    OSError where the file cannot be read or is no regular file.
    """
    try:
        handle = open_file(path, os.O_RDONLY if fcntl is not None else os.O_RDWR)
    except FileNotFoundError:
        return None
    with FileIO(handle, "r" if fcntl is not None else "r+") as file:
        return None if _take(file, shared=True) else _told(path)


def _told(path: Path) -> str:
    return read_file(path, MOST).decode(errors="replace") or "by another process"


def _take(file: FileIO, shared: bool = False) -> bool:
    """Whether the lock could be taken, or there are no locks here; shared: by any number of those who only look."""
    try:
        if fcntl is not None:
            fcntl.flock(file.fileno(), (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
        import msvcrt

        os.lseek(file.fileno(), 1 << 30, os.SEEK_SET)  # locked bytes cannot be read there: one far behind the text
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        return True
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        if not shared:
            warn_once("this file system has no locks: take care that no other process trains the same run")
        return True


def _let_go_in_child() -> None:
    """A forked loader worker shares the lock, and would keep it for a moment after its parent was killed."""
    for file in _held:
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
