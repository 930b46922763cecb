"""`Function`: a differentiable operation written by the user, forward and backward."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tdt._dtype import FLOAT
from tdt._tensor import LEAF, Tensor, alias, wrap
from tdt.autograd._engine import NodeHooks
from tdt.autograd._inplace import check_writable, rebase
from tdt.autograd._mode import no_grad, state
from tdt.autograd._node import freed, kind_of, next_functions, number, overwritten, sum_to, zeros
from tdt.autograd._op import NOWHERE, edge_of


class FunctionCtx:
    """What forward leaves for backward: `save_for_backward`, marks, and any attribute set on it."""

    needs_input_grad: tuple[bool, ...] = ()
    _saved: tuple = ()
    _dirty: tuple = ()
    _nondiff: tuple = ()
    _materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs (or None) for `saved_tensors`; other values go into attributes."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(t).__name__}; "
                    "store it as an attribute of ctx"
                )
        self._saved = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs forward wrote to in place; each must be returned as an output."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._nondiff = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (default) or None for an output that nothing used."""
        self._materialize = value


class FunctionNode(FunctionCtx):
    """The recorded call of a Function; it is the `ctx` that forward and backward see."""

    hooks: NodeHooks | None = None
    _packed: Any = None  # what was saved, or "freed"

    def __init__(self, function: type[Function], inputs: tuple):
        self.function, self.number = function, number()
        found = [edge_of(x) if state.grad and isinstance(x, Tensor) else None for x in inputs]
        self.needs_input_grad = tuple([e is not None for e in found])
        self.edges = [(x, 0) if e is LEAF else None if e is NOWHERE else e for x, e in zip(inputs, found, strict=True)]
        self._in_kinds = [(x._a.shape, x.dtype) if isinstance(x, Tensor) else None for x in inputs]
        self.outs: list | None = None

    def name(self) -> str:
        """The name of the Function with `Backward`."""
        return f"{self.function.__name__}Backward"

    @property
    def next_functions(self) -> tuple:
        """((node, output number), …) of the tensor inputs."""
        return next_functions(self.edges)

    @property
    def saved_tensors(self) -> tuple:
        """What `save_for_backward` kept; RuntimeError if it was freed, or changed in place since."""
        if self._packed is None:
            return self._saved
        if self._packed == "freed":
            raise freed()
        found = []
        for t, storage, version, k in self._packed:
            if t is not None and storage.version != version:
                raise overwritten(t, storage, version, self)
            found.append(t if t is None or k is None else alias(t, (self, k), storage))
        return tuple(found)

    def pack(self, outputs: tuple) -> None:
        """Hold what was saved without making a reference cycle through outputs that lead back here."""
        self._packed = []
        for t in self._saved:
            k = next((k for k, o in enumerate(outputs) if o is t), None)
            if t is None:
                self._packed.append((None, None, 0, None))
            else:
                self._packed.append((t if k is None else t._a, t._st, t._st.version, k))
        self._saved = self._dirty = self._nondiff = ()

    def release(self) -> None:
        """Drop what was saved."""
        if self._packed:
            self._packed = "freed"

    def run(self, grads: list, graph: bool) -> list:
        """Call the user's backward and check what it returns."""
        grads = [None if g is None else g if isinstance(g, Tensor) else wrap(g) for g in grads]
        if self._materialize:
            for k, g in enumerate(grads):
                if g is None:
                    grads[k] = wrap(zeros(self._out_meta[k]))
        results = self.function.backward(self, *grads)
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
        if g is None or self.edges[i] is None:
            return None
        if not isinstance(g, Tensor):
            raise TypeError(
                f"function {self.name()} returned a {type(g).__name__} at index {i}; expected a Tensor or None"
            )
        shape, dtype = self._in_kinds[i]
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

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward, and record it if an argument wants gradients."""
        node = FunctionNode(cls, args)
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(node, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(node, args, result)
        outputs = result if isinstance(result, tuple) else (result,)
        if any(node.needs_input_grad):
            outputs = _attach(node, args, outputs)
        return outputs if isinstance(result, tuple) else outputs[0]


def _attach(node: FunctionNode, inputs: tuple, outputs: tuple) -> tuple:
    """Give the outputs their place in the graph: new ones at the node, dirty inputs rebased, plain inputs as aliases."""
    dirty, nondiff = {id(t) for t in node._dirty}, {id(t) for t in node._nondiff}
    for t in node._dirty:
        if not any(t is o for o in outputs):
            raise RuntimeError("Some elements marked as dirty during the forward method were not returned as output.")
        check_writable(t, "has been")
    given = {id(t) for t in inputs if isinstance(t, Tensor)}
    made = []
    for k, t in enumerate(outputs):
        if isinstance(t, Tensor) and id(t) not in nondiff and t.dtype.category >= FLOAT:
            if id(t) in dirty:
                rebase(t, (node, k))
            else:
                t = alias(t._a, (node, k), t._st) if id(t) in given else t
                t._edge = (node, k)
        made.append(t)
    node._out_meta = [kind_of(t) if isinstance(t, Tensor) else None for t in made]
    node.outs = node._out_meta if len(made) > 1 else None
    replaced = {id(o): m for o, m in zip(outputs, made, strict=True)}
    node._saved = tuple(replaced.get(id(t), t) for t in node._saved)
    node.pack(tuple(made))
    return tuple(made)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a backward that does not itself record: a second derivative through it raises RuntimeError."""

    @functools.wraps(backward)
    def wrapped(ctx: FunctionNode, *grads: Any) -> Any:
        with no_grad():
            results = backward(ctx, *grads)
        if not state.grad or not any(isinstance(g, Tensor) and g.requires_grad for g in (*grads, *ctx.saved_tensors)):
            return results
        several = results if isinstance(results, tuple) else (results,)
        blocked = tuple(_Blocked.apply(*grads, r) if isinstance(r, Tensor) else r for r in several)
        return blocked if isinstance(results, tuple) else blocked[0]

    return wrapped


class _Blocked(Function):
    """Passes its last argument through and refuses to be differentiated."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Tensor:
        return args[-1].detach()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
