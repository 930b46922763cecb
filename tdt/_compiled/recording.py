"""One recording of a function for one kind of call: its programs, and the graph node of their gradients."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from operator import is_
from types import FunctionType
from typing import Any

import numpy as np

from tdt._backend.device import get_default_device
from tdt._compiled.again import Again
from tdt._compiled.causal import limit_products
from tdt._compiled.fusion import Fusion
from tdt._compiled.gradient import Named, Walk, has_hooks, in_order
from tdt._compiled.gradients import identity
from tdt._compiled.native import Native, may_hold
from tdt._compiled.program import Refusal
from tdt._compiled.recorder import Recorder
from tdt._compiled.structure import Structure
from tdt._compiled.turned import turn_products
from tdt._compiled.verified import Verified, any_gradient, edge_to
from tdt._core.dtype import get_default_dtype
from tdt._core.errors import freed, overwritten
from tdt._core.mode import _replace, _set, exchange_grad, state
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import LEAF, Storage, Tensor, wrap
from tdt._kernels._registry import SWITCHES
from tdt._kernels._threads import THREADS
from tdt._kernels._wrapping import wrapper
from tdt._random import default_generator
from tdt.autograd._graph import GraphNode
from tdt.autograd._node import kind_of, number
from tdt.autograd._views import NOWHERE, edge_of

ndarray = np.ndarray
NO_OPS = "it calls no ops"
SLOTS = "_a", "_st", "_grad", "_edge", "_view"  # of tensors
COPIED = 1 << 14  # bytes of the largest parameter that is copied, to compute values again of what it was
MOST_OUTPUTS = 3  # with gradients: there is a backward program for each set of them


class CompiledNode(GraphNode):
    """The graph node of a call of a compiled function."""

    __slots__ = (
        "edges",
        "hooks",
        "outs",
        "number",
        "saved",
        "lease",
        "recording",
        "watched",
        "before_leaves",
        "__weakref__",
    )

    def __init__(self, recording: Recording, edges: list, saved: tuple, lease: Any, watched: list, before_leaves: bool):
        """lease: of the saved arrays. watched: (array, storage, version) of those that may be written to."""
        self.lease = lease
        self.before_leaves = before_leaves
        self.recording, self.edges = recording, edges
        self.saved: tuple | None = saved
        self.watched: Sequence[tuple] = watched
        self.hooks: Any = None
        self.number = number()
        self.outs = recording.kinds if len(recording.kinds) > 1 else None

    def name(self) -> str:
        """PyTorch's name of such a node."""
        return "CompiledFunctionBackward"

    def release(self) -> None:
        """Free the saved values."""
        self.saved, self.lease, self.watched = None, None, ()

    def run(self, grads: list, graph: bool) -> list:
        """Gradients of the roots, in the order of the edges, from those of the outputs."""
        return self._gradients(grads, graph, True)

    def run_last(self, grads: list, graph: bool) -> list:
        """As `run`, for the last time: each saved value is freed after its last use."""
        return self._gradients(grads, graph, False)

    def _gradients(self, grads: list, graph: bool, keep: bool) -> list:
        if graph:
            raise RuntimeError(
                "a function compiled by tdt.compile cannot be differentiated twice (create_graph=True): call it without "
                "tdt.compile"
            )
        if self.saved is None:
            raise freed()
        for array, storage, version in self.watched:
            if storage.version != version:
                raise overwritten(array, storage, version, self)
        grads = [g.dense() if g.__class__ is SparseCOO else g for g in grads]
        chosen = tuple([g is not None for g in grads])
        backward, places = self.recording.backwards[chosen]
        lie_alike = self.recording.lie_as_recorded(grads)
        if not lie_alike and self.recording.depends_on_layout(chosen, grads):
            backward = self.recording.unfused(chosen)
        if self.lease is not None and lie_alike:
            found = self.recording.native_backwards[chosen](*self.saved, *grads)
        else:
            values = [*self.saved, *grads]
            if not keep:
                self.saved = None
            found = backward(values)
        results: list[Any] = [None] * len(self.edges)
        for place, g in zip(places, found, strict=True):
            results[place] = g
        return results


class Recording(Verified):
    """What a call of a function computes, for calls like the one that is recorded.

    Args:
        function: is called once, with its ops recorded.
        roots: the tensors that it may read: `arguments` tensors of the call, then its own.

    Attributes:
        result: of the call that was recorded.
        outputs: how many tensors a result has that are not roots.
        verified: whether the programs' results were compared with the function's since.
        empty, filled: the places of the roots that must have no gradient, or one.
        set_, unset: the places of the roots whose gradients the function sets, or sets to None.
        has_gradients: whether the function reads or sets `.grad` of its roots.
    """

    def __init__(self, function: Callable[[], Any], roots: Sequence[Tensor], arguments: int, title: str):
        self.roots, self.arguments, self.title = list(roots), arguments, title
        self.arrays = [t._a for t in roots]
        self.requires = [requires_gradient(t) for t in roots]
        recorder = Recorder(roots, arguments)
        try:
            self._record(recorder, function)
            self._build(recorder)
        finally:
            del (
                recorder.gradients
            )  # which refers to the recorder: all arrays of the call would wait for the garbage collector
        self._release()
        self.verified = False

    def _record(self, recorder: Recorder, function: Callable[[], Any]) -> None:
        """Call the function, with its ops recorded."""
        grads, drawn = [identity(t._grad) for t in self.roots], other_random_numbers()
        had = [t._grad is not None for t in self.roots]
        seeds = default_generator.engine.seeds
        with recorder:
            self.result = function()
        recorder.finish()
        if recorder.refusal is None and not recorder.gradients.are_known(grads):
            recorder.refuse("a gradient was set in a way that is not recorded")
        if recorder.refusal is None and not all(map(is_, [t._a for t in self.roots], self.arrays)):
            recorder.refuse("a tensor that it reads gets other memory, as by `x.data = y`: write to it in place")
        if recorder.refusal is None and not all(update.has_state() for update in recorder.gradients.updates):
            recorder.refuse("an optimizer's state is replaced or removed after its step")
        if recorder.refusal is None and other_random_numbers() != drawn:
            recorder.refuse("it draws random numbers of Python's or NumPy's")
        if recorder.refusal is None and default_generator.engine.seeds != seeds:
            recorder.refuse("it seeds the generator of random numbers")
        if recorder.refusal is not None:
            raise Refusal(recorder.refusal, recorder.module)
        if not recorder.program.statements:
            raise Refusal(NO_OPS)
        self.generators = [default_generator, *recorder.generators]
        self.written = list(recorder.written.items())
        gradients = recorder.gradients
        self.gradients, self.updates, self.own = [*gradients.names.items()], gradients.updates, gradients.own
        self.has_gradients = bool(self.gradients or self.updates or self.own or gradients.read)
        if self.has_gradients:
            gradients.guard(had, self.requires)
        self.empty, self.filled = sorted(gradients.empty), sorted(gradients.filled)
        self.cleared = [place for place in gradients.cleared if place not in gradients.read]
        self.set_ = [place for place, name in self.gradients if name is not None]
        self.unset = [place for place, name in self.gradients if name is None]
        by_kernel = wrapper(Tensor, Storage, SLOTS, self.set_) if SWITCHES.kernels else None
        self._wrap: Callable[[tuple, tuple], list[Tensor]] = by_kernel or self._wrapped

    def _build(self, recorder: Recorder) -> None:
        """Make the programs' functions and what is needed around them."""
        self.structure = Structure(self.result, self.roots)
        names = self._name_results(recorder)
        outputs, program = self.structure.tensors, recorder.program
        self._find_differentiable(recorder)
        walks, storages = _walks(recorder, [outputs[k] for k in self.differentiable])
        set_ = [name for _, name in self.gradients if name is not None]
        computed = {*names, *set_, *(name for walk in walks.values() for name in walk.results.values())}
        programs = [program, *[walk.program for walk in walks.values()]]
        turn_products(programs, computed)
        limit_products(programs, computed, recorder.unwritten(()))
        self.saved_roots = [k for k, t in enumerate(self.roots) if id(t._st) in storages]
        self.saved_outputs = [k for k, t in enumerate(outputs) if id(t._st) in storages]
        size, count = sum(place.nbytes for place in recorder.places.by_name.values()), len(program.statements)
        is_large = not may_hold(size, count)  # those of other programs stay where they are
        self.updated = self._updated(recorder)
        again = self._computed_again(recorder, walks, storages, names, is_large)
        saved = [*again.taken]
        self._differentiate(walks, again, saved)
        names += [name for _, name in self.gradients if name is not None]
        if is_large:
            self._save_less(recorder, names)
        parameters = [f"r{k}" for k in range(len(self.roots))]
        results = f"({''.join(f'{name}, ' for name in names)}), ({''.join(f'{name}, ' for name in saved)})"
        program.statements = Fusion(program, [*names, *saved]).statements
        self.source = program.source(parameters, results)
        self.forward = program.compiled(parameters, results, self.title)
        own = parameters[self.arguments :]
        self.native = Native(program, parameters, own, names, size, count, self.forward, self.generators, saved=saved)
        self.native.disabled |= recorder.writes_to_shared()
        self.native_backwards = {
            chosen: Native(
                walk.program,
                [*saved, *[f"g{k}" for k in range(len(chosen))]],
                saved,
                [*walk.results.values()],
                size,
                count,
                lambda *arrays, function=self.backwards[chosen][0]: function([*arrays]),
                self.generators,
                forward=self.native,
            )
            for chosen, walk in walks.items()
        }

    def _name_results(self, recorder: Recorder) -> list[str]:
        """The names of the results' arrays in the program; refuses results that a call of it cannot give."""
        names: list[str] = []
        outputs = self.structure.tensors
        for t in outputs:
            name = recorder.name_of(t._a)
            if name is None:
                raise Refusal("a result was computed or created without an op")
            names.append(name)
        for k, t in enumerate(outputs):
            if any(np.may_share_memory(t._a, other) for other in (*self.arrays, *[o._a for o in outputs[:k]])):
                raise Refusal("a result shares memory with an argument, a parameter, a buffer or another result")
            if edge_of(t) is LEAF:
                raise Refusal("a result is a new leaf of the graph")
        return names

    def _find_differentiable(self, recorder: Recorder) -> None:
        """Find the results that have gradients."""
        outputs = self.structure.tensors
        edges = [edge_of(t) for t in outputs]
        self.differentiable = [k for k, e in enumerate(edges) if e is not None and e is not NOWHERE]
        self.freed: list[int] = []  # results whose graph a backward pass has freed
        if recorder.gradients.names:
            self.freed, self.differentiable = self.differentiable, []
            if not all(recorder.gradients.is_freed(outputs[k]) for k in self.freed):
                raise Refusal("a result has a graph that no backward pass has freed, beside gradients that are set")
        self.kinds = [kind_of(outputs[k]) for k in self.differentiable]
        self.lies = [any_gradient(outputs[k]._a).strides for k in self.differentiable]
        if len(self.differentiable) > MOST_OUTPUTS:
            raise Refusal(f"more than {MOST_OUTPUTS} results have gradients")

    def _computed_again(
        self,
        recorder: Recorder,
        walks: dict[tuple[bool, ...], Walk],
        storages: set[int],
        names: list[str],
        is_large: bool,
    ) -> Again:
        """What backward programs keep of the forward program's values, and what they compute again."""
        by_name, unwritten = recorder.places.by_name, recorder.unwritten(())
        tensors = *self.roots, *self.structure.tensors
        unwatched = [recorder.places.of(t._a) for t in tensors if id(t._st) not in storages]

        def may_keep(name: str) -> bool:
            """Whether nobody can change an array, or the change would be noticed."""
            place = by_name.get(name)
            return place is not None and not any(map(place.shares, unwatched))

        def may_copy(name: str) -> bool:
            """Whether a copy of a root takes little memory, and is as good as what it was when it was read."""
            return name.startswith("r") and by_name[name].nbytes <= COPIED and unwritten(name)

        program, saved = recorder.program, list(dict.fromkeys(name for walk in walks.values() for name in walk.saved))
        return Again(program, program.statements, saved, names, unwritten, may_keep, may_copy, is_large)

    def _save_less(self, recorder: Recorder, returned: list[str]) -> None:
        """Let the backward passes in the program compute values again."""
        program = recorder.program
        forward = [each for each in program.statements if not each.trusts]
        computed = {name for each in forward for name in each.outs}
        saved = dict.fromkeys(n for each in program.statements if each.trusts for n in each.reads if n in computed)
        if saved:
            unwritten = recorder.unwritten(self.updated)
            again = Again(program, forward, saved, returned, unwritten, lambda _: True, lambda _: False, True)
            program.statements = again.before(program.statements)

    def _updated(self, recorder: Recorder) -> set[int]:
        """The places of the roots that optimizers update, where that comes last, by gradients that the function sets."""
        statements, set_ = recorder.program.statements, {name for _, name in self.gradients}
        last = [*itertools.dropwhile(lambda each: each.update is None, statements)]
        if all(each.update is not None and set_.issuperset(each.reads) for each in last):
            return recorder.gradients.places_of([p for update in self.updates for p in update.params])
        return set()

    def _release(self) -> None:
        """Let go of the tensors of the call that was recorded, but for its result."""
        del self.roots, self.arrays
        self.outputs = len(self.structure.tensors)
        self.structure.tensors = []

    def _differentiate(self, walks: dict[tuple[bool, ...], Walk], again: Again, saved: list[str]) -> None:
        """Make a backward program for each set of outputs, which computes some values of the forward program again."""
        self.backwards: dict[tuple[bool, ...], tuple[Callable[..., Any], list[int]]] = {}
        self._unfused: dict[tuple[bool, ...], Callable[[], Callable[..., Any]]] = {}
        self._turned = {chosen for chosen, walk in walks.items() if walk.turns}
        self.reached = list(dict.fromkeys(place for walk in walks.values() for place in walk.results))
        for chosen, walk in walks.items():
            program = walk.program
            program.statements = again.before([each._replace(trusts=True) for each in program.statements])
            parameters = [*saved, *[f"g{k}" for k in range(len(chosen))]]
            results = f"({''.join(f'{name}, ' for name in walk.results.values())})"
            how = parameters, results, f"gradient of {self.title}", True
            plain = program.with_statements(program.statements)
            self._unfused[chosen] = functools.cache(functools.partial(plain.compiled, *how))
            program.statements = Fusion(program, walk.results.values()).statements
            self.backwards[chosen] = program.compiled(*how), [self.reached.index(place) for place in walk.results]

    def lie_as_recorded(self, grads: Sequence[Any]) -> bool:
        return all(g is None or g.strides == like for g, like in zip(grads, self.lies, strict=True))

    def unfused(self, chosen: tuple[bool, ...]) -> Callable[..., Any]:
        """A backward program whose arrays lie as they do in a pass of the function's own, whatever the gradients' strides."""
        return self._unfused[chosen]()

    def depends_on_layout(self, chosen: tuple[bool, ...], grads: Sequence[Any]) -> bool:
        """Whether arrays of a pass may lie in another order than in the recorded one, and sums be rounded in another way."""
        return chosen in self._turned or not all(g is None or in_order(g) for g in grads)

    def __call__(self, roots: tuple[Tensor, ...], forward: Callable[..., tuple] | None = None) -> Any:
        """The function's result for a call that is like the recorded one, with these roots. forward: instead of its program."""
        arrays = [t._a for t in roots]
        for place in self.cleared:
            roots[place]._grad = None
        try:
            found, saved, lease = self.native(*arrays) if self.verified else (*(forward or self.forward)(*arrays), None)
        except BaseException:  # what had been done by then is not known exactly
            for place, times in self.written:
                roots[place]._st.version += times
            raise
        for place, times in self.written:
            roots[place]._st.version += times
        outputs = self._wrap(found, roots)
        for place in self.unset:
            roots[place]._grad = None
        if self.differentiable:
            edges, leaves = [], 0
            for place in self.reached:
                t = roots[place]
                edge = t._edge if t._view is None else edge_of(t)
                if edge is LEAF:
                    leaves += 1
                    edge = t, 0
                edges.append(edge)
            watched = [(arrays[k], roots[k]._st, roots[k]._st.version) for k in self.saved_roots]
            watched += [(outputs[k]._a, outputs[k]._st, 0) for k in self.saved_outputs]
            node = CompiledNode(self, edges, saved, lease, watched, leaves == len(edges))
            for k, output in enumerate(self.differentiable):
                outputs[output]._edge = (node, k)
        for k in self.freed:
            node = CompiledNode(self, [], (), None, [], False)
            node.release()
            outputs[k]._edge = (node, 0)
        return self.structure.filled(outputs, roots)

    @property
    def is_small(self) -> bool:
        """Whether it may run on tapes, after some calls."""
        return self.native.is_small

    def _wrapped(self, arrays: tuple, roots: tuple[Tensor, ...]) -> list[Tensor]:
        """Tensors around the program's results, of which the last ones become the gradients of roots instead."""
        outputs = [wrap(a) for a in arrays]
        for place, grad in zip(self.set_, outputs[self.outputs :], strict=True):
            roots[place]._grad = grad
        return outputs[: self.outputs]

    def takes(self, roots: Sequence[Tensor]) -> bool:
        """Whether the gradients of these roots, their hooks, and the optimizers let the program run."""
        for place in self.empty:
            if roots[place]._grad is not None:
                return False
        for place in self.filled:
            if roots[place]._grad is None:
                return False
        for place, at in self.own.items():
            if (grad := roots[place]._grad) is None or grad._a is not roots[at]._a:
                return False
        for place, _ in self.gradients:
            if has_hooks(roots[place]):
                return False
        return all(update.holds() for update in self.updates)

    def fills(self, own: Sequence[Tensor]) -> bool:
        """Whether the function's own tensors that must have a gradient have one, which may be another one in each call."""
        return all(own[place - self.arguments]._grad is not None for place in self.filled)

    def _with_updates(self, replaced: Callable[[Any], Any]) -> Callable[..., tuple]:
        updates = {*map(id, self.updates)}
        own = self.forward.__globals__.items()
        names = {name: replaced(value) if id(value) in updates else value for name, value in own}
        return FunctionType(self.forward.__code__, names)


def _walks(recorder: Recorder, outputs: list[Tensor]) -> tuple[dict[tuple[bool, ...], Walk], set[int]]:
    """The backward passes from each set of outputs, and the ids of the storages of what they take."""
    walks: dict[tuple[bool, ...], Walk] = {}
    before, mode = _replace({"handler": None, "recording": None}), exchange_grad(False)
    try:
        with np.errstate(all="ignore"):
            for chosen in sorted(itertools.product((False, True), repeat=len(outputs)), reverse=True):
                if any(chosen):
                    grads = [Named(any_gradient(t._a), f"g{k}") if chosen[k] else None for k, t in enumerate(outputs)]
                    walks[chosen] = walk = Walk(recorder, [edge_to(t) for t in outputs], grads)
                    walk.run()
    finally:
        exchange_grad(mode)
        _set(before)
    return walks, {each for walk in walks.values() for each in walk.storages}


def requires_gradient(t: Tensor) -> bool:
    """Whether gradients flow to a tensor."""
    edge = edge_of(t)
    return edge is not None and edge is not NOWHERE


def other_random_numbers() -> tuple:
    """Where the generators of Python and NumPy are."""
    _name, words, *rest = np.random.get_state(legacy=True)
    return random.getstate(), words.tobytes(), *rest  # type: ignore[union-attr]


def mode(casts: tuple | None = None) -> tuple:
    """What the computation of ops depends on besides their operands. casts: dtypes of autocast."""
    device = get_default_device()
    switches = state.grad, state.validates, SWITCHES.kernels, SWITCHES.winograd, THREADS.count
    return *switches, get_default_dtype(), device.type, device.index, casts
