"""Elements at indices along a dimension on a GPU, and the gradient of that, in one launch each."""

from __future__ import annotations

from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.waiting import refuse_program

_GATHERED = (_kernels.gpu_kernel("move_gpu:gather", _kernels.gpu_gathered),)
_SUMMED = (_kernels.gpu_kernel("move_gpu:gather_grad", _kernels.gpu_gathered_sums),)


def gathered(xp: Any, x: Any, index: Any, dim: int, message: str = "") -> Any:
    """The elements of CuPy's x at `index` along `dim`; None where no kernel applies.

    Args:
        message: as of `move_gpu.gather`.
    """
    if xp is np:
        return None
    if gather := _kernels.chosen(_GATHERED, xp, x, index):
        return gather(x, index, dim=dim, message=message)
    refuse_program()
    return None


def gathered_grad(xp: Any, g: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """The gradient, for an array of a shape, of its elements at `index` along `dim`; None where no kernel applies."""
    if xp is np:
        return None
    if summed := _kernels.chosen(_SUMMED, xp, g, index, shape=shape, dim=dim):
        return summed(g, index, shape=shape, dim=dim)
    refuse_program()
    return None


def spread(xp: Any, index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """An index (n) along `dim` as one for all entries of an array of a shape."""
    ends = (1,) * max(len(shape) - dim - 1, 0)
    return xp.broadcast_to(index.reshape(-1, *ends), (*shape[:dim], index.size, *shape[dim + 1 :]))
