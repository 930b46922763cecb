"""`torch.fx`, importable: `wrap` has no effect, and functions that trace Python into graphs raise NotImplementedError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt.compat._refusal import refused, refused_class, unchanged
from tdt.nn import Module

__all__ = [
    "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect", "map_arg",
    "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip

REASON = "tdt does not trace Python into graphs; forward hooks give a module's intermediate results"

Node = refused_class("fx.Node", REASON)
Graph = refused_class("fx.Graph", REASON)
Proxy = refused_class("fx.Proxy", REASON)
Tracer = refused_class("fx.Tracer", REASON)
Interpreter = refused_class("fx.Interpreter", REASON)
Transformer = refused_class("fx.Transformer", REASON, Interpreter)
GraphModule = refused_class("fx.GraphModule", REASON, Module)
symbolic_trace = refused("fx.symbolic_trace", REASON)
replace_pattern = refused("fx.replace_pattern", REASON)
has_side_effect = unchanged


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Return the function, or its name, unchanged: tdt does not trace, so there is no tracing to exclude it from."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Return `a` unchanged: `fn` maps graph nodes, and tdt has none."""
    return a
