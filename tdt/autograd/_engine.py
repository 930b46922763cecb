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
from tdt.autograd._accumulate import accumulate, alone, is_sparse, run_hooks, sum_of, unshared
from tdt.autograd._graph import GradientEdge, edge_at
from tdt.autograd._node import PLAIN, Node
from tdt.autograd._parts import add_to_part
from tdt.autograd._views import edge_of

ndarray = np.ndarray
IN_PLACE = 1 << 16  # bytes of a gradient from which on an elementwise rule may write its result into it


class GraphTask:
    """A running backward pass: its nodes and leaves in order, and the gradients on their way to them.

    Args:
        roots: the edges at which the pass begins.
        keep_graph: retain the graph for another backward pass.
        create_graph: record the backward pass itself; gradients are Tensors then.
        inputs: the edges whose gradients are requested; None accumulates into `.grad` of all leaves.
        accumulate_grad: add the gradients of requested leaves to their `.grad` instead of capturing them.
        ends: nodes at which the pass ends.

    Attributes:
        order: the nodes and leaves that are reached, in the order in which they run.
        runs: whether each node on a path to a requested edge runs, or else is captured alone (PyTorch's `exec_info`); None: all
            run, and all leaves that they lead to are requested.
        pending: by node or leaf its gradient so far (PyTorch's input buffers); for a node of several outputs a list of them.
        captured: the gradients of requested edges.
        parts: see `add_to_part`.
        linked: nodes and leaves behind the op `linked`, whose gradients are 0 unless some arrive; see `_pass_zeros`.
        current: the running node, in anomaly mode.
    """

    __slots__ = ("order", "keep_graph", "create_graph", "requested", "captures_leaves", "runs", "pending", "captured", "parts",
                 "linked", "anomaly", "several_gpus", "current", "_shows_zeros", "__weakref__")  # fmt: skip

    def __init__(
        self,
        roots: list[tuple[Any, int]],
        keep_graph: bool,
        create_graph: bool,
        inputs: list | None,
        accumulate_grad: bool,
        ends: frozenset[Any] = frozenset(),
    ):
        self.order, self.keep_graph, self.create_graph = _backward_order(roots, ends), keep_graph, create_graph
        self.requested: Any = None
        self.runs: dict[Any, bool] | None = None
        if inputs is not None:
            self.requested = set(inputs)
            if not _all_requested(self.order, self.requested):
                self.order, self.runs = _only_towards(self.order, self.requested, accumulate_grad, ends)
        self.captures_leaves = inputs is not None and not accumulate_grad
        self.pending: dict[Any, Any] = {}
        self.captured: dict[tuple, Any] = {}
        self.parts: dict[Any, Any] = {}
        self.linked: set[Any] = set()
        self.anomaly, self.several_gpus = state.anomaly, _backend.several_gpus()
        self.current: Any = None
        self._shows_zeros: bool | None = None

    @property
    def whole(self) -> bool:
        """Whether the pass accumulates into `.grad` of all leaves."""
        return self.requested is None

    @property
    def shows_zeros(self) -> bool:
        """Whether nodes show the zeros that pass them: in a graph, to hooks, to functions of the user, or as requested."""
        if self._shows_zeros is None:
            nodes = [target for target in self.order if not isinstance(target, Tensor)]
            requested = not all(isinstance(target, Tensor) for target, _ in self.requested or ())
            calls = any(node.hooks is not None or node.__class__ is not Node for node in nodes)
            self._shows_zeros = self.create_graph or requested or calls
        return self._shows_zeros


def execute(
    roots: list[tuple[Any, int]],
    grads: list,
    keep_graph: bool,
    create_graph: bool,
    inputs: list[tuple[Any, int]] | None = None,
    accumulate_grad: bool = False,
    ends: frozenset[Any] = frozenset(),
) -> list:
    """Backward from `roots` (edges) with `grads` (arrays; Tensors if `create_graph`).

    Without `inputs`, gradients are added to the `.grad` of the leaves. With `inputs` (edges), their gradients are returned,
    None for an input that was not reached, and no `.grad` changes. accumulate_grad: gradients of leaves in `inputs` are added
    to their `.grad` instead. keep_graph: retain the graph for another backward pass. ends: nodes of `inputs` at which the pass
    ends, though they lead to others of `inputs`.
    """
    if state.recording is not None and inputs is None and not create_graph:
        return state.recording.gradients.backward(execute, roots, grads, keep_graph)
    if len(roots) == 1 and not (create_graph or accumulate_grad) and _reaches_leaves_at_once(roots[0][0], grads[0]):
        found = _run_alone(*roots[0], grads[0], keep_graph, inputs)
        if found is not None:
            return found
    task = GraphTask(roots, keep_graph, create_graph, inputs, accumulate_grad, ends)
    before, state.task = state.task, task
    gpu = _backend.current_gpu() if task.several_gpus else None
    try:
        for edge, g in zip(roots, grads, strict=True):
            if task.runs is None or edge[0] in task.runs:
                _add_pending(task.pending, edge, g)
        _run_nodes(task)
    finally:
        state.task = before
        if gpu is not None:
            gpu.use()
    return [task.captured.get(e) for e in inputs] if inputs is not None else []


def _reaches_leaves_at_once(node: Any, g: Any) -> bool:
    """Whether all edges of a node lead to leaves, and nothing could see the pass: no hooks, no anomaly mode, no other GPU."""
    if node.__class__ is not Node and not getattr(node, "before_leaves", False):
        return False
    if is_linked(node) or node.hooks is not None or state.anomaly is not None or node.saved.__class__ not in PLAIN:
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
def _run_alone(node: Any, k: int, g: Any, keep_graph: bool, inputs: list | None) -> list | None:
    """The pass from output `k` of a node whose edges lead to leaves: without a `GraphTask`, which only hooks could see.

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
    results = node.run(slots, False) if keep_graph or node.__class__ is Node else node.run_last(slots, False)
    if not keep_graph:
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
def _run_nodes(task: GraphTask) -> None:  # noqa: C901  (the inner loop of backward: a call per edge costs time)
    """Run the nodes of `task` in order, and pass the gradients of their inputs on, as far as the leaves."""
    pending, runs, graph, anomaly = task.pending, task.runs, task.create_graph, task.anomaly
    keep_graph, several_gpus = task.keep_graph, task.several_gpus
    on_gpu: Any = None if several_gpus else _backend.GpuArray
    for node in task.order:
        results = None
        if node.__class__ is Node:
            plan = node.backward_plan
            run = plan.specialized_in_graph if graph else plan.specialized
            if run and node.hooks is None and (runs is None or _runs_whole(node, runs, task.requested)):
                g = pending.get(node)
                if g.__class__ is on_gpu and not graph:
                    run = plan.specialized_on_gpu
                elif not (g.__class__ is Tensor if graph else g.__class__ is ndarray and g.nbytes < IN_PLACE):
                    run = None
                if run and anomaly is None and (results := run(node, g)) is not None:
                    del pending[node]
        elif isinstance(node, Tensor):
            _run_leaf(task, node)
            continue
        if results is None:
            g = None  # only `pending` refers to the gradient, so that a rule may write into it
            if (results := _run_node(task, node)) is None:
                if node in task.linked:  # unless one has arrived, zeros follow, which need not be computed
                    task.linked.update([edge[0] for edge in node.edges if edge is not None])
                continue
        if not keep_graph:
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
            elif waiting.__class__ is ndarray and g.__class__ is ndarray and g.ndim and g.nbytes < IN_PLACE:
                pending[target] = add(waiting, g)
            else:
                waiting = None  # as above
                _add_pending(pending, edge, g)
        results = waiting = g = None  # else they would live until the next node has run


def _run_leaf(task: GraphTask, leaf: Tensor) -> None:
    """Hand a leaf's gradient to its hooks and add it to `.grad`, as PyTorch's AccumulateGrad does, or capture it."""
    pending = task.pending
    if leaf not in pending:
        if leaf not in task.linked:
            return
        pending[leaf] = _zeros_like(leaf._a)
    own = not task.captures_leaves and unshared(pending, leaf, 1)
    g = pending.pop(leaf)
    if task.several_gpus:
        _make_current(g)
    if leaf._hooks:
        g, own = run_hooks(leaf._hooks, g, task.create_graph), False
    if task.captures_leaves:
        task.captured[(leaf, 0)] = g
    elif leaf._node_hooks is None:
        accumulate(leaf, g, own)
    else:
        leaf._node_hooks.accumulate(leaf, g, task.create_graph)


def _run_node(task: GraphTask, node: Any) -> Any:
    """The gradients of a node's inputs, with all that hooks and anomaly mode do; None if the node does not run.

    Gradients of its outputs that are requested are captured.
    """
    pending, runs, graph, hooks = task.pending, task.runs, task.create_graph, node.hooks
    g = pending.pop(node, None)
    if task.several_gpus and g is not None:
        _make_current(g)
    arrived = grads = [g] if node.outs is None else g or [None] * len(node.outs)
    if hooks is not None:
        grads = hooks.pass_through(grads, graph)
    if runs is not None:
        # As in PyTorch, hooks change a captured gradient only if the node does not run.
        for k, gradient in enumerate(arrived if runs[node] else grads):
            if (node, k) in task.requested:
                task.captured[(node, k)] = gradient
        if not runs[node]:
            return None
    if hooks is not None and hooks.pre:
        grads = hooks.before(grads, graph)
    if grads[0] is None and all(g is None for g in grads):
        return None
    if task.anomaly is not None:
        results = task.anomaly.run(node, grads, graph)
    elif node.__class__ is not Node:
        results = node.run(grads, graph) if task.keep_graph else node.run_last(grads, graph)
    elif runs is not None or graph or hooks is not None:
        results = node.run(grads, graph, runs)
    elif node.backward_plan.op.part is not None and add_to_part(node, g, pending, task.parts):
        return None
    else:
        large = g.__class__ is ndarray and g.nbytes >= IN_PLACE
        # `g` and `grads` refer to the gradient.
        results = node.run(grads, False, None, large and node.backward_plan.in_place and unshared(grads, 0, 2))
    _pass_zeros(task, node, grads[0], results)
    return hooks.after(results, grads, graph) if hooks is not None and hooks.post else results


def _pass_zeros(task: GraphTask, node: Node, g: Any, results: list) -> None:
    """Let zeros follow behind the operand of `linked`, which are computed only where something but leaves sees them.

    Args:
        g: the gradient of the node's output.
        results: those of its inputs.
    """
    if not is_linked(node):
        return
    edge = node.edges[1]
    if edge is not None and (task.runs is None or edge[0] in task.runs):
        if task.shows_zeros:
            results[1] = wrap(_zeros_like(g._a)) if task.create_graph else _zeros_like(g)
        else:
            task.linked.add(edge[0])


def is_linked(node: Any) -> bool:
    """Whether a node is that of the op `linked`, behind whose operand zeros follow."""
    return node.__class__ is Node and node.backward_plan.op.name == "linked"


def _zeros_like(a: Any) -> Any:
    """Zeros of an array's type and shape; where it is sparse, of its places."""
    values = a.values if is_sparse(a) else a
    with _backend.on_gpu_of(values):
        zeros = _backend.namespace(values).zeros_like(values)
    return a.with_values(zeros) if is_sparse(a) else zeros


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


def _add_pending(pending: dict, edge: tuple, g: Any) -> None:
    """Add `g` to the pending gradient at `edge`."""
    target, k = edge
    if (target.__class__ is Node or not isinstance(target, Tensor)) and target.outs is not None:
        slots = pending.setdefault(target, [None] * len(target.outs))
        slots[k] = g if slots[k] is None else sum_of(slots[k], g)
    elif target not in pending:
        pending[target] = g
    elif _fits(g, pending[target]) and alone(pending, target):
        add_to(pending[target], g)
    else:
        pending[target] = sum_of(pending[target], g)


def _fits(g: Any, total: Any) -> bool:
    """Whether a large gradient can be added to the array `total` in place."""
    return (
        g.__class__ is total.__class__ is ndarray and g.nbytes >= IN_PLACE and total.flags.writeable
        and g.strides == total.strides and g.shape == total.shape and g.dtype is total.dtype
    )  # fmt: skip


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
    order: list, requested: set, accumulate_grad: bool, ends: frozenset[Any] = frozenset()
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
            runs[target] = accumulate_grad
    return [target for target in order if target in runs], runs


def _no_implicit_gradient(i: int, t: Tensor) -> RuntimeError:
    """Why output `i` needs a gradient that is given."""
    if t._a.size != 1:
        return RuntimeError(
            f"grad can be implicitly created only for scalar outputs; output {i} has shape {list(t.shape)}"
        )
    return RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {t.dtype}")


def prepare(tensors: Sequence[Tensor], grad_tensors: Iterable[Any], create_graph: bool) -> tuple[list, list]:
    """The edges of the outputs and their gradients, which are checked for shape; None becomes 1 for a scalar output."""
    edges, grads = [], []
    for i, (t, g) in enumerate(zip(tensors, grad_tensors, strict=True)):
        if t.__class__ is not Tensor and isinstance(t, GradientEdge):
            if g is None:
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs; output {i} is a GradientEdge"
                )
            edges.append(edge_at(t))
            grads.append(g if create_graph else g._a)
            continue
        if g is None and (t._a.size != 1 or t._a.dtype.kind == "c") and t.requires_grad:
            raise _no_implicit_gradient(i, t)
        edge = t._edge if t._view is None else edge_of(t)
        if edge is None or edge[1] < 0:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        if g is None:
            g = wrap(np.ones_like(t._a) if t._a.__class__ is ndarray else _ones_on_gpu(t._a))
            if create_graph and state.recording is not None:
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
        grads.append(g if create_graph else g._a)
    return edges, grads
