"""The processes that a launcher (mpirun, srun) has started, and MPI, through which they talk.

MPI is loaded only in a process that a launcher has started as one of several, or when a script asks for it.
"""

from __future__ import annotations

import faulthandler
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tdt._about import install_hint
from tdt._launched import Launch, launched

if TYPE_CHECKING:
    from mpi4py import MPI

LONGEST = 300.0  # seconds that the start of MPI may take
_LIBRARIES = {"OMPI_COMM_WORLD_SIZE": "Open MPI", "PMI_SIZE": "MPICH"}  # whose launchers set the variable


class LaunchError(RuntimeError):
    """A launcher has started several processes that cannot talk to one another; the message gives the right command."""


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
        _wait_for_all_processes_to_start(MPI)
    if launch is not None and MPI.COMM_WORLD.Get_size() != launch.size:
        raise LaunchError(
            f"{launch.variable}={launch.size}: a launcher has started {launch.size} processes, but MPI ({library}) sees "
            f"{MPI.COMM_WORLD.Get_size()}: the launcher belongs to another MPI; {_start_with(launch)}"
        )
    return MPI


def _wait_for_all_processes_to_start(mpi: Any) -> None:
    """Start MPI, which keeps the interpreter's lock until all have come. After `LONGEST` a traceback with this name is printed,
    and the process ends: another one has ended before, or they do not reach each other.
    """
    faulthandler.dump_traceback_later(LONGEST, exit=True, file=2)
    mpi.Init_thread(mpi.THREAD_FUNNELED)  # only the main thread calls MPI
    faulthandler.cancel_dump_traceback_later()


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


def abort_at_exit() -> None:
    """Abort all processes when this one ends, since an exception has ended its part: the others may wait for it."""
    if (mpi := sys.modules.get("mpi4py.MPI")) is not None and mpi.Is_initialized():
        from mpi4py.run import set_abort_status

        set_abort_status(1)
