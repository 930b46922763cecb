"""Make tdt/vision/datasets/data/digits.npz from scikit-learn's copy of the UCI digits: `python scripts/make_digits.py`.

Splits are stratified: every class is shuffled by a fixed stream and dealt out in proportion, remainders to the classes
with the largest fractions. The same input gives the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

SIZES = {"train": 1149, "valid": 288, "test": 360}
TARGET = Path(__file__).parents[1] / "tdt" / "vision" / "datasets" / "data" / "digits.npz"


def shares(counts: np.ndarray, size: int, total: int) -> np.ndarray:
    """How many of each class go into a split of `size` out of `total`: proportional, by largest remainder."""
    exact = counts * size / total
    whole = np.floor(exact).astype(int)
    largest = np.argsort(whole - exact, kind="stable")[: size - whole.sum()]
    whole[largest] += 1
    return whole


def splits(labels: np.ndarray) -> np.ndarray:
    """The split of each sample, as an index into SIZES."""
    counts = np.bincount(labels)
    valid, test = (shares(counts, SIZES[name], len(labels)) for name in ("valid", "test"))
    stream = np.random.RandomState(0)  # NumPy keeps this stream as it is for all versions
    split = np.zeros(len(labels), np.uint8)
    for label in range(len(counts)):
        samples = stream.permutation(np.flatnonzero(labels == label))
        split[samples[: valid[label]]] = 1
        split[samples[valid[label] :][: test[label]]] = 2
    return split


def arrays() -> dict[str, np.ndarray]:
    """What the file holds: images (1797, 8, 8) of 0..16, labels (1797,), split (1797,)."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    labels = digits.target.astype(np.uint8)
    return {"images": digits.images.astype(np.uint8), "labels": labels, "split": splits(labels)}


if __name__ == "__main__":
    np.savez_compressed(TARGET, **arrays())
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")
