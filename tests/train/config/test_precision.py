"""`dtype: float64`: weights, data, scores and predictions have 16 digits, and nothing else in the process changes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt.train.config import ConfigError, loads
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate_checkpoint
from tdt.train.loop.prediction import Predictor
from tdt.train.loop.state import load_run
from tdt.train.runs.run import find_checkpoint
from tdt.train.session import Session

CONFIG = """\
dtype: float64
data:
  train: {data}
  loader: {{batch_size: 5}}
model: ["BatchNorm1d(2)", "Linear(2, 1)"]
loss: MSELoss
optimizer: Adam(lr=0.1)
train: {{epochs: 2}}
"""
ARRAYS = "{type: NPZ, path: thirds.npz}"
TABLE = "{type: Table, path: thirds.csv, target: y, target_type: number, columns: {a: number, b: number}}"


@pytest.fixture
def thirds(tmp_path) -> Path:
    """Numbers that float32 rounds, as arrays and as a table."""
    x = np.random.default_rng(0).normal(size=(20, 2)) / 3
    np.savez(tmp_path / "thirds.npz", x=x, y=x.sum(1, keepdims=True))
    with open(tmp_path / "thirds.csv", "w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "y"], *([*row, row.sum()] for row in x)])
    return tmp_path


@pytest.mark.parametrize("data", [ARRAYS, TABLE], ids=["arrays", "table"])
def test_a_run_has_16_digits_from_the_data_to_the_prediction(data, thirds):
    config = loads(CONFIG.format(data=data), str(thirds / "c.yaml"))
    with Session.start(config, root=thirds) as session:
        session.train()
        path = find_checkpoint(session.run.folder)
    assert tdt.get_default_dtype() is tdt.float32
    tensors, _ = load_run(path)
    assert {a.dtype.name for name, a in tensors.items() if name.startswith(("model/", "optimizer/exp"))} == {
        "float64",
        "int64",
    }
    found = evaluate_checkpoint(path)
    targets = np.load(thirds / "thirds.npz")["y"]
    np.testing.assert_array_equal(found.targets, targets)
    predictor = Predictor(path)
    inputs = predictor.read([str(thirds / ("thirds.npz" if data == ARRAYS else "thirds.csv"))], bytes)
    predictions = [one.values for one in predictor.predict(inputs)]
    np.testing.assert_allclose(predictions, found.predictions, rtol=1e-14)


def test_a_resumed_run_has_the_same_16_digits(thirds):
    config = loads(CONFIG.format(data=ARRAYS), str(thirds / "c.yaml"))
    weights = []
    for name, overrides in (("whole", ()), ("parts", ("train.epochs=1",))):
        with Session.start(loads(CONFIG.format(data=ARRAYS), config.file, overrides), folder=thirds / name) as session:
            session.train()
        if overrides:
            with Session.resume(thirds / name, overrides=["train.epochs=2"]) as session:
                session.train()
        weights.append(load_run(find_checkpoint(thirds / name))[0])
    for name, array in weights[0].items():
        np.testing.assert_array_equal(array, weights[1][name], err_msg=name)


def test_layers_are_created_in_float64_and_data_are_converted(thirds):
    parts = build(loads(CONFIG.format(data=ARRAYS), str(thirds / "c.yaml")))
    assert {p.dtype for p in parts.model.parameters()} == {tdt.float64}
    assert parts.place(tdt.ones(2, dtype=tdt.float32)).dtype is tdt.float64
    assert parts.place(tdt.ones(2, dtype=tdt.int64)).dtype is tdt.int64


def test_half_precision_is_refused(thirds):
    with pytest.raises(ConfigError, match="dtype: input should be 'float32' or 'float64'"):
        loads(CONFIG.format(data=ARRAYS).replace("float64", "float16"), str(thirds / "c.yaml"))
