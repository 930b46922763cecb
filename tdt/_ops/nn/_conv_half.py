"""Convolutions of half precision and their gradients: by kernels that take it, else in float32, rounded once.

On the CPU all that computes such a call is looked up once for the shapes, strides and types of its arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._backend.layout import output_is_channels_last
from tdt._backend.waiting import launch_waiting
from tdt._core.dtype import bfloat16, float32
from tdt._kernels import (
    LOWER,
    UFUNCS,
    chosen,
    conversion_like,
    enabled,
    gpu_kernel,
    kernel,
    key_of,
    large_pair_convolution,
    lazy,
    narrow,
    widen,
)
from tdt._ops.nn._checked import MOST

NAMES = ("conv", "conv_input_grad", "conv_weight_grad")
CUDNN = {name: gpu_kernel(f"cudnn_gpu:{name}", lazy("cudnn_gpu:fits")) for name in NAMES}
OF_PAIRS = {name: (kernel(f"bfloat16_conv_cpu:{name}", large_pair_convolution), CUDNN[name]) for name in NAMES}

Compute = Callable[..., Any]
_FOUND: dict[tuple, Any] = {}
UFUNCS.append(_FOUND)


def _saved(key: tuple, find: Callable[[bool], Any]) -> Any:
    """`find(prepares)`, which is told whether this is the second call with such a key; that one's result is saved."""
    if (found := _FOUND.get(key)) is not None:
        return found
    found = find(key in _FOUND)
    if len(_FOUND) >= MOST:
        _FOUND.clear()
    _FOUND[key] = found if key in _FOUND else None
    return found


def in_half_precision(op: Any, xp: Any, arrays: tuple, attributes: dict) -> Any:
    """A convolution, or a gradient of one, of half-precision arrays, rounded."""
    if xp is np:
        return of_half_precision(op, arrays, attributes)(*arrays)
    result = by_pairs(op, xp, arrays, attributes)
    if result is None:
        wide = widen(arrays)
        fast = chosen(op.kernels, xp, *wide, **attributes)
        result = fast(*wide, **attributes) if fast else op.forward(xp, *wide, **attributes)
        launch_waiting()  # the sum with a bias
    return narrow(result, arrays[0].dtype)


def by_pairs(op: Any, xp: Any, arrays: tuple, attributes: dict) -> Any:
    """What a kernel for half precision alone computes; None without one."""
    fast = chosen(OF_PAIRS[op.name], xp, *arrays, **attributes)
    return fast(*arrays, **attributes) if fast else None


def of_half_precision(op: Any, arrays: tuple, attributes: dict) -> Compute:
    """What computes `op` of NumPy's arrays like these, rounded."""

    def find(prepares: bool) -> Compute:
        own, in_float32 = _own_kernels(op, arrays, attributes, prepares), _in_float32(op, attributes)
        wide, rounded = _converters(arrays), _rounding(arrays[0].dtype)

        def compute(*arrays: Any) -> Any:
            result = _first_of(own, arrays)
            if result is None:
                result = in_float32(*[to(a) if to else a for to, a in zip(wide, arrays, strict=True)])
            return rounded(result)

        return compute

    return _saved((op.name, *key_of(arrays, attributes)), find)


def gradients(ops: tuple, g: np.ndarray, needs: tuple, x: np.ndarray, w: np.ndarray, how: dict) -> tuple[Any, Any]:
    """The gradients of a convolution in x and w, of half precision or float32; None where they are not needed.

    Args:
        ops: `conv_input_grad` and `conv_weight_grad`.
        how: the attributes of the convolution.
    """
    return _saved((needs, *key_of((g, x, w), how)), lambda prepares: _gradients(ops, g, needs, x, w, how, prepares))(
        g, x, w
    )


def _gradients(
    ops: tuple, g: np.ndarray, needs: tuple, x: np.ndarray, w: np.ndarray, how: dict, prepares: bool
) -> Compute:
    """`gradients` as a function of g, x and w: each of these is converted once."""
    (input_grad, weight_grad), (sizes, kernels) = ops, ({"size": x.shape[2:], **how}, {"kernel": w.shape[2:], **how})
    own_x = _own_kernels(input_grad, (g, w, None), sizes, prepares) if needs[0] else []
    own_w = _own_kernels(weight_grad, (g, x), kernels, prepares) if needs[1] else []
    to_x, to_w = _in_float32(input_grad, sizes), _in_float32(weight_grad, kernels)
    wide_g, wide_x, wide_w = (to or _same for to in _converters((g, x, w)))
    rounded = _rounding(x.dtype)

    def compute(g: np.ndarray, x: np.ndarray, w: np.ndarray) -> tuple[Any, Any]:
        gx, gw = _first_of(own_x, (g, w, None)), _first_of(own_w, (g, x))
        left = needs[0] and gx is None, needs[1] and gw is None
        if left[0] or left[1]:
            g = wide_g(g)
        if left[0]:
            gx = rounded(to_x(g, wide_w(w), None))
        if left[1]:
            gw = to_w(g, wide_x(x))
        return gx, gw

    return compute


def _same(a: np.ndarray) -> np.ndarray:
    return a


def _converters(arrays: Sequence[Any]) -> list[Compute | None]:
    """For each array of half precision what converts those of its size to float32; None for others."""
    return [None if a is None or a.dtype not in LOWER else conversion_like(a, float32.np) for a in arrays]


def _rounding(low: np.dtype) -> Compute:
    """What rounds float32 arrays of one size to half precision; it leaves those that are of it."""
    found: list[Compute] = []

    def compute(a: np.ndarray) -> np.ndarray:
        if a.itemsize == low.itemsize:
            return a
        if not found:
            found.append(conversion_like(a, low))
        return found[0](a)

    return compute


def _in_float32(op: Any, attributes: dict) -> Compute:
    """`op` as a function of float32 arrays like those of its first call."""
    found: list[Compute] = []

    def compute(*arrays: Any) -> Any:
        if not found:
            call = op.kernels.call(*arrays, **attributes)
            found.append(call or functools.partial(op.forward, np, **attributes))
        return found[0](*arrays)

    return compute


def _first_of(own: list[Compute], arrays: tuple) -> Any:
    """What the first kernel computes that does not return None; None where there is none."""
    for compute in own:
        if (result := compute(*arrays)) is not None:
            return result
    return None


def _own_kernels(op: Any, arrays: tuple, attributes: dict, prepares: bool) -> list[Compute]:
    """Kernels of half precision, as functions of arrays like these; each may return None, and float32 of a weight gradient.

    prepares: whether they are asked to prepare such calls.
    """
    pairs = chosen(OF_PAIRS[op.name], np, *arrays, **attributes)
    found: list[Compute] = [functools.partial(pairs, **attributes)] if pairs else []
    if _reads_bfloat16(op, arrays):
        kernel = op.kernels.first([None if a is None else _blank(a.shape) for a in arrays], attributes)
        reading = kernel and _reading(op, kernel, arrays, attributes, prepares)
        if reading:
            found.append(reading)
    return found


def _reads_bfloat16(op: Any, arrays: tuple) -> bool:
    """Whether images are as kernels of float32 take them in bfloat16: contiguous, as is the result."""
    images = arrays if op.name == "conv_weight_grad" else arrays[:1]
    plain = all(a.dtype == bfloat16.np and a.ndim < 5 and a.flags.c_contiguous for a in images)
    return plain and enabled() and not output_is_channels_last(*arrays[:2])


def _reading(op: Any, kernel: Any, arrays: tuple, attributes: dict, prepares: bool) -> Compute | None:
    """A kernel as a function of images in bfloat16, and of weights and a bias of any precision; None where it takes none."""
    of_weights = op.name == "conv_weight_grad"
    wide, function = arrays if of_weights else (arrays[0], *widen(arrays[1:])), kernel.function
    compute = functools.partial(function, **attributes) if kernel.half else None
    if prepares and (kernel.half or getattr(function, "prepares_half", False)) and hasattr(function, "prepare"):
        compute = function.prepare(*wide, **attributes, recorded=True) or compute
    if compute is None or of_weights or all(a is None or a.dtype not in LOWER for a in arrays[1:]):
        return compute
    return lambda x, *others: compute(x, *widen(others))


@functools.lru_cache(256)
def _blank(shape: tuple[int, ...]) -> np.ndarray:
    """A contiguous array of float32 to choose a kernel for, without memory of its own: nobody may read it."""
    strides = [4 * math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), shape, strides)
