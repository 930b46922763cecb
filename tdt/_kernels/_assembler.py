"""The LLVM instructions that hand-written kernels share: addresses, vectors of floats with masks, loops that carry values.

Words are 64-bit integers; addresses are words too, and offsets count bytes. No instruction has a fast-math flag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tdt._kernels._native import target_triple


class Assembler:
    """Writes functions into a module (llvmlite's), on vectors of `width` numbers of `item` bytes: float32 (4) or float64 (8)."""

    def __init__(self, name: str, width: int, item: int = 4):
        from llvmlite import ir

        self.ir, self.width, self.item = ir, width, item
        self.i8, self.i32, self.i64, self.f32 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
        self.real = self.f32 if item == 4 else ir.DoubleType()
        self.vector = ir.VectorType(self.real, width)
        self.zero = self.constant(0.0)
        self.module = ir.Module(name)
        self.module.triple = target_triple()
        self.builder: Any = None

    def begin(self, name: str, parameters: int, result: Any) -> Any:
        """Begin a function of so many words, into which the next instructions go."""
        function = self.ir.Function(self.module, self.ir.FunctionType(result, [self.i64] * parameters), name)
        function.attributes.add("nounwind")
        self.builder = self.ir.IRBuilder(function.append_basic_block("entry"))
        return function

    def begin_kernel(self, name: str, parameters: Sequence[str]) -> tuple[Any, Any, dict[str, Any]]:
        """Begin a kernel, as the pool calls it: the first and the last of its blocks, and its arguments by name."""
        words, first, last = self.begin(name, 3, self.i64).args
        values = {}
        for k, parameter in enumerate(parameters):
            place = self.builder.add(words, self.i64(8 * k))
            values[parameter] = self.builder.load(self.pointer(place, self.i64))
        return first, last, values

    # Words.

    def number(self, value: Any) -> Any:
        """A word: a constant of a Python integer, else the value itself."""
        return self.i64(value) if isinstance(value, int) else value

    def less(self, a: Any, b: Any) -> Any:
        return self.builder.icmp_signed("<", self.number(a), self.number(b))

    def smaller(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.less(a, b), self.number(a), self.number(b))

    # Vectors and memory.

    def constant(self, value: float) -> Any:
        """A vector of equal numbers."""
        return self.ir.Constant(self.vector, [value] * self.width)

    def pointer(self, address: Any, kind: Any) -> Any:
        return self.builder.inttoptr(self.number(address), kind.as_pointer())

    def prefetch(self, address: Any) -> None:
        """Load the line at an address, which may be any, into the caches."""
        place = self.pointer(address, self.i8)
        self.intrinsic("llvm.prefetch.p0", self.ir.VoidType(), [place, self.i32(0), self.i32(3), self.i32(1)])

    def load(self, address: Any, mask: Any = None) -> Any:
        """A vector; zeros where a mask is not set."""
        pointer = self.pointer(address, self.vector)
        if mask is None:
            load = self.builder.load(pointer)
            load.align = self.item
            return load
        name = f"llvm.masked.load.v{self.width}f{8 * self.item}.p0"
        return self.intrinsic(name, self.vector, [pointer, self.i32(self.item), mask, self.zero])

    def store(self, value: Any, address: Any, mask: Any = None) -> None:
        """Write a vector, or its elements whose mask is set."""
        pointer = self.pointer(address, value.type)
        if mask is None:
            self.builder.store(value, pointer).align = self.item
        else:
            name = f"llvm.masked.store.v{self.width}f{8 * self.item}.p0"
            self.intrinsic(name, self.ir.VoidType(), [value, pointer, self.i32(self.item), mask])

    def spread(self, value: Any) -> Any:
        """A vector of one number, repeated."""
        vector = self.ir.VectorType(value.type, self.width)
        undefined = self.ir.Constant(vector, self.ir.Undefined)
        zeros = self.ir.Constant(self.ir.VectorType(self.i32, self.width), [0] * self.width)
        single = self.builder.insert_element(undefined, value, self.i32(0))
        return self.builder.shuffle_vector(single, undefined, zeros)

    def mask(self, stop: Any, start: int = 0) -> Any:
        """Which of the numbers start, start + 1, … of a vector's elements are below `stop`."""
        numbers = self.ir.Constant(self.ir.VectorType(self.i32, self.width), list(range(start, start + self.width)))
        return self.builder.icmp_signed("<", numbers, self.spread(self.builder.trunc(self.number(stop), self.i32)))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """a · b + c, rounded once."""
        return self.intrinsic(f"llvm.fma.v{self.width}f{8 * self.item}", self.vector, [a, b, c])

    def intrinsic(self, name: str, result: Any, args: list[Any]) -> Any:
        """Call a function of LLVM's."""
        kind = self.ir.FunctionType(result, [arg.type for arg in args])
        function = self.module.globals.get(name) or self.ir.Function(self.module, kind, name)
        return self.builder.call(function, args)

    # Loops.

    def rounds(self, condition: Any, counter: Any, start: list[Any], body: Callable, unroll: bool = True) -> list[Any]:
        """`counter, values, again = body(counter, values)` from `start`, while `again`; the last values.

        Args:
            condition: whether there is a first round.
            unroll: let LLVM unroll the loop further.
        """
        builder = self.builder
        before, inside, after = builder.block, *(builder.append_basic_block(name) for name in ("loop", "end"))
        builder.cbranch(condition, inside, after)
        builder.position_at_end(inside)
        carried = [builder.phi(value.type) for value in (counter, *start)]
        following, results, again = body(carried[0], carried[1:])
        end = builder.block
        for phi, value, result in zip(carried, [counter, *start], [following, *results], strict=True):
            phi.add_incoming(value, before)
            phi.add_incoming(result, end)
        branch = builder.cbranch(again, inside, after)
        if not unroll:
            branch.set_metadata("llvm.loop", self._not_unrolled())
        builder.position_at_end(after)
        last = [builder.phi(value.type) for value in start]
        for phi, value, result in zip(last, start, results, strict=True):
            phi.add_incoming(value, before)
            phi.add_incoming(result, end)
        return last

    def _not_unrolled(self) -> Any:
        """Loop metadata: a node that names itself first."""
        option = self.module.add_metadata(["llvm.loop.unroll.disable"])
        node = self.module.add_metadata([f"loop {len(self.module.metadata)}", option])
        node.operands = (node, option)
        return node
