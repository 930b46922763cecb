"""A file lock that is released when the process ends, in whatever way."""

from __future__ import annotations

import os
import socket
import time
import weakref
from io import FileIO
from pathlib import Path

from tdt._files import UNSUPPORTED, open_file, read_file, warn_once
from tdt.train.runs import _heartbeat

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

RETRY_AFTER = 0.01  # seconds; `holder` takes the lock for a hundredth of that

MOST = 1000  # bytes of the holder's text that are read

_locked_files: weakref.WeakSet[FileIO] = weakref.WeakSet()


class _NoLocks(Exception):
    """The file system has no locks."""


class Locked(Exception):
    """Another process holds the lock; the message says which, as "by process 12 on host"."""


def lock(path: Path) -> FileIO:
    """Lock the file `path`, which is created if missing; closing the returned file releases the lock.

    Warns once if the file system has no locks: then a file beside it, which names this process, takes their place.

    Raises:
        Locked: another process holds the lock; does not wait.
        OSError: the path is a link.
    """
    file = FileIO(open_file(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
    try:
        if not _take(file):
            time.sleep(RETRY_AFTER)  # another process may only be calling `holder`
            if not _take(file):
                raise Locked(_holder_text(path))
        if os.fstat(file.fileno()).st_nlink == 1:  # else another hard link shares its content
            file.truncate(0)
            file.write(f"by process {os.getpid()} on {socket.gethostname()}".encode())
    except _NoLocks:
        file.close()
        file = _lock_by_heartbeat(path)
    except (OSError, Locked):
        file.close()
        raise
    _locked_files.add(file)
    return file


def _lock_by_heartbeat(path: Path) -> FileIO:
    warn_once(
        "this file system has no locks: files that end in .owner name the process that holds each, which touches them"
    )
    held = _heartbeat.take(path)
    if held is None:
        raise Locked(_heartbeat.holder(path) or "by another process")
    return held


def holder(path: Path) -> str | None:
    """The holder of the lock, as "by process 12 on host"; None if there is none.

    Raises:
        OSError: the file cannot be read or is not a regular file.
    """
    try:
        handle = open_file(path, os.O_RDONLY if fcntl is not None else os.O_RDWR)
    except FileNotFoundError:
        return None
    with FileIO(handle, "r" if fcntl is not None else "r+") as file:
        try:
            return None if _take(file, shared=True) else _holder_text(path)
        except _NoLocks:
            return _heartbeat.holder(path)


def _holder_text(path: Path) -> str:
    return read_file(path, MOST).decode(errors="replace") or "by another process"


def _take(file: FileIO, shared: bool = False) -> bool:
    """Whether the lock was taken. shared: a shared lock, for `holder`. Raises _NoLocks."""
    try:
        if fcntl is not None:
            fcntl.flock(file.fileno(), (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
        import msvcrt

        os.lseek(file.fileno(), 1 << 30, os.SEEK_SET)  # locked bytes cannot be read: lock one far after the text
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        return True
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        raise _NoLocks from error


def _release_in_child() -> None:
    """Release the lock in a forked loader worker, which would keep it for a moment after its parent is killed."""
    for file in list(_locked_files):
        file.close()
    _locked_files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
