"""Group and instance normalisation: each group of channels of a sample has its own statistics, outputs with gradient rules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import repeatable
from tdt._core.dtype import FLOATING, float32, float64
from tdt._core.mode import no_grad
from tdt._core.tensor import Tensor, wrap_new
from tdt._kernels import (
    LOWER,
    cached_groups,
    chosen,
    float_planes,
    gpu_channels,
    gpu_kernel,
    kernel,
    large_channels,
    narrow,
    widen,
)
from tdt._ops._common import at_once, unrecorded
from tdt._ops.nn.batch_norm import (
    HALF,
    batch_norm,
    check_dtypes,
    grad_sums,
    input_grad,
    per_channel,
    prepared_gradients,
    refuse_gradients,
    required,
)
from tdt._ops.shape.memory import in_output_format
from tdt.autograd._node_names import label
from tdt.autograd._op import op
from tdt.autograd._record import record_results
from tdt.autograd._remembered import calls_by_shape

FULL = (float32, float64)


def _shapes(x: tuple, w: tuple | None, b: tuple | None, *, groups: int, eps: float) -> tuple:
    return x, (x[0], groups), (x[0], groups)


def _in_groups(x: Any, groups: int) -> Any:
    """(N, C, *) as (N, groups, channels of a group, places); without copying, contiguous or channels-last."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))


_PLANES = kernel("plane_norm_cpu:group_norm", float_planes)


@op(
    dtypes=FLOATING,
    promote=("x",),
    broadcasts=False,
    outputs=("out", "mean", "rstd"),
    shape=_shapes,
    node="NativeGroupNormBackward0",
    kernels=(
        _PLANES,
        kernel("group_norm_cpu:group_norm", cached_groups),
        kernel("norm_cpu:group_norm", large_channels),
        gpu_kernel("group_norm_gpu:group_norm", gpu_channels),
    ),
    half="everywhere",
    absent=("mean", "rstd"),
)
def _group_norm(xp, x, w=None, b=None, *, groups, eps):
    """`x` with mean 0 and variance 1 over each group of channels of each sample, times w, plus b.

    Where the input is of half precision, so is the result alone.
    """
    if x.dtype in LOWER:
        wide, how = widen((x, w, b)), {"groups": groups, "eps": eps}
        function = chosen(_group_norm.kernels, xp, *wide, **how)
        out, *statistics = function(*wide, **how) if function else _group_norm.forward(xp, *wide, **how)
        return narrow(out, x.dtype), *statistics
    grouped = _in_groups(x, groups)
    kind = x.dtype.type
    count = kind(grouped.shape[2] * grouped.shape[3])
    mean = _backend.total(grouped, (2, 3), None, True) / count
    centred = grouped - mean
    rstd = 1 / xp.sqrt(_backend.total(centred * centred, (2, 3), None, True) / count + kind(eps))
    centred *= rstd
    out = centred.reshape(x.shape)
    if w is not None:
        out *= per_channel(w, x.ndim)
    if b is not None:
        out += per_channel(b, x.ndim)
    return out, mean[..., 0, 0], rstd[..., 0, 0]


@_group_norm.vjp("x", "w", "b")
def _(needs, x, w, mean, rstd, g_out, g_mean, g_rstd, groups):
    low, places = x.dtype, tuple(range(2, x.ndim))
    x, g_out = (v if v.dtype is mean.dtype else v.to(mean.dtype) for v in (x, g_out))
    grouped = _in_groups(x, groups)
    normed = ((grouped - per_channel(mean, 4)) * per_channel(rstd, 4)).reshape(x.shape)
    gx = None
    if needs[0]:
        g = _in_groups(g_out if w is None else g_out * per_channel(w, x.ndim), groups)
        count = grouped.shape[2] * grouped.shape[3]
        shift = (g.sum((2, 3)) * rstd - g_mean) / count
        slope = ((g * _in_groups(normed, groups)).sum((2, 3)) + g_rstd * rstd) * rstd * rstd / count
        gx = g * per_channel(rstd, 4) - (grouped - per_channel(mean, 4)) * per_channel(slope, 4) - per_channel(shift, 4)
        gx = gx.reshape(x.shape) if low is x.dtype else gx.reshape(x.shape).to(low)
    return gx, (g_out * normed).sum((0, *places)) if needs[1] else None, g_out.sum((0, *places)) if needs[2] else None


_SLOPES = (
    kernel("plane_norm_cpu:group_norm_vjp", float_planes),
    kernel("group_norm_cpu:group_norm_vjp", cached_groups),
    gpu_kernel("group_norm_gpu:group_norm_vjp", gpu_channels),
)


@_group_norm.fast_vjp("x", "w", "b")
@repeatable
def _(xp, needs, x, w, mean, rstd, g_out, g_mean, g_rstd, groups):
    if fast := chosen(_SLOPES, xp, x, g_out, w, groups=groups):
        return required(fast(g_out, x, w, mean, rstd, g_mean, g_rstd), needs)
    x, g_out = widen((x, g_out))
    if fast := chosen(_SLOPES, xp, x, g_out, w, groups=groups):
        return required(fast(g_out, x, w, mean, rstd, g_mean, g_rstd), needs)
    g_mean, g_rstd = (0 if v is None else v for v in (g_mean, g_rstd))

    def each(v: Any) -> Any:  # (N, groups) → (N, C)
        return v.repeat(x.shape[1] // groups, axis=1)

    def total(v: Any) -> Any:  # (N, C) → (N, groups)
        return v.reshape(v.shape[0], groups, v.shape[1] // groups).sum(axis=2)

    gb, gw = grad_sums(xp, g_out, x, each(mean))
    gw *= each(rstd)
    gx = None
    if needs[0]:
        scale = each(rstd) if w is None else each(rstd) * w
        count = x.dtype.type(math.prod(x.shape[1:]) // groups)
        shift = (total(gb * scale) - g_mean) / count
        slope = (total(gw if w is None else gw * w) + g_rstd * rstd) * rstd * rstd / count
        gx = input_grad(xp, g_out, x, each(mean), scale, each(slope), each(shift))
    return gx, gw.sum(axis=0) if needs[1] else None, gb.sum(axis=0) if needs[2] else None


@_group_norm.prepares_vjp("x", "w", "b")
def _(xp, needs, x, w, mean, rstd, g_out, g_mean, g_rstd, groups):
    fast, only_input = chosen(_SLOPES, xp, x, g_out, w, groups=groups), not any(needs[1:])
    return prepared_gradients(fast, needs, g_out, x, w, mean, rstd, only_input=only_input)


@calls_by_shape
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalise each group of channels of each sample to mean 0 and variance 1, then scale by `weight` and shift by `bias`.

    Args:
        weight, bias: of the input's dtype; float32 ones also go with an input of half precision.
        eps: added to the variance.
    Shape: input (N, C, *), weight and bias (C,); result as input.
    Raises:
        ValueError: when a group has a single value.
        RuntimeError: when `num_groups` is not positive or does not divide C, or shapes or dtypes do not fit.
    Source: Wu and He, "Group Normalization", 2018.

    >>> import tdt
    >>> tdt.nn.functional.group_norm(tdt.tensor([[[1.0, 3.0]]]), 1)
    tensor([[[-1.0000,  1.0000]]])
    """
    shape = input._a.shape
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if shape[0] * shape[1] // num_groups * math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {list(shape)}")
    if at_once(input, weight, bias):
        arrays = input._a, None if weight is None else weight._a, None if bias is None else bias._a
        alone = unrecorded(input, weight, bias)
        if _PLANES.when(arrays, {}) and (alone or arrays[0].dtype == float32.np):
            _check_groups(input, num_groups, weight, bias)
            how = {"groups": num_groups, "eps": eps}
            results = _PLANES.function(*arrays, **how)
            if alone:
                return wrap_new(results[0])
            return record_results(_group_norm, (input, weight, bias), arrays, how, results)[0]
    return per_group(input, num_groups, weight, bias, eps)[0]


def per_group(input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None,
              eps: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`group_norm` for groups of any size; each group's mean, and the inverse of its deviation."""
    _check_groups(input, groups, weight, bias)
    check_dtypes(input, [weight, bias])
    x = in_output_format(input)
    if x.dtype in HALF:
        weight, bias = (None if v is None else v.float() for v in (weight, bias))
        if x._a.__class__ is np.ndarray:
            x = x.float()
    out, mean, rstd = _group_norm(x, weight, bias, groups=groups, eps=eps)
    return out if out.dtype is input.dtype else out.to(input.dtype), mean, rstd


def _check_groups(input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None) -> None:
    """RuntimeError if the channels are not divisible by the groups, or parameters are not one for each channel."""
    shape = input._a.shape
    if groups <= 0 or shape[1] % groups:
        raise RuntimeError(f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
                           f"{list(shape)} and num_groups={groups}")  # fmt: skip
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value._a.shape != (shape[1],):
            raise RuntimeError(f"Expected {name} to be a vector of size equal to the number of channels in input, but got "
                               f"{name} of shape {list(value.shape)} and input of shape {list(shape)}")  # fmt: skip


@calls_by_shape
def _by_sample(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    """Each channel of each sample normalised by its own statistics: a group of one channel."""
    out = per_group(input.contiguous(), input._a.shape[1], weight, bias, eps)[0]
    return label(out, "ViewBackward0")  # PyTorch's result is a view of a batch norm's


def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
                  weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-05) -> Tensor:  # fmt: skip
    """Normalise each channel of each sample to mean 0 and variance 1, then scale by `weight` and shift by `bias`.

    Args:
        running_mean, running_var: used instead of the sample's statistics unless `use_input_stats`; else they are updated.
        momentum: weight of the statistics' mean over the batch in that update.
        eps: added to the variance.
    Shape: input (N, C, *); running_mean, running_var, weight and bias (C,); result as input.
    Raises:
        ValueError: when a channel has a single value and `use_input_stats` is True.
        RuntimeError: when sizes or dtypes do not fit, running statistics are missing without `use_input_stats`, or they require
            grad.
    Source: Ulyanov et al., "Instance Normalization: The Missing Ingredient for Fast Stylization", 2016.

    >>> import tdt
    >>> tdt.nn.functional.instance_norm(tdt.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    refuse_gradients(running_mean, running_var)
    shape = input.shape
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {shape}")
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    n, c = shape[:2]
    alone = use_input_stats and running_mean is None is running_var and eps > 0
    if alone and input.dtype in FULL and len(shape) > 2 and input._a.size:
        if all(v is None or v._a.shape == (c,) for v in (weight, bias)):
            return _by_sample(input, weight, bias, eps)
    # Every channel of every sample counts as a channel of one sample.
    mean, var = (None if v is None else v.detach().repeat(n) for v in (running_mean, running_var))
    weight, bias = (None if v is None else v.repeat(n) for v in (weight, bias))
    planes = input.contiguous().reshape(1, n * c, *shape[2:])
    out = batch_norm(planes, mean, var, weight, bias, use_input_stats, momentum, eps).reshape(shape)
    if use_input_stats:
        with no_grad():
            for running, moved in ((running_mean, mean), (running_var, var)):
                if running is not None and moved is not None:
                    running.copy_(moved.reshape(n, c).mean(0))
    return out


__all__: list[str] = []
