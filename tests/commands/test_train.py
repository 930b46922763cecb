"""`tdt train` as users run it: what it prints, how it stops, how it resumes."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tdt.train.runs import checkpoint
from tests.commands.fork_server import Fork
from tests.commands.running import COMMAND, SMALL, environment, tdt, tdt_here

ENDLESS = ("train.epochs=100000", "checkpoint.every=100000 steps", "checkpoint.best=null", "data.valid=null")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with small.yaml."""
    (tmp_path / "small.yaml").write_text(SMALL)
    return tmp_path


def test_what_a_run_shows_without_a_terminal(work):
    done = tdt("train", "small.yaml", cwd=work)
    assert (done.returncode, done.stderr) == (0, "")
    number = r"\d\.\d{4}"
    expected = [
        r"run     runs/small/1",
        r"device  cpu, 1 thread",
        r"model   650 parameters",
        r"data    train 1,149, valid 288, test 360 samples",
        r"length  2 epochs, 18 steps, 128 samples a step",
        rf"epoch 1/2  train loss {number} accuracy {number}  valid loss {number} accuracy {number}  \d+\.\d\d s  best",
        rf"epoch 2/2  train loss {number} accuracy {number}  valid loss {number} accuracy {number}  \d+\.\d\d s(  best)?",
        rf"test loss {number} accuracy {number}  \(best weights, epoch [12]\)",
        r"checkpoints: runs/small/1/checkpoints \(best, last\)",
        r"to evaluate: tdt eval small/1",
        r"logs: tensorboard --logdir runs",
    ]
    lines = done.stdout.splitlines()
    assert len(lines) == len(expected)
    assert all(re.fullmatch(pattern, line) for pattern, line in zip(expected, lines, strict=True)), done.stdout
    assert "\x1b" not in done.stdout


def test_a_small_loss_is_not_shown_as_nothing(work):
    wider_model = "model=[Flatten, 'Linear(64, 256)', ReLU, 'Linear(256, 10)']"
    shown = tdt_here(
        "train", "small.yaml", wider_model, "train.epochs=100", "train.overfit=1", cwd=work
    ).stdout.splitlines()[-5]
    match = re.search(r"train loss (\S+) ", shown)
    assert match is not None and 0 < float(match[1]) < 1e-3 and len(match[1]) > 6, shown


def test_the_plain_console_does_not_load_rich(work):
    code = "import sys; from tdt.cli import run; run(sys.argv[1:]); print('rich' in sys.modules)"
    done = subprocess.run(
        [COMMAND[0], "-c", code, "train", "small.yaml"], capture_output=True, text=True, cwd=work, env=environment()
    )
    assert done.stdout.splitlines()[-1] == "False"


@pytest.fixture
def start(work: Path) -> Iterator[Callable[..., Fork]]:
    """Starts `tdt train` with these arguments in `work`; what is left of the processes is killed after the test.

    stdout: a descriptor, a pipe by default; env: environment variables besides those of `environment`.
    """
    with ExitStack() as stack:

        def begin(*arguments: str, env: dict[str, str] | None = None, stdout: int | None = None) -> Fork:
            process = Fork(["train", *arguments], cwd=work, env=environment(**env or {}), stdout=stdout)
            stack.enter_context(process)
            return process

        yield begin


@pytest.fixture
def started(start: Callable[..., Fork]) -> Callable[..., Fork]:
    """As `start`, and returns when the run has begun to train."""

    def begin(*arguments: str) -> Fork:
        process = start(*arguments)
        while line := process.stdout.readline():
            if line.startswith(b"epoch"):
                return process
        raise AssertionError(process.stderr.read())

    return begin


def last(work: Path) -> dict[str, Any]:
    return checkpoint.load(work / "runs" / "small" / "1" / "checkpoints" / "last.safetensors")[1]


def test_a_signal_lets_the_step_finish_saves_and_prints_how_to_resume(work, started):
    step = 0
    resume = ["--resume", "small/1"]
    for number, arguments in (
        (signal.SIGINT, ["small.yaml", *ENDLESS]), (signal.SIGTERM, resume), (signal.SIGHUP, resume)
    ):  # fmt: skip
        process = started(*arguments)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number, err
        assert out.splitlines()[-1] == f"stopped by {number.name}; to resume: tdt train --resume small/1"
        assert "Traceback" not in err
        assert last(work)["step"] > step
        step = last(work)["step"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_loaders_workers_too_stops_the_run_as_one_to_it_alone(work, started, number: signal.Signals):
    process = started("small.yaml", *ENDLESS, "data.loader.num_workers=2")
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + number, "")
    step = last(work)["step"]
    process = started("--resume", "small")
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + number, "")
    assert last(work)["step"] > step


@pytest.mark.parametrize("point", ["train.step", "validate"])
def test_a_second_signal_stops_at_once(work, start, point: str):
    process = start("small.yaml", env={"TDT_FAULT": f"{point}:2:SIGINT+SIGTERM"})
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert not (work / "runs" / "small" / "1" / "checkpoints").exists()


def test_a_signal_before_training_stops_too(work):
    with subprocess.Popen([*COMMAND, "train", "small.yaml"], cwd=work, env=environment()) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (143, -signal.SIGTERM)


def test_a_reader_that_goes_away_does_not_stop_the_training(work, start):
    ours, theirs = os.pipe()
    process = start("small.yaml", "-v", stdout=theirs)
    os.close(theirs)
    os.close(ours)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "") and last(work)["epoch"] == 2


@pytest.mark.parametrize("where", [">&-", ">&- 2>&- <&-", "> /dev/full"])
def test_closed_output_streams_do_not_stop_the_training(work, where: str):
    done = subprocess.run(
        ["sh", "-c", f'"$@" {where}', "sh", *COMMAND, "train", "small.yaml", "-v"], cwd=work, env=environment(),
        stderr=subprocess.PIPE, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"") and last(work)["epoch"] == 2


def test_a_terminal_that_is_closed_does_not_stop_the_training(work, start):
    ours, theirs = pty.openpty()
    process = start("small.yaml", "train.epochs=40", stdout=theirs, env={"TERM": "xterm"})
    os.close(theirs)
    assert b"small/1" in os.read(ours, 1 << 16)
    os.close(ours)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, "") and last(work)["epoch"] == 40


def test_commands_that_are_proposed_are_quoted_for_the_shell(work):
    done = tdt_here("train", "small.yaml", "--runs-root", "my runs", cwd=work)
    proposed = re.findall(r"tdt eval .*", done.stdout)
    again = tdt_here("train", "--resume", "small", "--runs-root", "my runs", cwd=work)
    proposed += re.findall(r"is complete; to evaluate it: (tdt eval .*)", again.stdout)
    done = tdt_here("train", "small.yaml", "--run-dir", "my run", cwd=work)
    proposed += re.findall(r"tdt eval .*", done.stdout)
    assert proposed == [*["tdt eval small/1 --runs-root 'my runs'"] * 2, "tdt eval 'my run'"]
    assert all(tdt_here(*shlex.split(command)[1:], cwd=work).returncode == 0 for command in proposed)


def test_a_loss_that_is_not_finite_exits_with_3_and_names_the_samples(work):
    deep = "model=[Flatten, 'Linear(64, 16)', ReLU, 'Linear(16, 10)']"
    done = tdt_here("train", "small.yaml", deep, "optimizer=SGD(lr=1e30)", "checkpoint.every=1 step", cwd=work)
    assert done.returncode == 3
    found = re.search(
        r"the loss became (nan|inf) at step (\d+), on the training samples \[([\d, ]+) and 118 more\]", done.stderr
    )
    assert found and len(found[3].split(",")) == 10
    assert "kept: runs/small/1/checkpoints/last.safetensors" in done.stderr
    assert last(work)["step"] == int(found[2]) - 1


def test_run_dir_and_runs_root_set_the_folder(work):
    assert tdt_here("train", "small.yaml", "--run-dir", "here", cwd=work).returncode == 0
    done = tdt_here("train", "small.yaml", "--runs-root", "there", cwd=work)
    assert "tdt eval small/1 --runs-root there" in done.stdout
    assert (work / "here" / "metrics.jsonl").exists() and (work / "there" / "small" / "1" / "metrics.jsonl").exists()
    again = tdt_here("train", "small.yaml", "--run-dir", "here", cwd=work)
    assert again.returncode == 2 and "not empty" in again.stderr


def test_a_run_has_the_same_bits_for_any_number_of_threads(work):
    wider_model = "model=[Flatten, 'Linear(64, 1500)', ReLU, 'Linear(1500, 1111)', ReLU, 'Linear(1111, 10)']"
    found = []
    for threads in "13":
        done = tdt("train", "small.yaml", wider_model, "--run-dir", threads, cwd=work, OMP_NUM_THREADS=threads)
        assert done.returncode == 0, done.stderr
        tensors, meta = checkpoint.load(work / threads / "checkpoints" / "last.safetensors")
        assert meta["threads"] == int(threads)
        found.append({name: array.tobytes() for name, array in tensors.items()})
    assert found[0] == found[1]


def test_a_config_may_lie_anywhere_and_be_called_anything(work):
    config = work / "con fig ü" / "größe 1.yaml"
    config.parent.mkdir()
    config.write_text(SMALL.replace("name: small\n", ""))
    done = tdt_here("train", config, cwd=work)
    assert done.returncode == 0 and "to evaluate: tdt eval 'größe-1/1'" in done.stdout
    assert tdt_here("eval", "größe-1/1", cwd=work).returncode == 0


def test_two_runs_at_once_have_a_folder_each_but_not_the_same_one(work, start):
    def both(*arguments: str) -> list[tuple[int, str]]:
        processes = [start("small.yaml", *arguments) for _ in "12"]
        errors = [process.communicate(timeout=60)[1] for process in processes]
        return sorted((process.returncode, text) for process, text in zip(processes, errors, strict=True))

    assert both() == [(0, ""), (0, "")]
    assert sorted(path.name for path in (work / "runs" / "small").iterdir()) == ["1", "2"]
    (_, quiet), (code, text) = both("--run-dir", "here")
    assert quiet == "" and code == 2 and re.search("here (is not empty|already holds a run|is being trained)", text)


def test_a_damaged_checkpoint_names_the_one_to_resume_from(work):
    assert tdt("train", "small.yaml", cwd=work, TDT_FAULT="train.step:18").returncode == -signal.SIGKILL
    assert tdt("train", "--resume", "small", cwd=work, TDT_FAULT="checkpoint.renamed:1").returncode == -signal.SIGKILL
    folder = work / "runs" / "small" / "1" / "checkpoints"
    (folder / "last.safetensors").unlink()
    (folder / "step-00000018.safetensors").write_bytes(b"torn")
    done = tdt_here("train", "--resume", "small", cwd=work)
    first, second = done.stderr.splitlines()
    torn = "runs/small/1/checkpoints/step-00000018.safetensors"
    assert done.returncode == 1 and first.startswith(f"error: {torn}: damaged or not a checkpoint")
    assert second == f"to resume from the previous checkpoint, of step 9, remove {torn}"
    (work / torn).unlink()
    again = tdt_here("train", "--resume", "small", cwd=work)
    assert again.returncode == 0 and "from step 9\n" in again.stdout


def test_the_run_folder_records_what_was_run(work):
    tdt("train", "small.yaml", "optimizer.lr=0.003", cwd=work)
    run = work / "runs" / "small" / "1"
    assert "lr=0.003" in (run / "config.yaml").read_text().replace(": ", "=")
    assert json.loads((run / "env.json").read_text())["command"].endswith("train small.yaml optimizer.lr=0.003")


def test_a_run_that_is_being_trained_cannot_be_resumed(work, started):
    process = started("small.yaml", *ENDLESS)
    done = tdt("train", "--resume", "small/1", cwd=work)
    assert process.poll() is None and done.returncode == 2 and "is being trained" in done.stderr


def test_other_values_for_a_resumed_run_are_refused_with_a_command_that_takes_them(work):
    assert tdt_here("train", "small.yaml", cwd=work).returncode == 0
    changes = ["train.epochs=3", "optimizer.lr=0.5", "model=[Flatten, 'Linear(64, 10)']"]
    done = tdt_here("train", "--resume", "small", *changes, cwd=work)
    assert done.returncode == 2
    assert (
        "optimizer.lr=0.5: cannot change on resume: its state was accumulated with the old value; model=" in done.stderr
    )
    assert "train.epochs=3:" not in done.stderr and "may change device, train.epochs, " in done.stderr
    command = re.search(r"with these values: tdt (train .*)", done.stderr)
    assert command is not None
    again = tdt_here(*shlex.split(command[1]), cwd=work)
    assert again.returncode == 0, again.stderr
    assert "length  3 epochs" in again.stdout
    weights = json.loads((work / "runs" / "small" / "2" / "env.json").read_text())["weights"]
    assert weights["taken"] == ["1.bias", "1.weight"]


def test_a_finished_run_resumes_for_more_epochs_and_reports_what_changed(work):
    assert tdt_here("train", "small.yaml", cwd=work).returncode == 0
    done = tdt_here("train", "--resume", "small", "train.epochs=3", "checkpoint.keep=1", cwd=work)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["train.epochs: 2 → 3", "checkpoint.keep: 3 → 1"]
    assert "run     runs/small/1, from step 18\n" in done.stdout and "length  3 epochs, 27 steps" in done.stdout
    less = tdt_here("train", "--resume", "small", "train.epochs=1", cwd=work)
    assert less.returncode == 2 and "the run has already trained 27 steps, but would end after 9" in less.stderr


def test_weights_may_be_those_of_a_run_by_name_and_number(work):
    assert tdt_here("train", "small.yaml", cwd=work).returncode == 0
    done = tdt_here("train", "small.yaml", "weights.from=small/1", cwd=work)
    assert done.returncode == 0, done.stderr
    refused = tdt_here("train", "small.yaml", "weights.from=small/7", cwd=work)
    assert refused.returncode == 2 and "no run 'small/7'; did you mean 'small/2'?" in refused.stderr


def test_finetuning_starts_from_another_runs_features(work):
    assert tdt_here("train", "digits-cnn", "train.epochs=1", cwd=work).returncode == 0
    done = tdt_here("train", "digits-finetune", "train.epochs=2", "-v", cwd=work)
    assert done.returncode == 0, done.stderr
    table = [line.split() for line in done.stdout.splitlines()]
    groups = {row[0]: (row[2], row[3]) for row in table if row[3:] and row[3].startswith("lr=")}
    assert groups["features.conv1.weight"] == ("0", "lr=1e-05") and groups["classifier.0.bias"] == ("1", "lr=0.01")
    run = work / "runs" / "digits-finetune" / "1"
    weights = json.loads((run / "env.json").read_text())["weights"]
    source, _ = checkpoint.load(weights["checkpoint"])
    tuned, _ = checkpoint.load(run / "checkpoints" / "last.safetensors")
    assert weights["taken"] == [f"features.conv{n}.{p}" for n in (1, 2) for p in ("bias", "weight")]
    moved = abs(tuned["model/features.conv1.weight"] - source["model/features.conv1.weight"]).max()
    assert 0 < moved < 1e-3


def test_a_command_that_is_repeated_resumes_or_starts_the_run_of_its_folder(work):
    again = ("train", "small.yaml", "--run-dir", "here", "--resume-or-start")
    (work / "here").mkdir()
    (work / "here" / "run.lock").touch()  # killed before it had a config
    stopped = tdt_here(*again, "train.epochs=1", cwd=work)
    assert stopped.returncode == 0 and "epoch 1/1" in stopped.stdout
    resumed = tdt_here(*again, cwd=work)
    assert resumed.returncode == 0 and "epoch 2/2" in resumed.stdout and "epoch 1/2" not in resumed.stdout
    assert tdt_here("train", "small.yaml", cwd=work).returncode == 0
    files = [work / folder / "checkpoints" / "last.safetensors" for folder in ("here", "runs/small/1")]
    states = [checkpoint.load(path)[0] for path in files]
    assert states[0].keys() == states[1].keys()
    assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])
    before = files[0].read_bytes()
    assert tdt_here(*again, cwd=work).stdout == "this run is complete; to evaluate it: tdt eval here\n"
    refused = tdt_here(*again, "optimizer.lr=0.5", cwd=work)
    assert refused.returncode == 2 and "optimizer.lr=0.5: cannot change on resume" in refused.stderr
    assert files[0].read_bytes() == before


@pytest.mark.parametrize("wrong", [["small.yaml"], ["--resume", "small"]])
def test_resume_or_start_needs_a_config_and_a_folder(work, wrong: list[str]):
    done = tdt_here("train", *wrong, "--resume-or-start", cwd=work)
    assert done.returncode == 2 and "--resume-or-start needs CONFIG and --run-dir DIR" in done.stderr
    assert [path.name for path in work.iterdir()] == ["small.yaml"]
