"""`tdt predict` and `tdt eval` of every kind of output: labels, several tasks, pixels, positions, numbers; and their files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tdt.cli import run
from tdt.train.loop.evaluation import evaluate_checkpoint

X = np.random.default_rng(0).normal(size=(24, 1, 4, 4)).astype(np.float32)
CONFIG = """\
name: run
device: cpu
data:
  train: "NPZ('data.npz')"
  valid: "NPZ('data.npz')"
  loader: {{batch_size: 12}}
model: {model}
loss: {loss}
optimizer: Adam(lr=0.01)
train: {{epochs: 1}}
"""
NPZ_DATA = "\"NPZ('data.npz')\""
KINDS: dict[str, tuple[Any, str, str]] = {
    "labels": ((X.mean(3) > 0)[:, 0].astype(np.float32), '[Flatten, "Linear(16, 4)"]', "BCEWithLogitsLoss"),
    "pixels": ((X[:, 0] > 0).astype(np.int64), '["Conv2d(1, 3, 1)"]', "CrossEntropyLoss"),
    "binary": ((X > 0).astype(np.float32), '["Conv2d(1, 1, 1)"]', "BCEWithLogitsLoss"),
    "sequence": ((X[:, 0, 0] > 0).astype(np.int64), '["Flatten(2)", "Conv1d(1, 3, 4, stride=4)"]', "CrossEntropyLoss"),
    "numbers": (X[:, 0, 0, :2], '[Flatten, "Linear(16, 2)"]', "MSELoss"),
    "image": (X, '["Conv2d(1, 1, 1)"]', "{type: MSELoss, target: input}"),
}


@pytest.fixture
def predicted(tmp_path, monkeypatch, capsys) -> Any:
    """Train on `KINDS[kind]` in an empty folder; returns what a command prints: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def train(kind: str) -> Any:
        target, model, loss = KINDS[kind]
        np.savez("data.npz", x=X, y=target)
        Path("run.yaml").write_text(CONFIG.format(model=model, loss=loss))
        assert run(["train", "run.yaml"]) == 0
        return call

    def call(command: str, *arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run([command, "run", *arguments])
        return code, *capsys.readouterr()

    return train


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_each_label_has_its_probability_and_the_threshold(predicted):
    call = predicted("labels")
    code, out, _ = call("predict", "data.npz", "--json", "--output", "a.npz")
    found, scored = lines(out), evaluate_checkpoint("runs/run/1/checkpoints/last.safetensors")
    assert code == 0 and len(found) == 24
    assert [[int(label in one["labels"]) for label in "0123"] for one in found] == scored.predictions
    assert all(
        (one["probabilities"][label] > one["threshold"]) == (label in one["labels"])
        for one in found
        for label in "0123"
    )
    stored = np.load("a.npz")
    assert stored["labels"].tolist() == list("0123") and stored["threshold"] == 0.5
    assert stored["probabilities"].tolist() == [list(one["probabilities"].values()) for one in found]
    _, out, _ = call("predict", "data.npz", "--output", "-")
    rows = list(csv.DictReader(out.splitlines()))
    assert (
        rows[3]["labels"] == ", ".join(found[3]["labels"])
        and float(rows[3]["probability_0"]) == found[3]["probabilities"]["0"]
    )
    assert call("predict", "data.npz")[1].splitlines()[1].split() == ["input", "labels", "threshold"]


@pytest.mark.parametrize(("kind", "names"), [("pixels", ["0", "1", "2"]), ("binary", ["no", "yes"])])
def test_the_class_of_each_pixel_is_written_as_a_mask_and_counted(predicted, kind: str, names: list[str]):
    call = predicted(kind)
    code, out, _ = call("predict", "data.npz", "--json", "--output", "masks/")
    found, scored = lines(out), evaluate_checkpoint("runs/run/1/checkpoints/last.safetensors")
    assert code == 0 and len(list(Path("masks").iterdir())) == 24
    expected = np.array(scored.predictions).reshape(24, 4, 4)
    for number, one in enumerate(found):
        mask = np.asarray(Image.open(f"masks/data[{number}].png"))
        assert np.array_equal(mask, expected[number])
        assert one["pixels"] == {name: int((mask == i).sum()) for i, name in enumerate(names)}
    call("predict", "data.npz", "--output", "a.npz")
    assert np.array_equal(np.load("a.npz")["mask"], expected)
    call("predict", "data.npz", "--output", "a.tsv")
    with open("a.tsv") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [int(row[f"pixels_{names[1]}"]) for row in rows] == [int((mask == 1).sum()) for mask in expected]


def test_a_sequence_has_a_class_at_each_position(predicted):
    call = predicted("sequence")
    found = lines(call("predict", "data.npz", "--json")[1])
    scored = evaluate_checkpoint("runs/run/1/checkpoints/last.safetensors")
    assert [list(map(int, one["classes"])) for one in found] == scored.predictions
    assert all(len(one["probabilities"]) == 4 and min(one["probabilities"]) > 1 / 3 for one in found)
    for output, message in (("masks/", "masks: this model predicts no mask"), ("a.xls", "a.xls: its ending says no")):
        code, _, err = call("predict", "data.npz", "--output", output)
        assert code == 2 and message in err


def test_numbers_are_written_in_every_format(predicted):
    call = predicted("numbers")
    call("predict", "data.npz", "--output", "a.jsonl")
    call("predict", "data.npz", "--output", "a.npz")
    _, out, _ = call("predict", "data.npz", "--output", "-")
    values = [one["values"] for one in lines(Path("a.jsonl").read_text())]
    assert (
        values
        == np.load("a.npz")["values"].tolist()
        == evaluate_checkpoint("runs/run/1/checkpoints/last.safetensors").predictions
    )
    assert [[float(row["output_0"]), float(row["output_1"])] for row in csv.DictReader(out.splitlines())] == values


def test_an_evaluation_writes_csv_alone_to_stdout_and_its_scores_to_stderr(predicted):
    call = predicted("numbers")
    code, out, err = call("eval", "--output", "-")
    rows, scored = (
        list(csv.DictReader(out.splitlines())),
        evaluate_checkpoint("runs/run/1/checkpoints/last.safetensors"),
    )
    assert code == 0 and "valid loss" in err
    assert [json.loads(row["prediction"]) for row in rows] == scored.predictions
    code, out, err = call("eval", "--per-class")
    assert (code, out) == (2, "")
    assert "--per-class, --confusion: the model predicts numbers, not classes; metrics=[mae,r2] scores numbers" in err


def test_an_image_of_numbers_keeps_its_shape(predicted):
    call = predicted("image")
    _, out, _ = call("predict", "data.npz", "--json", "--output", "a.npz")
    assert np.load("a.npz")["values"].shape == X.shape and lines(out)[0]["shape"] == [1, 4, 4]
    assert call("predict", "data.npz")[1].splitlines()[1].split() == ["input", "shape", "mean", "min", "max"]


TASKS = """\
name: run
device: cpu
data:
  train: {type: NPZ, path: data.npz, y: [kind, marks, size]}
  loader: {batch_size: 12}
model:
  graph:
    body: {layer: [Flatten, "Linear(16, 8)", ReLU], from: input}
    kind: {layer: "Linear(8, 3)", from: body}
    marks: {layer: "Linear(8, 2)", from: body}
    size: {layer: "Linear(8, 1)", from: body}
  outputs: [kind, marks, size]
loss:
  kind_loss: {type: CrossEntropyLoss, input: output/kind, target: target/kind}
  marks_loss: {type: BCEWithLogitsLoss, input: output/marks, target: target/marks}
  size_loss: {type: MSELoss, input: output/size, target: target/size}
optimizer: Adam(lr=0.01)
train: {epochs: 1}
"""


def test_every_task_is_predicted_and_scored_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    marks = (X[:, 0, 0, :2] > 0).astype(np.float32)
    np.savez("data.npz", x=X, kind=np.arange(24) % 3, marks=marks, size=X[:, 0, 0, :1])
    Path("run.yaml").write_text(TASKS)
    assert run(["train", "run.yaml"]) == 0
    capsys.readouterr()
    assert run(["predict", "run", "data.npz", "--json", "--output", "a.csv"]) == 0
    found = [one["tasks"] for one in lines(capsys.readouterr().out)]
    result = evaluate_checkpoint("runs/run/1/checkpoints/last.safetensors")
    assert list(found[0]) == list(result.tasks) == ["kind_loss", "marks_loss", "size_loss"]
    assert (
        [int(one["kind_loss"]["class"]) for one in found] == result.tasks["kind_loss"].predictions == result.predictions
    )
    assert [[int(m in one["marks_loss"]["labels"]) for m in "01"] for one in found] == result.tasks[
        "marks_loss"
    ].predictions
    assert [one["size_loss"]["values"] for one in found] == result.tasks["size_loss"].predictions
    with open("a.csv") as file:
        head = next(csv.reader(file))
    assert (
        head[:4] == ["input", "kind_loss_class", "kind_loss_probability", "marks_loss_labels"]
        and head[-1] == "size_loss_value"
    )
    assert run(["eval", "run", "--per-class", "--json", "--data", "data.npz", "--output", "e.csv"]) == 0
    scores = json.loads(capsys.readouterr().out)["per_class"]
    assert {name: [row["support"] for row in rows.values()] for name, rows in scores.items()} == {
        "kind_loss": [8, 8, 8],
        "marks_loss": marks.sum(0).astype(int).tolist(),
    }
    with open("e.csv") as file:
        assert [int(row["kind_loss_target"]) for row in csv.DictReader(file)] == result.targets
    assert run(["eval", "run", "--per-class"]) == 0
    assert [part.splitlines()[0] for part in capsys.readouterr().out.split("\n\n")[1:]] == ["kind_loss", "marks_loss"]


def test_a_table_of_ones_own_is_scored_with_the_classes_of_the_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{'ab'[i % 2]},{('cat', 'dog')[i % 2]}" for i in range(20)]
    Path("pets.csv").write_text("\n".join(["size,letter,kind", *rows]))
    Path("dogs.csv").write_text("kind,letter,size,remark\ndog,b,3,x\ndog,b,5,y\n")
    Path("run.yaml").write_text(
        CONFIG.format(model='["LazyLinear(2)"]', loss="CrossEntropyLoss").replace(
            NPZ_DATA, "\"Table('pets.csv', kind, split=train, valid=0.2)\""
        )
    )
    assert run(["train", "run.yaml"]) == 0
    capsys.readouterr()
    assert run(["eval", "run", "--data", "dogs.csv", "--json", "--per-class"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["samples"] == 2 and result["split"] == "test"
    assert [row["support"] for row in result["per_class"].values()] == [0, 2]
    Path("cows.csv").write_text("kind,letter,size\ncow,b,3\n")
    assert run(["eval", "run", "--data", "cows.csv"]) == 2
    assert "kind is 'cow', which does not occur in the training rows" in capsys.readouterr().err


def test_a_folder_of_ones_own_is_scored_with_the_classes_of_the_training(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for place in ("train/cat", "train/dog", "new/dog", "other/cow"):
        Path(place).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (4, 4), (60 * number,) * 3).save(Path(place) / f"{number}.png")
    config = CONFIG.format(model='[Flatten, "Linear(48, 2)"]', loss="CrossEntropyLoss")
    config = config.replace(NPZ_DATA, "ImageFolder(train)").replace("  loader", "  transform: [ToTensor]\n  loader")
    Path("run.yaml").write_text(config)
    assert run(["train", "run.yaml"]) == 0
    capsys.readouterr()
    assert run(["eval", "run", "--data", "new", "--json", "--per-class"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {name: row["support"] for name, row in result["per_class"].items()} == {"cat": 0, "dog": 4}
    assert run(["eval", "run", "--data", "other"]) == 2
    assert "has a class 'cow', which the training data lack" in capsys.readouterr().err


def test_a_folder_and_a_table_are_predicted_as_they_are_read(predicted, tmp_path):
    from itertools import islice

    from tdt.train.loop.prediction import Predictor

    predicted("numbers")
    predictor, taken = Predictor("runs/run/1/checkpoints/last.safetensors", batch_size=2), []

    def rows() -> Any:
        for number in range(10**9):
            taken.append(number)
            yield str(number), X[0]

    assert [one.name for one in islice(predictor.predict(rows()), 3)] == ["0", "1", "2"]
    assert len(taken) == 4


def test_an_input_is_never_the_output(predicted, tmp_path):
    call = predicted("numbers")
    before = Path("data.npz").read_bytes()
    for arguments in (("predict", "data.npz", "--output", "data.npz"), ("predict", "data.npz", "--output", ".")):
        code, _, err = call(*arguments)
        assert code == 2 and "an" in err and "input" in err and "another" in err, err
    Path("rows.csv").symlink_to("data.npz")
    code, _, err = call("eval", "--split", "train", "--output", "rows.csv")
    assert code == 2 and "rows.csv: is an input, and would be replaced" in err
    assert Path("data.npz").read_bytes() == before and Path("rows.csv").is_symlink()
