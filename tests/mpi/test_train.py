"""`mpirun -n 2 tdt train`: one folder, one output; errors of a rank end all, by name; a hang is noticed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tdt.train.runs.checkpoint import load
from tests.commands.running import SMALL, tdt
from tests.commands.terminal import Terminal
from tests.mpi.job import Job
from tests.mpi.launching import IS_OPEN_MPI, LONGEST, environment, launcher, mpirun, require_mpi

BAD = """
import sys, time
from tdt import nn
from tdt._launched import rank_hint

class Bad(nn.Module):
    def __init__(self, how: str):
        super().__init__()
        self.how, self.calls = how, 0
        if how == "never built" and rank_hint() == 1:
            time.sleep(1000)

    def forward(self, x):
        self.calls += self.training
        if rank_hint() == 1 and self.calls == 5:
            if self.how == "exit":
                sys.exit(0)
            if self.how == "memory":
                raise MemoryError
            if self.how == "overflow":
                return x * float("inf")
            time.sleep(1000)
        return x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    require_mpi()
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "bad.yaml").write_text(
        "imports: [bad.py]\n"
        + SMALL.replace("[Flatten, ", "[Flatten, Bad(how=hang), ").replace("epochs: 2", "epochs: 9")
    )
    return tmp_path


def test_a_run_is_written_once_and_resumes_on_another_number_of_processes(folder: Path):
    done = mpirun(2, "-m", "tdt", "train", "small.yaml", "train.shards=4", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test loss") == done.stdout.count("checkpoints: ") == 1
    assert [path.name for path in (folder / "runs/small").iterdir()] == ["1"]
    assert len(list((folder / "runs/small/1").glob("events.out.tfevents.*"))) == 1
    more = mpirun(
        4, "-m", "tdt", "train", "--resume", "small/1", "train.epochs=3", "train.shard_optimizer=true", cwd=folder
    )
    assert more.returncode == 0 and "train.shard_optimizer: False → True" in more.stdout, more.stderr
    assert tdt("train", "--resume", "small/1", "train.epochs=4", cwd=folder).returncode == 0
    alone = tdt("train", "small.yaml", "train.shards=4", "train.epochs=4", cwd=folder)
    assert alone.returncode == 0, alone.stderr
    tensors, others = (load(folder / f"runs/small/{run}/checkpoints/last.safetensors")[0] for run in (1, 2))
    for name, array in tensors.items():
        assert array.tobytes() == others[name].tobytes(), name


@pytest.mark.parametrize("compiled_first", [True, False])
def test_a_killed_run_in_stages_ends_with_the_bits_of_eager_on_one_process(compiled_first: bool, folder: Path):
    settings = ["train.shards=2", "train.epochs=6", "train.clip_grad_norm=0.5", "checkpoint.every=5 steps"]
    first, other = ("auto", "false") if compiled_first else ("false", "auto")
    whole = tdt("train", "small.yaml", *settings, "train.compile=false", "--run-dir", "whole", cwd=folder)
    assert whole.returncode == 0, whole.stderr
    run = ["train", "small.yaml", *settings, f"train.compile={first}", "--run-dir", "killed"]
    with Job(2, *run, cwd=folder) as job:
        job.wait_for(folder / "killed/checkpoints/last.safetensors")
        job.kill(1)
        job.end_of_ranks()
    resumed = mpirun(2, "-m", "tdt", "train", "--resume", "killed", f"train.compile={other}", cwd=folder)
    assert resumed.returncode == 0, resumed.stderr
    tensors, others = (load(folder / run / "checkpoints/last.safetensors")[0] for run in ("whole", "killed"))
    for name, array in tensors.items():
        assert array.tobytes() == others[name].tobytes(), name


@pytest.mark.parametrize(
    ("how", "text", "timeout"),
    [
        ("exit", r"sys\.exit\(0\) was called", 4),
        ("memory", "MemoryError", 4),
        ("hang", r"rank 1 on \S+: at step 4, training, last collective: ", 4),
        ("never built", r"rank 1 on \S+: at step 0, preparing, last collective: ", 1),
    ],
)
def test_what_ends_one_process_ends_all(how: str, text: str, timeout: int, folder: Path):
    began = time.monotonic()
    done = mpirun(
        2,
        "-m",
        "tdt",
        "train",
        "bad.yaml",
        "--trust",
        f"model.1.how='{how}'",
        f"train.stall_timeout={timeout} seconds",
        cwd=folder,
    )
    assert done.returncode != 0 and time.monotonic() - began < 40
    output = done.stdout + done.stderr
    assert re.search(text, output), output
    if how in ("exit", "memory"):
        assert len(re.findall(rf"rank 1 on \S+: .*{text}", output)) == 1, output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["small.yaml", "train.shards=3"], "3 shards cannot be computed by 2 processes; start 1 or 3"),
        (["--resume", "small/7"], "no run 'small/7'"),
    ],
)
def test_a_mistake_that_all_find_is_printed_once(arguments: list[str], text: str, folder: Path):
    done = mpirun(2, "-m", "tdt", "train", *arguments, cwd=folder)
    assert done.returncode == 2 and done.stderr.count(text) == 1, done.stderr
    assert not (folder / "runs").exists()


def test_a_loss_that_is_not_finite_on_one_process_is_printed_once(folder: Path):
    done = mpirun(2, "-m", "tdt", "train", "bad.yaml", "--trust", "model.1.how=overflow", cwd=folder)
    assert done.returncode == 3, done.stderr
    assert done.stderr.startswith("error: the loss became nan at step 5, on the training samples ["), done.stderr
    assert done.stderr.count("the loss became nan") == 1 and "Abort" not in done.stderr, done.stderr


EARLY = """
import sys
from tdt._launched import rank_hint
from tdt.distributed import _launch, _watchdog
from tdt.train import fit
from tdt.train._ranks import Ranks

_launch.LONGEST = _watchdog.LEFT = 1.5
if sys.argv[1] == "connected":
    Ranks.of_launch()
if rank_hint() == 1:
    sys.exit()
fit("small.yaml")
"""


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("connected", r"rank 1 on \S+ has ended its part too early"),
        (
            "alone",
            '_wait_for_all_processes_to_start|did not call "init"',
        ),  # the latter is Open MPI's, if it knows already
    ],
)
def test_a_script_that_ends_on_one_process_before_the_run_ends_on_all(when: str, text: str, folder: Path):
    done = mpirun(2, "-c", EARLY, when, cwd=folder)
    assert done.returncode != 0 and re.search(text, done.stderr), done.stderr
    assert not (folder / "runs").exists()


def test_a_signal_to_the_loaders_workers_too_stops_the_run_with_a_checkpoint(folder: Path):
    settings = [
        "train.epochs=100000",
        "data.loader.num_workers=2",
        "data.loader.persistent_workers=true",
        "log.every=1 step",
        "checkpoint.every=99 epochs",
    ]
    with Job(2, "train", "small.yaml", *settings, "--run-dir", "run", cwd=folder) as job:
        job.wait_for(folder / "run/metrics.jsonl")
        ranks = [job.pid(0), job.pid(1)]
        workers = [pid for pid, rank in job.processes() if rank is not None and pid not in ranks]
        for pid in workers:
            with suppress(ProcessLookupError):  # a worker of a validation has ended
                os.kill(pid, signal.SIGTERM)
        time.sleep(0.3)  # some steps
        for pid in ranks:
            os.kill(pid, signal.SIGTERM)
        code, text = job.end(30), job.text
    assert len(workers) >= 4 and code == 143, text
    rows = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
    assert load(folder / "run/checkpoints/last.safetensors")[1]["step"] == rows[-1]["step"], text


def test_evaluation_and_prediction_are_those_of_one_process(folder: Path):
    rows = "\n".join(f"{number % 7},{number % 11 / 3},{number % 3}" for number in range(1001))
    (folder / "rows.csv").write_text(f"a,b,kind\n{rows}\n")
    (folder / "rows.yaml").write_text(
        "name: rows\ndevice: cpu\ndata:\n  train: Table('rows.csv', target=kind)\n  valid: Table('rows.csv', target=kind)\n"
        'model: ["Linear(2, 3)"]\nloss: CrossEntropyLoss\nmetrics: [accuracy, auroc]\noptimizer: SGD(lr=0.1)\n'
        "train: {epochs: 1}\n"
    )
    assert tdt("train", "rows.yaml", cwd=folder).returncode == 0
    for command in (["eval", "rows", "--json"], ["predict", "rows", "rows.csv", "--json"]):
        alone, together = tdt(*command, cwd=folder), mpirun(2, "-m", "tdt", *command, cwd=folder)
        assert together.returncode == 0, together.stderr
        assert alone.stdout and together.stdout == alone.stdout and together.stderr == alone.stderr


def test_a_file_gets_plain_lines_and_a_terminal_the_table_where_it_is_known(folder):
    start, settings = launcher(2)
    command = [*start, sys.executable, "-m", "tdt", "train", "small.yaml", "train.shards=2"]
    log = folder / "log"
    with log.open("w") as file:  # Open MPI's processes have a terminal even so
        subprocess.run(command, cwd=folder, env=environment(**settings), stdout=file, timeout=LONGEST, check=True)
    assert "\x1b" not in log.read_text() and "\nepoch 2/2  train loss" in log.read_text()
    with Terminal(command, cwd=folder, environment=environment(TERM="xterm", **settings), width=60) as terminal:
        assert terminal.exit_code() == 0
        assert ("----- train ------" in terminal.text) == IS_OPEN_MPI  # MPICH's have a pipe
        assert "2 processes" in terminal.text
