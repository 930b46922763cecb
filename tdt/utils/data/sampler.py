"""Samplers: the order in which a DataLoader loads samples, and how it groups them into batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic

import numpy as np

from tdt._backend.device import CPU
from tdt._core.tensor import Tensor, wrap
from tdt._random import Generator, default_generator, full_range, generator_for, integers, multinomial, permutation
from tdt.utils.data._types import T_co


class Sampler(Generic[T_co]):
    """Gives indices: a subclass defines `__iter__`, and `__len__` where it is known.

    >>> import tdt
    >>> class Backwards(tdt.utils.data.Sampler):
    ...     def __iter__(self):
    ...         return iter([2, 1, 0])
    >>> list(tdt.utils.data.DataLoader([10, 20, 30], batch_size=None, sampler=Backwards()))
    [30, 20, 10]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")


class SequentialSampler(Sampler[int]):
    """0, 1, 2, … in order.

    >>> import tdt
    >>> list(tdt.utils.data.SequentialSampler(["a", "b"]))
    [0, 1]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All indices in random order, or `num_samples` drawn with replacement.

    Args:
        num_samples: number of indices of an epoch; None stands for the size of the data set.
        generator: source of random numbers; None draws a seed for each epoch from the default generator.
    Raises:
        TypeError: when `replacement` is not a bool.
        ValueError: when `num_samples` is not a positive integer.

    >>> import tdt
    >>> list(tdt.utils.data.RandomSampler(range(5), generator=tdt.Generator().manual_seed(0)))
    [4, 0, 1, 3, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        check_count("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """Number of indices in an epoch: the requested one, else the dataset's current length."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(int(full_range(default_generator, (), np.int64)))
        generator = generator_for(generator, CPU)
        if not self.replacement:
            for _ in range(count // n):
                yield from permutation(generator, n).tolist()
            if count % n or self.generator:  # PyTorch draws one more order even where none of it is used
                yield from permutation(generator, n).tolist()[: count % n]
            return
        if not n:
            raise RuntimeError("RandomSampler: there are no samples to draw from")
        for size in (*itertools.repeat(32, count // 32), count % 32):
            yield from integers(generator, (size,), np.int64, 0, n).tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> import tdt
    >>> sorted(tdt.utils.data.SubsetRandomSampler([3, 5]))
    [3, 5]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in permutation(self.generator or default_generator, len(self.indices)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices drawn with probabilities proportional to `weights`.

    Args:
        weights: not negative, one for each sample of the data set.
        generator: source of random numbers; None stands for the default generator.
    Shape: weights (number of samples,).
    Raises:
        ValueError: when `weights` are not 1-d, `num_samples` is not positive or `replacement` not a bool.

    >>> import tdt
    >>> list(tdt.utils.data.WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        check_count("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        array = np.asarray(weights._a if isinstance(weights, Tensor) else weights, np.float64)
        if array.ndim != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {array.shape}")
        self.weights = wrap(array)
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or default_generator
        yield from multinomial(generator, self.weights._a, self.num_samples, self.replacement).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Batches of indices: lists of `batch_size` indices of another sampler.

    Args:
        drop_last: leave out the last list if it is shorter.
    Raises:
        ValueError: when `batch_size` is not a positive integer or `drop_last` not a bool.

    >>> import tdt
    >>> list(tdt.utils.data.BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        check_count("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        samples = len(self.sampler)  # type: ignore[arg-type]
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)


def check_count(name: str, value: float | None) -> None:
    """ValueError unless `value` is a positive integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
