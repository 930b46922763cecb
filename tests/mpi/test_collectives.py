"""`tdt.distributed` in several processes, beside PyTorch's in as many."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import require_torch
from tests.mpi.launching import mpirun, require_mpi, torchrun

PROGRAMS = "import sys; from tests.mpi import collectives, training; "
PROGRAMS += "collectives.main(*sys.argv[1:]); training.main(*sys.argv[1:])"


@pytest.fixture(scope="module", params=[2, 3])
def results(request, tmp_path_factory) -> tuple[Path, int]:
    """The folder with what both libraries have computed in several processes, and their number."""
    require_mpi()
    require_torch()
    folder = tmp_path_factory.mktemp("processes")
    torchrun(request.param, "-c", PROGRAMS, "torch", str(folder))
    done = mpirun(request.param, "-c", PROGRAMS, "tdt", str(folder))
    assert done.returncode == 0, done.stderr
    return folder, request.param


def test_every_collective_gives_what_pytorchs_gives(results: tuple[Path, int]):
    folder, processes = results
    for rank in range(processes):
        ours, theirs = (json.loads((folder / f"{name}{rank}.json").read_text()) for name in ("tdt", "torch"))
        assert ours.keys() == theirs.keys()
        for part, values in theirs.items():
            assert ours[part] == values


def test_distributed_data_parallel_trains_as_pytorchs(results: tuple[Path, int]):
    folder, processes = results
    for rank in range(processes):
        ours, theirs = (np.load(folder / f"{name}{rank}.npz") for name in ("tdt", "torch"))
        assert set(ours) == set(theirs)
        for name, value in theirs.items():
            np.testing.assert_allclose(ours[name], value, rtol=2e-5, atol=2e-6, err_msg=name)
