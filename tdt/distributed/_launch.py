"""The processes that a launcher (mpirun, srun) has started, and MPI, through which they talk.

MPI is loaded only in a process that a launcher has started as one of several, or when a script asks for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdt._about import install_hint

if TYPE_CHECKING:
    from mpi4py import MPI

# Number of processes, by launcher: Open MPI; MPICH and Intel MPI; MVAPICH2; torchrun. Open MPI's may set PMI_SIZE too.
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID", "RANK")
_LOCAL_RANKS = (
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "SLURM_LOCALID",
    "LOCAL_RANK",
)
_LOCAL_SIZES = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "LOCAL_WORLD_SIZE")
_LIBRARIES = {"OMPI_COMM_WORLD_SIZE": "Open MPI", "PMI_SIZE": "MPICH"}  # whose launchers set the variable


class LaunchError(RuntimeError):
    """A launcher has started several processes that cannot talk to one another; the message gives the right command."""


@dataclass(frozen=True)
class Launch:
    """What a launcher says of this process: the number of processes, and the variables that hold it."""

    size: int
    variables: tuple[str, ...]

    @property
    def variable(self) -> str:
        """The variable that counts."""
        return self.variables[0]


def launched(environ: Mapping[str, str] | None = None) -> Launch | None:
    """The launcher that has started this process as one of several; None if it is alone.

    Slurm's variables count only within a step that `srun` has started: a batch script is one process, however many tasks it
    has requested.

    >>> from tdt.distributed._launch import launched
    >>> launched({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"})
    >>> launched({"OMPI_COMM_WORLD_SIZE": "2"})
    Launch(size=2, variables=('OMPI_COMM_WORLD_SIZE',))
    """
    environ = os.environ if environ is None else environ
    names = list(_SIZES)
    if "SLURM_STEP_ID" in environ:
        names.append("SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS")
    sizes = {name: environ.get(name, "") for name in names}
    several = {name: int(size) for name, size in sizes.items() if size.isdecimal() and 1 < int(size) < 10**9}
    return Launch(next(iter(several.values())), tuple(several)) if several else None


def _number(names: tuple[str, ...], default: int) -> int:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), default)


def rank_hint() -> int:
    """The rank that the launcher gives this process, before MPI has started; 0 if it is alone."""
    return _number(_RANKS, 0)


def local_rank() -> int:
    """The number of this process among those on its machine, from 0."""
    return _number(_LOCAL_RANKS, 0)


def local_size() -> int:
    """How many processes the launcher has started on this machine."""
    return _number(_LOCAL_SIZES, 1)


@lru_cache(maxsize=1)
def load_mpi() -> Any:
    """The module `mpi4py.MPI`, with MPI started; for a process that a launcher has started, its library is checked first.

    Raises:
        LaunchError: mpi4py or an MPI library is missing, is another than the launcher's, or does not see the processes that
            it has started.
    """
    launch = launched()
    if launch is not None and launch.variable == "WORLD_SIZE":
        raise LaunchError(
            f"WORLD_SIZE={launch.size}: torchrun or a script of its kind has started {launch.size} processes; tdt's are "
            f"started by MPI: {_start_with(launch)} (if each is meant to be a program of its own: env -u WORLD_SIZE …)"
        )
    MPI = _import(launch)
    library = (
        MPI.Get_library_version().partition(",")[0].partition(" Version")[0]
    )  # Open MPI v5.0.11, …; MPICH Version: …
    if launch is not None:
        _check_library(launch, library)
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_FUNNELED)  # only the main thread calls MPI
    if launch is not None and MPI.COMM_WORLD.Get_size() != launch.size:
        raise LaunchError(
            f"{launch.variable}={launch.size}: a launcher has started {launch.size} processes, but MPI ({library}) sees "
            f"{MPI.COMM_WORLD.Get_size()}: the launcher belongs to another MPI; {_start_with(launch)}"
        )
    return MPI


def _import(launch: Launch | None) -> Any:
    import importlib

    try:
        mpi4py: Any = importlib.import_module("mpi4py")
        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize, mpi4py.rc.finalize = False, True  # the library is checked before it starts
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        started = (
            f"{launch.variable}={launch.size}: a launcher has started {launch.size} processes, but " if launch else ""
        )
        raise LaunchError(
            f"{started}MPI cannot be loaded ({error}): {install_hint('mpi')}; {_start_with(launch)}"
        ) from error


def _check_library(launch: Launch, library: str) -> None:
    """Raise LaunchError where the launcher is known to belong to another library: MPI would end the process."""
    expected = _LIBRARIES.get(launch.variable)
    is_open_mpi = library.startswith("Open MPI")
    if expected is not None and is_open_mpi != (expected == "Open MPI"):
        raise LaunchError(
            f"{launch.variable}={launch.size}: {expected}'s launcher has started {launch.size} processes, but mpi4py uses "
            f"{library}; {_start_with(launch)}"
        )


def _start_with(launch: Launch | None) -> str:
    """The command that starts this program with the launcher that fits."""
    beside = Path(sys.executable).with_name("mpirun")
    mpirun = str(beside) if beside.exists() else "mpirun"
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    arguments = " ".join(["tdt" if program in ("tdt", "__main__.py") else f"python {program}", *sys.argv[1:]])
    return f"start it with the mpirun of mpi4py's library: {mpirun} -n {launch.size if launch else 2} {arguments}"


def world() -> MPI.Intracomm | None:
    """The communicator of all processes that a launcher has started; None if this process is alone.

    Raises:
        LaunchError: see `load_mpi`.
    """
    return None if launched() is None else load_mpi().COMM_WORLD
