"""Losses of classes that do not fit their labels, outputs or last layer: what the config says, and the message."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from tdt import cli
from tdt.train.config import ConfigError, bundled, load, loads
from tdt.train.loop.build import build

TEXT = """\
data:
  train: {{type: NPZ, path: a.npz, {data}}}
model: {model}
loss: {loss}
optimizer: SGD(lr=0.1)
train: {{epochs: 2}}
"""
LINEAR = '"Linear(4, 3)"'
SCORES = "CrossEntropyLoss takes scores, and applies log-softmax itself; remove "
RANGE = "but the model has 3 outputs, for the labels 0 to 2; "


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    y, x = np.arange(30) % 3, np.random.default_rng(0).normal(size=(30, 4))
    np.savez(
        "a.npz", x=x, whole=np.arange(120).reshape(30, 4), image=np.zeros((30, 2, 2), np.uint8), y=y, column=y[:, None],
        floats=y[:, None] / 1.0, flat=y / 1.0, from_1=y + 1, one=y * 0, half=(y[:, None] > 0) / 1.0, zeros=y[:, None] * 0.0,
        high=np.where(np.arange(30) == 17, 7, y), low=np.where(np.arange(30) == 5, -1, y),
    )  # fmt: skip
    return tmp_path


def found(data: str, model: str, loss: str) -> list[str]:
    """The mistakes in a config, else its warnings."""
    text = TEXT.format(data=data, model=model, loss=loss)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return [str(problem) for problem in build(loads(text, "c.yaml")).warnings]
        except ConfigError as error:
            return error.messages


@pytest.mark.parametrize(
    ("model", "loss", "data", "advice"),
    [
        ("Softmax(1)", "CrossEntropyLoss", "y: y", SCORES + "Softmax"),
        ("LogSoftmax(1)", "CrossEntropyLoss", "y: y", SCORES + "LogSoftmax"),
        ("Sigmoid", "CrossEntropyLoss", "y: y", SCORES + "Sigmoid"),
        ("Softmax(1)", "NLLLoss", "y: y", "NLLLoss takes log-probabilities; replace Softmax by LogSoftmax(1)"),
        ("Linear(3, 3)", "NLLLoss", "y: y", "NLLLoss takes log-probabilities; end the model with LogSoftmax(1), or write loss: "
         "CrossEntropyLoss"),
        ("Linear(1, 1)", "BCELoss", "y: half", "BCELoss takes probabilities; end the model with Sigmoid, or write loss: "
         "BCEWithLogitsLoss"),
        ("Sigmoid", "BCEWithLogitsLoss", "y: half", "BCEWithLogitsLoss takes scores, and applies sigmoid itself; remove Sigmoid"),
    ],
)  # fmt: skip
def test_an_activation_that_the_loss_applies_itself_is_warned_about(model, loss, data, advice):
    outputs = 1 if data == "y: half" else 3
    assert found(data, f'["Linear(4, {outputs})", "{model}"]', loss) == [f"c.yaml:3:25: model.1: {advice}"]


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        ("y: y", '"Linear(4, 5)"', "c.yaml:3:8: model: Linear(in_features=4, out_features=5, bias=True) gives 5 scores, "
         "but NPZ has 3 classes; end the model with an output for each class"),
        ("y: one", LINEAR, "c.yaml:2:17: data.train: every sample has the label 0; a model learns nothing from a single class"),
        ("y: from_1", '"Linear(4, 4)"', "c.yaml:2:17: data.train: the labels are 1 to 3, so that output 0 of the model "
         "has no sample; labels begin at 0: save them as y - 1"),
        ("y: column", LINEAR, "c.yaml:4:7: loss: CrossEntropyLoss takes class labels, integers of shape (n,), but the targets of "
         "data.train are int64 (n, 1); save them as y.reshape(-1)"),
        ("y: floats", LINEAR, "c.yaml:4:7: loss: CrossEntropyLoss takes class labels, integers of shape (n,), but the targets of "
         "data.train are float32 (n, 1); save them as y.astype('int64').reshape(-1)"),
        ("y: flat", LINEAR, "c.yaml:4:7: loss: CrossEntropyLoss takes class labels, integers of shape (n,), but the targets of "
         "data.train are float32 (n,); save them as y.astype('int64')"),
        ("y: low", LINEAR, "c.yaml:2:17: data.train: low[5] of {}/a.npz has the label -1, " + RANGE +
         "to leave such samples out, set ignore_index: -1 in the loss"),
        ("y: high", LINEAR, "c.yaml:3:8: model: Linear(in_features=4, out_features=3, bias=True) gives 3 scores, but NPZ has 8 "
         "classes: high[17] of {}/a.npz has the label 7"),
        ("y: from_1", LINEAR, "c.yaml:3:8: model: Linear(in_features=4, out_features=3, bias=True) gives 3 scores, but NPZ has 4 "
         "classes: from_1[2] of {}/a.npz has the label 3; labels begin at 0: save them as y - 1"),
        ("y: y, x: whole", LINEAR, "c.yaml:3:8: model: expected m1 and m2 to have the same dtype, but got: long != float (the "
         "weight of linear); inputs are int64: put ToDtype into data.transform, which makes them floats; its input comes "
         "from the data"),
        ("y: y, x: image", '[Flatten, "Linear(4, 3)"]', "c.yaml:3:18: model.1: expected m1 and m2 to have the same dtype, but "
         "got: byte != float (the weight of linear); inputs are uint8: put ToDtype into data.transform, which makes them floats, "
         "or ConvertImageDtype, which scales them to 0..1; its input comes from 0 (Flatten(), line 3)"),
    ],
)  # fmt: skip
def test_labels_and_inputs_that_do_not_fit_are_reported_with_the_fix(data, model, message, work):
    assert found(data, model, "CrossEntropyLoss") == [message.replace("{}", str(work)) if "{}" in message else message]


def test_targets_of_another_shape_or_dtype_than_the_outputs_are_reported_with_the_fix():
    assert found("y: column", '"Linear(4, 1)"', "BCEWithLogitsLoss") == [
        "c.yaml:4:7: loss: BCEWithLogitsLoss compares floats, but the targets of data.train are int64; save them as "
        "y.astype('float32')"
    ]
    assert found("y: flat", '"Linear(4, 1)"', "MSELoss") == [
        "c.yaml:4:7: loss: outputs are of shape (n, 1), but the targets of data.train are float32 (n,); save them as "
        "y.reshape(-1, 1)"
    ]


@pytest.mark.parametrize("loss", ["BCEWithLogitsLoss", "BCELoss", "MSELoss", "SmoothL1Loss"])
@pytest.mark.parametrize("model", ['"Linear(4, 1)"', '["Linear(4, 1)", "Flatten(0)"]'])
def test_a_loss_of_numbers_on_classes_names_the_loss_of_classes(loss, model):
    (message,) = found("y: y", model, loss)
    compares, what = (
        ("0 and 1 as floats", "for a single output of 0 or 1") if loss[0] == "B" else ("numbers", "to predict numbers")
    )
    assert message == (
        f"c.yaml:4:7: loss: {loss} compares {compares}, but the targets of data.train are classes; write loss: CrossEntropyLoss "
        f"and end the model with an output for each class; or, {what}, let data.train return floats of shape (n, 1)"
    )


@pytest.mark.parametrize(
    ("classes", "end"),
    [
        ("cat dog", "for each class"),
        ("0 1", "for each class; or, for a single output of 0 or 1, set target_type: number"),
    ],
)
def test_a_table_of_classes_names_the_type_that_makes_them_numbers_if_they_are_some(classes, end):
    Path("t.csv").write_text("x,y\n" + "".join(f"{i / 7},{classes.split()[i % 2]}\n" for i in range(20)))
    text = TEXT.format(data="", model='"Linear(1, 1)"', loss="BCEWithLogitsLoss")
    with pytest.raises(ConfigError) as caught:
        build(
            loads(text.replace("NPZ, path: a.npz, ", "Table, path: t.csv, target: y, target_type: category"), "c.yaml")
        )
    assert str(caught.value).endswith(end)


def test_targets_of_a_binary_loss_that_are_all_the_same_are_warned_about():
    assert found("y: zeros", '"Linear(4, 1)"', "BCEWithLogitsLoss") == [
        "c.yaml:2:17: data.train: every sample has the label 0.0; a model learns nothing from a single class"
    ]


OWN = """
import tdt
from tdt.utils.data import Dataset


class Own(Dataset):
    def __init__(self, wrong=-1, names=False):
        self.wrong = wrong
        if names:
            self.sample_name = lambda i: f"file {i}.wav"

    def __len__(self):
        return 9

    def __getitem__(self, i):
        return tdt.ones(4), 3 if i == self.wrong else i % 3
"""


@pytest.mark.parametrize(
    ("train", "valid", "place"),
    [
        ("Own(wrong=6)", "Own", "c.yaml:3:10: data.train: sample 6 of data.train"),
        ("Own(wrong=6, names=true)", "Own", "c.yaml:3:10: data.train: file 6.wav"),
        ("Own", "Own(wrong=7)", "c.yaml:4:10: data.valid: sample 7 of data.valid"),
    ],
)
def test_a_label_out_of_range_that_is_found_while_samples_are_read_is_named(capsys, train, valid, place):
    Path("own.py").write_text(OWN)
    Path("c.yaml").write_text(
        f"imports: own.py\ndata:\n  train: {train}\n  valid: {valid}\n  loader: {{batch_size: 4, "
        f"num_workers: 1}}\nmodel: {LINEAR}\nloss: CrossEntropyLoss\noptimizer: SGD(lr=0.1)\ntrain: {{epochs: 1}}\n"
    )
    assert cli.run(["train", "c.yaml", "--trust"]) == 1
    assert (
        f"{place} has the label 3, {RANGE}end the model with 4 outputs, or mend the label\n" in capsys.readouterr().err
    )


@pytest.mark.parametrize("imported", ["Own(wrong=6)", "Own(wrong=6, names=true)"])
def test_a_label_out_of_range_in_a_dataset_of_the_user_ends_the_command_with_exit_code_2(capsys, imported):
    Path("own.py").write_text(OWN)
    text = TEXT.format(data="", model=LINEAR, loss="CrossEntropyLoss").replace("{type: NPZ, path: a.npz, }", imported)
    Path("c.yaml").write_text("imports: own.py\n" + text)
    assert cli.run(["train", "c.yaml", "--trust"]) == 2
    sample = "file 6.wav" if "names" in imported else "sample 6 of data.train"
    expected = (
        f"c.yaml:3:10: data.train: {sample} has the label 3, {RANGE}end the model with 4 outputs, or mend the label"
    )
    assert expected in capsys.readouterr().err


def test_ignored_labels_and_labels_that_fit_are_silent():
    assert found("y: low", LINEAR, "{type: CrossEntropyLoss, ignore_index: -1}") == []
    assert found("y: half", '"Linear(4, 1)"', "BCEWithLogitsLoss") == []
    assert found("y: from_1", '"Linear(4, 4)"', "{type: CrossEntropyLoss, ignore_index: 0}") == []


@pytest.mark.parametrize("name", sorted(bundled()))
def test_the_bundled_configs_have_no_warnings(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning, message=r".*\.yaml:")
        build(load(name), splits=())
