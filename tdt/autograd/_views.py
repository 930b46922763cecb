"""Views and the graph: how a view's place in the graph follows writes to its base, and a base's writes to its views.

A view keeps the chain of view ops from its base. After a write its edge is derived anew, by replaying that chain from where
the base stands now; a write through a view gives the base the op `copy_slices`, which joins old and new values.
"""

from __future__ import annotations

from typing import Any

from tdt import _backend
from tdt._core.mode import enable_grad, real, state
from tdt._core.tensor import LEAF, Tensor, View, alias
from tdt.autograd._node import BackwardPlan, node_of
from tdt.autograd._op_table import OPS

# The edge of a view created under no_grad: as in PyTorch it requires grad, but its gradient is dropped. No node has it.
NOWHERE = (None, -1)


def edge_of(x: Tensor) -> tuple | None:
    """The edge of a tensor, brought up to date for a view whose base was written to."""
    view = x._view
    if view is not None:
        if view.version != x._st.version:
            refresh(x)
        if x._edge is None and view.base._edge is not None:
            return NOWHERE
    return x._edge


def may_require_grad(t: Tensor) -> bool:
    """Whether the operand of an op may have to be recorded, where gradients are."""
    return t._edge is not None or (t._view is not None and t._view.base._edge is not None)


def follow(*operands: Any) -> None:
    """Reject a view whose base was modified in place in a way that invalidates it, before shapes are checked, as in PyTorch."""
    for t in operands:
        if state.grad and isinstance(t, Tensor):
            edge_of(t)


def set_gradient_edge(x: Tensor, edge: tuple | None) -> None:
    """Set the edge of `x`; if it retains its gradient, that is from now on the one of its new value."""
    old, x._edge = x._edge, edge
    if x._retains and edge is not None:
        if old is not None and old[0].hooks:
            old[0].hooks.retain.pop(old[1], None)
        x.retain_grad()


def refresh(x: Tensor) -> None:
    """Recompute the edge of a view whose storage was written to since: replay its chain from the base's edge."""
    view: Any = x._view
    if view.base._edge is not None or (x._edge is not None and x._edge is not LEAF):
        check_view(x, "its base or another view of its base has been")
        view.version = x._st.version
        set_gradient_edge(x, replay(x)._edge)


def check_view(x: Tensor, what: str) -> None:
    """Refuse an in-place write to a view whose creation mode forbids it. `what`: "is being", or how the write happened."""
    view: Any = x._view
    edge: Any = x._edge
    creation_meta = view.creation_meta
    if not creation_meta:
        return
    recorded = edge is not None and edge is not LEAF
    origin = f"Output {edge[1]} of {edge[0].name()} is a view" if recorded else "A view"
    if creation_meta != "multi" or not recorded:
        mode, here = (
            ("inference", "in normal mode") if creation_meta == "inference" else ("no_grad", "with grad mode enabled")
        )
        origin += f"{' of a view which' if recorded else ''} was created in {mode} mode"
        what = f"{what} modified inplace {here}"
    else:
        what = f"{what} modified inplace"
    why = "Make the view and the change both inside the block, or both outside, or clone() the view."
    if creation_meta == "multi":
        why = "This view is the output of a function that returns multiple views. Use the out-of-place form."
    raise RuntimeError(f"{origin} and {what}. {why}")


_backward_plans: dict[int, BackwardPlan] = {}


def record_copy_slices(view: View, new: Tensor) -> tuple[Any, int]:
    """The edge of a view's base after `new` was written through the view into it; the values are in place already.

    The node keeps something, the chain, so that it refuses a second backward, as in PyTorch. `order`: how the base's
    dimensions lie in memory; copies must lie so too, or a `view` in the chain would not fit.
    """
    base, steps = view.base, chain_of(view)
    strides = base._a.strides
    order = tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))
    edges = [(t, 0) if edge_of(t) is LEAF else edge_of(t) for t in (base, new)]
    mask = sum(1 << i for i, e in enumerate(edges) if e is not None)
    back = _backward_plans.get(mask)
    if back is None:
        back = _backward_plans[mask] = BackwardPlan(OPS["copy_slices"], mask, 2)
    attributes = {"chain": steps, "order": order}
    return node_of(back, edges, (base, new), (base._a, new._a), attributes, (), (steps,)), 0


def chain_of(view: View) -> tuple:
    """All steps, as (op, attributes, output number), from the base as it lies now to the view."""
    steps, base, at = [], view.base, view
    while at is not None:
        steps.append(at.step)
        at = at.source
    turned = base._a is not view.base_array and _backend.may_overlap(base._a, view.base_array)
    return (*(_way_back(base._a, view.base_array) if turned else ()), *reversed(steps))


def apply_chain(t: Tensor, chain: tuple) -> Tensor:
    """The view of `t` that a chain of view ops gives."""
    for step, attributes, k in chain:
        t = step(t, **attributes)
        if k is not None:
            t = t[k]
    return t


def replay(x: Tensor) -> Tensor:
    """A view's values at a new place in the graph: its chain from where its base stands now, which may be outside."""
    view: Any = x._view
    base = view.base
    t = alias(base._a, (base, 0) if base._edge is LEAF else base._edge or NOWHERE, base._st)
    with enable_grad(), real():
        return apply_chain(t, chain_of(view))


def edge_without_hooks(x: Tensor, edge: tuple) -> tuple | None:
    """A view's `edge`, on a path to its base that has no hooks: those on views hear of no gradient of a later write."""
    view: Any = x._view
    base = view.base._edge
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
    target = [pair for pair in zip(before.strides, before.shape, strict=True) if pair[1] != 1]
    if sorted(found) != sorted(target):
        raise RuntimeError(
            f"a view cannot follow its base from shape {list(before.shape)} and byte strides {list(before.strides)} to "
            f"{list(now.shape)} and {list(now.strides)}; make the view after as_strided_"
        )
    dims: list[int] = []
    for pair in target:
        dims.append(next(d for d, p in enumerate(found) if p == pair and d not in dims))
    return (
        (OPS["squeeze"], {"dims": single}, None),
        (OPS["permute"], {"dims": tuple(dims)}, None),
        (OPS["view"], {"shape": before.shape}, None),
    )
