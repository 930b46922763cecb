"""The graph as scripts see it: nodes, edges, saved tensors. Made in `_graph.py` and `_saved.py`."""

from tdt.autograd._graph import GradientEdge, get_gradient_edge, increment_version, register_multi_grad_hook
from tdt.autograd._graph import GraphNode as Node
from tdt.autograd._saved import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]
