"""The environment of a run (versions, machine, command), for `env.json` and checkpoints."""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from tdt._about import __version__

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Packages whose version can change a run's numbers or files; those not installed are left out.
_CPU = ("numpy", "scipy", "numba", "llvmlite", "ml_dtypes", "safetensors", "tensorboard")
_GPU = ("cupy-cuda12x", "cupy-cuda13x", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13")
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TDT_KERNELS", "TDT_WINOGRAD",
              "CUDA_VISIBLE_DEVICES")  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of Python, tdt and the packages that a run's numbers depend on, without importing them."""
    installed = {package: version for package in _CPU + _GPU if (version := _version(package)) is not None}
    return {"python": platform.python_version(), "tdt": __version__, **installed}


@functools.cache
def _version(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return None
    # `distribution.version` would parse all of the file, the package's description too.
    found = re.search(r"^Version: *(\S+)", distribution.read_text("METADATA") or "", re.MULTILINE)
    return found[1] if found else distribution.version


def environment() -> dict[str, Any]:
    """Versions, git commit of the working folder (None outside a repository), command, and the machine."""
    return {
        "versions": versions(),
        "git": _git(),
        "command": shlex.join(sys.argv),
        "folder": os.getcwd(),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def peak_memory() -> int:
    """Peak bytes of main memory of this process; 0 if the system does not report it."""
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _git() -> dict[str, Any] | None:
    command = ["git", "status", "--porcelain=v2", "--branch", "--untracked-files=no"]
    try:
        status = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        return None
    found = re.search(r"^# branch\.oid ([0-9a-f]+)$", status, re.MULTILINE)  # "(initial)" without a commit
    changed = any(not line.startswith("#") for line in status.splitlines())
    return {"commit": found[1], "changed": changed} if found else None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None
