"""`loss:` in a config: what is compared, several losses by name and weight; all mistakes at their lines."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import tdt
from tdt import nn
from tdt.train.config import ConfigError, loads
from tdt.train.loop.build import build
from tdt.train.runs import history
from tdt.train.session import Session

TEXT = """\
name: heads
device: cpu
data:
  train: Digits(split=valid)
  valid: Digits(split=valid)
  transform: [ToTensor]
  loader: {batch_size: 64}
model:
  - Flatten
  - {type: Parallel, branches: {digit: "Linear(64, 10)", image: ["Linear(64, 8)", "Linear(8, 64)", "Unflatten(1, [1, 8, 8])"]}}
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""
TWO = """\
metrics: [accuracy]
loss:
  digit: {type: CrossEntropyLoss, input: output/digit}
  image: {type: MSELoss, input: output/image, target: input, weight_in_total: 0.5}
"""
IMAGE = TEXT.replace('digit: "Linear(64, 10)", ', "")


def test_several_losses_are_summed_by_weight_logged_by_name_and_metrics_see_the_first(tmp_path):
    config = loads(TEXT + TWO + "checkpoint: {best: valid/image}\n", "c.yaml")
    assert loads(config.resolved()) == config
    parts = build(config)
    x, y = next(iter(parts.loaders["valid"]))
    output = parts.model(x)
    digit, image = nn.CrossEntropyLoss()(output["digit"], y), nn.MSELoss()(output["image"], x)
    assert parts.loss(output, y, x).item() == pytest.approx((digit + 0.5 * image).item())
    assert parts.monitor == ("valid", "image")
    with Session.start(config, root=tmp_path) as session:
        assert session.train().reason == "done"
        lines = [json.loads(line) for line in (session.run.folder / "metrics.jsonl").read_text().splitlines()]
    scores = next(line for line in lines if line["event"] == "Validated")
    valid = {key.removeprefix("valid/"): value for key, value in scores.items() if key.startswith("valid/")}
    assert set(valid) == {"loss", "digit", "image", "accuracy"}
    assert valid["loss"] == pytest.approx(valid["digit"] + 0.5 * valid["image"])
    logged = history.read(session.run)
    for chosen, series, settings in (
        ("valid/image", logged.series, logged.settings),
        ("valid/accuracy", logged.series, {k: v for k, v in logged.settings.items() if k != "checkpoint.best"}),
        ("valid/loss", {k: v for k, v in logged.series.items() if "accuracy" not in k},
         {k: v for k, v in logged.settings.items() if k != "checkpoint.best"}),
    ):  # fmt: skip
        assert replace(logged, series=series, settings=settings).monitor == chosen  # as `Parts.monitor` does


@pytest.mark.parametrize(
    "loss", ["{type: MSELoss, input: output/image, target: input}", "\"MSELoss(input='output/image', target=input)\""]
)
def test_an_autoencoder_is_compared_with_its_input(loss: str):
    parts = build(loads(f"{IMAGE}loss: {loss}\n", "c.yaml"))
    x = tdt.rand(2, 1, 8, 8)
    output = parts.model(x)
    assert parts.loss(output, None, x).item() == pytest.approx(nn.MSELoss()(output["image"], x).item())
    compared_output, compared_target = parts.loss.compared(output, None, x)
    assert compared_output is output["image"] and compared_target is x


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "expected"),
    [
        ("output/digit", "output/digits", 15, "loss.digit", "output has no part 'digits', it has digit, image"),
        ("output/digit", "outputs", 15, "loss.digit.input", "expected output, target or input"),
        ("output/digit", "[1]", 15, "loss.digit.input", "expected output, target or input"),
        ("target: input", "target: input/0", 16, "loss.image", "input has no part '0', it is one tensor"),
        ("target: input, ", "", 16, "loss.image", "size"),
        ("weight_in_total: 0.5", "weight_in_total: much", 16, "loss.image.weight_in_total", "expected float, got 'much'"),
        ("weight_in_total", "weight_in_totl", 16, "loss.image.weight_in_totl", "unknown argument of MSELoss"),
        ("weight_in_total", "weight", 16, "loss.image.weight", "reduction, input, target, weight_in_total"),
        ("  digit:", "  accuracy:", 15, "loss.accuracy", "'accuracy' cannot name a loss: it is a metric"),
        ("  digit:", "  loss:", 15, "loss.loss", "cannot name a loss"),
        ("MSELoss", "MseLoss", 16, "loss.image", "no loss is called 'MseLoss'"),
        ("MSELoss", "MSELoss, reduction: none", 16, "loss.image", "where training needs one number"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_loss(old: str, new: str, line: int, key: str, expected: str):
    assert old in TWO
    with pytest.raises(ConfigError) as caught:
        build(loads((TEXT + TWO.replace(old, new)), "c.yaml"))
    found = [(p.source.line, p.key, p.message) for p in caught.value.problems]
    assert len(found) == 1 and found[0][:2] == (line, key) and expected in found[0][2], found


def test_a_weight_of_the_only_loss_is_not_used():
    with pytest.raises(ConfigError, match="loss.weight_in_total: is not used: there is one loss"):
        loads(f"{IMAGE}loss: {{type: MSELoss, weight_in_total: 2}}\n", "c.yaml")
