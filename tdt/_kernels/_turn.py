"""Turning of rows into columns, in blocks of 8 × 8 that stay in registers; functions without Numba, as in `_pack`.

    out[lines(k) + i] = source[rows(i) + k]        for count elements k of `high` rows i

where rows lie `step` apart, or where a table says; and lines `pitch` apart, or at `pitch` times a table's entry.
"""

from __future__ import annotations

from typing import Any

from tdt._kernels._jit import intrinsic
from tdt._kernels._pack import BLOCK, store_lanes, turned
from tdt._kernels._tile import Assembler, linked, loaded

WORDS = ("source", "step", "count", "out", "pitch", "table", "high")
FORMS = ("plain", "scatter", "gather")


def turner(form: str = "plain") -> int:
    """The address of a function, for `turn`. form: "scatter" takes lines, and "gather" rows, from the table."""
    assert form in FORMS, f"form is one of {FORMS}, not {form}"
    name = f"turn-{form}"
    return loaded(name) or linked(name, lambda: Turn(form))


class Turn(Assembler):
    """Eight rows at a time; of the last ones the columns that exist are stored."""

    def __init__(self, form: str):
        super().__init__(WORDS, BLOCK)
        builder, values = self.builder, self.values
        self.form = form
        self.last = builder.sub(values["high"], self.number(1))
        self.scale = self.bytes_of(values["pitch"])
        whole = builder.lshr(values["high"], self.number(3))
        rest = builder.and_(values["high"], self.number(BLOCK - 1))
        state = self.loop(whole, [self.number(0), values["out"]], lambda state: self.group(*state, None))
        with builder.if_then(builder.icmp_signed(">", rest, self.number(0))):
            self.group(*state, self.mask(rest))
        builder.ret_void()

    def group(self, first: Any, out: Any, mask: Any) -> list[Any]:
        """Turn the eight rows from `first` on, of which the mask's are stored; where the next eight begin."""
        builder, values = self.builder, self.values
        index = [self.smaller(builder.add(first, self.number(i)), self.last) for i in range(BLOCK)]
        if self.form == "gather":
            offsets = [self.entry(values["table"], i) for i in index]
        else:
            offsets = [builder.mul(i, values["step"]) for i in index]
        sources = [builder.add(values["source"], self.bytes_of(offset)) for offset in offsets]

        def block(state: list[Any]) -> list[Any]:
            k, line = state
            offset = self.bytes_of(k)
            rows = turned(self, [self.read(builder.add(source, offset), 0) for source in sources])
            for i, row in enumerate(rows):
                line = self.store(row, builder.add(k, self.number(i)), line, out, mask)
            return [builder.add(k, self.number(BLOCK)), line]

        def single(state: list[Any]) -> list[Any]:
            """One line: of fewer than eight that are left."""
            k, line = state
            row, offset = self.zero(), self.bytes_of(k)
            for i, source in enumerate(sources):
                element = builder.load(self.at(source, offset, self.ir.FloatType()))
                row = builder.insert_element(row, element, self.ir.Constant(self.ir.IntType(32), i))
            return [builder.add(k, self.number(1)), self.store(row, k, line, out, mask)]

        state = self.loop(builder.lshr(values["count"], self.number(3)), [self.number(0), out], block)
        self.loop(builder.and_(values["count"], self.number(BLOCK - 1)), state, single)
        return [builder.add(first, self.number(BLOCK)), builder.add(out, self.number(4 * BLOCK))]

    def store(self, row: Any, k: Any, line: Any, out: Any, mask: Any) -> Any:
        """Store line k, at `line` unless a table says where; the address of the next line."""
        if self.form == "scatter":
            line = self.builder.add(out, self.builder.mul(self.scale, self.entry(self.values["table"], k)))
        store_lanes(self, row, line, 0, BLOCK, mask)
        return self.builder.add(line, self.scale)


@intrinsic
def turn(typingctx: Any, function: Any, source: Any, step: Any, count: Any, out: Any, pitch: Any, table: Any,
         high: Any) -> Any:  # fmt: skip
    """Call a function of `turner`; source, out and table are addresses (`_tile.place`)."""
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [word] * len(WORDS))
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * (1 + len(WORDS))), generate
