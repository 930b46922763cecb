"""The operands of an op, looked at in machine code: their arrays, and what a call of the op does for arrays of these types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._kernels._builtin_code import DTYPE, linked_built_in
from tdt._kernels._code import Value
from tdt._kernels._objects import ObjectCode, words_of

GATHER = "tdt_gather"

Gather = Callable[[dict, tuple], "tuple[Any, tuple] | None"]


def gatherer(classes: dict[str, type]) -> Gather | None:
    """`(plans, operands)`: the plan for the operands' types, and the tuple of their arrays.

    The function returns None for other arrays than NumPy's, for views that are not up to date, and unless there is a `Plan`
    that is `direct`, whatever the ranks. None in its place where it is not known where objects have their attributes.

    Args:
        classes: see `words_of`.
    """
    words = words_of(classes, {})
    return None if words is None else linked_built_in("gather", GATHER, _Gather, words)


class _Gather(ObjectCode):
    """The function that gathers operands."""

    def write(self) -> None:
        code = self.code
        plans, operands = (code.load("ptr", self.arguments, k) for k in range(2))
        self.refuse(self.class_of(operands) != self.object("tuple"))
        n = code.function("PyTuple_Size", "i64", operands)
        with code.loop(0, n) as k:
            self.check(self.item(operands, k))
        key, arrays = (self.created_by("PyTuple_New", n) for _ in range(2))
        with code.loop(0, n) as k:
            x = self.item(operands, k)
            array, kind = code.variable("ptr", x), code.variable("i64", self.class_of(x))
            with code.when(self.is_tensor(x)):
                array.set(self.slot(x, "tensor._a"))
                kind.set(self.field("i64", array.get(), DTYPE))
            code.function("PyTuple_SetItem", "i32", arrays, k, self.owned(array.get()))
            code.function("PyTuple_SetItem", "i32", key, k, self.owned(code.cast(kind.get(), "ptr")))
        plan = code.function("PyDict_GetItem", "ptr", plans, key)
        self.call_void("Py_DecRef", key)
        self.refuse(self.address(plan) == 0, arrays)
        by_rank = self.address(self.slot(plan, "plan.by_rank")) != self.object("none")
        self.refuse(by_rank | ~self.holds(plan, "plan.direct"), arrays)
        self.end(self.tuple_of(self.owned(plan), arrays))

    def check(self, x: Value) -> None:
        """Refuse a tensor without an array of NumPy's, and a view that is not up to date."""
        with self.code.when(self.is_tensor(x)):
            array, view = self.slot(x, "tensor._a"), self.slot(x, "tensor._view")
            self.refuse((self.address(array) == 0) | (self.address(view) == 0))
            self.refuse(self.class_of(array) != self.object("array"))
            with self.code.when(self.address(view) != self.object("none")):
                self.refuse(self.is_outdated(x, view))

    def refuse(self, test: Value, *owned: Value) -> None:
        """Return None where a test holds, and give up references."""
        with self.code.when(test):
            for each in owned:
                self.call_void("Py_DecRef", each)
            self.leave(self.owned(self.none()))
