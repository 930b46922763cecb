"""Views with the dimensions in another order or number: permute, transpose, squeeze, unsqueeze, T."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from operator import getitem
from types import ModuleType
from typing import Any, cast

from numpy import ndarray

from tdt._backend.waiting import gives_views
from tdt._core.aliases import Dims
from tdt._core.calls import as_shape, front
from tdt._core.dtype import FLOAT8S
from tdt._core.methods import function_alias, method, tensor_property
from tdt._core.tensor import Tensor
from tdt._ops._common import is_int, wrap_dim
from tdt._ops.shape.views import WHOLE
from tdt.autograd._dispatch import view_of
from tdt.autograd._in_place_methods import become_view, by_view
from tdt.autograd._node_names import label
from tdt.autograd._op import op

__all__ = [
    "adjoint",
    "moveaxis",
    "movedim",
    "permute",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unsqueeze",
]


@op(view=True, float8=FLOAT8S, sparse_gradients=True)
def _permute(xp: ModuleType, x: Any, *, dims: tuple[int, ...]) -> Any:
    return x.transpose(dims)


@_permute.vjp("x")
def _(g: Tensor, dims: tuple[int, ...]) -> Tensor:
    return _permute(g, dims=_inverse(dims))


@_permute.fast_vjp("x")
@gives_views
def _(g: Any, dims: tuple[int, ...]) -> Any:
    return g.transpose(_inverse(dims))


@functools.lru_cache
def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


@front
def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """A view with the dimensions in the order `dims`.

    Shape: input (*) with n dimensions; `dims` of length n; result size i is input.shape[dims[i]].
    Raises:
        RuntimeError: when `dims` is not a permutation of the dimensions.

    >>> import tdt
    >>> tdt.permute(tdt.zeros(2, 3, 4), (2, 0, 1)).shape
    tdt.Size([4, 2, 3])
    """
    order = _order(as_shape((dims,)), input._a.ndim)
    return view_of(_permute, input, {"dims": order}, ndarray.transpose, order)


@functools.lru_cache
def _order(dims: tuple[int, ...], n: int) -> tuple[int, ...]:
    """`dims`, which must name each of `n` dimensions once, counted from the front."""
    if len(dims) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
            "desired ordering "
            f"of dimensions i.e. input.dim() = {n} is not equal to len(dims) = {len(dims)}"
        )
    dims = tuple([wrap_dim(d, n) for d in dims])
    if len(set(dims)) != n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return dims


@method(aliases=("swapdims",), in_place=by_view)
@front
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with dimensions `dim0` and `dim1` swapped.

    Shape: input (*); result the same with the two sizes swapped.

    >>> import tdt
    >>> tdt.transpose(tdt.zeros(2, 3), 0, 1).shape
    tdt.Size([3, 2])
    """
    n = input._a.ndim
    a, b = wrap_dim(dim0, n), wrap_dim(dim1, n)
    dims = _swapped(n, a, b)
    out = view_of(_permute, input, {"dims": dims}, ndarray.transpose, dims)
    return out if out._edge is None else label(out, "TransposeBackward0")


@functools.lru_cache
def _swapped(n: int, a: int, b: int) -> tuple[int, ...]:
    """The order of `n` dimensions with two exchanged."""
    return tuple([b if d == a else a if d == b else d for d in range(n)])


swapdims = function_alias("swapdims", of=transpose)


@method(in_place=by_view)
@front
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """A view with two dimensions swapped: `transpose` under NumPy's name.

    Shape: input (*); result the same with the two sizes swapped.

    >>> import tdt
    >>> tdt.swapaxes(tdt.zeros(2, 3), 0, 1).shape
    tdt.Size([3, 2])
    """
    return transpose(input, axis0, axis1)


REVERSED = ((), (0,), (1, 0))  # the dimensions in reverse, by their number


@method()
@front
def t(input: Tensor) -> Tensor:
    """A view of a matrix with its dimensions swapped; a vector or 0-d tensor is returned unchanged.

    Shape: input (m, n), result (n, m); or input (n) or (), result the same.
    Raises:
        RuntimeError: when `input` has more than 2 dimensions.

    >>> import tdt
    >>> tdt.t(tdt.zeros(2, 3)).shape
    tdt.Size([3, 2])
    """
    ndim = input._a.ndim
    if ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {ndim}D")
    dims = REVERSED[ndim]
    out = view_of(_permute, input, {"dims": dims}, ndarray.transpose, dims)
    return out if out._edge is None else label(out, "TBackward0")


@method()
@front
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of a matrix or of each matrix in a batch.

    Shape: input (*, m, n) or (); result (*, n, m) or ().
    Raises:
        RuntimeError: when `input` has one dimension.

    >>> import tdt
    >>> tdt.adjoint(tdt.zeros(2, 3)).shape
    tdt.Size([3, 2])
    """
    if input._a.ndim == 2 and input._a.dtype.kind != "c":
        out = view_of(_permute, input, {"dims": (1, 0)}, ndarray.transpose, (1, 0))
        return out if out._edge is None else label(out, "TransposeBackward0")
    return (transpose(_matrices(input, "adjoint()"), -2, -1) if input._a.ndim else input).conj()


@method(aliases=("moveaxis",))
@front
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """A view with the dimensions `source` moved to the positions `destination`, the others in their order.

    Shape: input (*); result the same sizes in another order.
    Raises:
        RuntimeError: when `source` and `destination` differ in length, or one of them has a dimension twice.

    >>> import tdt
    >>> tdt.movedim(tdt.zeros(2, 3, 4), 0, -1).shape
    tdt.Size([3, 4, 2])
    """
    order = _moved(input._a.ndim, as_shape((source,)), as_shape((destination,)))
    return view_of(_permute, input, {"dims": order}, ndarray.transpose, order)


@functools.lru_cache
def _moved(n: int, source: tuple[int, ...], destination: tuple[int, ...]) -> tuple[int, ...]:
    """The order of `n` dimensions of which some are moved."""
    sources, targets = [wrap_dim(d, n) for d in source], [wrap_dim(d, n) for d in destination]
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({sources} dims) should contain the same number "
            f"of dims as destination ({targets} dims)"
        )
    for name, dims in (("source", sources), ("destination", targets)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({dims})")
    rest = iter([d for d in range(n) if d not in sources])
    moved = dict(zip(targets, sources, strict=True))
    return tuple([moved[i] if i in moved else next(rest) for i in range(n)])


moveaxis = function_alias("moveaxis", of=movedim)


@method(in_place=by_view)
@front
def squeeze(input: Tensor, dim: Dims = None) -> Tensor:
    """A view without the dimensions of size 1: all of them, or those among `dim`.

    Shape: input (*); result without those sizes.
    Raises:
        RuntimeError: when a dimension occurs twice in `dim`.

    >>> import tdt
    >>> tdt.squeeze(tdt.zeros(1, 3, 1)).shape
    tdt.Size([3])
    """
    shape = input._a.shape
    if dim is None:
        dims = _single(shape)
        out = view_of(_squeeze, input, {"dims": dims}, ndarray.squeeze, dims)
        return out if out._edge is None else label(out, "SqueezeBackward0")
    if is_int(dim):
        drop, name = [wrap_dim(dim, len(shape))], "SqueezeBackward1"
    else:
        drop, name = [wrap_dim(d, len(shape)) for d in dim], "SqueezeBackward2"
        if len(set(drop)) != len(drop):
            raise RuntimeError(
                f"dim {next(d for d in drop if drop.count(d) > 1)} appears multiple times in the list of dims"
            )
    dims = tuple([d for d in drop if d < len(shape) and shape[d] == 1])
    return label(view_of(_squeeze, input, {"dims": dims}, ndarray.squeeze, dims), name)


@functools.lru_cache
def _single(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of size 1."""
    return tuple([d for d, n in enumerate(shape) if n == 1])


@op(view=True, node=lambda node: f"SqueezeBackward{1 if len(node.attributes['dims']) == 1 else 2}", float8=FLOAT8S)
def _squeeze(xp: ModuleType, x: Any, *, dims: tuple[int, ...]) -> Any:
    return x.squeeze(dims)


@op(view=True, float8=FLOAT8S, sparse_gradients=True)
def _unsqueeze(xp: ModuleType, x: Any, *, dim: int) -> Any:
    return x[(*(WHOLE,) * dim, None, ...)]


@method(in_place=by_view)
@front
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A view with a new dimension of size 1 at position `dim`.

    Shape: input (*) with n dimensions; `dim` in [-n - 1, n]; result n + 1 dimensions.

    >>> import tdt
    >>> tdt.unsqueeze(tdt.zeros(3), 0).shape
    tdt.Size([1, 3])
    """
    d = wrap_dim(dim, input._a.ndim + 1)
    return view_of(_unsqueeze, input, {"dim": d}, getitem, (*(WHOLE,) * d, None, ...))


@method("permute")
def _permute_method(self: Tensor, *order: int | Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
    """The dimensions in another order: `x.permute(2, 0, 1)` or `x.permute((2, 0, 1))`.

    Shape: self (*); result the same sizes in another order.

    >>> import tdt
    >>> tdt.zeros(2, 3, 4).permute(2, 0, 1).shape
    tdt.Size([4, 2, 3])
    """
    return permute(self, cast(Any, order if dims is None else (*order, dims)))


@method()
def t_(input: Tensor) -> Tensor:
    """`t` in place.

    Raises:
        RuntimeError: when the tensor has more than 2 dimensions.
    """
    if input.ndim > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return become_view(input, lambda: t(input))


@tensor_property
def T(self: Tensor) -> Tensor:
    """All dimensions in reverse order."""
    n = self._a.ndim
    dims = REVERSED[n] if n < 3 else tuple(range(n))[::-1]
    return view_of(_permute, self, {"dims": dims}, ndarray.transpose, dims)


@tensor_property
def H(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    return t(self).conj()


@tensor_property
def mT(self: Tensor) -> Tensor:
    """The last two dimensions swapped; RuntimeError for fewer than two."""
    return transpose(_matrices(self, "mT"), -2, -1)


@tensor_property
def mH(self: Tensor) -> Tensor:
    """The last two dimensions swapped and conjugated; RuntimeError for a vector."""
    turned = _matrices(self, "mH").transpose(-2, -1) if self._a.ndim else self
    return turned.conj() if turned._a.dtype.kind == "c" else turned


def _matrices(self: Tensor, name: str) -> Tensor:
    if self._a.ndim < 2:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
        )
    return self


for _op in (_squeeze, _unsqueeze):
    _op.vjp("x")(lambda g, x_shape: g.reshape(x_shape))
    _op.fast_vjp("x")(gives_views(lambda g, x_shape: g.reshape(x_shape)))
