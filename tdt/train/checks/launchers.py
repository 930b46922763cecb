"""The processes that a launcher (mpirun, srun) has started to train a run together."""

from __future__ import annotations

from tdt._launched import launched
from tdt.distributed._launch import LaunchError
from tdt.train._agreement import shared
from tdt.train._ranks import Ranks
from tdt.train.runs.run import RunError


def launched_ranks() -> Ranks:
    """The processes that train together: this one alone, or all that a launcher has started.

    Raises:
        RunError: they cannot talk to one another.

    >>> from tdt.train.checks.launchers import launched_ranks
    >>> launched_ranks().size
    1
    """
    try:
        return Ranks.of_launch() if launched() else Ranks.alone()
    except LaunchError as error:
        raise shared(RunError(str(error))) from error
