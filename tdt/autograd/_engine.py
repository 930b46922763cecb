"""The backward engine: run the nodes of the graph from the outputs, newest first, and accumulate into the leaves.

A node's number is larger than those of its inputs, so the reachable nodes sorted by number are in topological order, with
each leaf right after the last node that has an edge to it. Nothing recurses; pending gradients are in a dictionary by node.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core.mode import state
from tdt._core.tensor import LEAF, Tensor, wrap
from tdt._kernels import add, add_to
from tdt.autograd._accumulate import accumulate, alone, run_hooks, sum_of, unshared
from tdt.autograd._graph import GradientEdge, edge_at
from tdt.autograd._node import PLAIN, Node
from tdt.autograd._parts import add_to_part
from tdt.autograd._views import edge_of

ndarray = np.ndarray
IN_PLACE = 1 << 16  # bytes of a gradient from which on an elementwise rule may write its result into it


class Task:
    """A running backward pass: its nodes and leaves in order.

    Args:
        keep: retain the graph for another backward pass.
        graph: record the backward pass itself; gradients are Tensors then.
        inputs: the edges whose gradients are requested; None accumulates into `.grad` of all leaves.
        fill: add the gradients of requested leaves to their `.grad` instead of returning them.
        ends: nodes at which the pass ends.
    """

    __slots__ = ("order", "keep", "graph", "requested", "runs", "fill", "pending", "current", "__weakref__")

    def __init__(
        self,
        roots: list[tuple[Any, int]],
        keep: bool,
        graph: bool,
        inputs: list | None,
        fill: bool,
        ends: frozenset[Any] = frozenset(),
    ):
        self.order, self.keep, self.graph, self.fill = _backward_order(roots, ends), keep, graph, fill
        self.requested: Any = None
        # Whether each node on a path to a requested edge runs; None: all run, and all leaves that they lead to are requested.
        self.runs: dict[Any, bool] | None = None
        if inputs is not None:
            self.requested = set(inputs)
            if not _all_requested(self.order, self.requested):
                self.order, self.runs = _only_towards(self.order, self.requested, fill, ends)
        # Node or leaf -> its gradient so far; for a node of several outputs a list of them.
        self.pending: dict[Any, Any] = {}
        self.current: Any = None  # the running node, in anomaly mode

    @property
    def whole(self) -> bool:
        """Whether the pass accumulates into `.grad` of all leaves."""
        return self.requested is None


def run(
    roots: list[tuple[Any, int]],
    grads: list,
    keep: bool,
    graph: bool,
    inputs: list[tuple[Any, int]] | None = None,
    fill: bool = False,
    ends: frozenset[Any] = frozenset(),
) -> list:
    """Backward from `roots` (edges) with `grads` (arrays; Tensors if `graph`).

    Without `inputs`, gradients are added to the `.grad` of the leaves. With `inputs` (edges), their gradients are returned,
    None for an input that was not reached, and no `.grad` changes. fill: gradients of leaves in `inputs` are added to their
    `.grad` instead. keep: retain the graph for another backward pass. ends: nodes of `inputs` at which the pass ends, though
    they lead to others of `inputs`.
    """
    if state.recording is not None and inputs is None and not graph:
        return state.recording.gradients.backward(run, roots, grads, keep)
    if len(roots) == 1 and not graph and not fill and _reaches_leaves_at_once(roots[0][0], grads[0]):
        found = _run_alone(*roots[0], grads[0], keep, inputs)
        if found is not None:
            return found
    task = Task(roots, keep, graph, inputs, fill, ends)
    before, state.task = state.task, task
    gpu = _backend.current_gpu() if _backend.several_gpus() else None
    try:
        for edge, g in zip(roots, grads, strict=True):
            if task.runs is None or edge[0] in task.runs:
                _arrive(task.pending, edge, g)
        captured = _walk(task, gpu is not None)
    finally:
        state.task = before
        if gpu is not None:
            gpu.use()
    return [captured.get(e) for e in inputs] if inputs is not None else []


def _reaches_leaves_at_once(node: Any, g: Any) -> bool:
    """Whether all edges of a node lead to leaves, and nothing could see the pass: no hooks, no anomaly mode, no other GPU."""
    if node.__class__ is not Node and not getattr(node, "before_leaves", False):
        return False
    if node.hooks is not None or state.anomaly is not None or node.saved.__class__ not in PLAIN:
        return False
    for edge in node.edges:
        if edge is not None:
            leaf = edge[0]
            if leaf.__class__ is Node or not isinstance(leaf, Tensor):
                return False
            if leaf._hooks or leaf._post_hooks or leaf._node_hooks is not None:
                return False
    return g.__class__ is ndarray or not _backend.several_gpus()


@np.errstate(all="ignore")
def _run_alone(node: Any, k: int, g: Any, keep: bool, inputs: list | None) -> list | None:
    """The pass from output `k` of a node whose edges lead to leaves: without a `Task`, which only hooks could see.

    Returns the gradients of `inputs`, an empty list for None; or None, where a leaf is not among them: nothing has run then.
    """
    edges = node.edges
    if inputs is not None:
        requested = {*inputs}
        if (node, k) in requested:
            return None
        for edge in edges:
            if edge is not None and edge not in requested:
                return None
    slots: list[Any] = [None] * (1 if node.outs is None else len(node.outs))
    slots[k] = g
    results = node.run(slots, False) if keep or node.__class__ is Node else node.run_last(slots, False)
    if not keep:
        node.release()
    pending: dict[Any, Any] = {}
    for edge, g in zip(edges, results, strict=True):
        if g is None or edge is None:
            continue
        if g.__class__ is not ndarray and isinstance(g, np.generic):
            g = np.asarray(g)  # array rules of 0-d arrays return NumPy's scalars
        leaf = edge[0]
        pending[leaf] = sum_of(pending[leaf], g) if leaf in pending else g
    if inputs is not None:
        return [pending.get(edge[0]) for edge in inputs]
    results = g = None  # else they would refer to the gradients, too
    for leaf in pending:
        own = alone(pending, leaf)
        accumulate(leaf, pending[leaf], own)
    return []


@np.errstate(all="ignore")
def _walk(task: Task, several_gpus: bool) -> dict[tuple, Any]:  # noqa: C901  (the inner loop of backward: a call per node costs time)
    """Run the nodes of `task` in order and accumulate into its leaves; returns the gradients of the requested edges."""
    captured: dict[tuple, Any] = {}
    anomaly, graph, runs = state.anomaly, task.graph, task.runs
    pending, requested, keep = task.pending, task.requested, task.keep
    replaces = runs is None and anomaly is None and not graph
    captures_leaves = requested is not None and not task.fill
    parts: dict[Any, Any] = {}  # see `add_to_part`
    on_gpu: Any = None if several_gpus else _backend.GpuArray
    for node in task.order:
        hooks = results = None
        if (
            node.__class__ is Node
            and (short := node.backward_plan.short_in_graph if graph else node.backward_plan.short)
            and node.hooks is None
            and anomaly is None
            and (runs is None or _runs_whole(node, runs, requested))
        ):
            g = pending.get(node)
            if g.__class__ is on_gpu and not graph:
                short = node.backward_plan.short_on_gpu
            elif not (g.__class__ is Tensor if graph else g.__class__ is ndarray and g.nbytes < IN_PLACE):
                short = None
            if short and (results := short(node, g)) is not None:
                del pending[node]
        if results is None:
            leaf = node.__class__ is not Node and isinstance(node, Tensor)
            own = leaf and not captures_leaves and alone(pending, node)
            g = pending.pop(node, None)
            if several_gpus and g is not None:
                _make_current(g)
            if leaf:
                if g is not None:
                    if node._hooks:
                        g, own = run_hooks(node._hooks, g, graph), False
                    if captures_leaves:
                        captured[(node, 0)] = g
                    elif node._node_hooks is None:
                        accumulate(node, g, own)
                    else:
                        node._node_hooks.accumulate(node, g, graph)
                continue
            slots = [g] if node.outs is None else g or [None] * len(node.outs)
            hooks, before = node.hooks, slots
            if hooks is not None:
                slots = hooks.pass_through(slots, graph)
            if runs is not None:
                # As in PyTorch, hooks change a captured gradient only if the node does not run.
                gradients = before if runs[node] else slots
                for k, gradient in enumerate(gradients):
                    if (node, k) in requested:
                        captured[(node, k)] = gradient
                if not runs[node]:
                    continue
            if hooks is not None and hooks.pre:
                slots = hooks.before(slots, graph)
            if slots[0] is None and all(g is None for g in slots):
                continue
            if replaces and node.__class__ is Node and hooks is None and node.backward_plan.op.part is not None and (
                add_to_part(node, g, pending, parts)
            ):  # fmt: skip
                continue
            if anomaly is not None:
                results = anomaly.run(node, slots, graph)
            elif runs is not None and node.__class__ is Node:
                results = node.run(slots, graph, runs)
            elif (
                replaces
                and g.__class__ is ndarray
                and g.nbytes >= IN_PLACE
                and node.__class__ is Node
                and hooks is None
            ):
                # `g` and `slots` refer to the gradient.
                results = node.run(slots, graph, None, node.backward_plan.in_place and unshared(slots, 0, 2))
            elif keep or node.__class__ is Node:
                results = node.run(slots, graph)
            else:
                results = node.run_last(slots, graph)
        if hooks is not None and hooks.post:
            results = hooks.after(results, slots, graph)
        if not keep:
            node.release()
        for i, edge in enumerate(node.edges):
            g = results[i]
            if g is None or edge is None or (runs is not None and edge[0] not in runs):
                continue
            if g.__class__ is not ndarray and isinstance(g, np.generic):
                g = np.asarray(g)  # array rules of 0-d arrays return NumPy's scalars
            if several_gpus:  # the gradient of a move between GPUs is on the other one
                _make_current(g)
            target = edge[0]
            waiting = pending.get(target)
            if waiting is None and (target.outs is None if target.__class__ is Node else isinstance(target, Tensor)):
                pending[target] = g
            elif waiting.__class__ is ndarray and g.__class__ is ndarray and g.ndim:
                if g.nbytes < IN_PLACE:
                    pending[target] = add(waiting, g)
                    continue
                alike = g.strides == waiting.strides and g.shape == waiting.shape and g.dtype is waiting.dtype
                fits = alike and waiting.flags.writeable
                waiting = None
                if fits and alone(pending, target):
                    add_to(pending[target], g)
                else:
                    pending[target] = add(pending[target], g)
            else:
                _arrive(pending, edge, g)
        results = slots = before = gradients = gradient = waiting = g = (
            None  # else they would live until the next node has run
        )
    return captured


def _runs_whole(node: Node, runs: dict[Any, bool], requested: set) -> bool:
    """Whether a node of one result runs for all of its operands, and its own gradient is not requested."""
    if not runs[node] or (node, 0) in requested:
        return False
    for edge in node.edges:  # noqa: SIM110  (a generator takes longer)
        if edge is not None and edge[0] not in runs:
            return False
    return True


def _ones_on_gpu(a: Any) -> Any:
    with _backend.on_gpu_of(a):
        return _backend.namespace(a).ones_like(a)


def _make_current(g: Any) -> None:
    """Make the GPU of a gradient, or of the first in a list, the current device."""
    if g.__class__ is list:
        g = next((each for each in g if each is not None), None)
    _backend.make_current(g)


def _arrive(pending: dict, edge: tuple, g: Any) -> None:
    """Add `g` to the pending gradient at `edge`."""
    target, k = edge
    if (target.__class__ is Node or not isinstance(target, Tensor)) and target.outs is not None:
        slots = pending.setdefault(target, [None] * len(target.outs))
        slots[k] = g if slots[k] is None else sum_of(slots[k], g)
    else:
        pending[target] = sum_of(pending[target], g) if target in pending else g


def _backward_order(roots: list[tuple[Any, int]], ends: frozenset[Any] = frozenset()) -> list:
    """The nodes that are reached before or at `ends`, newest first, and the leaves, each right after the last node that has an
    edge to it.
    """
    places: dict[Any, float] = {node: node.number for node in ends}
    stack = []
    for target, _ in roots:
        if target not in places:
            leaf = isinstance(target, Tensor)
            places[target] = math.inf if leaf else target.number
            if not leaf:
                stack.append(target)
    while stack:
        node = stack.pop()
        after = node.number - 0.5
        for edge in node.edges:
            if edge is not None:
                target = edge[0]
                if target.__class__ is Node or not isinstance(target, Tensor):
                    if target not in places:
                        places[target] = target.number
                        stack.append(target)
                elif places.get(target, math.inf) > after:
                    places[target] = after
    return sorted(places, key=places.__getitem__, reverse=True)


def _all_requested(order: list, requested: set) -> bool:
    """Whether the edges in `requested` are all the leaves of `order`, to which all of its nodes lead."""
    count = 0
    for target in order:
        if target.__class__ is Node or not isinstance(target, Tensor):
            if not any(target.edges):
                return False
        elif (target, 0) in requested:
            count += 1
        else:
            return False
    return count == len(requested)


def _only_towards(
    order: list, requested: set, fill: bool, ends: frozenset[Any] = frozenset()
) -> tuple[list, dict[Any, bool]]:
    """The part of `order` on a path to `requested`, and whether each of its nodes runs (else its gradient is only captured)."""
    targets = {target for target, _ in requested}
    runs: dict[Any, bool] = {}
    for target in reversed(order):
        if target in ends:
            runs[target] = False
            continue
        if target.__class__ is Node or not isinstance(target, Tensor):
            for edge in target.edges:
                if edge is not None and edge[0] in runs:
                    runs[target] = True
                    break
        if target in targets and target not in runs:
            runs[target] = fill
    return [target for target in order if target in runs], runs


def _no_implicit_gradient(i: int, t: Tensor) -> RuntimeError:
    """Why output `i` needs a gradient that is given."""
    if t._a.size != 1:
        return RuntimeError(
            f"grad can be implicitly created only for scalar outputs; output {i} has shape {list(t.shape)}"
        )
    return RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {t.dtype}")


def prepare(tensors: Sequence[Tensor], grad_tensors: Iterable[Any], graph: bool) -> tuple[list, list]:
    """The edges of the outputs and their gradients, which are checked for shape; None becomes 1 for a scalar output."""
    edges, grads = [], []
    for i, (t, g) in enumerate(zip(tensors, grad_tensors, strict=True)):
        if t.__class__ is not Tensor and isinstance(t, GradientEdge):
            if g is None:
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs; output {i} is a GradientEdge"
                )
            edges.append(edge_at(t))
            grads.append(g if graph else g._a)
            continue
        if g is None and (t._a.size != 1 or t._a.dtype.kind == "c") and t.requires_grad:
            raise _no_implicit_gradient(i, t)
        edge = t._edge if t._view is None else edge_of(t)
        if edge is None or edge[1] < 0:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        if g is None:
            g = wrap(np.ones_like(t._a) if t._a.__class__ is ndarray else _ones_on_gpu(t._a))
            if graph and state.recording is not None:
                state.recording.constant(g)
        elif not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        elif g._a.shape != t._a.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has a shape of {t.shape}."
            )
        elif g._a.dtype is t._a.dtype:
            pass
        elif g.dtype.is_complex != t.dtype.is_complex:
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. "
                f"Mismatch in dtype: grad_output[{i}] has a dtype of {g.dtype} and output[{i}] has a dtype of {t.dtype}."
            )
        elif g.dtype is not t.dtype:
            g = g.to(t.dtype)
        edges.append((t, 0) if edge is LEAF else edge)
        grads.append(g if graph else g._a)
    return edges, grads
