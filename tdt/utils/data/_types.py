"""Types of datasets and batches, for annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Samples(Protocol[T_co]):
    """Samples by index: a `Dataset`, a list, an array; most also have a length."""

    def __getitem__(self, index: Any, /) -> T_co:
        """The sample at an index, which is of the type that the sampler gives."""
        ...


class SizedSamples(Samples[T_co], Protocol[T_co]):
    """Samples by index, of a known number."""

    def __len__(self) -> int: ...


# Any: samples and batches may have every type.
CollateFunction: TypeAlias = Callable[[list[Any]], Any]
CollateFunctions: TypeAlias = Mapping[type | tuple[type, ...], Callable[..., Any]]
