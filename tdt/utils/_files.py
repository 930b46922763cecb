"""What a crash-safe writer needs from the file system and Python does not offer in one call."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def fsync_folder(folder: Path) -> None:
    """Make names created, renamed or removed in `folder` survive a power cut. Nothing to do on Windows."""
    if os.name == "nt":  # folders cannot be opened there, and NTFS journals names by itself
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


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
    try:
        with open(temporary, "wb", buffering=buffering) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def replace_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`, so that whatever happens the file is the old one or the whole new one."""
    try:
        with replacing(path, buffering=0) as file:
            write_whole(file, data)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
