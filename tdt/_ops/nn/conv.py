"""Convolution in any number of dimensions, and the two ops that its gradients need.

    conv(x, w) is bilinear; conv_input_grad(g, w) and conv_weight_grad(g, x) are its two transposes. The derivative of
    each is composed of the other two, so the family is closed under differentiation. conv_input_grad is also what is called
    transposed convolution, and adds a bias where it is that.

Kernels compute them on the CPU; without one, `_conv_portable` does.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tdt._backend import namespace
from tdt._backend.layout import empty_as, output_is_channels_last, to_layout_of
from tdt._backend.waiting import repeatable
from tdt._backend.windows import output_sizes
from tdt._core.calls import front
from tdt._core.dtype import FLOATING_AND_COMPLEX, NUMBERS, float32, int64
from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt._kernels import (
    LOWER,
    ByShape,
    chosen,
    convolution,
    enabled,
    few_image_channels,
    few_line_channels,
    few_volume_channels,
    few_windows,
    gpu_channel_values,
    gpu_convolution,
    gpu_kernel,
    groups_of_images,
    kernel,
    lazy,
    many_tiles,
    overlapping_windows,
    pointwise,
    total,
    widen,
)
from tdt._ops._common import Ints
from tdt._ops.nn._checked import CheckedCalls
from tdt._ops.nn._conv_arguments import check, kinds
from tdt._ops.nn._conv_half import CUDNN, by_pairs, in_half_precision, of_half_precision
from tdt._ops.nn._conv_half import gradients as half_gradients
from tdt._ops.nn._conv_portable import convolve_group, input_grad, weight_grad
from tdt._ops.nn._windows import tuple_of
from tdt._ops.nn.pad import pad
from tdt.autograd._autocast import called_below_autocast, cast_operands
from tdt.autograd._dispatch import apply
from tdt.autograd._layouts import Layouts
from tdt.autograd._node_names import label
from tdt.autograd._op import op
from tdt.autograd._record import repeated


def conv_shape(
    x: tuple, w: tuple, b: Any = None, *, stride: tuple, padding: tuple, dilation: tuple, groups: int
) -> tuple:
    """Shape of a convolution's result."""
    return (x[0], w[0], *output_sizes(x[2:], w[2:], stride, padding, dilation))


def _conv_flops(x: tuple, w: tuple, b: Any = None, **attributes: Any) -> int:
    return math.prod(conv_shape(x, w, b, **attributes)) * math.prod(w[1:])


def _kernels(name: str) -> ByShape:
    forward, backward = name == "conv", name == "conv_input_grad"
    of_volumes = () if backward else (kernel(f"volume_cpu:{name}", few_image_channels, lines=True),)
    of_patches = () if backward else (kernel(f"patches_cpu:{name}", few_windows, half=True),)
    overlap = (kernel(f"overlap_cpu:{name}", overlapping_windows, lines=True, half=True),) if backward else ()
    of_depths = () if forward else (kernel(f"depth_cpu:{name}", few_volume_channels),)
    of_lines = kernel(f"lines_cpu:{name}", few_line_channels)
    in_groups = kernel(f"depthwise_cpu:{name}", groups_of_images, lines=True)
    return ByShape(
        (
            CUDNN[name],
            *of_depths,
            *((in_groups, of_lines) if forward else (of_lines, in_groups)),
            kernel(f"pointwise_cpu:{name}", pointwise, lines=True),
            *of_volumes,
            *of_patches,
            kernel(f"winograd_cpu:{name}", many_tiles, half=True),
            *overlap,
            kernel(f"conv_cpu:{name}", convolution, half=True),
            gpu_kernel(f"conv_gpu:{name}", gpu_convolution),
        )
    )


FORWARD, INPUT_GRAD = _kernels("conv"), _kernels("conv_input_grad")


def _half(arrays: tuple, attributes: dict) -> Any:
    return of_half_precision(conv, arrays, attributes)


CHECKED, ON_GPU = CheckedCalls(FORWARD, _half), Layouts()


@op(
    dtypes=NUMBERS,
    promote=(),
    broadcasts=False,
    shape=conv_shape,
    flops=_conv_flops,
    node="ConvolutionBackward0",
    autocast="lower",
    kernels=FORWARD,
    half="everywhere",
    float32_weights="converted",
)
def conv(xp, x, w, b=None, *, stride, padding, dilation, groups):
    if x.dtype in LOWER:
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return in_half_precision(conv, xp, (x, w, b), how)
    last = output_is_channels_last(x, w)
    shape = conv_shape(x.shape, w.shape, stride=stride, padding=padding, dilation=dilation, groups=groups)
    out = empty_as(xp, shape, x.dtype, last)
    if not math.prod(shape):
        return out
    per, out_channels = w.shape[1], w.shape[0] // groups
    for i in range(groups):
        o = slice(i * out_channels, (i + 1) * out_channels)
        xg, wg, og = (x, w, out) if groups == 1 else (x[:, i * per : (i + 1) * per], w[o], out[:, o])
        convolve_group(xp, xg, wg, None if b is None else b[o], og, stride, padding, dilation, last)
    return out


@conv.vjp("x", "w", "b")
def _(g, needs, x, w, stride, padding, dilation, groups):
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    low = x.dtype
    g, x = (t if t.dtype is w.dtype else t.to(w.dtype) for t in (g, x))
    gx = conv_input_grad(g, w.conj(), None, size=tuple(x.shape[2:]), **how).to(low) if needs[0] else None
    gw = conv_weight_grad(g, x.conj(), kernel=tuple(w.shape[2:]), **how) if needs[1] else None
    gb = g.sum((0, *range(2, g.ndim))) if needs[2] else None
    return gx, gw, gb


@conv.fast_vjp("x", "w", "b")
@repeatable
def _(xp, g, needs, x, w, stride, padding, dilation, groups):
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    gx, gw, gb = (_gradients_in_half_precision if x.dtype in LOWER else _gradients)(xp, g, needs, x, w, how)
    return gx, None if gw is None else to_layout_of(xp, gw, w), gb


_BOTH_GRADIENTS = (
    gpu_kernel("cudnn_gpu:conv_grads", lazy("cudnn_gpu:both_fit")),
    gpu_kernel("conv_gpu:conv_grads", gpu_convolution),
)


_CHANNEL_SUMS = (gpu_kernel("norm_gpu:channel_sums", gpu_channel_values),)


def _bias_grad(xp, g):
    """The gradient of a bias; of half precision in float32."""
    if xp is not np and (fast := chosen(_CHANNEL_SUMS, xp, g)):
        return fast(g)
    return total(g, (0, *range(2, g.ndim)), float32.np if g.dtype in LOWER else None)


def _call(op: Any, xp: Any, *arrays: Any, **attributes: Any) -> Any:
    """A kernel of `op` as a function of such arrays; None without one."""
    if xp is np:
        return op.kernels.call(*arrays, **attributes)
    fast = chosen(op.kernels, xp, *arrays, **attributes)
    return fast and functools.partial(fast, **attributes)


def _gradients(xp, g, needs, x, w, how):
    gx = gw = gb = None
    if needs[0] and needs[1] and xp is not np and (fast := chosen(_BOTH_GRADIENTS, xp, g, x, w, **how)):
        gx, gw = fast(g, x, w, **how)
        needs = False, False, needs[2]
    if needs[0]:
        sizes = {"size": x.shape[2:], **how}
        if call := _call(conv_input_grad, xp, g, w, None, **sizes):
            gx = call(g, w, None)
        else:
            gx = input_grad(xp, g, w.conj() if w.dtype.kind == "c" else w, **sizes)
    if needs[1]:
        sizes = {"kernel": w.shape[2:], **how}
        if call := _call(conv_weight_grad, xp, g, x, **sizes):
            gw = call(g, x)
        else:
            conj = x.conj() if x.dtype.kind == "c" else x
            gw, gb = weight_grad(xp, g, conj, bias=needs[2], **sizes)
    if needs[2] and gb is None:
        gb = _bias_grad(xp, g)
    return gx, gw, gb


def _gradients_in_half_precision(xp, g, needs, x, w, how):
    """Those that kernels for half precision compute, and the others in float32, each operand converted once."""
    if xp is np and enabled():
        ops = conv_input_grad, conv_weight_grad
        return *half_gradients(ops, g, needs[:2], x, w, how), _bias_grad(xp, g) if needs[2] else None
    sizes, kernels = {"size": x.shape[2:], **how}, {"kernel": w.shape[2:], **how}
    gx = by_pairs(conv_input_grad, xp, (g, w, None), sizes) if needs[0] else None
    gw = by_pairs(conv_weight_grad, xp, (g, x), kernels) if needs[1] else None
    left = needs[0] and gx is None, needs[1] and gw is None, needs[2]
    if not any(left[:2]):
        return gx, gw, _bias_grad(xp, g) if needs[2] else None
    wide_g, *wide = widen((g, *(a for a, need in ((x, left[1]), (w, left[0])) if need)))
    wide_x, wide_w = wide[0] if left[1] else x, wide[-1] if left[0] else w
    others = _gradients(xp, wide_g, left, wide_x, wide_w, how)  # which are rounded where the operand was
    return tuple(b if a is None else a for a, b in zip((gx, gw, None), others, strict=True))


def _input_shape(y: tuple, w: tuple, b: Any = None, *, size: tuple, groups: int, **attributes: Any) -> tuple:
    return (y[0], w[1] * groups, *size)


def _input_flops(y: tuple, w: tuple, b: Any = None, **attributes: Any) -> int:
    return math.prod(y) * math.prod(w[1:])


@op(
    dtypes=FLOATING_AND_COMPLEX | {int64},
    promote=(),
    broadcasts=False,
    shape=_input_shape,
    flops=_input_flops,
    node="ConvolutionBackward0",
    autocast="lower",
    kernels=INPUT_GRAD,
    half="everywhere",
)
def conv_input_grad(xp, y, w, b=None, *, size, stride, padding, dilation, groups):
    if y.dtype in LOWER:
        how = {"size": size, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return in_half_precision(conv_input_grad, xp, (y, w, b), how)
    out = input_grad(xp, y, w, size=size, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return out if b is None else xp.add(out, b.reshape(-1, *(1,) * len(size)), out=out)


@conv_input_grad.vjp("y", "w", "b")
def _(g, needs, y, w, stride, padding, dilation, groups):
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    gy = _first(conv(g, w.conj(), None, **how), y.shape) if needs[0] else None
    gw = conv_weight_grad(y.conj(), g, kernel=tuple(w.shape[2:]), **how) if needs[1] else None
    gb = g.sum((0, *range(2, g.ndim))) if needs[2] else None
    return gy, gw, gb


@conv_input_grad.fast_vjp("y", "w", "b")
def _(xp, g, needs, y, w, stride, padding, dilation, groups):
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    gy = gw = None
    if needs[0]:
        conj = w.conj() if w.dtype.kind == "c" else w
        if call := _call(conv, xp, g, conj, None, **how):
            gy = _first(call(g, conj, None), y.shape)
        else:
            gy = _first(conv.forward(namespace(g), g, conj, None, **how), y.shape)
    if needs[1]:
        conj, how["kernel"] = y.conj() if y.dtype.kind == "c" else y, w.shape[2:]
        if call := _call(conv_weight_grad, xp, conj, g, **how):
            gw = call(conj, g)
        else:
            gw = conv_weight_grad.forward(namespace(conj), conj, g, **how)
    return gy, gw, _bias_grad(xp, g) if needs[2] else None


def _first(full: Any, shape: tuple) -> Any:
    """The first windows, as many as y has: an output padding of a whole stride has one window more."""
    return full if full.shape == shape else full[tuple(slice(n) for n in shape)]


def _weight_shape(y: tuple, x: tuple, *, kernel: tuple, groups: int, **attributes: Any) -> tuple:
    return (y[1], x[1] // groups, *kernel)


def _weight_flops(y: tuple, x: tuple, *, kernel: tuple, groups: int, **attributes: Any) -> int:
    return math.prod(y) * (x[1] // groups) * math.prod(kernel)


@op(
    dtypes=FLOATING_AND_COMPLEX,
    promote=(),
    broadcasts=False,
    shape=_weight_shape,
    flops=_weight_flops,
    kernels=_kernels("conv_weight_grad"),
    half="everywhere",
)
def conv_weight_grad(xp, y, x, *, kernel, stride, padding, dilation, groups):
    if y.dtype in LOWER:
        how = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return in_half_precision(conv_weight_grad, xp, (y, x), how)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return weight_grad(xp, y, x, kernel=kernel, bias=False, **how)[0]


@conv_weight_grad.vjp("y", "x")
def _(g, needs, y, x, stride, padding, dilation, groups):
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    gy = _first(conv(x.conj(), g, None, **how), y.shape) if needs[0] else None
    gx = conv_input_grad(y.conj(), g, None, size=tuple(x.shape[2:]), **how) if needs[1] else None
    return gy, gx


def _conv_nd(name: str, nd: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
             groups: int, float32_weights: bool = False) -> Tensor:  # fmt: skip
    """A convolution in `nd` dimensions. float32_weights: autocast has cast the input alone."""
    for value, what in ((input, "input"), (weight, "weight")):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument '{what}' must be Tensor, not {type(value).__name__}")
    if state.handler is not None:
        function = functools.partial(
            _conv_nd, name, nd, stride=stride, padding=padding, dilation=dilation, groups=groups
        )
        mixed = functools.partial(function, float32_weights=True)
        if (result := called_below_autocast(function, conv, input, weight, bias, mixed=mixed)) is not None:
            return result
    call, argument = None, input
    if input._a.__class__ is not np.ndarray:
        how = {"nd": nd, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        result, call = repeated(conv, (input, weight, bias), how, ON_GPU)
        if result is not None:
            return result
    key = CHECKED.key(nd, input, weight, bias, groups, stride, padding, dilation, int(float32_weights))
    if (result := CHECKED.result(conv, key, input, weight, bias)) is not None:
        return result
    input, weight, bias = cast_operands(conv, input, weight, bias)
    single = input.ndim == nd + 1
    if not single and input.ndim != nd + 2:
        raise RuntimeError(f"Expected {nd + 1}D (unbatched) or {nd + 2}D (batched) input to {name}, "
                           f"but got input of size: {list(input.shape)}")  # fmt: skip
    x = input.unsqueeze(0) if single else input
    if weight.ndim != nd + 2:
        raise RuntimeError(
            f"{name}: expected a weight of {nd + 2} dimensions (out, in / groups, *kernel), but got {list(weight.shape)}"
        )
    stride, dilation = tuple_of(stride, nd, "stride"), tuple_of(dilation, nd, "dilation")
    if isinstance(padding, str):
        x, padding = _named_padding(x, weight, padding, stride, dilation)
    padding = tuple_of(padding, nd, "padding")
    stride = check(name, *kinds(x, weight, bias, float32_weights), stride, padding, dilation, groups)
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if not x.shape[1]:
        out = _without_channels(x, weight, bias, how)
        return out.squeeze(0) if single else out
    out = apply(conv, (x, weight, bias), how, None, call if x is argument else None)
    CHECKED.add(key, x, weight, bias, how)
    return out.squeeze(0) if single else out


def _without_channels(x: Tensor, w: Tensor, b: Tensor | None, how: dict[str, Any]) -> Tensor:
    """The result for an input without channels, which has none either, as in PyTorch."""
    count, _, *size = conv_shape(x.shape, w.shape, **how)
    out = x.new_zeros((count, 0, *size))
    for operand in (x, w, b):
        if operand is not None:
            out = out + operand.sum().to(out.dtype)  # whose gradient is 0
    return label(out, "ConvolutionBackward0") if out._edge is not None else out


def _named_padding(
    x: Tensor, w: Tensor, padding: str, stride: tuple, dilation: tuple
) -> tuple[Tensor, tuple[int, ...]]:
    """`same` or `valid` as numbers; where `same` needs one more cell at the far end, it is added to `x`."""
    if padding == "valid":
        return x, (0,) * len(stride)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'; use 'same' or 'valid'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    if any(t % 2 for t in total):
        x = pad(x, [side for t in reversed(total) for side in (0, t % 2)])
    return x, tuple(t // 2 for t in total)


@front
def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of a 1-D signal with `weight`, plus `bias`.

    Args:
        padding: cells of 0 at both ends; or "valid" (none), or "same" (result of the input's length, for stride 1).
        groups: number of groups of channels that are convolved separately.
    Shape: input (N, C, L) or (C, L), weight (O, C / groups, K), bias (O,); result (N, O, L') or (O, L') with
        L' = (L + 2 padding - dilation (K - 1) - 1) // stride + 1.
    Raises:
        RuntimeError: when sizes, dtypes or groups do not fit.

    >>> import tdt
    >>> tdt.conv1d(tdt.ones(1, 1, 4), tdt.ones(1, 1, 3))
    tensor([[[3., 3.]]])
    """
    return _conv_nd("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@front
def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of images with `weight`, plus `bias`.

    The result is channels-last in memory if the input or the weight is.

    Args:
        stride, padding, dilation: one number, or (height, width).
        padding: cells of 0 on all sides; or "valid" (none), or "same" (result of the input's size, for stride 1).
        groups: number of groups of channels that are convolved separately.
    Shape: input (N, C, H, W) or (C, H, W), weight (O, C / groups, KH, KW), bias (O,); result (N, O, H', W') or
        (O, H', W') with H' = (H + 2 padding - dilation (KH - 1) - 1) // stride + 1, W' likewise.
    Raises:
        RuntimeError: when sizes, dtypes or groups do not fit.

    >>> import tdt
    >>> tdt.conv2d(tdt.ones(1, 1, 3, 3), tdt.ones(1, 1, 3, 3), padding=1)[0, 0]
    tensor([[4., 6., 4.],
            [6., 9., 6.],
            [4., 6., 4.]])
    """
    return _conv_nd("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@front
def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Cross-correlation of volumes with `weight`, plus `bias`.

    Args:
        stride, padding, dilation: one number, or (depth, height, width).
        padding: cells of 0 on all sides; or "valid" (none), or "same" (result of the input's size, for stride 1).
        groups: number of groups of channels that are convolved separately.
    Shape: input (N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, KD, KH, KW), bias (O,); result
        (N, O, D', H', W') or (O, D', H', W'), each size as for `conv1d`.
    Raises:
        RuntimeError: when sizes, dtypes or groups do not fit.

    >>> import tdt
    >>> tdt.conv3d(tdt.ones(1, 1, 2, 2, 2), tdt.ones(1, 1, 2, 2, 2)).item()
    8.0
    """
    return _conv_nd("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


__all__ = ["conv1d", "conv2d", "conv3d"]
