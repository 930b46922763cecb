"""What an in-place write to a view means for its base: the base's values with those under the view replaced.

Closed under differentiation: the gradient of the base is the same op with zeros, that of the new values is the view.
"""

from __future__ import annotations

from typing import Any

from tdt import _backend
from tdt._overlap import check_memory
from tdt._tensor import LEAF, Tensor, View, alias, wrap
from tdt.autograd._mode import enable_grad, no_grad, real
from tdt.autograd._node import Back, Node
from tdt.autograd._op import NOWHERE, OPS, edge_of, op

__all__: list[str] = []


@op(name="copy_slices", promote=(), broadcasts=False, computes=False)
def copy_slices(xp, base, new, *, chain, order):
    out = base.transpose(order).copy().transpose(_inverse(order))
    with no_grad(), real():
        part = look(wrap(out), chain)
    check_memory(part)  # written through expand: whose gradient it is cannot be told
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


_backs: dict[int, Back] = {}


def record(view: View, new: Tensor) -> tuple[Any, int]:
    """The edge of a view's base after `new` was written through the view into it; the values are in place already.

    The node keeps something, the chain, so that it refuses a second backward, as in PyTorch. `order`: how the base's
    dimensions lie in memory; copies must lie so too, or a `view` in the chain would not fit.
    """
    base, steps = view.base, chain(view)
    strides = base._a.strides
    order = tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))
    edges = [(t, 0) if edge_of(t) is LEAF else edge_of(t) for t in (base, new)]
    mask = sum(1 << i for i, e in enumerate(edges) if e is not None)
    back = _backs.setdefault(mask, Back(copy_slices, mask, 2))
    statics = {"chain": steps, "order": order}
    return Node(back, edges, (base, new), (base._a, new._a), statics, (), (steps,)), 0


def chain(view: View) -> tuple:
    """All steps, as (op, statics, output number), from the base as it lies now to the view."""
    steps, base, at = [], view.base, view
    while at is not None:
        steps.append(at.step)
        at = at.source
    turned = base._a is not view.seen and _backend.may_overlap(base._a, view.seen)
    return (*(_way_back(base._a, view.seen) if turned else ()), *reversed(steps))


def look(t: Tensor, chain: tuple) -> Tensor:
    """`t` seen through a chain of view ops."""
    for step, statics, k in chain:
        t = step(t, **statics)
        if k is not None:
            t = t[k]
    return t


def replay(x: Tensor) -> Tensor:
    """A view's values at a new place in the graph: its chain from where its base stands now, which may be outside."""
    base = x._view.base
    t = alias(base._a, (base, 0) if base._edge is LEAF else base._edge or NOWHERE, base._st)
    with enable_grad(), real():
        return look(t, chain(x._view))


def unheard(x: Tensor, edge: tuple) -> tuple | None:
    """A view's `edge`, on a path to its base that has no hooks: those on views hear of no gradient of a later write."""
    base = x._view.base._edge
    node = None if base is None or edge is LEAF else edge[0]
    while node is not None and node is not base[0] and node.edges:
        if node.hooks is not None:
            return replay(x)._edge
        node = node.edges[0][0]
    return edge


def _way_back(now: Any, before: Any) -> tuple:
    """The steps from an array to how it was before `t_` and its like: the dimensions are known by their strides."""
    single = tuple([d for d, n in enumerate(now.shape) if n == 1])
    found = [pair for pair in zip(now.strides, now.shape, strict=True) if pair[1] != 1]
    wanted = [pair for pair in zip(before.strides, before.shape, strict=True) if pair[1] != 1]
    if sorted(found) != sorted(wanted):
        raise RuntimeError(
            f"a view cannot follow its base from shape {list(before.shape)} and byte strides {list(before.strides)} to "
            f"{list(now.shape)} and {list(now.strides)}; make the view after as_strided_"
        )
    dims: list[int] = []
    for pair in wanted:
        dims.append(next(d for d, p in enumerate(found) if p == pair and d not in dims))
    steps = (("squeeze", {"dims": single}), ("permute", {"dims": tuple(dims)}), ("view", {"shape": before.shape}))
    return tuple([(OPS[name], statics, None) for name, statics in steps])
