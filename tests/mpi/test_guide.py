"""What the guide's page on many machines says: its scripts run, and its files have the form that their readers expect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.mpi.launching import MPIRUN, environment, launcher, require_mpi

pytestmark = pytest.mark.once  # scripts
PAGE = Path(__file__).parents[2] / "docs" / "guide" / "machines.md"
FILES = dict(re.findall(r'^```\w+ title="([\w.]+)"\n(.*?)^```', PAGE.read_text(encoding="utf-8"), re.M | re.S))


def run_script(place: Path, text: str, expected: int = 0, srun: str = "", **variables: str) -> str:
    """Run a script in which `tdt` is this one, and `mpirun` and `srun` start two processes here. Returns what it prints.

    expected: the exit code. srun: what it does instead.
    """
    start, settings = launcher(2)
    tools = place / "tools"
    tools.mkdir(exist_ok=True)
    commands = {
        "tdt": f'exec {sys.executable} -m tdt "$@"',
        "srun": srun or f'while [ "${{1#-}}" != "$1" ]; do shift; done; exec {" ".join(start)} "$@"',
        "scontrol": 'echo "$@"',
    }
    for name, command in commands.items():
        (tools / name).write_text(f"#!/bin/sh\n{command}\n")
        (tools / name).chmod(0o700)
    path = os.pathsep.join([str(tools), str(MPIRUN.parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", text],
        cwd=place,
        env=environment(**settings, PATH=path, **variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_example_for_one_machine_trains_and_evaluates(tmp_path):
    require_mpi()
    assert "accuracy" in run_script(tmp_path, FILES["two_ranks.sh"])
    assert (tmp_path / "runs" / "two" / "checkpoints" / "last.safetensors").exists()


def test_the_script_for_slurm_starts_a_run_and_finds_it_complete(tmp_path):
    require_mpi()
    script = FILES["train.sh"].replace("digits-cnn", "digits-cnn train.epochs=1")
    assert "1 epoch" in run_script(tmp_path, script, SLURM_CPUS_PER_TASK="1")
    assert "complete" in run_script(tmp_path, script, SLURM_CPUS_PER_TASK="1")


def test_the_script_for_slurm_requeues_a_stopped_run(tmp_path):
    out = run_script(tmp_path, FILES["train.sh"], 143, srun="exit 143", SLURM_CPUS_PER_TASK="1", SLURM_JOB_ID="77")
    assert out == "requeue 77\n"


def test_the_trainjob_is_one_of_kubeflow_trainer():
    job = yaml.safe_load(FILES["trainjob.yaml"])
    assert (job["apiVersion"], job["kind"]) == ("trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert set(job["spec"]) == {"runtimeRef", "trainer"}
    trainer = job["spec"]["trainer"]
    assert set(trainer) == {"image", "numNodes", "numProcPerNode", "command", "resourcesPerNode"}
    ranks, shards = trainer["numNodes"] * trainer["numProcPerNode"], 8
    assert trainer["command"][:4] == ["mpirun", "-n", str(ranks), "tdt"]
    assert f"train.shards={shards}" in trainer["command"]
    assert (shards // ranks).bit_count() == 1
