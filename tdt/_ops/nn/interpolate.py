"""Interpolation: resampling of images and volumes to another size, one axis after the other."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from tdt._core.dtype import FLOATING, check_category, uint8
from tdt._core.tensor import Tensor
from tdt._ops._common import Ints
from tdt._ops.nn._resampling import Axis
from tdt._ops.nn.pool_average import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from tdt._ops.nn.resample import resample
from tdt.autograd._node_names import label
from tdt.autograd._remembered import calls_by_shape

# Mode → the supported numbers of spatial dimensions, and the resampling along each of them.
MODES = {
    "nearest": ((1, 2, 3), "nearest"), "nearest-exact": ((1, 2, 3), "nearest-exact"), "area": ((1, 2, 3), "area"),
    "linear": ((1,), "linear"), "bilinear": ((2,), "linear"), "trilinear": ((3,), "linear"), "bicubic": ((2,), "cubic"),
    "lanczos": ((2,), "lanczos"),
}  # fmt: skip
ANTIALIAS = ("bilinear", "bicubic", "lanczos")
AREA = {1: adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}


def interpolate(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """`input` resampled to `size`, or to `scale_factor` times its size.

    Args:
        size, scale_factor: one number, or one for each spatial dimension; exactly one of the two is given.
        mode: "nearest", "nearest-exact" (the pixel whose centre is nearest) or "area" (adaptive average pooling) for 1 to 3
            spatial dimensions; "linear", "bilinear" and "trilinear" for 1, 2 and 3; "bicubic" and "lanczos" for 2.
        align_corners: keep the centres of the corner pixels in place, not their outer edges.
        recompute_scale_factor: compute positions from the sizes instead of from `scale_factor`.
        antialias: filter when reducing the size, as Pillow does; for "bilinear", "bicubic" and "lanczos", which needs it.
    Shape: input (N, C, *); result (N, C, *size). uint8 images are rounded.
    Raises:
        ValueError: when arguments exclude each other, or not exactly one of `size` and `scale_factor` is given.
        NotImplementedError: when the mode is unknown, or does not support the number of dimensions or the dtype.
        RuntimeError: when a size is 0.
        TypeError: when `size` holds something other than integers.
    Source: for "bicubic", Keys, "Cubic Convolution Interpolation for Digital Image Processing", 1981.

    >>> import tdt
    >>> tdt.nn.functional.interpolate(tdt.tensor([[[0.0, 1.0]]]), scale_factor=2, mode="linear")
    tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    if isinstance(size, (list, tuple)) and not all(hasattr(n, "__index__") for n in size):
        raise TypeError("expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got "
                        f"size with types {[type(n) for n in size]}")  # fmt: skip
    return _interpolated(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


@calls_by_shape
def _interpolated(
    input: Tensor, size: Any, scale_factor: Any, mode: str, align_corners: bool | None,
    recompute_scale_factor: bool | None, antialias: bool,
) -> Tensor:  # fmt: skip
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    dims = input.ndim - 2
    sizes, scales = _sizes_and_scales(
        input, size, scale_factor, bool(recompute_scale_factor) or mode == "area", recompute_scale_factor
    )
    if antialias and not (mode in ANTIALIAS and dims == 2):
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor "
                         f"as input, got mode={mode} and {input.ndim}-D")  # fmt: skip
    if mode not in MODES or dims not in MODES[mode][0]:
        accepted = " or ".join(f"{n + 2}D" for n in MODES[mode][0]) if mode in MODES else f"one of {', '.join(MODES)}"
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {accepted} input" if mode in MODES else
                                  f"interpolate: unknown mode {mode!r}, expected {accepted}")  # fmt: skip
    if mode == "lanczos" and (align_corners or not antialias):
        raise ValueError(
            "Lanczos mode does not support align_corners=True"
            if align_corners
            else "Lanczos mode requires antialias=True"
        )
    if mode == "area":
        return AREA[dims](input, sizes)
    if mode in ("linear", "trilinear"):
        check_category(f"upsample_{mode}{dims}d", FLOATING, input.dtype)
    if min(*input.shape[1:], *sizes) < 1:
        raise RuntimeError(f"Input and output sizes should be greater than 0, but got input {list(input.shape)} and output "
                           f"{list(sizes)}")  # fmt: skip
    kind = f"{MODES[mode][1]} antialias" if antialias else MODES[mode][1]
    # An axis whose size stays may still be moved by a scale that is nearly 1; PyTorch does so in these cases.
    moved = (input.dtype is not uint8 and kind in ("nearest-exact", "cubic")) or (kind == "nearest" and dims != 2)
    # Images that are doubled are not, whichever scale led to the size.
    halves = kind == "nearest" and dims == 2
    axes = tuple(
        None
        if n == m and not (moved and scale)
        else Axis(n, m, kind, None if halves and m == 2 * n else scale, bool(align_corners))
        for n, m, scale in zip(input.shape[2:], sizes, scales, strict=True)
    )
    shown = "".join(part.capitalize() for part in mode.split("-"))
    return label(resample(input, axes=axes), f"Upsample{shown}{dims}D{'Aa' * antialias}Backward0")


def _sizes_and_scales(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool, requested: bool | None
) -> tuple[tuple, tuple]:
    """The sizes of the result, and the scales from which positions are computed; None to compute them from the sizes."""
    dims = input.ndim - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        sizes = tuple(size) if isinstance(size, (list, tuple)) else (size,) * dims
        if len(sizes) != dims:
            raise ValueError("Input and output must have the same number of spatial dimensions, but got input with spatial "
                             f"dimensions of {list(input.shape[2:])} and output size of {size}.")  # fmt: skip
        if not all(hasattr(n, "__index__") for n in sizes):
            raise TypeError("expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got "
                            f"size with types {[type(n) for n in sizes]}")  # fmt: skip
        if requested:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        return tuple(map(int, sizes)), (None,) * dims
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    scales = tuple(scale_factor) if isinstance(scale_factor, (list, tuple)) else (scale_factor,) * dims
    if len(scales) != dims:
        raise ValueError("Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                         f"dimensions of {list(input.shape[2:])} and scale_factor of shape {scale_factor}.")  # fmt: skip
    sizes = tuple(int(n * s) for n, s in zip(input.shape[2:], scales, strict=True))
    return sizes, (None,) * dims if recompute else tuple(map(float, scales))


def upsample(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """`interpolate` under its deprecated name, with a warning.

    Shape: input (N, C, *); result (N, C, *size).

    >>> import tdt
    >>> tdt.nn.functional.upsample(tdt.tensor([[[0.0, 1.0]]]), scale_factor=2)
    tensor([[[0., 0., 1., 1.]]])
    """
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with mode="nearest" under its deprecated name, with a warning.

    Shape: input (N, C, *); result (N, C, *size).

    >>> import tdt
    >>> tdt.nn.functional.upsample_nearest(tdt.tensor([[[0.0, 1.0]]]), scale_factor=2)
    tensor([[[0., 0., 1., 1.]]])
    """
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: Ints | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """`interpolate` with mode="bilinear" and align_corners=True under its deprecated name, with a warning.

    Shape: input (N, C, H, W); result (N, C, *size).

    >>> import tdt
    >>> tdt.nn.functional.upsample_bilinear(tdt.tensor([[[[0.0, 1.0]]]]), size=(1, 3))
    tensor([[[[0.0000, 0.5000, 1.0000]]]])
    """
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _deprecated(name: str) -> None:
    warnings.warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=3)


__all__: list[str] = []
