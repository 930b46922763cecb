"""What a launcher (mpirun, srun) says of the process that it has started, from its environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

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

    >>> from tdt._launched import launched
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
