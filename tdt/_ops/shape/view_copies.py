"""`*_copy`: copies of the results of view functions, in new memory."""

from __future__ import annotations

from collections.abc import Sequence

from tdt._core.calls import as_shape, front
from tdt._core.dtype import dtype as Dtype
from tdt._core.memory_format import contiguous_format
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap_new
from tdt._kernels import contiguous_copy
from tdt._ops._common import Dims, store_into
from tdt._ops.elementwise import view_as_complex, view_as_real
from tdt._ops.shape import diagonals, dimensions, split, views
from tdt._ops.spectral import frames
from tdt.autograd._arrays import unrecorded

__all__ = [
    "alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "narrow_copy", "permute_copy",
    "select_copy", "slice_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy", "t_copy", "transpose_copy",
    "unbind_copy", "unfold_copy", "unsqueeze_copy", "view_as_complex_copy", "view_as_real_copy", "view_copy",
]  # fmt: skip


def _copy(view: Tensor, out: Tensor | None) -> Tensor:
    """A contiguous copy of a view, or `out` with its elements."""
    if out is None and unrecorded(view):
        return wrap_new(contiguous_copy(view._a))
    copy = view.clone(memory_format=contiguous_format)
    return copy if out is None else store_into(out, copy, exact=True)


def _copies(name: str, views: tuple[Tensor, ...], out: Sequence[Tensor] | None) -> tuple[Tensor, ...] | None:
    """Contiguous copies of several views; None where `out` gets them."""
    copies = tuple([view.clone(memory_format=contiguous_format) for view in views])
    if out is None:
        return copies
    if len(out) != len(copies):
        raise RuntimeError(f"{name}(): out must be {len(copies)} tensors, one for each part, but got {len(out)}")
    for target, copy in zip(out, copies, strict=True):
        store_into(target, copy, exact=True)
    return None


@front
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of `input` in memory of their own.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.alias_copy(tdt.arange(2))
    tensor([0, 1])
    """
    return _copy(input, out)


@front
def as_strided_copy(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of what `as_strided` returns.

    Shape: input (*); result of shape `size`.

    >>> import tdt
    >>> tdt.as_strided_copy(tdt.arange(4), (2,), (2,))
    tensor([0, 2])
    """
    return _copy(split.as_strided(input, size, stride, storage_offset), out)


@front
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of `input` that takes no part in the graph.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.detach_copy(tdt.ones(1, requires_grad=True))
    tensor([1.])
    """
    return _copy(input.detach(), out)


@front
def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Tensor | None = None) -> Tensor:
    """A copy of the diagonal that `diagonal` returns.

    Shape: input (*), at least 2-d; result without `dim1` and `dim2`, the diagonal's length last.

    >>> import tdt
    >>> tdt.diagonal_copy(tdt.arange(4).reshape(2, 2))
    tensor([0, 3])
    """
    return _copy(diagonals.diagonal(input, offset, dim1, dim2), out)


@front
def expand_copy(input: Tensor, size: Sequence[int], *, implicit: bool = False, out: Tensor | None = None) -> Tensor:
    """A copy of `input` expanded to `size`.

    Shape: input broadcastable to `size`; result of shape `size`.

    >>> import tdt
    >>> tdt.expand_copy(tdt.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return _copy(views.expand(input, *size), out)


@method()
@front
def narrow_copy(input: Tensor, dim: int, start: int | Tensor, length: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of `length` entries along `dim`, from `start` on.

    Shape: input (*), at least 1-d; result the same but for `dim`: `length`.

    >>> import tdt
    >>> tdt.narrow_copy(tdt.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    return _copy(views.narrow(input, dim, start, length), out)


@front
def permute_copy(input: Tensor, dims: Sequence[int], *, out: Tensor | None = None) -> Tensor:
    """A copy with the dimensions in the order `dims`.

    Shape: input (*); result the sizes in the order `dims`.

    >>> import tdt
    >>> tdt.permute_copy(tdt.zeros(2, 3), (1, 0)).shape
    tdt.Size([3, 2])
    """
    return _copy(dimensions.permute(input, dims), out)


@front
def select_copy(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of the part at `index` along `dim`.

    Shape: input (*), at least 1-d; result without dimension `dim`.

    >>> import tdt
    >>> tdt.select_copy(tdt.arange(4).reshape(2, 2), 0, 1)
    tensor([2, 3])
    """
    return _copy(views.select(input, dim, index), out)


@front
def slice_copy(
    input: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of the entries start, start + step, … before `end` along `dim`.

    Shape: input (*), at least 1-d; result the same but for `dim`.

    >>> import tdt
    >>> tdt.slice_copy(tdt.arange(5), 0, 0, 4, 2)
    tensor([0, 2])
    """
    return _copy(views.slice_along(input, dim, start, end, step), out)


@front
def split_copy(
    input: Tensor, split_size: int | Sequence[int], dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...] | None:
    """Copies of the parts that `split` returns.

    Shape: input (*), at least 1-d; each result the same but for `dim`.
    Returns: the copies; None where `out`, one tensor for each part, gets them.

    >>> import tdt
    >>> tdt.split_copy(tdt.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _copies("split_copy", split.split(input, split_size, dim), out)


@front
def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...] | None:
    """Copies of the parts that `split_with_sizes` returns.

    Shape: input (*), at least 1-d; each result the same but for `dim`.
    Returns: the copies; None where `out`, one tensor for each part, gets them.

    >>> import tdt
    >>> tdt.split_with_sizes_copy(tdt.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return _copies("split_with_sizes_copy", split.split_with_sizes(input, split_sizes, dim), out)


@front
def squeeze_copy(input: Tensor, dim: Dims = None, *, out: Tensor | None = None) -> Tensor:
    """A copy without the dimensions of size 1: all of them, or those among `dim`.

    Shape: input (*); result without the dimensions of size 1.

    >>> import tdt
    >>> tdt.squeeze_copy(tdt.zeros(1, 3)).shape
    tdt.Size([3])
    """
    return _copy(dimensions.squeeze(input, dim), out)


@front
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of a matrix with its dimensions swapped.

    Shape: input (m, n), (n) or (); result (n, m), or the same.

    >>> import tdt
    >>> tdt.t_copy(tdt.zeros(2, 3)).shape
    tdt.Size([3, 2])
    """
    return _copy(dimensions.t(input), out)


@front
def transpose_copy(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """A copy with dimensions `dim0` and `dim1` swapped.

    Shape: input (*); result the same with the two sizes swapped.

    >>> import tdt
    >>> tdt.transpose_copy(tdt.zeros(2, 3), 0, 1).shape
    tdt.Size([3, 2])
    """
    return _copy(dimensions.transpose(input, dim0, dim1), out)


@front
def unbind_copy(input: Tensor, dim: int = 0, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...] | None:
    """A copy of the part at each index along `dim`.

    Shape: input (*), at least 1-d; each result without dimension `dim`.
    Returns: the copies; None where `out`, one tensor for each part, gets them.

    >>> import tdt
    >>> tdt.unbind_copy(tdt.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    return _copies("unbind_copy", split.unbind(input, dim), out)


@front
def unfold_copy(input: Tensor, dimension: int, size: int, step: int, *, out: Tensor | None = None) -> Tensor:
    """A copy of the windows of length `size` along `dimension`, `step` apart.

    Shape: input (*); result one dimension more, of length `size`, last.

    >>> import tdt
    >>> tdt.unfold_copy(tdt.arange(4), 0, 2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    return _copy(frames.unfold(input, dimension, size, step), out)


@front
def unsqueeze_copy(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """A copy with a new dimension of size 1 at position `dim`.

    Shape: input (*) with n dimensions; result n + 1 dimensions.

    >>> import tdt
    >>> tdt.unsqueeze_copy(tdt.zeros(3), 0).shape
    tdt.Size([1, 3])
    """
    return _copy(dimensions.unsqueeze(input, dim), out)


@front
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Complex numbers from the pairs in the last dimension of a real tensor.

    Shape: input (*, 2); result (*).

    >>> import tdt
    >>> tdt.view_as_complex_copy(tdt.tensor([1.0, 2.0]))
    tensor(1.+2.j)
    """
    return _copy(view_as_complex(input), out)


@front
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The real and imaginary parts of a complex tensor, in a new last dimension.

    Shape: input (*), complex; result (*, 2).

    >>> import tdt
    >>> tdt.view_as_real_copy(tdt.tensor(1 + 2j))
    tensor([1., 2.])
    """
    return _copy(view_as_real(input), out)


@front
def view_copy(
    input: Tensor, *sizes: int | Sequence[int] | Dtype, size: Sequence[int] | None = None, dtype: Dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """A copy of `input` in another shape, or with its memory read as another dtype.

    Args:
        sizes: one by one or as a sequence, one of which may be -1; or a dtype.
    Shape: input (*); result of these sizes, with as many elements.

    >>> import tdt
    >>> tdt.view_copy(tdt.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    if size is not None:
        sizes = (*sizes, size)
    if dtype is not None or (sizes and isinstance(sizes[0], Dtype)):
        return _copy(views.view(input, *sizes, dtype=dtype), out)
    return _copy(views.reshape(input, as_shape(sizes)), out)  # where the strides allow no view, too
