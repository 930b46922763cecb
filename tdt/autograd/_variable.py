"""Properties and methods of Tensor that belong to autograd: grad, requires_grad, backward, detach, hooks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from tdt._core.dtype import FLOAT
from tdt._core.methods import method, tensor_property
from tdt._core.mode import relation_read, state
from tdt._core.old_arguments import refuses_removed_arguments
from tdt._core.tensor import DETACHED, LEAF, Storage, Tensor, alias
from tdt.autograd import _backward
from tdt.autograd._hooks import RemovableHandle
from tdt.autograd._views import NOWHERE, edge_of


def set_requires_grad(self: Tensor, value: bool) -> None:
    """Turn gradients of a leaf on or off."""
    if not isinstance(value, bool):
        raise RuntimeError("requires_grad must be a bool")
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


@tensor_property(setter=set_requires_grad)
def requires_grad(self: Tensor) -> bool:
    """Whether gradients are computed for this tensor. Settable on leaves of floating-point or complex dtype."""
    return self._edge is not None or (self._view is not None and self._view.base._edge is not None)


@method()
def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set `requires_grad` in place; True for a computed tensor that requires grad changes nothing.

    Shape: self (*); result `self`.
    Raises:
        RuntimeError: when the tensor is computed and `requires_grad` is False, or its dtype is not floating-point or complex.
        TypeError: when `requires_grad` is not a bool.

    >>> import tdt
    >>> tdt.zeros(2).requires_grad_()
    tensor([0., 0.], requires_grad=True)
    """
    if not isinstance(requires_grad, bool):
        kind = type(requires_grad).__name__
        raise TypeError(f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {kind}")
    if not requires_grad or self._edge in (None, LEAF):
        set_requires_grad(self, requires_grad)
    return self


@tensor_property
def is_leaf(self: Tensor) -> bool:
    """Whether the tensor was not computed by a recorded operation."""
    edge = edge_of(self)
    if edge is None or edge is NOWHERE:
        return True
    relation_read("Tensor.is_leaf")  # for arguments with a gradient are of one kind
    return edge is LEAF


@tensor_property
def grad_fn(self: Tensor) -> Any:
    """The node that computed this tensor, or None for a leaf."""
    edge = edge_of(self)
    return None if edge is None or edge is LEAF or edge is NOWHERE else edge[0]


@tensor_property
def output_nr(self: Tensor) -> int:
    """Which output of its `grad_fn` this tensor is."""
    edge = edge_of(self)
    return 0 if edge is None else max(edge[1], 0)


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
                f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size '{list(self.shape)}'. Please "
                "ensure that the gradient and the tensor are the same size"
            )
        if value.dtype is not self.dtype:
            raise RuntimeError(
                f"assigned grad has data of a different type: {value.dtype} for a tensor of {self.dtype}"
            )
    self._grad = value
    if value is None and state.recording is not None:
        state.recording.gradients.clear(self)


@tensor_property(setter=set_grad, deleter=lambda self: set_grad(self, None))
def grad(self: Tensor) -> Tensor | None:
    """The accumulated gradient, or None."""
    if state.recording is not None:
        state.recording.gradients.reads(self)
    return self._grad


@method()
@refuses_removed_arguments
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | Tensor | None = None,
) -> None:
    """Add the gradients of this tensor, times `gradient`, to the `.grad` of the leaves.

    Args:
        gradient: may be left out for a tensor with one element.
        retain_graph: keep the saved tensors for another backward pass; by default as `create_graph`.
        create_graph: record the backward pass, for higher derivatives.
        inputs: only these tensors' `.grad` is added to.
    Shape: self (*), gradient the same.
    Raises:
        RuntimeError: when the tensor does not require grad, or `gradient` is missing or of another shape.

    >>> import tdt
    >>> x = tdt.ones(2, requires_grad=True)
    >>> (3 * x).sum().backward()
    >>> x.grad
    tensor([3., 3.])
    """
    if inputs is None and (gradient is None or isinstance(gradient, Tensor)):
        _backward.run_backward((self,), (gradient,), retain_graph, create_graph)
    else:
        _backward.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


@method()
def detach(input: Tensor) -> Tensor:
    """A tensor on the same memory that takes no part in the graph.

    Shape: input (*); result the same.

    >>> import tdt
    >>> tdt.detach(tdt.ones(1, requires_grad=True))
    tensor([1.])
    """
    storage = input._st
    return data(input) if storage.inference and not state.inference else alias(input._a, None, storage)


@method()
def detach_(input: Tensor) -> Tensor:
    """Take this tensor out of the graph, in place.

    Shape: input (*); result `input`.
    Raises:
        RuntimeError: when the tensor is a view.

    >>> import tdt
    >>> tdt.detach_(tdt.ones(1, requires_grad=True).exp()).requires_grad
    False
    """
    if input._view is not None and not (state.inference or input.is_inference()):
        raise RuntimeError("Can't detach views in-place: use detach() instead")
    input._edge = None
    return input


def set_data(self: Tensor, value: Tensor) -> None:
    """Use the memory of another tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    self._a, self._st, self._view = value._a, Storage(), None


@tensor_property(setter=set_data)
def data(self: Tensor) -> Tensor:
    """A tensor on the same memory outside the graph, whose in-place changes autograd does not detect."""
    found = alias(self._a, None)
    if self._st.inference:
        found._st.inference = DETACHED
    return found


@method()
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(gradient)` whenever the gradient of this tensor is computed; a value it returns replaces the gradient.

    Shape: self (*); gradient the same.
    Returns: a handle whose `remove()` removes the hook.
    Raises:
        RuntimeError: when the tensor does not require grad.

    >>> import tdt
    >>> x = tdt.ones(1, requires_grad=True)
    >>> handle = x.register_hook(lambda gradient: 2 * gradient)
    >>> (3 * x).backward(); x.grad
    tensor([6.])
    """
    edge = edge_of(self)
    if edge is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if edge is LEAF or edge is NOWHERE:
        if self._hooks is None:
            self._hooks = {}
        return RemovableHandle(self._hooks, hook)
    return RemovableHandle(edge[0]._get_or_create_hooks().tensor.setdefault(edge[1], {}), hook)


@method()
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call `hook(tensor)` after the `.grad` of this leaf was updated.

    Shape: self (*).
    Returns: a handle whose `remove()` removes the hook.
    Raises:
        RuntimeError: when the tensor is not a leaf that requires grad.

    >>> import tdt
    >>> x = tdt.ones(1, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda tensor: print(tensor.grad))
    >>> (3 * x).backward()
    tensor([3.])
    """
    if edge_of(self) is not LEAF:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._post_hooks is None:
        self._post_hooks = {}
    return RemovableHandle(self._post_hooks, hook)


@method()
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of a computed tensor in its `.grad`.

    Shape: self (*).
    Raises:
        RuntimeError: when the tensor does not require grad.

    >>> import tdt
    >>> x = tdt.ones(1, requires_grad=True) * 2
    >>> x.retain_grad(); (3 * x).backward(); x.grad
    tensor([3.])
    """
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._edge is not None and self._edge is not LEAF:
        edge: Any = edge_of(self)
        edge[0]._get_or_create_hooks().retain[edge[1]] = weakref.ref(self)
        self._retains = True


@tensor_property
def retains_grad(self: Tensor) -> bool:
    """Whether `retain_grad` was called on this non-leaf tensor."""
    return self._retains


@tensor_property
def _base(self: Tensor) -> Tensor | None:
    """The tensor this one is a view of, or None."""
    relation_read("Tensor._base")
    return None if self._view is None else self._view.base


@method()
def _is_view(self: Tensor) -> bool:
    """Whether the tensor is a view of another tensor that autograd tracks."""
    relation_read("Tensor._is_view")
    return self._view is not None
