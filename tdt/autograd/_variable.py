"""A tensor's side of autograd: what `_methods` binds to Tensor as properties and methods."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from tdt._core.dtype import FLOAT
from tdt._core.mode import state
from tdt._core.old_arguments import refuses_removed_arguments
from tdt._core.tensor import LEAF, Storage, Tensor, alias
from tdt.autograd._hooks import RemovableHandle
from tdt.autograd._views import NOWHERE, edge_of


def requires_grad(self: Tensor) -> bool:
    """Whether gradients are computed for this tensor. Settable on leaves of floating-point or complex dtype."""
    return self._edge is not None or (self._view is not None and self._view.base._edge is not None)


def set_requires_grad(self: Tensor, value: bool) -> None:
    """Ask for gradients of a leaf, or stop asking."""
    if self._edge is not None and self._edge is not LEAF:
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
            "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
        )
    if value and self.dtype.category < FLOAT:
        raise RuntimeError(
            f"only Tensors of floating point and complex dtype can require gradients; this one is {self.dtype}"
        )
    if value and self._st.inference and not state.inference:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
    self._edge = LEAF if value else None


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set `requires_grad` in place and return the tensor; to ask a computed tensor that has it changes nothing."""
    if not requires_grad or self._edge in (None, LEAF):
        set_requires_grad(self, requires_grad)
    return self


def is_leaf(self: Tensor) -> bool:
    """Whether the tensor was made by the user, not by an op that records."""
    edge = edge_of(self)
    return edge is None or edge is LEAF or edge is NOWHERE


def grad_fn(self: Tensor) -> Any:
    """The node that computed this tensor, or None for a leaf."""
    edge = edge_of(self)
    return None if edge is None or edge is LEAF or edge is NOWHERE else edge[0]


def output_nr(self: Tensor) -> int:
    """Which output of its `grad_fn` this tensor is."""
    edge = edge_of(self)
    return 0 if edge is None else max(edge[1], 0)


def grad(self: Tensor) -> Tensor | None:
    """The gradient that backward passes have added up, or None."""
    return self._grad


def set_grad(self: Tensor, value: Tensor | None) -> None:
    """Replace the gradient; it must have the tensor's shape and dtype."""
    if value is not None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        if value._a.shape != self._a.shape:
            raise RuntimeError(
                f"assigned grad has data of a different size: {list(value.shape)} for a tensor of {list(self.shape)}"
            )
        if value.dtype is not self.dtype:
            raise RuntimeError(
                f"assigned grad has data of a different type: {value.dtype} for a tensor of {self.dtype}"
            )
    self._grad = value


@refuses_removed_arguments
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add d self/d leaf, times `gradient`, to the `.grad` of every leaf (or of `inputs` only).

    gradient: same shape as self; may be left out for a single element. retain_graph: keep what was saved for another
    backward (default: as create_graph). RuntimeError if self does not require grad.

    >>> import tdt
    >>> x = tdt.ones(2, requires_grad=True)
    >>> (3 * x).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    from tdt.autograd._backward import backward as run

    run(self, gradient, retain_graph, create_graph, inputs=inputs)


def detach(self: Tensor) -> Tensor:
    """A tensor on the same memory, outside the graph.

    >>> import tdt
    >>> tdt.detach(tdt.ones(1, requires_grad=True))
    tensor([1.])
    """
    return alias(self._a, None, self._st)


def detach_(self: Tensor) -> Tensor:
    """Take this tensor out of the graph, in place; RuntimeError for a view.

    >>> import tdt
    >>> tdt.detach_(tdt.ones(1, requires_grad=True).exp()).requires_grad
    False
    """
    if self._view is not None:
        raise RuntimeError("Can't detach views in-place: use detach() instead")
    self._edge = None
    return self


def data(self: Tensor) -> Tensor:
    """A tensor on the same memory, outside the graph, whose in-place changes autograd does not notice."""
    return alias(self._a, None)


def set_data(self: Tensor, value: Tensor) -> None:
    """Take over another tensor's memory."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    self._a, self._st, self._view = value._a, Storage(), None


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` whenever this tensor's gradient is computed; what it returns replaces the gradient."""
    edge = edge_of(self)
    if edge is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if edge is LEAF or edge is NOWHERE:
        if self._hooks is None:
            self._hooks = {}
        return RemovableHandle(self._hooks, hook)
    return RemovableHandle(edge[0]._hooks_made().tensor.setdefault(edge[1], {}), hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(tensor)` after its `.grad` has been updated; leaves only."""
    if edge_of(self) is not LEAF:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._post_hooks is None:
        self._post_hooks = {}
    return RemovableHandle(self._post_hooks, hook)


def retain_grad(self: Tensor) -> None:
    """Keep this tensor's gradient in `.grad`, though it is not a leaf."""
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._edge is not None and self._edge is not LEAF:
        edge: Any = edge_of(self)
        edge[0]._hooks_made().retain[edge[1]] = weakref.ref(self)
        self._retains = True


def retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` was called on this non-leaf tensor."""
    return self._retains


def base(self: Tensor) -> Tensor | None:
    """The tensor this one is a view of, or None."""
    return None if self._view is None else self._view.base


def is_view(self: Tensor) -> bool:
    """Whether writes to this tensor are followed into a base."""
    return self._view is not None


PROPERTIES = {
    "requires_grad": property(requires_grad, set_requires_grad),
    "is_leaf": property(is_leaf),
    "grad_fn": property(grad_fn),
    "grad": property(grad, set_grad, lambda self: set_grad(self, None)),
    "data": property(data, set_data),
    "output_nr": property(output_nr),
    "retains_grad": property(retains_grad),
    "_base": property(base),
}
METHODS = (requires_grad_, backward, detach, detach_, register_hook, register_post_accumulate_grad_hook, retain_grad)

for _name, _property in PROPERTIES.items():
    setattr(Tensor, _name, _property)
for _method in METHODS:
    setattr(Tensor, _method.__name__, _method)
Tensor._is_view = is_view
