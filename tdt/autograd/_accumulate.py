"""Accumulation of gradients into leaves: runs the hooks, then adds to `.grad`."""

from __future__ import annotations

import operator
import os
import threading
import weakref
from sys import getrefcount
from typing import Any, cast

import numpy as np

from tdt import _backend
from tdt._backend.layout import is_dense
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt._core.writing import check_memory
from tdt._kernels import add, add_to, contiguous_copy, copy_in_order, is_in_order, memory_order
from tdt.autograd._on_gpu import repeated, sum_of_two

ndarray = np.ndarray
SMALL = 1 << 16  # bytes of a gradient that no kernel adds
_lock = threading.Lock()  # two threads may add to one leaf


def _after_fork() -> None:
    """A lock of the child's own: a thread of its parent, which the child does not have, may hold the old one."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def sum_of(a: Any, b: Any) -> Any:
    """The sum of two gradients; sparse + sparse is sparse, dense + sparse is dense."""
    if b.__class__ not in (ndarray, _backend.GpuArray) and is_sparse(b) and not is_sparse(a):
        return b + a
    total = sum_of_two(add, a, b)
    return total if total.__class__ is ndarray or not isinstance(total, np.generic) else np.asarray(total)  # of two 0-d


def alone(pending: dict, key: Any) -> bool:
    """Whether nothing but `pending` refers to the memory of the gradient at `key`, of which all is the gradient's."""
    return key in pending and unshared(pending, key, 1)


def unshared(holder: Any, key: Any, count: int) -> bool:
    """Whether only `count` names and containers refer to the array `holder[key]`, of whose memory all is the array's.

    One reference more is that of the argument. To an array of which this is a view refer the view, the variable and the
    argument.
    """
    if getrefcount(holder[key]) != count + 1:
        return False
    base = getattr(holder[key], "base", None)
    if base is None:
        return True
    g = holder[key]
    whole = base.__class__ is g.__class__ and g.nbytes == base.nbytes and is_dense(g)
    return whole and getrefcount(g.base) == 3


def accumulate(leaf: Tensor, g: Any, own: bool) -> None:
    """Add `g` to leaf.grad. own: only this leaf refers to the array, so it is stored without a copy, if it lies as the leaf.

    If requires_grad was turned off since the forward pass, nothing is added.
    """
    if (
        leaf._edge is LEAF
        and not leaf._post_hooks
        and (_added_directly if g.__class__ is ndarray else _taken)(leaf, g, own)
    ):
        return
    if leaf._edge is not LEAF and not leaf._retains:
        if leaf._edge is not None:
            raise RuntimeError("leaf variable has been moved into the graph interior: it was written to since its use")
        return
    if g.shape != leaf._a.shape:
        raise RuntimeError(
            f"Function AccumulateGrad returned an invalid gradient at index 0 - got {list(g.shape)} but expected shape "
            f"compatible with {list(leaf._a.shape)}; was the tensor given another shape after it was used?"
        )
    with _lock:
        if isinstance(g, Tensor):
            leaf._grad = leaf._grad + g if leaf._grad is not None else g if g.is_sparse else _clone(g, leaf)
        elif leaf._grad is None:
            leaf._grad = wrap(_first(g, leaf._a, own) if leaf._edge is LEAF else _copy(g))
        else:
            grad = leaf._grad
            sparse = is_sparse(grad._a) or is_sparse(g)
            if sparse or leaf._edge is not LEAF:  # those of `retain_grad` are no accumulators
                leaf._grad = wrap(sum_of(grad._a, g))
            else:
                check_memory(grad)
                sum_of_two(add_to, grad._a, g)
                grad._st.bump_version()
    if leaf._post_hooks:
        for hook in tuple(leaf._post_hooks.values()):
            hook(leaf)


def _added_directly(leaf: Tensor, g: ndarray, own: bool) -> bool:
    """`accumulate` of a small array into a leaf without hooks, all contiguous; False, with nothing done, in other cases."""
    a = leaf._a
    if a.__class__ is not ndarray or g.shape != a.shape or not g.flags.c_contiguous:
        return False
    with _lock:
        grad = leaf._grad
        if grad is None:
            if own and a.flags.c_contiguous:
                leaf._grad = wrap(g)
            return leaf._grad is not None
        total = grad._a
        if (
            total.__class__ is not ndarray or total.shape != g.shape or total.dtype is not g.dtype or g.nbytes >= SMALL
            or g.dtype.char not in "fd" or not total.flags.c_contiguous or grad._st.inference
            or grad._edge is not None or grad._view is not None
        ):  # fmt: skip
            return False
        total += g
        grad._st.bump_version()
    return True


def _taken(leaf: Tensor, g: Any, own: bool) -> bool:
    """`accumulate` of a leaf's first gradient on a GPU, which is its own and lies as the leaf; False in other cases."""
    a, gpu = leaf._a, cast(Any, _backend.GpuArray)
    if not own or not g.__class__ is a.__class__ is gpu or g.shape != a.shape:
        return False
    if not (g.flags.c_contiguous and a.flags.c_contiguous):
        return False
    with _lock:
        if leaf._grad is None:
            leaf._grad = wrap(g)
            return True
    return False


def _first(g: Any, like: Any, own: bool) -> Any:
    """A leaf's first gradient, in the order of memory of the leaf, `like`: `g` if that is the leaf's own, or a copy."""
    gpu: Any = _backend.GpuArray
    if g.__class__ is like.__class__ is gpu:
        if own and is_in_order(g, like):
            return g
        return repeated(copy_in_order, operator.call, g, like)
    if not g.__class__ is ndarray is like.__class__ and (is_sparse(g) or is_sparse(like)):
        return g if own else contiguous_copy(g)
    return g if own and is_in_order(g, like) else copy_in_order(g, like)


def _copy(g: Any) -> Any:
    """The gradient of a tensor that is no leaf, as it lies."""
    return contiguous_copy(g) if is_sparse(g) or 0 in g.strides else g.copy(order="K")


def _clone(g: Tensor, leaf: Tensor) -> Tensor:
    """As `_first` and `_copy`, with a graph."""
    if leaf._edge is not LEAF or is_sparse(leaf._a) or is_in_order(g._a, leaf._a):
        return g.clone()
    order = memory_order(leaf._a) or [*range(g.ndim)]
    return g.permute(order).contiguous().permute(sorted(order, key=order.__getitem__))


def is_sparse(a: Any) -> bool:
    """Whether an array is a sparse one."""
    return getattr(a, "is_sparse", False)


def run_hooks(hooks: dict | None, g: Any, graph: bool) -> Any:
    """Pass a gradient through tensor hooks. If a hook returns a tensor, it replaces the gradient for later hooks."""
    current = first = g if isinstance(g, Tensor) or not hooks else wrap(g)
    for hook in tuple(hooks.values()) if hooks else ():
        new = hook(current)
        if new is not None:
            if not isinstance(new, Tensor):
                raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
            if new._a.shape != current._a.shape:
                name, sizes = getattr(hook, "__name__", hook), f"{list(current.shape)} became {list(new.shape)}"
                raise RuntimeError(f"hook '{name}' has changed the size of value: {sizes}")
            current = new
    return g if current is first else current if graph else current._a


class NodeHooks:
    """The hooks of a node: tensor hooks by output number, tensors with `retain_grad`, and the node's pre- and post-hooks.

    metadata: a dictionary for the user.
    """

    def __init__(self) -> None:
        self.tensor: dict[int, dict] = {}
        self.retain: dict[int, weakref.ref] = {}
        self.pre: dict[int, Any] = {}
        self.post: dict[int, Any] = {}
        self.metadata: dict[str, Any] = {}

    def pass_through(self, slots: list, graph: bool) -> list:
        """The gradients of the outputs after the hooks on them."""
        slots = list(slots)
        for k, hooks in self.tensor.items():
            if slots[k] is not None:
                slots[k] = run_hooks(hooks, slots[k], graph)
        for k, ref in self.retain.items():
            t = ref()
            if t is not None and slots[k] is not None:
                accumulate(t, slots[k], False)
        return slots

    def before(self, slots: list, graph: bool) -> list:
        """The gradients of the outputs after the node's pre-hooks."""
        for hook in tuple(self.pre.values()):
            slots = _replaced(hook, hook(_shown(slots)), slots, graph)
        return slots

    def after(self, results: list, slots: list, graph: bool) -> list:
        """The gradients of the inputs after the node's hooks."""
        for hook in tuple(self.post.values()):
            results = _replaced(hook, hook(_shown(results), _shown(slots)), results, graph)
        return results

    def accumulate(self, leaf: Tensor, g: Any, graph: bool) -> None:
        """`accumulate` between the hooks on a leaf's node."""
        slots = self.before([g], graph)
        accumulate(leaf, slots[0], False)
        self.after([], slots, graph)


def _shown(gradients: list) -> tuple:
    arrays = [np.asarray(g) if isinstance(g, np.generic) else g for g in gradients]
    return tuple([g if g is None or isinstance(g, Tensor) else wrap(g) for g in arrays])


def _replaced(hook: Any, new: Any, old: list, graph: bool) -> list:
    """The gradients that a node's hook returned, or `old` where it returned None."""
    if new is None:
        return old
    new = new if isinstance(new, tuple) else (new,)
    if len(new) != len(old):
        name = getattr(hook, "__name__", hook)
        raise RuntimeError(
            f"hook '{name}' has returned an incorrect number of values (got {len(new)}, but expected {len(old)})"
        )
    return [g if graph or g is None else g._a for g in new]
