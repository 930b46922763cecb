"""Where kernels have yet to be compiled, a second process begins with those that training needs last.

A first run compiles a dozen, each when it is first called, one after the other; with a second core it waits for them
two thirds as long. The process makes each by doing a tiny piece of its work, and keeps it as any process does.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time

from tdt import _kernels
from tdt._kernels import _cache

MAKES = ("pool_cpu._backward", "_layout._transpose", "optim_cpu._sgd_momentum")
LOOK = 0.005  # seconds between looks for a kernel that is being made

_process: subprocess.Popen | None = None
_begun = False


def begin() -> None:
    """Start the process, once, where there is work for it, a core, and a folder to keep kernels in."""
    global _process, _begun
    if _begun or not _kernels.enabled():
        return
    _begun = True
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    folder = _cache.cache_folder()
    if cores < 2 or folder is None:
        return
    kept = {path.name.partition("-")[0] for path in folder.iterdir()}
    if not kept.issuperset(MAKES):
        quiet = subprocess.DEVNULL
        command = [sys.executable, "-c", "from tdt._kernels._ahead import make; make()"]
        _process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
        atexit.register(_end, _process)


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def made(kernel: str, name: str) -> bytes | None:
    """The code kept under `name`, which the process may be making; None where it is not or has failed."""
    while kernel in MAKES and _process is not None and _process.poll() is None:
        code = _cache.load(name)
        if code is not None:
            return code
        time.sleep(LOOK)
    return _cache.load(name)


def make() -> None:
    """What the process does."""
    global _begun
    _begun = True
    import numpy as np

    from tdt._kernels._table import Table
    from tdt._kernels.optim_cpu import sgd
    from tdt._kernels.pool_cpu import max_pool_vjp

    image = np.zeros((1, 1, 2, 2), np.float32)
    max_pool_vjp(image[..., :1, :1], image[..., :1, :1], image)
    table = Table([[np.zeros(1, np.float32)]] * 3)
    sgd(table, np.ones(1), lr=0.0, momentum=1.0, weight_decay=0.0, nesterov=False, maximize=False)
