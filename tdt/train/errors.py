"""Exceptions that end a training: a non-finite loss, bad data, an error in the model, a request to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tdt import Tensor, nn
from tdt._compiled.function import Difference
from tdt.train._types import Nested

# Exceptions that datasets, layers and the machine raise. Any other is a bug of tdt and keeps its traceback.
EXPECTED_ERRORS = (TypeError, ValueError, LookupError, RuntimeError, ArithmeticError, MemoryError, OSError)
SHOWN = 10  # how many samples of a list a message names


class Stopped(Exception):
    """The run stopped between two batches after a signal; `reason` is the name of the signal."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"stopped by {reason}")


class StopTraining(Exception):
    """Raised by a callback to end the training: after the current step, with a validation, a checkpoint and the test.

    The run is done then, as after early stopping. The message is kept as the reason.
    """


class NonFiniteLoss(Exception):
    """The loss became NaN or infinite at `step`; `indices` are those of the batch's samples in the training data.

    On a GPU the loss is read only every few steps, so the batch is unknown and `indices` is empty.
    """

    def __init__(self, step: int, loss: float, indices: Sequence[int] = ()) -> None:
        self.step, self.loss, self.indices = step, loss, indices
        where = f"at step {step}, on the training samples {few(indices)}" if indices else f"by step {step}"
        super().__init__(f"the loss became {loss} {where}; try a lower learning rate, or train.clip_grad_norm")

    def __reduce__(self) -> Any:
        return NonFiniteLoss, (self.step, self.loss, self.indices)


class StepError(Exception):
    """Data, model or loss raised an exception (the cause). The message says which, and on which samples."""


class CompileError(Exception):
    """A compiled computation gives other bits than an ordinary one. source: the program that was recorded."""

    def __init__(self, message: str, source: str = "") -> None:
        self.source = source
        super().__init__(message)

    def __reduce__(self) -> Any:
        return CompileError, (str(self), self.source)

    @classmethod
    def of(cls, difference: Difference, model: nn.Module, where: str) -> CompileError:
        """The error for a difference in a computation of `model`."""
        named = chain(model.named_parameters(), model.named_buffers())
        name = next((f" of {name}" for name, tensor in named if tensor is difference.tensor), "")
        text = f"{where}: compiled, it differs from the ordinary one in {difference}{name}"
        return cls(
            f"{text}; this is a bug of tdt, please report it. train.compile=false trains without", difference.source
        )


def few(indices: Sequence[int]) -> str:
    """The first indices, and how many more there are.

    >>> from tdt.train.errors import few
    >>> few(range(12))
    '[0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more]'
    """
    more = f" and {len(indices) - SHOWN} more" if len(indices) > SHOWN else ""
    return f"[{', '.join(map(str, indices[:SHOWN]))}{more}]"


class error_context:
    """Context manager that turns exceptions of data, model or loss into a StepError: `where()` and the reason."""

    def __init__(self, where: Callable[[], str]) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass  # a class, not a generator function: that costs a microsecond more in every step

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, EXPECTED_ERRORS):
            advice = "; lower data.loader.batch_size" if isinstance(error, MemoryError) else ""
            text = f"{self._where()}: {reason(error).rstrip('.')}{advice}; --traceback shows where in the program"
            raise StepError(text) from error


def reason(error: BaseException) -> str:
    """The error in one line: its message, with its class if the message alone is not clear.

    For an error from a loader's worker: the last line of the worker's traceback.
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    text = str(error)
    if "\nOriginal Traceback" in text:
        return text.rstrip().rpartition("\n")[2]
    plain = isinstance(error, (RuntimeError, ValueError, IndexError, OSError, NonFiniteLoss, StepError)) and text
    return text if plain else f"{type(error).__name__}: {text}".rstrip(": ")


def non_finite(step: int, loss: float, indices: Sequence[int], inputs: Nested, targets: Nested) -> Exception:
    """The exception for a loss that is NaN or infinite on a training batch.

    It is a StepError if the data contain such values, else a NonFiniteLoss.

    Args:
        indices: of the batch's samples in the training data.

    >>> import tdt
    >>> from tdt.train.errors import non_finite
    >>> print(non_finite(1, float("nan"), [7, 4], tdt.tensor([[1.0], [float("nan")]]), tdt.tensor([0, 1])))
    data.train: the input of sample 4 holds nan, at [0]; replace such values, as numpy.nan_to_num does, or leave the sample out
    """
    return bad_data("train", inputs, targets, indices) or NonFiniteLoss(step, loss, indices)


def bad_data(split: str, inputs: Nested, targets: Nested, indices: Sequence[int]) -> StepError | None:
    """The error that names the samples of a batch with NaN or infinite values, by their `indices` in the split."""
    for name, tensor in (*_named("input", inputs), *_named("target", targets)):
        if not tensor.is_floating_point():
            continue
        values = tensor.detach().cpu().numpy()
        rows = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(1)).tolist()
        if not rows:
            continue
        first = values[rows[0]]
        place = np.argwhere(~np.isfinite(first))[0].tolist()
        samples = [int(indices[row]) for row in rows] if len(indices) == len(values) else []
        who = f"sample {samples[0]}" if len(samples) == 1 else f"the samples {few(samples)}" if samples else "a batch"
        where = f", at {place}" if place else ""
        several = f"{where} of sample {samples[0]}" if len(samples) > 1 else where
        rest = "the sample" if len(samples) == 1 else "these samples"
        return StepError(
            f"data.{split}: the {name} of {who} holds {first[tuple(place)]}{several}; replace such values, as "
            f"numpy.nan_to_num does, or leave {rest} out"
        )
    return None


def _named(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Each tensor in inputs or targets, with its name for messages."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named(f"{name} {key!r}", item)
    elif isinstance(value, (tuple, list)):
        for number, item in enumerate(value):
            yield from _named(f"{name} {number}", item)
