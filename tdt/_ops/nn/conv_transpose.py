"""Transposed convolution, and the functions that are composed of other convolutions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from tdt._core.calls import front
from tdt._core.tensor import Tensor
from tdt._ops._common import Ints
from tdt._ops.nn._checked import CheckedCalls
from tdt._ops.nn._conv_arguments import check_arguments, kinds
from tdt._ops.nn._windows import tuple_of
from tdt._ops.nn.conv import INPUT_GRAD, _conv_nd, conv1d, conv_input_grad
from tdt.autograd._autocast import cast_for
from tdt.autograd._dispatch import apply
from tdt.autograd._layouts import Layouts
from tdt.autograd._record import repeated

CHECKED, ON_GPU = CheckedCalls(INPUT_GRAD), Layouts()


@functools.lru_cache(4096)
def _output_size(name: str, size: tuple, dtype: Any, weight: tuple, weight_dtype: Any, bias: tuple | None, bias_dtype: Any,
                 stride: tuple, padding: tuple, dilation: tuple, groups: int, more: tuple) -> tuple[int, ...]:  # fmt: skip
    """The size of the result; RuntimeError for arguments that do not fit each other. more: the output padding."""
    check_arguments(name, size, dtype, weight, weight_dtype, bias, bias_dtype, stride, padding, dilation, groups,
                    weight[1] * groups)  # fmt: skip
    if size[1] != weight[0]:
        raise RuntimeError(f"Given transposed=1, weight of size {list(weight)}, expected input{list(size)} to have "
                           f"{weight[0]} channels, but got {size[1]} channels instead")  # fmt: skip
    if min(more) < 0:
        raise RuntimeError("negative output_padding is not supported")
    if any(m >= max(s, d) for m, s, d in zip(more, stride, dilation, strict=True)):
        raise RuntimeError("output padding must be smaller than either stride or dilation, but got "
                           f"output_padding={list(more)}, stride={list(stride)}, dilation={list(dilation)}")  # fmt: skip
    found = tuple((n - 1) * s - 2 * p + d * (k - 1) + m + 1
                  for n, s, p, d, k, m in zip(size[2:], stride, padding, dilation, weight[2:], more, strict=True))  # fmt: skip
    if max(*found, *stride, *dilation) >= 2**31:  # no memory holds it
        raise RuntimeError(f"Calculated output size per channel is too large: ({' x '.join(map(str, found))})")
    if min(found) < 1:
        input_size, output_size = (" x ".join(map(str, s)) for s in (size[2:], found))
        raise RuntimeError(f"Given input size per channel: ({input_size}). Calculated output size per channel: ({output_size}). "
                           "Output size is too small")  # fmt: skip
    return found


def _transpose_nd(name: str, nd: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
                  output_padding: Any, groups: int, dilation: Any) -> Tensor:  # fmt: skip
    call, argument = None, input
    if input._a.__class__ is not ndarray:
        how = {
            "nd": nd,
            "stride": stride,
            "padding": padding,
            "more": output_padding,
            "dilation": dilation,
            "groups": groups,
        }
        result, call = repeated(conv_input_grad, (input, weight, bias), how, ON_GPU)
        if result is not None:
            return result
    key = CHECKED.key(nd, input, weight, bias, groups, stride, padding, output_padding, dilation)
    if (result := CHECKED.result(conv_input_grad, key, input, weight, bias)) is not None:
        return result
    input, weight, bias = cast_for("lower", input, weight, bias)
    single = input.ndim == nd + 1
    if not single and input.ndim != nd + 2:
        raise RuntimeError(f"Expected {nd + 1}D (unbatched) or {nd + 2}D (batched) input to {name}, "
                           f"but got input of size: {list(input.shape)}")  # fmt: skip
    if weight.ndim != nd + 2:
        raise RuntimeError(
            f"{name}: expected a weight of {nd + 2} dimensions (in, out / groups, *kernel), but got {list(weight.shape)}"
        )
    y = input.unsqueeze(0) if single else input
    stride, padding = tuple_of(stride, nd, "stride"), tuple_of(padding, nd, "padding")
    dilation, more = tuple_of(dilation, nd, "dilation"), tuple_of(output_padding, nd, "output_padding")
    size = _output_size(name, *kinds(y, weight, bias), stride, padding, dilation, groups, more)
    stride = tuple(
        [min(s, n + 2 * p) for s, n, p in zip(stride, size, padding, strict=True)]
    )  # longer ones leave one window
    how = {"size": size, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    out = apply(conv_input_grad, (y, weight, bias), how, None, call if y is argument else None)
    CHECKED.add(key, y, weight, bias, how)
    return out.squeeze(0) if single else out


@front
def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints = 0,
    output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1,
) -> Tensor:  # fmt: skip
    """Transposed convolution of a 1-D signal: the gradient of `conv1d` with respect to its input.

    Args:
        output_padding: cells added at the end; less than stride or dilation.
        groups: number of groups of channels that are convolved separately.
    Shape: input (N, C, L) or (C, L), weight (C, O / groups, K), bias (O,); result (N, O, L') or (O, L') with
        L' = (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1.
    Raises:
        RuntimeError: when sizes, dtypes or groups do not fit.

    >>> import tdt
    >>> tdt.conv_transpose1d(tdt.tensor([[[1.0, 2.0]]]), tdt.tensor([[[1.0, 10.0]]]))
    tensor([[[ 1., 12., 20.]]])
    """
    return _transpose_nd("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@front
def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints = 0,
    output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1,
) -> Tensor:  # fmt: skip
    """Transposed convolution of images: the gradient of `conv2d` with respect to its input.

    Args:
        stride, padding, output_padding, dilation: one number, or (height, width).
        output_padding: cells added at the end; less than stride or dilation.
        groups: number of groups of channels that are convolved separately.
    Shape: input (N, C, H, W) or (C, H, W), weight (C, O / groups, KH, KW), bias (O,); result (N, O, H', W') or
        (O, H', W') with H' = (H - 1) stride - 2 padding + dilation (KH - 1) + output_padding + 1, W' likewise.
    Raises:
        RuntimeError: when sizes, dtypes or groups do not fit.

    >>> import tdt
    >>> tdt.conv_transpose2d(tdt.ones(1, 1, 2, 2), tdt.ones(1, 1, 2, 2))[0, 0]
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])
    """
    return _transpose_nd("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@front
def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints = 0,
    output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1,
) -> Tensor:  # fmt: skip
    """Transposed convolution of volumes: the gradient of `conv3d` with respect to its input.

    Args:
        stride, padding, output_padding, dilation: one number, or (depth, height, width).
        output_padding: cells added at the end; less than stride or dilation.
        groups: number of groups of channels that are convolved separately.
    Shape: input (N, C, D, H, W) or (C, D, H, W), weight (C, O / groups, KD, KH, KW), bias (O,); result
        (N, O, D', H', W') or (O, D', H', W'), each size as for `conv_transpose1d`.
    Raises:
        RuntimeError: when sizes, dtypes or groups do not fit.

    >>> import tdt
    >>> tdt.conv_transpose3d(tdt.ones(1, 1, 1, 1, 2), tdt.ones(1, 1, 1, 1, 2))
    tensor([[[[[1., 2., 1.]]]]])
    """
    return _transpose_nd("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@front
def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Tensor:  # fmt: skip
    """`conv1d` to `conv3d`, or `conv_transpose1d` to `conv_transpose3d`, by the number of the weight's dimensions.

    Args:
        transposed: whether to compute a transposed convolution.
        output_padding: has an effect only with `transposed`.
    Shape: input, weight, bias and result as for the function that is chosen.
    Raises:
        RuntimeError: when sizes, dtypes or groups do not fit.

    >>> import tdt
    >>> tdt.convolution(tdt.ones(1, 1, 4), tdt.ones(1, 1, 3), None, [1], [0], [1], False, [0], 1)
    tensor([[[3., 3.]]])
    """
    nd = weight.ndim - 2
    if transposed:
        return _transpose_nd("convolution", nd, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv_nd("convolution", nd, input, weight, bias, stride, padding, dilation, groups)


@front
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """`conv1d` with stride 1 of time-first sequences with channels last.

    Args:
        pad: steps of 0 at both ends.
    Shape: input (T, N, C), weight (K, C, O), bias (O,); result (T + 2 pad - K + 1, N, O).
    Raises:
        RuntimeError: when numbers of dimensions, sizes or dtypes do not fit.

    >>> import tdt
    >>> tdt.conv_tbc(tdt.ones(4, 1, 2), tdt.ones(3, 2, 1), tdt.zeros(1)).flatten()
    tensor([6., 6.])
    """
    if input.ndim != 3:
        raise RuntimeError(f"Input must have 3 dims: time, batch, in_channel; got {list(input.shape)}")
    if weight.ndim != 3:
        raise RuntimeError(
            f"Weight tensor must have 3 dims: kernel_width, in_channels, out_channels. Got {list(weight.shape)}"
        )
    if bias.ndim != 1:
        raise RuntimeError(f"Bias must be 1-D, got {list(bias.shape)}")
    if input.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor: "
                           f"{list(input.shape)} and {list(weight.shape)}")  # fmt: skip
    if bias.shape[0] != weight.shape[2]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels): "
                           f"{list(bias.shape)} and {list(weight.shape)}")  # fmt: skip
    out = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return out.permute(2, 0, 1).contiguous()


__all__ = ["conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution"]
