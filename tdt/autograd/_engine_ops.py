"""The ops that autograd itself inserts: `convert`, `copy_slices`, `linked` and `unaware`.

No public function has their names. The dispatcher, in-place writes and views call them through the op table, since the
decorator `@op` that makes them is built on the dispatcher.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tdt import _kernels
from tdt._backend.layout import in_order
from tdt._backend.waiting import gives_views, repeatable
from tdt._core import dtype as _dtype
from tdt._core.dtype import FLOAT8S
from tdt._core.float8 import astype
from tdt._core.mode import no_grad, real
from tdt._core.tensor import Tensor, wrap
from tdt._core.writing import check_memory
from tdt._kernels import CONVERSIONS
from tdt.autograd._node import sum_to
from tdt.autograd._op import op
from tdt.autograd._views import apply_chain


@op(
    name="convert",
    promote=(),
    computes=False,
    same_shape=True,
    node="ToCopyBackward0",
    float8=FLOAT8S,
    sparse_gradients=True,
    sparse_values="all",
)
@repeatable
def _convert(xp, x, *, dtype):
    """Conversion to another dtype: the op that promotion, autocast, `.to` and `.float()` share."""
    source, target = x.dtype, dtype.np
    if (source, target) in CONVERSIONS:
        out = _kernels.astype(x, target)
    else:
        if source.kind == "c" and dtype.category < _dtype.COMPLEX and dtype.category != _dtype.BOOL:
            x = x.real
        out = astype(x, target)
    return in_order(xp, out, [x]) if x.base is not None and 0 in x.strides else out


@_convert.vjp("x")
def _(g, x_dtype):
    return _convert(g, dtype=_dtype.of(x_dtype))


@_convert.fast_vjp("x")
@repeatable
def _(g, x_dtype):
    return astype(g.real if g.dtype.kind == "c" and x_dtype.kind != "c" else g, x_dtype)


@op(promote=(), broadcasts=False, computes=False, node="torch::autograd::CopySlices", float8=FLOAT8S)
def _copy_slices(xp, base, new, *, chain, order):
    """The gradient of an in-place write to a view: the base's values with those under the view replaced.

    Closed under differentiation: the gradient of the base is the same op with zeros, that of the new values is the view.
    """
    out = base.transpose(order).copy().transpose(_inverse(order))
    with no_grad(), real():
        part = apply_chain(wrap(out), chain)
    check_memory(part)  # a write through expand: the gradient of an element would be ambiguous
    part._a[...] = new
    return out


@_copy_slices.vjp("base")
def _(g, new_shape, chain, order):
    return _copy_slices(g, g.new_zeros(new_shape), chain=chain, order=order)


@_copy_slices.vjp("new")
def _(g, chain, order):
    return apply_chain(g.permute(order).contiguous().permute(_inverse(order)), chain)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


@op(promote=(), broadcasts=False, computes=False, same_shape=True)
def _linked(xp: ModuleType, dx: Any, x: Any) -> Any:
    """A gradient of x, which may depend on nothing else that requires grad. See `Traits.linked`."""
    return dx


_linked.vjp("dx")(lambda g: g)
_linked.fast_vjp("dx")(gives_views(lambda g: g))
_linked.vjp("x")(lambda g: None)  # the engine gives zeros: `_pass_zeros`
_linked.fast_vjp("x")(gives_views(lambda g: None))


@op(promote=(), broadcasts=False, computes=False, float8=FLOAT8S)
def _unaware(xp: ModuleType, x: Any) -> Any:
    """The op between the graph of a tensor and the tensor after an in-place view op under no_grad changed its shape."""
    return x


@_unaware.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...]) -> Tensor:
    extra = g.ndim - len(x_shape)
    if extra < 0 or any(n not in (1, m) for n, m in zip(x_shape, g.shape[extra:], strict=True)):
        raise RuntimeError(
            f"Function UnawareBackward0 returned an invalid gradient at index 0 - got {list(g.shape)} but expected shape "
            f"compatible with {list(x_shape)}. A tensor got another shape in place under no_grad; do that where it is recorded."
        )
    return sum_to(g, x_shape) if tuple(g.shape) != x_shape else g
