"""Batch normalisation. The statistics are outputs with their own gradient rules, so that all derivatives include them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from types import NoneType
from typing import Any

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.layout import output_is_channels_last
from tdt._backend.waiting import repeatable
from tdt._core.dtype import FLOATING, bfloat16, check_category, float16, float32
from tdt._core.errors import constant
from tdt._core.mode import no_grad, state, uncast_record
from tdt._core.tensor import Tensor, wrap_new
from tdt._kernels import (
    LOWER,
    chosen,
    chosen_for,
    float_channels,
    float_images_of_channels,
    float_or_half_channels,
    float_rows,
    from_formula,
    gpu_channels,
    gpu_kernel,
    kernel,
    large_channels,
    lazy,
    narrow,
    widen,
)
from tdt._ops._common import at_once, unrecorded
from tdt._ops.shape.memory import in_output_format
from tdt.autograd._inplace import is_plain, write
from tdt.autograd._layouts import LayoutCall, Layouts, call_of
from tdt.autograd._op import op
from tdt.autograd._plan import plan_for
from tdt.autograd._record import record_repeated, record_results
from tdt.autograd._remembered import calls_by_shape, calls_by_shape_with_all_results

HALF = (float16, bfloat16)


def _axes(ndim: int) -> tuple[int, ...]:
    return (0, *range(2, ndim))


def per_channel(v: Any, ndim: int) -> Any:
    """(C,), or (N, C), reshaped to broadcast against (N, C, *)."""
    return v.reshape(*v.shape, *(1,) * (ndim - 2))


def _sum(xp: Any, a: Any) -> Any:
    """Sum over all dimensions but the channels. A product with ones beats NumPy's reduction, and rounds less."""
    if xp is np and a.ndim != 3 and ((a.ndim == 2 and a.flags.c_contiguous) or output_is_channels_last(a)):
        rows = a.transpose(0, *range(2, a.ndim), 1).reshape(-1, a.shape[1]) if a.ndim > 2 else a
        return np.ones(len(rows), a.dtype) @ rows
    return _kernels.total(a, _axes(a.ndim))


_ON_GPU = gpu_kernel("norm_gpu:batch_norm", gpu_channels)


@op(dtypes=FLOATING, promote=("x",), broadcasts=False, outputs=("out", "mean", "rstd", "var"), nondiff=("var",),
    shape=lambda x, w, b, **how: (x, (x[1],), (x[1],), (x[1],)), node="NativeBatchNormBackward0",
    kernels=(
        kernel("row_norm_cpu:batch_norm", float_or_half_channels),
        kernel("plane_norm_cpu:batch_norm", float_images_of_channels),
        _ON_GPU,
    ), half="everywhere", absent=("mean", "rstd"))  # fmt: skip
def _batch_norm(xp, x, w=None, b=None, *, eps):
    """The normalised input; per channel mean, 1 / √(variance + eps), and the unbiased variance.

    Where the input is of half precision, so is the result alone.
    """
    if x.dtype in LOWER:
        wide = widen((x, w, b))
        function = chosen(_batch_norm.kernels, xp, *wide, eps=eps)
        out, *statistics = function(*wide, eps=eps) if function else _batch_norm.forward(xp, *wide, eps=eps)
        return narrow(out, x.dtype), *statistics
    kind = x.dtype.type
    count = x.size // x.shape[1]
    mean = _sum(xp, x) / kind(count)
    centred = x - per_channel(mean, x.ndim)
    squares = _sum(xp, centred * centred)
    rstd = 1 / xp.sqrt(squares / kind(count) + kind(eps))
    scale = rstd if w is None else rstd * w
    out = xp.multiply(centred, per_channel(scale, x.ndim), out=centred)
    if b is not None:
        out = xp.add(out, per_channel(b, x.ndim), out=out)
    return out, mean, rstd, squares * kind(1 / (count - 1) if count > 1 else math.nan)


@_batch_norm.vjp("x", "w", "b")
def _(g, needs, x, w, mean, rstd, g_out, g_mean, g_rstd):
    low = x.dtype
    x, g_out = (v if v.dtype is mean.dtype else v.to(mean.dtype) for v in (x, g_out))
    n, axes = x.ndim, _axes(x.ndim)
    count = math.prod(x.shape) // x.shape[1]
    centred = x - per_channel(mean, n)
    gb = g_out.sum(axes)
    gw = (g_out * centred).sum(axes) * rstd
    gx = None
    if needs[0]:
        scale = rstd if w is None else rstd * w
        towards = gw if w is None else gw * w  # sum of (gradient of the normalised input) × (normalised input)
        shift = (gb * scale - g_mean) / count
        # d rstd / d x = - rstd³ centred / count
        slope = (towards * rstd * rstd + g_rstd * rstd * rstd * rstd) / count
        gx = g_out * per_channel(scale, n) - per_channel(shift, n) - centred * per_channel(slope, n)
        gx = gx if gx.dtype is low else gx.to(low)
    return gx, gw if needs[1] else None, gb if needs[2] else None


def required(gradients: tuple, needs: tuple) -> tuple:
    """The gradients that are needed, None in the place of others."""
    return gradients if all(needs) else tuple(g if need else None for g, need in zip(gradients, needs, strict=True))


def prepared_gradients(fast: Any, needs: tuple, *arrays: Any, **how: Any) -> Any:
    """What the kernel `fast` of a rule prepares for arrays like these, without the gradients that are not needed; or None."""
    prepare = getattr(fast, "prepare", None)
    compute = prepare and prepare(*arrays, **how)
    return compute if compute is None or all(needs) else lambda *arrays: required(compute(*arrays), needs)


_SLOPES = (
    kernel("row_norm_cpu:batch_norm_vjp", float_or_half_channels),
    kernel("plane_norm_cpu:batch_norm_vjp", float_images_of_channels),
    gpu_kernel("norm_gpu:batch_norm_vjp", gpu_channels),
)


@_batch_norm.fast_vjp("x", "w", "b")
@repeatable
def _(xp, g, needs, x, w, mean, rstd, g_out, g_mean, g_rstd):
    if fast := chosen(_SLOPES, xp, x, g_out, w):
        return required(fast(g_out, x, w, mean, rstd, g_mean, g_rstd), needs)
    x, g_out = widen((x, g_out))
    if fast := chosen(_SLOPES, xp, x, g_out, w):
        return required(fast(g_out, x, w, mean, rstd, g_mean, g_rstd), needs)
    count = x.dtype.type(x.size // x.shape[1])
    g_mean, g_rstd = (0 if v is None else v for v in (g_mean, g_rstd))
    gb, gw = grad_sums(xp, g_out, x, mean)
    gw *= rstd
    gx = None
    if needs[0]:
        scale = rstd if w is None else rstd * w
        slope = ((gw if w is None else gw * w) * rstd * rstd + g_rstd * rstd * rstd * rstd) / count
        gx = input_grad(xp, g_out, x, mean, scale, slope, (gb * scale - g_mean) / count)
    return gx, gw if needs[1] else None, gb if needs[2] else None


@_batch_norm.prepares_vjp("x", "w", "b")
def _(xp, g, needs, x, w, mean, rstd, g_out, g_mean, g_rstd):
    return prepared_gradients(chosen(_SLOPES, xp, x, g_out, w), needs, g_out, x, w, mean, rstd)


_GRAD_SUMS = (kernel("norm_cpu:batch_norm_sums", large_channels),)
_INPUT_GRAD = (kernel("norm_cpu:batch_norm_input_grad", large_channels),)


def grad_sums(xp: Any, g: Any, x: Any, mean: Any) -> tuple[Any, Any]:
    """The sums of g and of g (x - mean) per channel, for a `mean` (C,), or per sample and channel, for (N, C)."""
    if fast := chosen(_GRAD_SUMS, xp, x, g):
        return fast(g, x, mean)
    weighted = g * (x - per_channel(mean, x.ndim))
    if mean.ndim == 2:
        axes = tuple(range(2, x.ndim))
        return g.sum(axis=axes), weighted.sum(axis=axes)
    return _sum(xp, g), _sum(xp, weighted)


def input_grad(xp: Any, g: Any, x: Any, mean: Any, scale: Any, slope: Any, shift: Any) -> Any:
    """g scale - (x - mean) slope - shift, with numbers per channel, (C,), or per sample and channel, (N, C)."""
    if fast := chosen(_INPUT_GRAD, xp, x, g):
        return fast(g, x, mean, scale, slope, shift)
    gx = x - per_channel(mean, x.ndim)
    gx *= per_channel(-slope, x.ndim)
    gx += g * per_channel(scale, x.ndim)
    gx -= per_channel(shift, x.ndim)
    return gx


_evaluation: Any = from_formula("batch_norm_eval", lambda xp, x, mean, scale: (x - mean) * scale, 3, ())[0]
_shifted_evaluation: Any = from_formula(
    "batch_norm_eval_with_bias", lambda xp, x, mean, scale, b: (x - mean) * scale + b, 4, ()
)[0]


@op(dtypes=FLOATING, promote=("x",), broadcasts=False, node="NativeBatchNormBackward0",
    kernels=(
        kernel("row_norm_cpu:batch_norm_eval", float_channels),
        kernel("plane_norm_cpu:batch_norm_eval", float_images_of_channels),
    ))  # fmt: skip
def _batch_norm_eval(xp, x, mean, var, w=None, b=None, *, eps):
    """`x` normalised by statistics of its channels."""
    rstd = 1 / xp.sqrt(var + x.dtype.type(eps))
    scale = per_channel(rstd if w is None else rstd * w, x.ndim)
    if xp is not np:  # CuPy's results are contiguous, whatever the order of x
        values = x, per_channel(mean, x.ndim), scale
        return _evaluation(xp, *values) if b is None else _shifted_evaluation(xp, *values, per_channel(b, x.ndim))
    out = x - per_channel(mean, x.ndim)
    out *= scale
    if b is not None:
        out += per_channel(b, x.ndim)
    return out


@_batch_norm_eval.vjp("x", "w", "b")
def _(g, needs, x, mean, var, w, eps):
    axes, rstd = _axes(x.ndim), (var + eps).rsqrt()
    scale = rstd if w is None else rstd * w
    return (
        g * per_channel(scale, x.ndim) if needs[0] else None,
        (g * (x - per_channel(mean, x.ndim))).sum(axes) * rstd if needs[1] else None,
        g.sum(axes) if needs[2] else None,
    )


_EVAL_SLOPES = (
    kernel("row_norm_cpu:batch_norm_eval_vjp", float_channels),
    kernel("plane_norm_cpu:batch_norm_eval_vjp", float_images_of_channels),
)


@_batch_norm_eval.fast_vjp("x", "w", "b")
def _(xp, g, needs, x, mean, var, w, eps):
    rstd = 1 / xp.sqrt(var + x.dtype.type(eps))
    scale = rstd if w is None else rstd * w
    gx = None
    plain = weighted = g
    if fast := chosen(_EVAL_SLOPES, xp, x, g, mean, scale):
        gx, plain, weighted = fast(g, x, mean, scale)
    else:
        if needs[0]:
            gx = g * per_channel(scale, x.ndim)
        if any(needs[1:]):
            plain, weighted = grad_sums(xp, g, x, mean)
    return gx if needs[0] else None, weighted * rstd if needs[1] else None, plain if needs[2] else None


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1,
               eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalise each channel to mean 0 and variance 1 over the batch, then scale by `weight` and shift by `bias`.

    Args:
        running_mean, running_var: used instead of the batch's statistics unless `training`; in training they are updated.
        momentum: weight of the batch's mean and unbiased variance in that update.
        eps: added to the variance.
    Shape: input (N, C, *); running_mean, running_var, weight and bias (C,); result as input.
    Raises:
        ValueError: when a channel has a single value in training, or one of the running statistics is missing there; when
            `eps` is negative, or 0 in training.
        RuntimeError: when sizes or dtypes do not fit, running statistics are missing without `training`, or they require grad.
        IndexError: when `input` has fewer than 2 dimensions.
    Source: Ioffe and Szegedy, "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate
        Shift", 2015.

    >>> import tdt
    >>> tdt.nn.functional.batch_norm(tdt.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    if training and _values_of_a_channel(input._a.shape) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    if eps < 0 or (training and eps == 0):
        kind = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {kind}, but got {eps}")
    if not training and running_mean is not None and running_var is not None:
        out = _evaluated(input, running_mean, running_var, weight, bias, eps)
        if out is not None:
            return out
    if training and running_mean is None is running_var:
        return _by_batch_alone(input, weight, bias, eps)
    if training and (running_mean is None or running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    if training and input._a.__class__ is not np.ndarray:
        counted = counted_batch_norm(input, running_mean, running_var, weight, bias, momentum, eps, None)
        if counted is not None:
            return counted
    elif training and _moves_at_once(input, running_mean, running_var, weight, bias):
        out, mean, _, var = _results_by_batch(input, weight, bias, eps)
        moved = running_mean._a, mean._a, running_var._a, var._a  # type: ignore[union-attr]
        _MOVING_AVERAGES(*moved, momentum)
        running_mean._st.bump_version()  # type: ignore[union-attr]
        running_var._st.bump_version()  # type: ignore[union-attr]
        return out
    return normed_and_statistics(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


@calls_by_shape
def _by_batch_alone(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    return normed_and_statistics(input, None, None, weight, bias, True, 0.0, eps)[0]


@calls_by_shape_with_all_results
def _results_by_batch(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> tuple[Tensor, ...]:
    """The result of a batch that is not empty, the mean, the inverse of the deviation, and the variance."""
    _check_sizes(input, (None, None, weight, bias))
    check_dtypes(input, (weight, bias))
    return _batch_norm(in_output_format(input), weight, bias, eps=eps)


def _moves_at_once(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None, bias: Tensor | None
) -> bool:
    """Whether one kernel may move both running statistics of an input's channels, all but the input in float32, and no handler
    sees it."""
    x = input._a
    if (
        uncast_record() is None
        or x.__class__ is not np.ndarray
        or (x.dtype is not float32.np and not (x.dtype in LOWER and plain_with_float32(input, weight, bias)))
        or x.ndim < 2
        or not x.size
    ):
        return False
    for running in (running_mean, running_var):
        if (
            running is None
            or not is_plain(running)
            or running._a.dtype is not float32.np
            or running._a.shape != x.shape[1:2]
        ):
            return False
    return _kernels.enabled()


def _evaluated(input: Tensor, mean: Tensor, var: Tensor, weight: Tensor | None, bias: Tensor | None,
               eps: float) -> Tensor | None:  # fmt: skip
    """The result by the kernel of `_batch_norm_eval`, where the call is no more than that; None for other calls."""
    if not unrecorded(input, mean, var, weight, bias):
        return None
    x, m, v = input._a, mean._a, var._a
    if not x.flags.c_contiguous:
        x = in_output_format(input)._a
    w, b = None if weight is None else weight._a, None if bias is None else bias._a
    channels = x.shape[1:2]
    if not m.shape == channels == v.shape or not (
        (w is None or w.shape == channels) and (b is None or b.shape == channels)
    ):
        return None
    fast = chosen(_batch_norm_eval.kernels, np, x, m, v, w, b)
    return fast and wrap_new(fast(x, m, v, w, b, eps=eps))


def _values_of_a_channel(shape: tuple[int, ...]) -> int:
    return shape[0] * math.prod(shape[2:])


def normed_and_statistics(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None,
                          bias: Tensor | None, training: bool, momentum: float,
                          eps: float) -> tuple[Tensor, Tensor | None, Tensor | None]:  # fmt: skip
    """`batch_norm` for batches of any size; and in training each channel's mean, and the inverse of its deviation."""
    array = input._a
    if not array.size:  # nothing to normalise, and no channels to speak of: one weight joins the graph for all
        out = input.clone() if weight is None else input * weight[0]
        return out if bias is None else out + bias[0], None, None
    params = running_mean, running_var, weight, bias
    refuse_gradients(running_mean, running_var)
    _check_sizes(input, params)
    if not array.flags.c_contiguous:
        input = in_output_format(input)
    kind, used_mean, used_var = input.dtype, running_mean, running_var
    check_dtypes(input, params)
    if kind in HALF:
        weight, bias, used_mean, used_var = (
            None if v is None else v.float() for v in (weight, bias, used_mean, used_var)
        )
        if not training and used_mean is not None and used_var is not None:
            evaluated = _evaluated(input, used_mean, used_var, weight, bias, eps)
            if evaluated is not None:
                return evaluated, None, None
        if not training:
            input = input.float()
    mean = rstd = None
    if training:
        out, mean, rstd = _by_batch(input, running_mean, running_var, weight, bias, momentum, eps)
    elif used_mean is None or used_var is None:
        raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
    else:
        check_category("batch_norm", FLOATING, input.dtype)
        out = _batch_norm_eval(input, used_mean, used_var, weight, bias, eps=eps)
    return out if out.dtype is kind else out.to(kind), mean, rstd


def refuse_gradients(running_mean: Tensor | None, running_var: Tensor | None) -> None:
    """RuntimeError for running statistics that require grad, where gradients are recorded."""
    for name, running in (("running_mean", running_mean), ("running_var", running_var)):
        if running is not None and state.grad and running.requires_grad:
            raise constant("batch_norm", name)


def _check_sizes(input: Tensor, params: tuple[Tensor | None, ...]) -> None:
    """IndexError for an input without channels, RuntimeError if `params`, in the order of `batch_norm`, are not one for each."""
    shape = input._a.shape
    if len(shape) < 2:
        raise IndexError(f"batch_norm: expected input (N, C, *), but got {list(shape)}")
    for name, value in zip(("running_mean", "running_var", "weight", "bias"), params, strict=True):
        if value is not None and value._a.size != shape[1]:
            raise RuntimeError(f"{name} should contain {shape[1]} elements not {value.numel()}")


def plain_with_float32(input: Tensor, *params: Tensor | None) -> bool:
    """Whether the input is NumPy's, and the parameters are absent or float32."""
    return input._a.__class__ is np.ndarray and all(value is None or value.dtype is float32 for value in params)


def check_dtypes(input: Tensor, params: Sequence[Tensor | None]) -> None:
    """RuntimeError unless all have one dtype, or the input is of half precision and all others are float32."""
    dtype = input._a.dtype
    for value in params:
        if value is not None and value._a.dtype is not dtype:
            break
    else:
        return
    kinds = {value.dtype for value in params if value is not None} - {input.dtype}
    if kinds and input.is_floating_point():
        if kinds != {float32}:
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        if input.dtype not in HALF:
            raise RuntimeError(
                f"mixed dtype (CPU): all inputs must share same datatype. The input is {input.dtype}, the layer float32"
            )


def _by_batch(x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None,
              bias: Tensor | None, momentum: float, eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Normalised by the batch's own statistics, towards which the running ones move."""
    results: Any = None
    if x._a.dtype == float32.np and at_once(x, weight, bias):
        arrays, how = (x._a, None if weight is None else weight._a, None if bias is None else bias._a), {"eps": eps}
        if fast := chosen_for(_batch_norm.kernels, arrays, how):
            results = record_results(_batch_norm, (x, weight, bias), arrays, how, fast(*arrays, eps=eps))
    elif (running_mean is None) == (running_var is None) and fits_gpu(x, weight, bias, running_mean, running_var):
        return _on_gpu(x, running_mean, running_var, weight, bias, momentum, eps)
    out, mean, rstd, var = results or _batch_norm(x, weight, bias, eps=eps)
    for running, value in ((running_mean, mean), (running_var, var)):
        if running is not None:
            _move(running, value, momentum)
    return out, mean, rstd


def _on_gpu(x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None, bias: Tensor | None,
            momentum: float, eps: float, batches: Tensor | None = None,
            call: LayoutCall | None = None) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The same by one kernel, which moves the running statistics too, and adds 1 to a number of batches."""
    moving = tuple(None if v is None else v._a for v in (running_mean, running_var))
    arrays = x._a, None if weight is None else weight._a, None if bias is None else bias._a
    counter = None if batches is None else batches._a
    compute = partial(_ON_GPU.function, *arrays, eps=eps, running=moving, batches=counter, momentum=momentum)
    if call is not None:
        found = call.forward(compute, (arrays[0], *moving, *arrays[1:], counter))
    else:
        with _backend.on_gpu_of(x._a):
            found = compute()
    for written in (running_mean, running_var, batches):
        if written is not None:
            written._st.bump_version()
    out, mean, rstd, _ = record_results(_batch_norm, (x, weight, bias), arrays, {"eps": eps}, found, call)
    return out, mean, rstd


def counted_batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None,
                       bias: Tensor | None, momentum: float, eps: float,
                       batches: Tensor | None) -> Tensor | None:  # fmt: skip
    """`batch_norm` in training by a kernel that also adds 1 to `batches`; None, with nothing done, where none does."""
    params = running_mean, running_var, weight, bias
    call: LayoutCall | None = None
    record = uncast_record()
    if record is not None:
        call, arrays = call_of(_COUNTED, (input, *params, batches), {"momentum": momentum, "eps": eps})
    if record is not None and call is not None and call.plan is not None:
        if batches is not None and batches._st.inference:
            return None
        for v in params:
            if v is not None and v._view is not None:
                return None
        if (program := call.forward.program) is not None:
            found = program(arrays)
            for written in (running_mean, running_var, batches):
                if written is not None:
                    written._st.bump_version()
            operands, own = (input, weight, bias), [arrays[0], *arrays[3:5]]
            return record_repeated(_batch_norm, call, operands, own, found, record, False)
    elif not _counts_on_gpu(input, params, eps, batches):
        return None
    if call is not None:
        own = [arrays[0], *arrays[3:5]]
        types = tuple([NoneType if a is None else a.dtype for a in own])
        call.plan, call.attributes = plan_for(_batch_norm, types, own)[1], {"eps": eps}
    return _on_gpu(input, *params, momentum, eps, batches, call)[0]


_COUNTED = Layouts()


def _counts_on_gpu(input: Tensor, params: tuple[Tensor | None, ...], eps: float, batches: Tensor | None) -> bool:
    """Whether a kernel normalises the input, and adds 1 to the number of batches."""
    x = input._a
    if x.__class__ is np.ndarray or x.ndim < 2 or eps <= 0 or _values_of_a_channel(x.shape) < 2:
        return False
    if not fits_gpu(input, *params) or any(v is not None and v._a.shape != x.shape[1:2] for v in params):
        return False
    if state.grad and any(v is not None and v.requires_grad for v in params[:2]):
        return False
    if batches is None:
        return True
    count = batches._a
    on_one = count.__class__ is x.__class__ and count.device == x.device
    return on_one and count.dtype == np.int64 and not batches._st.inference


def fits_gpu(x: Tensor, *rest: Tensor | None) -> bool:
    """Whether a kernel takes these tensors of a GPU at once: no handler sees the call, none of `rest` is a view."""
    if uncast_record() is None or not _kernels.enabled() or any(v is not None and v._view is not None for v in rest):
        return False
    arrays = [x._a, *(None if v is None else v._a for v in rest)]
    on_one = all(a is None or (hasattr(a, "__cuda_array_interface__") and a.device == arrays[0].device) for a in arrays)
    return on_one and gpu_channels(arrays, {})


def _move(running: Tensor, value: Tensor, momentum: float) -> None:
    """Move running statistics towards a batch's."""
    a, b = running._a, value._a
    if not is_plain(running) or b.__class__ is not np.ndarray or a.shape != b.shape or a.dtype is not b.dtype:
        with no_grad():
            write(_moving_average, running, (value,), {"momentum": momentum})
        return
    _moving_average.forward(np, a, b, momentum=momentum, out=a)
    running._st.bump_version()


_MOVING_AVERAGES = lazy("plane_norm_cpu:moving_averages")
_MOVING_AVERAGE = kernel("plane_norm_cpu:moving_average", float_rows)


@op(dtypes=FLOATING)
def _moving_average(xp, running, value, *, momentum, out=None):
    """running (1 - momentum) + value momentum, rounded once."""
    if out is not None and xp is np and np.may_share_memory(out, running) and _MOVING_AVERAGE.when((out, value), {}):
        return _MOVING_AVERAGE.function(out, value, momentum=momentum)
    moved = xp.multiply(running, 1 - momentum, dtype=np.float64)
    moved += xp.multiply(value, momentum, dtype=np.float64)
    if out is None:
        return moved.astype(running.dtype)
    out[...] = moved
    return out


__all__: list[str] = []
