"""Calls of convolutions whose arguments have been checked: they go to their kernel at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tdt._core.mode import state
from tdt._core.tensor import Tensor, wrap_new
from tdt._kernels import LOWER, UFUNCS, ByShape, enabled
from tdt._ops._common import at_once
from tdt.autograd._record import record_results

if TYPE_CHECKING:
    from tdt.autograd._op import Op

MOST = 4096
INTS = frozenset([int])


class CheckedCalls:
    """What computes calls of an op, and their attributes, by all that both depend on: shapes, strides, types and arguments.

    Args:
        kernels: of the op, chosen by shape; what they prepare for calls of these shapes is saved, see `prepares`.
        of_half: gives what computes calls of half precision, from the arrays and attributes of one.
    """

    __slots__ = ("kernels", "of_half", "found")

    def __init__(self, kernels: ByShape, of_half: Callable[[tuple, dict[str, Any]], Callable[..., Any]] | None = None):
        self.kernels, self.of_half = kernels, of_half
        self.found: dict[tuple, tuple[Callable[..., Any], dict[str, Any]]] = {}
        UFUNCS.append(self.found)

    def key(
        self, nd: int, input: Tensor, weight: Tensor, bias: Tensor | None, groups: Any, *sizes: Any
    ) -> tuple | None:
        """A call's key; None where there may be more to do than to call a kernel.

        Args:
            sizes: stride, padding and the like, a number or one for each of nd dimensions; other integers that results depend on.
        """
        x, w = input._a, weight._a
        if groups.__class__ is not int or x.ndim != nd + 2:
            return None
        if state.handler is not None or not at_once(input, weight, bias):  # autocast casts the operands
            return None
        for size in sizes:
            if size.__class__ is not int and (size.__class__ is not tuple or not INTS.issuperset(map(type, size))):
                return None  # as 1 == True == 1.0
        biases = (None,) if bias is None else (bias._a.shape, bias._a.strides, bias._a.dtype)
        return x.shape, x.strides, x.dtype, w.shape, w.strides, w.dtype, *biases, groups, *sizes

    def result(self, op: Op, key: tuple | None, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
        """The result of a call of `op` that was checked before; None for others."""
        if key is None or (found := self.found.get(key)) is None:
            return None
        compute, attributes = found
        arrays = input._a, weight._a, None if bias is None else bias._a
        result = compute(*arrays)
        if not state.fast_record:  # nor in inference mode
            return wrap_new(result)
        return record_results(op, (input, weight, bias), arrays, attributes, (result,))[0]

    def add(
        self, key: tuple | None, input: Tensor, weight: Tensor, bias: Tensor | None, attributes: dict[str, Any]
    ) -> None:
        """Save a call that was checked, if a kernel computes it."""
        if key is None:
            return
        if len(self.found) >= MOST:
            self.found.clear()
        arrays = input._a, weight._a, None if bias is None else bias._a
        if arrays[0].dtype in LOWER and enabled():
            if self.of_half is not None:
                self.found[key] = self.of_half(arrays, attributes), attributes
            return
        kernel = self.kernels.first(arrays, attributes)
        if kernel is not None:
            prepare = getattr(kernel.function, "prepare", None)
            compute = prepare and prepare(*arrays, **attributes, recorded=True)
            self.found[key] = compute or functools.partial(kernel.function, **attributes), attributes
