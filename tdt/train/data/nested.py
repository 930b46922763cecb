"""Nested tensors in dicts, tuples and lists: inputs of a model with several, and its targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tdt
from tdt._backend import is_array, to_device
from tdt._backend.device import CPU
from tdt.utils.data import Dataset, TensorDataset, default_convert

TARGET = "target"  # the key of the target in samples that are mappings


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of nested dicts, lists and tuples, in order; any other value is a leaf itself.

    >>> from tdt.train.data.nested import leaves
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
    """Apply `function` to each leaf and keep the structure.

    >>> from tdt.train.data.nested import mapped
    >>> mapped(lambda x: x + 1, {"a": 1, "b": (2, [3])})
    {'a': 2, 'b': (3, [4])}
    """
    if isinstance(value, Mapping):
        return {key: mapped(function, item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        kind: Any = type(value)
        return getattr(kind, "_make", kind)([mapped(function, item) for item in value])  # a named tuple
    return function(value)


def on_host(value: Any) -> Any:
    """Move the tensors and arrays in nested containers to the host."""
    return mapped(_on_host, value)


def _on_host(value: Any) -> Any:
    if isinstance(value, tdt.Tensor):
        return value.detach().cpu()
    return to_device(value, CPU) if is_array(value) else value


class Pairs(Dataset):
    """A dataset of pairs (inputs, target) over one with samples (a, b, …, target), or mappings with the key `target`.

    Several inputs are a tuple, or a dict by name, in which numbers and arrays become tensors. Other attributes are those
    of the dataset.

    >>> from tdt.train.data.nested import Pairs
    >>> Pairs([(1.0, 2, 0)])[0], Pairs([{"a": 1.0, "b": 2, "target": 0}])[0]
    (((tensor(1.), tensor(2)), 0), ({'a': tensor(1.), 'b': tensor(2)}, 0))
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    @classmethod
    def of(cls, dataset: Any) -> Any:
        """`dataset` itself if its samples are (input, target), else wrapped. Raises ValueError for invalid samples."""
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
        if name == "dataset":  # not set yet while a worker unpickles
            raise AttributeError(name)
        return getattr(self.dataset, name)


def _tensor(value: Any) -> Any:
    is_number = isinstance(value, (bool, int, float))
    return tdt.tensor(value) if is_number else default_convert(value)


class InMemoryDataset(Dataset):
    """All samples in memory, like `TensorDataset`, with the nested structure of `inputs` and `targets`."""

    def __init__(self, inputs: Any, targets: Any) -> None:
        self.structure = (inputs, targets)
        self.rows = TensorDataset(*leaves(self.structure))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self._filled(self.rows[index])

    def __getbatch__(self, indices: Any) -> Any:
        """The samples at `indices` as one batch."""
        batch = self.rows.__getbatch__(indices)
        return None if batch is None else list(self._filled(batch))

    def _filled(self, values: Any) -> Any:
        rest = iter(values)
        return mapped(lambda _: next(rest), self.structure)
