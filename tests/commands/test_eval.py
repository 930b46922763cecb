"""`tdt eval` needs a checkpoint and nothing else, and scores it as the run did: to the bit."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdt import cli
from tdt.train._printable import number
from tdt.train.runs import checkpoint
from tests.commands.running import SMALL, tdt, tdt_here
from tests.helpers import require


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """The folder of a run."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "small.yaml").write_text(SMALL)
    done = tdt_here("train", "small.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "small" / "1"


def logged(run: Path, event: str) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == event]


def test_the_loss_is_that_of_the_validation_that_chose_it_to_the_bit(run, tmp_path):
    alone = tmp_path / "elsewhere"
    alone.mkdir()
    shutil.copy(run / "checkpoints" / "best.safetensors", alone)
    done = tdt("eval", "best.safetensors", "--json", "--output", "p.csv", cwd=alone)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    [chosen] = [e for e in logged(run, "Validated") if e["step"] == result["step"]]
    assert result["which"] == "best" and result["samples"] == 288
    assert result["hex"]["loss"] == float(chosen["valid/loss"]).hex() == result["loss"].hex()
    assert result["accuracy"] == chosen["valid/accuracy"]
    with open(alone / "p.csv") as file:
        rows = list(csv.DictReader(file))
    hits = sum(row["target"] == row["prediction"] for row in rows)
    assert len(rows) == 288 and hits / 288 == chosen["valid/accuracy"]


def test_it_works_from_elsewhere_without_the_runs_config(run, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(run, copied)
    (copied / "config.yaml").unlink()
    done = tdt_here("eval", copied, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path, scores = done.stdout.splitlines()
    assert path.startswith(str(copied / "checkpoints" / "best.safetensors"))
    [best] = [e for e in logged(run, "Validated") if e["valid/accuracy"] == max(
        e["valid/accuracy"] for e in logged(run, "Validated"))][:1]  # fmt: skip
    assert scores == f"valid loss {number(best['valid/loss'])} accuracy {number(best['valid/accuracy'])}"


def test_the_test_score_is_that_of_the_run(run):
    done = tdt_here("eval", "small", "--split", "test", "--json", cwd=run.parents[2])
    [tested] = logged(run, "TestDone")
    assert json.loads(done.stdout)["loss"] == tested["test/loss"]


def test_the_predictions_are_those_of_a_model_that_was_validated(run, tmp_path):
    from tdt.train.config import loads
    from tdt.train.loop.build import build
    from tdt.train.loop.evaluation import evaluate
    from tdt.train.loop.state import load_model

    tensors, meta = checkpoint.load(run / "checkpoints" / "best.safetensors")
    parts = build(loads(meta["config"]))
    load_model(parts, tensors)
    pairs: list[Any] = []
    evaluate(parts, "valid", lambda _, *pair: pairs.append(pair))
    expected = [label for output, _ in pairs for label in output.argmax(1).tolist()]
    tdt_here("eval", run, "--output", tmp_path / "p.csv", cwd=tmp_path)
    with open(tmp_path / "p.csv") as file:
        assert [int(row["prediction"]) for row in csv.DictReader(file)] == expected


def test_the_scores_are_shown_though_the_predictions_cannot_be_written(run, tmp_path):
    done = tdt_here("eval", run, "--output", tmp_path / "none" / "p.csv", cwd=tmp_path)
    assert done.returncode == 1 and "valid loss" in done.stdout
    assert done.stderr == f"error: {tmp_path}/none/p.csv: No such file or directory\n"


def test_the_training_split_is_read_whole_and_in_order(run):
    done = tdt_here("eval", "small/1", "--split", "train", "--json", cwd=run.parents[2])
    assert json.loads(done.stdout)["samples"] == 1149


def test_a_split_that_is_not_there_exits_with_2(run):
    done = tdt_here("eval", "small", "--split", "tset", cwd=run.parents[2])
    assert done.returncode == 2 and "there is no split 'tset'; the config has train, valid, test" in done.stderr


def test_a_run_without_validation_is_scored_by_the_command_that_it_proposes(tmp_path):
    (tmp_path / "small.yaml").write_text(SMALL)
    done = tdt_here("train", "small.yaml", "data.valid=null", cwd=tmp_path)
    proposed = re.search(r"to evaluate: tdt (.*)", done.stdout)
    assert proposed is not None, done.stderr
    scored = tdt_here(*proposed[1].split(), cwd=tmp_path)
    assert scored.returncode == 0 and scored.stdout.splitlines()[1].startswith("test loss "), scored.stderr


def rewritten(run: Path, path: Path, **facts: Any) -> None:
    """A checkpoint with right checksums and these facts; None leaves one out."""
    tensors, meta = checkpoint.load(run / "checkpoints" / "best.safetensors")
    if facts.pop("shrunk", False):
        tensors["model/1.weight"] = tensors["model/1.weight"][:5]
    checkpoint.save(path, tensors, {k: v for k, v in (meta | facts).items() if v is not None})


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"config": None}, "not the checkpoint of a run: config missing"),
        ({"threads": "many"}, "not the checkpoint of a run: threads missing or of the wrong type"),
        ({"threads": -1}, "not the checkpoint of a run: threads missing"),
        ({"shrunk": True}, "its state does not fit its config: .*size mismatch for 1.weight"),
    ],
)
def test_a_checkpoint_that_no_run_has_written_exits_with_1(run, tmp_path, facts: dict[str, Any], message: str):
    rewritten(run, tmp_path / "x.safetensors", **facts)
    done = tdt_here("eval", "x.safetensors", cwd=tmp_path)
    assert done.returncode == 1
    assert re.match(f"error: x.safetensors: {message}", done.stderr, re.DOTALL)


def test_a_run_does_not_resume_from_what_no_run_has_written(run, tmp_path):
    copied = tmp_path / "copied"
    shutil.copytree(run, copied)
    path = copied / "checkpoints" / "last.safetensors"
    for facts, message in (
        ({"optimizer": None}, "its state lacks 'optimizer'; another version of tdt wrote it"),
        ({"step": []}, "step mi"),
    ):
        path.unlink()
        rewritten(run, path, epoch=1, over=False, **facts)
        done = tdt_here("train", "--resume", copied, cwd=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: {path}: ") and message in done.stderr


def test_a_folder_is_no_checkpoint_file(tmp_path):
    (tmp_path / "x.safetensors").mkdir()
    done = tdt_here("eval", "x.safetensors", cwd=tmp_path)
    assert done.returncode == 2 and "x.safetensors: is a folder; a checkpoint is a file" in done.stderr


def test_a_damaged_checkpoint_exits_with_1(run, tmp_path):
    data = bytearray((run / "checkpoints" / "best.safetensors").read_bytes())
    data[-5] ^= 1
    (tmp_path / "x.safetensors").write_bytes(data)
    done = tdt_here("eval", "x.safetensors", cwd=tmp_path)
    assert done.returncode == 1 and "damaged" in done.stderr


def test_a_loss_with_weights_is_scored_with_them(tmp_path):
    weighted = SMALL.replace("CrossEntropyLoss", "CrossEntropyLoss(weight=[9, 1, 1, 1, 1, 1, 1, 1, 1, 0.5])")
    (tmp_path / "small.yaml").write_text(weighted)
    assert tdt_here("train", "small.yaml", cwd=tmp_path).returncode == 0
    done = tdt_here("eval", "small", "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    scores = {e["step"]: e["valid/loss"] for e in logged(tmp_path / "runs" / "small" / "1", "Validated")}
    assert result["loss"] == scores[result["step"]]


@pytest.fixture
def scored(run, tmp_path, monkeypatch, capsys) -> Any:
    """What `tdt eval RUN ...` prints and returns in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, of: Path = run) -> tuple[int, str, str]:
        capsys.readouterr()
        return cli.run(["eval", str(of), *arguments]), *capsys.readouterr()

    return call


def read_predictions(file: str) -> tuple[list[int], list[int]]:
    with open(file) as opened:
        rows = list(csv.DictReader(opened))
    return [int(row["target"]) for row in rows], [int(row["prediction"]) for row in rows]


def test_confusion_and_classes_are_scikit_learns(scored):
    metrics = require("sklearn.metrics")
    code, out, _ = scored("--split", "test", "--confusion", "--per-class", "--json", "--output", "p.csv")
    result, (targets, predictions) = json.loads(out), read_predictions("p.csv")
    assert code == 0 and result["classes"] == [str(digit) for digit in range(10)]
    assert result["confusion"] == metrics.confusion_matrix(targets, predictions).tolist()
    expected = metrics.precision_recall_fscore_support(targets, predictions, zero_division=0)
    for name, *scores in zip(result["classes"], *expected, strict=True):
        assert list(result["per_class"][name].values()) == pytest.approx(scores, rel=1e-14)


def test_predictions_are_written_by_the_names_of_classes(tmp_path):
    from tdt.commands.eval import _write
    from tdt.train.loop.evaluation import Evaluation

    def scored(targets: list[Any], predictions: list[Any], classes: list[str]) -> Evaluation:
        about: dict[str, Any] = {
            "path": Path("best.safetensors"),
            "step": 1,
            "epoch": 1,
            "split": "valid",
            "scores": {},
        }
        return Evaluation(**about, targets=targets, predictions=predictions, classes=classes, ignored=-100)

    _write(f"{tmp_path}/c.csv", scored([1, -100, 0], [0, 1, 0], ["a, b", "ü"]))
    assert (tmp_path / "c.csv").read_text() == 'index,target,prediction\n0,ü,"a, b"\n1,-100,ü\n2,"a, b","a, b"\n'
    _write(f"{tmp_path}/n.tsv", scored([[0.5], [1.0]], [[0.25], [2.0]], []))
    assert (tmp_path / "n.tsv").read_text() == "index\ttarget\tprediction\n0\t0.5\t0.25\n1\t1.0\t2.0\n"


def test_tables_are_shown(scored):
    _, out, _ = scored("--confusion", "--per-class")
    scores, classes, confusion = out.split("\n\n")
    assert scores.splitlines()[1].startswith("valid loss")
    assert classes.splitlines()[0].split() == ["class", "precision", "recall", "f1", "samples"]
    assert sum(int(line.split()[-1]) for line in classes.splitlines()[1:]) == 288
    rows = [list(map(int, line.split()))[1:] for line in confusion.splitlines()[2:]]
    assert np.array(rows).shape == (10, 10) and np.sum(rows) == 288


def test_other_data_are_scored_as_a_split_of_their_own(scored):
    whole = json.loads(scored("--split", "train", "--json")[1])
    for arguments in (["--data", "Digits(split=train)"], ["data.test=Digits(split=train)", "--split", "test"]):
        code, out, _ = scored(*arguments, "--json")
        assert code == 0 and json.loads(out) == whole | {"split": "test"}


def test_other_metrics_may_be_requested(scored):
    code, out, _ = scored("metrics=[f1,auroc,'top_k(k=3)']", "--json")
    result = json.loads(out)
    assert code == 0 and {"loss", "f1", "auroc", "top_k"} <= set(result) and "accuracy" not in result
    assert 0 < result["f1"] < result["top_k"] <= 1


def test_what_the_training_watched_need_not_be_measured(scored, capsys):
    watching = SMALL.replace(
        "{epochs: 2}", "{epochs: 20, early_stopping: {patience: 1, metric: valid/accuracy}}\n"
        "scheduler: {type: ReduceLROnPlateau, monitor: valid/accuracy, mode: max}\ncheckpoint: {best: valid/accuracy}"
    )  # fmt: skip
    Path("watching.yaml").write_text(watching)
    assert cli.run(["train", "watching.yaml", "train.epochs=1"]) == 0
    code, out, err = scored("metrics=[f1]", "--json", of=Path("runs/small/1"))
    assert (code, err) == (0, "") and json.loads(out)["f1"] > 0 and "accuracy" not in json.loads(out)


def test_the_size_of_batches_changes_no_prediction(scored):
    first = json.loads(scored("--json", "--output", "a.csv")[1])
    second = json.loads(scored("--json", "--output", "b.csv", "--batch-size", "7")[1])
    assert read_predictions("a.csv") == read_predictions("b.csv")
    assert second["loss"] == pytest.approx(first["loss"], rel=1e-6) and second["accuracy"] == first["accuracy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["optimizer.lr=1"], "optimizer.lr=1: has no effect in an evaluation, which reads data, loss and metrics"),
        (["--data", "Digitz"], "error: command line: data.test: no dataset is called 'Digitz'; did you mean 'Digits'?"),
        (["metrics=[f2]"], "no metric is called 'f2'"),
        (["metrics=[confusion_matrix]"], "is a table, not a number to log; tdt eval --confusion shows it"),
        (["metrics=['f1(average=binary)']"], "expected one of 'micro', 'macro', 'weighted', got 'binary'"),
    ],
)
def test_what_cannot_be_scored_exits_with_2(scored, arguments: list[str], message: str):
    code, out, err = scored(*arguments)
    assert (code, out) == (2, "") and message in err


def test_predictions_that_cannot_be_written_leave_the_old_ones(scored, monkeypatch):
    import os

    scored("--output", "p.csv")
    before = Path("p.csv").read_bytes()
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    code, _, err = scored("--split", "test", "--output", "p.csv")
    assert (code, err) == (1, "error: p.csv: No space left on device\n")
    assert Path("p.csv").read_bytes() == before and os.listdir() == ["p.csv"]


MANY = """\
name: many
device: cpu
data: {train: "NPZ('many.npz')", valid: "NPZ('many.npz')"}
model: ["Linear(4, 3)"]
loss: BCEWithLogitsLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""


def test_a_column_that_a_file_lacks_is_filled_in_if_the_config_sets_that(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("w,c,y\n" + "".join(f"{i},{'ab'[i % 2]},{i % 2}\n" for i in range(20)))
    Path("new.csv").write_text("c,y\na,0\nnew,1\n")
    Path("a.yaml").write_text(
        "data: {train: {type: Table, path: a.csv, target: y}}\nmodel: LazyLinear(2)\nloss: CrossEntropyLoss\n"
        "metrics: [accuracy]\noptimizer: SGD(lr=0.1)\ntrain: {epochs: 1}\n"
    )
    assert cli.run(["train", "a.yaml"]) == 0
    assert cli.run(["eval", "a", "--data", "new.csv"]) == 2
    message = (
        "--data: Table: new.csv: has no column 'w'; it has c, y. A model that was trained with missing_column: fill"
    )
    assert message in capsys.readouterr().err
    assert cli.run(["eval", "a", "--data", "new.csv", "data.train.missing_column=fill", "--json"]) == 0
    printed = capsys.readouterr()
    assert "--data: column w is missing in 2 rows; means or zeros are in its place" in printed.err.splitlines()
    assert json.loads(printed.out)["notes"] == [
        "in 1 row, c is a category that no training row has, encoded as zeros: 'new'",
        "column w is missing in 2 rows; means or zeros are in its place",
    ]


def test_each_of_several_labels_has_its_row(tmp_path, monkeypatch, capsys):
    metrics = require("sklearn.metrics")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (50, 3)).astype(np.float32)
    np.savez("many.npz", x=rng.normal(size=(50, 4)).astype(np.float32), y=labels)
    Path("many.yaml").write_text(MANY)
    assert cli.run(["train", "many.yaml"]) == 0
    capsys.readouterr()
    assert cli.run(["eval", "many", "--confusion", "--per-class", "--json", "--output", "p.csv"]) == 0
    result = json.loads(capsys.readouterr().out)
    with open("p.csv") as file:
        predictions = np.array([json.loads(row["prediction"]) for row in csv.DictReader(file)])
    assert result["confusion"] == metrics.multilabel_confusion_matrix(labels, predictions).tolist()
    expected = metrics.precision_recall_fscore_support(labels, predictions, zero_division=0)
    for name, *scores in zip(result["classes"], *expected, strict=True):
        assert list(result["per_class"][name].values()) == pytest.approx(scores, rel=1e-14)
    assert cli.run(["eval", "many", "--confusion"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-4:]]
    assert rows[0][:3] == ["class", "true", "no"] and [sum(map(int, row[1:])) for row in rows[1:]] == [50] * 3
