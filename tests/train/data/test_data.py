"""Data in a config: paths, data sets without their files, what they learn, and what a checkpoint keeps of it."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt.train.config import ConfigError, load, loads
from tdt.train.data.loading import open_splits
from tdt.train.loop.build import build
from tdt.train.loop.evaluation import evaluate_checkpoint
from tdt.train.runs.run import find_checkpoint
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
    dataset = build(load(pets), training=False, splits=("valid",), data_state=facts).loaders["valid"].dataset
    changed = [rows[0], *(f"{float(r.split(',')[0]) * 10:.2f},{','.join(r.split(',')[1:])}" for r in rows[1:])]
    file.write_text("\n".join(changed))
    other = build(load(pets), training=False, splits=("valid",), data_state=facts).loaders["valid"].dataset
    weight = facts["state"]["columns"][0]
    back = [
        dataset.tensors[0][:, 0] * weight["scale"] + weight["shift"],
        other.tensors[0][:, 0] * weight["scale"] + weight["shift"],
    ]
    np.testing.assert_allclose(back[1].numpy(), back[0].numpy() * 10, rtol=1e-4, atol=1e-4)
    file.write_text("\n".join(rows))
    assert evaluate_checkpoint(path).scores == scores


def test_shapes_and_classes_need_no_table_once_it_was_learnt(pets):
    facts = build(load(pets)).facts
    shutil.rmtree(pets.parent / "rows")
    parts = build(load(pets), training=False, splits=(), data_state=facts)
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


def test_a_dry_run_counts_the_rows_of_every_split_of_a_table(pets):
    assert build(load(pets), splits=()).samples == {"train": 32, "valid": 8}
    config = load(pets, ["data.valid.path=other.csv"])
    with pytest.raises(ConfigError, match=r"data.valid.path: .*other.csv"):
        build(config, splits=())


def test_only_the_requested_splits_are_read(monkeypatch):
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
        monkeypatch.setattr("tdt.train.data.loading.PREPARED", limit)
        loader = tdt.train.data.loading.make_loader(split, config.data.loader, tdt.Generator())
        batches.append(next(iter(loader)))
        assert (type(loader.dataset).__name__ == "TensorDataset") is (limit > 0)
    assert all(a.equal(b) for a, b in zip(*batches, strict=True))


def test_samples_are_drawn_by_class_and_the_same_again(pets):
    rows = ["weight,colour,kind", *("1,black,cat" for _ in range(90)), *("2,brown,dog" for _ in range(10))]
    (pets.parent / "rows" / "pets.csv").write_text("\n".join(rows))
    share = {}
    for sampler in ("balanced", "[1, 0]", "{cat: 0, dog: 3}"):
        text = f"data.loader={{batch_size: 8, sampler: {sampler}}}"
        parts = [build(loads(load(pets, [text, "model=['LazyLinear(2)']"]).resolved())) for _ in range(2)]
        drawn = [tdt.cat([targets for _, targets in part.loaders["train"]]) for part in parts]
        assert drawn[0].equal(drawn[1]) and len(drawn[0]) == 80
        share[sampler] = drawn[0].float().mean().item()
    assert 0.35 < share.pop("balanced") < 0.65
    assert list(share.values()) == [0, 1]


@pytest.mark.parametrize("loader, expected", [
    ("sampler: [1]", "data.loader.sampler: has 1 weights, but data.train has classes up to 1"),
    ("sampler: {cat: 1}", "data.loader.sampler: needs a weight for each class of data.train: cat, dog; got cat"),
    ("sampler: [0, 0]", "data.loader.sampler: leaves no samples"),
    ("sampler: [1, -1]", "data.loader.sampler: a weight is a number, at least 0, got [1, -1]"),
    ("sampler: weighted", "data.loader.sampler: expected balanced, or the weight of each class"),
    ("sampler: balanced, shuffle: false", "data.loader.shuffle: is not used: sampler draws the order"),
    ("in_order: false", "data.loader.in_order: unknown key: a run whose batches have no fixed order cannot"),
    ("pin_memory: true", "data.loader.pin_memory: unknown key: has no effect here"),
    ("collate_fn: f", "data.loader.collate_fn: unknown key: takes a Python function"),
    ("multiprocessing_context: fork", "data.loader.multiprocessing_context: is not used: there are no workers"),
    ("multiprocessing_context: thread, num_workers: 1", "data.loader.multiprocessing_context: input should be 'fork'"),
])  # fmt: skip
def test_loader_options_that_do_not_do_are_refused_with_the_reason(pets, loader, expected):
    pets.write_text(pets.read_text().replace("{batch_size: 8}", f"{{{loader}}}"))
    with pytest.raises(ConfigError) as caught:
        build(load(pets))
    assert "pets.yaml:5:" in str(caught.value) and expected in str(caught.value)
    assert len(caught.value.problems) == 1


def test_samplers_need_classes(pets):
    text = (
        pets.read_text()
        .replace("kind, split=train", "weight, split=train")
        .replace("{batch_size: 8}", "{sampler: balanced}")
    )
    pets.write_text(text.replace("CrossEntropyLoss", "MSELoss"))
    with pytest.raises(
        ConfigError, match=r"data.loader.sampler: samples by class, but the targets of data.train are not"
    ):
        build(load(pets))


@pytest.mark.parametrize("loader", ["sampler: balanced", "sampler: [1, 3], num_workers: 1", "shuffle: true"])
def test_a_loader_resumes_in_the_middle_of_an_epoch(pets, loader):
    config = load(pets, [f"data.loader={{batch_size: 4, {loader}}}", "model=['LazyLinear(2)']"])
    one, other = (build(config).loaders["train"] for _ in range(2))
    epoch = iter(one)
    for _ in range(3):
        next(epoch)
    other.load_state_dict(one.state_dict())
    rest = [targets.tolist() for _, targets in epoch]
    assert [targets.tolist() for _, targets in other] == rest
    assert len(rest) == 5


def test_a_folder_of_images_trains_with_random_steps(tmp_path):
    rng = np.random.RandomState(0)
    for number, name in enumerate(("dark", "light")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for i in range(6):
            pixels = (rng.randint(0, 100, (9 + i, 10, 3)) + 150 * number).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{i}.png")
    (tmp_path / "folder.yaml").write_text("""
data:
  train: ImageFolder(images)
  valid: ImageFolder(images)
  transform: ["Resize([8, 8])", ToTensor, "Normalize(0.5, 0.5)"]
  augment: [RandomHorizontalFlip, "RandomRotation(10)", "ColorJitter(0.1, 0.1, 0.1, 0.05)"]
  loader: {batch_size: 4}
model: [Flatten, "Linear(192, 2)"]
loss: CrossEntropyLoss
metrics: [accuracy]
optimizer: SGD(lr=0.05)
train: {epochs: 4}
""")
    with Session.start(load(tmp_path / "folder.yaml"), root=tmp_path / "runs") as session:
        assert session.train().reason == "done"
        path = find_checkpoint(session.run.folder)
    assert evaluate_checkpoint(path).scores["accuracy"] == 1.0
    plain = load(tmp_path / "folder.yaml", ["data.transform=[ToTensor]", "model=[Flatten, LazyLinear(2)]"])
    with pytest.raises(
        ConfigError, match=r"sample 1 is of shape \(3, 10, 10\), and sample 0 of shape \(3, 9, 10\); put a R"
    ):
        build(plain)
    (tmp_path / "images" / "dark" / "0.png").write_bytes(b"no image")
    with pytest.raises(ConfigError, match=r"folder.yaml:3:\d+: data.train: .*0\.png: is not a readable image"):
        build(load(tmp_path / "folder.yaml"))


def test_a_random_transform_of_tensors_must_follow_the_conversion_to_tensors():
    steps = "data.augment=['RandomErasing(1.0, value=7)', 'RandomCrop(8, padding=1)']"
    loader = build(load("digits-cnn", [steps])).loaders["train"]
    images, _ = next(iter(loader))
    assert images.shape[1:] == (1, 8, 8) and all(bool((image == 7).any()) for image in images)
    assert not bool((next(iter(build(load("digits-cnn", [steps])).loaders["valid"]))[0] == 7).any())


@pytest.mark.parametrize("step", ["RandomCrop(8, padding=1)", "RandomHorizontalFlip", "RandomErasing"])
def test_a_random_step_for_every_split_is_refused(step: str):
    with pytest.raises(
        ConfigError, match=r"data.transform.1: is random, but applies to every split; move it to data.aug"
    ):
        build(load("digits-cnn", [f"data.transform=[ToTensor, '{step}']"]))


MASKS = """\
data:
  train: {type: NPZ, path: masks.npz, images: true}
  transform: [ToTensor]
  augment: [%s]
model: ["Conv2d(1, 2, 1)"]
loss: CrossEntropyLoss
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""


@pytest.fixture
def masks(tmp_path) -> Path:
    """Images of 8x8 with a class for each pixel."""
    images = np.random.default_rng(0).integers(0, 256, (8, 8, 8)).astype(np.uint8)
    np.savez(tmp_path / "masks.npz", x=images, y=(images > 128).astype(np.int64))
    return tmp_path


@pytest.mark.parametrize(
    "step",
    [
        "RandomHorizontalFlip",
        '"RandomCrop(8, padding=1)"',
        '"RandomRotation(10)"',
        "{type: RandomApply, transforms: [RandomVerticalFlip]}",
    ],
)
def test_a_random_step_that_moves_pixels_is_refused_where_targets_are_images(step, masks):
    with pytest.raises(ConfigError) as caught:
        build(loads(MASKS % f"ColorJitter(0.2), {step}", str(masks / "c.yaml")))
    (problem,) = caught.value.problems
    assert (problem.source.line, problem.key) == (4, "data.augment.1")
    assert "not of the target, which is an image too (8x8)" in problem.message


def test_random_colours_leave_image_targets_right(masks):
    both = "ColorJitter(0.2), GaussianBlur(3), {type: RandomApply, transforms: [ColorJitter(0.1)]}, RandomErasing"
    assert build(loads(MASKS % both, str(masks / "c.yaml"))).samples == {"train": 8}


def test_a_class_for_each_image_is_no_image(masks):
    np.savez(masks / "masks.npz", x=np.zeros((8, 8, 8), np.uint8), y=np.arange(8) % 2)
    config = (MASKS % "RandomHorizontalFlip").replace('["Conv2d(1, 2, 1)"]', '[Flatten, "Linear(64, 2)"]')
    assert build(loads(config, str(masks / "c.yaml"))).samples == {"train": 8}
