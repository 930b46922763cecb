"""If kernels are not in the cache yet, a second process compiles those that training calls last.

A first run compiles a dozen kernels, each on its first call; with a second core it waits two thirds as long for them. The
process compiles each kernel by running it on tiny inputs, and stores it in the cache as any process does.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import time

from tdt import _kernels
from tdt._kernels import _cache, _jit

KERNELS = ("pool_cpu._backward", "optim_cpu._sgd_momentum")
LOOK = 0.005  # seconds between looks for a kernel that is being compiled

PATIENCE = 30.0  # seconds to wait for the process to compile a kernel

_process: subprocess.Popen | None = None


def begin() -> None:
    """Start the process if kernels are missing and there is a second core and a cache folder. Called at program start."""
    global _process
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    folder = _cache.cache_folder() if _kernels.enabled() else None
    # In a frozen program sys.executable is the program, which would start itself instead of an interpreter.
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
    """The cached code of `name`; waits while the process may be compiling it. None if it is missing or damaged."""
    end = time.monotonic() + PATIENCE
    while kernel in KERNELS and _process is not None and _process.poll() is None and time.monotonic() < end:
        code = _cache.load(name)
        if code is not None:
            return code
        time.sleep(LOOK)
    return _cache.load(name)


def make() -> None:
    """Compile the kernels: the main function of the process."""
    import numpy as np

    from tdt._kernels._table import Table
    from tdt._kernels.optim_cpu import sgd
    from tdt._kernels.pool_cpu import max_pool_vjp

    image = np.zeros((1, 1, 2, 2), np.float32)
    max_pool_vjp(image[..., :1, :1], image[..., :1, :1], image)
    table = Table([[np.zeros(1, np.float32)]] * 3)
    sgd(table, np.ones((1, 2)), lr=0.0, momentum=1.0, weight_decay=0.0, nesterov=False, maximize=False)
