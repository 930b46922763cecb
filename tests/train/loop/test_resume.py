"""A run that is killed anywhere and resumed ends as the run that was not: to the bit, and in its logs."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tdt import get_num_threads, set_num_threads
from tdt.train.runs import checkpoint
from tests.commands import running
from tests.commands.running import tdt_here

pytestmark = pytest.mark.budget("resume")

# Augmentation, dropout and shuffling, so that each generator matters; momentum, moments and a schedule, so that the
# optimizer's state does. 9 steps an epoch, checkpoints after steps 7, 14, 21 and where an epoch is the best.
CONFIG = """
name: small
seed: 3
device: cpu
data:
  train: Digits(split=train)
  valid: Digits(split=valid)
  test: Digits(split=test)
  transform: [ToTensor, "Normalize(0.5, 0.5)"]
  augment: ["RandomCrop(8, padding=1)"]
  loader: {batch_size: 128, num_workers: %d}
  eval_loader: {num_workers: 0}
model: ["Conv2d(1, 4, 3, stride=2)", BatchNorm2d(4), ReLU, Flatten, Dropout(0.3), LazyLinear(10)]
loss: CrossEntropyLoss
metrics: [accuracy, f1, auroc]
optimizer: {type: Adam, lr: 1e-2, param_groups: [{params: "*.bias", lr: 2e-2}]}
scheduler: {type: OneCycleLR, max_lr: [1e-2, 2e-2], total_steps: 27, interval: step}
train: {epochs: 3, clip_grad_norm: 1.0}
checkpoint: {every: 7 steps, keep: 2, best: valid/accuracy}
log: {every: 4 steps}
"""
WITH_WORKERS = ("train.step:3", "train.step:12", "validate:5")
# Point at which a signal comes → (exit code, the step that the run resumes from). A test has 3 batches too.
STOPS = {
    "train.step:12:SIGINT": (130, 12),
    "train.step:27:SIGTERM": (143, 27),  # in the step before the last validation: that has one batch
    "validate:1:SIGTERM": (143, 9),
    "validate:5:SIGINT": (130, 18),
    "validate:9:SIGINT": (130, 27),  # the last batch of the last validation
    "validate:11:SIGTERM": (143, 27),  # in the test
}
# Fault point → whether there was a checkpoint to go on from. Validation has 3 batches an epoch.
FAULTS = {
    "train.step:3": False,  # before the first checkpoint
    "train.step:12": True,  # in the middle of the second epoch
    "train.step:27": True,  # after the last step, before its validation
    "checkpoint.write:1": False,
    "checkpoint.write:3": True,
    "checkpoint.renamed:1": True,  # on the disk, and neither best nor last point to it
    "checkpoint.renamed:3": True,
    "validate:5": True,
}


def tdt(
    *arguments: str | Path, fault: str | None = None, largest: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own. largest: no file may grow beyond so many bytes."""
    return running.tdt(*arguments, cwd=Path.cwd(), largest=largest, **({"TDT_FAULT": fault} if fault else {}))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """What runs in this process begins on one thread, as `tdt` does in its own."""
    before = get_num_threads()
    set_num_threads(1)
    yield
    set_num_threads(before)


def result(folder: Path) -> dict[str, Any]:
    """All in which two equal runs are equal."""
    found: dict[str, Any] = {}
    for name in ("last", "best"):
        tensors, meta = checkpoint.load(folder / "checkpoints" / f"{name}.safetensors")
        found[name] = {key: (array.dtype.name, array.shape, array.tobytes()) for key, array in tensors.items()}
        found[name, "meta"] = {key: value for key, value in meta.items() if key != "logs"}
        found[name, "rows"] = rows(folder / "checkpoints" / "rows", meta["metrics"], name == "last")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    found["metrics"] = [{k: v for k, v in line.items() if not k.startswith("time/")} for line in lines]
    logs = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    tags = [tag for tag in logs.Tags()["scalars"] if not tag.startswith("time/")]
    found["tensorboard"] = {tag: [(e.step, e.value) for e in logs.Scalars(tag)] for tag in tags}
    return found


def rows(folder: Path, metrics: dict[str, Any], there: bool) -> dict[str, Any]:
    """What metrics have of each sample, whatever files it is shared out to: their names are taken out of `metrics`.

    there: whether the run goes on from these, else they may be gone.
    """
    found: dict[str, Any] = {}
    for name, state in metrics.items():
        parts = state.pop("parts", [])
        for part in parts if there else ():
            for key, array in checkpoint.load(folder / f"{part:08d}.safetensors")[0].items():
                if key.startswith(f"{name}/"):
                    found[key] = found.get(key, b"") + array.tobytes()
    return found


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Any:
    """For each number of workers the config's file and the result of an uninterrupted run."""
    results: dict[int, tuple[Path, dict[str, Any]]] = {}

    def get(workers: int) -> tuple[Path, dict[str, Any]]:
        if workers not in results:
            folder = tmp_path_factory.mktemp("uninterrupted")
            config = folder / "small.yaml"
            config.write_text(CONFIG % workers)
            done = tdt("train", config, "--run-dir", folder / "run")
            assert done.returncode == 0, done.stderr
            results[workers] = config, result(folder / "run")
        return results[workers]

    return get


@pytest.mark.parametrize(
    ("workers", "fault"), [*((0, fault) for fault in FAULTS), *((2, fault) for fault in WITH_WORKERS)]
)
def test_a_killed_run_resumed_ends_as_if_it_had_not_been_killed(uninterrupted, tmp_path, workers: int, fault: str):
    config, expected = uninterrupted(workers)
    run = tmp_path / "run"
    killed = tdt("train", config, "--run-dir", run, fault=fault)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = tdt_here("train", "--resume", run, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    began = re.search(r"from step (\d+)", resumed.stdout)
    assert (began is not None and int(began[1]) > 0) == FAULTS[fault], resumed.stdout
    assert_equal(result(run), expected)


@pytest.mark.parametrize(
    ("workers", "stop"), [*((0, stop) for stop in STOPS), (2, "train.step:12:SIGINT"), (2, "validate:5:SIGINT")]
)
def test_a_run_stopped_by_a_signal_and_resumed_ends_as_if_it_had_not_been_stopped(
    uninterrupted, tmp_path, workers: int, stop: str
):
    config, expected = uninterrupted(workers)
    run = tmp_path / "run"
    stopped = tdt("train", config, "--run-dir", run, fault=stop)
    code, step = STOPS[stop]
    assert (stopped.returncode, stopped.stderr) == (code, "")
    assert stopped.stdout.splitlines()[-1].endswith(f"to resume: tdt train --resume {run}")
    assert "test loss" not in stopped.stdout
    resumed = tdt_here("train", "--resume", run, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert f"from step {step}\n" in resumed.stdout
    tested_alone = stop.startswith("validate:11")
    assert ("epoch 3/3" in resumed.stdout) is not tested_alone and "test loss" in resumed.stdout
    assert_equal(result(run), expected)


def test_a_validation_that_is_stopped_again_and_again_ends_the_same(uninterrupted, tmp_path):
    config, expected = uninterrupted(0)
    run = tmp_path / "run"
    tdt("train", config, "--run-dir", run, fault="validate:8:SIGINT")
    for batch in (1, 2):
        assert tdt("train", "--resume", run, fault=f"validate:{batch}:SIGINT").returncode == 130
    assert tdt("train", "--resume", run, fault="validate:4:SIGINT").returncode == 130
    assert tdt("train", "--resume", run).returncode == 0
    assert_equal(result(run), expected)


def test_a_checkpoint_on_a_full_disk_leaves_earlier_ones_and_the_run_can_resume(uninterrupted, tmp_path):
    config, expected = uninterrupted(0)
    run = tmp_path / "run"
    tdt("train", config, "--run-dir", run, fault="train.step:12")
    before = {path.name: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()}
    full = tdt("train", "--resume", run, largest=10_000)  # more than the logs take, less than a checkpoint
    assert full.returncode == 1 and len(full.stderr.splitlines()) == 1
    message = rf"{run}/checkpoints/rows/00000014.safetensors: could not write \d+,\d+ bytes: File too large; "
    assert re.match("error: " + message + "earlier checkpoints are intact", full.stderr)
    assert {path.name: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()} == before
    assert tdt("train", "--resume", run).returncode == 0
    assert_equal(result(run), expected)


@pytest.fixture(scope="module")
def killed(uninterrupted, tmp_path_factory) -> Path:
    """A run that was killed at step 15; its last checkpoint is of step 14, in the second epoch."""
    config, _ = uninterrupted(0)
    run = tmp_path_factory.mktemp("killed") / "run"
    assert tdt("train", config, "--run-dir", run, fault="train.step:15").returncode == -signal.SIGKILL
    return run


@pytest.mark.parametrize("largest", [300, 30])  # for the events' and the metrics' first lines; for neither
def test_a_log_on_a_full_disk_is_reported_in_one_line(uninterrupted, killed, tmp_path, largest: int):
    _, expected = uninterrupted(0)
    run = tmp_path / "run"
    shutil.copytree(killed, run)
    full = tdt("train", "--resume", run, largest=largest)
    assert full.returncode == 1
    assert re.fullmatch(
        rf"error: {run}/[\w.]+: (metrics|event file) could not be written: File too large.*\n", full.stderr
    )
    assert tdt("train", "--resume", run).returncode == 0
    assert_equal(result(run), expected)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"epoch": -1}, "not the checkpoint of a run: epoch missing or of the wrong type"),
        ({"logs": {"../other/events.out.tfevents.1": 3}}, "not the checkpoint of a run: logs"),
        ({"logs": {"..": 3}}, "not the checkpoint of a run: logs"),
        ({"logs": {"events\0": 3}}, "not the checkpoint of a run: logs"),
        ({"best": "x"}, "not the checkpoint of a run: best missing or of the wrong type"),
        (
            {"step": 6},
            "its state does not fit its config: step 6 is not in epoch 2 of 3 with 9 steps each; has the data changed?",
        ),
        ({"step": 19}, "its state does not fit its config: step 19 is not in epoch 2"),
        ({"step": 28, "epoch": 3}, "its state does not fit its config: step 28 is not in epoch 4"),
    ],
)
def test_a_forged_checkpoint_is_refused_and_no_other_file_is_touched(killed, tmp_path, facts, message):
    run, other = tmp_path / "run", tmp_path / "other" / "events.out.tfevents.1"
    shutil.copytree(killed, run)
    other.parent.mkdir()
    other.write_text("somebody else's")
    last = run / "checkpoints" / "last.safetensors"
    tensors, meta = checkpoint.load(last)
    checkpoint.save(last, tensors, meta | facts)  # with checksums that are right
    done = tdt_here("train", "--resume", run, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.startswith(f"error: {last}: {message}"), done.stderr
    assert other.read_text() == "somebody else's"


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal, or the first difference by name."""
    for part in expected:
        if isinstance(expected[part], dict):
            assert found[part].keys() == expected[part].keys()
            different = [key for key in expected[part] if found[part][key] != expected[part][key]]
            assert not different, f"{part}: {different}"
        else:
            assert found[part] == expected[part], part


def test_two_runs_of_one_config_are_equal(uninterrupted, tmp_path):
    config, expected = uninterrupted(0)
    assert tdt_here("train", config, "--run-dir", tmp_path / "run", cwd=tmp_path).returncode == 0
    assert_equal(result(tmp_path / "run"), expected)


def test_a_checkpoint_holds_every_generator_and_the_whole_optimizer(uninterrupted):
    _, expected = uninterrupted(0)
    names = set(expected["last"])
    assert {"rng/default", "rng/data", "rng/augment", "optimizer/exp_avg/0.weight", "model/1.running_var"} <= names


def test_a_run_killed_many_times_ends_the_same(uninterrupted, tmp_path):
    config, expected = uninterrupted(0)
    run = tmp_path / "run"
    tdt("train", config, "--run-dir", run, fault="train.step:10")
    for _ in range(2):
        assert tdt("train", "--resume", run, fault="train.step:8").returncode == -signal.SIGKILL
    assert tdt("train", "--resume", run).returncode == 0
    assert_equal(result(run), expected)


def test_resuming_a_finished_run_reports_it_and_changes_nothing(uninterrupted, tmp_path):
    config, expected = uninterrupted(0)
    assert tdt_here("train", config, "--runs-root", tmp_path, cwd=tmp_path).returncode == 0
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "small" / "1").rglob("*") if path.is_file()}
    again = tdt_here("train", "--resume", "small", "--runs-root", tmp_path, cwd=tmp_path)
    assert again.returncode == 0 and "complete" in again.stdout
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "small" / "1").rglob("*") if path.is_file()}
    assert {k: v for k, v in after.items() if k != "run.lock"} == {k: v for k, v in before.items() if k != "run.lock"}
