"""Metrics against scikit-learn, over batches of unequal size."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tdt
from tdt.train.metrics import Accuracy, Loss, Mean
from tests.helpers import require

SIZES = (64, 64, 3)


@pytest.fixture
def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(n, 10)).astype(np.float32), rng.integers(0, 10, n)) for n in SIZES]


def test_accuracy_is_scikit_learns_over_all_samples(batches):
    metrics = require("sklearn.metrics")
    accuracy = Accuracy()
    for scores, targets in batches:
        accuracy.update(tdt.from_numpy(scores), tdt.from_numpy(targets), tdt.tensor(0.0))
    predicted = np.concatenate([scores for scores, _ in batches]).argmax(1)
    assert accuracy.compute() == metrics.accuracy_score(np.concatenate([t for _, t in batches]), predicted)


def test_loss_is_scikit_learns_log_loss_over_all_samples(batches):
    metrics = require("sklearn.metrics")
    loss, criterion = Loss(), tdt.nn.CrossEntropyLoss()
    for scores, targets in batches:
        output, target = tdt.from_numpy(scores), tdt.from_numpy(targets)
        loss.update(output, target, criterion(output, target))
    scores = np.concatenate([scores for scores, _ in batches]).astype(np.float64)
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    expected = metrics.log_loss(np.concatenate([t for _, t in batches]), shares, labels=range(10))
    assert loss.compute() == pytest.approx(expected, rel=1e-6)


def test_targets_may_be_probabilities():
    accuracy = Accuracy()
    accuracy.update(tdt.tensor([[0.0, 1.0], [1.0, 0.0]]), tdt.tensor([[0.2, 0.8], [0.1, 0.9]]), tdt.tensor(0.0))
    assert accuracy.compute() == 0.5


def test_accuracy_of_images_counts_pixels():
    scores, targets = np.zeros((2, 3, 4, 5), np.float32), np.zeros((2, 4, 5), np.int64)
    scores[:, 0] = 1
    targets[0, 0] = 2
    accuracy = Accuracy()
    accuracy.update(tdt.from_numpy(scores), tdt.from_numpy(targets), tdt.tensor(0.0))
    assert accuracy.compute() == pytest.approx(35 / 40)


def test_no_samples_have_no_mean():
    assert math.isnan(Accuracy().compute())


def test_a_metric_goes_on_from_its_state(batches):
    whole, first, rest = Accuracy(), Accuracy(), Accuracy()
    tensors = [(tdt.from_numpy(scores), tdt.from_numpy(targets), tdt.tensor(0.0)) for scores, targets in batches]
    for batch in tensors:
        whole.update(*batch)
    first.update(*tensors[0])
    rest.load_state_dict(first.state_dict())
    for batch in tensors[1:]:
        rest.update(*batch)
    assert rest.compute() == whole.compute()


def test_a_metric_that_defines_nothing_says_what_it_must():
    with pytest.raises(NotImplementedError, match="must define batch_sum"):
        Mean().update(tdt.zeros(1), tdt.zeros(1), tdt.tensor(0.0))
