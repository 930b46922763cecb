"""Products of matrices and vectors: matmul and its forms, tensordot, einsum, outer, norms."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from tdt import _kernels
from tdt._core import dtype as _dtype
from tdt._core.calls import as_numbers, front
from tdt._core.dtype import FLOAT, NUMBERS, SCALAR_NAMES, check_category
from tdt._core.methods import method
from tdt._core.old_arguments import takes_old_order
from tdt._core.tensor import Tensor
from tdt._ops._common import C_NAMES, check_out_dtype, spelled, store_into, wrap_dim
from tdt._ops.elementwise._front import named, tensor_argument
from tdt.amp._autocast import autocast, cast_for
from tdt.autograd._dispatch import binary
from tdt.autograd._in_place_methods import by_copy
from tdt.autograd._node_names import label, node_name, ranks
from tdt.autograd._op import op
from tdt.autograd._views import follow

__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "cross", "dot", "ger", "inner", "kron", "matmul", "mm",
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


@op(dtypes=NUMBERS, promote=(), shape=_matmul_shape, flops=_matmul_flops, node=_matmul_node_name, autocast="lower")
def _matmul(xp: ModuleType, x: Any, y: Any) -> Any:
    return _kernels.product(xp, x, y)


# In the rules an operand was a vector if g has fewer dimensions than the other one.
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
def _(xp: ModuleType, g: Any, y: Any) -> Any:
    y = y.conjugate()
    if y.ndim == 1:
        return g[..., None] * y
    if g.ndim < y.ndim:
        return xp.matmul(y, g[..., None])[..., 0]
    return _kernels.product(xp, g, y.swapaxes(-1, -2))


@_matmul.vjp("y")
def _(g: Tensor, x: Tensor) -> Tensor:
    if x.ndim == 1:
        return x.conj().unsqueeze(-1) * g.unsqueeze(-2) if g.ndim else g * x.conj()
    if g.ndim < x.ndim:
        return (x.mH @ g.unsqueeze(-1)).squeeze(-1)
    return _matmul(x.mH, g)


@_matmul.fast_vjp("y")
def _(xp: ModuleType, g: Any, x: Any) -> Any:
    x = x.conjugate()
    if x.ndim == 1:
        return x[:, None] * g[..., None, :] if g.ndim else g * x
    if g.ndim < x.ndim:
        return xp.matmul(x.swapaxes(-1, -2), g[..., None])[..., 0]
    return _kernels.product(xp, x.swapaxes(-1, -2), g)


def _same_type(x: Tensor, y: Tensor) -> None:
    if x._a.dtype != y._a.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {x.dtype} != {y.dtype}; convert one with .to()"
        )


@method()
@front
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product over the last two dimensions, the others broadcast; a vector counts as a row or a column.

    RuntimeError where sizes or dtypes do not fit.

    >>> import tdt
    >>> tdt.matmul(tdt.tensor([[1.0, 2.0]]), tdt.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    if other.__class__ is not Tensor:
        tensor_argument("matmul", other, "other", 2)
    x, y = input._a, other._a
    if x.dtype != y.dtype or not x.ndim or not y.ndim or x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        cast = cast_for("lower", input, other)
        if cast[0] is input and cast[1] is other:
            _explain_matmul(input, other)
        return matmul(*cast, out=out)
    if out is None:
        return binary(_matmul, input, other)
    check_out_dtype(out, input.dtype)
    return _matmul.into(out, input, other)


def _explain_matmul(x: Tensor, y: Tensor) -> None:
    """Say why x @ y cannot be; the vector, matrix and batch cases each have their words."""
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


SECOND = {"mm": "mat2", "mv": "vec", "dot": "tensor", "bmm": "mat2"}  # PyTorch's names of the second operand


def _product(name: str, ranks: tuple[int, int], doc: str, example: str) -> Any:
    """matmul for operands of fixed ranks."""
    words = {1: "a vector", 2: "a matrix", 3: "a 3D tensor"}

    def function(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
        tensor_argument(name, input)
        tensor_argument(name, mat2, SECOND[name], 2)
        if (input.ndim, mat2.ndim) != ranks:
            which, x, n = ("self", input, ranks[0]) if input.ndim != ranks[0] else (SECOND[name], mat2, ranks[1])
            raise RuntimeError(
                f"1D tensors expected, but got {input.ndim}D and {mat2.ndim}D tensors"
                if ranks == (1, 1)
                else f"vector + matrix @ vector expected, got 1, {input.ndim}, {mat2.ndim}"
                if ranks == (2, 1)
                else f"{which} must be {words[n]}, got {x.ndim}D"
            )
        if ranks == (1, 1) and input.dtype is not mat2.dtype:
            found = f"{SCALAR_NAMES[input.dtype]} and {SCALAR_NAMES[mat2.dtype]}"
            raise RuntimeError(f"dot : expected both vectors to have same dtype, but found {found}")
        return matmul(input, mat2, out=out)

    made = named(function, name, f"{doc}\n\n>>> import tdt\n{example}\n")
    return made if name == "mm" else spelled(autocast("lower" if name == "bmm" else "keep")(made), SECOND[name])


mm = _product(
    "mm",
    (2, 2),
    "The product of two matrices.",
    ">>> tdt.mm(tdt.ones(2, 3), tdt.ones(3, 1))\ntensor([[3.],\n        [3.]])",
)
mv = _product(
    "mv", (2, 1), "The product of a matrix and a vector.", ">>> tdt.mv(tdt.ones(2, 3), tdt.ones(3))\ntensor([3., 3.])"
)
dot = _product("dot", (1, 1), "Σ input · other of two vectors.", ">>> tdt.dot(tdt.ones(3), tdt.ones(3))\ntensor(3.)")
_bmm = _product(
    "bmm",
    (3, 3),
    "The products of two batches of matrices.",
    ">>> tdt.bmm(tdt.ones(2, 1, 3), tdt.ones(2, 3, 1)).shape\ntdt.Size([2, 1, 1])",
)


@method()
@front
@autocast("lower")
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of two batches of matrices, (b, n, m) and (b, m, p).

    >>> import tdt
    >>> tdt.bmm(tdt.ones(2, 1, 3), tdt.ones(2, 3, 1)).shape
    tdt.Size([2, 1, 1])
    """
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
    return _bmm(input, mat2, out=out)


@method()
@front
@autocast("keep")
@node_name("VdotBackward0")
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Σ conj(input) · other of two vectors.

    >>> import tdt
    >>> tdt.vdot(tdt.tensor([1j]), tdt.tensor([1j]))
    tensor(1.+0.j)
    """
    return dot(input.conj(), other, out=out)


FACTORS = {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "addr": ("vec1", "vec2"), "addbmm": ("batch1", "batch2"),
           "baddbmm": ("batch1", "batch2")}  # fmt: skip


def _added(name: str, product: Any, ranks: tuple[int, int], doc: str) -> Any:
    """beta · input + alpha · (a product), with input broadcast to it and left out where beta is 0."""

    def function(
        input: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
    ) -> Tensor:
        if a.ndim != ranks[0] or b.ndim != ranks[1]:
            raise RuntimeError(
                f"{name}: expected tensors of {ranks[0]} and {ranks[1]} dimensions to multiply, but got {a.ndim}D "
                f"and {b.ndim}D"
            )
        if ranks == (1, 1):  # the only one of them that promotes
            kind = _dtype.promote_types(_dtype.promote_types(a.dtype, b.dtype), input.dtype)
            input, a, b = input.to(kind), a.to(kind), b.to(kind)
        _same_type(a, b)
        if input.dtype is not a.dtype:
            raise RuntimeError(
                f"self and mat2 must have the same dtype, but got {SCALAR_NAMES[input.dtype]} and "
                f"{SCALAR_NAMES[a.dtype]}"
            )
        if isinstance(alpha, Tensor) or isinstance(beta, Tensor):
            alpha, beta = as_numbers(name, {"alpha": alpha, "beta": beta}).values()
        if (type(alpha) is complex or type(beta) is complex) and input.dtype.category <= FLOAT:
            kind = C_NAMES.get(input.dtype.name, input.dtype.name)
            raise RuntimeError(f"value cannot be converted to type {kind} without overflow")
        if input.dtype.category < FLOAT:  # as C converts them
            alpha, beta = int(alpha), int(beta)
        if input.dtype.category == FLOAT and input.itemsize == 2 and ranks != (1, 1):  # rounded once, at the end
            wide = function(input.float(), a.float(), b.float(), beta=beta, alpha=alpha).to(input.dtype)
            return wide if out is None else store_into(out, wide, exact=True)
        result = product(a, b) if alpha == 1 else product(a, b) * alpha
        start = input.expand(result._a.shape)
        if beta != 0:
            start = start if beta == 1 else start * beta
            # The first says how the sum lies in memory: a product, but the input of addr.
            result = start + result if ranks == (1, 1) else result + start
        result = label(result.to(input.dtype), f"{name.capitalize()}Backward0")
        return result if out is None else store_into(out, result, exact=ranks != (1, 1))

    return takes_old_order(3, "beta", "alpha", stacklevel=3)(
        spelled(
            autocast("lower" if name in ("addmm", "addbmm", "baddbmm") else "keep")(named(function, name, doc)),
            *FACTORS[name],
        )
    )


addmm = _added(
    "addmm",
    matmul,
    (2, 2),
    """beta · input + alpha · (mat1 @ mat2).

    >>> import tdt
    >>> tdt.addmm(tdt.ones(1), tdt.ones(1, 2), tdt.ones(2, 1))
    tensor([[3.]])
    """,
)
addmv = _added(
    "addmv",
    matmul,
    (2, 1),
    """beta · input + alpha · (mat @ vec).

    >>> import tdt
    >>> tdt.addmv(tdt.ones(1), tdt.ones(1, 2), tdt.ones(2))
    tensor([3.])
    """,
)
baddbmm = _added(
    "baddbmm",
    bmm,
    (3, 3),
    """beta · input + alpha · (batch1 @ batch2).

    >>> import tdt
    >>> tdt.baddbmm(tdt.ones(1), tdt.ones(1, 1, 2), tdt.ones(1, 2, 1))
    tensor([[[3.]]])
    """,
)
addbmm = _added(
    "addbmm",
    lambda a, b: bmm(a, b).sum(0, dtype=a.dtype),
    (3, 3),
    """beta · input + alpha · Σ over the batch of (batch1 @ batch2).

    >>> import tdt
    >>> tdt.addbmm(tdt.ones(1), tdt.ones(2, 1, 2), tdt.ones(2, 2, 1))
    tensor([[5.]])
    """,
)
addr = _added(
    "addr",
    lambda a, b: a.unsqueeze(1) * b,
    (1, 1),
    """beta · input + alpha · (vec1 ⊗ vec2).

    >>> import tdt
    >>> tdt.addr(tdt.ones(1), tdt.ones(1), tdt.ones(2))
    tensor([[2., 2.]])
    """,
)


@method(aliases=("ger",))
@front
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input[i] · vec2[j] of two vectors.

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


ger = outer


@method()
@front
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimension of both.

    >>> import tdt
    >>> tdt.inner(tdt.tensor([1.0, 2.0]), tdt.tensor([3.0, 4.0]))
    tensor(11.)
    """
    if not input.ndim or not other.ndim:
        return input * other if out is None else store_into(out, input * other)
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    result = tensordot(input, other, ([-1], [-1]))
    return result if out is None else store_into(out, result, exact=True)


@front
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Products summed over the last `dims` dimensions of a and the first of b, or over two lists of dimensions.

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
    over_a, over_b = (
        [wrap_dim(d, x.ndim) for d in ((ds,) if isinstance(ds, int) else ds)]
        for x, ds in zip((a, b), dims, strict=True)
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
    free_a, free_b = ([d for d in range(x.ndim) if d not in over] for x, over in ((a, over_a), (b, over_b)))
    inner_size = math.prod(a.shape[d] for d in over_a)
    left = a.permute((*free_a, *over_a)).reshape((math.prod(a.shape[d] for d in free_a), inner_size))
    right = b.permute((*over_b, *free_b)).reshape((inner_size, math.prod(b.shape[d] for d in free_b)))
    result = matmul(left, right).reshape(tuple([a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]))
    return result if out is None else store_into(out, result, exact=True)


@method()
@front
@node_name("TraceBackward0")
@autocast("float32")
def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal.

    >>> import tdt
    >>> tdt.trace(tdt.ones(2, 2))
    tensor(2.)
    """
    tensor_argument("trace", input)
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    check_category("trace", NUMBERS, input.dtype)
    return input.diagonal().sum()


@method()
@front
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: every element of input times the whole of other.

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


@method()
@front
@node_name("LinalgCrossBackward0")
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """The cross product along `dim`, which has size 3 (without dim: the first such).

    >>> import tdt
    >>> tdt.cross(tdt.tensor([1.0, 0.0, 0.0]), tdt.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if dim is None:
        dim = next((k for k, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    check_category("cross", NUMBERS, input.dtype)
    d = wrap_dim(dim, input.ndim)
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}"
        )
    result = input.roll(-1, d) * other.roll(-2, d) - input.roll(-2, d) * other.roll(-1, d)
    return result if out is None else store_into(out, result, exact=True)


mv = method()(front(mv))
mm = method()(front(mm))
dot = method()(front(dot))
baddbmm = method(in_place=by_copy)(front(baddbmm))
addr = method(in_place=by_copy)(front(addr))
addmv = method(in_place=by_copy, in_place_function=True)(front(addmv))
addmm = method(in_place=by_copy)(front(addmm))
addbmm = method(in_place=by_copy)(front(addbmm))


@method("__rmatmul__")
def _rmatmul(self: Tensor, other: Any) -> Any:
    return matmul(other, self) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__ = matmul
