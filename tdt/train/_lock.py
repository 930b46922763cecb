"""A lock on a file that ends with the process that holds it, however it ends."""

from __future__ import annotations

import os
import socket
from io import FileIO
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_held: set[FileIO] = set()


class Locked(Exception):
    """Another process holds the lock; the message says which, as "by process 12 on host"."""


def lock(path: Path) -> FileIO:
    """Take the lock of `path`, made where missing; closing the returned file lets it go. Raises Locked at once."""
    file = FileIO(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
    try:
        _take(file)
    except OSError as error:
        file.close()
        if not isinstance(error, (BlockingIOError, PermissionError)):
            raise
        raise Locked(path.read_text(encoding="utf-8") or "by another process") from error
    file.truncate(0)
    file.write(f"by process {os.getpid()} on {socket.gethostname()}".encode())
    _held.add(file)
    return file


def _take(file: FileIO) -> None:
    if fcntl is not None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return
    import msvcrt

    os.lseek(file.fileno(), 1 << 30, os.SEEK_SET)  # locked bytes cannot be read there, so lock one far behind the text
    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    os.lseek(file.fileno(), 0, os.SEEK_SET)


def _let_go_in_child() -> None:
    """A forked loader worker shares the lock, and would keep it for a moment after its parent was killed."""
    for file in _held:
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)
