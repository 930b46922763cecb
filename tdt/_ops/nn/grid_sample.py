"""Sampling of images at given positions, and the positions of an affine map; a kernel, or composed of differentiable ops."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any, cast

from tdt import _backend
from tdt._core.creation import ones, zeros
from tdt._core.dtype import FLOATING, check_category, float32, float64
from tdt._core.dtype import bool as BOOL
from tdt._core.methods import function_alias
from tdt._core.ranges import arange
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import chosen, kernel, sampled_images
from tdt._ops.elementwise.select import where
from tdt._ops.nn._resampling import cubic_weights
from tdt._ops.nn.batch_norm import HALF
from tdt._ops.nn.embedding import _embedding
from tdt._ops.nn.rnn._shared import recorded
from tdt._ops.shape.join import cat, stack
from tdt.autograd._autocast import autocast
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

MODES = ("bilinear", "nearest", "bicubic")
PADDING = ("zeros", "border", "reflection")


@autocast("float32")
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Tensor:  # fmt: skip
    """Values of `input` at the positions in `grid`, interpolated between pixels.

    Args:
        grid: positions (x, y) or (x, y, z); -1 and 1 are the borders of the image.
        mode: "bilinear" (trilinear for volumes), "nearest", or "bicubic" (images only).
        padding_mode: values outside: "zeros", "border" (the nearest pixel) or "reflection" (mirrored at the border).
        align_corners: -1 and 1 are the centres of the outermost pixels, not their outer edges; None warns and is False.
    Shape: input (N, C, H, W), grid (N, H', W', 2), result (N, C, H', W'); or input (N, C, D, H, W),
        grid (N, D', H', W', 3), result (N, C, D', H', W').
    Raises:
        ValueError: when `mode` or `padding_mode` is unknown.
        RuntimeError: when shapes or dtypes do not fit.
        NotImplementedError: when the dtype is not floating-point.
    Source: Jaderberg et al., "Spatial Transformer Networks", 2015.

    >>> import tdt
    >>> image = tdt.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> tdt.nn.functional.grid_sample(image, tdt.tensor([[[[0.0, 0.0], [0.5, 0.5]]]]), align_corners=False)
    tensor([[[[1.5000, 3.0000]]]])
    """
    if mode not in MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in PADDING:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
                         f"but got: '{padding_mode}'")  # fmt: skip
    return _checked(input, grid, mode, padding_mode, _aligned(align_corners))


@calls_by_shape
def _checked(input: Tensor, grid: Tensor, mode: str, padding: str, align: bool) -> Tensor:
    """`grid_sample` of known modes."""
    _check(input, grid, mode)
    kind = input.dtype
    if kind in HALF:
        input, grid = input.float(), grid.float()
    how: Any = {"mode": mode, "padding": padding, "align": align}
    arrays = input._a, grid._a
    fast = mode != "bicubic" and input.ndim == 4 and chosen(_SAMPLES, _backend.namespace(input._a), *arrays)
    return (_grid_sampler_2d if fast else _composed)(input, grid, **how).to(kind)


def _composed(input: Tensor, grid: Tensor, *, mode: str, padding: str, align: bool) -> Tensor:
    """`grid_sample` of float32 or float64 by differentiable ops."""
    shape, size = input.shape, tuple(input.shape[2:])
    # Every pixel is a row of the table; positions outside of the image use a row of zeros at its end.
    pixels = input.movedim(1, -1).reshape(math.prod((shape[0], *size)), shape[1])
    table = cat([pixels, zeros(1, shape[1], dtype=input.dtype, device=input.device)])
    samples = arange(shape[0], device=input.device).reshape(-1, *(1,) * (grid.ndim - 2))
    taps = [_taps(grid.select(-1, len(size) - 1 - d), n, mode, padding, align) for d, n in enumerate(size)]
    out: Any = 0
    for corner in itertools.product(*taps):
        row, inside = samples, cast(Any, None)
        for n, (place, valid, _) in zip(size, corner, strict=True):
            row, inside = row * n + place, valid if inside is None else inside & valid
        weight = functools.reduce(operator.mul, [w for _, _, w in corner])
        row = where(inside, row, len(table) - 1)
        out = out + _embedding(table, row, padding_idx=None, by_frequency=False, sparse=False) * weight.unsqueeze(-1)
    return out.movedim(-1, 1).contiguous()


_SAMPLES = (kernel("grid_sample_cpu:grid_sample", sampled_images),)
_GRADIENTS = (kernel("grid_sample_cpu:grid_sample_vjp", sampled_images),)


@op(dtypes=frozenset((float32, float64)), promote=(), broadcasts=False, kernels=_SAMPLES, packed=True,
    shape=lambda x, grid, **how: (*x[:2], *grid[1:3]))  # fmt: skip
def _grid_sampler_2d(xp, x, grid, *, mode, padding, align):
    """Bilinear or nearest samples of images."""
    return _composed(wrap(x), wrap(grid), mode=mode, padding=padding, align=align)._a


@_grid_sampler_2d.vjp("x", "grid")
def _(g, needs, x, grid, mode, padding, align):
    forward = functools.partial(_composed, mode=mode, padding=padding, align=align)
    return recorded(lambda *operands: (forward(*operands),), needs, (x, grid), (g,))


@_grid_sampler_2d.fast_vjp("x", "grid")
def _(xp, g, needs, x, grid, mode, padding, align):
    if fast := chosen(_GRADIENTS, xp, x, grid):
        return fast(g, x, grid, needs=needs, mode=mode, padding=padding, align=align)
    operands = [wrap(a).requires_grad_(need) for a, need in zip((x, grid), needs, strict=True)]
    found = _grid_sampler_2d.rules["x"].function(wrap(g), needs, *operands, mode, padding, align)
    return [None if each is None else each._a for each in found]


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`nn.functional.grid_sample` with numbers for the modes.

    Args:
        interpolation_mode: 0 bilinear, 1 nearest, 2 bicubic.
        padding_mode: 0 zeros, 1 border, 2 reflection.
        align_corners: -1 and 1 are the centres of the outermost pixels, not their outer edges.
    Shape: input (N, C, H, W), grid (N, H', W', 2), result (N, C, H', W'); or input (N, C, D, H, W),
        grid (N, D', H', W', 3), result (N, C, D', H', W').
    Raises:
        IndexError: when a number is not that of a mode.
        RuntimeError: when shapes or dtypes do not fit.

    >>> import tdt
    >>> tdt.grid_sampler(tdt.tensor([[[[1.0, 2.0]]]]), tdt.zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[1.5000]]]])
    """
    return grid_sample(input, grid, MODES[interpolation_mode], PADDING[padding_mode], align_corners)


grid_sampler_2d = function_alias("grid_sampler_2d", of=grid_sampler)
grid_sampler_3d = function_alias("grid_sampler_3d", of=grid_sampler)


def _aligned(align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
                      "specify align_corners=True if the old behavior is desired.", stacklevel=3)  # fmt: skip
    return bool(align_corners)


def _check(input: Tensor, grid: Tensor, mode: str) -> None:
    """RuntimeError for shapes and dtypes that do not match, NotImplementedError for dtypes that are not floating-point."""
    shapes = f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
    if input.shape[:1] != grid.shape[:1]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, but got {shapes}")
    if input.ndim not in (4, 5) or input.ndim != grid.ndim:
        of = input.ndim if input.ndim in (4, 5) else "4D or 5"
        raise RuntimeError(
            f"grid_sampler(): expected {of}D input and grid with same number of dimensions, but got {shapes}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid "
                           f"with sizes {list(grid.shape)}")  # fmt: skip
    for d, n in enumerate(input.shape[2:], 2):
        if not n:
            raise RuntimeError("grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                               f"{list(input.shape)} with dimension {d} being empty")  # fmt: skip
    if mode == "bicubic" and input.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if input.dtype is not grid.dtype:
        raise RuntimeError(f"grid_sampler(): expected input and grid of one dtype, but got {input.dtype}, {grid.dtype}")
    check_category("grid_sampler", FLOATING, input.dtype)


def _taps(grid: Tensor, size: int, mode: str, padding: str, align: bool) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Along one axis, for each of the interpolated pixels: its index, whether it is inside of the image, and its weight."""
    at = (grid + 1) * ((size - 1) / 2) if align else ((grid + 1) * size - 1) / 2
    if mode != "bicubic":
        at = _brought_in(at, size, padding, align)
    if mode == "nearest":
        # The weight never changes, yet grid has a gradient: zeros, whatever reaches the weight.
        never = at.new_zeros(at.shape, dtype=BOOL)
        return [_tap(at.detach().round(), size, where(never, at, 1.0))]
    low = at.detach().floor()
    fraction = at - low
    if mode == "bilinear":
        return [_tap(low, size, 1 - fraction), _tap(low + 1, size, fraction)]
    return [
        _tap(_brought_in(low + step, size, padding, align), size, weight)
        for step, weight in enumerate(cubic_weights(fraction), -1)
    ]


def _tap(place: Tensor, size: int, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    valid = (place >= 0) & (place < size)  # not NaN either
    return where(valid, place, 0).long(), valid, weight


def _brought_in(at: Tensor, size: int, padding: str, align: bool) -> Tensor:
    """Places outside of the image, or NaN, put onto it. On the border and beyond it they have no gradient."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if not span:
            return at.new_zeros(at.shape)
        at = at - low
        at = where(at < 0, -at, at)
        turns = (at / span).detach().floor()
        remainder = at - turns * span
        at = where(turns % 2 == 0, remainder, span - remainder) + low
    inside = (at > 0) & (at < size - 1)
    return where(inside, at, where(at.detach() > 0, size - 1.0, 0.0).to(at.dtype))


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Positions, for `grid_sample`, to which the affine maps `theta` take the pixels of images of `size`.

    Args:
        size: of the images, (N, C, H, W) or (N, C, D, H, W).
        align_corners: -1 and 1 are the centres of the outermost pixels, not their outer edges; None warns and is False.
    Shape: theta (N, 2, 3), result (N, H, W, 2); or theta (N, 3, 4), result (N, D, H, W, 3).
    Raises:
        ValueError: when `theta` is not floating-point or its shape does not fit, or a size is not positive.
        NotImplementedError: when `size` does not have 4 or 5 numbers.
        RuntimeError: when `theta` and `size` have different N.
    Source: Jaderberg et al., "Spatial Transformer Networks", 2015.

    >>> import tdt
    >>> from tdt.nn import functional
    >>> functional.affine_grid(tdt.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    align_corners, size = _aligned(align_corners), tuple(size)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size}."
        )
    if tuple(theta.shape[1:]) != (dims, dims + 1):
        raise ValueError(f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. "
                         f"Got {theta.shape}.")  # fmt: skip
    if align_corners and min(size[2:]) == 1:
        warnings.warn("Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True: "
                      "their places are 0.", stacklevel=2)  # fmt: skip
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if theta.shape[0] != size[0]:
        raise RuntimeError(
            f"affine_grid: expected as many maps as samples, but got theta {list(theta.shape)}, size {size}"
        )
    places: list[Tensor] = []
    for d, n in enumerate(size[2:]):
        steps = arange(n, dtype=theta.dtype, device=theta.device)
        place = (steps * 2 - (n - 1)) / (max(n - 1, 1) if align_corners else n)
        places.insert(0, place.reshape(-1, *(1,) * (dims - 1 - d)).expand(size[2:]))
    places.append(ones(size[2:], dtype=theta.dtype, device=theta.device))
    base = stack(places, -1).reshape(-1, dims + 1)
    return (base @ theta.transpose(1, 2)).reshape(size[0], *size[2:], dims)


__all__ = ["grid_sampler", "grid_sampler_2d", "grid_sampler_3d"]
