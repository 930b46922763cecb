"""Run folders: never two runs in one, never two trainers on one, found again by name or path."""

from __future__ import annotations

import errno
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.runs.run import RunError, RunFolder, find_checkpoint

ROOT = Path(__file__).parents[3]


def create(root: Path, name: str = "digits", **options) -> RunFolder:
    run = RunFolder.create(root, name, f"name: {name}\n", **options)
    run.close()
    return run


def test_a_folder_that_cannot_be_created_is_named(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(OSError, match="the run's folder could not be created") as caught:
        RunFolder.create(tmp_path / "runs", "digits", "")
    assert caught.value.filename == str(tmp_path / "runs" / "digits")


def test_a_run_that_could_not_be_created_leaves_none(tmp_path, monkeypatch):
    first = create(tmp_path)

    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        patched.setattr("builtins.open", full)
        with pytest.raises(OSError, match="the run could not be started: No space left") as caught:
            RunFolder.create(tmp_path, "digits", "")
    assert caught.value.filename == str(tmp_path / "digits" / "2")
    assert RunFolder.open("digits", tmp_path).folder == first.folder
    assert create(tmp_path).name == "digits/3"


def test_a_run_has_its_config_and_where_it_ran(tmp_path):
    with RunFolder.create(tmp_path, "digits", "name: ünï\n", extra={"device": "cpu"}) as run:
        assert run.folder == tmp_path / "digits" / "1"
        assert run.name == "digits/1"
        assert run.config_text() == "name: ünï\n"
    env = json.loads((run.folder / "env.json").read_text())
    assert env["versions"]["numpy"] == np.__version__
    assert env["versions"]["python"] == platform.python_version()
    assert env["device"] == "cpu"
    assert env["cpus"] >= 1
    assert env["command"]


def test_env_names_the_git_commit_and_none_outside_a_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    assert json.loads((create(tmp_path / "a").folder / "env.json").read_text())["git"] is None
    identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
    for command in (["init", "-q"], [*identity, "commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *command], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    env = json.loads((create(tmp_path / "b").folder / "env.json").read_text())
    assert env["git"] == {"commit": commit, "changed": False}


def test_numbers_count_up_from_the_highest(tmp_path):
    assert [create(tmp_path).folder.name for _ in range(3)] == ["1", "2", "3"]
    (tmp_path / "digits" / "11").mkdir()
    (tmp_path / "digits" / "notes").mkdir()
    assert create(tmp_path).folder.name == "12"


def test_runs_started_at_once_get_different_numbers(tmp_path):
    code = """
import sys
from tdt.train.runs.run import RunFolder
for _ in range(20):
    print(RunFolder.create(sys.argv[1], "digits", "").folder.name)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(3)]
    numbers = [int(line) for process in started for line in process.communicate()[0].split()]
    assert sorted(numbers) == list(range(1, 61))


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/b", "a\\b", "/tmp/x", "-x", ".hidden", "a b", "a\n", "a\0", "~", "$HOME", "x" * 101],
)
def test_a_name_that_is_no_plain_folder_name_is_refused(tmp_path, name):
    root = tmp_path / "runs"
    with pytest.raises(RunError, match="not a plain folder name"):
        RunFolder.create(root, name, "")
    assert not root.exists()


@pytest.mark.parametrize("name", ["digits-cnn", "größe", "v1.2+lr=1e-3", "_"])
def test_a_plain_name_is_used(tmp_path, name):
    assert create(tmp_path, name).folder == tmp_path / name / "1"


def test_an_explicit_folder_is_used_as_it_is_and_never_twice(tmp_path):
    folder = tmp_path / "deep" / "here"
    run = create(tmp_path / "runs", folder=folder)
    assert run.folder == folder
    assert not (tmp_path / "runs").exists()
    config = run.config_text()
    with pytest.raises(RunError, match="not empty, and a run never overwrites"):
        RunFolder.create(tmp_path, "other", "name: other\n", folder=folder)
    assert run.config_text() == config


def test_an_explicit_folder_may_exist_but_not_hold_anything(tmp_path):
    (tmp_path / "empty").mkdir()
    assert create(tmp_path, folder=tmp_path / "empty").folder == tmp_path / "empty"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    with pytest.raises(RunError, match="not empty"):
        RunFolder.create(tmp_path, "x", "", folder=tmp_path / "full")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.tex"]


def test_a_run_is_found_by_path_by_name_and_by_number(tmp_path, monkeypatch):
    for _ in range(10):
        create(tmp_path / "runs")
    (tmp_path / "runs" / "digits" / "11").mkdir()  # no run: made and left empty
    newest = tmp_path / "runs" / "digits" / "10"
    monkeypatch.chdir(tmp_path)
    for where in (newest, "runs/digits/10", "runs/digits", "digits", "digits/10"):
        assert RunFolder.open(where).folder.resolve() == newest
    assert RunFolder.open("digits/2").folder.resolve() == tmp_path / "runs" / "digits" / "2"
    (newest / "config.yaml").unlink()
    (newest / "checkpoints").mkdir()  # each has the config too
    assert RunFolder.open("digits").folder.resolve() == newest


def test_a_folder_of_data_called_like_a_run_does_not_hide_it(tmp_path, monkeypatch):
    run = create(tmp_path / "runs")
    (tmp_path / "digits" / "0").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert RunFolder.open("digits").folder.resolve() == run.folder


def test_a_run_that_is_not_there_gets_the_nearest(tmp_path):
    with pytest.raises(RunError, match="no run 'x'; .* has no runs"):
        RunFolder.open("x", tmp_path)
    create(tmp_path, "digits-cnn")
    create(tmp_path, "digits-mlp")
    with pytest.raises(RunError, match="no run 'digit-cn'; did you mean 'digits-cnn'?"):
        RunFolder.open("digit-cn", tmp_path)
    with pytest.raises(RunError, match="did you mean 'digits-mlp/1'"):
        RunFolder.open("digits-mlp/7", tmp_path)
    (tmp_path / "digits-mlp/8").mkdir()
    with pytest.raises(RunError, match="digits-mlp/8 is not a run: it has neither"):
        RunFolder.open("digits-mlp/8", tmp_path)
    with pytest.raises(RunError, match="has digits-cnn, digits-mlp"):
        RunFolder.open("zzz", tmp_path)


def test_runs_without_a_checkpoint_are_distinguished(tmp_path):
    first, _ = create(tmp_path, "digits"), create(tmp_path, "digits")
    with pytest.raises(CheckpointError, match="2 has no checkpoint: the run has not reached its first$"):
        find_checkpoint("digits", tmp_path)
    log = tmp_path / "digits" / "2" / "metrics.jsonl"
    for text, expected in (
        (
            '{"event": "StepDone", "step": 1}\n',
            "the run has not reached its first, or its checkpoints have been removed",
        ),
        ('{"event": "RunStopped", "reason": "done"}\n', "the run is done, and its checkpoints have been removed"),
    ):
        log.write_text(text)
        with pytest.raises(CheckpointError, match=f"2 has no checkpoint: {expected}$"):
            find_checkpoint("digits", tmp_path)
    first.checkpoints().save(1, {"x": np.ones(1)}, {"step": 1})
    with pytest.raises(CheckpointError, match="2 has no checkpoint: .*; digits/1 has one$"):
        find_checkpoint("digits", tmp_path)
    (tmp_path / "c.yaml").touch()
    with pytest.raises(CheckpointError, match="c.yaml: is a config; give a run of it"):
        find_checkpoint(tmp_path / "c.yaml")


def test_a_run_being_trained_is_refused_until_it_ends(tmp_path):
    with RunFolder.create(tmp_path, "digits", "") as run:
        with pytest.raises(RunError, match=f"is being trained by process {os.getpid()} on .*stop it first"):
            RunFolder.open(run.folder).lock()
        assert RunFolder.open(run.folder).config_text() == ""  # reading needs no lock
    RunFolder.open(run.folder).lock().close()


HOLD = """
import os, sys, time
from tdt.train.runs.run import RunFolder
run = RunFolder.open(sys.argv[1]).lock()
if os.fork() == 0:
    print(os.getpid(), flush=True)  # by the worker: so it has run what a fork runs first
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_killed_trainers_lock_is_free_even_while_its_worker_lives(tmp_path):
    run = create(tmp_path)
    trainer = subprocess.Popen([sys.executable, "-c", HOLD, str(run.folder)], stdout=subprocess.PIPE, cwd=ROOT)
    worker = int(trainer.stdout.readline())
    try:
        with pytest.raises(RunError, match=f"by process {trainer.pid} on"):
            run.lock()
        trainer.send_signal(signal.SIGKILL)
        trainer.wait()
        trainer.stdout.close()
        os.kill(worker, 0)  # still there
        run.lock().close()
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_checkpoint_is_found_by_file_or_as_the_best_else_the_last_of_a_run(tmp_path):
    run = create(tmp_path)
    with pytest.raises(CheckpointError, match="has no checkpoint"):
        find_checkpoint("digits", tmp_path)
    store = run.checkpoints(keep=2)
    first = store.save(1, {}, {})
    assert find_checkpoint("digits", tmp_path).name == "last.safetensors"
    store.save(2, {}, {}, best=True)
    assert find_checkpoint(run.folder).name == "best.safetensors"
    assert find_checkpoint(first) == first
    with pytest.raises(CheckpointError, match="no such checkpoint file"):
        find_checkpoint(run.folder / "checkpoints" / "gone.safetensors")
    with pytest.raises(RunError, match="did you mean 'digits'"):
        find_checkpoint("digit", tmp_path)
