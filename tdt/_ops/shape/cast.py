"""Conversion between dtypes: the op that promotion, `.to` and `.float()` share."""

from __future__ import annotations

from tdt._backend.layout import in_order
from tdt._core import dtype as _dtype
from tdt._core.dtype import FLOAT8S
from tdt._core.float8 import astype
from tdt.autograd._op import op

__all__: list[str] = []


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
def _convert(xp, x, *, dtype):
    if x.dtype.kind == "c" and dtype.category < _dtype.COMPLEX and dtype.category != _dtype.BOOL:
        x = x.real
    out = astype(x, dtype.np)
    return in_order(xp, out, [x]) if 0 in x.strides else out


@_convert.vjp("x")
def _(g, x_dtype):
    return _convert(g, dtype=_dtype.of(x_dtype))


@_convert.fast_vjp("x")
def _(g, x_dtype):
    return astype(g.real if g.dtype.kind == "c" and x_dtype.kind != "c" else g, x_dtype)
