"""Softmax, log_softmax, softmin and gumbel_softmax."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import repeatable
from tdt._core.calls import front
from tdt._core.dtype import FLOATING, as_dtype, dtype
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._kernels import chosen, enabled, float_columns, float_rows, for_arrays, gpu_floats, gpu_kernel, kernel
from tdt._kernels._formulas import FLOAT32
from tdt._ops._common import wrap_dim
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt._ops.reduce._along import of_columns
from tdt.autograd._fast_path import FastPath
from tdt.autograd._op import Op, finish, op


def _shifted(xp: Any, x: Any, dim: int) -> Any:
    """`x` minus its maximum along `dim`: exp overflows float32 above 88."""
    if not x.size:
        return x.copy()
    out = xp.empty(x.shape, x.dtype)  # contiguous whatever x is, as in PyTorch
    return xp.subtract(x, xp.maximum.reduce(x, dim, None, None, True) if xp is np else x.max(dim, None, True), out=out)


@op(dtypes=FLOATING)
def _softmax(xp, x, *, dim):
    if not x.ndim:
        return xp.exp(x - x)
    e = xp.exp(_shifted(xp, x, dim))
    return xp.divide(e, _backend.total(e, dim, None, True), out=e)


@_softmax.vjp("x")
def _(g, out, dim):
    return out * (g - (g * out).sum(dim, keepdim=True))


@_softmax.fast_vjp("x")
def _(xp, g, out, dim):
    return out * (g - (g * out).sum(axis=dim, keepdims=True))


@op(dtypes=FLOATING)
def _log_softmax(xp, x, *, dim):
    if not x.ndim:
        return x - x
    s = _shifted(xp, x, dim)
    return xp.subtract(s, xp.log(_backend.total(xp.exp(s), dim, None, True)), out=s)


@_log_softmax.vjp("x")
def _(g, out, dim):
    return g - out.exp() * g.sum(dim, keepdim=True)


@_log_softmax.fast_vjp("x")
def _(xp, g, out, dim):
    return g - xp.exp(out) * g.sum(axis=dim, keepdims=True)


def _leave_to_kernels(record: Op) -> None:
    """Use kernels for the op and for its array-level gradient: on the CPU for float32, on a GPU for float64 as well.

    The forward selects them itself, so that the op takes the fast path through dispatch.
    """
    forward, gradient = record.forward, record.rules["x"].fast
    assert gradient is not None and record.rules["x"].fast_params == ("xp", "g", "out", "dim")
    values, slopes = (
        [
            kernel(f"softmax_cpu:{record.name}{end}", float_rows),
            kernel(f"column_softmax_cpu:{record.name}{end}", float_columns),
            gpu_kernel(f"softmax_gpu:{record.name}{end}", gpu_floats),
        ]
        for end in ("", "_vjp")
    )

    @repeatable
    def value(xp: Any, x: Any, *, dim: int) -> Any:
        if x.ndim and (fast := chosen(values, xp, x, dim=dim)):
            return fast(x, dim=dim)
        return forward(xp, x, dim=dim)

    @repeatable
    def input_gradient(xp: Any, g: Any, out: Any, dim: int) -> Any:
        if out.ndim and (fast := chosen(slopes, xp, g, out, dim=dim)):
            return fast(g, out, dim=dim)
        return gradient(xp, g, out, dim)

    record.forward, record.rules["x"].fast = functools.update_wrapper(value, forward), input_gradient


for _record in (_softmax, _log_softmax):
    _leave_to_kernels(_record)


def _fast_path(record: Op) -> FastPath:
    """The short way of contiguous float32 arrays."""

    def prepare(
        dtype: Any, shape: tuple[int, ...], dim: Any, option: Any
    ) -> tuple[Callable[[Any], Any], dict[str, Any]] | None:
        ndim = len(shape)
        if dtype != FLOAT32 or not enabled() or not ndim:
            return None
        from tdt._kernels import column_softmax_cpu, softmax_cpu

        axis, a = wrap_dim(dim, ndim), np.empty(shape, dtype)
        if axis == ndim - 1:
            function = softmax_cpu.ufunc(record.name)
            return for_arrays(function, function, [a]), {"dim": axis}
        return of_columns(column_softmax_cpu.at_once(record.name), a, axis), {"dim": axis}

    return FastPath(record, prepare, other_order="copied")


_fast_softmax, _fast_log_softmax = _fast_path(_softmax), _fast_path(_log_softmax)


def _as_dtype(name: str, input: Tensor, dtype: dtype | None) -> Tensor:
    tensor_argument(name, input)
    return input if dtype is None or input.dtype is as_dtype(dtype) else input.to(as_dtype(dtype))


@method()
@front
def softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`; a slice of all -inf gives NaN.

    Args:
        dtype: convert the input to it first.
    Shape: input (*); result the same.
    Raises:
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.softmax(tdt.tensor([0.0, 0.0]), dim=0)
    tensor([0.5000, 0.5000])
    """
    if dtype is None and out is None and (result := _fast_softmax(input, dim, None)) is not None:
        return result
    input = _as_dtype("softmax", input, dtype)
    refuse_out(out, input)
    return finish(_softmax, out, input, dim=wrap_dim(dim, input.ndim))


@method()
@front
def log_softmax(input: Tensor, dim: int, dtype: dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of `softmax` along `dim`, computed without its loss of precision.

    Args:
        dtype: convert the input to it first.
    Shape: input (*); result the same.
    Raises:
        IndexError: when `dim` is out of range.

    >>> import tdt
    >>> tdt.log_softmax(tdt.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    if dtype is None and out is None and (result := _fast_log_softmax(input, dim, None)) is not None:
        return result
    input = _as_dtype("log_softmax", input, dtype)
    refuse_out(out, input)
    return finish(_log_softmax, out, input, dim=wrap_dim(dim, input.ndim))


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """`softmax` of -input along `dim`: the smallest element gets the largest weight.

    Args:
        dim: None warns and takes 0 for an input of 0, 1 or 3 dimensions, else 1.
        dtype: convert the result of the negation to it first.
    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.nn.functional.softmin(tdt.tensor([0.0, 100.0]), dim=0)
    tensor([1.0000e+00, 3.7835e-44])
    """
    return softmax(-input, implicit_dim("softmin", input, dim, _stacklevel), dtype)


def implicit_dim(name: str, input: Tensor, dim: int | None, stacklevel: int) -> int:
    """`dim`; if None, with a warning, 0 for an input of 0, 1 or 3 dimensions, else 1."""
    if dim is not None:
        return dim
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. "
                  "Change the call to include dim=X as an argument.", stacklevel=stacklevel)  # fmt: skip
    return 0 if input.ndim in (0, 1, 3) else 1


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Differentiable sample from the categories of `logits`: softmax((logits + Gumbel noise) / tau) along `dim`.

    Args:
        tau: temperature; the smaller, the closer the sample is to one-hot.
        hard: return a one-hot sample, with the gradient of the soft one.
        eps: has no effect.
    Shape: logits (*); result the same.
    Source: Jang et al., "Categorical Reparameterization with Gumbel-Softmax", 2017.

    >>> import tdt
    >>> float(tdt.nn.functional.gumbel_softmax(tdt.zeros(5), hard=True).sum())
    1.0
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = -logits.new_empty(logits.shape).exponential_().log()
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    return logits.new_zeros(logits.shape).scatter_(dim, index, 1.0) - soft.detach() + soft


__all__ = ["softmax", "log_softmax"]
