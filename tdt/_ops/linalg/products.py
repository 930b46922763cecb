"""Products of matrices and vectors: matmul and its forms, outer, inner, tensordot, kron, trace."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._backend.waiting import repeatable
from tdt._core.calls import front
from tdt._core.dtype import ALL, NUMBERS, SCALAR_NAMES
from tdt._core.methods import function_alias, method
from tdt._core.mode import state
from tdt._core.tensor import Tensor, wrap_new
from tdt._ops._common import check_out_dtype, store_into, wrap_dim
from tdt._ops.elementwise._front import tensor_argument
from tdt._ops.reduce.reductions import sum_name
from tdt.autograd._arrays import as_tensor, compute, on_arrays, unrecorded
from tdt.autograd._autocast import autocast, cast_for
from tdt.autograd._dispatch import binary, unary
from tdt.autograd._fast_path import FastPath, takes
from tdt.autograd._inplace import copy_into, takes_result, write_array
from tdt.autograd._node_names import label, node_name, ranks
from tdt.autograd._op import op
from tdt.autograd._record import repeated
from tdt.autograd._remembered import calls_by_shape
from tdt.autograd._views import follow

__all__ = [
    "bmm", "dot", "ger", "inner", "kron", "matmul", "mm",
    "mv", "outer", "tensordot", "trace", "vdot",
]  # fmt: skip


def _matmul_shape(x: tuple[int, ...], y: tuple[int, ...]) -> tuple[int, ...]:
    if len(x) == 1 or len(y) == 1:
        return (*x[:-1], *(y[:-2] if len(y) > 1 else ()), *(y[-1:] if len(y) > 1 else ()))
    return (*np.broadcast_shapes(x[:-2], y[:-2]), x[-2], y[-1])


def _matmul_flops(x: tuple[int, ...], y: tuple[int, ...]) -> int:
    return math.prod(_matmul_shape(x, y)) * x[-1]


def _matmul_node_name(node: Any) -> str:
    found = ranks(node)
    left, right = (found[0], found[-1]) if len(found) > 1 else (found[0], found[0])
    names = {(1, 1): "DotBackward0", (2, 1): "MvBackward0", (2, 2): "MmBackward0", (3, 3): "BmmBackward0",
             (1, 2): "SqueezeBackward4"}  # fmt: skip
    return names.get((left, right), "UnsafeViewBackward0")


@op(
    dtypes=ALL,
    promote=(),
    shape=_matmul_shape,
    flops=_matmul_flops,
    node=_matmul_node_name,
    autocast="lower",
    half=True,
)
@repeatable
def _matmul(xp: ModuleType, x: Any, y: Any) -> Any:
    if x.dtype.kind == "b" and ((x.size and y.size) or x.ndim == 1 == y.ndim):  # PyTorch takes empty matrices
        raise NotImplementedError("\"matmul\" not implemented for 'Bool'")
    return _kernels.product(xp, x, y)


@_kernels.prepares(_matmul.forward, strided=True)
def _(x: Any, y: Any, *, recorded: bool) -> Any:
    return _kernels.prepared_product(x, y)


# In the rules, g with fewer dimensions than one operand means that the other one is a vector.
@_matmul.vjp("x")
def _(g: Tensor, y: Tensor) -> Tensor:
    if y.ndim == 1:
        return g.unsqueeze(-1) * y.conj() if g.ndim else g * y.conj()
    if g.ndim < y.ndim:
        return (
            _matmul(y.conj(), g.unsqueeze(-1)).squeeze(-1) if y.ndim == 2 else (y.conj() @ g.unsqueeze(-1)).squeeze(-1)
        )
    return _matmul(g, y.mH)


@_matmul.fast_vjp("x")
@repeatable
def _(xp: ModuleType, g: Any, y: Any) -> Any:
    y = y.conjugate() if y.dtype.kind == "c" else y
    if y.ndim == 1:
        return g[..., None] * y
    if g.ndim < y.ndim:
        return _kernels.product(xp, y, g[..., None])[..., 0]
    return _kernels.product(xp, g, y.swapaxes(-1, -2))


@_matmul.vjp("y")
def _(g: Tensor, x: Tensor) -> Tensor:
    if x.ndim == 1:
        return x.conj().unsqueeze(-1) * g.unsqueeze(-2) if g.ndim else g * x.conj()
    if g.ndim < x.ndim:
        return (x.mH @ g.unsqueeze(-1)).squeeze(-1)
    return _matmul(x.mH, g)


@_matmul.fast_vjp("y")
@repeatable
def _(xp: ModuleType, g: Any, x: Any) -> Any:
    x = x.conjugate() if x.dtype.kind == "c" else x
    if x.ndim == 1:
        return x[:, None] * g[..., None, :] if g.ndim else g * x
    if g.ndim < x.ndim:
        return _kernels.product(xp, x.swapaxes(-1, -2), g[..., None])[..., 0]
    return _kernels.product(xp, x.swapaxes(-1, -2), g)


def _same_type(x: Tensor, y: Tensor) -> None:
    if x._a.dtype != y._a.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {x.dtype} != {y.dtype}; convert one with .to()"
        )


@method()
@front
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions, with the other dimensions broadcast.

    A vector is a row on the left and a column on the right; its dimension is missing from the result.

    Shape: input (*, N, M) or (M), other (*, M, P) or (M); result (*, N, P).
    Raises:
        RuntimeError: when sizes or dtypes do not match, or an operand has no dimensions.

    >>> import tdt
    >>> tdt.matmul(tdt.tensor([[1.0, 2.0]]), tdt.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    if other.__class__ is not Tensor:
        tensor_argument("matmul", other, "other", 2)
    if _matmul.layouts and out is None and (found := repeated(_matmul, (input, other), {})[0]) is not None:
        return found
    x, y = input._a, other._a
    # where nothing is recorded, matrices need no call of the op.
    if out is None and unrecorded(input) and unrecorded(other):
        found = _kernels.matrix_product(x, y)
        if found is not None:
            return wrap_new(found)
    if out is not None and (_wrote(out, input, other) or copy_into(out, matmul, (input, other), {}) is not None):
        return out
    if x.dtype != y.dtype or not x.ndim or not y.ndim or x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        cast = cast_for("lower", input, other) if out is None else (input, other)
        if cast[0] is input and cast[1] is other:
            _explain_matmul(input, other)
        return matmul(*cast)
    return binary(_matmul, input, other) if out is None else _product_into(out, input, other)


@autocast("keep")
def _product_into(out: Tensor, input: Tensor, other: Tensor) -> Tensor:
    check_out_dtype(out, input.dtype)
    return _matmul.into(out, input, other)


def _of_ranks(left: int, right: int, input: Any, other: Any) -> Tensor | None:
    """The product of tensors with these numbers of dimensions, if sizes and types fit and no handler takes ops; else None."""
    try:
        a, b = input._a, other._a
        if a.ndim != left or b.ndim != right or a.dtype is not b.dtype or state.handler is not None:
            return None
        if _matmul.layouts and (found := repeated(_matmul, (input, other), {})[0]) is not None:
            return found
        if unrecorded(input) and unrecorded(other) and (found := _kernels.matrix_product(a, b)) is not None:
            return wrap_new(found)
        sizes, others = a.shape, b.shape
    except AttributeError:
        return None
    if sizes[-1] != others[-2 if right > 1 else 0] or (left == 3 and sizes[0] != others[0]):
        return None
    return binary(_matmul, input, other)


def _wrote(out: Any, input: Any, other: Any, left: int = -1, right: int = -1) -> bool:
    """Whether the product of small tensors, with these numbers of dimensions (-1: any), is now in `out`; else nothing is done."""
    try:
        a, b = input._a, other._a
        if (left >= 0 and (a.ndim != left or b.ndim != right)) or state.handler is not None:
            return False
        if not (unrecorded(input) and unrecorded(other) and takes_result(out, input, other)):
            return False
    except AttributeError:
        return False
    found = _kernels.matrix_product(a, b)
    return found is not None and write_array(out, found)


def _explain_matmul(x: Tensor, y: Tensor) -> None:
    """Raise the error for operands that cannot be multiplied; vectors, matrices and batches have messages of their own."""
    if not x.ndim or not y.ndim:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {x.ndim}D and {y.ndim}D")
    _same_type(x, y)
    follow(x, y)
    a, b = list(x.shape), list(y.shape)
    if len(a) == 1 and len(b) == 1:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor {a} and src {b} to have the same number of elements, but "
            f"got {a[0]} and {b[0]} elements respectively"
        )
    rows = math.prod(a[:-1])
    if len(b) == 1:
        raise RuntimeError(f"size mismatch, got input ({rows}), mat ({rows}x{a[-1]}), vec ({b[0]})")
    if len(a) <= 2 or len(b) <= 2:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a[-1]} and "
            f"{'x'.join(map(str, b[-2:] if len(b) > 1 else [b[0], 1]))})"
        )
    raise RuntimeError(
        f"Expected size for first two dimensions of batch2 tensor to be: [{math.prod(a[:-2])}, {a[-1]}] but got: "
        f"[{math.prod(b[:-2])}, {b[-2]}]."
    )


def _check_matrix(which: str, x: Tensor) -> None:
    if x.ndim != 2:
        raise RuntimeError(f"{which} must be a matrix, got {x.ndim}D")


@method()
@front
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two matrices.

    Shape: input (N, M), mat2 (M, P); result (N, P).
    Raises:
        RuntimeError: when an operand is not a matrix, or sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.mm(tdt.ones(2, 3), tdt.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    if out is None and (result := _of_ranks(2, 2, input, mat2)) is not None:
        return result
    if out is not None and _wrote(out, input, mat2, 2, 2):
        return out
    tensor_argument("mm", input)
    tensor_argument("mm", mat2, "mat2", 2)
    if input.ndim != 2 or mat2.ndim != 2:
        _check_matrix("self", input)
        _check_matrix("mat2", mat2)
    return matmul(input, mat2, out=out)


@method()
@front
@autocast("keep")
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of a matrix and a vector.

    Shape: input (N, M), vec (M); result (N).
    Raises:
        RuntimeError: when the operands are not a matrix and a vector, or sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.mv(tdt.ones(2, 3), tdt.ones(3))
    tensor([3., 3.])
    """
    if out is None and (result := _of_ranks(2, 1, input, vec)) is not None:
        return result
    if out is not None and _wrote(out, input, vec, 2, 1):
        return out
    tensor_argument("mv", input)
    tensor_argument("mv", vec, "vec", 2)
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {input.ndim}, {vec.ndim}")
    return matmul(input, vec, out=out)


@method()
@front
@autocast("keep")
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Dot product of two vectors, without conjugation.

    Shape: input (N), tensor (N); result ().
    Raises:
        RuntimeError: when an operand is not a vector, or sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.dot(tdt.ones(3), tdt.ones(3))
    tensor(3.)
    """
    if out is None and (result := _of_ranks(1, 1, input, tensor)) is not None:
        return result
    if out is not None and _wrote(out, input, tensor, 1, 1):
        return out
    tensor_argument("dot", input)
    tensor_argument("dot", tensor, "tensor", 2)
    if input.ndim != 1 or tensor.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {tensor.ndim}D tensors")
    if input.dtype is not tensor.dtype:
        found = f"{SCALAR_NAMES[input.dtype]} and {SCALAR_NAMES[tensor.dtype]}"
        raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {found}")
    return matmul(input, tensor, out=out)


@method()
@front
@autocast("lower")
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of the matrices of two batches.

    Shape: input (B, N, M), mat2 (B, M, P); result (B, N, P).
    Raises:
        RuntimeError: when an operand does not have 3 dimensions, or sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.bmm(tdt.ones(2, 1, 3), tdt.ones(2, 3, 1)).shape
    tdt.Size([2, 1, 1])
    """
    if out is None and (result := _of_ranks(3, 3, input, mat2)) is not None:
        return result
    if out is not None and _wrote(out, input, mat2, 3, 3):
        return out
    tensor_argument("bmm", mat2, "mat2", 2)
    tensor_argument("bmm", input)
    if input.ndim == mat2.ndim == 3 and (input.shape[0] != mat2.shape[0] or input.shape[2] != mat2.shape[1]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] "
            "but got: "
            f"[{mat2.shape[0]}, {mat2.shape[1]}]."
        )
    if input.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError(f"batch{1 if input.ndim != 3 else 2} must be a 3D tensor")
    _same_type(input, mat2)
    return matmul(input, mat2, out=out)


@method()
@front
@autocast("keep")
@node_name("VdotBackward0")
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Dot product of two vectors, the first of which is conjugated.

    Shape: input (N), other (N); result ().
    Raises:
        RuntimeError: when an operand is not a vector, or sizes or dtypes do not match.

    >>> import tdt
    >>> tdt.vdot(tdt.tensor([1j]), tdt.tensor([1j]))
    tensor(1.+0.j)
    """
    return dot(input.conj(), other, out=out)


@method(aliases=("ger",))
@front
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Outer product of two vectors: input[i] · vec2[j].

    Shape: input (N), vec2 (M); result (N, M).
    Raises:
        RuntimeError: when an operand is not a vector.

    >>> import tdt
    >>> tdt.outer(tdt.tensor([1, 2]), tdt.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """
    for x, which in ((input, "self"), (vec2, "vec2")):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {which}, but got {x.ndim}-D")
    result = input.unsqueeze(1) * vec2
    return result if out is None else store_into(out, result)


ger = function_alias("ger", of=outer)


@method()
@front
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimension of both tensors; the product if one of them has no dimensions.

    Shape: input (*, N), other (**, N); result (*, **).
    Raises:
        RuntimeError: when the last dimensions differ in size.

    >>> import tdt
    >>> tdt.inner(tdt.tensor([1.0, 2.0]), tdt.tensor([3.0, 4.0]))
    tensor(11.)
    """
    if out is None and input.ndim == other.ndim == 2 and on_arrays(input, other):
        x, y = input._a, other._a
        if x.shape[1] == y.shape[1] and x.size and y.size and x.dtype.kind != "b":
            return as_tensor(compute(_matmul, x, y.T))
    if not input.ndim or not other.ndim:
        return input * other if out is None else store_into(out, input * other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    if out is None and input.ndim == other.ndim == 2 and input._a.dtype == other._a.dtype:
        return label(matmul(input, other.t()), "ViewBackward0")
    result = tensordot(input, other, ([-1], [-1]))
    return result if out is None else store_into(out, result, exact=True)


@calls_by_shape
def tensordot(
    a: Tensor, b: Tensor, dims: int | tuple[Sequence[int], Sequence[int]] | Tensor = 2, out: Tensor | None = None
) -> Tensor:
    """Sums of products over several dimensions of two tensors.

    Args:
        dims: number of dimensions to contract, the last of a and the first of b; or the dimensions of a and those of b.
    Shape: a (*, contracted), b (contracted, **); result (*, **).
    Raises:
        RuntimeError: when the contracted dimensions differ in number or size, or there are fewer than `dims`.

    >>> import tdt
    >>> tdt.tensordot(tdt.ones(2, 3), tdt.ones(3, 4), 1).shape
    tdt.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = ([*range(a.ndim - dims, a.ndim)], [*range(dims)])
    over: Any = dims
    over_a, over_b = (
        [wrap_dim(d, x.ndim) for d in ((ds,) if isinstance(ds, int) else ds)]
        for x, ds in zip((a, b), over, strict=True)
    )
    if len(over_a) != len(over_b):
        raise RuntimeError("both dimension lists should have same length")
    for p, q in zip(over_a, over_b, strict=True):
        if a.shape[p] != b.shape[q] and 1 not in (a.shape[p], b.shape[q]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[p]} in dim {p} and second has "
                f"size {b.shape[q]} in dim {q}"
            )
        if a.shape[p] == 1 != b.shape[q]:
            b = b.sum(q, keepdim=True, dtype=b.dtype)
        elif b.shape[q] == 1 != a.shape[p]:
            a = a.sum(p, keepdim=True, dtype=a.dtype)
    result = _contracted(a, b, tuple(over_a), tuple(over_b))
    return result if out is None else store_into(out, result, exact=True)


@calls_by_shape
def _contracted(a: Tensor, b: Tensor, over_a: tuple[int, ...], over_b: tuple[int, ...]) -> Tensor:
    """The sums of products of `tensordot` over dimensions of equal sizes."""
    if a.ndim == 2 == b.ndim and over_a == (1,) and over_b == (0,):
        return label(matmul(a, b), "ViewBackward0")
    free_a, free_b = ([d for d in range(x.ndim) if d not in over] for x, over in ((a, over_a), (b, over_b)))
    inner_size = math.prod(a.shape[d] for d in over_a)
    left = a.permute((*free_a, *over_a)).reshape((math.prod(a.shape[d] for d in free_a), inner_size))
    right = b.permute((*over_b, *free_b)).reshape((inner_size, math.prod(b.shape[d] for d in free_b)))
    return matmul(left, right).reshape(tuple([a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]))


@op(name="trace", dtypes=NUMBERS, autocast="float32")
def _trace(xp: ModuleType, x: Any) -> Any:
    exact = x.dtype.kind in "biu"
    total = _kernels.total(x.diagonal().astype("int64" if exact else np.result_type(x.dtype, np.float64)))
    return total if exact else total.astype(x.dtype)


@_trace.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...]) -> Tensor:
    from tdt._ops.shape.view_scatter import diagonal_scatter

    return diagonal_scatter(g.new_zeros(x_shape), g.expand(min(x_shape)))


@_trace.fast_vjp("x")
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...]) -> Any:
    gradient = xp.zeros(x_shape, g.dtype)
    gradient.reshape(-1)[: min(x_shape) * x_shape[1] : x_shape[1] + 1] = g
    return gradient


def _prepare_trace(
    dtype: Any, shape: tuple[int, ...], dim: None, option: None
) -> tuple[Callable[[Any], Any], dict[str, Any]] | None:
    name, final = sum_name(dtype), np.int64 if dtype.kind in "iub" else None
    rows = _kernels.row_function(name, dtype, final) if name and len(shape) == 2 else None
    if rows is None:
        return None
    return _kernels.for_arrays(lambda a: rows(a.diagonal()), rows, [np.empty(shape, dtype).diagonal()]), {}


_short_trace = FastPath(_trace, _prepare_trace, _kernels.PIECE**2, shares=True)  # of a diagonal of up to PIECE


@method()
@takes(lambda: (_short_trace, None, None))
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix.

    Shape: input (N, M); result ().
    Raises:
        RuntimeError: when input is not a matrix.

    >>> import tdt
    >>> tdt.trace(tdt.ones(2, 2))
    tensor(2.)
    """
    if input._a.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return unary(_trace, input)


@method()
@calls_by_shape
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker product: the blocks input[i, …] · other.

    Shape: input and other any, the one with fewer dimensions padded with 1 in front; result has the products of their sizes.

    >>> import tdt
    >>> tdt.kron(tdt.tensor([1, 2]), tdt.tensor([1, 10]))
    tensor([ 1, 10,  2, 20])
    """
    tensor_argument("kron", other, "other", 2)
    tensor_argument("kron", input)
    n = max(input.ndim, other.ndim)
    a, b = ([1] * (n - x.ndim) + list(x.shape) for x in (input, other))
    spread = input.reshape([v for size in a for v in (size, 1)]) * other.reshape([v for size in b for v in (1, size)])
    result = spread.reshape([p * q for p, q in zip(a, b, strict=True)])
    return result if out is None else store_into(out, result)


@method("__rmatmul__")
def _rmatmul(self: Tensor, other: Any) -> Any:
    return matmul(other, self) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__ = matmul  # type: ignore[method-assign]
