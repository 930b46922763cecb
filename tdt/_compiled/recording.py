"""One recording of a function for one kind of call: its programs, and the graph node of their gradients."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tdt._backend import device_of, to_device
from tdt._backend.device import get_default_device
from tdt._compiled.again import Again
from tdt._compiled.fusion import Fusion
from tdt._compiled.gradient import Named, Walk, in_order
from tdt._compiled.gradients import Changes, has_hooks, identity, is_unchanged
from tdt._compiled.native import Native, may_hold
from tdt._compiled.program import Refusal
from tdt._compiled.recorder import Recorder
from tdt._compiled.structure import Structure
from tdt._compiled.values import OtherBits, Values
from tdt._core.dtype import get_default_dtype
from tdt._core.errors import freed, overwritten
from tdt._core.mode import _replace, _set, exchange_grad, state
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import LEAF, Storage, Tensor, wrap
from tdt._kernels._references import References
from tdt._kernels._registry import SWITCHES
from tdt._kernels._threads import THREADS
from tdt._random import default_generator
from tdt.autograd import _engine
from tdt.autograd._graph import GraphNode
from tdt.autograd._node import kind_of, number
from tdt.autograd._views import NOWHERE, edge_of

ndarray = np.ndarray
ERRORS = (ArithmeticError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)
NO_OPS = "it calls no ops"
MOST_COPIED = 1 << 22  # bytes of parameters whose update is computed both ways when a recording is compared
COPIED = 1 << 14  # bytes of the largest parameter that is copied, to compute values again of what it was
MOST_OUTPUTS = 3  # with gradients: there is a backward program for each set of them
_new = object.__new__


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
        lie_alike = all(g is None or g.strides == like for g, like in zip(grads, self.recording.lies, strict=True))
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

    def __call__(self, roots: Sequence[Tensor], forward: Callable[..., tuple] | None = None) -> Any:
        """The function's result for a call that is like the recorded one, with these roots. forward: instead of its program."""
        raise NotImplementedError

    def verify(self, function: Callable[[], Any], roots: Sequence[Tensor]) -> tuple[Any, str | None, Tensor | None]:
        """Compute a call both ways. Returns the function's own result, what differs (None if nothing does), and of which root.

        All that the function changes is changed once. Where copies of parameters and states would take much memory, the program
        leaves out the optimizers' steps: functions of parameters and gradients, which are compared, and the same ones both ways.
        """
        omitted = set() if self.verified else self.updated
        if sum(roots[place]._a.nbytes for place in omitted) < MOST_COPIED:
            omitted = set()
        updates = [] if omitted else self.updates
        changes = self._changes(roots, updates, omitted)
        before, grads = changes.now(), [identity(t._grad) for t in roots]
        difference, tensor = None, None
        try:  # first, so that its graph is gone when the function's own takes memory
            ours, after = self._computed(roots, self._without_updates() if omitted else None), changes.values()
        except ERRORS as error:  # which the function does not raise
            difference = f"an error, {type(error).__name__}: {error}"
        finally:
            changes.put(before)
            del before  # copies, too
        result = function()
        set_ = {place for place, _ in self.gradients}
        places = enumerate(zip(roots, grads, strict=True))
        if not all(k in set_ or is_unchanged(t._grad, old, k in self.own) for k, (t, old) in places):
            return result, "it sets other gradients", None
        if difference is None:
            difference, tensor = self._differs(result, ours, roots)
        if difference is None:
            difference, tensor = changes.difference(after)
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

    def _without_updates(self) -> Callable[..., tuple]:
        """What computes a call without the steps of optimizers, in `updated`."""
        raise NotImplementedError

    def _computed(
        self, roots: Sequence[Tensor], forward: Callable[..., tuple] | None
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
            gradients = [_any_gradient(t._a) for t in outputs]
            ends = frozenset([node for node, _ in inputs if not isinstance(node, Tensor)])
            others = _engine.run([edge_to(t) for t in outputs], gradients, keep, False, inputs, ends=ends)
        finally:
            exchange_grad(mode)
            for t, own, own_of_node in hooks:
                t._hooks, t._node_hooks = own, own_of_node
        for place, g in zip(self.reached, others, strict=True):
            if g is not None and place not in found:
                found[place] = Values(g)
        return [found.get(place) for place in self.reached]


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

    def _build(self, recorder: Recorder) -> None:
        """Make the programs' functions and what is needed around them."""
        self.structure = Structure(self.result, self.roots)
        outputs = self.structure.tensors
        names = [recorder.name_of(t._a) for t in outputs]
        if None in names:
            raise Refusal("a result was computed or created without an op")
        for k, t in enumerate(outputs):
            if any(np.may_share_memory(t._a, other) for other in (*self.arrays, *[o._a for o in outputs[:k]])):
                raise Refusal("a result shares memory with an argument, a parameter, a buffer or another result")
            if edge_of(t) is LEAF:
                raise Refusal("a result is a new leaf of the graph")
        edges = [edge_of(t) for t in outputs]
        self.differentiable = [k for k, e in enumerate(edges) if e is not None and e is not NOWHERE]
        self.freed: list[int] = []  # results whose graph a backward pass has freed
        if recorder.gradients.names:
            self.freed, self.differentiable = self.differentiable, []
            if not all(recorder.gradients.is_freed(outputs[k]) for k in self.freed):
                raise Refusal("a result has a graph that no backward pass has freed, beside gradients that are set")
        self.kinds = [kind_of(outputs[k]) for k in self.differentiable]
        self.lies = [_any_gradient(outputs[k]._a).strides for k in self.differentiable]
        if len(self.differentiable) > MOST_OUTPUTS:
            raise Refusal(f"more than {MOST_OUTPUTS} results have gradients")
        walks, storages = _walks(recorder, [outputs[k] for k in self.differentiable])
        self.saved_roots = [k for k, t in enumerate(self.roots) if id(t._st) in storages]
        self.saved_outputs = [k for k, t in enumerate(outputs) if id(t._st) in storages]
        unwatched = [recorder.places.of(t._a) for t in (*self.roots, *outputs) if id(t._st) not in storages]

        def may_keep(name: str) -> bool:
            """Whether nobody can change an array, or the change would be noticed."""
            place = recorder.places.by_name.get(name)
            return place is not None and not any(map(place.shares, unwatched))

        saved = list(dict.fromkeys(name for walk in walks.values() for name in walk.saved))
        size = sum(place.nbytes for place in recorder.places.by_name.values())
        count = len(recorder.program.statements)
        is_large = not may_hold(size, count)  # those of other programs stay where they are
        self.updated = self._updated(recorder)
        program = recorder.program
        unwritten = recorder.unwritten(())

        def may_copy(name: str) -> bool:
            """Whether a copy of a root takes little memory, and is as good as what it was when it was read."""
            return name.startswith("r") and recorder.places.by_name[name].nbytes <= COPIED and unwritten(name)

        again = Again(program, program.statements, saved, names, unwritten, may_keep, may_copy, is_large)  # type: ignore[arg-type]
        saved = [*again.taken]
        self._differentiate(walks, again, saved)
        names += [name for _, name in self.gradients if name is not None]
        if is_large:
            self._save_less(recorder, names)  # type: ignore[arg-type]
        parameters = [f"r{k}" for k in range(len(self.roots))]
        results = f"({''.join(f'{name}, ' for name in names)}), ({''.join(f'{name}, ' for name in saved)})"
        recorder.program.statements = Fusion(recorder.program, [*names, *saved]).statements  # type: ignore[list-item]
        self.source = recorder.program.source(parameters, results)
        self.forward = recorder.program.compiled(parameters, results, self.title)
        own, outs = parameters[self.arguments :], [*map(str, names)]
        self.native = Native(
            recorder.program, parameters, own, outs, size, count, self.forward, self.generators, saved=saved
        )
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

    def unfused(self, chosen: tuple[bool, ...]) -> Callable[..., Any]:
        """A backward program whose arrays lie as they do in a pass of the function's own, whatever the gradients' strides."""
        return self._unfused[chosen]()

    def depends_on_layout(self, chosen: tuple[bool, ...], grads: Sequence[Any]) -> bool:
        """Whether arrays of a pass may lie in another order than in the recorded one, and sums be rounded in another way."""
        return chosen in self._turned or not all(g is None or in_order(g) for g in grads)

    def __call__(self, roots: Sequence[Tensor], forward: Callable[..., tuple] | None = None) -> Any:
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
        outputs = []
        for array in found:
            t = _new(Tensor)
            t._a = array
            t._st = Storage()
            t._edge = t._view = t._grad = None
            outputs.append(t)
        if self.gradients:
            self._set_gradients(roots, outputs)
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

    def _set_gradients(self, roots: Sequence[Tensor], outputs: list[Tensor]) -> None:
        """Set the gradients of the roots, the last of the program's results, and take them from the others."""
        at = self.outputs
        for place, name in self.gradients:
            if name is None:
                roots[place]._grad = None
            else:
                roots[place]._grad, at = outputs[at], at + 1
        del outputs[self.outputs :]

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

    def _without_updates(self) -> Callable[..., tuple]:
        """`forward` without the steps of optimizers."""
        updates = {*map(id, self.updates)}
        names = {name: _nothing if id(value) in updates else value for name, value in self.forward.__globals__.items()}
        return FunctionType(self.forward.__code__, names)


def _walks(recorder: Recorder, outputs: list[Tensor]) -> tuple[dict[tuple[bool, ...], Walk], set[int]]:
    """The backward passes from each set of outputs, and the ids of the storages of what they take."""
    walks: dict[tuple[bool, ...], Walk] = {}
    before, mode = _replace({"handler": None, "recording": None}), exchange_grad(False)
    try:
        with np.errstate(all="ignore"):
            for chosen in sorted(itertools.product((False, True), repeat=len(outputs)), reverse=True):
                if any(chosen):
                    grads = [Named(_any_gradient(t._a), f"g{k}") if chosen[k] else None for k, t in enumerate(outputs)]
                    walks[chosen] = walk = Walk(recorder, [edge_to(t) for t in outputs], grads)
                    walk.run()
    finally:
        exchange_grad(mode)
        _set(before)
    return walks, {each for walk in walks.values() for each in walk.storages}


def _nothing(*_: Any) -> None:
    pass


def requires_gradient(t: Tensor) -> bool:
    """Whether gradients flow to a tensor."""
    edge = edge_of(t)
    return edge is not None and edge is not NOWHERE


def other_random_numbers() -> tuple:
    """Where the generators of Python and NumPy are."""
    _name, words, *rest = np.random.get_state(legacy=True)
    return random.getstate(), words.tobytes(), *rest  # type: ignore[union-attr]


def edge_to(t: Tensor) -> Any:
    """The edge to a tensor that requires gradients, as backward passes have it."""
    edge = edge_of(t)
    return (t, 0) if edge is LEAF else edge


def _any_gradient(like: Any) -> Any:
    """A gradient of no particular values, which lies as an array."""
    values = np.random.default_rng(like.size).uniform(-1, 1, like.shape)
    found = np.asarray(values.astype(like.dtype))
    if not isinstance(like, (ndarray, np.generic)):
        return to_device(found, device_of(like))
    alike = np.empty_like(like, subok=False)
    alike[...] = found
    return alike


def mode(casts: tuple | None = None) -> tuple:
    """What the computation of ops depends on besides their operands. casts: dtypes of autocast."""
    device = get_default_device()
    switches = state.grad, state.validates, SWITCHES.kernels, SWITCHES.winograd, THREADS.count
    return *switches, get_default_dtype(), device.type, device.index, casts
