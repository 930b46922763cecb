"""What several processes that a launcher (mpirun, srun) has started may do together."""

from __future__ import annotations

from collections.abc import Mapping

from tdt._launched import launched
from tdt.train._agreement import shared
from tdt.train._ranks import Ranks
from tdt.train.runs.run import RunError


def check_one_process(environ: Mapping[str, str] | None = None) -> Ranks:
    """This process alone. Raises RunError if a launcher has started several: each would train the same run of its own.

    >>> from tdt.train.checks.launchers import check_one_process
    >>> check_one_process({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}).size
    1
    >>> check_one_process({"OMPI_COMM_WORLD_SIZE": "2"})
    Traceback (most recent call last):
    tdt.train.runs.run.RunError: OMPI_COMM_WORLD_SIZE=2: a launcher has started 2 processes, but tdt trains in one; start it \
as `tdt train …` alone, without mpirun, srun or torchrun (if each of them is meant to be a run of its own: \
`env -u OMPI_COMM_WORLD_SIZE tdt train …`)
    """
    launch = launched(environ)
    if launch is not None:
        unset = " ".join(f"-u {name}" for name in launch.variables)
        text = (
            f"{launch.variable}={launch.size}: a launcher has started {launch.size} processes, but tdt trains in one; start it "
            "as `tdt train …` alone, without mpirun, srun or torchrun (if each of them is meant to be a run of its own: "
            f"`env {unset} tdt train …`)"
        )
        raise shared(RunError(text))
    return Ranks.alone()
