"""Crash-safe file operations: fsync, atomic replacement, and opening without following links."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import warnings
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Errors of network and FUSE file systems for unsupported operations, such as flock or fsync of a folder.
UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})  # what writing to a disk raises
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would block until its other end is opened

_TEMPORARY = re.compile(r"\..+\.[0-9]+\.tmp", re.DOTALL)  # the names that `replacing` gives

_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Warn, but only once per process for the same text."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=3)


def fsync(handle: int, path: str | os.PathLike[str]) -> None:
    """Flush the open file `path` to the disk. OSError with the path; warns once if the file system has no fsync."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise OSError(error.errno, error.strerror, str(path)) from error
        warn_once("this file system cannot fsync: after a power cut the newest checkpoints and logs may be missing")


def fsync_folder(folder: Path) -> None:
    """Flush created, renamed and removed names in `folder` to the disk. Does nothing on Windows."""
    if os.name == "nt":  # folders cannot be opened on Windows, and NTFS journals names itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fsync(handle, folder)
    finally:
        os.close(handle)


def open_file(path: str | os.PathLike[str], flags: int, mode: int = 0o666) -> int:
    """`os.open` of a regular file, which never follows a link that has the file's name.

    A folder that others may write to, or that came out of an archive, could hold a link to any file of ours in the place
    of a log. Raises OSError with `path` for links, folders, pipes and devices.
    """
    if not _NO_FOLLOW and os.path.islink(path):
        raise _is_link(path)
    try:
        handle = os.open(path, flags | _NO_FOLLOW | _NO_WAIT | _PLAIN, mode)
    except OSError as error:
        if error.errno == errno.ELOOP or os.path.islink(path):
            raise _is_link(path) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return handle


def _is_link(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.ELOOP, "is a symbolic link, which tdt does not follow here; replace it by the file", str(path))


def read_file(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The bytes of a regular file, the first `most` of them; OSError as `open_file`."""
    with open(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read(-1 if most is None else most)


def write_whole(file, data: bytes | bytearray | memoryview) -> None:
    """Write all of `data` to an unbuffered file, whose `write` may write only a part."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


@contextlib.contextmanager
def naming(path: str | os.PathLike[str], temporary: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors of the disk that name no file, and those that name a temporary one, name the file that it becomes."""
    try:
        yield
    except OSError as error:
        named = error.errno in FULL if error.filename is None else str(error.filename) == str(temporary)
        if not named:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], buffering: int = -1) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` at the end of the block: after a crash `path` is the old or the new file."""
    from pathlib import Path  # imported here: it would add 3 ms to `import tdt`

    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # left by a killed process with the same pid, or a link created by somebody else
    try:
        with naming(path, temporary):
            with open(open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb", buffering=buffering) as file:
                yield file
                file.flush()
                fsync(file.fileno(), path)
            os.replace(temporary, path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporary(folder: str | os.PathLike[str]) -> None:
    """Remove temporary files that killed processes left in `folder` and its subfolders; does not follow links.

    Only call this if no process is writing there.
    """
    for place, _, names in os.walk(folder):
        for name in names:
            if _TEMPORARY.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(place, name))


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path` atomically: after a crash the file is the old or the complete new one."""
    with replacing(path, buffering=0) as file:
        write_whole(file, data)
