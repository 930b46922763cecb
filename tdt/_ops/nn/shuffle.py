"""Rearranged channels and pixels: pixel_shuffle, pixel_unshuffle, channel_shuffle."""

from __future__ import annotations

import numpy as np

from tdt._backend.layout import empty_output
from tdt._core.methods import function_alias
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.shape.memory import clone
from tdt.autograd._node_names import node_name
from tdt.autograd._op import op
from tdt.autograd._remembered import calls_by_shape

FEW = 8  # elements of the last dimension that are copied one after the other: NumPy's inner loop would be over them


@op(computes=False, shape=lambda x, *, joined, **how: joined)
def _rearrange(xp, x, *, split, order, joined):
    """`x` seen as `split`, its dimensions in another order, and joined; channels-last in memory where x is."""
    out = empty_output(xp, joined, x.dtype, x)
    target, source = out.reshape(tuple(split[d] for d in order)), x.reshape(split).transpose(order)
    if xp is np and target.shape[-1] <= FEW:
        for k in range(target.shape[-1]):
            target[..., k] = source[..., k]
    else:
        target[...] = source
    return out


@_rearrange.vjp("x")
def _(g, x_shape, split, order):
    return _rearrange(g, **_back(x_shape, split, order))


@_rearrange.fast_vjp("x")
def _(xp, g, x_shape, split, order):
    return _rearrange.forward(xp, g, **_back(x_shape, split, order))


def _back(x_shape, split, order):
    """The attributes of the op that undoes another one."""
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    return {"split": tuple(split[d] for d in order), "order": back, "joined": x_shape}


def _image(name: str, input: Tensor, factor: int, what: str) -> tuple[int, ...]:
    """The shape (*, C, H, W) of `input`; RuntimeError for fewer dimensions, or a factor that is not positive."""
    shape = tuple(tensor_argument(name, input).shape)
    if len(shape) < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {len(shape)} dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {what}, but got {factor}")
    return shape


@calls_by_shape
@node_name("PixelShuffleBackward0")
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Rearrange groups of r² channels into patches of r × r pixels, r = `upscale_factor`.

    Shape: input (*, C r², H, W); result (*, C, H r, W r).
    Raises:
        RuntimeError: when `input` has fewer than 3 dimensions, r is not positive, or r² does not divide the channels.
    Source: Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
        Network", 2016.

    >>> import tdt
    >>> tdt.pixel_shuffle(tdt.arange(4.0).reshape(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    r = upscale_factor
    *batch, c, h, w = _image("pixel_shuffle", input, r, "upscale_factor")
    if c % (r * r):
        raise RuntimeError("pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                           f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}")  # fmt: skip
    n = len(batch)
    split = (*batch, c // (r * r), r, r, h, w)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return _rearrange(input, split=split, order=order, joined=(*batch, c // (r * r), h * r, w * r))


@calls_by_shape
@node_name("PixelUnshuffleBackward0")
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Rearrange patches of r × r pixels into r² channels, r = `downscale_factor`: the inverse of `pixel_shuffle`.

    Shape: input (*, C, H r, W r); result (*, C r², H, W), but that of an empty input, as in PyTorch.
    Raises:
        RuntimeError: when `input` has fewer than 3 dimensions, r is not positive, or r does not divide height and width.
    Source: Shi et al., "Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional Neural
        Network", 2016.

    >>> import tdt
    >>> tdt.pixel_unshuffle(tdt.arange(4.0).reshape(1, 2, 2), 2).flatten()
    tensor([0., 1., 2., 3.])
    """
    r = downscale_factor
    *batch, c, h, w = _image("pixel_unshuffle", input, r, "downscale_factor")
    for side, size, dim in (("height", h, -2), ("width", w, -1)):
        if size % r:
            raise RuntimeError(f"pixel_unshuffle expects {side} to be divisible by downscale_factor, but input.size({dim})="
                               f"{size} is not divisible by {r}")  # fmt: skip
    if not input._a.size:
        return clone(input)
    n = len(batch)
    split = (*batch, c, h // r, r, w // r, r)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return _rearrange(input, split=split, order=order, joined=(*batch, c * r * r, h // r, w // r))


@calls_by_shape
@node_name("ChannelShuffleBackward0")
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Reorder channels so that neighbours come from different groups: (groups, C / groups) is transposed.

    Shape: input (N, C, *), of 3 dimensions or more; result the same.
    Raises:
        RuntimeError: when `input` has fewer than 3 dimensions, or `groups` is not positive or does not divide C.
    Source: Zhang et al., "ShuffleNet: An Extremely Efficient Convolutional Neural Network for Mobile Devices", 2018.

    >>> import tdt
    >>> tdt.channel_shuffle(tdt.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    shape = tuple(tensor_argument("channel_shuffle", input).shape)
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    n, c, *rest = shape
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    split = (n, groups, c // groups, *rest)
    return _rearrange(input, split=split, order=(0, 2, 1, *range(3, len(split))), joined=shape)


native_channel_shuffle = function_alias("native_channel_shuffle", of=channel_shuffle)

__all__ = ["channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]
