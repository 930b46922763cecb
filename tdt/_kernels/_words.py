"""An assembler whose words have Python's operators, loops and conditions are `with` statements, and functions call others.

A driver of loops over vectors takes Numba about a second to compile, and this some tens of milliseconds, as only the
instructions that are written here go through LLVM.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tdt._kernels._assembler import Assembler


class Word:
    """A 64-bit integer of the code that is being written; operators emit instructions."""

    __slots__ = ("code", "value")

    def __init__(self, code: WordAssembler, value: Any):
        self.code, self.value = code, value

    def __add__(self, other: Word | int) -> Word:
        return self.code.word(self.code.builder.add(self.value, self.code.number(other)))

    def __sub__(self, other: Word | int) -> Word:
        return self.code.word(self.code.builder.sub(self.value, self.code.number(other)))

    def __mul__(self, other: Word | int) -> Word:
        return self.code.word(self.code.builder.mul(self.value, self.code.number(other)))

    def __floordiv__(self, other: Word | int) -> Word:
        """The quotient of two numbers that are not negative."""
        return self.code.word(self.code.builder.udiv(self.value, self.code.number(other)))

    def __lt__(self, other: Word | int) -> Any:
        """A condition, for `WordAssembler.when`, `WordAssembler.both` and `WordAssembler.select`."""
        return self.code.builder.icmp_signed("<", self.value, self.code.number(other))

    def __ge__(self, other: Word | int) -> Any:
        return self.code.builder.icmp_signed(">=", self.value, self.code.number(other))


class WordAssembler(Assembler):
    """Writes functions on `Word`s into a module."""

    def function(self, name: str, parameters: Sequence[str]) -> dict[str, Word]:
        """Begin a function of words that other functions of the module `call`; its parameters by name."""
        function = self.begin(name, len(parameters), self.ir.VoidType())
        function.linkage = "internal"
        return {p: self.word(value) for p, value in zip(parameters, function.args, strict=True)}

    def kernel(self, name: str, parameters: Sequence[str]) -> tuple[Word, Word, dict[str, Word]]:
        """Begin a kernel: the first and the last of its blocks, and its parameters by name."""
        first, last, values = self.begin_kernel(name, parameters)
        return self.word(first), self.word(last), {p: self.word(value) for p, value in values.items()}

    def end(self) -> None:
        """End the function; a kernel returns 0."""
        if self.builder.function.function_type.return_type == self.i64:
            self.builder.ret(self.i64(0))
        else:
            self.builder.ret_void()

    # Words.

    def word(self, value: Any) -> Word:
        return Word(self, value)

    def number(self, value: Any) -> Any:
        return value.value if isinstance(value, Word) else super().number(value)

    def smaller(self, a: Word, b: Word) -> Word:
        return self.word(super().smaller(a, b))

    def select(self, condition: Any, a: Word, b: Word) -> Word:
        return self.word(self.builder.select(condition, a.value, b.value))

    def both(self, *conditions: Any) -> Any:
        total = conditions[0]
        for condition in conditions[1:]:
            total = self.builder.and_(total, condition)
        return total

    @contextlib.contextmanager
    def loop(self, start: Word | int, stop: Word | int, step: Word | int = 1) -> Iterator[Word]:
        """for i in range(start, stop, step)"""
        builder, before = self.builder, self.builder.block
        head, body, after = (builder.append_basic_block(name) for name in ("head", "body", "after"))
        builder.branch(head)
        builder.position_at_end(head)
        i = builder.phi(self.i64)
        i.add_incoming(self.number(start), before)
        builder.cbranch(builder.icmp_signed("<", i, self.number(stop)), body, after)
        builder.position_at_end(body)
        yield self.word(i)
        i.add_incoming(builder.add(i, self.number(step)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)

    def when(self, condition: Any) -> Any:
        """with when(condition): instructions for where it holds."""
        return self.builder.if_then(condition)

    def either(self, condition: Any) -> Any:
        """with either(condition) as (then, otherwise): with then: …; with otherwise: …"""
        return self.builder.if_else(condition)

    def call(self, name: str, *args: Word | int) -> None:
        """Call a function of the module."""
        self.builder.call(self.module.globals[name], [self.number(a) for a in args])

    def call_at(self, address: Word, *args: Word | int) -> None:
        """Call a function of words at an address."""
        kind = self.ir.FunctionType(self.ir.VoidType(), [self.i64] * len(args))
        self.builder.call(self.pointer(address, kind), [self.number(a) for a in args])

    # A thread's part of a workspace.

    def claim(self, slots: Word, count: Word) -> Word:
        """The number of a slot that no other thread holds, of `count` words that are 0 where free; waits for one."""
        builder = self.builder
        before = builder.block
        search, after = builder.append_basic_block("search"), builder.append_basic_block("claimed")
        builder.branch(search)
        builder.position_at_end(search)
        slot = builder.phi(self.i64)
        slot.add_incoming(self.i64(0), before)
        place = self.pointer(slots + self.word(slot) * 8, self.i64)
        result = builder.cmpxchg(place, self.i64(0), self.i64(1), "seq_cst", "seq_cst")
        following = self.word(slot) + 1
        slot.add_incoming(self.select(following < count, following, self.word(self.i64(0))).value, search)
        builder.cbranch(builder.extract_value(result, 1), after, search)
        builder.position_at_end(after)
        return self.word(slot)

    def release(self, slots: Word, slot: Word) -> None:
        self.builder.store_atomic(self.i64(0), self.pointer(slots + slot * 8, self.i64), "seq_cst", 8)
