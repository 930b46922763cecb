"""What a recorded call of an op computes, as a function of its arrays without the steps of dispatch.

It is the function that dispatch itself calls for such arrays: the generated ufunc, the kernel, the op's forward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._core.calls import TENSOR_TYPES
from tdt._kernels import chosen_for
from tdt._kernels._threads import PARALLEL
from tdt.autograd._forward import run_forward
from tdt.autograd._op import Op
from tdt.autograd._remembered import FAILURES, _Call

ndarray = np.ndarray
NUMBERS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}  # by their bytes


def lowered(
    op: Op, plan: Any, operands: tuple, arrays: list, attributes: dict, outs: tuple, results: Sequence[Any]
) -> Callable[..., Any]:
    """The function of the tensors' arrays that gives what a call of `op` gave: `outs`, whose arrays are `results`, and aux.

    One result alone, or a tuple where the op has several or aux values.

    Args:
        plan, arrays: of the call, whose operands need no casts.
        attributes: all of them.
    """
    tensors = [a for a, x in zip(arrays, operands, strict=True) if x.__class__ in TENSOR_TYPES]
    # Of larger arrays dispatch takes little of the time, and another result to compare would be memory beside the first.
    small = all(a.flags.c_contiguous and a.size < PARALLEL for a in tensors)
    if small and not (op.random or op.view or op.variadic):
        call = _Call(op, operands, attributes, outs[0], True, True)
        if call.function is not None and call.plan is plan:
            function = with_numbers(call.function, call.numbers)
            if agrees(op, function, tensors, results):
                fails = not isinstance(call.function, np.ufunc)  # perhaps, for some values
                return _or_else(function, general(op, plan, operands, arrays, attributes)) if fails else function
    return general(op, plan, operands, arrays, attributes)


def agrees(op: Op, function: Callable[..., Any], tensors: list, results: Sequence[Any]) -> bool:
    """Whether a function gives the bits of `results`, and lays them out in memory as they are."""
    try:
        found = function(*tensors)
    except FAILURES:  # as for classes that are ignored
        return False
    if len(op.outputs) > 1 or op.aux:
        if found.__class__ is not tuple or len(found) != len(results) + len(op.aux):
            return False
    else:
        found = (found,)
    return all(same_bits(np.asarray(a), b) for a, b in zip(found, results, strict=False))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same dtype, shape, strides and bits."""
    if a.dtype != b.dtype or a.shape != b.shape or a.strides != b.strides:
        return False
    if (number := NUMBERS.get(a.itemsize)) is not None:  # without copies of both
        return np.array_equal(a.view(number), b.view(number))
    return a.tobytes() == b.tobytes()


def with_numbers(function: Callable[..., Any], numbers: tuple) -> Callable[..., Any]:
    """`function` with these arguments after all others."""
    if not numbers:
        return function
    if len(numbers) == 1:
        (number,) = numbers
        return lambda *arrays: function(*arrays, number)
    return lambda *arrays: function(*arrays, *numbers)


def _or_else(function: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, or for arrays for which it fails, as such kernels do for classes that are ignored, `other`."""

    def either(*arrays: np.ndarray) -> Any:
        try:
            return function(*arrays)
        except FAILURES:
            return other(*arrays)

    return either


def general(op: Op, plan: Any, operands: tuple, arrays: list, attributes: dict) -> Callable[..., Any]:
    """The op's computation between the operands' casts and the result's tensor, as `apply` makes it."""
    places = [k for k, x in enumerate(operands) if x.__class__ in TENSOR_TYPES]
    constants = [None if x.__class__ in TENSOR_TYPES else x for x in operands]
    if plan.low is not None:
        compute: Any = lambda *values: run_forward(op, np, list(values), attributes, plan.low, None)  # noqa: E731
    else:
        kernel = chosen_for(op.kernels, arrays, attributes) if op.kernels else None
        compute = functools.partial(kernel, **attributes) if kernel else functools.partial(op.forward, np, **attributes)
    if op.lay is not None:
        bare, lay = compute, op.lay
        compute = lambda *values: lay(np, bare(*values), list(values))  # noqa: E731
    if op.aux and len(op.outputs) > 1:
        nested = compute
        compute = lambda *values: _flat(*nested(*values))  # noqa: E731
    if len(places) == len(operands):
        return compute
    if places == [*range(len(places))]:
        rest = tuple(constants[len(places) :])
        return lambda *tensors: compute(*tensors, *rest)

    def among_constants(*tensors: np.ndarray) -> Any:
        values = [*constants]
        for place, a in zip(places, tensors, strict=True):
            values[place] = a
        return compute(*values)

    return among_constants


def _flat(results: tuple, *aux: Any) -> tuple:
    return *results, *aux


def in_place(op: Op, plan: Any, operands: tuple, attributes: dict) -> Callable[..., Any]:
    """The same, written into the last of its arguments."""
    places = [k for k, x in enumerate(operands) if x.__class__ in TENSOR_TYPES]
    constants = [None if x.__class__ in TENSOR_TYPES else x for x in operands]

    def write(*tensors: np.ndarray) -> None:
        values = [*constants]
        for place, a in zip(places, tensors[:-1], strict=True):
            values[place] = a
        run_forward(op, np, values, attributes, plan.low, tensors[-1])

    return write
