"""Checks of the arguments of convolutions, with PyTorch's errors."""

from __future__ import annotations

import functools
from typing import Any

from tdt._core.dtype import bfloat16, float32, of
from tdt._core.tensor import Tensor
from tdt._ops._common import C_NAMES


def check_arguments(name: str, size: tuple, dtype: Any, weight: tuple, weight_dtype: Any, bias: tuple | None, bias_dtype: Any,
                    stride: tuple, padding: tuple, dilation: tuple, groups: int, out_channels: int) -> None:  # fmt: skip
    """RuntimeError for arguments that do not fit each other.

    Args:
        size, weight, bias: the shapes, that of the input with a batch dimension; bias: None without one.
    """
    shape = list(weight)
    if min(stride) <= 0:
        raise RuntimeError("non-positive stride is not supported")
    if min(padding) < 0:
        raise RuntimeError("negative padding is not supported")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation should be greater than zero, but got {list(dilation)}")
    if groups <= 0:
        raise RuntimeError(f"non-positive groups is not supported: groups={groups}")
    if weight[0] < groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, "
                           f"but got weight of size {shape} instead")  # fmt: skip
    if 0 in weight[2:]:
        raise RuntimeError(f"kernel size should be greater than zero, but got {shape[2:]}")
    if weight[0] % groups:
        raise RuntimeError(f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, "
                           f"but got weight of size [{shape}] instead")  # fmt: skip
    if bias is not None and bias != (out_channels,):
        raise RuntimeError(f"Given weight of size {shape}, expected bias to be 1-dimensional with {out_channels} elements, "
                           f"but got bias of size {list(bias)} instead")  # fmt: skip
    for other, what in ((weight_dtype, "weight"), (bias_dtype, "bias")):
        if other is not None and other != dtype:
            input_type, other_type = (C_NAMES.get(of(d).name, of(d).name) for d in (dtype, other))
            raise RuntimeError(
                f"Input type ({input_type}) and {what} type ({other_type}) should be the same. Convert one with .to(dtype)"
            )
    if 0 in size[2:]:
        raise RuntimeError(
            f"{name}: Expected non-zero size for input dimensions other than batch and channels, but got {list(size)}"
        )


def kinds(x: Tensor, w: Tensor, b: Tensor | None, float32_weights: bool = False) -> tuple[Any, ...]:
    """The shape and NumPy's dtype of each operand, as the checks of arguments take them.

    float32_weights: beside an image of bfloat16 these pass as bfloat16.
    """
    x, w = x._a, w._a
    float32_weights = float32_weights and x.dtype == bfloat16.np and w.dtype == float32.np
    dtypes = [x.dtype if float32_weights and a.dtype == float32.np else a.dtype for a in (w, w if b is None else b._a)]
    bias = (None, None) if b is None else (b._a.shape, dtypes[1])
    return (x.shape, x.dtype, w.shape, dtypes[0], *bias)


@functools.lru_cache(4096)
def check(name: str, size: tuple, dtype: Any, weight: tuple, weight_dtype: Any, bias: tuple | None, bias_dtype: Any,
           stride: tuple, padding: tuple, dilation: tuple, groups: int) -> tuple[int, ...]:  # fmt: skip
    """`check_arguments` of a convolution; arguments that passed once are not checked again.

    Returns: the stride; where it is longer than the padded input, which has one window then, that length.
    """
    check_arguments(
        name, size, dtype, weight, weight_dtype, bias, bias_dtype, stride, padding, dilation, groups, weight[0]
    )
    if size[1] != weight[1] * groups:
        raise RuntimeError(f"Given groups={groups}, weight of size {list(weight)}, expected input{list(size)} to have "
                           f"{weight[1] * groups} channels, but got {size[1]} channels instead")  # fmt: skip
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, weight[2:], strict=True)]
    full = [n + 2 * p for n, p in zip(size[2:], padding, strict=True)]
    if max(full) >= 2**31:  # no memory holds it
        raise RuntimeError(f"Calculated padded input size per channel is too large: ({' x '.join(map(str, full))})")
    if any(r > n for r, n in zip(extent, full, strict=True)):
        raise RuntimeError(f"Calculated padded input size per channel: ({' x '.join(map(str, full))}). Kernel size: "
                           f"({' x '.join(map(str, extent))}). Kernel size can't be greater than actual input size")  # fmt: skip
    return tuple(map(min, stride, full))
