"""The legacy constructors `Tensor(2, 3)` and `x.new(2, 3)`: sizes, values, or memory to share."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import CPU, device
from tdt._core.dtype import dtype
from tdt._core.from_data import array_of
from tdt._core.size import Size
from tdt._core.storage import TypedStorage, UntypedStorage
from tdt._core.tensor import Tensor, wrap


def fill(tensor: Tensor, args: tuple, kind: dtype, where: device) -> None:
    """Set the data of `tensor` as the legacy constructors do.

    `args` are sizes (the memory is uninitialised), a sequence of values, or a tensor or storage, whose memory is shared.

    Raises:
        TypeError: when a tensor has another dtype or device, or a single argument is neither a size nor a sequence.
        RuntimeError: when a size is negative.
    """
    first = args[0] if len(args) == 1 else None
    if isinstance(first, Tensor):
        if first.dtype is not kind or first.device.type != where.type:
            raise TypeError(
                f"expected a tensor of {kind} on {where}, got one of {first.dtype} on {first.device}; use .to()"
            )
        tensor._a, tensor._st = first._a, first._st
    elif isinstance(first, TypedStorage | UntypedStorage):
        memory = first.untyped() if isinstance(first, TypedStorage) else first
        tensor._a, tensor._st = memory._bytes.view(kind.np), memory.shared()
    elif len(args) == 1 and not isinstance(first, Size) and not _is_size(first):
        if isinstance(first, bool | float | complex | None):
            raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
        values = np.asarray(array_of(first, None, CPU))
        tensor._a = _backend.to_device(values.astype(kind.np), where)
    else:
        sizes = tuple(first) if isinstance(first, Size) else args or (0,)
        for place, n in enumerate(sizes, 1):
            if not hasattr(n, "__index__"):
                raise TypeError(
                    f"new(): argument 'size' failed to unpack the object at pos {place} with error \"type must be tuple of "
                    f'ints,but got {type(n).__name__}"'
                )
        if min(sizes, default=0) < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {list(sizes)}")
        tensor._a = _backend.on(where).empty(sizes, kind.np)


def _is_size(n: Any) -> bool:
    return hasattr(n, "__index__") and not isinstance(n, bool | np.ndarray)


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Legacy constructor `x.new(2, 3)`, `x.new([1, 2])` or `x.new(y)`: a tensor with the dtype and device of `x`."""
    tensor = wrap(self._a[:0] if self._a.ndim else self._a)
    fill(tensor, args, self.dtype, self.device)
    return tensor


setattr(Tensor, new.__name__, new)
Tensor._fill = staticmethod(fill)
