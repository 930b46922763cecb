"""Collect summaries over the batches of a validation and write them to TensorBoard at its end.

Each collector keeps counts or the first samples, so that memory does not grow with the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import tdt
from tdt import Tensor
from tdt.train.logging.pictures import CaptionedSample, MaskSample, captioned, matrix, side_by_side
from tdt.train.metrics import Reading
from tdt.train.metrics.confusion import confusion_matrix
from tdt.utils.tensorboard import SummaryWriter
from tdt.utils.tensorboard.summary._curve import curve

_THRESHOLDS = 127


@dataclass
class EvaluatedBatch:
    """A batch of the validation: inputs, outputs, targets, predicted and true class numbers, and the names of the classes.

    names: empty if a sample may have several classes.
    """

    inputs: Any
    output: Tensor
    target: Tensor
    predictions: np.ndarray
    truth: np.ndarray
    names: list[str]


class Collector(Protocol):
    def see(self, batch: EvaluatedBatch) -> None:
        """Count a batch."""

    def write(self, writer: SummaryWriter, step: int) -> None:
        """Write the summary."""


class Samples:
    """The first `count` images with their predictions, or with `wrong` the first that are misclassified."""

    def __init__(self, count: int, wrong: bool, reading: Reading) -> None:
        self.count, self.wrong, self.reading, self.found = count, wrong, reading, list[CaptionedSample]()

    def see(self, batch: EvaluatedBatch) -> None:
        counted = batch.truth != self.reading.ignore_index
        is_shown = counted & (batch.predictions != batch.truth) if self.wrong else np.ones_like(counted)
        chosen = np.flatnonzero(is_shown)[: self.count - len(self.found)]
        probabilities = _probabilities(self.reading, batch) if len(chosen) else np.zeros(0)
        for i in chosen:
            image = batch.inputs[int(i)].cpu().numpy()
            target = batch.names[batch.truth[i]] if counted[i] else "none"
            prediction = batch.names[batch.predictions[i]]
            self.found.append(CaptionedSample(image, target, prediction, float(probabilities[i])))

    def write(self, writer: SummaryWriter, step: int) -> None:
        if self.found:
            tag = "valid/misclassified" if self.wrong else "valid/samples"
            writer.add_image(tag, captioned(self.found), step, dataformats="HWC")


class Masks:
    """The first `count` images with their true and predicted masks."""

    def __init__(self, count: int, ignored: int | None) -> None:
        self.count, self.ignored, self.found, self.names = count, ignored, list[MaskSample](), list[str]()

    def see(self, batch: EvaluatedBatch) -> None:
        shape = (len(batch.target), *batch.target.shape[-2:])
        truth, predictions = batch.truth.reshape(shape), batch.predictions.reshape(shape)
        truth = truth if self.ignored is None else np.where(truth == self.ignored, -1, truth)
        self.names = batch.names or ["0", "1"]
        for i in range(min(len(truth), self.count - len(self.found))):
            self.found.append(MaskSample(batch.inputs[i].cpu().numpy(), truth[i], predictions[i]))

    def write(self, writer: SummaryWriter, step: int) -> None:
        writer.add_image("valid/masks", side_by_side(self.found, self.names), step, dataformats="HWC")


class Confusion:
    """The confusion matrix."""

    def __init__(self, ignored: int | None) -> None:
        self.ignored, self.names = ignored, list[str]()
        self.counts: np.ndarray = np.zeros(0)  # (classes, classes)

    def see(self, batch: EvaluatedBatch) -> None:
        counted = batch.truth != self.ignored
        counts = confusion_matrix(batch.truth[counted], batch.predictions[counted], len(batch.names))
        self.counts, self.names = counts + (self.counts if self.names else 0), batch.names

    def write(self, writer: SummaryWriter, step: int) -> None:
        writer.add_image("valid/confusion", matrix(self.counts, self.names), step, dataformats="HWC")


class Curves:
    """Precision-recall curve of each class, from counts above evenly spaced thresholds."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.counts: np.ndarray = np.zeros(0)  # (right or wrong, classes, thresholds)
        self.names = list[str]()

    def see(self, batch: EvaluatedBatch) -> None:
        scores, right = _scores(self.reading, batch.output, batch.target)
        classes = scores.shape[1]
        places = np.floor(np.nan_to_num(scores) * (_THRESHOLDS - 1)).astype(np.int64).clip(0, _THRESHOLDS - 1)
        places += np.arange(classes) * _THRESHOLDS + np.where(right, 0, classes * _THRESHOLDS)
        counts = np.bincount(places.reshape(-1), minlength=2 * classes * _THRESHOLDS)
        self.counts = counts.reshape(2, classes, _THRESHOLDS) + (self.counts if self.names else 0)
        self.names = batch.names if len(batch.names) == classes else [str(i) for i in range(classes)]

    def write(self, writer: SummaryWriter, step: int) -> None:
        reached = self.counts[..., ::-1].cumsum(-1)[..., ::-1].astype(np.float64)
        for name, tp, fp in zip(self.names, *reached, strict=True):
            writer.add_pr_curve_raw(f"pr_curve/{name}", *curve(tp, fp), step, _THRESHOLDS)


def _probabilities(reading: Reading, batch: EvaluatedBatch) -> np.ndarray:
    """The probability of each sample's predicted class."""
    if reading.threshold is None:
        classes = batch.output.shape[1]
        scores = tdt.softmax(batch.output, 1).movedim(1, -1).reshape(-1, classes).float().cpu().numpy()
        return np.asarray(scores[np.arange(len(scores)), batch.predictions])
    yes = _of_yes(reading, batch.output).reshape(-1).float().cpu().numpy()
    return np.where(batch.predictions == 1, yes, 1 - yes)


def _of_yes(reading: Reading, output: Tensor) -> Tensor:
    """Probabilities of 1 for binary targets: of a loss with logits (threshold 0), or the outputs themselves."""
    return tdt.sigmoid(output) if reading.threshold == 0 else output


def _scores(reading: Reading, output: Tensor, target: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (rows, classes) and which of them are correct, without ignored targets."""
    if reading.threshold is not None:
        shape = (len(output), -1)
        return _of_yes(reading, output).reshape(shape).cpu().numpy(), target.reshape(shape).cpu().numpy() > 0.5
    classes = output.shape[1]
    scores = tdt.softmax(output, 1).movedim(1, -1).reshape(-1, classes).cpu().numpy()
    right = target.reshape(-1).cpu().numpy()
    counted = right != reading.ignore_index
    return np.asarray(scores[counted]), right[counted, None] == np.arange(classes)
