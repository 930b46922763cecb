"""Started by a launcher as one of several processes that no MPI connects, tdt does nothing but say how to start them."""

from __future__ import annotations

import time

import pytest

from tdt import _launched, cuda
from tdt._launched import launched, local_rank
from tdt.commands import _ranks
from tdt.train.config import ConfigErrors, loads
from tdt.train.loop import build
from tdt.train.session import Session
from tests.commands.running import SMALL, tdt


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
def test_one_of_several_processes_is_found(several: dict[str, str]):
    launch = launched(several)
    assert launch is not None and launch.size in (2, 4, 8) and set(launch.variables) <= several.keys()


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
def test_a_process_that_is_alone_is_not_launched(alone: dict[str, str]):
    assert launched(alone) is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["train", "small.yaml"],
            "WORLD_SIZE=2: torchrun or a script of its kind has started 2 processes; tdt's are started by",
        ),
        (["train", "--resume", "small/1"], "WORLD_SIZE=2: torchrun or a script"),
        (
            ["tune", "small.yaml"],
            "WORLD_SIZE=2: a launcher has started 2 processes, but `tdt tune` is one process's work",
        ),
        (["trian", "small.yaml"], "tdt: there is no command 'trian'; did you mean 'train'?"),
    ],
)
def test_one_of_several_processes_creates_nothing(arguments: list[str], text: str, tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    done = tdt(*arguments, cwd=tmp_path, WORLD_SIZE="2", RANK="0")
    assert done.returncode == 2 and done.stderr.startswith(f"error: {text}") and not done.stdout
    assert "env -u WORLD_SIZE" in done.stderr or "trian" in text
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


def test_rank_0_alone_prints_what_all_have_found(tmp_path):
    began = time.monotonic()
    done = tdt("tune", "small.yaml", cwd=tmp_path, WORLD_SIZE="2", RANK="1")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert time.monotonic() - began > _ranks.WAIT  # a launcher may end all when the first process ends
    done = tdt("train", "--help", cwd=tmp_path, WORLD_SIZE="2", RANK="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = tdt("tune", "--help", cwd=tmp_path, WORLD_SIZE="2", RANK="0")
    assert done.returncode == 0 and done.stdout.startswith("Usage: tdt tune")


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "3", "OMPI_COMM_WORLD_RANK": "7"}, 3),
        ({"MPI_LOCALRANKID": "1", "PMI_RANK": "5"}, 1),
        ({"MV2_COMM_WORLD_LOCAL_RANK": "1"}, 1),
        ({"SLURM_LOCALID": "2", "SLURM_PROCID": "6"}, 2),
        ({}, 0),
    ],
)
def test_the_local_rank_is_the_launchers(variables, rank: int, monkeypatch: pytest.MonkeyPatch):
    for name in _launched._LOCAL_RANKS:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert local_rank() == rank


@pytest.mark.parametrize(
    ("local", "gpus", "requested", "expected"),
    [
        (0, 4, "auto", "cuda:0"),
        (3, 4, "auto", "cuda:3"),
        (2, 4, "cuda", "cuda:2"),
        (2, 4, "cuda:1", "cuda:1"),
        (3, 1, "cuda", "cuda:0"),  # the launcher has set CUDA_VISIBLE_DEVICES for each process
        (3, 2, "auto", "cuda:1"),  # shared, which is noted when the run begins
        (1, 0, "auto", "cpu"),
        (1, 4, "cpu", "cpu"),
    ],
)
def test_each_process_of_a_machine_takes_its_own_gpu(local, gpus, requested, expected, monkeypatch: pytest.MonkeyPatch):
    current: list[object] = []
    monkeypatch.setenv("SLURM_LOCALID", str(local))
    monkeypatch.setattr(build, "_gpu_count", lambda: gpus)
    monkeypatch.setattr(cuda, "set_device", current.append)
    device = build.find_device(loads(SMALL, overrides=[f"device={requested}"]), ConfigErrors())
    assert str(device) == expected
    assert current == ([] if expected == "cpu" else [device]), "CuPy computes on the current device"


def test_a_program_gets_the_error(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="^WORLD_SIZE=2: torchrun"):
        Session.start(loads(SMALL), root=tmp_path / "runs")
    assert not list(tmp_path.iterdir())
