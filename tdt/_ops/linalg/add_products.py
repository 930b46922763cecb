"""Sums of a tensor and a product, beta · input + alpha · (a @ b): addmm, addmv, addr, addbmm, baddbmm."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core import dtype as _dtype
from tdt._core.calls import as_numbers, front
from tdt._core.dtype import FLOAT, FLOATING, SCALAR_NAMES
from tdt._core.from_data import check_bits, held
from tdt._core.methods import method
from tdt._core.old_arguments import accepts_old_order
from tdt._core.tensor import Tensor, wrap_new
from tdt._ops._common import C_NAMES, Number, store_into
from tdt._ops.elementwise._factors import check_factor, check_range
from tdt._ops.linalg.products import _matmul_flops, _matmul_shape, _same_type, bmm, matmul
from tdt.autograd._arrays import unrecorded
from tdt.autograd._autocast import autocast
from tdt.autograd._dispatch import apply, ternary
from tdt.autograd._in_place_methods import by_copy
from tdt.autograd._inplace import copy_into
from tdt.autograd._node import sum_to
from tdt.autograd._node_names import label
from tdt.autograd._op import op

__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm"]

NUMBER_TYPES = (int, float)
CHECKED_FROM = 2.0**63  # factors up to this need no check
ONE_OP = {name: f"{name.capitalize()}Backward0" for name in ("addmm", "addmv", "baddbmm")}
RANKS = {"addmm": (2, 2), "addmv": (2, 1), "addr": (1, 1), "addbmm": (3, 3), "baddbmm": (3, 3)}  # of the two factors


@op(name="addmm", dtypes=FLOATING, promote=(), broadcasts=False, shape=lambda x, a, b, **how: _matmul_shape(a, b),
    flops=lambda x, a, b, **how: _matmul_flops(a, b), autocast="lower")  # fmt: skip
@repeatable
def _addmm(xp: ModuleType, x: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """beta · x + alpha · (a @ b) for matrices, stacks of them, or a matrix and a vector; x is broadcast to the product."""
    bias = x if beta == 1 == alpha and x.shape == b.shape[-1:] and b.ndim > 1 else None
    y = _kernels.matrix_product(a, b, bias)
    if y is None:
        y = _kernels.product(xp, a, b, bias)
    if bias is not None:
        return y
    if xp is not np:
        return _weighted(xp, y, x, alpha=alpha, beta=beta) if beta else _scaled(y, alpha)
    if alpha != 1:
        y *= alpha
    if beta == 0:  # nan and inf in x are ignored
        return y
    y += x if beta == 1 else x * beta
    return y


_weighted = _kernels.from_formula(
    "weighted_sum", lambda xp, y, x, *, alpha, beta: y * alpha + x * beta, 2, ("alpha", "beta")
)[0]


def _outer(xp: ModuleType, x: Any, a: Any, b: Any, *, beta: float, alpha: float) -> Any:
    """beta · x + alpha · (a ⊗ b) for vectors of NumPy."""
    y = a[:, None] * b
    if alpha != 1:
        y *= alpha
    if beta == 0:
        return y
    return np.add(x if beta == 1 else x * beta, y, out=y)


def _scaled(g: Any, factor: float) -> Any:
    if factor == 1:
        return g
    refuse_program()
    return g * factor


_addmm.vjp("x")(lambda g, x_shape, beta: sum_to(_scaled(g, beta), x_shape))
_addmm.fast_vjp("x")(repeatable(lambda g, x_shape, beta: sum_to(_scaled(g, beta), x_shape)))


@_addmm.vjp("a")
def _(g: Tensor, b: Tensor, alpha: float) -> Tensor:
    g = _scaled(g, alpha)
    return g.unsqueeze(-1) * b if b.ndim == 1 else g @ b.mT


@_addmm.fast_vjp("a")
@repeatable
def _(xp: ModuleType, g: Any, b: Any, alpha: float) -> Any:
    g = _scaled(g, alpha)
    return g[..., None] * b if b.ndim == 1 else _kernels.product(xp, g, b.swapaxes(-1, -2))


@_addmm.vjp("b")
def _(g: Tensor, a: Tensor, alpha: float) -> Tensor:
    return a.mT @ _scaled(g, alpha)


@_addmm.fast_vjp("b")
@repeatable
def _(xp: ModuleType, g: Any, a: Any, alpha: float) -> Any:
    return _kernels.product(xp, a.swapaxes(-1, -2), _scaled(g, alpha))


# Of arrays of NumPy: forms that need no call of an op.
SHORT: dict[str, Callable[..., Any]] = {**dict.fromkeys(ONE_OP, _addmm.forward), "addr": _outer}


def _add_product(
    name: str,
    product: Callable[[Tensor, Tensor], Tensor],
    input: Tensor,
    a: Tensor,
    b: Tensor,
    beta: Any,
    alpha: Any,
    out: Tensor | None,
) -> Tensor:
    """beta · input + alpha · product(a, b), with input broadcast to the product, and ignored if beta is 0."""
    ranks = RANKS[name]
    if out is None and name in SHORT and _plain(ranks, input._a, a._a, b._a, beta, alpha):
        if (short := _short(name, input, a, b, beta, alpha)) is not None:
            return short
    if out is not None:
        alone = functools.partial(_add_product, name, product)
        if copy_into(out, alone, (input, a, b, beta, alpha, None), {}) is not None:
            return out
    if a.ndim != ranks[0] or b.ndim != ranks[1]:
        raise RuntimeError(
            f"{name}: expected tensors of {ranks[0]} and {ranks[1]} dimensions to multiply, but got {a.ndim}D "
            f"and {b.ndim}D"
        )
    if ranks == (1, 1):  # the only one of them that promotes
        kind = _dtype.promote_types(_dtype.promote_types(a.dtype, b.dtype), input.dtype)
        input, a, b = input.to(kind), a.to(kind), b.to(kind)
    _same_type(a, b)
    if input.dtype is not a.dtype:
        raise RuntimeError(
            f"self and mat2 must have the same dtype, but got {SCALAR_NAMES[input.dtype]} and {SCALAR_NAMES[a.dtype]}"
        )
    if isinstance(alpha, Tensor) or isinstance(beta, Tensor):
        alpha, beta = as_numbers(name, {"alpha": alpha, "beta": beta}).values()
    _check_factors(name, beta, alpha, input.dtype)
    if input.dtype.category < FLOAT:  # as C converts them
        alpha, beta = held(alpha, input.dtype), held(beta, input.dtype)
    elif input.dtype.category == FLOAT:
        alpha, beta = alpha.real, beta.real
    if input.dtype.category == FLOAT and input.itemsize == 2 and ranks != (1, 1):  # rounded once, at the end
        promoted = _add_product(name, product, input.float(), a.float(), b.float(), beta, alpha, None).to(input.dtype)
        return promoted if out is None else store_into(out, promoted, exact=True)
    result = product(a, b) if alpha == 1 else product(a, b) * alpha
    start = _factor_times(beta, input.expand(result._a.shape))
    # PyTorch's sum has the memory format of the product, but for addr that of the input.
    result = _plus(start, result, input, ranks == (1, 1))
    result = label(result.to(input.dtype), f"{name.capitalize()}Backward0")
    return result if out is None else store_into(out, result, exact=ranks != (1, 1))


def _check_factors(name: str, beta: Any, alpha: Any, dtype: _dtype.dtype) -> None:
    """RuntimeError for factors that a sum of a type cannot hold; addr alone refuses bools, and floats in sums of integers."""
    summed = np.dtype(np.float32) if dtype in (_dtype.float16, _dtype.bfloat16) else dtype.np
    for factor, its_name in ((beta, "beta"), (alpha, "alpha")):
        if isinstance(factor, int):
            check_bits(factor)
        is_complex = type(factor) is complex
        if name == "addr" and (not is_complex or dtype.category < FLOAT):
            check_factor(its_name, factor, dtype.np.kind)
        if is_complex and factor.imag and dtype.category <= FLOAT:
            c_name = C_NAMES.get(dtype.name, dtype.name)
            raise RuntimeError(f"value cannot be converted to type {c_name} without overflow")
        if dtype.category >= FLOAT:
            check_range(factor.real, summed)


def _short(name: str, input: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float) -> Tensor | None:
    """The sum of tensors for which `_plain` holds, by one op or none; None where it takes several."""
    in_order = (
        name in ONE_OP or input.ndim < 2 or input._a.flags.c_contiguous
    )  # else addr's result has the input's layout
    on_cpu = input._a.__class__ is np.ndarray
    if on_cpu and in_order and unrecorded(input) and unrecorded(a) and unrecorded(b):
        return wrap_new(SHORT[name](np, input._a, a._a, b._a, beta=beta, alpha=alpha))
    if name not in ONE_OP:
        return None
    if beta == 1 == alpha:
        return label(ternary(_addmm, input, a, b), ONE_OP[name])
    return label(apply(_addmm, (input, a, b), {"beta": beta, "alpha": alpha}), ONE_OP[name])


def _plus(start: Tensor | None, result: Tensor, input: Tensor, as_input: bool) -> Tensor:
    """The sum, in memory as the product `result`, or as `input`."""
    if start is not None:
        return start + result if as_input else result + start
    turned = as_input and input.ndim == 2 and not input.is_contiguous() and input.mT.is_contiguous()
    return result.mT.contiguous().mT if turned else result


def _factor_times(beta: Any, x: Tensor) -> Tensor | None:
    """beta · x; if beta is 0, zeros whose gradient is zeros, or None where none is asked for."""
    if beta == 0:  # -0.0 + y is y, also for zeros
        return x.masked_fill(x.new_ones((), dtype=_dtype.bool), -0.0) if x.requires_grad else None
    return x if beta == 1 else x * beta


def _plain(ranks: tuple[int, int], x: Any, a: Any, b: Any, beta: Any, alpha: Any) -> bool:
    """Whether all are arrays of one real type on the CPU or a GPU, of shapes that fit, and numbers."""
    kind: Any = x.__class__
    if not (
        kind is a.__class__ is b.__class__ and kind in (np.ndarray, _backend.GpuArray) and x.dtype is a.dtype is b.dtype
    ):
        return False
    if x.dtype.char not in "fd" or alpha.__class__ not in NUMBER_TYPES or beta.__class__ not in NUMBER_TYPES:
        return False
    if not (-CHECKED_FROM <= alpha <= CHECKED_FROM and -CHECKED_FROM <= beta <= CHECKED_FROM):
        return False
    left, right = a.shape, b.shape
    if (len(left), len(right)) != ranks:
        return False
    if ranks == (1, 1):
        shape = left + right
    elif left[-1] != right[-2 if ranks[1] > 1 else 0] or left[:-2] != right[:-2]:
        return False
    else:
        shape = left[:-1] + right[1:] if len(right) < 3 else (*left[:-1], right[-1])
    if x.shape == shape or x.shape == shape[-1:]:
        return True
    return x.ndim <= len(shape) and all(n in (1, m) for n, m in zip(reversed(x.shape), reversed(shape), strict=False))


def _sum_of_products(batch1: Tensor, batch2: Tensor) -> Tensor:
    return bmm(batch1, batch2).sum(0, dtype=batch1.dtype)


def _outer_product(vec1: Tensor, vec2: Tensor) -> Tensor:
    return vec1.unsqueeze(1) * vec2


@method(in_place=by_copy)
@front
@accepts_old_order(3, "beta", "alpha", stacklevel=3)
@autocast("lower")
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Sum of a tensor and a matrix product: beta · input + alpha · (mat1 @ mat2).

    Args:
        beta: factor of input; with 0, nan and inf in input are ignored.
    Shape: input broadcastable to (N, P), mat1 (N, M), mat2 (M, P); result (N, P).
    Raises:
        RuntimeError: when sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.addmm(tdt.ones(1), tdt.ones(1, 2), tdt.ones(2, 1))
    tensor([[3.]])
    """
    return _add_product("addmm", matmul, input, mat1, mat2, beta, alpha, out)


@method(in_place=by_copy, in_place_function=True)
@front
@accepts_old_order(3, "beta", "alpha", stacklevel=3)
@autocast("keep")
def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Sum of a tensor and a matrix-vector product: beta · input + alpha · (mat @ vec).

    Args:
        beta: factor of input; with 0, nan and inf in input are ignored.
    Shape: input broadcastable to (N), mat (N, M), vec (M); result (N).
    Raises:
        RuntimeError: when sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.addmv(tdt.ones(1), tdt.ones(1, 2), tdt.ones(2))
    tensor([3.])
    """
    return _add_product("addmv", matmul, input, mat, vec, beta, alpha, out)


@method(in_place=by_copy)
@front
@accepts_old_order(3, "beta", "alpha", stacklevel=3)
@autocast("keep")
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Sum of a tensor and an outer product: beta · input + alpha · outer(vec1, vec2).

    Args:
        beta: factor of input; with 0, nan and inf in input are ignored.
    Shape: input broadcastable to (N, M), vec1 (N), vec2 (M); result (N, M).
    Raises:
        RuntimeError: when vec1 or vec2 is not a vector, or input cannot be broadcast.

    >>> import tdt
    >>> tdt.addr(tdt.ones(1), tdt.ones(1), tdt.ones(2))
    tensor([[2., 2.]])
    """
    return _add_product("addr", _outer_product, input, vec1, vec2, beta, alpha, out)


@method(in_place=by_copy)
@front
@accepts_old_order(3, "beta", "alpha", stacklevel=3)
@autocast("lower")
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Sum of a tensor and batched matrix products: beta · input + alpha · (batch1 @ batch2).

    Args:
        beta: factor of input; with 0, nan and inf in input are ignored.
    Shape: input broadcastable to (B, N, P), batch1 (B, N, M), batch2 (B, M, P); result (B, N, P).
    Raises:
        RuntimeError: when sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.baddbmm(tdt.ones(1), tdt.ones(1, 1, 2), tdt.ones(1, 2, 1))
    tensor([[[3.]]])
    """
    return _add_product("baddbmm", bmm, input, batch1, batch2, beta, alpha, out)


@method(in_place=by_copy)
@front
@accepts_old_order(3, "beta", "alpha", stacklevel=3)
@autocast("lower")
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """Sum of a tensor and the matrix products of a batch: beta · input + alpha · (batch1 @ batch2).sum(0).

    Args:
        beta: factor of input; with 0, nan and inf in input are ignored.
    Shape: input broadcastable to (N, P), batch1 (B, N, M), batch2 (B, M, P); result (N, P).
    Raises:
        RuntimeError: when sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.addbmm(tdt.ones(1), tdt.ones(2, 1, 2), tdt.ones(2, 2, 1))
    tensor([[5.]])
    """
    return _add_product("addbmm", _sum_of_products, input, batch1, batch2, beta, alpha, out)
