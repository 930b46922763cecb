"""Refuse launchers (mpirun, srun, torchrun) that start several processes."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tdt.train.runs.run import RunError

# Number of processes, by launcher: MPICH and Intel MPI, Open MPI, MVAPICH2, torchrun.
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "WORLD_SIZE")


def check_one_process(environ: Mapping[str, str] | None = None) -> None:
    """Raise RunError if a launcher has started several processes: each would train the same run of its own.

    Slurm's variables count only within a step that `srun` has started: a batch script is one process, however many tasks
    it has requested.

    >>> from tdt.train.checks.launchers import check_one_process
    >>> check_one_process({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"})
    >>> check_one_process({"OMPI_COMM_WORLD_SIZE": "2"})
    Traceback (most recent call last):
    tdt.train.runs.run.RunError: OMPI_COMM_WORLD_SIZE=2: a launcher has started 2 processes, but tdt trains in one; start it \
as `tdt train …` alone, without mpirun, srun or torchrun (if each of them is meant to be a run of its own: \
`env -u OMPI_COMM_WORLD_SIZE tdt train …`)
    """
    environ = os.environ if environ is None else environ
    sizes = {name: environ.get(name, "") for name in _SIZES}
    if "SLURM_STEP_ID" in environ:
        name = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else "SLURM_NTASKS"
        sizes[name] = environ.get(name, "")
    several = {name: int(size) for name, size in sizes.items() if size.isdecimal() and 1 < int(size) < 10**9}
    if several:
        name, size = next(iter(several.items()))
        unset = " ".join(f"-u {name}" for name in several)
        raise RunError(
            f"{name}={size}: a launcher has started {size} processes, but tdt trains in one; start it as `tdt train …` "
            "alone, without mpirun, srun or torchrun (if each of them is meant to be a run of its own: "
            f"`env {unset} tdt train …`)"
        )
