"""`Size`: the type of `Tensor.shape`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, SupportsIndex, overload

from tdt import _about

_item: Any = tuple.__getitem__


class Size(tuple[int, ...]):
    """A shape: a tuple with `numel()`.

    >>> import tdt
    >>> tdt.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self) -> int:
        """How many elements a tensor of this shape has."""
        return math.prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...
    def __getitem__(self, index: Any) -> Any:
        return Size(_item(self, index)) if index.__class__ is slice else _item(self, index)

    def __add__(self, other: Iterable[int]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Iterable[int]) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"{_about.prefix}.Size([{', '.join(map(str, self))}])"
