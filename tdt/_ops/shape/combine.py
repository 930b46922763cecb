"""cartesian_prod, combinations, polar, vander."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as choices
from itertools import combinations_with_replacement
from types import ModuleType
from typing import Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.creation import tensor
from tdt._core.dtype import FLOATING, SCALAR_NAMES
from tdt._core.tensor import Tensor
from tdt._kernels import prepares
from tdt._ops.shape.join import cat, stack
from tdt._ops.shape.repeat import meshgrid
from tdt.autograd._op import finish, op
from tdt.autograd._op_table import OPS
from tdt.autograd._remembered import calls_by_shape

__all__ = ["cartesian_prod", "combinations", "polar", "vander"]


def _vector(x: Tensor) -> None:
    if x.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")


@front
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Every combination of one element from each vector, a row each; the last vector varies fastest.

    Shape: n vectors (m1), …, (mn); result (m1 · … · mn, n); one vector is returned unchanged.
    Raises:
        RuntimeError: when a tensor is not 1-d.

    >>> import tdt
    >>> tdt.cartesian_prod(tdt.tensor([1, 2]), tdt.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    vectors: Any
    vectors = tuple(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    for x in vectors:
        _vector(x)
    if len(vectors) == 1:
        return vectors[0]
    return stack([grid.flatten() for grid in meshgrid(*vectors, indexing="ij")], 1)


@front
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every combination of `r` elements of a vector, a row each, in the order of the vector.

    Args:
        with_replacement: whether an element may occur more than once in a row.
    Shape: input (n); result (number of combinations, r), or (0) for r = 0.
    Raises:
        RuntimeError: when `input` is not 1-d or `r` is negative.

    >>> import tdt
    >>> tdt.combinations(tdt.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    _vector(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input[:0]
    rows = list((combinations_with_replacement if with_replacement else choices)(range(input.numel()), r))
    places = tensor(np.array(rows, np.int64).reshape(-1), device=input.device)
    return input.index_select(0, places).reshape(len(rows), r)


@calls_by_shape
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers from absolute values and angles in radians.

    Shape: abs (*), angle broadcastable to it; result the broadcast shape.
    Raises:
        TypeError: when `abs` or `angle` is not a tensor.
        RuntimeError: when their dtypes differ or are not floating-point.

    >>> import tdt
    >>> tdt.polar(tdt.tensor([1.0, 2.0]), tdt.tensor([0.0, 1.0]))
    tensor([1.0000+0.0000j, 1.0806+1.6829j])
    """
    if not isinstance(abs, Tensor) or not isinstance(angle, Tensor):
        place, name, x = (1, "abs", abs) if not isinstance(abs, Tensor) else (2, "angle", angle)
        raise TypeError(f"polar(): argument '{name}' (position {place}) must be Tensor, not {type(x).__name__}")
    if abs.dtype not in (supported := (_dtype.float16, _dtype.float32, _dtype.float64)) or angle.dtype not in supported:
        names = f"{SCALAR_NAMES[abs.dtype]} and {SCALAR_NAMES[angle.dtype]}"
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {names}")
    if abs.dtype is not angle.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {SCALAR_NAMES[abs.dtype]} but got scalar type {SCALAR_NAMES[angle.dtype]} for "
            "second argument"
        )
    _dtype.check_category("polar_cpu", frozenset((_dtype.float32, _dtype.float64)), abs.dtype)
    return finish(_polar, out, abs, angle)


@op(dtypes=FLOATING, node="PolarBackward0")
def _polar(xp: ModuleType, x: Any, angle: Any) -> Any:
    shape = x.shape if x.shape == angle.shape else np.broadcast_shapes(x.shape, angle.shape)
    out = xp.empty(shape, np.complex128 if x.dtype == np.float64 else np.complex64)
    xp.multiply(x, OPS["cos"].forward(xp, angle), out=out.real)
    xp.multiply(x, OPS["sin"].forward(xp, angle), out=out.imag)
    return out


@prepares(_polar.forward)
def _(x: Any, angle: Any, *, recorded: bool) -> Any:
    found = [OPS[name].forward.ufunc_for((angle,), {}) for name in ("cos", "sin")]
    if x.shape != angle.shape or x.dtype != np.float32 or None in found:
        return None
    shape, ((cos, *_), (sin, *_)) = x.shape, found

    def polar(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
        out = np.empty(shape, np.complex64)
        np.multiply(x, cos(angle), out.real)
        np.multiply(x, sin(angle), out.imag)
        return out

    return polar


@_polar.vjp("x", "angle")
def _(needs: tuple[bool, bool], g: Tensor, out: Tensor) -> tuple[Tensor | None, Tensor | None]:
    real, imag = (g.real, g.imag) if g.is_complex() else (g, g.new_zeros(()))
    turn = out.sgn() if needs[0] else out
    return (
        real * turn.real + imag * turn.imag if needs[0] else None,
        imag * out.real - real * out.imag if needs[1] else None,
    )


@_polar.fast_vjp("x", "angle")
def _(xp: ModuleType, needs: tuple[bool, bool], g: Any, out: Any) -> tuple[Any, Any]:
    turn = OPS["sgn"].forward(xp, out) if needs[0] else out
    g_abs = g.real * turn.real + g.imag * turn.imag if needs[0] else None
    return g_abs, g.imag * out.real - g.real * out.imag if needs[1] else None


@front
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix of a vector: row i holds the powers of x[i].

    Args:
        N: number of powers, by default n.
        increasing: whether the powers go up from 0; by default down to 0.
    Shape: x (n); result (n, N).
    Raises:
        RuntimeError: when `x` is not 1-d or `N` is negative.

    >>> import tdt
    >>> tdt.vander(tdt.tensor([1, 2, 3]))
    tensor([[1, 1, 1],
            [4, 2, 1],
            [9, 3, 1]])
    """
    if x.ndim != 1:
        raise RuntimeError(f"x must be a one-dimensional tensor, not one of shape {list(x.shape)}")
    n = x.numel() if N is None else N
    if n < 0:
        raise RuntimeError(f"N must be non-negative, got {n}")
    promoted = x.to(_dtype.promote_types(x.dtype, _dtype.int64))
    column = promoted.unsqueeze(-1)
    powers = cat([column.new_ones(x.numel(), min(n, 1)), column.expand(x.numel(), max(n - 1, 0))], 1).cumprod(1)
    return powers if increasing else powers.flip(-1)
