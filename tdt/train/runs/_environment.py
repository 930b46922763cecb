"""The environment of a run (versions, machine, command), for `env.json` and checkpoints."""

from __future__ import annotations

import os
import platform
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
_GPU = ("cupy-cuda12x", "cupy-cuda13x", "nvidia-cudnn-frontend")
_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TDT_KERNELS", "TDT_WINOGRAD",
              "CUDA_VISIBLE_DEVICES")  # fmt: skip


def versions() -> dict[str, str]:
    """Versions of Python, tdt and the packages that a run's numbers depend on, without importing them."""
    found = {"python": platform.python_version(), "tdt": __version__}
    for package in _CPU + _GPU:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


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
    try:
        commit = _ask_git("rev-parse", "HEAD").strip()
        return {"commit": commit, "changed": bool(_ask_git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):  # no git, no repository, or one without a commit
        return None


def _ask_git(*arguments: str) -> str:
    completed = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=5, check=True)
    return completed.stdout


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
