"""Models with several inputs and outputs, from the data set to the prediction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tdt
from tdt.train.config import ConfigError, imports, load, loads
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate, evaluate_checkpoint
from tdt.train.loop.prediction import Predictor
from tdt.train.loop.state import load_run
from tdt.train.runs.run import find_checkpoint
from tdt.train.session import Session

NPZ = """\
name: pair
device: cpu
data:
  train: {type: NPZ, path: pair.npz, x: [left, right], y: [kind, sum], split: train, valid: 0.25}
  valid: {type: NPZ, path: pair.npz, x: [left, right], y: [kind, sum], split: valid, valid: 0.25}
  loader: {batch_size: 16}
model:
  graph:
    from_left: {type: Linear, in_features: 4, out_features: 8, from: left}
    from_right: {layer: [Flatten, "Linear(6, 8)"], from: right}
    both: {type: Concat, from: [from_left, from_right]}
    kind: {layer: [BatchNorm1d(16), ReLU, "Linear(16, 3)"], from: both}
    sum: {layer: "Linear(16, 1)", from: both}
  inputs: [left, right]
  outputs: [kind, sum]
loss:
  kind: {type: CrossEntropyLoss, input: output/kind, target: target/kind}
  sum: {type: MSELoss, input: output/sum, target: target/sum, weight_in_total: 0.1}
metrics: {accuracy: accuracy, off: {type: mae, input: output/sum, target: target/sum}}
optimizer: Adam(lr=1e-2)
train: {epochs: 2}
"""
TABLE = """\
name: pets
device: cpu
data:
  train: {type: Table, path: pets.csv, target: kind, columns: {body: [weight, length], looks: [colour]}, split: train}
  valid: {type: Table, path: pets.csv, target: kind, columns: {body: [weight, length], looks: [colour]}, split: valid}
model:
  graph:
    body_: {type: Linear, in_features: 2, out_features: 4, from: body}
    looks_: {type: LazyLinear, out_features: 4, from: looks}
    both: {type: Add, from: [body_, looks_]}
    head: {layer: [ReLU, "Linear(4, 2)"], from: both}
  inputs: [body, looks]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: Adam(lr=1e-2)
train: {epochs: 1}
"""
OWN = """\
from collections import namedtuple

import numpy as np
from tdt.utils.data import Dataset


class Trios(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return np.full(3, i / 20, np.float32), float(i % 2), i % 2


class Named(Trios):
    def __getitem__(self, i):
        a, b, label = super().__getitem__(i)
        return {"a": a, "b": b, "target": label}


Both = namedtuple("Both", "a b")


class Tupled(Trios):
    def __getitem__(self, i):
        a, b, label = super().__getitem__(i)
        return Both(a, b), label


class Strange(Trios):
    def __getitem__(self, i):
        return {"a": 1.0, "label": 1}
"""
SUMS = """\
name: own
device: cpu
imports: [own.py]
data: {train: Trios, valid: Trios, loader: {batch_size: 5, num_workers: 0}}
model:
  graph:
    wide: {type: Linear, in_features: 3, out_features: 2, from: a}
    more: {layer: ["Unflatten(0, [-1, 1])", "Linear(1, 2)"], from: b}
    sum: {type: Add, from: [wide, more]}
  inputs: [a, b]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    draw = np.random.RandomState(0)
    left, right = draw.randn(40, 4), draw.randn(40, 2, 3)
    kind = (left[:, 0] > 0).astype(int) + (right[:, 0, 0] > 0)
    np.savez(tmp_path / "pair.npz", left=left, right=right, kind=kind, sum=left.sum(1, keepdims=True))
    rows = [f"{i % 7},{i % 5},{['red', 'blue', 'grey'][i % 3]},{['cat', 'dog'][i % 2]}" for i in range(40)]
    (tmp_path / "pets.csv").write_text("\n".join(["weight,length,colour,kind", *rows]))
    (tmp_path / "own.py").write_text(OWN)
    for name, text in (("pair", NPZ), ("pets", TABLE), ("own", SUMS)):
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.setattr(imports, "_allowed", True)
    return tmp_path


def trained(work: Path, name: str, *changes: str) -> Path:
    """The checkpoint of the config after its training."""
    with Session.start(load(work / f"{name}.yaml", changes), root=work / "runs") as session:
        assert session.train().reason == "done"
    return find_checkpoint(name, work / "runs")


def test_two_inputs_and_two_outputs_are_trained_scored_and_predicted(work: Path):
    path = trained(work, "pair", "train.swa=0", "data.loader.num_workers=0")
    config = load(work / "pair.yaml")
    assert loads(config.resolved()) == config
    found = evaluate_checkpoint(path, "valid")
    assert found.scores.keys() == {"loss", "kind", "sum", "accuracy", "off"} and len(found.targets) == 10
    assert found.scores["loss"] == pytest.approx(found.scores["kind"] + 0.1 * found.scores["sum"], rel=1e-5)
    predictor = Predictor(path)
    predictions = list(predictor.predict(predictor.read([str(work / "pair.npz")], str)))
    assert len(predictions) == 40 and not any(one.error for one in predictions)
    assert [len(one.classes) for one in predictions] == [3] * 40
    inputs = build(config).loaders["valid"].dataset[3][0]
    again = next(iter(predictor.predict([("x", inputs)])))
    with tdt.no_grad():
        model = predictor.parts.scored
        scores = model({name: part.unsqueeze(0) for name, part in inputs.items()})["kind"].softmax(1)[0].tolist()
    assert sorted(chance for _, chance in again.classes) == pytest.approx(sorted(scores), rel=1e-5)


def test_a_metric_gets_the_part_that_it_names(work: Path):
    parts = build(load(work / "pair.yaml"))
    found = evaluate(parts, "valid")
    inputs, targets = (
        tdt.utils.data.default_collate(side) for side in zip(*parts.loaders["valid"].dataset, strict=True)
    )
    parts.model.eval()
    with tdt.no_grad():
        off = (parts.model(inputs)["sum"] - targets["sum"]).abs().mean().item()
    assert found["off"] == pytest.approx(off, rel=1e-5) and found["off"] != found["accuracy"]


def test_a_file_that_lacks_an_input_is_named(work: Path):
    predictor = Predictor(trained(work, "pair", "train.epochs=1"))
    np.savez(work / "half.npz", left=np.zeros((2, 4)))
    np.savez(work / "wrong.npz", left=np.zeros((2, 4)), right=np.zeros((2, 5)))
    np.savez(work / "uneven.npz", left=np.zeros((2, 4)), right=np.zeros((3, 2, 3)))

    def error(name: str) -> str:
        return str(next(iter(predictor.predict(predictor.read([str(work / name)], str)))).error)

    assert "has no array 'right'; it has left" in error("half.npz")
    assert "'right': (5,)" in error("wrong.npz") and "'right': (2, 3)" in error("wrong.npz")
    assert "arrays of 2 and 3 rows" in error("uneven.npz")


def test_groups_of_columns_are_inputs(work: Path):
    path = trained(work, "pets")
    (work / "pets.csv").rename(work / "new.csv")
    predictor = Predictor(path)
    predictions = list(predictor.predict(predictor.read([str(work / "new.csv")], str)))
    assert [one.name.rpartition(":")[2] for one in predictions[:2]] == ["2", "3"] and len(predictions) == 40
    assert all(one.error is None and len(one.classes) == 2 for one in predictions)


def test_a_run_on_several_inputs_resumes_to_the_same_bits(work: Path):
    trained(work, "pair", "train.epochs=2")
    trained(work, "pair", "train.epochs=1")
    with Session.resume("pair", root=work / "runs", overrides=["train.epochs=2"]) as session:
        session.train()
    (tensors, _), (others, _) = (load_run(find_checkpoint(f"pair/{n}", work / "runs")) for n in (1, 2))
    assert tensors.keys() == others.keys()
    assert all(np.array_equal(tensors[name], others[name]) for name in tensors)


@pytest.mark.parametrize("kind", ["Trios", "Named", "Tupled"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_users_dataset_returns_a_b_label_or_a_mapping(work: Path, kind: str, workers: int):
    path = trained(work, "own", f"data.train={kind}", f"data.valid={kind}", f"data.loader.num_workers={workers}")
    assert len(evaluate_checkpoint(path, "valid").targets) == 20


def test_a_mix_of_samples_mixes_every_input(work: Path):
    config = load(work / "own.yaml", ["train.mixup=0.4", "train.epochs=3", "optimizer.lr=0.5"])
    with Session.start(config, root=work / "runs") as session:
        assert session.train().reason == "done"


@pytest.mark.parametrize(
    ("name", "change", "key", "expected"),
    [
        ("pair", ("inputs: [left, right]", "inputs: [left, rite]"), "model.graph.from_right.from", "no node 'right'"),
        ("pair", ("x: [left, right], y: [kind, sum], split: t", "x: [left], y: [kind, sum], split: t"), "model",
         "takes the inputs left, right, but got left"),
        ("pair", ("in_features: 4", "in_features: 5"), "model.graph.from_left", "its input comes from the data"),
        ("pair", ("off: {type: mae, input: output/sum", "off: {type: mae, input: output/off"), "metrics.off",
         "output has no part 'off', it has kind, sum"),
        ("pair", ("off: {type: mae, input: output/sum", "off: {type: mae, input: outputs"), "metrics.off.input",
         "expected output, target or input"),
        ("pair", ("target/sum, w", "target/total, w"), "loss.sum", "target has no part 'total', it has kind, sum"),
        ("pair", ("  loader", "  transform: ['Normalize(0, 1)']\n  loader"), "data.transform.0", "takes one input"),
        ("pair", ("x: [left, right], y: [kind, sum], split: t", "x: [left, up], y: [kind, sum], split: t"),
         "data.train", "has no array up"),
        ("pets", ("looks: [colour]}, split: t", "looks: [color]}, split: t"), "data.train", "did you mean 'colour'"),
        ("own", ("train: Trios", "train: Strange"), "data.train", "or a dict with the key target; got the keys a, label"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_reported_at_its_place(
    work: Path, name: str, change: tuple[str, str], key: str, expected: str
):
    file = work / f"{name}.yaml"
    assert change[0] in file.read_text()
    file.write_text(file.read_text().replace(*change))
    with pytest.raises(ConfigError) as caught:
        build(load(file))
    found = [
        (problem.key, problem.message + f"; did you mean {problem.suggestion!r}") for problem in caught.value.problems
    ]
    assert any(at == key and expected in message for at, message in found), found


def test_tensorboard_shows_the_graph_and_what_passes_through_it(work: Path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = trained(work, "pair", "log.graph=true", "log.histograms=1 epoch", "log.embedding=both")
    events = EventAccumulator(str(path.parents[1])).Reload()
    names = {node.name for node in events.Graph().node}
    assert len([name for name in names if name.startswith("input/")]) == 2
    assert any("from_left" in name for name in names) and any("from_right" in name for name in names)
