"""Check losses of classes before the run: the labels of every split, the model's outputs, and its last activation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tdt import Tensor, nn
from tdt.train._printable import counted
from tdt.train.config import ConfigErrors
from tdt.train.data.datasets._columns import is_number
from tdt.train.data.loading import Split
from tdt.train.data.targets import is_float
from tdt.train.model.objective import Objective, Term, compared, part_of

BY_CLASS = (nn.CrossEntropyLoss, nn.NLLLoss, nn.MultiMarginLoss)
BINARY = (nn.BCEWithLogitsLoss, nn.BCELoss)
OF_NUMBERS = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss)
_TO_CLASSES = "write loss: CrossEntropyLoss and end the model with an output for each class"
_OF_SCORES = "takes scores, and applies {} itself; remove {}"
_REMOVE = {  # loss → last layers that spoil it, and why
    nn.CrossEntropyLoss: (
        (nn.Softmax, nn.LogSoftmax, nn.Sigmoid, nn.LogSigmoid),
        _OF_SCORES.format("log-softmax", "{}"),
    ),
    nn.BCEWithLogitsLoss: ((nn.Sigmoid, nn.LogSigmoid, nn.Softmax, nn.LogSoftmax), _OF_SCORES.format("sigmoid", "{}")),
    nn.MultiLabelSoftMarginLoss: ((nn.Sigmoid, nn.LogSigmoid), _OF_SCORES.format("sigmoid", "{}")),
    nn.NLLLoss: ((nn.Softmax, nn.Sigmoid), "takes log-probabilities; replace {} by LogSoftmax(1)"),
}


def activation_advice(loss: nn.Module, last: nn.Module | None) -> str | None:
    """What is wrong with `last` as the layer before `loss`; None if nothing is."""
    for kind, (layers, advice) in _REMOVE.items():
        if isinstance(loss, kind) and isinstance(last, layers):
            return f"{type(loss).__name__} {advice.format(type(last).__name__)}"
    return None


def target_advice(loss: nn.Module, output: Any, target: Any, split: Split) -> str | None:
    """What to write if targets are classes where `loss` compares numbers, or the other way round; None if they fit."""
    if not isinstance(target, Tensor) or not isinstance(output, Tensor) or output.ndim > 2:
        return None
    of_classes, name, table = not target.is_floating_point(), type(loss).__name__, split.component.name == "Table"
    shape, one_column = tuple(target.shape[1:]), target.ndim == 2 and target.shape[1] == 1
    if isinstance(loss, BY_CLASS) and one_column:
        fix = "y.reshape(-1)" if of_classes else "y.astype('int64').reshape(-1)"
        fix = "set target_type: category" if table else f"save them as {fix}"
        return f"{name} takes class labels of shape (n,), but those of data.train are {_kind(target)} (n, 1); {fix}"
    if isinstance(loss, (*BINARY, *OF_NUMBERS)) and of_classes and not shape:
        binary = isinstance(loss, BINARY)
        compares = "0 and 1 as floats" if binary else "numbers"
        message = f"{name} compares {compares}, but the targets of data.train are classes; {_TO_CLASSES}"
        if table and not all(map(is_number, getattr(split.dataset, "classes", ()))):
            return message  # texts are no numbers
        fix = "set target_type: number" if table else "let data.train return floats of shape (n, 1)"
        return f"{message}; or, {'for a single output of 0 or 1' if binary else 'to predict numbers'}, {fix}"
    return None


def _kind(target: Tensor) -> str:
    return str(target.dtype).rpartition(".")[2]


def check_labels(name: str, split: Split, targets: Any, loss: Objective, errors: ConfigErrors) -> None:
    """Report labels that the model has no output for; warn if those of `data.train` are all one, or begin at 1.

    targets: of all samples of the split `name`, nested arrays (n, …).
    """
    for term, outputs in _of_classes(loss):
        labels = part_of(term.target, {"target": targets})
        if not isinstance(labels, np.ndarray) or not labels.size or is_float(labels) != isinstance(term.loss, BINARY):
            continue
        present = labels[labels != getattr(term.loss, "ignore_index", None)]
        wrong = None if isinstance(term.loss, BINARY) else label_out_of_range(split, name, labels, term.loss, outputs)
        if wrong is not None:
            errors.add(split.component, f"{wrong}, but the model has {counted(outputs, 'output')}, for the labels 0 to "
                       f"{outputs - 1}{_advice(present, outputs)}")  # fmt: skip
        elif name == "train" and present.size and labels.ndim <= 1 + isinstance(term.loss, BINARY):
            _check_variety(split, present, term, errors)


def label_out_of_range(split: Split, name: str, labels: np.ndarray, loss: nn.Module, outputs: int) -> str | None:
    """The first label that is not a class of a model with so many outputs, and its place: a row, a line or a file."""
    outside = ((labels < 0) | (labels >= outputs)) & (labels != getattr(loss, "ignore_index", None))
    if not outside.any():
        return None
    place = np.unravel_index(int(outside.argmax()), labels.shape)
    called = getattr(split.dataset, "sample_name", None)
    sample = f"sample {place[0]} of data.{name}" if called is None else called(int(place[0]))
    return f"{sample} has the label {labels[place]}"


def _advice(labels: np.ndarray, outputs: int) -> str:
    if labels.min() < 0:
        return f"; to leave such samples out, set ignore_index: {labels.min()} in the loss"
    if labels.min() == 1 and labels.max() == outputs:
        return "; labels begin at 0: save them as y - 1"
    return f"; end the model with {labels.max() + 1} outputs, or mend the label"


def _check_variety(split: Split, labels: np.ndarray, term: Term, errors: ConfigErrors) -> None:
    lowest, highest = labels.min(), labels.max()
    if lowest == highest:
        errors.warn(split.component, f"every sample has the label {lowest}; a model learns nothing from a single class")
    elif lowest == 1 and getattr(term.loss, "ignore_index", 0 if isinstance(term.loss, BINARY) else None) != 0:
        errors.warn(split.component, f"the labels are 1 to {highest}, so that output 0 of the model has no sample; labels "
                    "begin at 0: save them as y - 1")  # fmt: skip


def _of_classes(loss: Objective) -> Iterator[tuple[Term, int]]:
    """The losses of classes that compare targets of the data, with the number of the model's outputs."""
    for term in loss.terms if loss.last_call else ():
        if term.target.split("/")[0] == "target" and isinstance(term.loss, (*BY_CLASS, *BINARY)):
            output, _ = compared(term, **loss.last_call)
            yield term, output.shape[1] if output.ndim > 1 else 1
