"""Elements where a mask is True: masked_select, masked_scatter."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt._core import dtype as _dtype
from tdt._core.broadcasting import check_broadcast
from tdt._core.calls import front
from tdt._core.dtype import SCALAR_NAMES
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._core.writing import refuse_shared
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt.autograd._in_place_methods import by_copy
from tdt.autograd._op import finish, op

__all__ = ["masked_scatter", "masked_select"]


@op(promote=(), broadcasts=False, computes=False, data_dependent=True)
def _masked_select(xp: ModuleType, x: Any, mask: Any) -> Any:
    x, mask = xp.broadcast_arrays(x, mask)
    return x[mask].reshape(-1)


@_masked_select.vjp("x")
def _(g: Tensor, mask: Tensor, x: Tensor) -> Tensor:  # x: as in PyTorch, a write to it before backward is refused
    shape = np.broadcast_shapes(x._a.shape, mask._a.shape)
    return g.new_zeros(shape).masked_scatter(mask, g).sum_to_size(x._a.shape)


@method()
@front
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where `mask` is True, as a vector.

    Shape: input (*); mask broadcastable with it, bool; result (number of True elements).
    Raises:
        TypeError: when `mask` is not a tensor.
        RuntimeError: when `mask` is of another dtype.

    >>> import tdt
    >>> tdt.masked_select(tdt.tensor([1, 2, 3]), tdt.tensor([True, False, True]))
    tensor([1, 3])
    """
    tensor_argument("masked_select", mask, "mask", 2)
    if mask.dtype is not _dtype.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    check_broadcast(mask._a.shape, input._a.shape)
    refuse_out(out, input)
    refuse_shared(out, input, mask)
    return finish(_masked_select, out, input, mask)


@op(promote=(), broadcasts=False, computes=False)
def _masked_scatter(xp: ModuleType, x: Any, mask: Any, source: Any) -> Any:
    shape = check_broadcast(mask.shape, x.shape)
    out, mask = xp.array(xp.broadcast_to(x, shape), order="C"), xp.broadcast_to(mask, shape)
    count = int(mask.sum())
    if count > source.size:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes and source at least {count} elements, "
            f"got {source.size}"
        )
    out[mask] = source.reshape(-1)[:count]
    return out


_masked_scatter.vjp("x")(lambda g, mask, x_shape: g.masked_fill(mask, 0).sum_to_size(x_shape))


@_masked_scatter.vjp("source")
def _(g: Tensor, mask: Tensor, source_shape: tuple[int, ...]) -> Tensor:
    selected = _masked_select(g, mask)
    missing = int(np.prod(source_shape, dtype=np.int64)) - selected.numel()
    from tdt._ops.shape.join import cat

    return (cat([selected, selected.new_zeros(missing)]) if missing else selected).reshape(source_shape)


@method(in_place=by_copy)
@front
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of `input` in which the elements where `mask` is True are replaced, in order, by those of `source`.

    Shape: input, mask (bool) broadcastable; source with at least as many elements as mask has True; result the broadcast shape.
    Raises:
        RuntimeError: when `mask` is not bool, `source` is of another dtype or has too few elements.

    >>> import tdt
    >>> tdt.masked_scatter(tdt.zeros(3), tdt.tensor([True, False, True]), tdt.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if mask.dtype is not _dtype.bool:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {SCALAR_NAMES[mask.dtype]}"
        )
    if input.dtype is not source.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {SCALAR_NAMES[input.dtype]} and "
            f"{SCALAR_NAMES[source.dtype]}"
        )
    return _masked_scatter(input, mask, source)
