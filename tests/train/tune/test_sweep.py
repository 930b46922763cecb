"""Sweeps: what is refused before the first trial, how trials end, and processes that are killed."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tdt.train.config import ConfigError, loads
from tdt.train.runs import _heartbeat, _lock
from tdt.train.runs._lock import lock
from tdt.train.tune import sweep as sweep_module
from tdt.train.tune.candidates import check_sweep
from tests.commands.running import tdt, tdt_here
from tests.helpers import require
from tests.train.tune import killed_sweep

BASE = killed_sweep.CONFIG.partition("sweep:")[0]


def no_locks(file, shared=False):
    raise _lock._NoLocks


def write(folder, sweep: str):
    (folder / "c.yaml").write_text(BASE + sweep)
    return folder / "c.yaml"


def problems(path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check_sweep(str(path), [])
    return [str(problem).removeprefix(f"{path}:") for problem in sorted(caught.value.problems, key=lambda p: p.source)]


def test_every_mistake_in_a_sweep_is_reported_at_once_before_the_first_trial(tmp_path):
    path = write(
        tmp_path,
        """\
sweep:
  metric: valid/accuracy
  search:
    optimizer.lrr: log(1e-4, 1)
    optimizer.lr: [0.1, -1, abc]
    data.loader.batch_size: int(0, 64)
    modle: [1, 2]
    train.epochs: lgo(1, 2)
    sweep.trials: [1, 2]
  trials: 3
""",
    )
    assert problems(path) == [
        "16:5: optimizer.lrr: unknown argument of SGD; did you mean 'lr'?",
        "17:25: optimizer.lr: Invalid learning rate: -1",
        "17:29: optimizer.lr: expected float, got 'abc'",
        "18:29: data.loader.batch_size: must be at least 1, got 0",
        "19:5: modle: unknown key; did you mean 'model'?",
        "20:19: sweep.search.train.epochs: unknown range 'lgo'; did you mean 'log'?",
        "21:5: sweep.search.sweep.trials: a sweep cannot search its own settings",
    ]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("log(0, 1)", "a logarithmic scale begins above 0, got 0.0"),
        ("int(1.5, 3)", "expected integers, got '1.5'"),
        ("float(2, 1)", "the low end must be less than the high end, got 2.0 and 1.0"),
        ("float(0, 1, 2)", "the step must be more than 0 and at most 1.0, got 2.0"),
        ("log(1)", "expected log(low, high), got 1 numbers"),
        ("[]", "the list is empty; write the values to try"),
        ("[1, 1]", "1 is listed twice"),
        ("5", "expected log(1e-4, 1), float(0, 0.5), int(16, 128), logint(16, 1024) or a list of values, got 5"),
    ],
)
def test_a_range_with_a_mistake_is_explained(tmp_path, written, message):
    path = write(tmp_path, f"sweep:\n  metric: valid/loss\n  trials: 1\n  search:\n    optimizer.momentum: {written}\n")
    assert any(message in problem for problem in problems(path))


def test_a_sweep_has_an_end_and_a_metric_that_is_measured(tmp_path):
    path = write(tmp_path, "sweep:\n  metric: valid/accurcy\n  search:\n    optimizer.lr: [0.1, 0.2]\n")
    assert problems(path) == ["13:1: sweep: has no end; set trials, time or both"]
    path = write(tmp_path, "sweep:\n  metric: valid/accurcy\n  trials: 1\n  search:\n    optimizer.lr: [0.1, 0.2]\n")
    assert problems(path) == ["14:11: sweep.metric: no metric is called 'accurcy'; did you mean 'accuracy'?"]
    assert problems(write(tmp_path, "")) == [
        "1:1: sweep: is missing; tdt tune needs the metric to improve, the settings to search, and the number of trials"
    ]


def test_sizes_that_hardly_ever_fit_together_are_reported(tmp_path):
    search = "sweep: {metric: valid/loss, trials: 9, search: {model.1.out_features: %s, model.3.in_features: %s}}\n"
    message = "0 of 20 combinations of sweep.search fit; search a size that two layers share under a ${reference}"
    found = problems(write(tmp_path, search % ("'int(17, 99)'", "'logint(200, 999)'")))
    assert (
        len(found) == 1 and found[0].startswith("13:86: model.3.0: linear: input has 86") and found[0].endswith(message)
    )
    check_sweep(str(write(tmp_path, search % ("[16, 32]", "[16, 32]"))), [])
    check_sweep(str(write(tmp_path, search.replace(", model.3.in_features: %s", "") % "'int(8, 24, 8)'")), [])


def test_a_grid_needs_values_that_can_be_counted(tmp_path):
    search = (
        "{optimizer.lr: [0.1, 0.2], optimizer.momentum: 'float(0, 0.9)', optimizer.weight_decay: 'float(0, 0.3, 0.1)'}"
    )
    path = write(tmp_path, f"sweep: {{metric: valid/loss, sampler: grid, search: {search}}}\n")
    assert (
        len(problems(path)) == 1
        and "the sampler grid needs a list of values, or a range with a step" in problems(path)[0]
    )
    config = loads(path.read_text().replace("float(0, 0.9)", "float(0, 0.9, 0.3)"))
    assert sweep_module.grid_size(config.search) == 2 * 4 * 4


def test_a_run_ignores_the_sweep():
    text = killed_sweep.CONFIG
    assert loads(text) == loads(BASE)
    assert "sweep" not in yaml.safe_load(loads(text).resolved())


def test_without_optuna_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    done = tdt_here("tune", write(tmp_path, ""), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: tdt tune needs Optuna: pip install 'tdt-train[tune]'\n")


@pytest.mark.long
def test_a_trial_with_nan_or_a_crash_fails_alone(tmp_path):
    require("optuna")
    path = write(
        tmp_path,
        "sweep: {metric: valid/accuracy, sampler: grid, parallel: {cpus: 2}, search: {optimizer.lr: [0.1, 1e+38],"
        " model.1.out_features: [16, 17]}}\n",
    )
    done = tdt("tune", path, "train.epochs=1", "--json", cwd=tmp_path)
    facts = json.loads(done.stdout)
    ends = {tuple(trial["settings"].values()): (trial["state"], trial["error"]) for trial in facts["trials"]}
    events = b"".join(file.read_bytes() for file in (tmp_path / "runs/small-tune/1").glob("events.*"))
    assert b"optimizer.lr" in events and b"_hparams_/session_start_info" in events
    assert done.returncode == 0 and ends["0.1", "16"] == ("complete", None)
    assert ends["1e+38", "16"][0] == "fail" and "the loss became" in ends["1e+38", "16"][1]
    assert ends["0.1", "17"][0] == "fail" and "17" in ends["0.1", "17"][1]
    assert facts["best"] == 1 and "lr=0.1" in (tmp_path / "runs/small-tune/best.yaml").read_text()
    assert (tmp_path / "runs/small-tune/report.html").read_text().count("<tr>") == 2
    listed = tdt_here("runs", "list", "small-tune", cwd=tmp_path).stdout
    assert re.search(r"small-tune/1 +done", listed)
    other = tdt_here("tune", path, "train.epochs=2", cwd=tmp_path)
    assert other.returncode == 2 and "has a sweep whose config differs" in other.stderr


@pytest.mark.filterwarnings("ignore:this file system has no locks")
@pytest.mark.parametrize("locks", [True, False], ids=["locks", "no locks"])
def test_a_trial_is_taken_over_when_its_worker_has_died_and_its_run_is_not_trained(tmp_path, monkeypatch, locks):
    require("optuna")
    if not locks:
        monkeypatch.setattr(_lock, "_take", no_locks)
        monkeypatch.setattr(_heartbeat, "CHECK_AFTER", 0.0)
    config = loads(killed_sweep.CONFIG)
    first, second = (sweep_module.Sweep(tmp_path, config, minimize=False) for _ in range(2))
    claimed = first.claim({})
    assert claimed is not None and claimed.number == 1
    others = second.claim({})
    assert others is not None and others.number == 2  # the first is supervised
    claimed.release()  # as the end of its process does
    claimed.folder.mkdir()
    with lock(claimed.folder / "run.lock"):
        third = second.claim({2: None})
        assert third is not None and third.number == 3  # the first one's run goes on
    again = second.claim({2: None, 3: None})
    assert again is not None and (again.number, again.values) == (1, claimed.values)
    second.finish(again, "complete", 0.5)
    assert [trial.state.name for trial in first.trials()] == ["COMPLETE", "RUNNING", "RUNNING"]
    assert second.best().number == 0 and not second.finished


def test_random_trials_depend_on_the_seed_and_their_number_alone(tmp_path):
    require("optuna")
    config = loads(killed_sweep.CONFIG)
    drawn = []
    for folder in ("a", "b"):
        sweep = sweep_module.Sweep(tmp_path / folder, config, minimize=False)
        drawn.append([claimed.values for claimed in (sweep.claim({1: None, 2: None}) for _ in range(3)) if claimed])
    assert drawn[0] == drawn[1] and len({str(values) for values in drawn[0]}) == 3


@pytest.mark.long
def test_killed_workers_leave_no_trial_undone_or_done_twice_and_the_best_is_reproduced(tmp_path):
    require("optuna")
    counts = killed_sweep.sweep(tmp_path, trials=8, workers=4, kills=2, seed=0)
    assert counts["trials"] == 8 and counts["begun again"] + counts["resumed"] >= counts["killed runs"]
