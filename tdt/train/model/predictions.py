"""Predictions from a model's outputs: a class, labels, numbers, or a class for each pixel or position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from tdt import Tensor, nn
from tdt.nn.functional import softmax
from tdt.train.metrics import Reading
from tdt.train.model.deciding import named


@dataclass(frozen=True, repr=False)
class Prediction:
    """The prediction for the input `name`, or why there is none (`error`). Only the fields that apply are filled.

    Attributes:
        classes: of a classifier: (class, probability), the most likely first.
        labels: of a multi-label classifier: (label, probability), in the order of the model's outputs.
        threshold: the probability above which a label is present.
        positions: a class number for each pixel (height, width), position of a sequence (length,), or voxel.
        chances: the probability of each of these.
        names: the names of the classes, by number.
        values: of a regression: its numbers, flat, in the unit of the target.
        shape: of the values, if they are not one row.
        tasks: of a model with several outputs: the prediction for each, by the name of its loss.
    """

    name: str
    classes: tuple[tuple[str, float], ...] = ()
    values: tuple[float, ...] = ()
    error: str | None = None
    labels: tuple[tuple[str, float], ...] = ()
    threshold: float | None = None
    positions: np.ndarray | None = None
    chances: np.ndarray | None = None
    names: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    tasks: Mapping[str, Prediction] = field(default_factory=dict)

    @property
    def label(self) -> str | None:
        """The most likely class; None if the model predicts numbers."""
        return self.classes[0][0] if self.classes else None

    @property
    def probability(self) -> float | None:
        """Probability of `label`."""
        return self.classes[0][1] if self.classes else None

    @property
    def probabilities(self) -> dict[str, float]:
        """Probability of each class, the most likely first, or of each label."""
        return dict(self.classes or self.labels)

    @property
    def value(self) -> float | None:
        """The number of a model that predicts one."""
        return self.values[0] if len(self.values) == 1 else None

    def __repr__(self) -> str:
        """The fields that apply."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "names"}
        filled = (f"{k}={v!r}" for k, v in values.items() if isinstance(v, np.ndarray) or v not in (None, (), {}))
        return f"Prediction({', '.join(filled)})"

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.name}: {self.error}"
        if self.tasks:
            return f"{self.name}: " + "; ".join(f"{task} {part._content()}" for task, part in self.tasks.items())
        return f"{self.name}: {self._content()}"

    def _content(self) -> str:
        if self.positions is not None:
            return ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        ranked = self.classes[:5] or [(name, self.probabilities[name]) for name in self.present]
        return ", ".join(f"{name} {chance:.4f}" for name, chance in ranked) or " ".join(
            f"{value:.6g}" for value in self.values[:5]
        )

    @property
    def present(self) -> tuple[str, ...]:
        """The labels whose probability is above the threshold.

        >>> from tdt.train.model.predictions import Prediction
        >>> Prediction("a.png", labels=(("cat", 0.9), ("dog", 0.2)), threshold=0.5).present
        ('cat',)
        """
        return tuple(name for name, chance in self.labels if self.threshold is not None and chance > self.threshold)

    @property
    def counts(self) -> dict[str, int]:
        """The number of pixels or positions of each class.

        >>> import numpy as np
        >>> from tdt.train.model.predictions import Prediction
        >>> Prediction("a.png", positions=np.array([[0, 1], [1, 1]]), names=("sky", "sea")).counts
        {'sky': 1, 'sea': 3}
        """
        if self.positions is None:
            return {}
        counts = np.bincount(self.positions.reshape(-1), minlength=len(self.names))
        return dict(zip(self.names, counts.tolist(), strict=True))

    def resized(self, height: int, width: int) -> Prediction:
        """With masks of this size, by nearest pixels; other predictions are unchanged.

        >>> import numpy as np
        >>> from tdt.train.model.predictions import Prediction
        >>> Prediction("a.png", positions=np.array([[0, 1]]), names=("sky", "sea")).resized(1, 4).positions
        array([[0, 0, 1, 1]])
        """
        if self.tasks:
            return replace(self, tasks={task: part.resized(height, width) for task, part in self.tasks.items()})
        if self.positions is None or self.positions.ndim != 2:
            return self
        rows, columns = (
            (2 * np.arange(size) + 1) * old // (2 * size)
            for size, old in zip((height, width), self.positions.shape, strict=True)
        )
        place = np.ix_(rows, columns)
        chances = None if self.chances is None else self.chances[place]
        return replace(self, positions=self.positions[place], chances=chances)


def predictions_of(
    loss: nn.Module,
    output: Tensor,
    inputs: Sequence[str],
    classes: Sequence[str] = (),
    image: tuple[int, ...] = (),
) -> Iterator[Prediction]:
    """The prediction for each sample of a batch, as `loss` interprets outputs.

    Args:
        output: (n, …), as the loss takes it.
        inputs: the samples' names.
        classes: names of the classes, if they have any.
        image: height and width of the model's input, if it is an image.

    >>> import tdt
    >>> from tdt.train.model.predictions import predictions_of
    >>> next(predictions_of(tdt.nn.BCELoss(), tdt.tensor([[0.9, 0.25]]), ["a"], ["cat", "dog"])).labels
    (('cat', 0.8999999761581421), ('dog', 0.25))
    """
    reading = Reading.of(loss)
    if reading.threshold is not None:
        chances = (output if isinstance(loss, nn.BCELoss) else output.sigmoid()).double().cpu().numpy()
        yield from _binary(chances, inputs, list(classes), image)
    elif isinstance(loss, (nn.CrossEntropyLoss, nn.NLLLoss)) and output.ndim >= 2:
        chances = softmax(output.double(), 1).cpu().numpy()
        if chances.ndim == 2:
            names = named(list(classes), chances.shape[1])
            yield from (_ranked(name, names, row.tolist()) for name, row in zip(inputs, chances, strict=True))
        else:
            yield from _by_position(chances, inputs, list(classes))
    else:
        values = output.double().cpu().numpy()
        shape = values.shape[1:] if values.ndim > 2 else ()
        for name, row in zip(inputs, values.reshape(len(values), -1), strict=True):
            yield Prediction(name, values=tuple(row.tolist()), shape=shape)


def _ranked(name: str, names: Sequence[str], chances: Sequence[float]) -> Prediction:
    ranked = sorted(zip(names, chances, strict=True), key=lambda pair: -pair[1])
    return Prediction(name, classes=tuple(ranked), names=tuple(names))


def _binary(
    chances: np.ndarray, inputs: Sequence[str], classes: list[str], image: tuple[int, ...]
) -> Iterator[Prediction]:
    """From probabilities: (n,) or (n, 1) yes or no, (n, labels), or (n, labels, …), which may lack the 1 for one label."""
    yes_or_no = classes if len(classes) == 2 else ["no", "yes"]
    if image and chances.shape[1:] == image:
        chances = chances[:, None]
    flat = chances.reshape(len(chances), -1)
    if flat.shape[1] == 1:
        for name, (yes,) in zip(inputs, flat.tolist(), strict=True):
            yield _ranked(name, yes_or_no, [1 - yes, yes])
    elif chances.ndim == 2:
        names = named(classes, flat.shape[1])
        for name, row in zip(inputs, flat.tolist(), strict=True):
            yield Prediction(name, labels=tuple(zip(names, row, strict=True)), threshold=0.5)
    elif chances.shape[1] == 1:
        yield from _by_position(np.concatenate([1 - chances, chances], 1), inputs, yes_or_no)
    else:
        names = named(classes, chances.shape[1])
        each = [_by_position(np.stack([1 - one, one], 1), inputs, ["no", "yes"]) for one in np.moveaxis(chances, 1, 0)]
        for name, parts in zip(inputs, zip(*each, strict=True), strict=True):
            yield Prediction(name, tasks=dict(zip(names, parts, strict=True)))


def _by_position(chances: np.ndarray, inputs: Sequence[str], classes: list[str]) -> Iterator[Prediction]:
    """From probabilities (n, classes, …): the most likely class at each place. Of equals the first counts, as in metrics;
    a binary output is above its threshold only if it is greater."""
    names = tuple(named(classes, chances.shape[1]))
    kind = np.uint8 if len(names) <= 256 else np.int32
    for name, sample in zip(inputs, chances, strict=True):
        yield Prediction(name, positions=sample.argmax(0).astype(kind), chances=sample.max(0), names=names)
