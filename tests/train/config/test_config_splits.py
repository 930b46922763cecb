"""`data.dataset` and `data.split`: one dataset for all splits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tdt.train import config
from tdt.train.config import ConfigError, bundled, imports, registry
from tdt.train.data.datasets.table import Table
from tdt.train.loop.build import build
from tests.commands.running import tdt_here

REST = """\
model: [LazyLinear(3)]
loss: CrossEntropyLoss
optimizer: Adam(lr=1e-2)
train: {epochs: 1}
"""
TABLE = "{type: Table, path: iris.csv, target: species}"


def loads(data: str, *overrides: str, file: str = "c.yaml") -> config.Config:
    return config.loads(f"data:\n{data}{REST}", file, overrides)


def splits(data: str, *overrides: str) -> dict[str, tuple]:
    return {name: (one.name, one.kwargs) for name, one in loads(data, *overrides).data.splits().items()}


def mistakes(data: str, *overrides: str) -> list[str]:
    """Each with its position, `line:column: key: message`."""
    with pytest.raises(ConfigError) as caught:
        loads(data, *overrides)
    return [message.removeprefix("c.yaml:") for message in caught.value.messages]


@pytest.fixture
def iris(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "iris.csv"
    path.write_bytes(bundled()["iris-mlp"].with_name("iris.csv").read_bytes())
    return path


def test_shares_give_the_samples_of_three_entries(iris: Path):
    parts = build(
        loads(f"  dataset: {TABLE}\n  split: {{train: 0.6, valid: 0.3, test: 0.1, seed: 5, stratify: true}}\n")
    )
    for name, loader in parts.loaders.items():
        expected = Table(iris, "species", split=name, valid=0.3, test=0.1, seed=5, stratify=True)
        assert len(expected) == {"train": 90, "valid": 45, "test": 15}[name]
        inputs, targets = (side.numpy() for side in loader.dataset.tensors)
        assert np.array_equal(inputs, expected.data) and np.array_equal(targets, expected.targets)
        assert np.bincount(targets).tolist() == [len(expected) // 3] * 3


def test_train_is_what_the_others_leave_and_the_seed_is_written(iris: Path):
    shares = {"path": str(iris), "target": "species", "valid": 0.25, "test": 0.0, "seed": 0}
    expected = {name: ("Table", shares | {"split": name}) for name in ("train", "valid")}
    assert splits(f"  dataset: {TABLE}\n  split: {{valid: 0.25}}\n") == expected
    assert splits(f"  dataset: {TABLE}\n  split: {{train: 0.75, valid: 0.25}}\n") == expected


def test_without_shares_a_dataset_has_its_own_splits():
    names = ("train", "valid", "test")
    assert splits("  dataset: Digits\n") == {name: ("Digits", {"split": name}) for name in names}
    by_column = splits("  dataset: {type: Table, path: a.csv, target: y, split_column: part}\n  test: null\n")
    assert [one["split"] for _, one in by_column.values()] == ["train", "valid"]
    assert not any("valid" in one for _, one in by_column.values())


def test_a_text_is_divided_in_its_order():
    text = {"length": 8, "valid": 0.0, "test": 0.2}
    expected = {name: ("Text", text | {"split": name}) for name in ("train", "test")}
    assert splits("  dataset: Text(length=8)\n  split: {test: 0.2}\n") == expected


def test_the_saved_config_states_each_split(iris: Path):
    first = loads(f"  dataset: {TABLE}\n  split: {{valid: 0.2, test: 0.2, seed: 3}}\n")
    saved = first.resolved()
    assert "dataset:" not in saved and "seed: 3" in saved
    assert config.loads(saved, "checkpoint:config") == first
    assert first.origin(("data", "train", "target")) == "c.yaml:2"
    assert first.origin(("data", "test", "seed")) == "c.yaml:3"


def test_a_resumed_run_and_eval_have_the_same_samples(iris: Path):
    text = f"name: a\ndata:\n  dataset: {TABLE}\n  split: {{valid: 0.2, test: 0.2, seed: 3}}\n{REST}"
    Path("a.yaml").write_text(text.replace("epochs: 1", "epochs: 2"))
    Path("b.yaml").write_text(text.replace("name: a", "name: b"))
    for command in (("train", "a.yaml"), ("train", "b.yaml"), ("train", "--resume", "b", "train.epochs=2")):
        assert (done := tdt_here(*command, cwd=iris.parent)).returncode == 0, done.stderr
    for split in ("train", "valid", "test"):
        scores = [
            json.loads(tdt_here("eval", name, "--split", split, "--json", cwd=iris.parent).stdout) for name in "ab"
        ]
        assert scores[0]["samples"] == (90 if split == "train" else 30)
        assert scores[0]["hex"] == scores[1]["hex"] and scores[0]["step"] == scores[1]["step"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("  dataset: {t}\n  split: {{train: 0.8, valid: 0.1, test: 0.2}}\n",
         ["3:10: data.split: must add up to 1, and adds up to 1.1; write train: 0.7, or leave train out"]),
        ("  dataset: {t}\n  split: {{valid: 0.5, test: 0.5}}\n",
         ["3:10: data.split: must leave samples for train: valid and test add up to 1; make them less than 1"]),
        ("  dataset: {t}\n  split: {{train: 0.9}}\n",
         ["3:10: data.split: needs the share of a split besides train; write {{valid: 0.1, test: 0.1}}, or one of them"]),
        ("  dataset: {t}\n  split: {{valid: -0.1, test: 0}}\n",
         ["3:18: data.split.valid: must be more than 0.0, got -0.1", "3:30: data.split.test: must be more than 0.0, got 0"]),
        ("  dataset: {t}\n  split: {{val: 0.1}}\n", ["3:11: data.split.val: unknown key; did you mean 'valid'?"]),
        ("  dataset: {t}\n",
         ["2:12: data.split: Table has no splits of its own; add split: {{valid: 0.1, test: 0.1}}, the shares of the samples"]),
        ("  datset: {t}\n", ["2:3: data.datset: unknown key; did you mean 'dataset'?"]),
        ("  dataset:\n", ["2:11: data.dataset: nothing is written here"]),
        ("  loader: {{}}\n", ["1:1: data.train: is missing; write it, or data.dataset"]),
        ("  dataset: Digitz\n", ["2:12: data.dataset: no dataset is called 'Digitz'; did you mean 'Digits'?"]),
        ("  dataset: Digits\n  split: {{valid: 0.1}}\n",
         ["3:3: data.split: is not used: Digits has its own splits; remove it"]),
        ("  dataset: Digits(train)\n", ["2:19: data.dataset.split: differs between the splits; remove it"]),
        ("  dataset: Text(tokens=bytes)\n  split: {{valid: 0.1, seed: 3}}\n",
         ["3:23: data.split.seed: is not used: Text has no argument seed; remove it"]),
        ("  dataset: {{type: Table, pth: a.csv, target: y, valid: 0.1}}\n  split: {{valid: 2}}\n  train: Digits\n",
         ["2:26: data.dataset.pth: unknown argument of Table; did you mean 'path'?",
          "2:49: data.dataset.valid: is written as data.split.valid",
          "3:18: data.split.valid: must be less than 1.0, got 2",
          "4:3: data.train: is written beside data.dataset, which stands for all splits; remove one of them"]),
        ("  train: Digits\n  split: {{valid: 0.1}}\n",
         ["3:3: data.split: is not used: it divides the samples of data.dataset, which is not written"]),
    ],
)  # fmt: skip
def test_mistakes_are_answered_once_at_their_place(data: str, expected: list[str]):
    assert mistakes(data.format(t=TABLE)) == [line.format() for line in expected]


def test_an_empty_split_is_reported_at_its_share(iris: Path):
    with pytest.raises(ConfigError) as caught:
        build(loads(f"  dataset: {TABLE}\n  split: {{valid: 0.2, test: 0.001}}\n"))
    assert caught.value.messages == ["c.yaml:3:29: data.test: has no samples: 0.001 of all is less than one"]


def test_a_file_that_is_missing_is_reported_once(iris: Path):
    iris.unlink()
    with pytest.raises(ConfigError) as caught:
        build(loads(f"  dataset: {TABLE}\n  split: {{valid: 0.2, test: 0.2}}\n"))
    assert caught.value.messages == [f"c.yaml:2:19: data.dataset: {iris}: No such file or directory"]


def test_the_command_line_replaces_one_split_or_all():
    digits = "  dataset: Digits\n"
    assert splits(digits, "data.test=null").keys() == {"train", "valid"}
    assert splits(digits, "data.test=Text")["test"] == ("Text", {})
    assert splits("  dataset: MNIST\n", "data.train.download=true")["train"] == (
        "MNIST", {"split": "train", "download": True}
    )  # fmt: skip
    assert splits("  train: MNIST\n", "data.dataset=Digits") == splits(digits)
    shares = "  dataset: NPZ(a.npz)\n  split: {valid: 0.1}\n".replace("(a.npz)", "(path='a.npz')")
    assert splits(shares, "data.split.valid=0.3", "data.dataset.x=other")["valid"][1]["valid"] == 0.3
    missing = "<command line>:1:12: data.train: nothing is written here, in 'data.train=null'"
    assert mistakes(digits, "data.train=null") == [missing]


def test_an_extending_config_replaces_one_split_or_all(tmp_path: Path):
    (tmp_path / "base.yaml").write_text(f"data: {{dataset: Digits}}\n{REST}")
    (tmp_path / "three.yaml").write_text(f"data: {{train: Digits, valid: Text}}\n{REST}")

    def extended(base: str, data: str) -> dict[str, str]:
        (tmp_path / "c.yaml").write_text(f"extends: {base}.yaml\ndata: {data}\n")
        return {name: one.name for name, one in config.load(tmp_path / "c.yaml").data.splits().items()}

    digits = dict.fromkeys(("train", "valid", "test"), "Digits")
    assert extended("base", "{test: Text, loader: {batch_size: 2}}") == digits | {"test": "Text"}
    assert extended("base", "{test: null}") == {"train": "Digits", "valid": "Digits"}
    assert extended("three", "{dataset: Digits}") == digits


def test_a_class_of_their_own_names_its_splits(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(registry.datasets, "entries", {})
    (tmp_path / "own.py").write_text(
        "from typing import Literal\nimport tdt\n\n"
        "class Half(tdt.utils.data.Dataset):\n"
        "    def __init__(self, n: int, split: Literal['train', 'test']) -> None:\n        self.n = n\n\n"
        "class Plain(tdt.utils.data.Dataset):\n    def __init__(self, n: int) -> None:\n        self.n = n\n"
    )
    file = tmp_path / "c.yaml"
    with imports.trusting():
        file.write_text(f"imports: own.py\ndata: {{dataset: Half(3)}}\n{REST}")
        assert config.load(file).data.splits().keys() == {"train", "test"}


OWN = """\
from pathlib import Path
import tdt


class Points(tdt.utils.data.Dataset):
    classes = ["even", "odd"]
    made = []

    def __init__(self, n: int, path: str | Path = "points.txt", seed: int = 0) -> None:
        if n < 0:
            raise ValueError(f"n must not be negative, got {n}")
        self.n, self.path = n, path
        self.targets = tdt.arange(n) % 2
        Points.made.append(self)

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return tdt.tensor([float(index), index % 2.0]), index % 2

    def sample_name(self, index):
        return f"point {index}"

    def source_files(self):
        return [str(self.path)]


class Several(Points):
    def __getitem__(self, index):
        return {"a": index + 0.5, "b": index, "target": index + 0.5}


class Endless(tdt.utils.data.Dataset):
    def __getitem__(self, index):
        return tdt.zeros(2), 0


class Stream(tdt.utils.data.IterableDataset):
    def __iter__(self):
        return iter(())
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch):
    """A function of the section `data` → the config that imports the classes of `OWN`."""
    monkeypatch.setattr(registry.datasets, "entries", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "points.txt").touch()

    def loaded(data: str, *overrides: str) -> config.Config:
        (tmp_path / "c.yaml").write_text(f"imports: own.py\ndata:\n{data}{REST}")
        with imports.trusting():
            return config.load(tmp_path / "c.yaml", overrides)

    return loaded


def mistakes_of(make) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        make()
    return [message.rpartition("/c.yaml:")[2] for message in caught.value.messages]


POINTS = "  dataset: Points(100)\n  split: {valid: 0.2, test: 0.1, seed: 3}\n"


def points(loader) -> list[int]:
    return [int(number) for number in loader.dataset.tensors[0].numpy()[:, 0]]


def test_a_class_of_their_own_is_divided_into_disjoint_shares_of_one_object(own):
    loaded = own(POINTS)
    instances = registry.datasets.find("Points").made
    instances.clear()  # of other tests
    parts = build(loaded)
    rows = {name: points(loader) for name, loader in parts.loaders.items()}
    assert {name: len(found) for name, found in rows.items()} == {"train": 70, "valid": 20, "test": 10}
    assert sorted(sum(rows.values(), [])) == list(range(100))
    assert rows["train"] != list(range(70))  # drawn at random
    assert len(instances) == 1
    again = {name: points(loader) for name, loader in build(own(POINTS, "seed=7")).loaders.items()}
    assert again == rows  # the seed of the run does not matter, that of the division does
    assert points(build(own(POINTS, "data.split.seed=4")).loaders["test"]) != rows["test"]
    assert parts.facts["classes"] == ["even", "odd"]


def test_stratified_shares_of_their_own_class_have_each_class_alike(own):
    parts = build(own("  dataset: Points(60)\n  split: {train: 0.5, valid: 0.5, stratify: true}\n"))
    for loader in parts.loaders.values():
        assert np.bincount(loader.dataset.tensors[1].numpy()).tolist() == [15, 15]


def test_the_saved_config_of_a_divided_class_is_the_same_config(own, tmp_path: Path):
    first = own(POINTS.replace("100", "n=100"), "data.dataset.path=points.txt")
    assert first.data.train.kwargs["dataset"].kwargs["path"] == str(tmp_path / "points.txt")
    saved = first.resolved()
    with imports.trusting():
        assert config.loads(saved, "checkpoint:config") == first
    assert first.origin(("data", "train", "dataset", "n")).endswith("c.yaml:3")
    assert first.origin(("data", "test", "seed")).endswith("c.yaml:4")


def test_samples_of_a_split_keep_names_targets_and_files(own, tmp_path: Path):
    from tdt.train.data.datasets import RandomSplit

    own(POINTS)
    whole = registry.datasets.find("Points")(50)
    part = RandomSplit(whole, "valid", valid=0.5, seed=1)
    chosen = [int(inputs[0]) for inputs, _ in part]
    assert chosen == sorted(chosen) and len(chosen) == 25
    assert [part.sample_name(i) for i in range(25)] == [f"point {row}" for row in chosen]
    assert part.targets.tolist() == [row % 2 for row in chosen]
    assert part.source_files() == ["points.txt"] and not hasattr(part, "batch")


def test_a_dataset_with_whole_batches_keeps_them(iris: Path):
    from tdt.train.data.datasets import RandomSplit

    whole = Table(iris, "species")
    part = RandomSplit(whole, "test", test=0.2)
    expected = [whole[row] for row in part.indices]
    inputs, targets = part.batch(slice(None))
    assert np.array_equal(inputs.numpy(), [row.numpy() for row, _ in expected])
    assert targets.tolist() == [target for _, target in expected] == part.targets.tolist()


def test_samples_with_several_inputs_are_divided(own):
    from tdt.train.data.datasets import RandomSplit

    own(POINTS)
    part = RandomSplit(registry.datasets.find("Several")(10), "train", valid=0.5)
    inputs, target = part[0]
    assert set(inputs) == {"a", "b"} and float(inputs["a"]) == target
    with pytest.raises(ValueError, match="the targets are not class numbers; leave it out"):
        RandomSplit(registry.datasets.find("Several")(10), "train", valid=0.5, stratify=True)


@pytest.mark.parametrize(
    ("data", "overrides", "expected"),
    [
        ("  dataset: Points(100)\n", [],
         "3:12: data.split: Points has no splits of its own; add split: {valid: 0.1, test: 0.1}, the shares of the samples"),
        ("  dataset: Points(100, m=3)\n  split: {valid: 0.1}\n", [],
         "3:24: data.dataset.m: unknown argument of Points; it takes: n, path, seed"),
        ("  dataset: Stream\n  split: {valid: 0.1}\n", [],
         "4:3: data.split: Stream is an IterableDataset, whose samples cannot be divided; write data.train, and data.valid and "
         "data.test, instead"),
        ("  dataset: Stream\n", [],
         "3:12: data.dataset: Stream is an IterableDataset, whose samples cannot be divided; write data.train, and data.valid "
         "and data.test, instead"),
        ("  dataset: Points(100)\n  split: {valid: 1.5}\n", [], "4:18: data.split.valid: must be less than 1.0, got 1.5"),
    ],
)  # fmt: skip
def test_mistakes_about_their_own_class_have_their_place(own, data: str, overrides: list[str], expected: str):
    assert mistakes_of(lambda: own(data, *overrides)) == [expected]


@pytest.mark.parametrize(
    ("data", "overrides", "expected"),
    [
        ("  dataset: Points(-1)\n  split: {valid: 0.1}\n", [], "3:12: data.dataset: n must not be negative, got -1"),
        (POINTS, ["data.dataset.n=-1"], "<command line>:1:16: data.dataset.0: n must not be negative, got -1"),
        ("  dataset: Endless\n  split: {valid: 0.1}\n", [],
         "3:12: data.dataset: Endless has no __len__, so that its samples cannot be divided into splits"),
        ("  dataset: Points(100)\n  split: {valid: 0.001}\n", [],
         "4:18: data.valid: has no samples: 0.001 of all is less than one"),
    ],
)  # fmt: skip
def test_what_building_shows_about_their_own_class_has_its_place(own, data: str, overrides: list[str], expected: str):
    assert mistakes_of(lambda: build(own(data, *overrides))) == [expected]


def test_a_resumed_run_of_a_divided_class_has_the_same_samples(own, tmp_path: Path):
    own(POINTS)
    text = (tmp_path / "c.yaml").read_text()
    (tmp_path / "a.yaml").write_text(f"name: a\n{text.replace('epochs: 1', 'epochs: 2')}")
    (tmp_path / "b.yaml").write_text(f"name: b\n{text}")
    for command in (("train", "a.yaml"), ("train", "b.yaml"), ("train", "--resume", "b", "train.epochs=2")):
        assert (done := tdt_here(*command, "--trust", cwd=tmp_path)).returncode == 0, done.stderr
    for split, samples in (("train", 70), ("valid", 20), ("test", 10)):
        scores = [
            json.loads(tdt_here("eval", name, "--split", split, "--json", "--trust", cwd=tmp_path).stdout)
            for name in "ab"
        ]
        assert scores[0]["samples"] == samples
        assert scores[0]["hex"] == scores[1]["hex"] and scores[0]["step"] == scores[1]["step"]
