"""What a crash-safe writer needs from the file system and Python does not offer in one call."""

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

# What network and FUSE file systems answer where they lack an operation, as flock, or fsync of a folder.
UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK})
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_PLAIN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # to open a pipe would wait for its other end

_TEMPORARY = re.compile(r"\..+\.[0-9]+\.tmp", re.DOTALL)  # the names that `replacing` gives

_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Warn, unless this process has warned of the same before."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, stacklevel=3)


def fsync(handle: int, path: str | os.PathLike[str]) -> None:
    """Put what was written to the open file `path` on the disk. OSError names it; where there is no fsync, warns once."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise OSError(error.errno, error.strerror, str(path)) from error
        warn_once("this file system cannot fsync: after a power cut the newest checkpoints and logs may be missing")


def fsync_folder(folder: Path) -> None:
    """Make names created, renamed or removed in `folder` survive a power cut. Nothing to do on Windows."""
    if os.name == "nt":  # folders cannot be opened there, and NTFS journals names by itself
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
        raise OSError(errno.EINVAL, "is no regular file", str(path))
    return handle


def _is_link(path: str | os.PathLike[str]) -> OSError:
    return OSError(errno.ELOOP, "is a link, which is not followed here; put the file itself in its place", str(path))


def read_file(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The bytes of a regular file, the first `most` of them; OSError as `open_file`."""
    with open(open_file(path, os.O_RDONLY), "rb") as file:
        return file.read(-1 if most is None else most)


def write_whole(file, data: bytes | bytearray | memoryview) -> None:
    """Write all of `data` to an unbuffered file, whose own `write` may stop short."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], buffering: int = -1) -> Iterator[IO[bytes]]:
    """A file to write that becomes `path` at the end of the block: whatever happens, `path` is the old one or the new one."""
    from pathlib import Path  # 3 ms, which `import tdt` need not wait for

    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # of a killed process that had the same number, or a link that somebody put there
    try:
        with open(open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb", buffering=buffering) as file:
            yield file
            file.flush()
            fsync(file.fileno(), path)
        os.replace(temporary, path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def remove_temporary(folder: str | os.PathLike[str]) -> None:
    """Remove what processes that were killed within `replacing` left in `folder` and below; no link is followed.

    Only for who knows that nobody is writing there.
    """
    for place, _, names in os.walk(folder):
        for name in names:
            if _TEMPORARY.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(place, name))


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`, so that whatever happens the file is the old one or the whole new one."""
    try:
        with replacing(path, buffering=0) as file:
            write_whole(file, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
