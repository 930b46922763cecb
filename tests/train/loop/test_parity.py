"""A config and the PyTorch script that says the same, with the same seed, have the same loss curve."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tdt.train.config import load
from tdt.train.logging.events import EpochDone, Events
from tdt.train.loop.build import build
from tdt.train.loop.trainer import Trainer
from tdt.train.runs.checkpoint import CheckpointStore
from tests.helpers import require_torch

torch = require_torch()


@pytest.fixture
def _double(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Everything in float64 in PyTorch's scripts."""
    scripts = importlib.import_module("tests.parity_scripts._data")
    original = scripts.load

    def load_double(**options: Any) -> Any:
        loaders = original(**options)
        for loader in loaders.values():
            inputs, targets = loader.dataset.tensors
            loader.dataset.tensors = inputs.double(), targets
        return loaders

    monkeypatch.setattr(scripts, "load", load_double)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def curve(name: str, folder: Path, *overrides: str) -> list[float]:
    """Each epoch's mean training loss."""
    losses: list[float] = []
    events = Events()
    events.subscribe(lambda event: losses.append(event.scalars["train_epoch/loss"]), EpochDone)
    Trainer(build(load(name, overrides)), events, CheckpointStore(folder), {}).fit()
    return losses


def script(name: str, **options: Any) -> list[float]:
    return importlib.import_module(f"tests.parity_scripts.{name}").main(**options)["train"]


def difference(ours: list[float], theirs: list[float]) -> float:
    """The largest one of an epoch, relative."""
    assert len(ours) == len(theirs)
    return float(np.max(np.abs(np.subtract(ours, theirs)) / theirs))


def test_digits_mlp_has_pytorchs_loss_curve(tmp_path):
    assert difference(curve("digits-mlp", tmp_path), script("digits_mlp")) < 1e-6


@pytest.mark.usefixtures("_double")
def test_digits_cnn_with_dropout_has_pytorchs_loss_curve(tmp_path):
    """In float64. In float32 PyTorch itself ends 3e-3 away once its first weights differ by one rounding: a ReLU or a
    maximum that falls to the other side changes a step by far more than a rounding."""
    ours = curve("digits-cnn", tmp_path, "dtype=float64", "train.epochs=4")
    assert difference(ours, script("digits_cnn", epochs=4)) < 1e-12


def test_digits_cnn_in_float32_has_pytorchs_loss_curve_at_a_calmer_setting(tmp_path):
    ours = curve("digits-cnn", tmp_path, "optimizer.lr=5e-3", "init=null", "train.epochs=4")
    assert difference(ours, script("digits_cnn", epochs=4, lr=5e-3, init=False)) < 1e-6


def test_another_seed_has_pytorchs_curve_too(tmp_path):
    ours = curve("digits-mlp", tmp_path, "seed=7", "train.epochs=3")
    assert difference(ours, script("digits_mlp", epochs=3, seed=7)) < 1e-6
