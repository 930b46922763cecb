"""Reductions of consecutive parts of one dimension: segment_reduce."""

from __future__ import annotations

from typing import Literal

from tdt._core import dtype as _dtype
from tdt._core.dtype import check_category
from tdt._core.tensor import Tensor
from tdt._ops._common import wrap_dim
from tdt._ops.index.scatter import scatter_reduce

__all__ = ["segment_reduce"]

REDUCTIONS: dict[str, Literal["sum", "prod", "mean", "amax", "amin"]] = {
    "sum": "sum",
    "mean": "sum",
    "max": "amax",
    "min": "amin",
    "prod": "prod",
}
EMPTY = {"sum": 0.0, "mean": 0.0, "max": -float("inf"), "min": float("inf"), "prod": 1.0}


def segment_reduce(
    data: Tensor,
    reduce: Literal["sum", "mean", "max", "min", "prod"],
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Reduction of consecutive segments of `axis`, given by their lengths or by offsets.

    Args:
        lengths: sizes of the segments, int32 or int64; they add up to the size of `axis`.
        indices: not supported, as in PyTorch.
        offsets: start of each segment, and the end of the last one, instead of lengths.
        unsafe: skip the check of the lengths.
        initial: initial value of each reduction; by default that of an empty segment: 0, 1, or ±inf.
    Shape: data (*, N, **) with N in `axis`, lengths (*, S), offsets (*, S + 1); result (*, S, **).
    Raises:
        RuntimeError: when data is empty or not floating-point, `reduce` is unknown, or lengths do not fit data.

    >>> import tdt
    >>> tdt.segment_reduce(tdt.tensor([1.0, 2.0, 3.0]), "sum", lengths=tdt.tensor([1, 2]))
    tensor([1., 5.])
    """
    if reduce not in REDUCTIONS:
        raise RuntimeError(f"segment_reduce(): reduce must be one of {', '.join(REDUCTIONS)}, but got {reduce!r}")
    check_category("_segment_reduce_cpu", _dtype.FLOATING, data.dtype)
    if not data.numel():
        raise RuntimeError("segment_reduce(): Expected data.numel() > 0")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    d = wrap_dim(axis, data.ndim)
    if lengths is None:
        if offsets is None:
            raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
        lengths = offsets.diff()
    _check_lengths(data, lengths, d, unsafe)
    shape = [*lengths.shape, *data.shape[d + 1 :]]
    shape[d] += 1  # a spare segment for the elements after the last one, which exist only with unsafe=True
    start = data.new_full(shape, EMPTY[reduce] if initial is None else initial)
    index = _segment_of(data, lengths, d)
    result = scatter_reduce(start, d, index, data, REDUCTIONS[reduce], include_self=True).narrow(d, 0, shape[d] - 1)
    if reduce != "mean":
        return result.contiguous()
    count = lengths.reshape([*lengths.shape, *[1] * (data.ndim - d - 1)])
    return result / (count.clamp(min=1) if initial is not None else count)


def _check_lengths(data: Tensor, lengths: Tensor, d: int, unsafe: bool) -> None:
    if lengths.dtype not in (_dtype.int64, _dtype.int32):
        raise RuntimeError(f"segment_reduce(): Expected lengths to be of an integer dtype, but got {lengths.dtype}")
    if lengths.ndim != d + 1 or lengths.shape[:d] != data.shape[:d]:
        raise RuntimeError(
            f"segment_reduce(): Expected lengths to have the {d} sizes of data before axis, and one for the segments, but "
            f"got {list(lengths.shape)} for data {list(data.shape)}"
        )
    if unsafe:
        return
    if bool((lengths < 0).any()):
        raise RuntimeError("lengths contains negative value!")
    if bool((lengths.sum(-1) != data.shape[d]).any()):
        raise RuntimeError(f"segment_reduce(): Expected all rows of lengths along axis to sum to data.size(axis), "
                           f"{data.shape[d]}")  # fmt: skip


def _segment_of(data: Tensor, lengths: Tensor, d: int) -> Tensor:
    """For each element of data the index of its segment: how many segments end at or before it."""
    ends = lengths.cumsum(-1)
    places = lengths.new_tensor(range(data.shape[d]), dtype=_dtype.int64)
    number = (ends.unsqueeze(-1) <= places).sum(-2)
    return number.reshape([*number.shape, *[1] * (data.ndim - d - 1)]).expand(*data.shape)
