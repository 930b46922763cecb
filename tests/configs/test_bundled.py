"""The bundled configs: sizes as published, and a few steps of training on small data that is made up."""

from __future__ import annotations

import pytest

from tdt.train.config import bundled, load
from tdt.train.loop.build import build
from tdt.train.session import Session
from tests.configs.small_data import OVERRIDES, write_all

# Parameters: as published, or (the others) by hand from the layers.
PARAMETERS = {
    "autoencoder": 9_113,
    "char-gpt": 256 * 128 + 128 * 128 + 4 * (12 * 128**2 + 13 * 128) + 2 * 128 + 256 * 128,  # a block: 12 d² + 13 d
    "char-lstm": 256 * 64 + 4 * 256 * (64 + 256 + 2) + 4 * 256 * (256 + 256 + 2) + 257 * 256,
    "digits-cnn": 151_306,
    "digits-finetune": 29_066,
    "digits-mlp": 17_226,
    "iris-mlp": 4 * 16 + 16 + 16 * 16 + 16 + 16 * 3 + 3,
    "lenet5": 61_706,
    "mlp": 535_818,
    "resnet20": 272_474,
    "vgg11": 9_231_114,
}


@pytest.fixture
def synthetic_data(tmp_path):
    """The files of MNIST, FashionMNIST and CIFAR-10 with a few images of noise."""
    with write_all(tmp_path) as folder:
        yield folder


def test_every_bundled_config_is_counted_here():
    assert set(bundled()) == set(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_bundled_config_has_its_parameters_and_trains(name: str, synthetic_data):
    changes = ["device=cpu", "train.epochs=1", "train.steps=2", "data.loader.batch_size=4", "log.every=1 step"]
    config = load(name, [*changes, *OVERRIDES.get(name, lambda folder: [])(synthetic_data)])
    assert config.name == name
    with Session.start(config, root=synthetic_data / "runs") as session:
        assert sum(p.numel() for p in session.parts.model.parameters()) == PARAMETERS[name]
        before = [p.detach().clone() for p in session.parts.model.parameters()]
        assert session.train().reason == "done"
        changed = [not (p == old).all() for p, old in zip(session.parts.model.parameters(), before, strict=True)]
    assert any(changed)


def test_resnet20_is_a_quarter_of_a_million_in_twenty_layers(synthetic_data):
    rows = build(load("resnet20", ["data.loader.batch_size=4"])).rows
    weighted = [
        row for row in rows if row.layer.startswith(("Conv2d", "Linear")) and "kernel_size=(1, 1)" not in row.layer
    ]
    assert len(weighted) == 20
    shapes = {row.name: row.shape for row in rows}
    assert shapes["stage1.2.relu"] == (16, 32, 32) and shapes["stage3.1.1.relu"] == (64, 8, 8)
    assert 40e6 < sum(row.flops for row in rows) < 42e6  # the 41 M multiply-adds that are commonly given


def test_the_flowers_of_iris_are_distinguished(tmp_path):
    with Session.start(load("iris-mlp", ["device=cpu"]), root=tmp_path) as session:
        scores = session.train().test
    assert scores is not None and scores["accuracy"] >= 0.9
