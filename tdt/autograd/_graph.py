"""The public view of the graph: nodes, AccumulateGrad nodes, gradient edges, hooks on several tensors."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt.autograd._accumulate import NodeHooks
from tdt.autograd._hooks import RemovableHandle
from tdt.autograd._node_names import saved_attribute


class GraphNode:
    """Base class of nodes of the graph; a subclass defines `name`, `edges` and `_get_or_create_hooks`.

    >>> import tdt
    >>> tdt.ones(1, requires_grad=True).tanh().grad_fn.name()
    'TanhBackward0'
    """

    __slots__ = ()
    if TYPE_CHECKING:
        edges: Any
        hooks: Any
        run: Any

    def name(self) -> str:
        """Name of the node in PyTorch's spelling, such as `TanhBackward0`.

        Raises:
            NotImplementedError: unless a subclass defines it.
        """
        raise NotImplementedError

    def run_last(self, grads: list, graph: bool) -> list:
        """As `run`, for the last time: the graph is not retained."""
        found: list = self.run(grads, graph)
        return found

    def _get_or_create_hooks(self) -> Any:
        """The node's NodeHooks, created on first use."""
        if self.hooks is None:
            self.hooks = NodeHooks()
        return self.hooks

    @property
    def next_functions(self) -> tuple:
        """((node, output number), …) of the inputs: an `AccumulateGrad` for a leaf, (None, 0) without a gradient."""
        return tuple(
            [
                (None, 0) if e is None else (AccumulateGrad(e[0]), 0) if isinstance(e[0], Tensor) else e
                for e in self.edges
            ]
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for the user; anomaly mode stores the stack trace of the forward call in it, as `traceback_`."""
        return self._get_or_create_hooks().metadata

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the node has run; a tuple it returns replaces grad_inputs."""
        return RemovableHandle(self._get_or_create_hooks().post, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the node runs; a tuple it returns replaces them."""
        return RemovableHandle(self._get_or_create_hooks().pre, fn)

    def __repr__(self) -> str:
        return f"<{self.name().rpartition('::')[2]} object at {id(self):#x}>"


def _saved(name: str) -> property:
    def get(self: Any) -> Any:
        return saved_attribute(self, name)

    return property(get, doc=f"The `{name.removeprefix('_saved_')}` that the node keeps.")


# A `__getattr__` would slow down every attribute access of a node, in backward too.
SAVED = """
    alpha approximate beta buffer condition correction dilation dim dim0 dim1 dims end exponent grad_output groups index
    indices input input1 input2 keepdim k keepdim mask mat1 mat2 mat max min n negative_slope normalized_shape offset ord
    other other_scalar output output_mask p padding padding_idx reduction repeats result running_mean running_var scalar
    self self_sym_sizes sizes src start step stride target tensors threshold training value values vec1 vec2 weight
    weights"""
for _name in set(SAVED.split()):
    setattr(GraphNode, f"_saved_{_name}", _saved(f"_saved_{_name}"))


class AccumulateGrad(GraphNode):
    """The node of a leaf, created on access; `.variable` is the leaf."""

    __slots__ = ("variable",)
    edges = ()

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        """PyTorch's name of the node."""
        return "torch::autograd::AccumulateGrad"

    @property
    def hooks(self) -> Any:
        """The hooks of the leaf's node, which the leaf stores: this object is created on each access."""
        return self.variable._node_hooks

    @hooks.setter
    def hooks(self, value: Any) -> None:
        self.variable._node_hooks = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)


class GradientEdge(NamedTuple):
    """A place in the graph where a gradient arrives: a node and the index of its output.

    >>> import tdt
    >>> edge = tdt.autograd.graph.get_gradient_edge(tdt.ones(1, requires_grad=True) * 2)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge at which the gradient of `tensor` arrives; `autograd.grad` takes it in place of the tensor.

    The edge does not keep the values of the tensor in memory.

    Shape: tensor (*).
    Raises:
        RuntimeError: when `tensor` does not require grad.

    >>> import tdt
    >>> x = tdt.ones(2, requires_grad=True)
    >>> tdt.autograd.graph.get_gradient_edge(x * 2).node.name()
    'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients; "
            f"this one has shape {list(tensor.shape)}"
        )
    return GradientEdge(node_of(tensor), tensor.output_nr)


def edge_at(place: GradientEdge) -> tuple:
    """The engine's edge for a place in the graph."""
    node = place.node
    return (node.variable, 0) if isinstance(node, AccumulateGrad) else (node, place.output_nr)


def node_of(t: Tensor | GradientEdge) -> Any:
    """The node at which the gradient of a tensor arrives: its `grad_fn`, or a leaf's AccumulateGrad."""
    if isinstance(t, GradientEdge):
        return t.node
    return AccumulateGrad(t) if t.requires_grad and t.grad_fn is None else t.grad_fn


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Record a change of the memory of a tensor, or of several, that was not made through tdt.

    Shape: tensor (*).

    >>> import tdt
    >>> x = tdt.ones(2)
    >>> tdt.autograd.graph.increment_version(x); x._version
    1
    """
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        t._st.bump_version()


class _Handles(RemovableHandle):
    def __init__(self, handles: list[RemovableHandle]):
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove all hooks."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: Literal["all", "any"] = "all"
) -> RemovableHandle:
    """Call `fn` once in each backward pass with the gradients of several tensors.

    Args:
        fn: called with a list of all gradients, None for tensors that the pass does not reach; for mode="any" with the first one.
        mode: "all": when all gradients are computed; "any": when the first one is.
    Shape: tensors (*), each gradient the same.
    Raises:
        ValueError: when `mode` is unknown.

    >>> import tdt
    >>> from tdt.autograd import graph
    >>> a, b = tdt.ones(2, requires_grad=True), tdt.ones(2, requires_grad=True)
    >>> handle = graph.register_multi_grad_hook((a, b), lambda gradients: print(gradients[0] + gradients[1]))
    >>> (a + 2 * b).sum().backward()
    tensor([3., 3.])
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    progress = weakref.WeakKeyDictionary[Any, list]()  # by backward pass: [number of gradients to come, gradients]
    nodes = [node_of(t) for t in tensors]

    def arrived(i: int, gradient: Tensor) -> None:
        task = state.task
        with lock:
            first = task not in progress
            if first:
                runs = {n.variable if isinstance(n, AccumulateGrad) else n for n in nodes}.intersection(task.order)
                count = sum((n.variable if isinstance(n, AccumulateGrad) else n) in runs for n in nodes)
                progress[task] = [count, [None] * len(nodes)]
            waiting = progress[task]
            waiting[0] -= 1
            waiting[1][i] = gradient
        if mode == "any" and first:
            fn(gradient)
        elif mode == "all" and waiting[0] == 0:
            fn(waiting[1])

    hooked = [(i, t) for i, t in enumerate(tensors) if mode == "all" or t.requires_grad]
    return _Handles([t.register_hook(functools.partial(arrived, i)) for i, t in hooked])
