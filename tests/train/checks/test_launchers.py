"""Started by a launcher as one of several processes, tdt refuses to train, before anything is there."""

from __future__ import annotations

import pytest

from tdt.train.checks.launchers import check_one_process
from tdt.train.config import loads
from tdt.train.runs.run import RunError
from tdt.train.session import Session
from tests.commands.running import SMALL, tdt_here


@pytest.mark.parametrize(
    "several",
    [
        {"PMI_SIZE": "2"},
        {"OMPI_COMM_WORLD_SIZE": "2"},
        {"MV2_COMM_WORLD_SIZE": "4"},
        {"WORLD_SIZE": "8"},
        {"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"},
        {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"},
    ],
)
def test_one_of_several_processes_is_refused(several: dict[str, str]):
    with pytest.raises(RunError, match=r"started [248] processes, but tdt trains in one; start it as `tdt train …`"):
        check_one_process(several)


@pytest.mark.parametrize(
    "alone",
    [
        {},
        {"PMI_SIZE": "1", "OMPI_COMM_WORLD_SIZE": "1", "WORLD_SIZE": "1"},
        {"WORLD_SIZE": "all", "PMI_SIZE": ""},
        {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"},  # the shell of a batch script that requests four
        {"SLURM_NTASKS": "4", "SLURM_STEP_ID": "1", "SLURM_STEP_NUM_TASKS": "1"},  # srun -n 1 within it
    ],
)
def test_a_process_that_is_alone_is_not_refused(alone: dict[str, str]):
    check_one_process(alone)


def test_one_of_several_processes_creates_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    (tmp_path / "small.yaml").write_text(SMALL)
    for arguments in (["small.yaml"], ["--resume", "small/1"]):
        done = tdt_here("train", *arguments, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith("OMPI_COMM_WORLD_SIZE=2: ")
    with pytest.raises(RunError):
        Session.start(loads(SMALL), root=tmp_path / "runs")
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]
