"""Copies with elements rearranged: cat, stack, repeat, flip, roll, tril, triu."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tdt import _backend
from tdt._backend.layout import in_order, is_channels_last
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.methods import method
from tdt._core.tensor import Tensor
from tdt._core.writing import refuse_shared
from tdt._ops._common import as_shape, is_int, store_into, wrap_dim
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt._ops.shape.memory import contiguous_format
from tdt.autograd._dispatch import apply
from tdt.autograd._in_place_methods import by_copy
from tdt.autograd._node_names import node_name
from tdt.autograd._op import finish, op
from tdt.autograd._views import follow

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "cat", "column_stack", "concat", "concatenate", "diag",
    "diag_embed", "diagflat", "dstack", "flip", "fliplr", "flipud", "hstack", "meshgrid", "repeat_interleave", "roll",
    "rot90", "row_stack", "stack", "tile", "tril", "triu", "vstack",
]  # fmt: skip


@op(broadcasts=False, computes=False)
def _cat(xp: ModuleType, *tensors: Any, dim: int) -> Any:
    try:
        out = xp.concatenate(tensors, dim)
        if out.flags.c_contiguous or all(is_channels_last(x) for x in tensors):
            return out
        return xp.ascontiguousarray(out)  # NumPy would keep the order of the dimensions in memory
    except ValueError:
        first = tensors[0].shape
        for i, x in enumerate(tensors):
            for k, (a, b) in enumerate(zip(first, x.shape, strict=True)):
                if k != dim and a != b:
                    raise RuntimeError(
                        f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b} "
                        "for "
                        f"tensor number {i} in the list."
                    ) from None
        raise


@_cat.vjp("tensors")
def _(g: Tensor, index: int, tensors_shape: tuple, dim: int) -> Tensor:
    start = sum(shape[dim] for shape in tensors_shape[:index])
    return g.narrow(dim, start, tensors_shape[index][dim])


@_cat.fast_vjp("tensors")
def _(g: Any, index: int, tensors_shape: tuple, dim: int) -> Any:
    start = sum(shape[dim] for shape in tensors_shape[:index])
    return g[(*(slice(None),) * dim, slice(start, start + tensors_shape[index][dim]))]


@front
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The tensors one after another along `dim`; their other sizes must agree (1-d empty tensors are skipped).

    >>> import tdt
    >>> tdt.cat([tdt.tensor([1, 2]), tdt.tensor([3])])
    tensor([1, 2, 3])
    """
    tensors = _checked("cat", tensors)
    if out is not None:
        refuse_shared(out, *tensors)
    shapes = [x._a.shape for x in tensors]
    first = len(shapes[0])
    if not first or (0,) in shapes or len({len(s) for s in shapes}) > 1:
        tensors = _alike(tensors, dim)
        first = tensors[0].ndim
    d = wrap_dim(dim, first)
    if out is None:
        return apply(_cat, tuple(tensors), {"dim": d})
    _castable(out, tensors)
    return finish(_cat, out, *tensors, dim=d)


concat = concatenate = cat


def _alike(tensors: list[Tensor], dim: int) -> list[Tensor]:
    """1-d empty tensors in the shape that lets them stand beside the others; RuntimeError for different dimensions."""
    follow(*tensors)
    for i, x in enumerate(tensors):
        if not x.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    first = next((x for x in tensors if x._a.shape != (0,)), tensors[0])
    d = wrap_dim(dim, first.ndim)
    shape = tuple([0 if k == d else n for k, n in enumerate(first._a.shape)])
    alike = [x.reshape(shape) if x._a.shape == (0,) and first.ndim > 1 else x for x in tensors]
    for x in alike:
        if x.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}")
    return alike


def _castable(out: Tensor | None, tensors: list[Tensor]) -> None:
    """TypeError where `out=` cannot hold what the tensors promote to."""
    if out is not None and any(not _dtype.can_cast(x.dtype, out.dtype) for x in tensors):
        raise TypeError(
            f"torch.cat(): input types can't be cast to the desired output type {_dtype.SCALAR_NAMES[out.dtype]}"
        )


def _checked(name: str, tensors: Any) -> list[Tensor]:
    """The sequence as a list of tensors; PyTorch's errors for anything else."""
    if isinstance(tensors, Tensor):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = list(tensors)
    if not tensors:
        if name == "cat":
            raise ValueError("torch.cat(): expected a non-empty list of Tensors")
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    for i, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {type(x).__name__}")
    return tensors


@op(broadcasts=False, computes=False)
def _stack(xp: ModuleType, *tensors: Any, dim: int) -> Any:
    shape = tensors[0].shape
    if dim == len(shape):
        return _cat.forward(xp, *[x[..., None] for x in tensors], dim=dim)
    return _cat.forward(xp, *tensors, dim=dim).reshape(*shape[:dim], len(tensors), *shape[dim:])


_stack.vjp("tensors")(lambda g, index, dim: g.select(dim, index))
_stack.fast_vjp("tensors")(lambda g, index, dim: g[(*(slice(None),) * dim, index, ...)])


@front
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape along a new dimension `dim`.

    >>> import tdt
    >>> tdt.stack([tdt.tensor([1, 2]), tdt.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    tensors = _checked("stack", tensors)
    first = tensors[0]._a.shape
    for i, x in enumerate(tensors):
        if x._a.shape != first:
            follow(*tensors)
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(x._a.shape)} at entry {i}"
            )
    _castable(out, tensors)
    return finish(_stack, out, *tensors, dim=wrap_dim(dim, len(first) + 1))


def _at_least(n: int, add: Any, name: str) -> Any:
    def function(*tensors: Any) -> Any:
        given = tensors[0] if len(tensors) == 1 else tensors
        if isinstance(given, Tensor):
            return add(given)
        return tuple([add(x) for x in given])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Tensors of fewer than {n} dimensions brought to {n}; the others as they are.

    >>> import tdt
    >>> tdt.{name}(tdt.tensor(1.0)).ndim
    {n}
    """
    return function


def _to_3d(x: Tensor) -> Tensor:
    return (
        x.reshape(1, 1, 1) if not x.ndim else x[None, :, None] if x.ndim == 1 else x[:, :, None] if x.ndim == 2 else x
    )


atleast_1d = _at_least(1, lambda x: x if x.ndim else x.reshape(1), "atleast_1d")
atleast_2d = _at_least(2, lambda x: x if x.ndim > 1 else x.reshape(1, 1) if not x.ndim else x[None], "atleast_2d")
atleast_3d = _at_least(3, _to_3d, "atleast_3d")


@front
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined side by side: along dimension 1, or 0 for vectors.

    >>> import tdt
    >>> tdt.hstack([tdt.tensor([1]), tdt.tensor([2])])
    tensor([1, 2])
    """
    parts = atleast_1d(_checked("hstack", tensors))
    return cat(parts, 0 if parts[0].ndim == 1 else 1, out=out)


@front
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined one below the other, vectors as rows.

    >>> import tdt
    >>> tdt.vstack([tdt.tensor([1]), tdt.tensor([2])])
    tensor([[1],
            [2]])
    """
    return cat(atleast_2d(_checked("vstack", tensors)), 0, out=out)


row_stack = vstack


@front
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined along the third dimension.

    >>> import tdt
    >>> tdt.dstack([tdt.tensor([1]), tdt.tensor([2])])
    tensor([[[1, 2]]])
    """
    return cat(atleast_3d(_checked("dstack", tensors)), 2, out=out)


@front
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Joined side by side, vectors as columns.

    >>> import tdt
    >>> tdt.column_stack([tdt.tensor([1, 2]), tdt.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return cat([x if x.ndim > 1 else x.reshape(-1, 1) for x in _checked("column_stack", tensors)], 1, out=out)


@method()
@node_name("RepeatBackward0")
def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """The tensor copied `repeats[d]` times along each dimension; new dimensions come in front. A method of Tensor.

    >>> import tdt
    >>> tdt.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    times = as_shape(repeats)
    extra = len(times) - input.ndim
    if extra < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(n < 0 for n in times):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(times)}: {list(times)}")
    sizes = (1,) * extra + tuple(input._a.shape)
    spread = input.reshape([n for size in sizes for n in (1, size)])
    spread = spread.expand([n for k, size in zip(times, sizes, strict=True) for n in (k, size)])
    return spread.clone(memory_format=contiguous_format).reshape(
        [k * size for k, size in zip(times, sizes, strict=True)]
    )


@front
@node_name("RepeatBackward0")
def tile(input: Tensor, dims: Any) -> Tensor:
    """As Tensor.repeat, where missing repeats in front count as 1.

    >>> import tdt
    >>> tdt.tile(tdt.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    times = as_shape((dims,))
    return repeat(input, *(1,) * (input.ndim - len(times)), *times)


@method()
@front
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each entry along `dim` (of the flattened tensor, if None) repeated: the same number of times, or its own.

    >>> import tdt
    >>> tdt.repeat_interleave(tdt.tensor([1, 2]), 2)
    tensor([1, 1, 2, 2])
    """
    if repeats is None:
        counts = input
        return input.new_tensor(range(len(input))).repeat_interleave(counts)
    x = input.reshape(-1) if dim is None else input
    d = wrap_dim(0 if dim is None else dim, x.ndim)
    if not x.ndim:
        x = x.reshape(1)
    n = x.shape[d]
    times = repeats._a if isinstance(repeats, Tensor) else repeats
    if isinstance(repeats, Tensor) and repeats.dtype not in (_dtype.int64, _dtype.int32):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if isinstance(repeats, Tensor) and repeats.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if isinstance(repeats, Tensor) and repeats.numel() not in (1, n):
        raise RuntimeError("repeats must have the same size as input along dim, but got "
                           f"repeats.size(0) = {repeats.numel()} and input.size({d}) = {n}")  # fmt: skip
    if (times < 0).any() if isinstance(repeats, Tensor) else times < 0:
        raise RuntimeError("repeats can not be negative")
    from tdt._core.tensor import wrap

    xp = _backend.namespace(x._a)
    return x.index_select(
        d, wrap(xp.repeat(xp.arange(n), times if isinstance(times, int) else xp.broadcast_to(times.reshape(-1), (n,))))
    )


@op(computes=False)
def _flip(xp: ModuleType, x: Any, *, dims: tuple[int, ...]) -> Any:
    return in_order(xp, xp.flip(x, dims).copy(order="K"), [x])


_flip.vjp("x")(lambda g, dims: _flip(g, dims=dims))


@front
def flip(input: Tensor, dims: Any) -> Tensor:
    """The entries along each of `dims` in reverse order; a copy.

    >>> import tdt
    >>> tdt.flip(tdt.arange(3), (0,))
    tensor([2, 1, 0])
    """
    dims = tuple([wrap_dim(d, input.ndim) for d in as_shape((dims,) if not isinstance(dims, int) else ((dims,),))])
    if len(set(dims)) != len(dims):
        raise RuntimeError(
            f"dim {next(d for d in dims if dims.count(d) > 1)} appears multiple times in the list of dims"
        )
    return _flip(input, dims=dims if input.ndim else ())


@method()
@front
def fliplr(input: Tensor) -> Tensor:
    """Left and right exchanged (dimension 1).

    >>> import tdt
    >>> tdt.fliplr(tdt.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


@method()
@front
def flipud(input: Tensor) -> Tensor:
    """Up and down exchanged (dimension 0).

    >>> import tdt
    >>> tdt.flipud(tdt.tensor([1, 2]))
    tensor([2, 1])
    """
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


@op(computes=False, packed=True)
def _roll(xp: ModuleType, x: Any, *, shifts: tuple[int, ...], dims: tuple[int, ...] | None) -> Any:
    return xp.roll(x, shifts[0] if dims is None else shifts, dims)


_roll.vjp("x")(lambda g, shifts, dims: _roll(g, shifts=tuple([-s for s in shifts]), dims=dims))


@method()
@front
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Entries moved `shifts` places on along `dims`, those that fall off coming back in front.

    >>> import tdt
    >>> tdt.roll(tdt.arange(4), 1)
    tensor([3, 0, 1, 2])
    """
    shifts = tuple(map(operator.index, (shifts,) if is_int(shifts) else shifts))
    dims = None if dims is None or dims == () else (dims,) if is_int(dims) else tuple(dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if (dims is None and len(shifts) > 1) or (dims is not None and len(dims) != len(shifts)):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims or ())}")
    if dims is not None and not input.ndim:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    return _roll(input, shifts=shifts, dims=None if dims is None else tuple([wrap_dim(d, input.ndim) for d in dims]))


@method()
@front
@node_name("Rot90Backward0")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The plane `dims` turned by k · 90°, from the first towards the second dimension.

    >>> import tdt
    >>> tdt.rot90(tdt.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = dims
    if a == b or abs(a - b) == input.ndim:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}")
    for d in dims:
        if not -input.ndim <= d < input.ndim:
            raise RuntimeError(f"Rotation dim{list(dims).index(d)} out of range, dim{list(dims).index(d)} = {d}")
    turns = k % 4
    if turns == 0:
        return input.clone()
    if turns == 2:
        return flip(input, (a, b))
    return flip(input, (b,)).transpose(a, b) if turns == 1 else flip(input, (a,)).transpose(a, b)


def _triangle(name: str) -> Any:
    @op(name=name, computes=False, packed=True)
    def triangle(xp: ModuleType, x: Any, *, diagonal: int = 0) -> Any:
        lower = xp.tri(*x.shape[-2:], diagonal if name == "tril" else diagonal - 1, bool)
        return _backend.where(xp, lower if name == "tril" else ~lower, x, x.dtype.type(0))

    triangle.vjp("x")(lambda g, diagonal: triangle(g, diagonal=diagonal))

    def function(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
        if tensor_argument(name, input).ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        refuse_out(out, input)
        return finish(triangle, out, input, diagonal=diagonal)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""The {"lower" if name == "tril" else "upper"} triangle of the last two dimensions.

    0 elsewhere; `diagonal` moves the edge up.

    >>> import tdt
    >>> tdt.{name}(tdt.tensor([[1, 2], [3, 4]]))
    tensor([[1, {0 if name == "tril" else 2}],
            [{3 if name == "tril" else 0}, 4]])
    """
    return function


tril, triu = _triangle("tril"), _triangle("triu")


@method()
@front
@node_name("DiagEmbedBackward0")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Zero matrices in dimensions (dim1, dim2) with the last dimension of input on their diagonal `offset`.

    >>> import tdt
    >>> tdt.diag_embed(tdt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    n, ndim = input.shape[-1] + abs(offset), input.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rest = iter(input.shape[:-1])
    shape = tuple([n if d in (a, b) else next(rest) for d in range(ndim)])
    from tdt._ops.shape.views import _diagonal_backward

    return _diagonal_backward(input, shape=shape, offset=offset, dim1=a, dim2=b)


@method()
@front
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix.

    >>> import tdt
    >>> tdt.diag(tdt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    tensor_argument("diag", input)
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    result = diag_embed(input, diagonal) if input.ndim == 1 else input.diagonal(diagonal).clone()
    return result if out is None else store_into(out, result, exact=True)


@method()
@front
@node_name("DiagEmbedBackward0")
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements on the diagonal of a matrix.

    >>> import tdt
    >>> tdt.diagflat(tdt.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(input.reshape(-1), offset)


@front
@node_name("BlockDiagBackward0")
def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of one matrix, 0 elsewhere.

    >>> import tdt
    >>> tdt.block_diag(tdt.tensor([[1]]), tdt.tensor([[2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    for i, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
    parts = [atleast_2d(x) for x in tensors]
    width, rows, start = sum(x.shape[1] for x in parts), [], 0
    for x in parts:
        rows.append(
            cat([x.new_zeros((x.shape[0], start)), x, x.new_zeros((x.shape[0], width - start - x.shape[1]))], 1)
        )
        start += x.shape[1]
    return cat(rows)


@front
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Vectors spread over the grid that they span: result i varies along dimension i ("ij"); "xy" swaps the first two.

    >>> import tdt
    >>> tdt.meshgrid(tdt.tensor([1, 2]), tdt.tensor([3, 4]), indexing="ij")[0]
    tensor([[1, 1],
            [2, 2]])
    """
    vectors = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in vectors:
        if x.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}")
        if x.dtype is not vectors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[:2] = vectors[1::-1]
    shape = [x.numel() for x in vectors]
    grids = [x.reshape([-1 if k == i else 1 for k in range(len(vectors))]).expand(shape) for i, x in enumerate(vectors)]
    if swap:
        grids[:2] = grids[1::-1]
    return tuple(grids)


triu = method(in_place=by_copy)(front(triu))
tril = method(in_place=by_copy)(front(tril))


@method("tile")
def _tile_method(self: Tensor, *dims: Any) -> Tensor:
    """`tdt.tile`: `x.tile(2, 1)` or `x.tile((2, 1))`."""
    return tile(self, dims[0] if len(dims) == 1 and not hasattr(dims[0], "__index__") else dims)


@method("flip")
def _flip_method(self: Tensor, *places: Any, dims: Any = None) -> Tensor:
    """The entries along each of `dims` in reverse order: `x.flip(0, 1)` or `x.flip((0, 1))`."""
    dims = places if dims is None else dims
    return flip(self, dims[0] if len(dims) == 1 and not hasattr(dims[0], "__index__") else dims)


@method("__reversed__")
def _reversed(self: Tensor) -> Tensor:
    return flip(self, 0) if self.ndim else self


atleast_1d = front(atleast_1d)
atleast_2d = front(atleast_2d)
atleast_3d = front(atleast_3d)
