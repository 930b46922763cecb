"""Started by a launcher as one of several processes without MPI, tdt refuses to train, before anything is there."""

from __future__ import annotations

import pytest

from tdt.train.checks.launchers import launched_ranks
from tdt.train.config import loads
from tdt.train.runs.run import RunError
from tdt.train.session import Session
from tests.commands.running import SMALL, tdt_here


def test_a_process_of_torchrun_is_refused_with_the_right_command(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    with pytest.raises(
        RunError, match=r"WORLD_SIZE=8: torchrun or a script of its kind has started 8 processes; .*mpirun"
    ):
        launched_ranks()


@pytest.mark.parametrize(
    "alone",
    [
        {},
        {"PMI_SIZE": "1", "OMPI_COMM_WORLD_SIZE": "1", "WORLD_SIZE": "1"},
        {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"},  # the shell of a batch script that requests four
    ],
)
def test_a_process_that_is_alone_is_not_refused(alone: dict[str, str], monkeypatch):
    for name, value in alone.items():
        monkeypatch.setenv(name, value)
    assert launched_ranks().size == 1


def test_one_of_several_processes_creates_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    (tmp_path / "small.yaml").write_text(SMALL)
    for arguments in (["small.yaml"], ["--resume", "small/1"]):
        done = tdt_here("train", *arguments, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.startswith("WORLD_SIZE=2: ")
    with pytest.raises(RunError):
        Session.start(loads(SMALL), root=tmp_path / "runs")
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]
