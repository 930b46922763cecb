"""The cache of compiled kernels on disk.

The folder's name is a hash of all kernel sources, the compiler and the CPU. Each compiled signature is one file, created
by an atomic rename. So files are never stale, even if a helper was edited, and any number of processes may start at once:
at worst two of them compile the same kernel, and the second one's file replaces the first one's.

The files are run as machine code, so two checks protect them. A checksum at the end of each file detects damage: a
truncated or corrupt file counts as missing, so its kernel is compiled again and the file replaced. Other users could
compute a checksum too, so the cache uses only a folder that no other user can change (`_private.py`), and in it only files
that belong to this user.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tdt._kernels._private import belongs_to_user, private_folder

SOURCES = Path(__file__).parent
NUMBA_SETTINGS = ".numba_config.yaml"  # Numba looks for it in the working folder
# Of /proc/cpuinfo, on x86 and ARM.
CPU_LINES = {
    "vendor_id",
    "cpu family",
    "model",
    "stepping",
    "flags",
    "CPU implementer",
    "CPU part",
    "CPU variant",
    "Features",
}
CHECKSUM = 32  # bytes of SHA-256 behind the object code, where objdump and linkers do not look
LARGEST = 1 << 26  # bytes of a file; a kernel has some thousands


class Place(NamedTuple):
    """The cache folder, None if none is usable, and the reasons why folders of higher priority are not used."""

    folder: Path | None
    refused: tuple[str, ...]


def load(name: str) -> bytes | None:
    """The cached object code of `name`. None if the file is missing, damaged or another user's."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        data = _read(folder / name)
    except OSError:
        return None
    code = data[:-CHECKSUM]
    return code if data[-CHECKSUM:] == _checksum(folder / name, code) else None


def keep(name: str, code: bytes) -> None:
    """Store object code for other processes. If the file cannot be written (disk full, folder removed), only warn."""
    folder = cache_folder()
    if folder is None:
        return
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=name)  # mode 0600
        try:
            with open(handle, "wb") as file:
                file.write(code + _checksum(folder / name, code))  # after a power cut, it tells whether all was written
            os.replace(temporary, folder / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        warnings.warn(f"compiled kernels are not kept in {folder}: {error}", stacklevel=2)


def names() -> list[str]:
    """The names of all cache files, damaged ones included."""
    folder = cache_folder()
    return sorted(path.name for path in folder.iterdir() if path.suffix == ".o") if folder else []


def cache_folder() -> Path | None:
    """The folder of this set of kernels."""
    return place().folder


@functools.cache
def place() -> Place:
    """A folder in the user's cache; if that is not usable, a private temporary folder; else no folder."""
    return first_usable(
        folder / f"kernels-{_fingerprint()}" for folder in (_user_cache(), _private_temporary()) if folder
    )


def first_usable(folders: Iterable[Path]) -> Place:
    """The first folder that exists or can be created, that no other user can change, and that is writable."""
    refused = []
    for folder in folders:
        try:
            return Place(private_folder(folder), tuple(refused))
        except OSError as error:
            refused.append(str(error))
    return Place(None, tuple(refused))


def _read(path: Path) -> bytes:
    """The contents of a regular file of this user. OSError for a link, a pipe, another user's file, or one that is too large."""
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or not belongs_to_user(status) or status.st_size > LARGEST:
            raise OSError(f"{path} is no kernel of this user's")
        return file.read(status.st_size)  # a limit above it would allocate as much for a moment


def _checksum(path: Path, code: bytes) -> bytes:
    """Checksum of the code, the file name and the folder, so that a renamed or moved file counts as damaged too."""
    return hashlib.sha256(f"{path.parent.name}/{path.name}\0".encode() + code).digest()


def _user_cache() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else "~/.cache"  # a relative one is to be ignored, says the specification
    return Path(os.path.expanduser(base)) / "tdt"


def _private_temporary() -> Path | None:
    """A temporary folder; None if Python would fall back to the working folder, which may have other users' files."""
    base = Path(tempfile.gettempdir())
    if os.path.samefile(base, os.curdir) and not base.stat().st_mode & stat.S_ISVTX:
        return None
    return base / f"tdt-{os.geteuid() if hasattr(os, 'geteuid') else 'user'}"


@functools.cache
def _fingerprint() -> str:
    """A hash of everything that determines the machine code: the sources of this package, the compiler, the CPU."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    chosen: list = sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_"))
    if os.path.isfile(NUMBA_SETTINGS) and os.access(NUMBA_SETTINGS, os.R_OK):
        chosen.append(Path(NUMBA_SETTINGS).read_bytes())
    compiler = _version("numba"), _version("llvmlite")
    digest.update(repr((compiler, sys.version, sys.platform, _cpu(), chosen)).encode())
    return digest.hexdigest()[:16]


def _version(package: str) -> bytes:
    """The file of a package's version, found without importing the package."""
    import importlib.util

    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None, f"{package} is a dependency of tdt"
    return Path(spec.origin).with_name("_version.py").read_bytes()


def _cpu() -> object:
    """What tells processors with different instructions apart."""
    try:
        first = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    except OSError:
        import llvmlite.binding as llvm

        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return [line for line in first.split("\n") if line.split("\t")[0] in CPU_LINES]
