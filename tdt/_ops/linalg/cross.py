"""The cross product of vectors of three elements."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt._core.calls import front
from tdt._core.dtype import NUMBERS, SCALAR_NAMES, check_category
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._kernels import chosen, floats_of_one_shape, kernel
from tdt._ops._common import conj, store_into, wrap_dim
from tdt.autograd._op import op

__all__ = ["cross"]

_KERNELS = (kernel("cross_cpu:cross", floats_of_one_shape),)


@op(dtypes=NUMBERS, promote=(), node="LinalgCrossBackward0", shape=lambda x, y, *, dim: np.broadcast_shapes(x, y))
def _cross(xp: ModuleType, x: Any, y: Any, *, dim: int) -> Any:
    """dim: counted from the end."""
    if fast := chosen(_KERNELS, xp, x, y):
        return fast(x, y, dim=dim)
    x, y = xp.broadcast_arrays(x, y)
    out = xp.empty(x.shape, x.dtype)
    a, b, c = (xp.moveaxis(each, dim, 0) for each in (x, y, out))
    for k, (i, j) in enumerate(((1, 2), (2, 0), (0, 1))):
        c[k] = a[i] * b[j] - a[j] * b[i]
    return out


_cross.vjp("x")(lambda g, y, dim: _cross(conj(y), g, dim=dim))
_cross.vjp("y")(lambda g, x, dim: _cross(g, conj(x), dim=dim))
_cross.fast_vjp("x")(lambda xp, g, y, dim: _cross.forward(xp, y.conjugate(), g, dim=dim))
_cross.fast_vjp("y")(lambda xp, g, x, dim: _cross.forward(xp, g, x.conjugate(), dim=dim))


@method()
@front
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Cross product of vectors of 3 elements along `dim`.

    Args:
        dim: dimension of size 3; by default the first one of input that has this size.
    Shape: input (*), other broadcastable to it with as many dimensions; result the broadcast shape.
    Raises:
        RuntimeError: when the numbers of dimensions or the dtypes differ, or the size of `dim` is not 3.

    >>> import tdt
    >>> tdt.cross(tdt.tensor([1.0, 0.0, 0.0]), tdt.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if dim is None:
        dim = next((k for k, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    check_category("cross", NUMBERS, input.dtype)
    d = wrap_dim(dim, input.ndim)
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}"
        )
    if input.dtype is not other.dtype:
        raise RuntimeError(f"expected scalar type {SCALAR_NAMES[input.dtype]} but found {SCALAR_NAMES[other.dtype]}")
    result = _cross(input, other, dim=d - input.ndim)
    return result if out is None else store_into(out, result, exact=True)
