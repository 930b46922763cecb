"""`weights: {from: …}`: what is taken, and where what does not fit is reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdt.train.config import ConfigError, loads
from tdt.train.loop.build import build
from tdt.train.loop.parts import Parts
from tdt.train.loop.warm_start import warm_start
from tdt.train.runs import checkpoint

CONFIG = """\
device: cpu
data:
  train: Digits
  transform: [ToTensor]
model:
  flatten: Flatten
  body: ["Linear(64, 8)", ReLU]
  head: Linear(8, 10)
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
weights: {from: SOURCE, MORE}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    shapes = {"old.0.weight": (8, 64), "old.0.bias": (8,), "head.weight": (5, 8), "head.bias": (5,)}
    tensors = {f"model/{name}": rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    path = tmp_path / "source.safetensors"
    checkpoint.save(path, tensors, {"step": 3})
    return path


def started(source: Path | str, more: str) -> tuple[Parts, Any]:
    text = CONFIG.replace("SOURCE", str(source)).replace(", MORE", f", {more}" if more else "")
    parts = build(loads(text, "c.yaml"))
    return parts, warm_start(parts, source.parent if isinstance(source, Path) else "nowhere")


def messages(source: Path | str, more: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        started(source, more)
    return caught.value.messages


def test_renamed_and_chosen_weights_are_loaded_and_the_others_are_left(source):
    parts, report = started(source, 'map: {old: body}, only: "body.*"')
    saved, _ = checkpoint.load(source)
    assert np.array_equal(parts.model.body[0].weight.detach().numpy(), saved["model/old.0.weight"])
    assert parts.model.head.weight.shape == (10, 8)
    assert report == {"checkpoint": str(source), "step": 3, "taken": ["body.0.bias", "body.0.weight"]}


def test_not_strict_takes_what_fits(source):
    _, report = started(source, "map: {old: body}, strict: false")
    assert report["taken"] == ["body.0.bias", "body.0.weight"]


def test_missing_names_and_other_shapes_are_all_reported(source):
    found = messages(source, "")
    assert all(message.startswith("c.yaml:12:") for message in found)
    assert sum("has no body.0." in message for message in found) == 2
    assert sum("head." in message and "(5" in message and "(10" in message for message in found) == 2


def test_a_pattern_and_a_prefix_that_match_nothing(source):
    found = messages(source, 'map: {oldd: body}, only: ["bdy.*"]')
    assert any("'bdy.*' matches no parameter" in message for message in found)
    assert any("begins with 'oldd'" in message and "did you mean 'old" in message for message in found)


def test_nothing_that_fits_is_an_error_even_if_not_strict(source):
    assert "nothing in" in messages(source, "strict: false, only: head.weight")[0]


def test_a_run_that_is_not_there(tmp_path):
    [message] = messages("no-such-run", "")
    assert message.startswith("c.yaml:12:17: weights.from: no run 'no-such-run'")


def test_a_config_without_weights_starts_afresh():
    text = CONFIG[: CONFIG.index("weights:")]
    assert warm_start(build(loads(text)), "runs") is None
