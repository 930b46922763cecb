"""The meta pass: shapes, parameters and multiply-adds of every layer, and where a size does not fit."""

from __future__ import annotations

import re
import warnings

import pytest

import tdt
from tdt.train.config import ConfigError, loads
from tdt.train.loop.build import build

CONFIG = """\
device: cpu
data:
  train: Digits
  transform: [ToTensor]
model: MODEL
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""


def parts(model: str):
    return build(loads(CONFIG.replace("MODEL", model), "c.yaml"))


def test_rows_have_shapes_parameters_and_multiply_adds():
    rows = parts('["Conv2d(1, 4, 3, stride=2, padding=1)", ReLU, Flatten, LazyLinear(10)]').rows
    assert [(r.name, r.shape, r.parameters, r.flops) for r in rows] == [
        ("0", (4, 4, 4), 4 * 9 + 4, 4 * 4 * 4 * 9),
        ("1", (4, 4, 4), 0, 0),
        ("2", (64,), 0, 0),
        ("3", (10,), 650, 640),
    ]


def test_lazy_layers_become_what_they_stand_for_and_nothing_is_drawn_twice():
    built = parts("[Flatten, LazyLinear(10)]")
    assert type(built.model[1]) is tdt.nn.Linear
    tdt.manual_seed(0)
    assert (built.model[1].weight == tdt.nn.Linear(64, 10).weight).all()


def test_the_pass_leaves_the_statistics_of_batch_norm_alone():
    built = parts('["BatchNorm2d(1)", Flatten, "Linear(64, 10)"]')
    assert built.model[0].num_batches_tracked == 0 and (built.model[0].running_mean == 0).all()
    assert built.model.training


@pytest.mark.parametrize(
    ("model", "column", "expected"),
    [
        ('[Flatten, "Linear(65, 10)"]', 18, "its input comes from 0 (Flatten(), line 5)"),
        ('["Conv2d(3, 4, 3)", Flatten, LazyLinear(10)]', 9, "its input comes from the data"),
        ('["Conv2d(1, 4, 9)", Flatten, LazyLinear(10)]', 9, "its input comes from the data"),
        ('[Flatten, "Linear(64, 3)"]', 18, "gives 3 scores, but Digits has 10 classes"),
    ],
)
def test_what_does_not_fit_is_reported_at_its_layer(model: str, column: int, expected: str):
    with pytest.raises(ConfigError) as caught:
        parts(model)
    [message] = caught.value.messages
    assert message.startswith(f"c.yaml:5:{column}: model.") and expected in message, message


def test_an_embedding_has_a_row_for_each_token():
    text = """\
data: {train: "Text(length=8, tokens=bytes)"}
model: ["Embedding(200, 4)", {type: Residual, body: ["Linear(4, 3)", "Linear(3, 4)"]}, "Linear(4, 256)", "Transpose(1, 2)"]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""
    with pytest.raises(ConfigError) as caught:
        build(loads(text, "c.yaml"), splits=())
    assert caught.value.messages == ["c.yaml:2:9: model.0: has 200 rows, but the text has 256 tokens"]
    assert build(loads(text.replace("200", "256"), "c.yaml"), splits=()).rows


def test_a_loss_that_does_not_take_the_output_names_the_layer_before():
    text = CONFIG.replace("MODEL", '[Flatten, "Linear(64, 10)"]').replace("CrossEntropyLoss", "NLLLoss(reduction=none)")
    with pytest.raises(ConfigError) as caught:
        build(loads(text.replace("[Flatten, ", "["), "c.yaml"))
    assert caught.value.problems[0].source.line == 5


@pytest.mark.parametrize(
    ("model", "loss", "expected"),
    [
        (
            "[Dropout3d(0.5), Flatten, LazyLinear(10)]",
            "CrossEntropyLoss",
            "model.0: drops whole samples of a batch of [1, 8, 8], which it",
        ),
        (
            "[Flatten, Dropout3d(0.5), LazyLinear(10)]",
            "CrossEntropyLoss",
            "model.1: dropout3d: Received a 2-D input to dropout3d, which is",
        ),
        (
            "[Flatten, Dropout1d(0.5), LazyLinear(10)]",
            "CrossEntropyLoss",
            "model.1: drops whole samples of a batch of [64], which it takes",
        ),
        (
            '[Flatten, LazyLinear(64), LogSoftmax(1), "Unflatten(1, [1, 8, 8])"]',
            "{kl: {type: KLDivLoss, target: input}}",
            "loss.kl: reduction: 'mean' divides the",
        ),
    ],
)
def test_what_pytorch_warns_of_is_a_warning_with_its_place(model: str, loss: str, expected: str):
    text = CONFIG.replace("MODEL", model).replace("CrossEntropyLoss", loss)
    with pytest.warns(UserWarning, match=rf"^c.yaml:\d+:\d+: {re.escape(expected)}") as caught:
        build(loads(text, "c.yaml"), splits=())
    assert len(caught) == 1


def test_a_dropout_of_channels_that_pytorch_refuses_is_refused():
    with pytest.raises(ConfigError, match=r"model.0: dropout1d: Expected 2D or 3D input, but received a 4D input"):
        parts("[Dropout1d, Flatten]")


def test_other_warnings_of_a_layer_reach_a_user_who_enables_them(monkeypatch: pytest.MonkeyPatch):
    def forward(self, input):
        warnings.warn("old", FutureWarning, stacklevel=1)
        return input

    monkeypatch.setattr(tdt.nn.Identity, "forward", forward)
    with pytest.warns(FutureWarning, match="old"):
        parts('[Flatten, Identity, "Linear(64, 10)"]')
