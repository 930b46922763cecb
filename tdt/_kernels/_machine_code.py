"""Machine code without Numba: functions written by Python code that emits LLVM instructions, compiled by llvmlite alone.

A driver of loops over vectors takes Numba about a second to compile, and this some tens of milliseconds, as only the
instructions that are written here go through LLVM. No fast-math flag is set. Addresses are words, offsets are bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any


class Word:
    """A 64-bit integer of the code that is being written; operators emit instructions."""

    __slots__ = ("code", "value")

    def __init__(self, code: Code, value: Any):
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
        """A condition, for `Code.when`, `Code.both` and `Code.select`."""
        return self.code.builder.icmp_signed("<", self.value, self.code.number(other))

    def __ge__(self, other: Word | int) -> Any:
        return self.code.builder.icmp_signed(">=", self.value, self.code.number(other))


class Code:
    """Writes the instructions of a function into a module, on vectors of `width` floats."""

    def __init__(self, module: Any, width: int):
        from llvmlite import ir

        self.ir, self.module, self.width = ir, module, width
        self.integer = ir.IntType(64)
        self.vector = ir.VectorType(ir.FloatType(), width)
        self.builder: Any = None

    def function(self, name: str, parameters: Sequence[str]) -> dict[str, Word]:
        """Begin a function of words that other functions of the module `call`; its parameters by name."""
        function = self._begin(name, [self.integer] * len(parameters), self.ir.VoidType())
        function.linkage = "internal"
        return {p: self.word(value) for p, value in zip(parameters, function.args, strict=True)}

    def kernel(self, name: str, parameters: Sequence[str]) -> tuple[Word, Word, dict[str, Word]]:
        """Begin a kernel: the first and the last of its blocks, and its parameters by name."""
        function = self._begin(name, [self.integer] * 3, self.integer)
        words, first, last = map(self.word, function.args)
        return first, last, {p: self.load_word(words + 8 * k) for k, p in enumerate(parameters)}

    def _begin(self, name: str, kinds: list[Any], result: Any) -> Any:
        function = self.ir.Function(self.module, self.ir.FunctionType(result, kinds), name)
        function.attributes.add("nounwind")
        self.builder = self.ir.IRBuilder(function.append_basic_block("entry"))
        return function

    def end(self) -> None:
        """End the function; a kernel returns 0."""
        if self.builder.function.function_type.return_type == self.integer:
            self.builder.ret(self.integer(0))
        else:
            self.builder.ret_void()

    # Words.

    def word(self, value: Any) -> Word:
        return Word(self, value)

    def number(self, value: Word | int) -> Any:
        return value.value if isinstance(value, Word) else self.integer(value)

    def smaller(self, a: Word, b: Word) -> Word:
        return self.select(a < b, a, b)

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
        i = builder.phi(self.integer)
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
        kind = self.ir.FunctionType(self.ir.VoidType(), [self.integer] * len(args))
        self.builder.call(self.pointer(address, kind), [self.number(a) for a in args])

    # Memory.

    def pointer(self, address: Word, kind: Any) -> Any:
        return self.builder.inttoptr(address.value, kind.as_pointer())

    def load_word(self, address: Word) -> Word:
        return self.word(self.builder.load(self.pointer(address, self.integer)))

    def load(self, address: Word) -> Any:
        """A vector."""
        load = self.builder.load(self.pointer(address, self.vector))
        load.align = 4
        return load

    def store(self, value: Any, address: Word) -> None:
        self.builder.store(value, self.pointer(address, self.vector)).align = 4

    def constant(self, value: float) -> Any:
        """A vector of equal numbers."""
        return self.ir.Constant(self.vector, [value] * self.width)

    # A thread's part of a workspace.

    def claim(self, slots: Word, count: Word) -> Word:
        """The number of a slot that no other thread holds, of `count` words that are 0 where free; waits for one."""
        builder = self.builder
        before = builder.block
        search, after = builder.append_basic_block("search"), builder.append_basic_block("claimed")
        builder.branch(search)
        builder.position_at_end(search)
        slot = builder.phi(self.integer)
        slot.add_incoming(self.integer(0), before)
        place = self.pointer(slots + self.word(slot) * 8, self.integer)
        result = builder.cmpxchg(place, self.integer(0), self.integer(1), "seq_cst", "seq_cst")
        following = self.word(slot) + 1
        slot.add_incoming(self.select(following < count, following, self.word(self.integer(0))).value, search)
        builder.cbranch(builder.extract_value(result, 1), after, search)
        builder.position_at_end(after)
        return self.word(slot)

    def release(self, slots: Word, slot: Word) -> None:
        self.builder.store_atomic(self.integer(0), self.pointer(slots + slot * 8, self.integer), "seq_cst", 8)
