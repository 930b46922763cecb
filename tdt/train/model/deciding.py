"""From outputs to predictions: a class, a yes or no for each label, or the output itself."""

from __future__ import annotations

from tdt import Tensor
from tdt.train.metrics import Reading


def decided(reading: Reading, given: Tensor, targets: Tensor, names: list[str]) -> tuple[Tensor, list[str]]:
    """Predictions from what the model gave, and the names of classes where each is one."""
    if reading.threshold is not None:
        yes = given.gt(reading.threshold).long().reshape(targets.shape)
        single = yes.numel() == len(yes)
        return yes, (names if len(names) == 2 else ["0", "1"]) if single else []
    if targets.is_floating_point() or given.ndim <= targets.ndim:
        return given, []
    count = given.shape[1]
    return given.argmax(1), named(names, count)


def named(names: list[str], count: int) -> list[str]:
    """The names of a model's `count` outputs: the numbers of those beyond the classes, and of all where there are too few.

    >>> named(["cat", "dog"], 3), named(["cat", "dog"], 1)
    (['cat', 'dog', '2'], ['0'])
    """
    known = names if len(names) <= count else []
    return [*known, *map(str, range(len(known), count))]
