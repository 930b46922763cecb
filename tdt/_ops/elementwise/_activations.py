"""Helpers of activations: kernels for large arrays, `inplace=True`."""

from __future__ import annotations

from typing import Any

from tdt._core.tensor import Tensor
from tdt._kernels import LARGE_ACTIVATION, Kernel, When, alike, chosen, kernel
from tdt._ops.elementwise._front import tensor_argument
from tdt.autograd._dispatch import unary
from tdt.autograd._op import Op

_LARGE = alike(LARGE_ACTIVATION)


def leave_to_kernels(
    record: Op, module: str = "activation_cpu", least: int = LARGE_ACTIVATION, when: When = _LARGE
) -> tuple[tuple[Kernel], tuple[Kernel]]:
    """Use kernels for the op and for its array-level gradient, for arrays of at least `least` elements.

    The forward selects them itself, so that small arrays take the fast path through dispatch.

    Args:
        module: of the kernels, which are named as the op and as the op with "_vjp".
    Returns: the kernels of the op, and of its gradient.
    """
    forward, rule = record.forward, record.rules["x"]
    values, slopes = (kernel(f"{module}:{record.name}", when),), (kernel(f"{module}:{record.name}_vjp", when),)
    slope, settings = rule.fast, record.attributes
    assert slope is not None and rule.fast_params is not None
    saved = [p for p in rule.fast_params if p in settings]

    def value(xp: Any, x: Any, **attributes: Any) -> Any:
        if x.size >= least and (fast := chosen(values, xp, x, **attributes)):
            return fast(x, **attributes)
        return forward(xp, x, **attributes)

    def gradient(xp: Any, g: Any, operand: Any, *rest: Any) -> Any:
        if operand.size >= least:
            attributes = dict(zip(saved, rest, strict=True))
            if fast := chosen(slopes, xp, g, operand, **attributes):
                return fast(g, operand, **attributes)
        return slope(xp, g, operand, *rest)

    record.forward, rule.fast = value, gradient
    return values, slopes


def run(record: Op, input: Tensor, inplace: bool, **attributes: Any) -> Tensor:
    """Apply an activation, to the memory of `input` if `inplace`; TypeError if `input` is not a Tensor."""
    if input.__class__ is Tensor and not inplace:
        return unary(record, input, attributes)
    tensor_argument(record.name, input)
    return record.inplace(input, **attributes) if inplace else record(input, **attributes)
