"""Where compiled kernels are kept, and how they get there safely.

The folder's name is a hash of all kernel sources, the compiler and the CPU, and each compiled signature is one file,
put in place by an atomic rename. So nothing in it goes stale, an edited helper included, and any number of processes
may start at once: at worst two compile the same kernel and write the same bytes.
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

SOURCES = Path(__file__).parent


def load(name: str) -> bytes | None:
    """What was kept under `name`, or None."""
    folder = cache_folder()
    try:
        return (folder / name).read_bytes() if folder else None
    except OSError:
        return None


def keep(name: str, data: bytes) -> None:
    """Keep `data` for other processes. Where the folder does not take it (disk full, removed), say so and go on."""
    folder = cache_folder()
    if folder is None:
        return
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=name, delete=False) as file:
            file.write(data)
        os.replace(file.name, folder / name)
    except OSError as error:
        warnings.warn(f"compiled kernels are not kept in {folder}: {error}", RuntimeWarning, stacklevel=2)


@functools.cache
def cache_folder() -> Path | None:
    """The folder of this set of kernels: in the user's cache, else in a private temporary folder, else None."""
    return first_usable(folder / f"kernels-{_fingerprint()}" for folder in (_user_cache(), _private_temporary()))


def first_usable(folders: Iterable[Path]) -> Path | None:
    """The first folder that exists or can be made, is ours alone, and takes a file; None if there is none."""
    for folder in folders:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.mkdir(exist_ok=True, mode=0o700)
            with tempfile.TemporaryFile(dir=folder):
                if _is_ours(folder) and _is_ours(folder.parent):
                    return folder
        except OSError:
            continue
    return None


def _is_ours(folder: Path) -> bool:
    """Whether no stranger can put files here. What lies in the folder is run as machine code, so this must hold."""
    if not hasattr(os, "getuid"):  # Windows: both candidates lie under the user's profile
        return True
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o002


def _user_cache() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(os.path.expanduser(base)) / "tdt"


def _private_temporary() -> Path:
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return Path(tempfile.gettempdir()) / f"tdt-{user}"


@functools.cache
def _fingerprint() -> str:
    """A hash of all that decides the machine code: the sources of this package, the compiler, the CPU."""
    import llvmlite
    import llvmlite.binding as llvm

    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*.py")):
        digest.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    cpu = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    chosen = sorted((name, value) for name, value in os.environ.items() if name.startswith("NUMBA_"))
    digest.update(repr((_numba_version(), llvmlite.__version__, sys.version, sys.platform, cpu, chosen)).encode())
    return digest.hexdigest()[:16]


def _numba_version() -> bytes:
    """Numba's version file, found without importing Numba."""
    import importlib.util

    spec = importlib.util.find_spec("numba")
    assert spec is not None and spec.origin is not None, "numba is a dependency of tdt"
    return Path(spec.origin).with_name("_version.py").read_bytes()
