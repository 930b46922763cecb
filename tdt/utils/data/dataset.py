"""Datasets: by index (`Dataset`) or as a stream (`IterableDataset`), and ones made from others."""

from __future__ import annotations

import bisect
import itertools
import math
import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic

import numpy as np

from tdt._core.old_arguments import refuses_removed_arguments
from tdt._core.tensor import Tensor, wrap
from tdt._random import Generator, default_generator, permutation
from tdt.utils.data._types import Samples, SizedSamples, T, T_co


class Dataset(Generic[T_co]):
    """Samples by index: a subclass defines `__getitem__(index)`, and `__len__` for the samplers.

    `__getitems__(indices)`, where defined, gives the samples of a whole batch as a list.

    >>> import tdt
    >>> class Squares(tdt.utils.data.Dataset):
    ...     def __getitem__(self, index):
    ...         return index**2
    ...     def __len__(self):
    ...         return 3
    >>> list(tdt.utils.data.DataLoader(Squares(), batch_size=None))
    [0, 1, 4]
    """

    def __getitem__(self, index: Any) -> T_co:  # Any: of the type that the sampler gives
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[T_co]) -> ConcatDataset[T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples as a stream: a subclass defines `__iter__`.

    Each worker of a DataLoader iterates its own copy; `get_worker_info()` tells it which part to give.

    >>> import tdt
    >>> class Count(tdt.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(tdt.utils.data.DataLoader(Count(), batch_size=2))
    [tensor([0, 1]), tensor([2])]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[T_co]) -> ChainDataset[T_co]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: sample `i` is the tuple of every tensor's row `i`.

    Shape: tensors (N, *); a sample's tensors (*).
    Raises:
        AssertionError: when the tensors have different numbers of rows.

    >>> import tdt
    >>> tdt.utils.data.TensorDataset(tdt.zeros(5, 3), tdt.arange(5))[2]
    (tensor([0., 0., 0.]), tensor(2))
    """

    @refuses_removed_arguments
    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            rows = [tensor.size(0) for tensor in tensors]
            raise AssertionError(f"Size mismatch between tensors: they have {rows} rows")
        self.tensors = tensors

    def __getitem__(self, index: int | slice | list[int] | np.ndarray | Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)

    def __getbatch__(self, indices: Sequence[int]) -> list[Tensor] | None:
        """What `default_collate` would make of these samples, by one gather per tensor; None where it may differ."""
        plain = type(self).__getitem__ is TensorDataset.__getitem__ and not hasattr(self, "__getitems__")
        if not plain or not all(map(_gathers, self.tensors)):
            return None
        rows = np.asarray(indices)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            return None
        return [wrap(tensor._a.take(rows, 0)) for tensor in self.tensors]


def _gathers(tensor: Tensor) -> bool:
    """Whether rows of `tensor` may be gathered as an array: on the CPU, of no subclass, wanting no gradient."""
    return type(tensor) is Tensor and isinstance(tensor._a, np.ndarray) and not tensor.requires_grad


def _length(dataset: Samples[Any]) -> int:
    """The number of samples. TypeError for a dataset without a length."""
    return len(dataset)  # type: ignore[arg-type]


def _samples_of(dataset: Samples[T], indices: list[int]) -> list[T]:
    """Several samples, at once where the dataset can give them so."""
    several = getattr(dataset, "__getitems__", None)
    if callable(several):
        return several(indices)
    return [dataset[index] for index in indices]


class Subset(Dataset[T_co]):
    """Samples of a data set at the given indices, in that order.

    Raises:
        NotImplementedError: when a subclass overrides `__getitem__` but not `__getitems__`.

    >>> import tdt
    >>> list(tdt.utils.data.Subset([10, 20, 30], [2, 0]))
    [30, 10]
    """

    def __init__(self, dataset: Samples[T_co], indices: Sequence[int]) -> None:
        self.dataset: SizedSamples[T_co] = dataset  # type: ignore[assignment]  # len raises TypeError if it has none
        self.indices = indices
        if type(self).__getitem__ is not Subset.__getitem__ and type(self).__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{type(self).__name__} overrides __getitem__ but not __getitems__, which a DataLoader calls; add\n"
                "def __getitems__(self, indices):\n    return [self[index] for index in indices]"
            )

    def __getitem__(self, index: int | list[int]) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        return _samples_of(self.dataset, [self.indices[index] for index in indices])

    def __getbatch__(self, indices: Sequence[int]) -> Any:
        """The inner dataset's `__getbatch__` for these samples; None where there is none or it may differ."""
        if type(self).__getitems__ is not Subset.__getitems__ or not hasattr(self.dataset, "__getbatch__"):
            return None
        return self.dataset.__getbatch__([self.indices[index] for index in indices])

    def __len__(self) -> int:
        return len(self.indices)


class StackDataset(Dataset[tuple[Any, ...] | dict[str, Any]]):
    """Data sets side by side: sample `i` is the tuple of their samples `i`, or a dict if they are given by name.

    Raises:
        ValueError: when there is no data set, some but not all are named, or their lengths differ.

    >>> import tdt
    >>> tdt.utils.data.StackDataset([1, 2], ["a", "b"])[1]
    (2, 'b')
    >>> tdt.utils.data.StackDataset(number=[1, 2], letter=["a", "b"])[1]
    {'number': 2, 'letter': 'b'}
    """

    def __init__(self, *args: Samples[Any], **kwargs: Samples[Any]) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like output, not both"
            )
        self.datasets = args or kwargs
        lengths = [_length(dataset) for dataset in self._parts()]
        if not lengths:
            raise ValueError("At least one dataset should be passed")
        if len(set(lengths)) > 1:
            raise ValueError(f"Size mismatch between datasets: they have {lengths} samples")

    def _parts(self) -> list[Samples[Any]]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _joined(self, samples: Iterable[Any]) -> tuple[Any, ...] | dict[str, Any]:
        """One sample of each dataset as a sample of this one."""
        return dict(zip(self.datasets, samples, strict=True)) if isinstance(self.datasets, dict) else tuple(samples)

    def __getitem__(self, index: int) -> tuple[Any, ...] | dict[str, Any]:  # Any: one sample of each dataset
        return self._joined(dataset[index] for dataset in self._parts())

    def __getitems__(self, indices: list[int]) -> list[tuple[Any, ...] | dict[str, Any]]:
        columns = [_samples_of(dataset, indices) for dataset in self._parts()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
        return [self._joined(samples) for samples in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return _length(self._parts()[0])


class ConcatDataset(Dataset[T_co]):
    """Samples of several data sets, one after the other.

    Raises:
        AssertionError: when there is no data set, or one is an IterableDataset.

    >>> import tdt
    >>> tdt.utils.data.ConcatDataset([[1, 2], [3]])[2]
    3
    """

    def __init__(self, datasets: Iterable[Samples[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(_length(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < -len(self):
            raise ValueError(f"absolute value of index should not exceed dataset length: {index}, length {len(self)}")
        index += len(self) if index < 0 else 0
        part = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]


class ChainDataset(IterableDataset[T_co]):
    """The samples of several `IterableDataset`s, one dataset after the other.

    Its length is the sum of theirs; `len` raises TypeError if one of them has none.

    Args:
        datasets: each an IterableDataset; for datasets with indices use ConcatDataset.
    Raises:
        AssertionError: when one of `datasets` is no IterableDataset, once iteration reaches it.

    >>> import tdt
    >>> class Count(tdt.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(2))
    >>> list(tdt.utils.data.ChainDataset([Count(), Count()]))
    [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Dataset[T_co]]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[T_co]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(_length(dataset) for dataset in self.datasets)


def random_split(
    dataset: Samples[T], lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[T]]:
    """Disjoint random subsets of the given sizes, or of fractions that sum to 1.

    Samples that rounding down leaves over go one each to the first subsets.

    Args:
        generator: source of random numbers.
    Raises:
        ValueError: when the sizes do not sum to the size of the data set, or a fraction is outside [0, 1].

    >>> import tdt
    >>> [len(part) for part in tdt.utils.data.random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    total = _length(dataset)
    sizes = _sizes_of(lengths, total) if math.isclose(sum(lengths), 1) and sum(lengths) <= 1 else lengths
    if sum(sizes) != total:
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"The lengths {list(lengths)} sum to {sum(sizes)}, the dataset has {total} samples"
        )
    order = permutation(generator or default_generator, total).tolist()
    ends = [0, *itertools.accumulate(operator.index(size) for size in sizes)]  # type: ignore[arg-type]
    return [Subset(dataset, order[start:end]) for start, end in itertools.pairwise(ends)]


def _sizes_of(fractions: Sequence[float], total: int) -> list[int]:
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1: {fraction}")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn(f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=3)
    return sizes
