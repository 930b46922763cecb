"""Python's operators on tensors: `x + y`, `2 - x`, `x += y`, `x < y`, each bound beside its op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._core.creation import from_numpy
from tdt._core.methods import rename
from tdt._core.tensor import Tensor
from tdt.autograd._dispatch import binary, number_first
from tdt.autograd._inplace import write
from tdt.autograd._node_names import label
from tdt.autograd._op import Op

NUMBERS = (Tensor, bool, int, float, complex, np.number, np.bool_)


def arithmetic_operator(name: str, record: Op, reflected_node: str = "") -> None:
    """Bind `__name__`, `__rname__` and `__iname__` of Tensor to an op of two operands.

    Args:
        name: Python's, such as "add" or "truediv".
        record: the op.
        reflected_node: the name that the graph shows for `number - tensor`, where it is not the op's.
    """

    def forward(self: Tensor, other: Any) -> Any:
        if other.__class__ is Tensor or isinstance(other, NUMBERS):
            return binary(record, self, other)
        return NotImplemented  # Python asks the other operand then

    def reflected(self: Tensor, other: Any) -> Any:
        if not isinstance(self, Tensor):
            return _not_a_tensor(name, self)
        if not isinstance(other, NUMBERS):
            return NotImplemented
        if name in ("add", "mul"):
            return binary(record, self, other)
        out = number_first(record, other, self)
        return label(out, reflected_node) if reflected_node else out

    def augmented(self: Tensor, other: Any) -> Any:
        if other.__class__ is Tensor or isinstance(other, NUMBERS):
            return write(record, self, (other,), {})
        return NotImplemented

    for prefix, function in (("", forward), ("r", reflected), ("i", augmented)):
        _bind(f"__{prefix}{name}__", function)


def comparison_operator(name: str, record: Op) -> None:
    """Bind `__name__` of Tensor to a comparison. `==` and `!=` take NumPy arrays, which Python would find different."""

    def compare(self: Tensor, other: Any) -> Any:
        if other.__class__ is Tensor or isinstance(other, NUMBERS):
            return binary(record, self, other)
        if name in ("eq", "ne") and isinstance(other, np.ndarray):
            return binary(record, self, from_numpy(other))
        return NotImplemented

    _bind(f"__{name}__", compare)


def _not_a_tensor(name: str, value: Any) -> Any:
    """What PyTorch answers to `Tensor.__radd__(3, x)`."""
    if name in ("add", "mul", "and", "or", "xor"):
        raise TypeError(f"'__r{name}__' of Tensor doesn't apply to a '{type(value).__name__}' object")
    if name == "truediv":
        raise AttributeError(f"'{type(value).__name__}' object has no attribute 'reciprocal'")
    return NotImplemented


def _bind(name: str, function: Callable[..., Any]) -> None:
    setattr(Tensor, name, rename(function, name))
