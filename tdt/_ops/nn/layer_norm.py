"""Layer normalisation, by mean and variance, or by the root mean square alone: of rows of the last dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tdt import _backend
from tdt._backend.waiting import repeatable
from tdt._core.dtype import FLOATING, check_category, finfo, float32
from tdt._core.tensor import Tensor, wrap_new
from tdt._kernels import LOWER, astype, chosen, float_layer, gpu_floats, gpu_kernel, kernel, narrow, widen
from tdt._ops._common import at_once, unrecorded
from tdt._ops.nn.batch_norm import HALF, check_dtypes, plain_with_float32, prepared_gradients, required
from tdt._ops.shape.memory import in_output_format, output_format
from tdt.autograd._op import op
from tdt.autograd._record import record_results
from tdt.autograd._remembered import calls_by_shape


def _row_shapes(x: tuple, w: tuple | None, b: tuple | None, *, dims: int, eps: float, centred: bool = True) -> tuple:
    of_rows = *x[: len(x) - dims], *(1,) * dims
    return x, of_rows, of_rows


_ROWS = kernel("layer_norm_cpu:layer_norm", float_layer)
_ON_GPU = gpu_kernel("norm_gpu:layer_norm", gpu_floats)
_GRAD_ON_GPU = (gpu_kernel("norm_gpu:layer_norm_vjp", gpu_floats),)
_RESULT = kernel("layer_norm_cpu:normed", float_layer)


@op(
    dtypes=FLOATING,
    promote=("x",),
    broadcasts=False,
    outputs=("out", "mean", "rstd"),
    shape=_row_shapes,
    node="NativeLayerNormBackward0",
    kernels=(_ROWS, _ON_GPU),
    absent=("mean", "rstd"),
    half=True,
)
def _layer_norm(xp, x, w=None, b=None, *, dims, eps, centred=True):
    """`x` with mean 0 and variance 1 over its last `dims` dimensions, times w, plus b.

    Unless `centred`, the mean is taken as 0: `x` is divided by its root mean square. Half precision may meet parameters of
    float32: then the statistics are float32 too.
    """
    if x.dtype in LOWER:
        wide, how = [x, *widen((w, b))], {"dims": dims, "eps": eps, "centred": centred}
        if not _ROWS.when(wide, how):  # which reads and writes rows of bfloat16, beside parameters of float32
            wide[0] = astype(x, float32.np)
        results = _ROWS.function(*wide, **how) if _ROWS.when(wide, how) else _layer_norm.forward(xp, *wide, **how)
        mixed = any(value is not None and value.dtype not in LOWER for value in (w, b))
        return (narrow(results[0], x.dtype), *results[1:]) if mixed else narrow(results, x.dtype)
    axes = tuple(range(x.ndim - dims, x.ndim))
    kind = x.dtype.type
    count = kind(math.prod(x.shape[x.ndim - dims :]))  # NumPy's own mean takes twice the time of a small sum
    mean = (
        _backend.total(x, axes, None, True) / count
        if centred
        else xp.zeros((*x.shape[: x.ndim - dims], *(1,) * dims), kind)
    )
    out = x - mean
    rstd = 1 / xp.sqrt(_backend.total(out * out, axes, None, True) / count + kind(eps))
    out *= rstd
    if w is not None:
        out *= w
    if b is not None:
        out += b
    return out, mean, rstd


@_layer_norm.vjp("x", "w", "b")
def _(needs, x, w, mean, rstd, g_out, g_mean, g_rstd, dims, centred):
    low = x.dtype
    x, g_out = (v if v.dtype is mean.dtype else v.to(mean.dtype) for v in (x, g_out))
    lead, axes = tuple(range(x.ndim - dims)), tuple(range(x.ndim - dims, x.ndim))
    count = math.prod(x.shape[x.ndim - dims :])
    normed = (x - mean) * rstd
    gx = None
    if needs[0]:
        g = g_out if w is None else g_out * w
        shift = (g.sum(axes, keepdim=True) * rstd - g_mean) / count if centred else 0
        slope = ((g * normed).sum(axes, keepdim=True) * rstd + g_rstd * rstd * rstd) / count
        gx = g * rstd - shift - normed * slope
        gx = gx if gx.dtype is low else gx.to(low)
    # Without dimensions before the rows, PyTorch's sum over none of them would be one over all.
    total = (lambda v: v.sum(lead)) if lead else (lambda v: v)
    return gx, total(g_out * normed) if needs[1] else None, total(g_out) if needs[2] else None


_SLOPES = (kernel("layer_norm_cpu:layer_norm_vjp", float_layer),)


@_layer_norm.fast_vjp("x", "w", "b")
@repeatable
def _(xp, needs, x, w, mean, rstd, g_out, g_mean, g_rstd, dims, centred):
    fast = chosen(_SLOPES, xp, x, g_out, w)
    if fast is None and x.dtype in LOWER:
        w, mean, rstd, g_mean, g_rstd = widen((w, mean, rstd, g_mean, g_rstd))
        fast = chosen(_SLOPES, xp, x, g_out, w)
        if fast is None:
            x, g_out = widen((x, g_out))
            fast = chosen(_SLOPES, xp, x, g_out, w)
    if on_gpu := chosen(_GRAD_ON_GPU, xp, x, g_out, w, mean, rstd, g_mean, g_rstd):
        return on_gpu(g_out, x, w, mean, rstd, g_mean, g_rstd, needs=needs, dims=dims, centred=centred)
    if fast:
        return required(fast(g_out, x, w, mean, rstd, g_mean, g_rstd, dims=dims, centred=centred), needs)
    lead, axes = tuple(range(x.ndim - dims)), tuple(range(x.ndim - dims, x.ndim))
    count = x.dtype.type(math.prod(x.shape[x.ndim - dims :]))
    g_mean, g_rstd = (0 if v is None else v for v in (g_mean, g_rstd))
    normed = (x - mean) * rstd
    gx = None
    if needs[0]:
        g = g_out if w is None else g_out * w
        shift = (g.sum(axis=axes, keepdims=True) * rstd - g_mean) / count if centred else 0
        slope = ((g * normed).sum(axis=axes, keepdims=True) * rstd + g_rstd * rstd * rstd) / count
        gx = g * rstd - shift - normed * slope
    gw, gb = (
        _backend.total(v, lead) if need else None for v, need in zip((g_out * normed, g_out), needs[1:], strict=True)
    )
    return gx, gw, gb


@_layer_norm.prepares_vjp("x", "w", "b")
def _(xp, needs, x, w, mean, rstd, g_out, g_mean, g_rstd, dims, centred):
    fast = chosen(_SLOPES, xp, x, g_out, w)
    return prepared_gradients(fast, needs, g_out, x, w, mean, rstd, dims=dims, centred=centred)


@calls_by_shape
def layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:  # fmt: skip
    """Normalise the last dimensions to mean 0 and variance 1, then scale by `weight` and shift by `bias`.

    Args:
        normalized_shape: sizes of the last dimensions.
        weight, bias: of the input's dtype; float32 ones also go with an input of half precision.
        eps: added to the variance.
    Shape: input (*, *normalized_shape), weight and bias (*normalized_shape); result as input.
    Raises:
        RuntimeError: when shapes or dtypes do not fit.
        TypeError: when `normalized_shape` is one int.
    Source: Ba et al., "Layer Normalization", 2016.

    >>> import tdt
    >>> tdt.nn.functional.layer_norm(tdt.tensor([1.0, 3.0]), (2,))
    tensor([-1.0000,  1.0000])
    """
    dims = _check_rows("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    out = _at_once(input, weight, bias, dims=dims, eps=eps, centred=True)
    return out if out is not None else normed_and_statistics(input, normalized_shape, weight, bias, eps)[0]


def _at_once(input: Tensor, weight: Tensor | None, bias: Tensor | None, **how: Any) -> Tensor | None:
    """The op's result by a kernel in a short call, recorded; None for other calls.

    how: all attributes of the op.
    """
    arrays = input._a, None if weight is None else weight._a, None if bias is None else bias._a
    if not at_once(input, weight, bias) or not _RESULT.when(arrays, {}):
        return None
    if unrecorded(input, weight, bias):
        return wrap_new(_RESULT.function(*arrays, **how))
    if arrays[0].dtype != float32.np:
        return None
    return record_results(_layer_norm, (input, weight, bias), arrays, how, _ROWS.function(*arrays, **how))[0]


def normed_and_statistics(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm`; each row's mean, and the inverse of its standard deviation."""
    dims = _check_rows("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    check_category("LayerNormKernelImpl", FLOATING, input.dtype)
    check_dtypes(input, [weight, bias])
    x = input.contiguous()
    params = [value for value in (weight, bias) if value is not None]
    if all(value._a.dtype is x._a.dtype for value in params) or (x.dtype in HALF and plain_with_float32(x, *params)):
        return _layer_norm(x, weight, bias, dims=dims, eps=eps)
    promoted = (None if value is None else value.float() for value in (weight, bias))
    out, mean, rstd = _layer_norm(x.float(), *promoted, dims=dims, eps=eps)
    return out.to(input.dtype), mean, rstd


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """Divide by the root mean square over the last dimensions, then scale by `weight`.

    Args:
        normalized_shape: sizes of the last dimensions.
        eps: added to the mean square; None is the machine epsilon of the dtype it computes in, float32 for half precision.
    Shape: input (*, *normalized_shape), weight (*normalized_shape); result as input.
    Raises:
        RuntimeError: when shapes do not fit.
        TypeError: when `normalized_shape` is one int.
    Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.

    >>> import tdt
    >>> tdt.rms_norm(tdt.tensor([3.0, -3.0]), (2,))
    tensor([ 1., -1.])
    """
    dims = _check_rows("rms_norm", input, normalized_shape, weight=weight)
    out = _at_once(input, weight, None, dims=dims, eps=finfo(float32).eps if eps is None else eps, centred=False)
    if out is not None:
        return _as_input(out, input)
    return _as_input(_rms_norm(input, dims, weight, eps), input)


def _as_input(out: Tensor, input: Tensor) -> Tensor:
    """A result in the memory format of the input."""
    return out if input._a.flags.c_contiguous else out.contiguous(memory_format=output_format(input))


def _rms_norm(input: Tensor, dims: int, weight: Tensor | None, eps: float | None) -> Tensor:
    """`rms_norm` over `dims` dimensions, contiguous."""
    x = in_output_format(input)
    if weight is not None and x.dtype in HALF and plain_with_float32(x, weight):
        return _layer_norm(x, weight, None, dims=dims, eps=finfo(float32).eps if eps is None else eps, centred=False)[0]
    x = x.float() if x.dtype in HALF else x
    if eps is None:
        eps = finfo(x.dtype if x.is_floating_point() or x.is_complex() else float32).eps
    if x.is_complex():  # of the plain squares, which are complex too
        scaled = x * ((x * x).mean(tuple(range(-dims, 0)), keepdim=True) + eps).rsqrt()
        return (scaled if weight is None else scaled * weight).to(input.dtype)
    inside = weight is not None and weight.dtype is x.dtype
    out = _layer_norm(x, weight if inside else None, None, dims=dims, eps=eps, centred=False)[0]
    out = out if inside or weight is None else out * weight
    return out if out.dtype is input.dtype else out.to(input.dtype)


def _check_rows(name: str, input: Tensor, normalized_shape: Any, **params: Tensor | None) -> int:
    """The number of normalized dimensions. TypeError or RuntimeError if the shapes do not match."""
    if isinstance(normalized_shape, int):
        raise TypeError(f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not int")
    row_shape = tuple(normalized_shape)
    if not row_shape:
        raise RuntimeError(f"Expected normalized_shape to be at least 1-dimensional, but got {list(row_shape)}")
    if input._a.shape[-len(row_shape) :] != row_shape:
        sizes = ", ".join(("*", *map(str, row_shape)))
        raise RuntimeError(f"Given normalized_shape={list(row_shape)}, expected input with shape [{sizes}], but got input of "
                           f"size{list(input.shape)}")  # fmt: skip
    for value, of in ((value, of) for of, value in params.items() if value is not None):
        if value._a.shape != row_shape:
            raise RuntimeError(f"Expected {of} to be of same shape as normalized_shape, but got {of} of shape "
                               f"{list(value.shape)} and normalized_shape = {list(row_shape)}")  # fmt: skip
    return len(row_shape)


__all__ = ["rms_norm"]
