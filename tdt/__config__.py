"""What this installation computes with: `print(tdt.__config__.show())`."""

from __future__ import annotations

import importlib.metadata
import os
import platform

import numpy as np

from tdt._about import __version__
from tdt._backend import cuda_device_count
from tdt._kernels._pool import get_num_threads

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Versions of tdt and of the libraries under it, a line each.

    >>> import tdt
    >>> tdt.__config__.show().splitlines()[0]
    'tdt built with:'
    """
    lines = [f"tdt {__version__}", f"Python {platform.python_version()}", f"NumPy {np.__version__}", f"BLAS {_blas()}"]
    for name in ("ml_dtypes", "scipy", "numba"):
        try:
            lines.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            lines.append(f"{name} is not installed")
    lines.append(f"GPUs that CuPy sees: {cuda_device_count()}")
    return "tdt built with:\n" + "".join(f"  - {line}\n" for line in lines)


def _blas() -> str:
    found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{found['name']} {found['version']}"


def parallel_info() -> str:
    """How many threads compute.

    >>> import tdt
    >>> "get_num_threads" in tdt.__config__.parallel_info()
    True
    """
    return f"tdt.get_num_threads() : {get_num_threads()}\nos.cpu_count() : {os.cpu_count()}\n"
