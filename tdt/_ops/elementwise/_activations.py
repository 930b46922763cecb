"""Helpers of activations: kernels, in-place forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tdt import _kernels
from tdt._core.tensor import Tensor
from tdt._ops.elementwise._front import named, tensor_argument
from tdt.autograd._dispatch import unary
from tdt.autograd._op import Op


def leave_to_kernels(record: Op, least: int) -> None:
    """Let arrays of at least so many elements go to the kernels of the op and of its array-level gradient.

    An op that asks for them itself keeps the short way through dispatch for small calls.
    """
    name, forward, rule = record.name, record.forward, record.rules["x"]
    slope, settings = rule.fast, record.attributes
    assert slope is not None and rule.fast_params is not None
    given = [p for p in rule.fast_params if p in settings]

    def value(xp: Any, x: Any, **attributes: Any) -> Any:
        if x.size >= least and (fast := _kernels.chosen(name, xp, x, **attributes)):
            return fast(x, **attributes)
        return forward(xp, x, **attributes)

    def gradient(xp: Any, g: Any, kept: Any, *rest: Any) -> Any:
        if kept.size >= least:
            attributes = dict(zip(given, rest, strict=True))
            if fast := _kernels.chosen(f"{name}.vjp.x", xp, g, kept, **attributes):
                return fast(g, kept, **attributes)
        return slope(xp, g, kept, *rest)

    record.forward, rule.fast, record.kernels = value, gradient, ()


def run(record: Op, input: Tensor, inplace: bool, **attributes: Any) -> Tensor:
    """The activation of `input`, in its own memory if `inplace`; TypeError for what is no tensor."""
    if input.__class__ is Tensor and not inplace:
        return unary(record, input, attributes)
    tensor_argument(record.name, input)
    return record.inplace(input, **attributes) if inplace else record(input, **attributes)


def in_place(function: Callable[..., Tensor], call: str, result: str) -> Callable[..., Tensor]:
    """`function_`, the form of `function` that writes into its input; with an example and what it gives."""

    def written(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, **kwargs, inplace=True)

    given = inspect.signature(function)
    rest = [p for p in given.parameters.values() if p.name != "inplace"]
    written.__signature__ = given.replace(parameters=rest)  # type: ignore[attr-defined]
    name = function.__name__
    return named(written, f"{name}_", f"`{name}` in place.\n\n>>> import tdt\n>>> {call}\n{result}\n")
