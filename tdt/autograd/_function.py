"""`autograd.Function`: differentiable operations written by the user."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from tdt._core.dtype import FLOAT
from tdt._core.errors import freed, overwritten
from tdt._core.mode import no_grad, state
from tdt._core.tensor import LEAF, Tensor, alias, wrap
from tdt.autograd._accumulate import NodeHooks
from tdt.autograd._graph import GraphNode
from tdt.autograd._inplace import check_inplace, rebase_history
from tdt.autograd._node import kind_of, number, sum_to, zeros
from tdt.autograd._views import NOWHERE, edge_of, edge_without_hooks

F = TypeVar("F", bound=Callable[..., Any])


class FunctionCtx:
    """The context `ctx` that forward stores data in for backward: `save_for_backward`, marks, and any attribute."""

    needs_input_grad: tuple[bool, ...] = ()
    to_save: tuple = ()
    dirty_tensors: tuple = ()
    non_differentiable: tuple = ()
    materialize_grads = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save inputs or outputs (or None) for `saved_tensors`; store other values as attributes."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}; "
                    "store it as an attribute of ctx"
                )
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Do nothing: tdt does not support forward-mode differentiation."""

    def mark_dirty(self, *args: Tensor) -> None:
        """Mark inputs that forward wrote to in place; each must be returned as an output."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Mark outputs without gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (default) or None for an output that nothing used."""
        self.materialize_grads = value


class FunctionNode(GraphNode, FunctionCtx):
    """The graph node of a call of a Function; also the `ctx` argument of forward and backward."""

    hooks: NodeHooks | None = None
    number = -1
    saved: Any = ()  # (array, storage, version) of each saved tensor, None once freed; what saved-tensor hooks made of it
    _out_meta: Any = ()
    _origins: Any = None  # for each: the tensor itself (None: make one), and its edge or output number

    def __init__(self, function: type[Function], inputs: tuple):
        self.function = function
        record = state.grad and not state.inference
        found = [edge_of(x) if record and isinstance(x, Tensor) else None for x in inputs]
        self.needs_input_grad = tuple([e is not None for e in found])
        self.edges = [(x, 0) if e is LEAF else None if e is NOWHERE else e for x, e in zip(inputs, found, strict=True)]
        self._in_kinds = [(x._a.shape, x.dtype) if isinstance(x, Tensor) else None for x in inputs]
        self.outs: list | None = None

    def name(self) -> str:
        """The name of the Function with `Backward`."""
        return f"{self.function.__name__}Backward"

    @property
    def saved_tensors(self) -> tuple:
        """The tensors passed to `save_for_backward`; RuntimeError if they were freed, or modified in place since."""
        if self._origins is None:
            return self.to_save
        if self.saved is None:
            raise freed()
        found = []
        for (array, storage, version), (t, place) in zip(self.saved, self._origins, strict=True):
            if storage is not None and storage.version != version:
                raise overwritten(array, storage, version, self)
            edge = (self, place) if isinstance(place, int) else place
            found.append(t if t is not None or array is None else alias(array, edge, storage))
        return tuple(found)

    @property
    def saved_variables(self) -> tuple:
        """The old name of `saved_tensors`."""
        return self.saved_tensors

    def pack(self, outputs: tuple) -> None:
        """Store the saved tensors without a reference cycle through outputs whose grad_fn is this node."""
        self.saved, self._origins = [], []
        for t in self.to_save:
            place: Any = next((k for k, o in enumerate(outputs) if o is t and t is not None), None)
            if t is None:
                self.saved.append((None, None, 0))
            else:
                if t._st.inference:
                    raise RuntimeError("Inference tensors cannot be saved for backward. Save a clone() instead.")
                self.saved.append((t._a, t._st, t._st.version))
            tensor = t if place is None and state.saving is None else None
            self._origins.append((tensor, place if place is not None or t is None else _edge(t)))
        self.to_save = self.dirty_tensors = self.non_differentiable = ()
        if state.saving is not None and self.saved:
            state.saving.keep(self)

    def release(self) -> None:
        """Free the saved tensors."""
        if self.saved:
            self.saved = None

    def run(self, grads: list, graph: bool) -> list:
        """Call the user's backward and check what it returns."""
        grads = [None if g is None else g if isinstance(g, Tensor) else wrap(g) for g in grads]
        if self.materialize_grads:
            for k, g in enumerate(grads):
                if g is None and self._out_meta[k] is not None:
                    grads[k] = wrap(zeros(self._out_meta[k]))
        results = _backward_of(self.function)(self, *grads)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        while len(results) > len(self.edges) and results[-1] is None:
            results.pop()
        if len(results) != len(self.edges):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients "
                f"(expected {len(self.edges)}, got {len(results)})"
            )
        return [self._checked(i, g, graph) for i, g in enumerate(results)]

    def _checked(self, i: int, g: Any, graph: bool) -> Any:
        kind = self._in_kinds[i]
        if g is not None and kind is None:
            raise RuntimeError(
                f"function {self.name()} returned a gradient different than None at position {i + 1}, but the corresponding "
                "forward input was not a Variable"
            )
        if g is None or kind is None or self.edges[i] is None:
            return None
        if not isinstance(g, Tensor):
            raise TypeError(
                f"function {self.name()} returned a {type(g).__name__} at index {i}; expected a Tensor or None"
            )
        shape, dtype = kind
        if g._a.shape != shape:
            tail = g._a.shape[len(g._a.shape) - len(shape) :]
            if len(tail) != len(shape) or any(n not in (1, m) for n, m in zip(shape, tail, strict=True)):
                raise RuntimeError(
                    f"Function {self.name()} returned an invalid gradient at index {i} - got {list(g.shape)} but expected "
                    f"shape compatible with {list(shape)}"
                )
            g = sum_to(g, shape)
        if g.dtype is not dtype:
            g = (g.real if g.dtype.is_complex and not dtype.is_complex else g).to(dtype)
        return g if graph else g._a


def _edge(t: Tensor) -> tuple | None:
    edge = edge_of(t)
    return (t, 0) if edge is LEAF else None if edge is NOWHERE else edge


def _backward_of(function: type[Function]) -> Callable[..., Any]:
    """The user's `backward`, or `vjp`, which is an alias."""
    if function.vjp is Function.vjp:
        return function.backward
    if function.backward is not Function.backward:
        raise RuntimeError(
            "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
        )
    return function.vjp


class Function:
    """Subclass it with static methods `forward(ctx, *args)` and `backward(ctx, *grad_outputs)`; call `.apply(*args)`.

    Or `forward(*args)` with `setup_context(ctx, inputs, output)`. backward returns a gradient, or None, per argument.

    >>> import tdt
    >>> class Double(tdt.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> x = tdt.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward(); x.grad
    tensor([2., 2.])
    """

    setup_context: Callable[..., None] | None = None
    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any):
        name = type(self).__name__
        raise RuntimeError(f"{name} should not be instantiated. Methods are static: call {name}.apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; override it."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the inputs; override it (or `vjp`)."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Not called: tdt has no forward-mode differentiation."""
        raise NotImplementedError("Function.jvp is not used: tdt has no forward-mode differentiation; define backward.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Not called: `func.vmap` calls forward once per sample."""
        raise NotImplementedError("Function.vmap is not used: tdt's func.vmap calls forward once per sample.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run forward, and record it if an argument requires grad."""
        if state.batching is not None:
            state.batching.refuse("a Function")
        if cls.setup_context is not None:
            bound = inspect.signature(cls.forward).bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        node = FunctionNode(cls, args)
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(node, *args, **kwargs)
            else:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(node, args, result)
        for t in node.dirty_tensors:
            t._st.bump_version()
        outputs = result if isinstance(result, tuple) else (result,)
        if any(node.needs_input_grad):
            outputs = _attach(node, args, outputs)
        return outputs if isinstance(result, tuple) else outputs[0]


def _attach(node: FunctionNode, inputs: tuple, outputs: tuple) -> tuple:
    """Give the outputs their place in the graph: new ones at the node, dirty inputs rebased, plain inputs as aliases."""
    dirty, nondiff = {id(t) for t in node.dirty_tensors}, {id(t) for t in node.non_differentiable}
    for t in node.dirty_tensors:
        if not any(t is o for o in outputs):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output.")
        check_inplace(t, "has been")
        if t._view is not None:
            node.edges = [
                edge_without_hooks(t, e) if x is t and e is not None else e
                for x, e in zip(inputs, node.edges, strict=True)
            ]
    node.number = number()  # after those of the inputs: updating a view's edge may record nodes
    input_ids = {id(t) for t in inputs if isinstance(t, Tensor)}
    attached = []
    for k, t in enumerate(outputs):
        if isinstance(t, Tensor) and id(t) not in nondiff and t.dtype.category >= FLOAT:
            if id(t) in dirty:
                rebase_history(t, (node, k))
            else:
                t = alias(t._a, (node, k), t._st) if id(t) in input_ids else t
                t._edge = (node, k)
        attached.append(t)
    node._out_meta = [kind_of(t) if isinstance(t, Tensor) else None for t in attached]
    node.outs = node._out_meta if len(attached) > 1 else None
    node.pack(tuple(attached))
    if state.anomaly is not None:
        state.anomaly.note(node)
    return tuple(attached)


def once_differentiable(backward: F) -> F:
    """Decorate a backward that cannot be differentiated: a second derivative through it raises RuntimeError."""

    @functools.wraps(backward)
    def wrapped(ctx: FunctionNode, *grads: Any) -> Any:
        with no_grad():
            results = backward(ctx, *grads)
        if not state.grad or not any(isinstance(g, Tensor) and g.requires_grad for g in (*grads, *ctx.saved_tensors)):
            return results
        several = results if isinstance(results, tuple) else (results,)
        blocked = tuple(_Blocked.apply(*grads, r) if isinstance(r, Tensor) else r for r in several)
        return blocked if isinstance(results, tuple) else blocked[0]

    return cast("F", wrapped)


class InplaceFunction(Function):
    """The old name of a Function that writes in place."""


class _Blocked(Function):
    """Passes its last argument through and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        return args[-1].detach()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
