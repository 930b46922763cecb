"""Data in a config: paths, data sets without their files, what they learn, and what a checkpoint keeps of it."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt.train.build import build
from tdt.train.config import ConfigError, load, loads
from tdt.train.data import open_splits
from tdt.train.evaluation import evaluate_checkpoint
from tdt.train.run import find_checkpoint
from tdt.train.session import Session
from tdt.vision.datasets import MNIST

TABLE = """
data:
  train: Table('rows/pets.csv', kind, split=train)
  valid: {type: Table, path: rows/pets.csv, target: kind, split: valid, columns: {weight: number, colour: category}}
  loader: {batch_size: 8}
model: ["Linear(4, 2)"]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
metrics: [accuracy]
train: {epochs: 1}
"""
MNIST_MLP = """
data:
  train: MNIST(split=train)
  valid: MNIST(split=valid)
  transform: [ToTensor]
model: [Flatten, "Linear(784, 10)"]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""


@pytest.fixture
def pets(tmp_path) -> Path:
    (tmp_path / "rows").mkdir()
    rng = np.random.RandomState(0)
    with open(tmp_path / "rows" / "pets.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["weight", "colour", "kind"])
        for i in range(40):
            writer.writerow([f"{rng.randn() + i % 2:.3f}", ["black", "brown", "white"][i % 3], ["cat", "dog"][i % 2]])
    (tmp_path / "pets.yaml").write_text(TABLE)
    return tmp_path / "pets.yaml"


def test_paths_start_from_the_file_that_names_them_and_are_absolute_in_the_saved_config(pets, monkeypatch):
    config = load(pets)
    assert config.data.train.args[0] == str(pets.parent / "rows" / "pets.csv")
    again = loads(config.resolved(), "elsewhere/config.yaml")
    assert again.data.train.kwargs["path"] == str(pets.parent / "rows" / "pets.csv")
    assert again.data.valid == config.data.valid
    monkeypatch.chdir(pets.parent / "rows")
    changed = load(pets, ["data.train.path=pets.csv"])
    assert changed.data.train.args[0] == str(pets.parent / "rows" / "pets.csv")


def test_a_checkpoint_keeps_what_the_table_has_learnt_and_eval_uses_it(pets):
    with Session.start(load(pets), root=pets.parent / "runs") as session:
        assert session.train().reason == "done"
        facts = session.parts.facts
        path = find_checkpoint(session.run.folder)
    assert facts["classes"] == ["cat", "dog"]
    scores = evaluate_checkpoint(path).scores
    # The training rows are gone and what is left has other statistics: those of the checkpoint count.
    table = load(pets).data.valid
    file = Path(table.kwargs["path"])
    rows = file.read_text().splitlines()
    build(load(pets))
    held = build(load(pets), training=False, splits=("valid",), data_state=facts["state"]).loaders["valid"].dataset
    changed = [rows[0], *(f"{float(r.split(',')[0]) * 10:.2f},{','.join(r.split(',')[1:])}" for r in rows[1:])]
    file.write_text("\n".join(changed))
    other = build(load(pets), training=False, splits=("valid",), data_state=facts["state"]).loaders["valid"].dataset
    weight = facts["state"]["columns"][0]
    back = [
        held.tensors[0][:, 0] * weight["scale"] + weight["shift"],
        other.tensors[0][:, 0] * weight["scale"] + weight["shift"],
    ]
    np.testing.assert_allclose(back[1].numpy(), back[0].numpy() * 10, rtol=1e-4, atol=1e-4)
    file.write_text("\n".join(rows))
    assert evaluate_checkpoint(path).scores == scores


def test_shapes_and_classes_need_no_table_once_it_was_learnt(pets):
    state = build(load(pets)).facts["state"]
    shutil.rmtree(pets.parent / "rows")
    parts = build(load(pets), training=False, splits=(), data_state=state)
    assert parts.facts["classes"] == ["cat", "dog"]
    with pytest.raises(ConfigError, match=r"pets.yaml:3:\d+: data.train: .*pets.csv: No such file"):
        build(load(pets))


def test_a_dry_run_needs_no_files_but_training_names_the_missing_one(tmp_path, monkeypatch):
    monkeypatch.setenv("TDT_DATA", str(tmp_path))
    parts = build(loads(MNIST_MLP), splits=())
    assert [row.shape for row in parts.rows] == [(784,), (10,)]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError) as caught:
        build(loads(MNIST_MLP))
    assert [str(p).partition(": ")[2][:62] for p in caught.value.problems] == [
        "data.train: MNIST: put train-images-idx3-ubyte.gz, train-label",
        "data.valid: MNIST: put train-images-idx3-ubyte.gz, train-label",
    ]
    with pytest.raises(ConfigError, match="linear: input has 784 features"):
        build(loads(MNIST_MLP.replace("784", "783")), splits=())


def test_only_the_splits_asked_for_are_read(monkeypatch):
    read = []
    monkeypatch.setattr(
        MNIST, "_load", lambda self, part: read.append(part) or (np.zeros((9, 28, 28), np.uint8), np.zeros(9, np.int64))
    )
    parts = build(loads(MNIST_MLP), training=False, splits=("valid",))
    assert read == ["train"]  # the part that the valid split is the end of
    assert len(parts.loaders["valid"].dataset) == 9


def test_what_is_too_large_to_hold_is_prepared_as_it_is_read(monkeypatch):
    text = MNIST_MLP.replace("MNIST(split=train)", "Text(length=16, tokens=bytes)").replace(
        "  valid: MNIST(split=valid)\n", ""
    )
    text = text.replace("  transform: [ToTensor]", "  loader: {shuffle: false, batch_size: 4}")
    config = loads(text).draft()
    split = open_splits(config.data, config.errors)["train"]
    batches = []
    for limit in (1 << 40, 0):
        monkeypatch.setattr("tdt.train.data.PREPARED", limit)
        loader = tdt.train.data.make_loader(split, config.data.loader, tdt.Generator())
        batches.append(next(iter(loader)))
        assert (type(loader.dataset).__name__ == "TensorDataset") is (limit > 0)
    assert all(a.equal(b) for a, b in zip(*batches, strict=True))
