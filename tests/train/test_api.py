"""Training from a program: `fit`, `evaluate` and runs as objects."""

from __future__ import annotations

import os
import signal
from typing import Any

import numpy as np
import pytest
import yaml

import tdt
from tdt.train import Run, api, evaluate, fit, list_runs
from tdt.train.config import ConfigError, imports, load, loads
from tdt.train.logging.events import Event, StepDone
from tdt.train.runs import checkpoint
from tdt.train.runs.run import RunError
from tests.commands.running import SMALL


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    return fit(SMALL, root=tmp_path_factory.mktemp("runs"), quiet=True)


def test_a_run_has_its_metrics_as_arrays(run):
    steps, values = run.metrics["valid/accuracy"]
    assert steps.tolist() == [9, 18] and values.dtype == np.float64
    assert (run.best.metric, run.best.value) == ("valid/accuracy", values.max())
    assert run.metrics["test/loss"].values.shape == (1,)
    assert (run.state, run.ended_by, run.step, [*run.checkpoints]) == ("done", "epochs", 18, [9, 18])
    assert run.config["optimizer"] == "Adam(lr=1e-2)" and run.config["train"]["epochs"] == 2
    assert repr(run) == f"Run({str(run.folder)!r}, done, step 18)"


def test_runs_are_found_by_folder_name_and_list(run):
    root = run.folder.parents[1]
    found = [Run(run.folder), Run("small", root), Run("small/1", root), *list_runs(root)]
    assert {one.folder for one in found} == {run.folder} and len(found) == 4
    with pytest.raises(RunError, match="no run 'smal'; did you mean"):
        Run("smal", root)


@pytest.mark.parametrize("form", ["dict", "path", "config"])
def test_every_form_of_a_config_trains_the_same_run(form, run, tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    config: Any = {"dict": yaml.safe_load(SMALL), "path": tmp_path / "small.yaml", "config": loads(SMALL)}[form]
    again = fit(config, run_dir=tmp_path / "run", quiet=True)
    assert again.metrics["valid/loss"].values.tolist() == run.metrics["valid/loss"].values.tolist()


def test_overrides_are_those_of_the_command_line(tmp_path):
    changed = {
        "train__epochs": np.int64(1),
        "optimizer.lr": 1e-5,
        "metrics": ("accuracy", "f1(average=macro)"),
        "seed": 3,
    }
    changed |= {
        "checkpoint": {"best": "valid/f1"},
        "log__config": False,
        "train__ema": None,
        "device": tdt.device("cpu"),
    }
    run = fit(SMALL, run_dir=tmp_path / "run", quiet=True, **changed)
    written = [
        "train.epochs=1",
        "optimizer.lr=0.00001",
        "metrics=[accuracy, f1(average=macro)]",
        "seed=3",
        "device=cpu",
    ]
    written += ["checkpoint={best: valid/f1}", "log.config=false", "train.ema=null"]
    assert loads((run.folder / "config.yaml").read_text()) == loads(SMALL, "small.yaml", written)
    with pytest.raises(ConfigError, match=r"train: epoch is unknown|train.epoch"):
        fit(SMALL, train__epoch=1)
    with pytest.raises(TypeError, match="a config holds numbers, texts, lists and dicts, got object"):
        fit(SMALL, seed=object())


def test_a_resumed_run_ends_as_one_that_was_not_stopped(run, tmp_path):
    short = fit(SMALL, run_dir=tmp_path / "run", train__epochs=1, quiet=True)
    long = fit(resume=short, train__epochs=2, quiet=True)
    assert long.folder == short.folder
    weights = [checkpoint.load(one.checkpoints[18])[0] for one in (run, long)]
    assert all(weights[0][name].tobytes() == weights[1][name].tobytes() for name in weights[0])
    assert fit(resume=long, quiet=True).step == 18  # nothing is left to do


def test_a_signal_ends_the_run_with_a_checkpoint_and_then_the_program(tmp_path, monkeypatch):
    def interrupt(event: Event) -> None:
        if isinstance(event, StepDone) and event.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(api, "Console", lambda out, parts: interrupt)
    with pytest.raises(KeyboardInterrupt, match="fit\\(resume="):
        fit(SMALL, run_dir=tmp_path / "run")
    assert Run(tmp_path / "run").state == "interrupted" and 3 in Run(tmp_path / "run").checkpoints


def test_progress_is_printed_unless_quiet(tmp_path, capsys):
    fit(SMALL, run_dir=tmp_path / "run", train__epochs=1)
    assert "epoch 1/1  train loss" in capsys.readouterr().out
    fit(resume=tmp_path / "run", train__epochs=2, quiet=True)
    assert not capsys.readouterr().out


@pytest.mark.parametrize("call", [{}, {"config": SMALL, "resume": "small"}, {"resume": "small", "run_dir": "x"}])
def test_a_config_or_a_run_to_resume_is_required(call):
    with pytest.raises(TypeError, match="fit: "):
        fit(**call)


def test_a_loaded_config_takes_no_overrides():
    with pytest.raises(TypeError, match="give them to config.load"):
        fit(load("digits-mlp"), seed=1)


def test_an_evaluation_has_the_scores_of_the_run_and_changes_no_global_state(run):
    state = tdt.get_rng_state(), np.random.get_state()[1].tolist()
    result = evaluate(run, "test")
    assert result.scores["accuracy"] == run.metrics["test/accuracy"].values[0]
    assert (tdt.get_rng_state() == state[0]).all() and np.random.get_state()[1].tolist() == state[1]
    assert evaluate(run.checkpoints[9], device="cpu", metrics=["accuracy", "f1"]).step == 9
    with pytest.raises(LookupError, match="no split 'tst'"):
        evaluate(run, "tst")


def test_a_run_with_imports_needs_trust(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "_allowed", False)
    (tmp_path / "my.py").write_text("from tdt import nn\nclass Own(nn.Linear):\n    pass\n")
    config = yaml.safe_load(SMALL) | {"imports": [str(tmp_path / "my.py")], "model": ["Flatten", "Own(64, 10)"]}
    config |= {"train": {"epochs": 1}}
    with pytest.raises(ConfigError, match=r"read it, then pass --trust \(in Python: trust=True\)"):
        fit(config, run_dir=tmp_path / "run")
    run = fit(config, run_dir=tmp_path / "run", trust=True, quiet=True)
    assert run.config["imports"][0]["file"] == str(tmp_path / "my.py")
    for call in (tdt.load_model, evaluate):
        with pytest.raises(ConfigError, match="trust=True"):
            call(run)
        call(run, trust=True)
    assert not imports.trusted()
