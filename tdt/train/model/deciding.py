"""Predictions from outputs: a class, 0 or 1 per label, or the output itself."""

from __future__ import annotations

from tdt import Tensor
from tdt.train.metrics import Reading


def decided(reading: Reading, outputs: Tensor, targets: Tensor, names: list[str]) -> tuple[Tensor, list[str]]:
    """Predictions from the model's outputs, and the names of the classes if each prediction is one."""
    if reading.threshold is not None:
        yes = outputs.gt(reading.threshold).long().reshape(targets.shape)
        single = yes.numel() == len(yes)
        return yes, (names if len(names) == 2 else ["0", "1"]) if single else []
    if targets.is_floating_point() or outputs.ndim <= targets.ndim:
        return outputs, []
    count = outputs.shape[1]
    return outputs.argmax(1), named(names, count)


def named(names: list[str], count: int) -> list[str]:
    """The names of a model's `count` outputs: class names; numbers for further outputs, or for all if there are fewer.

    >>> from tdt.train.model.deciding import named
    >>> named(["cat", "dog"], 3), named(["cat", "dog"], 1)
    (['cat', 'dog', '2'], ['0'])
    """
    known = names if len(names) <= count else []
    return [*known, *map(str, range(len(known), count))]
