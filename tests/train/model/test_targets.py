"""`targets:` in a config: the loss is computed on scaled numbers; metrics, predictions and logs are in their own unit."""

from __future__ import annotations

import random
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt import cli
from tdt.train.config import ConfigError, load, loads
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate, evaluate_checkpoint
from tdt.train.loop.prediction import Predictor
from tdt.train.runs.run import find_checkpoint
from tdt.train.session import Session

TEXT = """\
device: cpu
data:
  train: {type: NPZ, path: points.npz, split: train, valid: 0.25}
  valid: {type: NPZ, path: points.npz, split: valid, valid: 0.25}
  loader: {batch_size: 8}
targets: {scale: standard}
model: Linear(3, 2)
loss: MSELoss
metrics: [mae, rmse, r2]
optimizer: SGD(lr=0.1)
train: {epochs: 3}
"""
SCALED = "targets: {scale: standard}\n"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(40, 3))
    both = np.stack([x @ [1.0, 2.0, 3.0] * 1e5 + 5e5, x[:, 0] * 1e-4], 1)
    np.savez("points.npz", x=x, y=both, price=both[:, :1], label=np.arange(40) % 2)
    return tmp_path


def built(*changes: tuple[str, str]):
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return build(loads(text, "c.yaml"))


def message(*changes: tuple[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        built(*changes)
    return str(caught.value)


def houses(rows: int = 200) -> None:
    draw = random.Random(0)
    lines = ["area,rooms,distance,price"]
    for _ in range(rows):
        area, rooms, distance = draw.uniform(40, 250), draw.randint(1, 7), draw.uniform(0, 30)
        price = 100_000 + 2500 * area + 12_000 * rooms - 3000 * distance + draw.gauss(0, 8000)
        lines.append(f"{area:.1f},{rooms},{distance:.2f},{price:.0f}")
    Path("houses.csv").write_text("\n".join(lines) + "\n")


def test_house_prices_are_learnt_by_the_config_that_init_writes(capsys):
    houses()
    assert cli.run(["init", "houses.csv"]) == 0
    with Session.start(load("houses.yaml", ["device=cpu"])) as session:
        scores = session.train().test
        path = find_checkpoint(session.run.folder)
    assert scores["r2"] >= 0.95 and 1000 < scores["mae"] < 30_000
    assert evaluate_checkpoint(path, "test").scores == scores
    rows = Path("houses.csv").read_text().splitlines()
    shutil.move("houses.csv", "elsewhere.csv")
    predictor = Predictor(path)
    found = [one.values[0] for one in predictor.predict(predictor.read(["elsewhere.csv"], bytes))]
    prices = [float(row.split(",")[-1]) for row in rows[1:]]
    assert np.abs(np.subtract(found, prices)).mean() < 30_000


@pytest.mark.parametrize("kind", ["standard", "minmax"])
def test_the_loss_is_of_scaled_targets_and_metrics_are_in_their_own_unit(kind):
    parts = built(("standard", kind))
    train = np.concatenate([targets.numpy() for _, targets in parts.loaders["train"]]).astype(np.float64)
    shift, scale = (train.mean(0), train.std(0)) if kind == "standard" else (train.min(0), np.ptp(train, 0))
    facts = parts.facts["targets"]["target"]
    np.testing.assert_allclose([facts["shift"], facts["scale"]], [shift, scale], rtol=1e-6, atol=1e-12)
    x, y = (tdt.cat(side) for side in zip(*parts.loaders["valid"], strict=True))
    with tdt.no_grad():
        raw = parts.model(x).numpy()
    outputs, targets = raw * scale + shift, y.numpy()
    scores = evaluate(parts, "valid")
    assert scores["loss"] == pytest.approx(((raw - (targets - shift) / scale) ** 2).mean(), rel=1e-4)
    assert scores["mae"] == pytest.approx(np.abs(outputs - targets).mean(), rel=1e-4)


def test_a_resumed_run_uses_the_statistics_of_its_checkpoint_and_ends_with_the_same_bits():
    config = loads(TEXT, "c.yaml")
    assert loads(config.resolved()) == config
    with Session.start(config, root="runs") as whole:
        whole.train()
    with Session.start(loads(TEXT.replace("epochs: 3", "epochs: 1"), "c.yaml"), root="runs") as part:
        part.train()
        folder = part.run.folder
    with Session.resume(folder, overrides=["train.epochs=3"]) as resumed:
        assert resumed.parts.facts["targets"] == whole.parts.facts["targets"]
        resumed.train()
    for name, value in whole.parts.model.state_dict().items():
        assert value.equal(resumed.parts.model.state_dict()[name])


def test_each_of_several_losses_scales_its_own_target():
    parts = built(
        ("split: train,", "y: {price: price, both: y}, split: train,"),
        ("split: valid,", "y: {price: price, both: y}, split: valid,"),
        ("model: Linear(3, 2)", 'model: {type: Parallel, branches: {price: "Linear(3, 1)", both: "Linear(3, 2)"}}'),
        ("loss: MSELoss", "loss:\n  price: {type: MSELoss, input: output/price, target: target/price}\n"
         "  both: {type: L1Loss, input: output/both, target: target/both}"),
        ("metrics: [mae, rmse, r2]", "metrics: {off: {type: mae, input: output/both, target: target/both}}"),
    )  # fmt: skip
    found = parts.facts["targets"]
    assert (
        set(found) == {"target/price", "target/both"}
        and found["target/price"]["shift"] == found["target/both"]["shift"][:1]
    )
    scores = evaluate(parts, "valid")
    assert scores["price"] < 10 and scores["both"] < 10 and scores["off"] > 1e4


def test_without_the_key_nothing_is_scaled_and_a_warning_names_it_where_it_would_help():
    with pytest.warns(UserWarning, match="add targets: {scale: standard}") as caught:
        parts = built((SCALED, ""))
    assert len(parts.loss.scales) == 0 and "targets" not in parts.facts
    (warning,) = caught
    assert str(warning.message).startswith("c.yaml:7:7: loss: the targets of data.train have a mean of ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        built()
        np.savez("points.npz", x=np.zeros((40, 3)), y=np.random.default_rng(0).normal(1, 2, (40, 2)))
        built((SCALED, ""))


def test_values_that_are_not_finite_and_constant_columns_do_not_spoil_the_scale():
    y = np.stack([np.arange(40.0), np.full(40, 7.0)], 1)
    y[3, 0] = np.inf
    np.savez("points.npz", x=np.zeros((40, 3)), y=y)
    facts = built((", split: train, valid: 0.25", ""), ("split: valid, ", "")).facts["targets"]["target"]
    assert facts["shift"] == [pytest.approx((np.arange(40).sum() - 3) / 39), 7.0] and facts["scale"][1] == 1.0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((("MSELoss", "CrossEntropyLoss"), ("path:", "y: label, path:"), ("[mae, rmse, r2]", "[accuracy]")),
         "c.yaml:6:10: targets: is not used: no loss compares numbers with the targets of data.train, but CrossEntropyLoss"),
        (((": standard", ": sqrt"),), "c.yaml:6:18: targets.scale: "),
        ((("MSELoss", "{type: MSELoss, target: input}"), ("Linear(3, 2)", "Linear(3, 3)")), "c.yaml:6:10: targets: is not used"),
    ],
)  # fmt: skip
def test_targets_that_cannot_be_scaled_are_reported(changes, expected):
    assert expected in message(*changes)
