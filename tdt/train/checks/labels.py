"""Check losses of classes before the run: the labels of every split, the model's outputs, and its last activation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import Tensor, nn
from tdt.train._printable import counted
from tdt.train.config import ConfigErrors
from tdt.train.data.datasets._columns import is_number
from tdt.train.data.loading import Split, unsharded
from tdt.train.data.targets import is_float
from tdt.train.errors import StepError
from tdt.train.model.objective import Objective, Term, compared, part_of

if TYPE_CHECKING:
    from tdt.train.loop.parts import Parts

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


_NEEDED = {  # loss → the activation that it needs, and the loss that applies it itself
    nn.BCELoss: "takes probabilities; end the model with Sigmoid, or write loss: BCEWithLogitsLoss",
    nn.NLLLoss: "takes log-probabilities; end the model with LogSoftmax(1), or write loss: CrossEntropyLoss",
}
_OF_ANY_SIGN = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def activation_advice(loss: nn.Module, last: nn.Module | None) -> str | None:
    """What is wrong with `last` as the layer before `loss`; None if nothing is."""
    if isinstance(last, _OF_ANY_SIGN):
        return next(
            (f"{type(loss).__name__} {needs}" for kind, needs in _NEEDED.items() if isinstance(loss, kind)), None
        )
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
    found = f"the targets of data.train are {_kind(target)}"
    if isinstance(loss, BY_CLASS) and (one_column or not (of_classes or shape)):
        steps = ["y", *([] if of_classes else ["astype('int64')"]), *(["reshape(-1)"] if one_column else [])]
        fix = "set target_type: category" if table else f"save them as {'.'.join(steps)}"
        return (
            f"{name} takes class labels, integers of shape (n,), but {found} (n{', 1' if one_column else ','}); {fix}"
        )
    if not isinstance(loss, (*BINARY, *OF_NUMBERS)):
        return None
    if of_classes and shape:
        return f"{name} compares floats, but {found}; save them as y.astype('float32')"
    if not of_classes and not shape and output.ndim == 2 and output.shape[1] == 1:
        return f"outputs are of shape (n, 1), but {found} (n,); save them as y.reshape(-1, 1)"
    return _number_advice(loss, split, table) if of_classes else None


def _number_advice(loss: nn.Module, split: Split, table: bool) -> str:
    """What to write if `loss` compares numbers, and targets are class numbers."""
    binary, name = isinstance(loss, BINARY), type(loss).__name__
    compares = "0 and 1 as floats" if binary else "numbers"
    message = f"{name} compares {compares}, but the targets of data.train are classes; {_TO_CLASSES}"
    if table and not all(map(is_number, getattr(split.dataset, "classes", ()))):
        return message  # texts are no numbers
    fix = "set target_type: number" if table else "let data.train return floats of shape (n, 1)"
    return f"{message}; or, {'for a single output of 0 or 1' if binary else 'to predict numbers'}, {fix}"


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
        binary = isinstance(term.loss, BINARY)
        wrong = None if binary else label_out_of_range(split.dataset, name, labels, term.loss, outputs)
        if wrong is not None:
            errors.add(split.component, f"{wrong}, {_few_outputs(present, outputs)}")
        elif name == "train" and present.size and labels.ndim <= 1 + binary:
            _check_variety(split, present, term, errors)


def label_error(name: str, parts: Parts, targets: Any, indices: Sequence[int]) -> StepError | None:
    """The error for a batch of the split `name` with a label that the model has no output for; it names the first sample.

    Labels that a dataset knows only as it reads its samples are checked here, the others by `check_labels`.

    Args:
        indices: of the batch's samples in the split.
    """
    component = parts.config.data.splits()[name]
    for term, outputs in _of_classes(parts.loss):
        labels = part_of(term.target, {"target": targets})
        if isinstance(term.loss, BINARY) or not isinstance(labels, Tensor) or labels.is_floating_point():
            continue
        values, dataset = labels.cpu().numpy(), getattr(unsharded(parts.loaders[name]), "dataset", None)
        wrong = label_out_of_range(dataset, name, values, term.loss, outputs, indices)
        if wrong is not None:
            present = values[values != getattr(term.loss, "ignore_index", None)]
            return StepError(f"{component.source}: data.{name}: {wrong}, {_few_outputs(present, outputs)}")
    return None


def label_out_of_range(
    dataset: Any, name: str, labels: np.ndarray, loss: nn.Module, outputs: int, indices: Sequence[int] | None = None
) -> str | None:
    """The first label that is not a class of a model with so many outputs, and its place: a row, a line or a file.

    indices: of the labels' samples in the split `name`; by default they are all of its samples.
    """
    outside = ((labels < 0) | (labels >= outputs)) & (labels != getattr(loss, "ignore_index", None))
    if not outside.any():
        return None
    place = np.unravel_index(int(outside.argmax()), labels.shape)
    called, index = getattr(dataset, "sample_name", None), int(place[0])
    index = index if indices is None else indices[index]
    sample = f"sample {index} of data.{name}" if called is None else called(index)
    return f"{sample} has the label {labels[place]}"


def _few_outputs(labels: np.ndarray, outputs: int) -> str:
    return (
        f"but the model has {counted(outputs, 'output')}, for the labels 0 to {outputs - 1}{_advice(labels, outputs)}"
    )


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
