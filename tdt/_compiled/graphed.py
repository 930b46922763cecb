"""Recordings of functions whose tensors are on a GPU: CUDA graphs of a call and of its gradients.

The first calls are computed as they are; the next one is captured (`Captured`), and computed both ways. From then on the
arguments are copied to where the graph reads them, one launch computes the call, and what it leaves, results and gradients,
is copied, so that the next call does not change it. The graph of nodes that the captured call has built stays: gradients go
back through it, the first time node by node, later by a second graph.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend import to_device
from tdt._backend.device import CPU
from tdt._compiled.captured import EAGER_CALLS, Captured, with_chains
from tdt._compiled.gradient import has_hooks
from tdt._compiled.gradients import Changes
from tdt._compiled.lowering import same_bits
from tdt._compiled.program import Refusal
from tdt._compiled.recorder import place_of, reason_of
from tdt._compiled.recording import MOST_OUTPUTS, CompiledNode, other_random_numbers, requires_gradient
from tdt._compiled.structure import Structure
from tdt._compiled.values import OtherBits
from tdt._compiled.verified import Verified, edge_to
from tdt._core.mode import _replace, _set, exchange_grad, state
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt._kernels import capture_gpu, copy_gpu
from tdt._kernels._registry import SWITCHES
from tdt._kernels.chains_gpu import UnknownWorkError
from tdt._random import cuda_generator, default_generator
from tdt.autograd import _engine
from tdt.autograd._autocast import Casting
from tdt.autograd._node import Node, kind_of, number
from tdt.autograd._views import NOWHERE, edge_of

ALIGNED = 256  # bytes, to multiples of which memory of arguments is
MOST_UNALIGNED = 16  # calls with arguments at other addresses before one is captured
MOST_LAYOUTS = 4  # of gradients that a backward pass is captured for


class Watch:
    """What code that runs in its block tells a recording, though no op is recorded: what a replay would not repeat.

    Attributes:
        refusal: why the function cannot be captured; None if it can. module: the innermost module that ran then.
        cleared: the roots, by id, whose gradient was cleared before anything took a look at it.
        touches: whether gradients were read, cleared or set.
        passed: nodes whose saved values a backward pass has freed.
        updates: steps of optimizers, in order.
    """

    is_watch = True

    def __init__(self, roots: Sequence[Tensor], generators: Sequence[Any]):
        """generators: those that the function may draw from."""
        self.roots = {id(t) for t in roots}
        self._generators = [each for each in generators if each.device.type == "cpu"]
        self.refusal: str | None = None
        self.module: Any = None
        self.gradients = self
        self.cleared: set[int] = set()
        self.touches = False
        self.passed: set[Any] = set()
        self.updates: list[Any] = []
        self._read: set[int] = set()

    def __enter__(self) -> Watch:
        self._before = _replace({"recording": self})
        self._before_it = self._random_numbers(), default_generator.engine.seeds
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _set(self._before)
        drawn, seeds = self._before_it
        if default_generator.engine.seeds != seeds:
            self.refuse("it seeds the generator of random numbers")
        elif self._random_numbers() != drawn:
            self.refuse("it draws random numbers on the CPU")

    def _random_numbers(self) -> tuple:
        return *other_random_numbers(), *(each.state_array().tobytes() for each in self._generators)

    def refuse(self, reason: str) -> None:
        """Note why the function cannot be captured. It goes on running."""
        if self.refusal is None:
            place, self.module = place_of()
            self.refusal = f"{reason}{place}"

    def check(self, check: Any, array: Any) -> None:
        """Take note of a check of a tensor's values, for which they were read."""
        self.refuse("values of a tensor are checked, for which the GPU is waited for")

    def constant(self, created: Tensor) -> None:
        """A tensor that is created from numbers has the same in each call."""

    def computed(self, function: Any, arrays: Sequence[Any], result: Any) -> None:
        """What a function computes of arrays is captured as ops are."""

    def wrote(self, x: Tensor, result: Tensor) -> None:
        """Writes are captured as ops are."""

    def without_recording(self, function: Any, *args: Any) -> Any:
        """Call a function that tells nothing."""
        before = _replace({"recording": None})
        try:
            return function(*args)
        finally:
            _set(before)

    def clear(self, t: Tensor) -> None:
        """Take note that the gradient of a tensor was set to None."""
        self.touches = True
        if id(t) not in self._read:
            self.cleared.add(id(t))

    def reads(self, t: Tensor) -> None:
        """Take note that the gradient of a tensor was looked at."""
        self.touches = True
        if id(t) not in self.cleared:
            self._read.add(id(t))

    def backward(self, run: Callable[..., list], edges: list, grads: list, keep: bool) -> list:
        """Run a backward pass to the leaves, as `_engine.execute`."""
        self.touches = True
        self._read |= self.roots - self.cleared
        if not keep:
            self.passed.update(each for each in _engine._backward_order(edges) if each.__class__ is Node)
        return self.without_recording(run, edges, grads, keep, False)

    def update(self, update: Any) -> None:
        """Take note of an optimizer's step, which was just taken."""
        self.touches = True
        self._read |= self.roots - self.cleared
        self.updates.append(update)


class Lease:
    """The use of the memory that a captured call has saved for its backward pass."""

    __slots__ = ("__weakref__",)


class Graphed(Verified):
    """A `Recording` of calls on a GPU. See there for what it is called with, and for attributes of the same names.

    Attributes:
        written: (place, times) of the roots that a call writes to.
        gradients: (place, the array of the captured call) of the roots whose gradient it sets; None where it clears it.
        own: the arrays of the gradients that it finds, reads or writes to, by the place of the root.
    """

    is_small = False
    has_gradients = is_graph = True
    filled = ()

    def __init__(self, function: Callable[[], Any], roots: Sequence[Tensor], arguments: int, title: str, gpu: int,
                 generators: Sequence[Any]):  # fmt: skip
        self.arguments, self.title, self.gpu, self.source = arguments, title, gpu, f"a CUDA graph of {title}"
        self.verified, self.calls = False, 1
        self.captured: Captured | None = None
        self.mode, self.thread, self.unaligned = _mode(gpu), threading.get_ident(), 0
        self.generators = [default_generator, cuda_generator(gpu), *generators]
        _check(roots, gpu)
        with Watch(roots, self.generators) as watch:
            self.result = function()
        if watch.refusal is not None:
            raise Refusal(watch.refusal, watch.module)
        self.written, self.gradients, self.updates, self.own = [], [], [], {}
        self.cleared, self.updated = [], set()
        self.empty: list[int] = []
        self._lease: Callable[[], Lease | None] = lambda: None

    def takes(self, roots: Sequence[Tensor]) -> bool:
        """Whether the GPU and its switches, gradients, their hooks, and the optimizers let the graph be launched."""
        if _mode(self.gpu) != self.mode:
            return False
        for place in self.empty:
            if roots[place]._grad is not None:
                return False
        for place, array in self.own.items():
            grad = roots[place]._grad
            if grad is None or not is_same_memory(grad._a, array):
                return False
        return not any(has_hooks(roots[place]) for place, _ in self.gradients) and all(
            update.holds() for update in self.updates
        )

    def fills(self, own: Sequence[Tensor]) -> bool:
        """Whether the GPU and its switches are as they were."""
        return _mode(self.gpu) == self.mode

    @property
    def is_leased(self) -> bool:  # type: ignore[override]
        """Whether the backward pass of a call is to come that has the memory of the graph."""
        return self._lease() is not None

    def is_free(self, arguments: Sequence[Tensor], own: Sequence[Tensor]) -> bool:
        """Whether a call can be launched now.

        Not in another thread, not during a capture, not while the backward pass of an earlier call is to come, and not if the
        function's own tensors share memory with arguments, which are copied before anything is computed.
        """
        if capture_gpu.current() is not None or self.is_leased or threading.get_ident() != self.thread:
            return False
        return not any(_backend.may_overlap(t._a, other._a) for t in arguments for other in own)

    def verify(self, function: Callable[..., Any], roots: tuple[Tensor, ...]) -> tuple[Any, str | None, Tensor | None]:
        """Compute a call as it is; of those after the first ones, one both ways, as `Verified.verify`.

        Where sums have no particular order, as those of `scatter_add` on a GPU, bits may differ.
        """
        if self.calls < EAGER_CALLS:
            self.calls += 1
            return function(), None, None
        if self.captured is None:
            if self.unaligned < MOST_UNALIGNED and any(t._a.data.ptr % ALIGNED for t in roots[: self.arguments]):
                self.unaligned += 1  # products of matrices may choose another algorithm than for the copies
                return function(), None, None
            with_chains(functools.partial(self._capture, function, roots))
        before = _backend.unordered_sums()
        for update in self.updates:
            update.read_skips()
        result, difference, tensor = super().verify(function, roots)
        if isinstance(difference, OtherBits) and _backend.unordered_sums() != before:
            difference = tensor = None  # two calls of the function may differ, too
        return result, difference, tensor

    def __call__(self, roots: Sequence[Tensor], forward: Any = None) -> Any:
        """The function's result for a call that is like the captured one, with these roots."""
        captured: Any = self.captured
        for place in self.cleared:
            roots[place]._grad = None
        captured.replay(roots[: self.arguments])
        for place, times in self.written:
            roots[place]._st.version += times
        for place in self.own_written:
            roots[place]._grad._st.bump_version()  # type: ignore[union-attr]
        with _backend.gpu().cuda.Device(self.gpu):
            outputs = [*map(wrap, copy_gpu.copies([t._a for t in self.outputs]))]
            grads = iter(self.set_gradients() if self.gradients else ())
        for place, a in self.gradients:
            roots[place]._grad = None if a is None else wrap(next(grads))
        if self.differentiable:
            edges = [edge_to(roots[place]) for place in self.reached]
            watched = [(roots[k]._a, roots[k]._st, roots[k]._st.version) for k in self.saved_roots]
            lease = Lease()
            self._lease = weakref.ref(lease)
            leaves = all(isinstance(edge[0], Tensor) for edge in edges)
            node = CompiledNode(self, edges, (lease,), None, watched, leaves)  # type: ignore[arg-type]
            for k, output in enumerate(self.differentiable):
                outputs[output]._edge = node, k
        for k in self.freed:
            node = CompiledNode(self, [], (), None, [], False)  # type: ignore[arg-type]
            node.release()
            outputs[k]._edge = node, 0
        return self.structure.filled(outputs, roots)

    def _capture(self, function: Callable[..., Any], roots: Sequence[Tensor], chains: bool) -> None:
        """Capture a call, which is not computed. Refusal if it cannot be. chains: as of `Captured`."""
        own, first = roots[self.arguments :], number()
        before = [(t._grad, t._st.version, t._a, edge_of(t)) for t in own]
        grads = [None if t._grad is None else t._grad._st.version for t in own]
        drawn = [g.state_array() for g in self.generators]
        casting: Any = state.handler if state.handler.__class__ is Casting else None
        casts = None if casting is None else casting.casts
        if casts is not None:  # those of before are no part of the graph, and those in it none of what follows
            casting.casts = {}
        watches: list[Watch] = []
        static: list[Tensor] = []

        def call(places: list[Tensor]) -> Any:
            static[:] = *places, *own
            with Watch(static, self.generators) as watch:
                watches.append(watch)
                return function(places)

        try:
            required = [*map(requires_gradient, roots)]
            captured = Captured(call, roots[: self.arguments], self.gpu, required, chains=chains)
            if any((g.state_array() != old).any() for g, old in zip(self.generators, drawn, strict=True)):
                raise Refusal("it seeds a generator of random numbers, or sets its place")  # a capture draws nothing
            self._take_note(captured, watches[0], static, before, grads)
            self._take_results(captured, watches[0], static, first)
        except (Refusal, UnknownWorkError):
            raise
        except Exception as error:
            if watches and watches[0].refusal is not None:
                raise Refusal(watches[0].refusal, watches[0].module) from error
            reason, module = reason_of(error)
            raise Refusal(f"it cannot be captured as a CUDA graph: {reason}", module) from error
        finally:
            if casting is not None:
                casting.casts = casts
            for g, old in zip(self.generators, drawn, strict=True):
                g.set_state_array(old)
            for t, (grad, version, _, _), of_grad in zip(own, before, grads, strict=True):
                t._grad, t._st.version = grad, version
                if grad is not None:
                    grad._st.version = of_grad  # type: ignore[assignment]
        captured.result = None
        self.captured = captured

    def _take_note(self, captured: Captured, watch: Watch, static: list[Tensor], before: list, grads: list) -> None:
        """Take note of what the captured call changes."""
        if watch.refusal is not None:
            raise Refusal(watch.refusal, watch.module)
        if any(place._st.version for place in captured.places):
            raise Refusal("an argument is written to in place")
        own = static[self.arguments :]
        if any(t._a is not a or edge_of(t) is not edge for t, (_, _, a, edge) in zip(own, before, strict=True)):
            raise Refusal("a parameter or buffer is replaced, or becomes the result of an op")
        self.written = [
            (self.arguments + k, t._st.version - version)
            for k, (t, (_, version, _, _)) in enumerate(zip(own, before, strict=True))
            if t._st.version != version
        ]
        self.updates = watch.updates
        if not all(update.holds() for update in self.updates):
            raise Refusal("an optimizer has hooks around its step, or its step is differentiable")
        none = [None] * self.arguments
        self._take_gradients(watch, static, [*none, *(grad for grad, _, _, _ in before)], [*none, *grads])

    def _take_gradients(self, watch: Watch, static: list[Tensor], had: list, versions: list) -> None:
        """Take note of what the captured call does to gradients. had, versions: of the roots, the gradients before it."""
        self.own_written: list[int] = []
        for place, (t, old, version) in enumerate(zip(static, had, versions, strict=True)):
            if t._grad is not old:
                if t._grad is not None and not _is_there(t._grad._a, self.gpu):
                    raise Refusal("a gradient is not a dense tensor on the GPU")
                if has_hooks(t):
                    raise Refusal("a tensor that a backward pass leads to has hooks")
                self.gradients.append((place, None if t._grad is None else t._grad._a))
            elif old is not None and old._st.version != version:
                self.own_written.append(place)
        self.set_gradients = copy_gpu.Copies([a for _, a in self.gradients if a is not None])
        if not (watch.touches or self.gradients or self.own_written or self.updates):
            return
        for place, (t, old) in enumerate(zip(static, had, strict=True)):
            if id(t) in watch.cleared:
                self.cleared.append(place)
            elif place < self.arguments and not requires_gradient(t):
                continue
            elif old is None:
                self.empty.append(place)
            else:
                self.own[place] = old._a

    def _take_results(self, captured: Captured, watch: Watch, static: list[Tensor], first: int) -> None:
        """Take note of the results, and of the graph of nodes that leads to them."""
        self.structure = Structure(captured.result, static)
        self.outputs = self.structure.tensors
        self.structure.tensors = []
        known = [t._a for t in static] + [a for _, a in self.gradients if a is not None]
        for t in self.outputs:
            if not _is_there(t._a, self.gpu):
                raise Refusal("a result is not a dense tensor on the GPU")
            if any(_backend.may_overlap(t._a, other) for other in known):
                raise Refusal("a result shares memory with an argument, a parameter, a buffer or another result")
            if edge_of(t) is LEAF:
                raise Refusal("a result is a new leaf of the graph")
            known.append(t._a)
        edges = [edge_of(t) for t in self.outputs]
        self.differentiable = [k for k, e in enumerate(edges) if e is not None and e is not NOWHERE]
        self.freed: list[int] = []
        if self.gradients or self.own_written:
            self.freed, self.differentiable = self.differentiable, []
            if not all(edges[k][0] in watch.passed for k in self.freed):  # type: ignore[index]
                raise Refusal("a result has a graph that no backward pass has freed, beside gradients that are set")
        if len(self.differentiable) > MOST_OUTPUTS:
            raise Refusal(f"more than {MOST_OUTPUTS} results have gradients")
        self.kinds = [kind_of(self.outputs[k]) for k in self.differentiable]
        self.backwards = Backwards(self)
        storages = self._reach(static, first)
        self.saved_roots = [k for k, t in enumerate(static) if k >= self.arguments and id(t._st) in storages]
        if not self.differentiable:
            for t in self.outputs:
                t._edge = None  # the graph of nodes is not needed
        self.static = static

    def _reach(self, static: list[Tensor], first: int) -> set[int]:
        """Find the roots that gradients of the results reach, in order; the ids of the storages that nodes have saved.

        Versions of these are no longer compared: the graph writes to them, and `CompiledNode` looks at those of the roots.
        """
        places: dict[Any, int] = {}
        for k, t in enumerate(static):
            if requires_gradient(t):
                target, _ = edge = edge_to(t)
                places[target if isinstance(target, Tensor) else edge] = k
        reached: dict[int, None] = {}
        storages: set[int] = set()
        stack, visited = [edge_to(self.outputs[k])[0] for k in self.differentiable], set[int]()
        while stack:
            node = stack.pop()
            if id(node) in visited:
                continue
            visited.add(id(node))
            if node.saved.__class__ not in (list, tuple):
                raise Refusal(f"{node.name()}: what it saves is kept by checkpointing or by hooks")
            if node.hooks is not None:
                raise Refusal(f"{node.name()} has hooks")
            if any(storage is not None and storage.version != version for _, storage, version in node.saved):
                raise Refusal(f"{node.name()}: a tensor that it has saved was modified in place")
            storages.update(id(storage) for _, storage, _ in node.saved if storage is not None)
            node.saved = [(value, None, 0) for value, _, _ in node.saved]
            for edge in node.edges:
                if edge is None:
                    continue
                place = places.get(edge[0] if isinstance(edge[0], Tensor) else edge)
                if place is not None:
                    reached[place] = None
                elif edge[0].__class__ is not Node:
                    kind = (
                        "a tensor that is no argument, parameter or buffer"
                        if isinstance(edge[0], Tensor)
                        else edge[0].name()
                    )
                    raise Refusal(f"gradients flow to {kind}")
                elif edge[0].number < first:
                    raise Refusal(f"gradients flow to {edge[0].name()}, which was recorded before the call")
                else:
                    stack.append(edge[0])
        self.reached = [*reached]
        return storages

    def _changes(self, roots: Sequence[Tensor], updates: list[Any], omitted: set[int]) -> Changes:
        changes = super()._changes(roots, updates, omitted)
        changes.states += [roots[place]._grad._a for place in self.own_written]  # type: ignore[union-attr]
        return changes


class Backwards(dict):
    """The backward passes of a captured call: (function of the lease and the gradients, places) by which outputs have one."""

    def __init__(self, recording: Graphed):
        self._recording = weakref.ref(recording)

    def __missing__(self, chosen: tuple[bool, ...]) -> tuple[Callable[..., list], list[int]]:
        recording: Any = self._recording()
        found = self[chosen] = Backward(recording, chosen), [*range(len(recording.reached))]
        return found


class Backward:
    """The gradients of the roots that are reached from some outputs of a captured call, whose saved values are in memory.

    The second time that gradients lie in some way they are computed both ways, and the pass is captured if the bits agree.
    """

    def __init__(self, recording: Graphed, chosen: tuple[bool, ...]):
        self._recording, self._chosen = weakref.ref(recording), chosen
        self._calls: dict[tuple, Any] = {}  # by the strides of gradients: how many, what `_captured` gave

    def __call__(self, values: list) -> list:
        """The gradients of the roots that are reached. values: the lease of the memory, and the gradients of the outputs."""
        _lease, *grads = values
        recording: Any = self._recording()
        gradients = [g for g, each in zip(grads, self._chosen, strict=True) if each]
        key = tuple([g.strides for g in gradients])
        found = self._calls.get(key, 0)
        if found.__class__ is not tuple:
            results = self._eager(recording, gradients)
            if (
                found is False
                or capture_gpu.current() is not None
                or not all(_is_there(g, recording.gpu) for g in gradients)
            ):
                return results
            if found == 0:
                self._calls[key] = 1 if len(self._calls) < MOST_LAYOUTS else False
                return results
            self._calls[key] = self._captured(recording, gradients, results)
            return results
        captured, copies = found
        captured.replay([*map(wrap, gradients)])
        with _backend.gpu().cuda.Device(recording.gpu):
            copied = iter(copies())
        return [None if a is None else next(copied) for a in captured.result]

    def _eager(self, recording: Graphed, gradients: list) -> list:
        outputs = [recording.outputs[k] for k, each in zip(recording.differentiable, self._chosen, strict=True) if each]
        inputs = [recording.static[place] for place in recording.reached]
        edges = [*map(edge_to, inputs)]
        ends = frozenset([node for node, _ in edges if not isinstance(node, Tensor)])
        hooks, mode = [(t, t._hooks, t._node_hooks) for t in inputs], exchange_grad(False)
        try:
            for t in inputs:
                t._hooks = t._node_hooks = None
            return _engine.execute([*map(edge_to, outputs)], gradients, True, False, edges, ends=ends)
        finally:
            exchange_grad(mode)
            for t, own, own_of_node in hooks:
                t._hooks, t._node_hooks = own, own_of_node

    def _captured(self, recording: Graphed, gradients: list, results: list) -> Any:
        """The captured pass, and copies of its results; False where it cannot be captured, or has other bits than `results`."""
        before = _backend.unordered_sums()
        run = lambda places: self._eager(recording, [t._a for t in places])  # noqa: E731
        try:
            captured = with_chains(
                lambda chains: Captured(
                    run, [*map(wrap, gradients)], recording.gpu, after=recording.captured, chains=chains
                )
            )
        except RuntimeError:  # it reads from the GPU, and stays as it is
            return False
        captured.replay([*map(wrap, gradients)])
        agree = same_bits if _backend.unordered_sums() == before else _are_close
        pairs = zip(results, captured.result, strict=True)
        agrees = all((a is None) is (b is None) and (a is None or agree(a, b)) for a, b in pairs)
        with _backend.gpu().cuda.Device(recording.gpu):
            return (captured, copy_gpu.Copies([a for a in captured.result if a is not None])) if agrees else False


def _are_close(a: Any, b: Any) -> bool:
    """Whether two arrays may be sums of the same numbers in another order."""
    a, b = (to_device(each, CPU).astype(np.complex128) for each in (a, b))
    return bool(np.allclose(a, b, rtol=0, atol=1e-2 * np.abs(a).max(initial=0), equal_nan=True))


def gpu_of(tensors: Sequence[Tensor]) -> int | None:
    """The GPU of the first of the tensors that is on one; None if all are elsewhere."""
    return next((t._a.device.id for t in tensors if is_on_gpu(t._a)), None)


def is_on_gpu(array: Any) -> bool:
    """Whether an array is one of CuPy's."""
    return _backend.is_array(array) and not hasattr(array, "ctypes")


def _is_there(array: Any, gpu: int) -> bool:
    return is_on_gpu(array) and array.device.id == gpu


def _check(roots: Sequence[Tensor], gpu: int) -> None:
    """Refuse tensors that are not on the GPU, and arguments that share memory with other roots."""
    for t in roots:
        if not is_on_gpu(t._a):
            raise Refusal("it reads, or is called with, tensors on a GPU and others that are not")
        if t._a.device.id != gpu:
            raise Refusal("it reads, or is called with, tensors on several GPUs")
    if len({id(t._a) for t in roots}) < len(roots):
        raise Refusal("two tensors that it reads, or is called with, are one array")


def _mode(gpu: int) -> tuple:
    """What the computation of ops on a GPU depends on besides `recording.mode`."""
    current = _backend.gpu().cuda.Device().id
    return current, SWITCHES.tf32, SWITCHES.cudnn, SWITCHES.conv_tf32


def is_same_memory(a: Any, b: Any) -> bool:
    """Whether an array has the memory of one on a GPU, and lies there as it does."""
    return a is b or (
        is_on_gpu(a) and a.data.ptr == b.data.ptr and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    )
