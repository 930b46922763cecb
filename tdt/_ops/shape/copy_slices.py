"""The gradient of an in-place write to a view: the base's values with those under the view replaced.

Closed under differentiation: the gradient of the base is the same op with zeros, that of the new values is the view.
"""

from __future__ import annotations

from tdt._core.dtype import FLOAT8S
from tdt._core.mode import no_grad, real
from tdt._core.tensor import wrap
from tdt._core.writing import check_memory
from tdt.autograd._op import op
from tdt.autograd._views import look

__all__: list[str] = []


@op(
    name="copy_slices", promote=(), broadcasts=False, computes=False, node="torch::autograd::CopySlices", float8=FLOAT8S
)
def copy_slices(xp, base, new, *, chain, order):
    out = base.transpose(order).copy().transpose(_inverse(order))
    with no_grad(), real():
        part = look(wrap(out), chain)
    check_memory(part)  # a write through expand: the gradient of an element would be ambiguous
    part._a[...] = new
    return out


@copy_slices.vjp("base")
def _(g, new_shape, chain, order):
    return copy_slices(g, g.new_zeros(new_shape), chain=chain, order=order)


@copy_slices.vjp("new")
def _(g, chain, order):
    return look(g.permute(order).contiguous().permute(_inverse(order)), chain)


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))
