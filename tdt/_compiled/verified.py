"""How a recording is compared with its function before it takes the place of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._backend import device_of, to_device
from tdt._compiled.gradients import Changes, identity, is_unchanged
from tdt._compiled.program import Refusal
from tdt._compiled.structure import Structure
from tdt._compiled.values import OtherBits, Values
from tdt._core.mode import exchange_grad
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt._kernels._references import References
from tdt.autograd import _engine
from tdt.autograd._views import edge_of

ndarray = np.ndarray
ERRORS = (ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)
MOST_COPIED = 1 << 22  # bytes of parameters whose update is computed both ways when a recording is compared


class Verified:
    """What a recording has in common with others: its results are compared with the function's before it is trusted.

    Attributes:
        empty, filled: the places of the roots that must have no gradient, or one.
        updated: the places of the roots that optimizers update last, by gradients that the function sets.
    """

    is_graph = False  # whether it is a CUDA graph
    is_leased = False  # whether the backward pass of a call is to come that has the recording's memory
    arguments: int
    verified: bool
    empty: list[int]
    filled: Sequence[int]
    written: list[tuple[int, int]]
    gradients: list[tuple[int, Any]]
    cleared: list[int]
    own: dict[int, Any]
    updates: list[Any]
    updated: set[int]
    generators: list[Any]
    differentiable: list[int]
    reached: list[int]

    def __call__(self, roots: tuple[Tensor, ...], forward: Callable[..., tuple] | None = None) -> Any:
        """The function's result for a call that is like the recorded one, with these roots. forward: instead of its program."""
        raise NotImplementedError

    def lie_as_recorded(self, grads: Sequence[Any]) -> bool:
        """Whether gradients lie as those of which the backward pass was recorded; a CUDA graph copies them to where it reads."""
        return True

    def verify(self, function: Callable[[], Any], roots: tuple[Tensor, ...]) -> tuple[Any, str | None, Tensor | None]:
        """Compute a call both ways. Returns the function's own result, what differs (None if nothing does), and of which root.

        All that the function changes is changed once. Where copies of parameters and states would take much memory, the program
        leaves out the optimizers' steps: functions of parameters and gradients, which are compared, and the same ones both ways.
        """
        last = set() if self.verified else self.updated
        omits = sum(roots[place]._a.nbytes for place in last) >= MOST_COPIED
        late = Changes(roots, [*last], [], (), self.updates if last and not omits else [], [])
        copied = functools.cache(late.now)

        def replaced(update: Any) -> Callable[..., Any]:
            """An update before which what it writes to is copied: the memory of all that came before is free then."""
            return lambda *grads: (copied(), update(*grads))

        forward = self._with_updates((lambda _: _nothing) if omits else replaced) if last else None
        changes = self._changes(roots, [] if last else self.updates, last)
        compared = [changes] if omits else [changes, late]
        before, grads = changes.now(), [identity(t._grad) for t in roots]
        difference, tensor = None, None
        try:  # first, so that its graph is gone when the function's own takes memory
            ours, after = self._computed(roots, forward), [each.values() for each in compared]
        except ERRORS as error:  # which the function does not raise
            difference = f"an error, {type(error).__name__}: {error}"
        finally:
            changes.put(before)
            if copied.cache_info().currsize:
                late.put(copied())
                copied.cache_clear()
            del before  # copies, too
        result = function()
        set_ = {place for place, _ in self.gradients}
        places = enumerate(zip(roots, grads, strict=True))
        if not all(k in set_ or is_unchanged(t._grad, old, k in self.own) for k, (t, old) in places):
            return result, "it sets other gradients", None
        if difference is None:
            difference, tensor = self._differs(result, ours, roots)
        for each, values in zip(compared, after, strict=True) if difference is None else ():
            if difference is None:
                difference, tensor = each.difference(values)
        self.verified = True
        return result, difference, tensor

    def refer(self, references: References, roots: Sequence[Tensor]) -> None:
        """Name what `takes` looks at, but for what `fills` does: of the function's own tensors alone."""
        places = *self.empty, *self.filled, *self.own, *[place for place, _ in self.gradients]
        if any(place < self.arguments for place in places):
            references.complete = False
            return
        for place in (*self.empty, *self.own):
            references.slot(roots[place], "_grad")
        for place in self.own:
            references.slot(roots[place]._grad, "_a")
        for place, _ in self.gradients:
            own = vars(roots[place])
            for values in (own, own.get("_hooks"), own.get("_post_hooks")):
                if values is not None:
                    references.container(values)
        for update in self.updates:
            update.refer(references)

    def _changes(self, roots: Sequence[Tensor], updates: list[Any], omitted: set[int]) -> Changes:
        written, gradients = [p for p, _ in self.written], [p for p, _ in self.gradients]
        return Changes(roots, written, gradients, self.cleared, updates, self.generators, omitted)

    def _with_updates(self, replaced: Callable[[Any], Any]) -> Callable[..., tuple]:
        """What computes a call with other functions in the place of the steps of optimizers."""
        raise NotImplementedError

    def _computed(
        self, roots: tuple[Tensor, ...], forward: Callable[..., tuple] | None
    ) -> tuple[Any, list[Values], list[bool], list[Values | None]]:
        """The form of the program's result, its values, which of them have gradients, and some gradients of the roots."""
        found = Structure(self(roots, forward), list(roots))
        values, flows = [Values(t._a) for t in found.tensors], [edge_of(t) is not None for t in found.tensors]
        return found.form, values, flows, self._gradients(found, roots, False)

    def _differs(self, result: Any, ours: tuple, roots: Sequence[Tensor]) -> tuple[str | None, Tensor | None]:
        """What differs between the function's result and what `_computed` gave; and of which root."""
        form, values, flows, gradients = ours
        try:
            own = Structure(result, list(roots))
            if own.form != form:
                return "the structure of its result", None
            for t, result, flow in zip(own.tensors, values, flows, strict=True):
                if t._a.strides != result.strides or not result.are(Values(t._a)):
                    return OtherBits(f"its result{result.shown_beside(Values(t._a))}"), None
                if (edge_of(t) is None) == flow:
                    return "whether its result has gradients", None
            own_gradients = self._gradients(own, roots, True)
        except Refusal as refusal:
            return str(refusal), None
        except ERRORS as error:
            return f"an error, {type(error).__name__}: {error}", None
        for place, a, b in zip(self.reached, own_gradients, gradients, strict=False):
            if (a is None) != (b is None):
                return "which gradients it has", roots[place]
            if a is not None and b is not None and not b.are(a):
                return OtherBits(f"a gradient{b.shown_beside(a)}"), roots[place]
        return None, None

    def _gradients(self, structure: Structure, roots: Sequence[Tensor], keep: bool) -> list[Values | None]:
        """The gradients that the program reaches of some gradients of the results, without the hooks of the roots.

        The pass ends at the nodes before the function, which may lead to its own parameters, as those of earlier calls do.
        None are computed where such nodes have hooks. keep: retain the graph.
        """
        inputs = [edge_to(roots[place]) for place in self.reached]
        if not self.differentiable or any(not isinstance(e[0], Tensor) and e[0].hooks for e in inputs):
            return []
        hooks = [(t, t._hooks, t._node_hooks) for t in roots]
        found: dict[int, Values] = {}

        def take(place: int, g: Tensor) -> Tensor:
            """Note a gradient, of which the engine needs to keep nothing."""
            found[place] = Values(g._a)
            return wrap(np.broadcast_to(np.zeros((), g._a.dtype), g._a.shape))

        mode = exchange_grad(False)
        try:
            for t, _, _ in hooks:
                t._hooks = t._node_hooks = None
            for place, (t, _) in zip(self.reached, inputs, strict=True):
                if isinstance(t, Tensor):
                    t._hooks = {0: functools.partial(take, place)}
            outputs = [structure.tensors[k] for k in self.differentiable]
            gradients = [any_gradient(t._a) for t in outputs]
            ends = frozenset([node for node, _ in inputs if not isinstance(node, Tensor)])
            others = _engine.execute([edge_to(t) for t in outputs], gradients, keep, False, inputs, ends=ends)
        finally:
            exchange_grad(mode)
            for t, own, own_of_node in hooks:
                t._hooks, t._node_hooks = own, own_of_node
        for place, g in zip(self.reached, others, strict=True):
            if g is not None and place not in found:
                found[place] = Values(g)
        return [found.get(place) for place in self.reached]


def edge_to(t: Tensor) -> Any:
    """The edge to a tensor that requires gradients, as backward passes have it."""
    edge = edge_of(t)
    return (t, 0) if edge is LEAF else edge


def any_gradient(like: Any) -> Any:
    """A gradient of no particular values, which lies as an array."""
    values = np.random.default_rng(like.size).uniform(-1, 1, like.shape)
    found = np.asarray(values.astype(like.dtype))
    if not isinstance(like, (ndarray, np.generic)):
        return to_device(found, device_of(like))
    alike = np.empty_like(like, subok=False)
    alike[...] = found
    return alike


def _nothing(*_: Any) -> None:
    pass
