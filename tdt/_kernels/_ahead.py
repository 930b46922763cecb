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
from tdt._kernels import _cache, _jit

KERNELS = ("pool_cpu._backward", "_layout._transpose", "optim_cpu._sgd_momentum")
LOOK = 0.005  # seconds between looks for a kernel that is being compiled

PATIENCE = 30.0  # seconds after which a process that makes nothing is no longer waited for

_process: subprocess.Popen | None = None


def begin() -> None:
    """Start the process, where there is work for it, a core, and a folder to keep kernels in. For the program's start."""
    global _process
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    folder = _cache.cache_folder() if _kernels.enabled() else None
    # A frozen program has no interpreter: it would start itself.
    if cores < 2 or folder is None or not sys.executable or getattr(sys, "frozen", False):
        return
    safely = "-I" if sys.flags.isolated else "-P"  # nothing is imported from the working directory
    command = [sys.executable, safely, "-c", "from tdt._kernels._ahead import make; make()"]
    quiet = subprocess.DEVNULL
    try:
        labels = {name: name.partition("-")[0] for name in _cache.names()}
        present = {label for name, label in labels.items() if label in KERNELS and _cache.load(name) is not None}
        if not present.issuperset(KERNELS):
            _process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
            atexit.register(_end, _process)
            _jit.wait_for = load_or_wait
    except OSError:  # no memory for a process, or the folder is gone: each kernel is compiled when it is called
        return


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()


def load_or_wait(kernel: str, name: str) -> bytes | None:
    """The code kept under `name`, which the process may be making; None where it is not or has failed."""
    end = time.monotonic() + PATIENCE
    while kernel in KERNELS and _process is not None and _process.poll() is None and time.monotonic() < end:
        code = _cache.load(name)
        if code is not None:
            return code
        time.sleep(LOOK)
    return _cache.load(name)


def make() -> None:
    """What the process does."""
    import numpy as np

    from tdt._kernels._table import Table
    from tdt._kernels.optim_cpu import sgd
    from tdt._kernels.pool_cpu import max_pool_vjp

    image = np.zeros((1, 1, 2, 2), np.float32)
    max_pool_vjp(image[..., :1, :1], image[..., :1, :1], image)
    table = Table([[np.zeros(1, np.float32)]] * 3)
    sgd(table, np.ones((1, 2)), lr=0.0, momentum=1.0, weight_decay=0.0, nesterov=False, maximize=False)
