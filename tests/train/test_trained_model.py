"""`tdt.load_model`: every kind of input gives what `tdt predict` gives for the same in a file."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt.train import evaluate, fit
from tdt.train.loop.prediction import Predictor
from tdt.train.runs.checkpoint import CheckpointError
from tdt.train.trained_model import TrainedModel
from tdt.vision.datasets import Digits
from tests.commands.running import SMALL
from tests.helpers import require

ROWS = [
    {"sepal_length": 5.1, "sepal_width": 3.5, "petal_length": 1.4, "petal_width": 0.2},
    {
        "sepal_length": np.float64(6.7),
        "sepal_width": "3.0",
        "petal_length": None,
        "petal_width": float("nan"),
        "extra": 1,
    },
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def digits(folder) -> TrainedModel:
    fit(SMALL, run_dir=folder / "small" / "1", quiet=True)
    return tdt.load_model("small", root=folder)


@pytest.fixture(scope="module")
def iris(folder) -> TrainedModel:
    return fit("iris-mlp", run_dir=folder / "iris" / "1", train__epochs=1, quiet=True).load_model()


def is_same(classes: tuple, expected: tuple) -> bool:
    """Whether the classes are the same, and so their probabilities but for the rounding of batches of other sizes."""
    return [(name, pytest.approx(p, rel=1e-6)) for name, p in expected] == list(classes)


def pixels(count: int) -> np.ndarray:
    return np.round(Digits("test").data[:count] * 255).astype(np.uint8)


def test_a_loaded_model_is_a_module_with_the_best_weights_in_eval_mode(digits, folder):
    assert isinstance(digits, tdt.nn.Module) and not digits.training and digits.step in (9, 18)
    scores = evaluate(folder / "small" / "1", "test").predictions
    answers = digits.predict(Digits("test").data)
    assert [digits.classes.index(answer.label) for answer in answers] == scores
    x = tdt.from_numpy(Digits("test").data[:2]).reshape(2, 1, 8, 8)
    assert digits(x).softmax(1)[0].max().item() == pytest.approx(answers[0].probability)
    assert digits.module.state_dict().keys() == {"1.weight", "1.bias"}


def test_an_image_gives_the_same_in_every_form(digits, tmp_path):
    picture = Image.fromarray(pixels(1)[0])
    picture.save(tmp_path / "digit.png")
    [expected] = Predictor(digits.path).predict(Predictor(digits.path).read([str(tmp_path / "digit.png")], bytes))
    forms = [picture, picture.convert("RGB"), str(tmp_path / "digit.png"), tmp_path / "digit.png"]
    assert [digits.predict(form).classes for form in forms] == [expected.classes] * 4
    assert all(is_same(answer.classes, expected.classes) for answer in digits.predict(forms))
    assert [answer.label for answer in digits.predict(tmp_path)] == [expected.label]  # a folder gives a list
    assert sum(expected.probabilities.values()) == pytest.approx(1) and expected.value is None
    assert str(digits.predict(picture)).startswith(f"input: {expected.label} {expected.probability:.4f}, ")


def test_arrays_are_one_input_or_a_batch_by_their_shape(digits):
    data = Digits("test").data[:3]
    expected = [answer.classes for answer in digits.predict(list(data))]
    assert [answer.classes for answer in digits.predict(tdt.from_numpy(data))] == expected
    assert [answer.classes for answer in digits.predict(data.astype(np.float64))] == expected
    assert is_same(digits.predict(data[0]).classes, expected[0])
    assert digits.predict([]) == []


def test_images_of_an_image_dataset_are_arrays_of_bytes(tmp_path):
    for name, shade in (("dark", 20), ("light", 220)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (6, 6), (shade, shade, shade + number)).save(tmp_path / "images" / name / f"{number}.png")
    config = {"data": {"train": f"ImageFolder({str(tmp_path / 'images')!r})", "transform": ["ToTensor"]}}
    config |= {"model": ["Flatten", "Linear(108, 2)"], "loss": "CrossEntropyLoss", "optimizer": "Adam(lr=0.05)"}
    model = fit(config, run_dir=tmp_path / "run", train__epochs=20, quiet=True).load_model()
    dark, light = (np.full((6, 6, 3), shade, np.uint8) for shade in (20, 220))
    assert [answer.label for answer in model.predict(np.stack([dark, light]))] == ["dark", "light"]
    assert model.predict(dark).label == model.predict(dark[..., 0]).label == "dark"
    with pytest.raises(ValueError, match="an array of uint8, 0 to 255, got float64"):
        model.predict(dark / 255)


def test_rows_are_dicts_or_a_data_frame(iris, tmp_path):
    names = list(ROWS[0])
    (tmp_path / "new.csv").write_text("\n".join([",".join(names), "5.1,3.5,1.4,0.2", "6.7,3.0,,"]))
    expected = [answer.classes for answer in iris.predict(tmp_path / "new.csv")]
    pandas = SimpleNamespace(columns=names, to_dict=lambda orient: ROWS if orient == "records" else None)
    for rows in (ROWS, pandas, SimpleNamespace(to_dicts=lambda: ROWS), iter(ROWS)):
        assert [answer.classes for answer in iris.predict(rows)] == expected
    assert is_same(iris.predict(ROWS[0]).classes, expected[0])


def test_frames_and_rows_of_pandas_are_predicted_as_their_file_is(tmp_path):
    pandas = require("pandas")
    path = tmp_path / "flats.csv"
    lines = (f"{20 + i},{i % 3 + 1},{'ab'[i % 2]},2024-01-{i % 28 + 1:02d},{i % 2 == 0},{30 * i}" for i in range(40))
    path.write_text("\n".join(["area,floor,kind,built,lift,price", *lines]) + "\n")
    columns = {
        "type": "Table",
        "path": str(path),
        "target": "price",
        "columns": {"floor": "category", "area": "number"},
    }
    columns["columns"] |= {"kind": "category", "built": "date", "lift": "category"}
    config = {"data": {"train": columns}, "targets": {"scale": "standard"}, "model": "LazyLinear(1)", "loss": "MSELoss"}
    config |= {"optimizer": "SGD(lr=0.1)", "train": {"epochs": 1}}
    run = fit(config, run_dir=tmp_path / "run", quiet=True)
    model = run.load_model()
    (tmp_path / "new.csv").write_text(
        "area,floor,kind,built,lift\n30,2,a,2024-01-05,True\n,,b,,False\n41,3,,2024-02-01,\n"
    )
    expected = [answer.value for answer in model.predict(tmp_path / "new.csv")]
    frame = pandas.read_csv(tmp_path / "new.csv")
    assert frame.dtypes["floor"] == np.float64  # as one is missing
    dates = frame.assign(built=pandas.to_datetime(frame.built))
    for rows in (frame, frame.convert_dtypes(), frame.set_axis([7, 7, 9]), frame[frame.columns[::-1]], dates,
                 frame.astype({"kind": "category"})):  # fmt: skip
        assert [answer.value for answer in model.predict(rows)] == expected
    assert [model.predict(row).value for _, row in frame.iterrows()] == pytest.approx(expected)
    assert [answer.value for answer in model.predict([row for _, row in frame.iterrows()])] == expected
    with pytest.raises(ValueError, match=r"row 0: has no column 'floor'"):
        model.predict(frame.drop(columns="floor"))
    steps, values = run.metrics["train_epoch/loss"]
    assert pandas.Series(values, index=steps).to_dict() == dict(zip(steps.tolist(), values.tolist(), strict=True))


def test_numbers_and_dates_of_programs_are_those_that_the_file_spells_otherwise(tmp_path):
    lines = (f"{i}!5,{i % 28 + 1:02d}.01.2024,{['true', 'false'][i % 2]},{3 * i}" for i in range(1, 40))
    rows = (line.replace(",", ";").replace("!", ",") for line in lines)
    (tmp_path / "a.csv").write_text("\n".join(["w;day;lift;y", *rows]) + "\n")
    table = {"type": "Table", "path": str(tmp_path / "a.csv"), "target": "y"}
    table["columns"] = {"w": "number", "day": "date", "lift": "category"}
    config = {"data": {"train": table}, "model": "LazyLinear(1)", "loss": "MSELoss", "optimizer": "SGD(lr=0.001)"}
    model = fit(config, run_dir=tmp_path / "run", train__epochs=1, quiet=True).load_model()
    written = model.predict({"w": "5,5", "day": "03.01.2024", "lift": "true"}).value
    day = datetime.date(2024, 1, 3)
    for w in (5.5, np.float32(5.5), Decimal("5.5")):
        for when in (day, datetime.datetime(2024, 1, 3), np.datetime64("2024-01-03", "ns")):
            assert model.predict({"w": w, "day": when, "lift": True}).value == written
    assert model.predict({"w": "5.125", "day": day, "lift": "true"}).value != written  # as in the file: 5125
    assert model.predict({"w": 1e16, "day": day, "lift": True}).error is None and model.notes == []


def test_a_number_is_the_value_of_a_prediction(tmp_path):
    (tmp_path / "line.csv").write_text("x,y\n" + "".join(f"{x},{2 * x + 0.5}\n" for x in range(20)))
    config = {"data": {"train": {"type": "Table", "path": str(tmp_path / "line.csv"), "target": "y"}}}
    config |= {"model": ["Linear(1, 1)"], "loss": "MSELoss", "optimizer": "SGD(lr=0.1)"}
    answer = fit(config, run_dir=tmp_path / "run", train__epochs=2, quiet=True).load_model().predict({"x": 3})
    assert answer.values == (answer.value,) and answer.label is None and answer.probabilities == {}
    assert repr(answer) == f"Prediction(name='input', values=({answer.value!r},))"


def test_missing_columns_and_unseen_categories_follow_the_config_and_are_counted(tmp_path):
    (tmp_path / "a.csv").write_text("w,c,y\n" + "".join(f"{i},{'ab'[i % 2]},{i % 2}\n" for i in range(20)))
    config = {
        "data": {"train": {"type": "Table", "path": str(tmp_path / "a.csv"), "target": "y", "missing_column": "fill"}},
        "model": "LazyLinear(2)", "loss": "CrossEntropyLoss", "optimizer": "SGD(lr=0.1)", "train": {"epochs": 1},
    }  # fmt: skip
    model = tdt.load_model(fit(config, run_dir=tmp_path / "run", quiet=True).folder)
    filled, mean = model.predict([{"c": "new"}, {"w": 9.5, "c": ""}])
    np.testing.assert_array_equal(filled.probabilities, mean.probabilities)
    assert model.notes == [
        "in 1 row, c is a category that no training row has, encoded as zeros: 'new'",
        "column w is missing in 1 row; means or zeros are in its place",
    ]


def test_texts_are_texts_and_not_paths(tmp_path):
    (tmp_path / "all.txt").write_text("to be or not to be " * 20)
    config = {"data": {"train": {"type": "Text", "path": str(tmp_path / "all.txt"), "length": 8}}}
    config |= {"model": ["Embedding(8, 8)", "Linear(8, 8)", "Transpose(1, 2)"], "loss": "CrossEntropyLoss"}
    run = fit(config | {"optimizer": "Adam"}, run_dir=tmp_path / "run", train__steps=2, quiet=True)
    one, two = run.load_model().predict(["to be or", "not to b"])
    assert {one.label, two.label} <= set(run.load_model().classes)
    alone = run.load_model().predict("to be or")
    assert dict(alone.classes) == pytest.approx(dict(one.classes), rel=1e-5)  # NumPy's products depend on the batch


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"sepal_length": 1}, "input: has no column 'sepal_width', 'petal_length', 'petal_width'; it has sepal_length"),
        ([ROWS[0], ROWS[0] | {"petal_width": "wide"}], "input 1: .*petal_width.*errors='return'"),
        ([ROWS[0], {}, {}], r"input 1: has no column .*\(1 more of 3 inputs are invalid\)"),
        (["missing.png", 3], "^missing.png: No such file or directory"),
        ([3], "input 0: expected an image, a path, a dict of a row, an array or a text, got int"),
        (np.zeros((2, 3)), "input 0: .*shape"),
    ],
)
def test_an_invalid_input_is_named(iris, inputs: Any, message):
    with pytest.raises(ValueError, match=message):
        iris.predict(inputs)


def test_invalid_inputs_may_be_returned_among_the_others(iris):
    good, bad = iris.predict([ROWS[0], {"sepal_length": 1}], errors="return")
    assert good.error is None and good.label and bad.error.startswith("has no column") and bad.label is None
    with pytest.raises(TypeError, match="got int"):
        iris.predict(3)
    with pytest.raises(ValueError, match="'raise' or 'return'"):
        iris.predict(ROWS, errors="ignore")
    with pytest.raises(ValueError, match="takes no images"):
        iris.predict(Image.new("L", (8, 8)))


def test_a_checkpoint_is_chosen_by_name_or_step(folder, digits):
    where = folder / "small" / "1"
    assert tdt.load_model(where, "last").step == 18 and tdt.load_model(where, 9).step == 9
    assert tdt.load_model(digits.path).path == digits.path
    with pytest.raises(CheckpointError, match="no checkpoint of step 3; .* has 9, 18"):
        tdt.load_model(where, 3)
    with pytest.raises(ValueError, match="'best', 'last' or a number of steps"):
        tdt.load_model(where, "bset")


def test_a_file_of_weights_alone_is_not_opened(tmp_path):
    tdt.save({}, tmp_path / "w.pt")
    with pytest.raises(CheckpointError, match="has weights alone; .*load_state_dict"):
        tdt.load_model(tmp_path / "w.pt")


def test_loading_and_predicting_leave_the_generator_and_the_mode(folder, digits):
    state = tdt.get_rng_state()
    model = tdt.load_model(folder / "small" / "1").train()
    model.predict(Digits("test").data[0])
    assert model.training and (tdt.get_rng_state() == state).all()


def test_predictions_follow_the_weights(digits, folder):
    model = tdt.load_model(folder / "small" / "1")
    with tdt.no_grad():
        model.module[1].weight.zero_()
        model.module[1].bias.copy_(tdt.arange(10.0))
    assert model.predict(Digits("test").data[0]).label == "9"
