"""`tdt.distributed` in several processes, beside PyTorch's in as many."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.helpers import require_torch
from tests.mpi.launching import mpirun, require_mpi, torchrun


@pytest.mark.parametrize("processes", [2, 3])
def test_every_collective_gives_what_pytorchs_gives(processes: int, tmp_path):
    require_mpi()
    require_torch()
    torchrun(processes, "-m", "tests.mpi.collectives", "torch", str(tmp_path))
    done = mpirun(processes, "-m", "tests.mpi.collectives", "tdt", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for rank in range(processes):
        ours, theirs = (json.loads((tmp_path / f"{name}{rank}.json").read_text()) for name in ("tdt", "torch"))
        for part, values in theirs.items():
            assert ours[part] == values


@pytest.mark.parametrize("processes", [2, 3])
def test_distributed_data_parallel_trains_as_pytorchs(processes: int, tmp_path):
    require_mpi()
    require_torch()
    torchrun(processes, "-m", "tests.mpi.training", "torch", str(tmp_path))
    done = mpirun(processes, "-m", "tests.mpi.training", "tdt", str(tmp_path))
    assert done.returncode == 0, done.stderr
    for rank in range(processes):
        ours, theirs = (np.load(tmp_path / f"{name}{rank}.npz") for name in ("tdt", "torch"))
        assert set(ours) == set(theirs)
        for name, value in theirs.items():
            np.testing.assert_allclose(ours[name], value, rtol=2e-5, atol=2e-6, err_msg=name)
