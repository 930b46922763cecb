"""Channels-last memory is an inner matter of the trainer: what is drawn and computed is that of contiguous tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt import nn
from tdt.train.config import loads
from tdt.train.loop.build import build
from tdt.train.loop.parts import Parts
from tdt.train.model.memory_format import use_channels_last

CONFIG = """\
seed: 3
dtype: float64
data:
  train: {{type: NPZ, path: data.npz}}
  loader: {{batch_size: 4}}
model: {model}
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {{epochs: 1}}
"""


def parts_of(model: str, shape: tuple[int, ...], folder: Path) -> Parts:
    """A run of `model` on random inputs of this shape, built."""
    rng = np.random.default_rng(0)
    np.savez(folder / "data.npz", x=rng.normal(size=(8, *shape)), y=np.arange(8) % 3)
    return build(loads(CONFIG.format(model=model), str(folder / "c.yaml")))


@pytest.mark.parametrize(
    ("layers", "shape"),
    [
        ('[Flatten, "LazyLinear(3)"]', (2, 6, 6, 6)),
        ('["MaxPool3d(2)", "BatchNorm3d(4)", Flatten, "LazyLinear(3)"]', (2, 6, 6, 6)),
        ('["Flatten(2)", "Unflatten(2, [8, 8])", "Conv2d(4, 2, 3)", Flatten, "LazyLinear(3)"]', (2, 6, 6, 6)),
    ],
)  # fmt: skip
def test_a_model_of_volumes_trains(layers, shape, tmp_path):
    parts = parts_of(f'["Conv3d(2, 4, 3)", ReLU, {layers[1:]}', shape, tmp_path)
    inputs, targets = next(iter(parts.loaders["train"]))
    loss = parts.loss(parts.model(parts.place(inputs)), targets, inputs)
    loss.backward()
    assert loss.dtype is tdt.float64
    assert np.isfinite(loss.item())


RANDOM = [
    "Dropout(0.5)",
    "AlphaDropout(0.5)",
    "FeatureAlphaDropout(0.5)",
    "Dropout2d(0.5)",
    "RReLU",
    "FractionalMaxPool2d(2, output_ratio=0.7)",
]
AFTER_VIEWS = [
    '"Flatten(2)", "Dropout(0.5)"',
    '"Flatten(2)", "Transpose(1, 2)", "Dropout(0.5)"',
    '"Transpose(2, 3)", "Dropout(0.5)"',
]


@pytest.mark.parametrize("drawing", [*(f'"{name}"' for name in RANDOM), *AFTER_VIEWS])
def test_random_layers_draw_as_in_a_script_without_channels_last(drawing, tmp_path):
    parts = parts_of(
        f'["Conv2d(3, 4, 3)", ReLU, "MaxPool2d(2, 1)", {drawing}, Flatten, "LazyLinear(3)"]', (3, 9, 8), tmp_path
    )
    assert parts.channels_last
    inputs = next(iter(parts.loaders["train"]))[0]
    plain = nn.Sequential(*parts.model.children())  # the hooks stay with the layers, and find nothing to do
    for p in plain.parameters():
        p.data = p.data.contiguous()
    tdt.manual_seed(0)
    expected = plain(inputs.double())
    for layer in plain.modules():
        if isinstance(layer, nn.Conv2d):
            layer.to(memory_format=tdt.channels_last)
    tdt.manual_seed(0)
    assert not parts.place(inputs).is_contiguous()
    tdt.testing.assert_close(parts.model(parts.place(inputs)), expected, rtol=1e-12, atol=1e-12)


def test_layers_between_convolutions_keep_channels_last():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 2, 3))
    assert use_channels_last(model)
    out = model(tdt.ones(2, 3, 12, 12).contiguous(memory_format=tdt.channels_last))
    assert out.is_contiguous(memory_format=tdt.channels_last)


class Own(nn.Module):
    def forward(self, input: tdt.Tensor) -> tdt.Tensor:
        return input.flatten(2)


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Conv3d(2, 4, 3)),
        nn.Sequential(nn.Flatten(), nn.Linear(4, 2)),
        nn.Sequential(nn.Conv2d(3, 4, 3), Own()),
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.Dropout(inplace=True)),
    ],
    ids=["volumes", "no convolution", "the user's own layer", "in place"],
)
def test_memory_stays_contiguous_where_it_does_not_pay_or_could_show(model):
    assert not use_channels_last(model)
    assert all(p.is_contiguous() for p in model.parameters())
    assert not any(m._forward_pre_hooks for m in model.modules())
