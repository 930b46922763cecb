"""What a recorded function does to `.grad`: backward passes, gradients that are cleared, steps of optimizers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _kernels
from tdt._compiled.gradient import Named, Walk, has_hooks
from tdt._compiled.program import Refusal
from tdt._compiled.values import OtherBits, Values
from tdt._core.mode import exchange_grad
from tdt._core.tensor import LEAF, Tensor
from tdt.autograd._node import Node

if TYPE_CHECKING:
    from tdt._compiled.recorder import Recorder

ndarray = np.ndarray
UNKNOWN = object()  # the name of a gradient that earlier calls have left


class Gradients:
    """The gradients of a recorder's roots, and what is done with them.

    Attributes:
        names: of their arrays in the program, by the root's place; None where a gradient was cleared.
        empty: the places of the roots that must have no gradient when the function is called.
        filled: the places of the roots that must have one then.
        cleared: the places of the roots whose gradients are cleared before anything is computed.
        read: the places of the roots whose gradients are read before they are set.
        own: (place, place of its gradient) of the roots whose gradient is one of the function's own tensors, before and after.
        updates: steps of optimizers, in order.
    """

    def __init__(self, recorder: Recorder):
        self.recorder = recorder
        self.names: dict[int, str | None] = {}
        self.empty: set[int] = set()
        self.filled: set[int] = set()
        self.read: set[int] = set()
        self.cleared: list[int] = []
        self.updates: list[Any] = []
        self._passed: set[Any] = set()  # nodes whose saved values are freed
        self._places = {id(t): k for k, t in enumerate(recorder.roots)}
        ours = {id(t._a): k for k, t in enumerate(recorder.roots) if k >= recorder.arguments}
        grads = ((k, t._grad) for k, t in enumerate(recorder.roots))
        self.own = {k: ours[id(g._a)] for k, g in grads if g is not None and id(g._a) in ours}

    def places_of(self, tensors: Iterable[Tensor]) -> set[int]:
        """The places of roots."""
        return {self._places[id(t)] for t in tensors}

    def clear(self, t: Tensor) -> None:
        """Take note that the gradient of a tensor was set to None."""
        if (place := self._places.get(id(t))) is not None:
            self.names[place] = None
            if not self.recorder.program.statements:
                self.cleared.append(place)

    def reads(self, t: Tensor) -> None:
        """Take note that the gradient of a tensor was looked at."""
        place = self._places.get(id(t))
        if place is not None and place not in self.names:
            self.read.add(place)

    def guard(self, had: Sequence[bool], requires: Sequence[bool]) -> None:
        """Let the roots have a gradient, or none, as they had before the call, unless the function sets it without a look.

        requires: whether they require gradients: arguments that do not have none.
        """
        for place, (filled, required) in enumerate(zip(had, requires, strict=True)):
            known = place in self.names and place not in self.read
            if not known and (required or place >= self.recorder.arguments):
                (self.filled if filled else self.empty).add(place)

    def is_freed(self, t: Tensor) -> bool:
        """Whether a backward pass has freed what a tensor was computed of."""
        return t._edge is not None and t._edge[0] in self._passed

    def backward(self, run: Callable[..., list], edges: list, grads: list, keep: bool) -> list:
        """Run a backward pass to the leaves, as `_engine.execute`, and record it."""
        recorder = self.recorder
        had = [t._grad is not None for t in recorder.roots]
        walk, refusal = self._walk(edges, grads) if recorder.refusal is None else (None, None)
        if walk is None:
            recorder.without_recording(run, edges, grads, keep, False)
        else:
            refusal = recorder.without_recording(_run, walk, run, keep)
            try:
                if refusal is None:
                    self._add(walk, had, keep)
            except Refusal as found:
                refusal = found
        if refusal is not None:
            recorder.refuse(str(refusal))
        return []

    def _walk(self, edges: list, grads: list) -> tuple[Walk | None, Refusal | None]:
        """The walk of a backward pass, or why there is none."""
        try:
            walk = Walk(self.recorder, edges, [Named(g, self._name(g)) for g in grads])
            self._check(walk)
        except Refusal as refusal:
            return None, refusal
        return walk, None

    def _name(self, g: Any) -> str:
        """The name of the gradient of an output: known, or of ones."""
        if (name := self.recorder.name_of(g)) is not None:
            return name
        if g.__class__ is ndarray and np.array_equal(g, np.ones_like(g)):
            return self.recorder.ones(g)
        raise Refusal("the gradient of a result was computed or created without an op")

    def _check(self, walk: Walk) -> None:
        for place in walk.leads_to:
            t = self.recorder.roots[place]
            if t._edge is not LEAF:
                raise Refusal("a backward pass leads out of the function")
            if has_hooks(t):
                raise Refusal("a tensor that a backward pass leads to has hooks")

    def _add(self, walk: Walk, had: list[bool], keep: bool) -> None:
        """Append a backward pass to the program; its gradients are now those of the roots."""
        recorder, program = self.recorder, self.recorder.program
        program.statements += [each._replace(trusts=True) for each in walk.program.statements]
        program.sizes.update(walk.program.sizes)
        others = [*recorder.places.by_name.values(), *[own for own, _ in walk.lies.values()]]
        for place, name in walk.results.items():
            grad, before = recorder.roots[place]._grad, self.names.get(place, UNKNOWN)
            if grad is None or grad._a.__class__ is not ndarray:
                raise Refusal("a gradient is not a dense CPU tensor")
            if before is UNKNOWN:
                if had[place]:
                    raise Refusal(
                        "gradients are added to those of earlier calls: clear them in the function, as by zero_grad()"
                    )
                self.empty.add(place)
            own, strides = walk.lies[place]
            if strides != grad._a.strides or (not isinstance(before, str) and sum(map(own.shares, others)) > 1):
                copied = program.name(grad._a)
                program.call(_kernels.copy_in_order, (name, f"r{place}"), (copied,))
                name = copied
            if isinstance(before, str):  # of two arrays that lie as the leaf: the sum does, too
                name, names = program.name(grad._a), (before, name)
                program.call(_kernels.add, names, (name,))
                recorder.is_written(grad)
            self.names[place] = name
            recorder.places.name(grad._a, name)
            recorder.sees(grad)
        if not keep:
            self._passed.update(each for each in walk.order if each.__class__ is Node)

    def update(self, update: Any) -> None:
        """Record an optimizer's step, which was just taken: a function of gradients.

        Attributes of it: `params`, whose gradients it takes; `others`, which it would also take if they had any.
        """
        recorder = self.recorder
        if recorder.refusal is not None:
            return
        places = [self._places.get(id(p)) for p in update.params]
        names = [self._known(place) if place is not None else None for place in places]
        if None in names or any(id(p) not in self._places for p in update.others):
            recorder.refuse("an optimizer's step takes gradients that the function does not compute")
            return
        self.empty.update(place for p in update.others if (place := self._places[id(p)]) not in self.names)
        if names:
            recorder.program.call(update, names, (), repeatable=False, update=update)  # type: ignore[arg-type]
        for p in update.params:
            recorder.updated(self._places[id(p)])
        self.updates.append(update)

    def _known(self, place: int) -> str | None:
        """The name of the array of a root's gradient."""
        at = self.own.get(place)
        return self.names.get(place, None if at is None else f"r{at}")

    def are_known(self, before: Sequence[tuple[int, int]]) -> bool:
        """Whether all gradients are those that were recorded, or what they were before: (id, version) of each."""
        for place, (t, old) in enumerate(zip(self.recorder.roots, before, strict=True)):
            if place not in self.names:
                if not is_unchanged(t._grad, old, place in self.own):
                    return False
            elif (None if t._grad is None else self.recorder.name_of(t._grad._a)) != self.names[place]:
                return False
        return True


def _run(walk: Walk, otherwise: Callable[..., list], keep: bool) -> Refusal | None:
    mode = exchange_grad(False)
    try:
        with np.errstate(all="ignore"):
            return walk.run_for(otherwise, keep)
    finally:
        exchange_grad(mode)


def identity(grad: Tensor | None) -> tuple[int, int]:
    """Which tensor a gradient is, and how often it was written to."""
    return (id(grad), grad._st.version) if grad is not None else (0, 0)


def is_unchanged(grad: Tensor | None, before: tuple[int, int], is_own: bool) -> bool:
    """Whether a gradient is the tensor that it was, and has not been written to, unless it is one of the function's own."""
    now = identity(grad)
    return now == before or (is_own and now[0] == before[0])


class Changes:
    """What a call of a recorded function changes, besides returning something.

    Args:
        roots: the tensors of the call; `written` are the places of those that it writes to, `gradients` of those whose gradient
            it sets.
        cleared: places of `gradients` whose gradients before the call nobody reads.
        updates: the optimizers' steps in it.
        omitted: the places of roots that only optimizers' steps write to, which are left out; their versions count.
    """

    def __init__(self, roots: Sequence[Tensor], written: Sequence[int], gradients: Sequence[int], cleared: Container[int],
                 updates: Sequence[Any], generators: Sequence[Any], omitted: Container[int] = ()):  # fmt: skip
        self.written = [roots[place] for place in written]
        self.tensors = [roots[place] for place in written if place not in omitted]
        self.read = [place not in cleared for place in gradients]
        self.updates = updates
        self.states = [a for update in updates for a in update.state_arrays()]
        self.leaves = [roots[place] for place in gradients]
        self.generators = generators

    def now(self) -> tuple:
        """A copy of it all, for `put`."""
        return (
            [t._a.copy(order="K") for t in self.tensors],
            [a.copy() for a in self.states],
            [t._grad if is_read else None for t, is_read in zip(self.leaves, self.read, strict=True)],
            [g.state_array() for g in self.generators],
            [t._st.version for t in self.written],
            [update.restores_fresh() for update in self.updates],
        )

    def put(self, values: tuple) -> None:
        """Set all to values that `now` gave."""
        tensors, states, gradients, generators, versions, restores = values
        for t, old in zip(self.tensors, tensors, strict=True):
            t._a[...] = old
        for t, version in zip(self.written, versions, strict=True):
            t._st.version = version
        for a, old in zip(self.states, states, strict=True):
            a[...] = old
        for t, grad in zip(self.leaves, gradients, strict=True):
            t._grad = grad
        for g, drawn in zip(self.generators, generators, strict=True):
            g.set_state_array(drawn)
        for restore in filter(None, restores):
            restore()

    def values(self) -> tuple:
        """What it all is now, for `difference`."""
        return (
            [Values(t._a) for t in self.tensors],
            [Values(a) for a in self.states],
            [None if t._grad is None else Values(t._grad._a) for t in self.leaves],
            [g.state_array() for g in self.generators],
        )

    def difference(self, values: tuple) -> tuple[str | None, Tensor | None]:
        """What differs from what `values` gave after the program, and of which tensor."""
        tensors, states, gradients, generators = values
        for t, ours in zip(self.tensors, tensors, strict=True):
            if not ours.are(own := Values(t._a)):
                return OtherBits(f"a parameter or buffer that it updates{ours.shown_beside(own)}"), t
        for t, grad in zip(self.leaves, gradients, strict=True):
            if (grad is None) != (t._grad is None):
                return "which gradients it sets", t
            if grad is not None and t._grad is not None and not grad.are(own := Values(t._grad._a)):
                return OtherBits(f"a gradient{grad.shown_beside(own)}"), t
        for a, ours in zip(self.states, states, strict=True):
            if not ours.are(own := Values(a)):
                return OtherBits(f"the state of an optimizer{ours.shown_beside(own)}"), None
        for g, drawn in zip(self.generators, generators, strict=True):
            if not np.array_equal(g.state_array(), drawn):
                return "the random numbers that it draws", None
        return None, None
