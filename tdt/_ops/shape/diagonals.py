"""Triangles and diagonals of matrices: tril, triu, diag, diagonal, diag_embed, diagflat, block_diag."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy import ndarray

from tdt import _backend, _kernels
from tdt._backend.waiting import refuse_program, repeatable
from tdt._core.calls import front, integer
from tdt._core.dtype import FLOAT8S, bfloat16, float16, float32, float64, get_default_dtype, int32, int64, uint8
from tdt._core.methods import method
from tdt._core.tensor import Tensor, wrap, wrap_new
from tdt._kernels._threads import PARALLEL
from tdt._ops._common import store_into, wrap_dim
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt._ops.shape.join import unrecorded_arrays
from tdt.autograd._arrays import unrecorded
from tdt.autograd._dispatch import view_of
from tdt.autograd._in_place_methods import by_op_of
from tdt.autograd._node_names import node_name
from tdt.autograd._op import Op, finish, op
from tdt.autograd._remembered import calls_by_shape
from tdt.autograd._views import follow

__all__ = ["block_diag", "diag", "diag_embed", "diagflat", "diagonal", "tril", "triu"]


MAX_CACHED = 1 << 14  # elements of a mask that is kept for the next call


@functools.lru_cache(64)
def _lower(height: int, width: int, edge: int) -> np.ndarray:
    """The mask of the lower triangle, which programs mostly need for one size."""
    return np.tri(height, width, edge, bool)


# The unsigned integers in which elements of the common types are masked: `np.where` takes twice as long.
BITS = {d.np: np.dtype(f"u{d.itemsize}") for d in (float32, float64, float16, bfloat16, int64, int32, uint8)}


@functools.lru_cache(64)
def _mask(height: int, width: int, edge: int, lower: bool, dtype: np.dtype) -> np.ndarray | None:
    """All bits inside the lower or upper triangle, none outside of it; None for types without a mask."""
    if dtype not in BITS:
        return None
    bits = BITS[dtype]
    return np.where(_lower(height, width, edge) == lower, ~bits.type(0), bits.type(0))


def _small_triangle(x: np.ndarray, diagonal: int, lower: bool) -> np.ndarray | None:
    """The triangle of small contiguous matrices of common types; None for others."""
    *_, height, width = x.shape
    if height * width > MAX_CACHED or x.size >= PARALLEL or diagonal.__class__ is not int or not x.flags.c_contiguous:
        return None
    dtype = x.dtype
    mask = _mask(height, width, diagonal if lower else diagonal - 1, lower, dtype)
    return None if mask is None else (x.view(mask.dtype) & mask).view(dtype)


_TRIANGLE = (_kernels.gpu_kernel("move_gpu:triangle", _kernels.gpu_words),)


def _triangle_op(name: str) -> Op:
    """The op of `tril` or `triu`."""

    @op(name=name, computes=False, packed=True, repeats=True)
    @repeatable
    def triangle(xp: ModuleType, x: Any, *, diagonal: int = 0, out: Any = None) -> Any:
        height, width = x.shape[-2:]
        edge = diagonal if name == "tril" else diagonal - 1
        if xp is not np:
            if out is None and (on_gpu := _kernels.chosen(_TRIANGLE, xp, x)):
                return on_gpu(x, edge=edge, lower=name == "tril")
            refuse_program()
        if out is x and _kernels.triangle(x, edge, name == "tril", out) is not None:
            return out
        if out is None and xp is np and (small := _small_triangle(x, diagonal, name == "tril")) is not None:
            return small
        fast = None if out is x else _kernels.triangle(x, edge, name == "tril")
        if fast is not None:
            return fast
        lower = (
            _lower(height, width, edge)
            if xp is np and height * width <= MAX_CACHED
            else xp.tri(height, width, edge, bool)
        )
        zero = x.dtype.type(0)
        if out is x:
            xp.copyto(out, zero, where=~lower if name == "tril" else lower)
            return out
        return _backend.where(xp, lower, x, zero) if name == "tril" else _backend.where(xp, lower, zero, x)

    @_kernels.prepares(triangle.forward)
    def _(x: np.ndarray, *, diagonal: int, recorded: bool) -> Any:
        if _small_triangle(x, diagonal, name == "tril") is None:
            return functools.partial(triangle.forward, np, diagonal=diagonal)
        kind = x.dtype
        if kind.char in "fd":
            inside = _lower(*x.shape[-2:], diagonal if name == "tril" else diagonal - 1) == (name == "tril")
            choose = lambda x, *out: _kernels.CHOICES[kind](inside, x, *out)  # noqa: E731
        else:
            mask: Any = _mask(*x.shape[-2:], diagonal if name == "tril" else diagonal - 1, name == "tril", x.dtype)
            bits = mask.dtype
            choose = lambda x, *out: np.bitwise_and(x.view(bits), mask, *[a.view(bits) for a in out]).view(kind)  # noqa: E731
        choose.into = choose  # type: ignore[attr-defined]
        return choose

    triangle.vjp("x")(lambda g, diagonal: triangle(g, diagonal=diagonal))
    triangle.fast_vjp("x")(repeatable(lambda xp, g, diagonal: triangle.forward(xp, g, diagonal=diagonal)))
    return triangle


_tril, _triu = _triangle_op("tril"), _triangle_op("triu")


def _edge(input: Tensor, diagonal: int = 0) -> tuple[tuple, dict[str, Any]]:
    """The operands behind `input`, and the attributes, of the op of `tril` or `triu`."""
    if len(input._a.shape) < 2:
        raise RuntimeError("tril, triu: input tensor must have at least 2 dimensions")
    return (), {"diagonal": integer(diagonal)}


def _triangle(record: Op, name: str, input: Tensor, diagonal: int, out: Tensor | None) -> Tensor:
    if len(input._a.shape) < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    refuse_out(out, input)
    return finish(record, out, input, diagonal=integer(diagonal))


@method(in_place=by_op_of(_tril, _edge))
@calls_by_shape
def tril(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A copy of a matrix, or of each matrix in a batch, with zeros outside the lower triangle.

    Args:
        diagonal: the edge of the triangle: 0 is the main diagonal, 1 the diagonal above it, -1 the one below it.
    Shape: input (*, m, n); result the same.
    Raises:
        RuntimeError: when `input` has fewer than 2 dimensions.

    >>> import tdt
    >>> tdt.tril(tdt.tensor([[1, 2], [3, 4]]))
    tensor([[1, 0],
            [3, 4]])
    """
    return _triangle(_tril, "tril", input, diagonal, out)


@method(in_place=by_op_of(_triu, _edge))
@calls_by_shape
def triu(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """A copy of a matrix, or of each matrix in a batch, with zeros outside the upper triangle.

    Args:
        diagonal: the edge of the triangle: 0 is the main diagonal, 1 the diagonal above it, -1 the one below it.
    Shape: input (*, m, n); result the same.
    Raises:
        RuntimeError: when `input` has fewer than 2 dimensions.

    >>> import tdt
    >>> tdt.triu(tdt.tensor([[1, 2], [3, 4]]))
    tensor([[1, 2],
            [0, 4]])
    """
    return _triangle(_triu, "triu", input, diagonal, out)


@method()
@calls_by_shape
@node_name("DiagEmbedBackward0")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices with the last dimension of `input` on their diagonal, zeros elsewhere.

    Args:
        offset: of the diagonal: positive above the main diagonal, negative below it.
        dim1, dim2: of the result, which span the matrices.
    Shape: input (*, n); result one dimension more, of size n + abs(offset) along `dim1` and `dim2`.
    Raises:
        RuntimeError: when `dim1` and `dim2` are the same.
        IndexError: when `input` has no dimension.

    >>> import tdt
    >>> tdt.diag_embed(tdt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    ndim = input.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n, rest = input.shape[-1] + abs(offset), iter(input.shape[:-1])
    shape = tuple([n if d in (a, b) else next(rest) for d in range(ndim)])
    return _diagonal_backward(input, shape=shape, offset=offset, dim1=a, dim2=b)


@method()
@front
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Tensor:
    """The matrix with a vector on its diagonal, or a copy of the diagonal of a matrix.

    Args:
        diagonal: positive above the main diagonal, negative below it.
    Shape: input (n), result (n + abs(diagonal), n + abs(diagonal)); or input (m, n), result the diagonal as a vector.
    Raises:
        RuntimeError: when `input` is neither 1-d nor 2-d.

    >>> import tdt
    >>> tdt.diag(tdt.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    ndim = tensor_argument("diag", input)._a.ndim
    if ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    if ndim == 2 and out is None and diagonal.__class__ is int and unrecorded(input):
        return wrap_new(input._a.diagonal(diagonal).copy())
    result = diag_embed(input, diagonal) if input.ndim == 1 else input.diagonal(diagonal).clone()
    return result if out is None else store_into(out, result, exact=True)


@method()
@front
@node_name("DiagEmbedBackward0")
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of `input` on its diagonal.

    Args:
        offset: of the diagonal: positive above the main diagonal, negative below it.
    Shape: input (*) with n elements; result (n + abs(offset), n + abs(offset)).

    >>> import tdt
    >>> tdt.diagflat(tdt.tensor([[1], [2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(input.reshape(-1), offset)


@front
def block_diag(*tensors: Tensor) -> Tensor:
    """The matrix with the given matrices along its diagonal, zeros elsewhere.

    Shape: tensors (m, n), vectors and numbers counting as rows; result (sum of m, sum of n).
    Raises:
        RuntimeError: when a tensor has more than 2 dimensions.

    >>> import tdt
    >>> tdt.block_diag(tdt.tensor([[1]]), tdt.tensor([[2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    for i, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions"
            )
    arrays = unrecorded_arrays(tensors)
    if arrays and all(a.dtype == arrays[0].dtype for a in arrays):
        return wrap(_block_diag.forward(np, *arrays))
    return _block_diag(*tensors) if tensors else wrap(np.empty((1, 0), get_default_dtype().np))


@op(broadcasts=False, computes=False)
def _block_diag(xp: ModuleType, *tensors: Any) -> Any:
    parts = [xp.atleast_2d(a) for a in tensors]
    out = xp.zeros((sum([len(a) for a in parts]), sum([a.shape[1] for a in parts])), parts[0].dtype)
    row = column = 0
    for a in parts:
        m, n = a.shape
        out[row : row + m, column : column + n] = a
        row, column = row + m, column + n
    return out


def _place_of_block(index: int, shapes: Sequence[tuple[int, ...]]) -> tuple[slice, slice]:
    """The rows and columns of the matrix with this index, of vectors and numbers too."""
    shapes = [(1, 1)[len(shape) :] + tuple(shape) for shape in shapes[: index + 1]]
    (*rows, height), (*columns, width) = zip(*shapes, strict=True)
    return slice(sum(rows), sum(rows) + height), slice(sum(columns), sum(columns) + width)


@_block_diag.vjp("tensors")
def _(g: Tensor, index: int, tensors_shape: tuple) -> Tensor:
    return g[_place_of_block(index, tensors_shape)].reshape(tensors_shape[index])


@_block_diag.fast_vjp("tensors")
def _(g: Any, index: int, tensors_shape: tuple) -> Any:
    return g[_place_of_block(index, tensors_shape)].reshape(tensors_shape[index])


@op(view=True, float8=FLOAT8S)
def _diagonal(xp: ModuleType, x: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    places = offset, dim1, dim2
    return _diagonal_of_array(x, places) if xp.__name__ == "numpy" else x.diagonal(*places)


def _diagonal_of_array(x: ndarray, places: tuple[int, int, int]) -> ndarray:
    diagonal = x.diagonal(*places)
    if x.flags.writeable:  # which NumPy has locked
        diagonal.setflags(write=True)
    return diagonal


@_diagonal.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Tensor:
    return _diagonal_backward(g, shape=x_shape, offset=offset, dim1=dim1, dim2=dim2)


@_diagonal.fast_vjp("x")
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    return _diagonal_backward.forward(xp, g, shape=x_shape, offset=offset, dim1=dim1, dim2=dim2)


@op(computes=False, float8=FLOAT8S)
def _diagonal_backward(xp: ModuleType, x: Any, *, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    out = xp.zeros(shape, x.dtype)
    _diagonal.forward(xp, out, offset=offset, dim1=dim1, dim2=dim2)[...] = x
    return out


_diagonal_backward.vjp("x")(lambda g, offset, dim1, dim2: _diagonal(g, offset=offset, dim1=dim1, dim2=dim2))


@method()
@front
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The view of a diagonal of each plane (`dim1`, `dim2`), as the last dimension.

    Args:
        offset: positive above the main diagonal, negative below it.
    Shape: input (*), at least 2-d; result without `dim1` and `dim2`, the diagonal's length last.
    Raises:
        RuntimeError: when `dim1` and `dim2` are the same.
        IndexError: when `input` has no dimension.

    >>> import tdt
    >>> tdt.diagonal(tdt.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    ndim = input._a.ndim
    if ndim < 2:
        follow(input)
    a, b = (dim1, dim2) if ndim > 1 and dim1 == 0 and dim2 == 1 else (wrap_dim(dim1, ndim), wrap_dim(dim2, ndim))
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    attributes = {"offset": offset, "dim1": a, "dim2": b}
    return view_of(_diagonal, input, attributes, _diagonal_of_array, (offset, a, b))
