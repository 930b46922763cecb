"""NCCL's part in `tdt.distributed` and in runs, on a stand-in for CuPy: there is no GPU here."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.mpi.launching import ROOT, environment, mpirun, require_mpi

DROPOUT = """
data: {train: Digits(split=train), transform: [ToTensor], loader: {batch_size: 64}}
model: [Flatten, "Linear(64, 10)", Dropout]
loss: CrossEntropyLoss
optimizer: Adam
train: {steps: 6}
device: cuda
"""
pytestmark = pytest.mark.once  # a stand-in for NCCL
STANDIN = {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/gpu/standin'}"}


def on_gpus(
    processes: int, *arguments: str, gpus: int | None = None, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run in several processes on a machine with as many GPUs."""
    return mpirun(
        processes, "-m", "mpi4py", "-m", *arguments, **STANDIN, CUPY_STANDIN_GPUS=f"{gpus or processes}", **changes
    )


@pytest.mark.parametrize("processes", [2, 4])
def test_collectives_on_gpus_have_the_bits_of_those_on_the_host(processes: int):
    require_mpi()
    done = on_gpus(processes, "tests.mpi.gpus", "collectives")
    assert done.returncode == 0, done.stderr


def test_a_run_on_gpus_has_the_same_bits_on_every_number_of_ranks(tmp_path):
    require_mpi()
    found = []
    for ranks, gpus in ((1, 1), (2, 2), (4, 4), (2, 1)):  # at last two ranks share one, and send through the host
        done = on_gpus(ranks, "tests.mpi.shards", str(tmp_path), "gpus", gpus=gpus)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2] == found[3]
    assert found[0]["gpu"] == found[0]["gpu, sharded"] != found[0]["gpu, rounded"]


def test_the_stand_in_refuses_what_nccl_refuses():
    require_mpi()
    done = on_gpus(2, "tests.mpi.gpus", "refusals")
    assert done.returncode == 0, done.stderr


def test_checkpointing_on_a_gpu_recomputes_with_the_same_dropout():
    require_mpi()
    done = on_gpus(1, "tests.mpi.gpus", "checkpointing")
    assert done.returncode == 0, done.stderr


def test_a_resumed_run_on_a_gpu_goes_on_with_the_same_dropout(tmp_path):
    require_mpi()
    (tmp_path / "small.yaml").write_text(DROPOUT)
    for arguments in (
        ("small.yaml", "--run-dir", "whole"),
        ("small.yaml", "--run-dir", "parts", "train.steps=3"),
        ("--resume", "parts", "train.steps=6"),
    ):
        command = [sys.executable, "-m", "tdt", "train", *arguments]
        done = subprocess.run(
            command, env=environment(**STANDIN), cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    whole, parts = (load_file(tmp_path / name / "checkpoints/last.safetensors") for name in ("whole", "parts"))
    assert "rng/cuda" in whole
    for name, array in whole.items():
        assert np.array_equal(array, parts[name]), name


def test_gpu_check_checks_nccl(tmp_path):
    require_mpi()
    command = [sys.executable, ROOT / "scripts/gpu_check", "--only", "nccl", "--results", tmp_path]
    done = subprocess.run(command, env=environment(**STANDIN), capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0 and done.stdout.count(": agrees\n") == 9, done.stdout + done.stderr
    assert done.stdout.endswith("several processes: not run, there is one GPU\n")


def test_processes_that_share_a_gpu_are_named():
    require_mpi()
    done = on_gpus(3, "tests.mpi.gpus", "obstacles", gpus=2)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert re.fullmatch(
        r"NCCL cannot connect the GPUs: ranks \d and \d on \S+, which see 2 GPUs, share one \(0000:0\d:00.0\), but each "
        "must have its own", found["note"]
    )  # fmt: skip
    assert found["error"] == f"DistBackendError: {found['note']}; the backend mpi sends their tensors through the host"


def test_nccl_that_is_missing_is_reported_with_its_package():
    require_mpi()
    done = on_gpus(2, "tests.mpi.gpus", "obstacles", CUPY_STANDIN_NO_NCCL="1")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["note"].endswith(": CuPy does not find NCCL: pip install nvidia-nccl-cu13")
    assert found["error"].startswith("RuntimeError: Distributed package doesn't have NCCL built in: CuPy does not find")
