"""Refuse launchers (mpirun, srun, torchrun) that start several processes."""

from __future__ import annotations

from collections.abc import Mapping

from tdt._launched import launched
from tdt.train.runs.run import RunError


def check_one_process(environ: Mapping[str, str] | None = None) -> None:
    """Raise RunError if a launcher has started several processes: each would train the same run of its own.

    >>> from tdt.train.checks.launchers import check_one_process
    >>> check_one_process({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"})
    >>> check_one_process({"OMPI_COMM_WORLD_SIZE": "2"})
    Traceback (most recent call last):
    tdt.train.runs.run.RunError: OMPI_COMM_WORLD_SIZE=2: a launcher has started 2 processes, but tdt trains in one; start it \
as `tdt train …` alone, without mpirun, srun or torchrun (if each of them is meant to be a run of its own: \
`env -u OMPI_COMM_WORLD_SIZE tdt train …`)
    """
    launch = launched(environ)
    if launch is not None:
        unset = " ".join(f"-u {name}" for name in launch.variables)
        raise RunError(
            f"{launch.variable}={launch.size}: a launcher has started {launch.size} processes, but tdt trains in one; start it "
            "as `tdt train …` alone, without mpirun, srun or torchrun (if each of them is meant to be a run of its own: "
            f"`env {unset} tdt train …`)"
        )
