"""Nested tensors in dicts, tuples and lists: inputs of a model with several, and its targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tdt
from tdt.utils.data import Dataset, TensorDataset, default_convert

TARGET = "target"  # the key of a sample's target, where a data set gives mappings


def leaves(value: Any) -> Iterator[Any]:
    """What stands in `value`, in order; a value that holds no others stands alone.

    >>> list(leaves({"a": 1, "b": (2, [3])}))
    [1, 2, 3]
    """
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        yield value
        return
    for item in value:
        yield from leaves(item)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """`value` with what `function` makes of each leaf in its place.

    >>> mapped(lambda x: x + 1, {"a": 1, "b": (2, [3])})
    {'a': 2, 'b': (3, [4])}
    """
    if isinstance(value, Mapping):
        return {key: mapped(function, item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        kind: Any = type(value)
        return getattr(kind, "_make", kind)([mapped(function, item) for item in value])  # a named tuple's
    return function(value)


class Pairs(Dataset):
    """A data set's samples as (inputs, target), where it gives (a, b, …, target), or mappings with the key `target`.

    Several inputs are a tuple, or a dict by name; numbers and arrays in them are tensors. All else is the data set's own.

    >>> Pairs([(1.0, 2, 0)])[0], Pairs([{"a": 1.0, "b": 2, "target": 0}])[0]
    (((tensor(1.), tensor(2)), 0), ({'a': tensor(1.), 'b': tensor(2)}, 0))
    """

    def __init__(self, dataset: Any):
        self.dataset = dataset

    @classmethod
    def of(cls, dataset: Any) -> Any:
        """`dataset` itself, where it gives pairs of one input and a target. ValueError for what is no sample."""
        first = dataset[0] if len(dataset) else (None, None)
        plain = (
            isinstance(first, (tuple, list)) and len(first) == 2 and not isinstance(first[0], (Mapping, tuple, list))
        )
        return dataset if plain else cls(dataset)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        sample = self.dataset[index]
        inputs: Any
        if isinstance(sample, Mapping) and TARGET in sample:
            inputs, target = {key: value for key, value in sample.items() if key != TARGET}, sample[TARGET]
        elif isinstance(sample, (tuple, list)) and len(sample) > 1:
            *several, target = sample
            inputs = several[0] if len(several) == 1 else tuple(several)
        else:
            got = f"the keys {', '.join(map(str, sample))}" if isinstance(sample, Mapping) else type(sample).__name__
            raise ValueError(f"a sample is (input, target), (a, b, target) or a dict with the key target; got {got}")
        return mapped(_tensor, inputs), target

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # not there yet, while a worker unpickles
            raise AttributeError(name)
        return getattr(self.dataset, name)


def _tensor(value: Any) -> Any:
    is_number = isinstance(value, (bool, int, float))
    return tdt.tensor(value) if is_number else default_convert(value)


class Held(Dataset):
    """All samples in memory, as `TensorDataset` holds them, with the structure of `inputs` and `targets`."""

    def __init__(self, inputs: Any, targets: Any):
        self.structure = (inputs, targets)
        self.rows = TensorDataset(*leaves(self.structure))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self._filled(self.rows[index])

    def __getbatch__(self, indices: Any) -> Any:
        """As in TensorDataset."""
        batch = self.rows.__getbatch__(indices)
        return None if batch is None else list(self._filled(batch))

    def _filled(self, values: Any) -> Any:
        rest = iter(values)
        return mapped(lambda _: next(rest), self.structure)
