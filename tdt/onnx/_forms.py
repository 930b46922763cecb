"""The table of ops that ONNX can express: `FORMS[op](graph, *operands, **attributes)` adds the nodes of a call.

Operands are tensors of the graph, numbers or None; the result is a tensor, or several in the order of the op's outputs.
`graph.outputs` has the dtype and shape of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMS: dict[str, Callable[..., Any]] = {}


def form(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register how the ops of these names are written."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in FORMS, f"two forms of {name}"
            FORMS[name] = function
        return function

    return register
