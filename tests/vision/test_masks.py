"""Images with masks: pairs by name, transforms that move both, and a model that learns them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tdt
from tdt.cli import run
from tdt.train.loop.evaluation import evaluate_checkpoint
from tdt.vision import transforms
from tdt.vision.datasets import ImageMasks
from tdt.vision.transforms.masks import transform_both

CONFIG = """\
name: run
device: cpu
data:
  train:
    type: ImageMasks
    images: photos/*.png
    masks: masks
    classes: {sky: "#000000", sun: [255, 0, 0]}
    valid: 0.25
    split: train
  valid:
    type: ImageMasks
    images: photos/*.png
    masks: masks
    classes: {sky: "#000000", sun: [255, 0, 0]}
    valid: 0.25
    split: valid
  augment: [RandomHorizontalFlip, "RandomCrop(12)", ColorJitter(0.1)]
  transform: ["Resize((12, 12), interpolation=nearest)", ToTensor]
  loader: {batch_size: 4}
model: ["Conv2d(3, 2, 1)"]
loss: CrossEntropyLoss
metrics: [iou, dice]
optimizer: Adam(lr=0.3)
train: {epochs: 5}
"""


def write_pairs(count: int = 8) -> None:
    """Photos of a bright square, and masks that show where it is."""
    rng = np.random.default_rng(0)
    for folder in ("photos", "masks"):
        Path(folder).mkdir()
    for number in range(count):
        top, left = rng.integers(0, 10, 2)
        photo, mask = np.full((16, 16, 3), 40, np.uint8), np.zeros((16, 16, 3), np.uint8)
        photo[top : top + 6, left : left + 6] = 200
        mask[top : top + 6, left : left + 6] = 255, 0, 0
        Image.fromarray(photo).save(f"photos/{number}.png")
        Image.fromarray(mask).save(f"masks/{number}.png")


def test_a_model_learns_masks_and_predicts_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs()
    Path("run.yaml").write_text(CONFIG)
    assert run(["train", "run.yaml"]) == 0
    scores = evaluate_checkpoint("runs/run/1/checkpoints/last.safetensors", "valid").scores
    assert scores["iou"] > 0.99 and scores["dice"] >= scores["iou"]
    assert run(["predict", "run", "photos", "--output", "found"]) == 0
    found = [np.asarray(Image.open(f"found/{number}.png")) for number in range(8)]
    truth = [mask for _, mask in ImageMasks("photos", "masks", {"sky": "#000000", "sun": "#ff0000"})]
    assert found[0].shape == (16, 16) and np.mean(np.array(found) == np.array(truth)) > 0.95  # the network's is 12 x 12


@pytest.mark.parametrize(
    "step",
    [
        transforms.RandomHorizontalFlip(),
        transforms.RandomVerticalFlip(),
        transforms.RandomCrop(5, padding=2),
        transforms.RandomResizedCrop(6, interpolation="nearest-exact"),
        transforms.RandomRotation(40),
        transforms.Resize(5, interpolation="nearest-exact"),
        transforms.CenterCrop(11),
        transforms.Pad(3),
    ],
    ids=lambda step: type(step).__name__,
)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_mask_moves_with_its_image(step: Any, as_tensor: bool):
    image = np.arange(1, 82, dtype=np.uint8).reshape(9, 9)
    inputs = tdt.tensor(image)[None] if as_tensor else image
    for seed in range(5):
        tdt.manual_seed(seed)
        moved, mask = transform_both([step], inputs, image - np.uint8(1))
        after = tdt.rand(1)
        tdt.manual_seed(seed)
        step(inputs)
        assert tdt.equal(after, tdt.rand(1))  # as many draws as of the image alone
        shown = np.asarray(moved)[0] if as_tensor else np.asarray(moved)
        assert np.array_equal(np.where(mask.numpy() == -100, 0, mask.numpy() + 1), shown)


def test_colors_change_the_image_alone():
    image = np.full((4, 4, 3), 100, np.uint8)
    mask = np.array([[0, 1, 2, 255]] * 4, np.uint8)
    steps = [
        transforms.ColorJitter(0.9),
        transforms.GaussianBlur(3),
        transforms.ToTensor(),
        transforms.Normalize(0.5, 0.1),
    ]
    changed, same = transform_both(steps, image, mask)
    assert same.tolist() == [[0, 1, 2, -100]] * 4 and changed.shape == (3, 4, 4)
    with pytest.raises(ValueError, match="RandomApply: with masks, write its transforms one by one"):
        transform_both([transforms.RandomApply([transforms.Pad(1)])], image, mask)


def test_files_without_a_partner_are_all_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(4)
    Path("masks/1.png").unlink()
    Path("photos/2.png").unlink()
    Path("photos/3.png").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        ImageMasks("photos", "masks", ["a"])
    expected = "photos/1.png has no mask; masks/2.png has no image; masks/3.png has no image"
    assert str(caught.value) == f"ImageMasks: {expected}"


def test_values_are_mapped_to_classes_and_unknown_ones_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs(1)
    Image.fromarray(np.array([[7, 9, 255] + [7] * 13] * 16, np.uint8)).save("masks/0.png")
    mask = ImageMasks("photos", "masks", {"cat": 9, "dog": 7})[0][1]
    assert mask[0, :4].tolist() == [1, 0, 255, 1]
    with pytest.raises(ValueError, match=r"masks/0\.png: has the value 9, which is that of no class"):
        ImageMasks("photos", "masks", {"dog": 7})[0]
    Image.new("L", (3, 2)).save("masks/0.png")
    with pytest.raises(ValueError, match=r"masks/0\.png: is 3x2, but its image 16x16"):
        ImageMasks("photos", "masks", ["a"])[0]
