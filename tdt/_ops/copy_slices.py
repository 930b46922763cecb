"""What an in-place write to a view means for its base: the base's values with those under the view replaced.

Closed under differentiation: the gradient of the base is the same op with zeros, that of the new values is the view.
"""

from __future__ import annotations

from typing import Any

from tdt._overlap import check_memory
from tdt._tensor import LEAF, Tensor, wrap
from tdt.autograd._inplace import look
from tdt.autograd._mode import no_grad, real
from tdt.autograd._node import Back, Node
from tdt.autograd._op import edge_of, op

__all__: list[str] = []


@op(name="copy_slices", promote=(), broadcasts=False, computes=False)
def copy_slices(xp, base, new, *, chain):
    out = base.copy()
    with no_grad(), real():
        look(wrap(out), chain)._a[...] = new
    return out


@copy_slices.vjp("base")
def _(g, new_shape, chain):
    return copy_slices(g, g.new_zeros(new_shape), chain=chain)


@copy_slices.vjp("new")
def _(g, chain):
    part = look(g.contiguous(), chain)
    check_memory(part)  # written through expand: whose gradient it is cannot be told
    return part


_backs: dict[int, Back] = {}


def record(base: Tensor, new: Tensor, chain: tuple) -> tuple[Any, int]:
    """The edge of `base` after `new` was written through `chain` into it; the values are in place already.

    The node keeps something, the chain, so that it refuses a second backward, as in PyTorch.
    """
    edges = [(t, 0) if edge_of(t) is LEAF else edge_of(t) for t in (base, new)]
    mask = sum(1 << i for i, e in enumerate(edges) if e is not None)
    back = _backs.setdefault(mask, Back(copy_slices, mask, 2))
    return Node(back, edges, (base, new), (base._a, new._a), {"chain": chain}, (), (chain,)), 0
