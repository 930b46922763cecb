"""Metrics against scikit-learn, over batches of unequal size."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import tdt
from tdt import nn
from tdt.train.config import ConfigError, loads, registry
from tdt.train.loop.build import build
from tdt.train.metrics import (
    AUROC,
    F1,
    MAE,
    MSE,
    R2,
    RMSE,
    Accuracy,
    AveragePrecision,
    Dice,
    IoU,
    Loss,
    Mean,
    Metric,
    Perplexity,
    Precision,
    Reading,
    Recall,
    TopK,
)
from tests.helpers import require

SIZES = (64, 64, 3)
CUTS = np.cumsum(SIZES)[:-1]
CLASSES, YES_NO = Reading(ignore_index=-100), Reading.of(nn.BCEWithLogitsLoss())
AVERAGES = ("micro", "macro", "weighted")


def fed(metric: Metric, scores: Any, targets: Any, reading: Reading = CLASSES, cuts: Any = CUTS) -> Metric:
    """The metric after the samples, in batches."""
    metric.reading = reading
    for part, target_part in zip(np.split(scores, cuts), np.split(targets, cuts), strict=True):
        metric.update(tdt.from_numpy(part.copy()), tdt.from_numpy(target_part.copy()), tdt.tensor(0.0))
    return metric


def softmax(scores: np.ndarray) -> np.ndarray:
    return special.softmax(scores.astype(np.float64), axis=1)


def classes(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores of 6 classes and right ones: any; with many ties; class 2 never right or never predicted; one class alone."""
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(size=(sum(SIZES), 6)).astype(np.float32), rng.integers(0, 6, sum(SIZES))
    scores[np.arange(len(targets)), targets] += 1
    if kind == "ties":
        scores = scores.round()
    elif kind == "missing":
        targets[targets == 2] = 3
    elif kind == "never":
        scores[:, 2] = -9
        targets[targets == 2] = 3
    elif kind == "one":
        targets[:] = 4
    return scores, targets


def answers(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Logits and yes or no: one output; several; with ties; without any yes in the second; with none at all."""
    rng = np.random.default_rng(1)
    outputs = 1 if kind == "one" else 4
    scores = rng.normal(size=(sum(SIZES), outputs)).astype(np.float32)
    targets = (rng.random(scores.shape) < 0.3).astype(np.float32)
    scores += targets
    if kind == "ties":
        scores = scores.round()
    elif kind == "missing":
        targets[:, 1] = 0
    elif kind == "none":
        targets[:] = 0
    return scores, targets


KINDS = ("any", "ties", "missing", "never", "one")
ANSWERS = ("one", "several", "ties", "missing", "none")
RATIOS = {"precision_score": Precision, "recall_score": Recall, "f1_score": F1, "jaccard_score": IoU}


@pytest.mark.parametrize("kind", KINDS)
def test_accuracy_is_scikit_learns_over_all_samples(kind: str):
    metrics = require("sklearn.metrics")
    scores, targets = classes(kind)
    assert fed(Accuracy(), scores, targets).compute() == metrics.accuracy_score(targets, scores.argmax(1))


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_ratios_by_class_are_scikit_learns(ratio: str, kind: str, average: str):
    expected = getattr(require("sklearn.metrics"), ratio)
    scores, targets = classes(kind)
    computed = fed(RATIOS[ratio](average=average), scores, targets).compute()
    assert computed == pytest.approx(expected(targets, scores.argmax(1), average=average, zero_division=0), rel=1e-14)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("ratio", RATIOS)
def test_ratios_of_yes_and_no_are_scikit_learns(ratio: str, kind: str, average: str):
    expected = getattr(require("sklearn.metrics"), ratio)
    scores, targets = answers(kind)
    computed = fed(RATIOS[ratio](average=average), scores, targets, YES_NO).compute()
    settings = {"average": average} if kind != "one" else {}
    assert computed == pytest.approx(expected(targets, scores > 0, zero_division=0, **settings), rel=1e-14)


@pytest.mark.parametrize("kind", ANSWERS)
def test_accuracy_of_binary_outputs_counts_predictions(kind: str):
    metrics = require("sklearn.metrics")
    scores, targets = answers(kind)
    hits = 1 - metrics.hamming_loss(targets, scores > 0)
    assert fed(Accuracy(), scores, targets, YES_NO).compute() == pytest.approx(hits, rel=1e-14)


def test_one_output_may_be_a_column_or_none():
    scores, targets = answers("one")
    expected = [fed(kind(), scores, targets, YES_NO).compute() for kind in (Accuracy, F1, AUROC)]
    for shaped in ((scores[:, 0], targets[:, 0]), (scores, targets[:, 0]), (scores[:, 0], targets)):
        assert [fed(kind(), *shaped, YES_NO).compute() for kind in (Accuracy, F1, AUROC)] == expected


def test_probabilities_above_a_half_are_positive():
    scores, targets = answers("several")
    shares = 1 / (1 + np.exp(-scores.astype(np.float64)))
    logits, reading = fed(F1(), scores, targets, YES_NO), Reading.of(nn.BCELoss())
    assert fed(F1(), shares, targets, reading).compute() == logits.compute()


@pytest.mark.parametrize("k", [1, 2, 5, 6])
def test_top_k_is_scikit_learns(k: int):
    metrics = require("sklearn.metrics")
    scores, targets = classes("any")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # k = 6 of 6 says nothing, it warns
        expected = metrics.top_k_accuracy_score(targets, scores, k=k, labels=range(6))
    assert fed(TopK(k=k), scores, targets).compute() == expected


def test_of_equal_scores_the_first_is_the_largest():
    scores, targets = classes("ties")
    accuracy = fed(Accuracy(), scores, targets).compute()
    assert fed(TopK(k=1), scores, targets).compute() == accuracy
    order = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    assert fed(TopK(k=2), scores, targets).compute() == (order == targets[:, None]).any(1).mean()


def test_a_class_whose_score_is_nan_is_not_among_the_top():
    scores = np.array([[math.nan, 1, 0], [0, math.nan, 1], [0, 1, math.nan]], np.float32)
    assert fed(TopK(k=2), scores, np.array([1, 1, 0]), cuts=[1]).compute() == pytest.approx(1 / 3)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize("kind", ["any", "ties"])
def test_areas_of_classes_are_scikit_learns(kind: str, average: str):
    metrics = require("sklearn.metrics")
    scores, targets = classes(kind)
    one_hot = np.eye(6)[targets]
    area = metrics.roc_auc_score(targets, softmax(scores), multi_class="ovr", average=average)
    assert fed(AUROC(average), scores, targets).compute() == pytest.approx(area, rel=1e-12)
    precision = metrics.average_precision_score(one_hot, softmax(scores), average=average)
    assert fed(AveragePrecision(average), scores, targets).compute() == pytest.approx(precision, rel=1e-12)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
@pytest.mark.parametrize("kind", ["one", "several", "ties"])
def test_areas_of_yes_and_no_are_scikit_learns(kind: str, average: str):
    metrics = require("sklearn.metrics")
    scores, targets = answers(kind)
    area, precision = (
        fed(AUROC(average), scores, targets, YES_NO),
        fed(AveragePrecision(average), scores, targets, YES_NO),
    )
    assert area.compute() == pytest.approx(metrics.roc_auc_score(targets, scores, average=average), rel=1e-12)
    expected = metrics.average_precision_score(targets, scores, average=average)
    assert precision.compute() == pytest.approx(expected, rel=1e-12)


def test_two_classes_have_the_area_of_the_second():
    metrics = require("sklearn.metrics")
    scores, targets = classes("any")
    scores, targets = scores[:, :2], targets % 2
    area = metrics.roc_auc_score(targets, softmax(scores)[:, 1])
    assert fed(AUROC(), scores, targets).compute() == pytest.approx(area, rel=1e-12)


def test_a_class_without_samples_has_no_area_and_is_left_out():
    metrics = require("sklearn.metrics")
    scores, targets = answers("missing")
    rest = [0, 2, 3]
    areas = [metrics.roc_auc_score(targets[:, i], scores[:, i]) for i in rest]
    assert fed(AUROC(), scores, targets, YES_NO).compute() == pytest.approx(np.mean(areas), rel=1e-12)
    expected = metrics.average_precision_score(targets[:, rest], scores[:, rest])
    assert fed(AveragePrecision(), scores, targets, YES_NO).compute() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", [AUROC, AveragePrecision])
def test_the_area_is_nan_where_no_class_has_one(kind: type):
    assert math.isnan(fed(kind(), *answers("none"), YES_NO).compute())


def test_of_one_class_only_every_score_is_right():
    scores, targets = classes("one")
    assert math.isnan(fed(AUROC(), scores, targets).compute())
    assert fed(AveragePrecision(), scores, targets).compute() == 1


@pytest.mark.parametrize("kind", [AUROC, AveragePrecision])
def test_a_score_that_is_nan_has_no_rank(kind: type):
    scores, targets = classes("any")
    scores[70, 1] = math.nan
    assert math.isnan(fed(kind(), scores, targets).compute())


@pytest.mark.parametrize("outputs", [1, 3])
def test_distances_are_scikit_learns(outputs: int):
    metrics = require("sklearn.metrics")
    rng = np.random.default_rng(2)
    targets = rng.normal(1000, 1, size=(sum(SIZES), outputs)).astype(np.float32)
    predictions = (targets + rng.normal(size=targets.shape)).astype(np.float32)
    pair = targets.astype(np.float64), predictions.astype(np.float64)
    assert fed(MAE(), predictions, targets).compute() == pytest.approx(metrics.mean_absolute_error(*pair), rel=1e-13)
    assert fed(MSE(), predictions, targets).compute() == pytest.approx(metrics.mean_squared_error(*pair), rel=1e-13)
    assert fed(RMSE(), predictions, targets).compute() == pytest.approx(
        metrics.mean_squared_error(*pair) ** 0.5, rel=1e-13
    )
    assert fed(R2(), predictions, targets).compute() == pytest.approx(metrics.r2_score(*pair), rel=1e-10)


def test_numbers_may_be_columns_or_not():
    rng = np.random.default_rng(2)
    predictions, targets = rng.normal(size=(2, sum(SIZES))).astype(np.float32)
    assert fed(R2(), predictions[:, None], targets).compute() == fed(R2(), predictions, targets).compute()


@pytest.mark.parametrize(("off", "expected"), [(0.0, 1.0), (0.5, 0.0)])
def test_targets_that_do_not_vary_are_met_or_not_as_scikit_learn_has_it(off: float, expected: float):
    metrics = require("sklearn.metrics")
    targets = np.full(sum(SIZES), 0.1, np.float32)
    assert (
        fed(R2(), targets + np.float32(off), targets).compute() == expected == metrics.r2_score(targets, targets + off)
    )


@pytest.mark.parametrize("kind", [MAE, MSE, RMSE, R2])
def test_a_number_that_is_nan_shows(kind: type):
    predictions = np.zeros(sum(SIZES), np.float32)
    predictions[3] = math.nan
    assert math.isnan(fed(kind(), predictions, np.arange(sum(SIZES), dtype=np.float32)).compute())


def test_one_sample_has_no_variance():
    assert math.isnan(fed(R2(), np.zeros(1), np.ones(1), cuts=[]).compute())


def tokens() -> tuple[np.ndarray, np.ndarray]:
    """Scores (n, 6, 7) and tokens (n, 7), a third of which is padding, class 0."""
    rng = np.random.default_rng(3)
    scores, targets = rng.normal(size=(sum(SIZES), 6, 7)).astype(np.float32), rng.integers(1, 6, (sum(SIZES), 7))
    targets[rng.random(targets.shape) < 0.3] = 0
    return scores, targets


def test_perplexity_is_that_of_pytorch_over_all_tokens_that_count():
    torch = require("torch")
    scores, targets = tokens()
    loss = torch.nn.functional.cross_entropy(torch.tensor(scores).double(), torch.tensor(targets), ignore_index=0)
    computed = fed(Perplexity(), scores, targets, Reading(ignore_index=0)).compute()
    assert computed == pytest.approx(math.exp(loss), rel=1e-6)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (Accuracy, lambda m, t, s: m.accuracy_score(t, s.argmax(1))),
        (F1, lambda m, t, s: m.f1_score(t, s.argmax(1), average="macro")),
        (lambda: TopK(2), lambda m, t, s: m.top_k_accuracy_score(t, s, k=2, labels=range(6))),
        (lambda: AUROC("micro"), lambda m, t, s: m.roc_auc_score(np.eye(6)[t], softmax(s), average="micro")),
    ],
)
def test_tokens_that_the_loss_ignores_do_not_count(metric: Callable[[], Metric], expected: Callable[..., float]):
    metrics = require("sklearn.metrics")
    scores, targets = tokens()
    rows, right = np.moveaxis(scores, 1, -1).reshape(-1, 6), targets.reshape(-1)
    computed = fed(metric(), scores, targets, Reading(ignore_index=0)).compute()
    assert computed == pytest.approx(expected(metrics, right[right != 0], rows[right != 0]), rel=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ignore_index": 0},
        {"weight": [9, 1, 1, 0.5, 1, 1]},
        {"weight": [9, 1, 1, 0.5, 1, 1], "ignore_index": 3, "label_smoothing": 0.1},
        {"reduction": "sum"},
    ],
)
@pytest.mark.parametrize("sample", [classes, tokens])
def test_the_loss_is_that_of_all_samples_as_one_batch(sample: Callable[..., Any], settings: dict[str, Any]):
    scores, targets = sample("any") if sample is classes else sample()
    settings = settings | ({"weight": tdt.tensor(settings["weight"])} if "weight" in settings else {})
    criterion, loss = nn.CrossEntropyLoss(**settings), Loss()
    loss.reading = Reading.of(criterion)
    for part, target_part in zip(np.split(scores, CUTS), np.split(targets, CUTS), strict=True):
        output, target = tdt.from_numpy(part.copy()), tdt.from_numpy(target_part.copy())
        loss.update(output, target, criterion(output, target))
    whole = criterion(tdt.from_numpy(scores), tdt.from_numpy(targets)).item()
    whole /= len(targets) if settings.get("reduction") == "sum" else 1
    assert loss.compute() == pytest.approx(whole, rel=1e-6)


def test_a_batch_of_which_nothing_counts_leaves_the_loss_as_it_was():
    criterion, loss = nn.CrossEntropyLoss(ignore_index=0), Loss()
    loss.reading = Reading.of(criterion)
    for target in (tdt.tensor([1]), tdt.tensor([0])):
        loss.update(tdt.zeros(1, 2), target, criterion(tdt.zeros(1, 2), target))
    assert loss.compute() == pytest.approx(math.log(2))


def test_targets_may_be_probabilities():
    scores, shares = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[0.2, 0.8], [0.1, 0.9]])
    expected = {Accuracy: 0.5, F1: 1 / 3, AUROC: math.nan}
    for kind, value in expected.items():
        assert fed(kind(), scores, shares, cuts=[1]).compute() == pytest.approx(value, nan_ok=True)


def test_accuracy_of_images_counts_pixels():
    scores, targets = np.zeros((2, 3, 4, 5), np.float32), np.zeros((2, 4, 5), np.int64)
    scores[:, 0] = 1
    targets[0, 0] = 2
    assert fed(Accuracy(), scores, targets, cuts=[1]).compute() == 35 / 40


@pytest.mark.parametrize("name", sorted(set(registry.metrics.names())))
def test_scores_without_samples_are_nan(name: str):
    assert math.isnan(registry.metrics.find(name)().compute())


@pytest.mark.parametrize("name", registry.metrics.names())
def test_a_metric_resumes_from_its_state_to_the_same_bits(name: str):
    make = registry.metrics.find(name)
    numbers = name in ("mae", "mse", "rmse", "r2")
    rng = np.random.default_rng(4)
    scores, targets = rng.normal(size=(2, sum(SIZES), 3)) if numbers else classes("any")
    batches = [
        (tdt.from_numpy(part.copy()), tdt.from_numpy(target_part.copy()), tdt.tensor(float(i)))
        for i, (part, target_part) in enumerate(zip(np.split(scores, CUTS), np.split(targets, CUTS), strict=True))
    ]
    whole, first = make(), make()
    before = make()
    before.load_state_dict(make().state_dict())  # of no samples
    for batch in batches:
        whole.update(*batch)
        before.update(*batch)
    first.update(*batches[0])
    rows = [first.take(1)]
    first.update(*batches[1])
    rows += [first.take(2)]
    assert not first.take(3) and list(first.parts) == [1, 2][: 2 * bool(rows[0])]
    state = first.state_dict()
    for value in state.values():
        assert isinstance(value, np.ndarray) or json.loads(json.dumps(value)) == value
    rest = make()
    rest.load_state_dict(state)
    for part in rows if rest.parts else ():
        rest.restore_rows(part)
    assert not rest.take(4)
    rest.update(*batches[2])
    assert rest.compute() == whole.compute() == before.compute()
    whole.reset()
    assert math.isnan(whole.compute())


@pytest.mark.parametrize(
    ("metric", "reading", "output", "target", "expected"),
    [
        (
            Accuracy(),
            CLASSES,
            (4, 3),
            (4, 1),
            r"Accuracy needs a score per class.* got outputs \(4, 3\) and .*\(4, 1\)",
        ),
        (Accuracy(), CLASSES, (4,), (4,), "Accuracy needs a score per class"),
        (F1(), YES_NO, (4, 3), (4,), "F1 compares each output with a target of its own"),
        (MSE(), CLASSES, (4, 3), (3, 4), "MSE compares each output with a target of its own"),
        (TopK(), CLASSES, (4, 3), (4,), "TopK: k=5, but there are 3 classes"),
        (TopK(), YES_NO, (4, 1), (4, 1), "TopK needs a score per class"),
        (Perplexity(), CLASSES, (4, 3), (4, 3), "Perplexity needs a score per class"),
    ],
)
def test_shapes_that_do_not_fit_are_named(metric: Metric, reading: Reading, output: Any, target: Any, expected: str):
    metric.reading = reading
    with pytest.raises(ValueError, match=expected):
        metric.update(tdt.zeros(output), tdt.zeros(target, dtype=tdt.int64), tdt.tensor(0.0))


def test_top_none_is_refused():
    with pytest.raises(ValueError, match="TopK: k must be at least 1, got 0"):
        TopK(0)


def test_a_metric_without_methods_names_those_to_define():
    with pytest.raises(NotImplementedError, match="must define batch_sum"):
        Mean().update(tdt.zeros(1), tdt.zeros(1), tdt.tensor(0.0))
    with pytest.raises(NotImplementedError, match="Metric must define reset"):
        Metric()


CLASS_METRICS = ("accuracy", "top_k", "precision", "recall", "f1", "auroc", "average_precision", "perplexity")
DATA = """\
data: {train: {type: NPZ, path: data.npz}, loader: {batch_size: 4}}
model: ["Linear(3, 1)"]
loss: %s
metrics:
  - %s
optimizer: SGD(lr=0.1)
train: {epochs: 1}
"""


def refusal(loss: str, metric: str, targets: np.ndarray, folder: Path, model: str = '"Linear(3, 1)"') -> str:
    """The message about a metric, at its line."""
    np.savez(folder / "data.npz", x=np.zeros((8, 3), np.float32), y=targets)
    text = (DATA % (loss, metric)).replace('"Linear(3, 1)"', model)
    with pytest.raises(ConfigError) as caught:
        build(loads(text, str(folder / "c.yaml")))
    (problem,) = caught.value.problems
    assert problem.source.line == 5
    return problem.message


@pytest.mark.parametrize("metric", CLASS_METRICS)
@pytest.mark.parametrize("loss", ["MSELoss", "L1Loss", "HuberLoss", "PoissonNLLLoss"])
def test_metrics_of_classes_are_refused_on_numbers(metric, loss, tmp_path):
    error = refusal(loss, metric, np.linspace(0, 1, 8, dtype=np.float32)[:, None], tmp_path)
    assert error.endswith(f"compares classes, but {loss} compares numbers; use mse, rmse, mae or r2")


@pytest.mark.parametrize("metric", ["mse", "rmse", "mae", "r2"])
def test_metrics_of_numbers_are_refused_on_classes(metric, tmp_path):
    error = refusal("CrossEntropyLoss", metric, np.arange(8) % 3, tmp_path, '"Linear(3, 3)"')
    assert error.endswith("compares numbers, but CrossEntropyLoss compares classes; use accuracy, f1 or auroc")
    error = refusal("BCEWithLogitsLoss", metric, np.ones((8, 1), np.float32), tmp_path)
    assert "BCEWithLogitsLoss compares classes" in error


def test_the_brier_score_of_probabilities_is_measured():
    brier = fed(MSE(), np.array([[0.5], [1.0]]), np.array([[1.0], [1.0]]), Reading.of(nn.BCELoss()), [1])
    assert brier.compute() == 0.125


@pytest.mark.parametrize("kind", [IoU, Dice])
def test_overlaps_of_masks_leave_out_ignored_pixels(kind: type[IoU | Dice]):
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(size=(2, 3, 4, 5)), rng.integers(0, 3, (2, 4, 5))
    targets[0, :2] = 7
    expected = []
    for number in range(3):  # pixel by pixel
        both = found = true = 0
        for place in np.ndindex(2, 4, 5):
            if targets[place] != 7:
                predicted = scores[place[0], :, place[1], place[2]].argmax() == number
                found, true = found + predicted, true + (targets[place] == number)
                both += predicted and targets[place] == number
        expected.append(both / (found + true - both) if kind is IoU else 2 * both / (found + true))
    metric = kind()
    metric.reading = Reading(ignore_index=7)
    metric.update(tdt.tensor(scores), tdt.tensor(targets), tdt.tensor(0.0))
    assert metric.compute() == pytest.approx(np.mean(expected), rel=1e-14)
