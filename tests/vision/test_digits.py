"""Digits against scikit-learn's copy, and its splits against their promise."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from tdt.utils.data import default_collate
from tdt.vision.datasets import Digits
from tdt.vision.transforms import Compose, Normalize, ToTensor

SIZES = {"train": 1149, "valid": 288, "test": 360}
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_digits.py"
DATA = Path(__file__).parents[2] / "tdt" / "vision" / "datasets" / "data"


def rows(images: np.ndarray, labels: np.ndarray) -> list[tuple[int, ...]]:
    """Every sample as a tuple of its pixels and its label, sorted."""
    return sorted(tuple(row) for row in np.column_stack([images.reshape(len(images), -1), labels]).astype(int).tolist())


def test_the_splits_together_are_scikit_learns_digits():
    source = pytest.importorskip("sklearn.datasets").load_digits()
    splits = [Digits(split) for split in SIZES]
    images = np.concatenate([split.data for split in splits]) * 16
    labels = np.concatenate([split.targets for split in splits])
    assert rows(images, labels) == rows(source.images, source.target)


def test_the_script_writes_the_bundled_file():
    pytest.importorskip("sklearn")
    generated = runpy.run_path(str(SCRIPT))["arrays"]()
    with np.load(DATA / "digits.npz") as stored:
        assert sorted(stored) == sorted(generated)
        for name, array in generated.items():
            assert stored[name].dtype == array.dtype
            np.testing.assert_array_equal(stored[name], array)


@pytest.mark.parametrize(("split", "size"), SIZES.items())
def test_every_split_has_its_size_and_each_class_its_share(split: str, size: int):
    digits = Digits(split)
    assert len(digits) == size
    total = np.bincount(np.concatenate([Digits(name).targets for name in SIZES]))
    share = np.bincount(digits.targets) - total * size / 1797
    # train gets what the other two leave, so its remainder may be two roundings away.
    assert abs(share).max() < (2 if split == "train" else 1)


def test_an_item_is_a_float_image_of_zero_to_one_and_an_int_label():
    image, label = Digits("valid")[3]
    assert (image.shape, image.dtype, type(label)) == ((8, 8), np.dtype("float32"), int)
    assert image.min() == 0
    assert image.max() == 1
    assert set(np.unique(Digits("train").data * 16)) == set(range(17))


def test_iterating_visits_every_item_once():
    assert [label for _, label in Digits("test")] == Digits("test").targets.tolist()


def test_transforms_apply_to_image_and_label():
    digits = Digits("test", transform=ToTensor(), target_transform=lambda label: label % 2)
    image, is_odd = digits[1]
    np.testing.assert_array_equal(image.numpy(), Digits("test").data[1][None])
    assert is_odd == Digits("test").targets[1] % 2


@pytest.mark.parametrize("transform", [None, ToTensor(), Compose([ToTensor(), Normalize(0.5, 0.5)])])
@pytest.mark.parametrize("target_transform", [None, lambda label: label / 2])
def test_a_batch_equals_the_collated_items(transform, target_transform):
    digits = Digits("valid", transform, target_transform)
    indices = [5, 0, 5, 287]
    for batch, items in zip(digits.batch(indices), default_collate([digits[i] for i in indices]), strict=True):
        assert batch.dtype == items.dtype
        np.testing.assert_array_equal(batch.numpy(), items.numpy())


def test_writing_into_a_batch_leaves_the_data_alone():
    digits = Digits("test")
    images, labels = digits.batch(slice(None))
    images.fill_(9)
    labels.fill_(99)
    assert digits.data.max() == 1
    assert digits.targets.max() == 9


def test_wrong_use_is_named():
    with pytest.raises(ValueError, match="split 'validation' is not one of train, valid, test"):
        Digits("validation")
    with pytest.raises(TypeError, match="takes one image only"):
        Digits("test", transform=np.flipud).batch([0])


def test_the_attribution_is_bundled():
    text = (DATA / "ATTRIBUTION.md").read_text()
    assert "Creative Commons Attribution 4.0" in text
    assert "Alpaydin" in text
