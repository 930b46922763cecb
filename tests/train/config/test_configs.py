"""The bundled configs train to what they promise."""

from __future__ import annotations

import statistics
from pathlib import Path

from tdt.train.config import load
from tdt.train.session import Session


def accuracy(name: str, root: Path, seed: int) -> float:
    """The accuracy on the test split of a run."""
    with Session.start(load(name, [f"seed={seed}", "device=cpu"]), root=root) as session:
        scores = session.train().test
    assert scores is not None
    return scores["accuracy"]


def test_digits_cnn_reaches_98_percent_over_five_seeds(tmp_path):
    found = [accuracy("digits-cnn", tmp_path, seed) for seed in range(5)]
    assert statistics.mean(found) >= 0.98, found


def test_digits_mlp_reaches_95_percent(tmp_path):
    assert accuracy("digits-mlp", tmp_path, 0) >= 0.95
