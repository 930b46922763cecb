"""Calls of a kernel of matrix products on the calling thread, by a built-in function that makes the result's array itself.

Through Python, the array, the addresses and the packed words take 2 µs of a product of 20.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt._kernels._addresses import ADDRESS
from tdt._kernels._builtin_code import linked_built_in
from tdt._kernels._code import Value, Variable
from tdt._kernels._formulas import BFLOAT16
from tdt._kernels._quick import LOOP, SIZE, UfuncCall, ufunc_words

NAME = "tdt_planned"
NONE, WORK, PIECES, TURNED, ROUNDS, SUMS, STARTS, NDIM, SIZES = range(
    SIZE, SIZE + 9
)  # words of `self` behind those of `UfuncCall`
MOST_STARTS, ADDRESSES = 8, 5  # words of a kernel


def planned(
    kernel: int,
    start: Sequence[int],
    shape: tuple[int, ...],
    dtype: np.dtype,
    pieces: int,
    work: int,
    turned: bool,
    sums: np.dtype | None = None,
) -> Callable[[Any, Any, Any], Any]:
    """`(left, right, bias)`: the product, a new contiguous array; bias is an array or None.

    Args:
        kernel: the address of the machine code, whose words are `start` and the addresses of the operands, the result, the
            bias, and 0; of a result in bfloat16 those of its sums, the bias and the result.
        shape, dtype: of the result.
        pieces, work: how many pieces it computes, of how many multiply-adds in all.
        turned: the kernel takes the right operand as the left one.
        sums: the type of an array for the sums of a result in bfloat16; None: they need none.
    """
    assert len(start) <= MOST_STARTS
    words = [*ufunc_words(None, kernel, 0), 0, 0, dtype.num]  # type: ignore[arg-type]
    rounds, kind = dtype == BFLOAT16, 0 if sums is None else sums.num
    words += id(None), work, pieces, int(turned), int(rounds), kind, len(start), len(shape), *shape, *start
    return linked_built_in("planned", NAME, _PlannedCall, words)


class _PlannedCall(UfuncCall):
    """The call of a kernel.

    Attributes:
        sums: the array of the sums.
    """

    sums: Variable

    def created(self, call: str) -> Value:
        found = self.code.new("ptr", call)
        with self.code.when(self.code.cast(found, "i64") == 0):
            self.call_void("Py_DecRef", self.sums.get())
            self.leave(found)
        return found

    def write(self) -> None:
        code = self.code
        left, right, bias = (code.load("ptr", self.arguments, k) for k in range(3))
        ndim, starts, rounds = self.word(NDIM), self.word(STARTS), self.word(ROUNDS) != 0
        sizes = code.at("i64", self._words, SIZES)
        self.sums = code.variable("ptr", code.cast(code.value(0, "i64"), "ptr"))  # null: there are none
        with code.when(self.word(SUMS) != 0):
            self.sums.set(self.new_array(ndim, sizes, kind=self.word(SUMS)))
        out = self.new_array(ndim, sizes)
        words = code.array("i64", MOST_STARTS + ADDRESSES)
        with code.loop(0, starts) as k:
            code.store(self.word(ndim + SIZES + k), words, k)
        turned = self.word(TURNED) != 0
        operands = code.select(turned, right, left), code.select(turned, left, right)
        for place, array in enumerate((*operands, out)):
            code.store(self.field("i64", array, ADDRESS), words, starts + place)
        for place in (3, 4):
            code.store(code.value(0, "i64"), words, starts + place)
        with code.when(rounds):
            code.store(self.field("i64", out, ADDRESS), words, starts + 4)
        with code.when(code.cast(self.sums.get(), "i64") != 0):
            code.store(self.field("i64", self.sums.get(), ADDRESS), words, starts + 2)
        with code.when(code.cast(bias, "i64") != self.word(NONE)):
            code.store(self.field("i64", bias, ADDRESS), words, starts + 3)
        self.begin_threads(self.word(WORK))
        kernel, pieces = code.cast(self.word(LOOP), "ptr").name, self.word(PIECES).name
        code.new("i64", f"call i64 {kernel}(ptr {words.name}, i64 0, i64 {pieces})")
        self.end_threads()
        self.call_void("Py_DecRef", self.sums.get())
        self.end(out)
