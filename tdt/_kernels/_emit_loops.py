"""The functions of an elementwise kernel's object file: loops over arrays around the vectors that `_emit` computes.

`LOOP` has the form of NumPy's inner loops and takes any strides; `LOOPS` is the same for several rows. `ENTRY` is called by
the pool as every kernel is: its words are the number of elements, then address and stride of each array. `ROWS` is called so
for operands that are broadcast. All do whole vectors where arrays lie densely or an operand is one element; the last vector of
a row overlaps others. Rows shorter than a vector, and strided arrays, go through small buffers to the same vector code: under
masks where the processor has masks for all types, else element by element. Large results of short formulas are written past
the cache (`_stream`).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tdt._kernels._angles import TABLE, TABLE_NAME
from tdt._kernels._compilable import ENTRY
from tdt._kernels._emit import STORED
from tdt._kernels._emit_copies import Copies
from tdt._kernels._emit_rows import call_short_rows, patterns, short_rows
from tdt._kernels._native import has_feature, target_triple, vector_width
from tdt._kernels._stream import END_STREAMS, STREAMED, stream_from
from tdt._kernels.expression import Expression

LOOP, LOOPS, ROWS = "tdt_loop", "tdt_loops", "tdt_rows"
BLOCK = 4096  # elements of a block of the pool's work
BUFFER = 256  # elements that go through buffers at a time; a multiple of every vector's width
LEAST_STREAMED = 1 << 13  # bytes of a row that is written past the cache: each of its ends waits for memory
STREAMED_OPERATIONS = 12  # of a formula, up to which its large results are written past the cache
UNROLLED = 100  # operations of a formula up to which two vectors are computed in a round


class Before(NamedTuple):
    """What a loop over the vectors of a row begins with, for one of the blocks that it comes from.

    Attributes:
        number: of vectors that are computed; places: the addresses behind them.
        count, is_left: how many whole vectors there are in all, and whether elements are left.
    """

    block: str
    number: str
    places: list[str]
    count: str = "%all"
    is_left: str = "%some_rest"


class Loops(Copies):
    """The functions of some formulas.

    Attributes:
        ones, ends: memory for a vector of each input: of one element, and the last one of a row.
        rounds: vectors that are computed in a round.
    """

    ones: list[str]
    ends: list[str]
    rounds: int

    @property
    def short_patterns(self) -> list[tuple[bool, ...]]:
        """The patterns of the functions for short rows."""
        return patterns(self.inputs, self.types, len(operations(self.outputs)))

    @property
    def streams(self) -> bool:
        """Whether memory takes longer than the formula, so that large results are written past the cache."""
        return len(operations(self.outputs)) <= STREAMED_OPERATIONS and stream_from() < sys.maxsize

    def vectors(self) -> str:
        """`@vectors`: compute `n` elements of each of some rows; inputs and outputs advance by bytes to the next vector, and row.

        An input that does not advance to the next vector is one element, which is spread over a vector. There is a vector at
        least, and the last one ends where the row ends: some elements are computed twice.
        """
        arrays = [f"in{k}" if k < self.inputs else f"out{k - self.inputs}" for k in range(len(self.types))]
        parameters = ", ".join(f"ptr %{a}, i64 %{a}_step, i64 %{a}_row" for a in arrays)
        self.rounds = 2 if len(operations(self.outputs)) <= UNROLLED else 1
        self.lines = [
            f"define internal void @vectors({parameters}, i64 %n, i64 %rows, i1 %streams, i1 %in_place) noinline {{",
            "entry:",
        ]
        sizes = [STORED[letter][0] for letter in self.types]
        self.ones, self.ends = [
            [self.new(f"alloca [{self.width * size} x i8], align 64") for size in sizes[: self.inputs]]
            for _ in range(2)
        ]
        repeated = [self.new(f"icmp eq i64 %{a}_step, 0") for a in arrays[: self.inputs]]
        self.lines += [
            f"  %all = udiv i64 %n, {self.width}",
            f"  %rest = urem i64 %n, {self.width}",
            "  %some_rest = icmp ne i64 %rest, 0",
            f"  %whole = and i64 %all, {-self.rounds}",
            f"  %last = sub i64 %n, {self.width}",
        ]
        last = [self.new(f"mul i64 %last, {size}") for size in sizes]
        for k, is_one in enumerate(repeated):
            last[k] = self.new(f"select i1 {is_one}, i64 0, i64 {last[k]}")
        self.lines += ["  br label %row", "row:", "  %r = phi i64 [ 0, %entry ], [ %next_r, %row_end ]"]
        self.lines += [f"  %{a}_at = phi ptr [ %{a}, %entry ], [ %{a}_next, %row_end ]" for a in arrays]
        self.lines += [
            "  %more_rows = icmp slt i64 %r, %rows",
            "  br i1 %more_rows, label %row_body, label %done",
        ]
        self.begin("row_body")
        bases = [f"%{a}_at" for a in arrays]
        bases, behind = self._row(sizes, bases, repeated, last)
        self._row_vectors(sizes, bases, behind, arrays, repeated)
        self.lines += ["row_end:", "  %next_r = add i64 %r, 1"]
        self.lines += [f"  %{a}_next = getelementptr i8, ptr %{a}_at, i64 %{a}_row" for a in arrays]
        self.lines += ["  br label %row", "done:"]
        if self.streams:
            self.lines += ["  br i1 %streams, label %ordered, label %returned", "ordered:"]
            self.lines += [f"  call void {END_STREAMS}()", "  br label %returned", "returned:"]
            self.declared |= {f"declare void {END_STREAMS}()", STREAMED}
        self.lines += ["  ret void", "}"]
        return "\n".join(self.lines)

    def _row_vectors(
        self, sizes: list[int], bases: list[str], behind: list[str], arrays: list[str], repeated: list[str]
    ) -> None:
        """Compute the vectors of a row, and the one that ends where the row ends; arguments as `_row` and `_streamed`."""
        rounds, before = self.rounds, [Before(self.block, "0", bases)]
        if self.streams:
            before.append(self._streamed(sizes, bases, arrays, repeated))
        else:
            self.lines.append(f"  br label %{'several' if rounds > 1 else 'single'}")
        if rounds > 1:
            first = [before[0], *[before[0]._replace(block="aligning")] * self.streams]
            here = self._begin_loop("several", first, "%whole", "single")
            self._compute("several", here, arrays, rounds)
            before[0] = Before("several", "%i_several", here)
        here = self._begin_loop("single", before, "%count", "left")
        places = [f"%{a}_place" for a in arrays]
        self.lines += [
            f"  {place} = phi ptr [ {x}, %single ], [ {end}, %end ]"
            for place, x, end in zip(places, here, behind, strict=True)
        ]
        self._compute("single", places, arrays, 1)
        self.lines += [
            "left:",
            "  %first_time = icmp eq i64 %i_single, %count",
            "  %more_left = and i1 %first_time, %is_left",
            "  br i1 %more_left, label %end, label %row_end",
            "end:",
            "  br label %single_body",
        ]

    def _row(
        self, sizes: list[int], bases: list[str], repeated: list[str], last: list[str]
    ) -> tuple[list[str], list[str]]:
        """Where a row's vectors are read and written, and the last vector: operands of one element are spread over one, and the
        last one is saved before an output that is an input is written to.
        """
        self.when(self._any(repeated), "spread", lambda: [
            self._store(size, self._spread(size, base), one) for size, base, one in zip(sizes, bases, self.ones, strict=False)
        ])  # fmt: skip
        for k, one in enumerate(self.ones):
            bases[k] = self.new(f"select i1 {repeated[k]}, ptr {one}, ptr {bases[k]}")
        behind = self._moved(bases, last)
        self.when("%in_place", "saved", lambda: [
            self._store(size, self.new(f"load {self._many(size)}, ptr {source}, align {size}"), end)
            for size, source, end in zip(sizes, behind, self.ends, strict=False)
        ])  # fmt: skip
        for k, end in enumerate(self.ends):
            behind[k] = self.new(f"select i1 %in_place, ptr {end}, ptr {behind[k]}")
        return bases, behind

    def when(self, test: str, label: str, write: Callable[[], object]) -> None:
        """Instructions that are run where a test holds."""
        self.lines.append(f"  br i1 {test}, label %{label}, label %{label}_end")
        self.begin(label)
        write()
        self.lines.append(f"  br label %{label}_end")
        self.begin(f"{label}_end")

    def _any(self, tests: Sequence[str]) -> str:
        """Whether one of some tests holds."""
        found = "false"
        for test in tests:
            found = self.new(f"or i1 {found}, {test}")
        return found

    def _many(self, size: int) -> str:
        """The type of a vector's elements, as integers of so many bytes."""
        return f"<{self.width} x i{8 * size}>"

    def _streamed(self, sizes: list[int], bases: list[str], arrays: list[str], repeated: list[str]) -> Before:
        """Write a row past the cache from the second multiple of a vector's bytes on, and two vectors before it; or go on with
        the block "several", where there is no such place in all results. What the next loop begins with.

        No line is written both past the cache and in it, which takes several times as long.
        """
        self.lines.append("  br i1 %streams, label %aligning, label %several")
        self.begin("aligning")
        number = self.new(f"ptrtoint ptr {bases[self.inputs]} to i64")
        missing = self.new(f"sub i64 0, {number}")
        missing = self.new(f"and i64 {missing}, {self.width * sizes[self.inputs] - 1}")
        skipped = self.new(f"udiv i64 {missing}, {sizes[self.inputs]}")
        offsets = [self.new(f"mul i64 {skipped}, {size}") for size in sizes]
        for k, is_one in enumerate(repeated):
            offsets[k] = self.new(f"select i1 {is_one}, i64 0, i64 {offsets[k]}")
        starts, may = self._moved(bases, offsets), "true"
        for start, size in zip(starts[self.inputs :], sizes[self.inputs :], strict=True):
            number = self.new(f"ptrtoint ptr {start} to i64")
            misplaced = self.new(f"and i64 {number}, {self.width * size - 1}")
            aligned = self.new(f"icmp eq i64 {misplaced}, 0")
            may = self.new(f"and i1 {may}, {aligned}")
        length = self.new(f"sub i64 %n, {skipped}")
        length = self.new(f"sub i64 {length}, {self.width}")
        self.lines += [
            f"  %all_streamed = udiv i64 {length}, {self.width}",
            "  %most_streamed = sub i64 %all_streamed, 1",  # the last vector overlaps another one, which must be in the cache
            f"  %whole_streamed = and i64 %most_streamed, {-self.rounds}",
            f"  %rest_streamed = urem i64 {length}, {self.width}",
            "  %is_left_streamed = icmp ne i64 %rest_streamed, 0",
            f"  br i1 {may}, label %first, label %several",
        ]
        self.begin("first")
        self._vectors_at(bases, arrays, 1)
        starts = self._vectors_at(starts, arrays, 1)
        self.lines.append("  br label %streamed")
        here = self._begin_loop("streamed", [Before(self.block, "0", starts)], "%whole_streamed", "single")
        self._compute("streamed", here, arrays, self.rounds, streamed=True)
        return Before("streamed", "%i_streamed", here, "%all_streamed", "%is_left_streamed")

    def _begin_loop(self, label: str, before: Sequence[Before], end: str, then: str) -> list[str]:
        """Begin a loop over vectors, which comes from the blocks `before`; the names of its addresses."""
        here = [f"%{label}_at{k}" for k in range(len(self.types))]
        first = ", ".join(f"[ {each.number}, %{each.block} ]" for each in before)
        self.lines += [f"{label}:", f"  %i_{label} = phi i64 {first}, [ %next_{label}, %{label}_end ]"]
        for k, x in enumerate(here):
            place = ", ".join(f"[ {each.places[k]}, %{each.block} ]" for each in before)
            self.lines.append(f"  {x} = phi ptr {place}, [ {x}_next, %{label}_end ]")
        if label == "single":
            for name, kind in (("count", "i64"), ("is_left", "i1")):
                values = ", ".join(f"[ {getattr(each, name)}, %{each.block} ]" for each in before)
                self.lines.append(f"  %{name} = phi {kind} {values}, [ %{name}, %single_end ]")
        self.lines += [
            f"  %more_{label} = icmp slt i64 %i_{label}, {end}",
            f"  br i1 %more_{label}, label %{label}_body, label %{then}",
        ]
        self.begin(f"{label}_body")
        return here

    def _compute(self, label: str, places: list[str], arrays: list[str], many: int, streamed: bool = False) -> None:
        """Compute the vectors at these addresses and behind them, `many` together, and end the loop's round.

        streamed: write the results to memory without reading the cache's lines before, which these vectors fill.
        """
        places = self._vectors_at(places, arrays, many, streamed)
        self.lines += [
            f"  br label %{label}_end",
            f"{label}_end:",
            f"  %next_{label} = add i64 %i_{label}, {many}",
            *[f"  %{label}_at{k}_next = getelementptr i8, ptr {place}, i64 0" for k, place in enumerate(places)],
            f"  br label %{label}",
        ]

    def _vectors_at(self, places: list[str], arrays: list[str], many: int, streamed: bool = False) -> list[str]:
        """Compute vectors as `_compute`; the addresses behind them."""
        results = []
        for _ in range(many):
            loads = [self.load(letter, place) for letter, place in zip(self.types, places[: self.inputs], strict=False)]
            known: dict[Any, str] = {}
            for k, output in enumerate(self.outputs, self.inputs):
                results.append((self.types[k], self.value(output, loads, known), places[k]))
            places = self._moved(places, [f"%{a}_step" for a in arrays])
        for letter, value, place in results:
            self.store(letter, value, place, streamed)
        return places

    def module(self) -> str:
        """The whole module's IR."""
        vectors = self.vectors()
        table = [TABLE] if TABLE_NAME in vectors else []
        short = [short_rows(self, each) for each in self.short_patterns]
        functions = [vectors, *short, self.some(), self.loops(), self.loop(), self.entry(), self.rows()]
        body = "\n".join((*table, *functions, *sorted(self.declared)))
        return f'target triple = "{target_triple()}"\n{body}\n'

    def loop(self) -> str:
        """`LOOP`: void (char **args, intp *dims, intp *steps, void *data)."""
        return "\n".join([
            f"define void @{LOOP}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
            "  %n = load i64, ptr %dims, align 8",
            "  call void @some(ptr %args, i64 %n, ptr %steps, i64 1, ptr %steps, i64 %n)",
            "  ret void",
            "}",
        ])  # fmt: skip

    def loops(self) -> str:
        """`LOOPS`: void (char **args, int64 n, int64 *steps, int64 rows, int64 *row_steps)."""
        return "\n".join([
            f"define void @{LOOPS}(ptr %args, i64 %n, ptr %steps, i64 %rows, ptr %row_steps) {{",
            "  %all = mul i64 %n, %rows",
            "  call void @some(ptr %args, i64 %n, ptr %steps, i64 %rows, ptr %row_steps, i64 %all)",
            "  ret void",
            "}",
        ])  # fmt: skip

    def some(self) -> str:
        """`@some`: as `LOOPS`, of a call for so many elements, by all threads."""
        parameters = "ptr %args, i64 %n, ptr %steps, i64 %rows, ptr %row_steps, i64 %total"
        self.lines = [f"define internal void @some({parameters}) noinline {{", "entry:"]
        sizes, masks = [STORED[letter][0] for letter in self.types], _has_masks(self.types)
        firsts, steps, row_steps, buffers = [], [], [], []
        for k, size in enumerate(sizes):
            firsts.append(self._element("ptr", "%args", k))
            steps.append(self._element("i64", "%steps", k))
            row_steps.append(self._element("i64", "%row_steps", k))
            buffers.append(self.new(f"alloca [{BUFFER * size} x i8], align 64"))
        dense, repeated, advances = self._operands(sizes, steps)
        many = self.new(f"icmp sge i64 %n, {self.width}")
        direct = self.new(f"and i1 {dense}, {many}")
        self.lines += [f"  br i1 {direct}, label %direct, label %buffered", "direct:"]
        in_place, streams = self._is_in_place(firsts), "false"
        if self.streams:
            streams = self.new(f"icmp sge i64 %total, {stream_from() // max(sizes[self.inputs :])}")
            long = self.new(f"icmp sge i64 %n, {LEAST_STREAMED // min(sizes[self.inputs :])}")
            streams = self.new(f"and i1 {streams}, {long}")
            apart = self.new(f"xor i1 {in_place}, true")
            streams = self.new(f"and i1 {streams}, {apart}")
            streams = self.new(f"and i1 {streams}, {self._reads_much(repeated, row_steps)}")
        if self.short_patterns:
            call_short_rows(self, firsts, row_steps, repeated, streams, in_place)
        self._call(firsts, advances, row_steps, "%n", "%rows", streams, in_place)
        self.lines += ["  br label %done", "buffered:"]
        if masks:
            self.lines += [f"  br i1 {dense}, label %groups, label %chunks", "groups:"]
            self._by_groups(sizes, firsts, row_steps, repeated, buffers)
        else:
            self.lines.append("  br label %chunks")
        self._by_chunks(sizes, firsts, steps, row_steps, buffers)
        self.lines += ["done:", "  ret void", "}"]
        return "\n".join(self.lines)

    def _by_chunks(
        self, sizes: list[int], firsts: list[str], steps: list[str], row_steps: list[str], buffers: list[str]
    ) -> None:
        """Compute each row, copied into the buffers and back element by element."""
        self.lines += [
            "chunks:",
            "  br label %head",
            "head:",
            "  %row = phi i64 [ 0, %chunks ], [ %next_row, %end ]",
            "  %more_rows = icmp slt i64 %row, %rows",
            "  br i1 %more_rows, label %begin, label %done",
            "begin:",
        ]
        pointers = self._rows_at("%row", firsts, row_steps)
        self.lines += [
            "  br label %chunk",
            "chunk:",
            "  %at = phi i64 [ 0, %begin ], [ %after, %written ]",
            "  %left = sub i64 %n, %at",
            "  %any = icmp sgt i64 %left, 0",
            "  br i1 %any, label %read0, label %end",
            "read0:",
            f"  %small = icmp slt i64 %left, {BUFFER}",
            f"  %m = select i1 %small, i64 %left, i64 {BUFFER}",
        ]
        for k in range(self.inputs):
            offset = self.new(f"mul i64 %at, {steps[k]}")
            source = self.new(f"getelementptr i8, ptr {pointers[k]}, i64 {offset}")
            self.lines += self._fill(f"read{k}", source, steps[k], buffers[k], sizes[k], "%m", f"read{k + 1}")
            self.lines.append(f"read{k + 1}:")
        padded = self.new(f"add i64 %m, {self.width - 1}")
        padded = self.new(f"and i64 {padded}, {-self.width}")
        self._call(buffers, [str(size * self.width) for size in sizes], ["0"] * len(sizes), padded, "1")
        for k in range(self.inputs, len(sizes)):
            offset = self.new(f"mul i64 %at, {steps[k]}")
            target = self.new(f"getelementptr i8, ptr {pointers[k]}, i64 {offset}")
            then = f"write{k + 1}" if k + 1 < len(sizes) else "written"
            self.lines += self._copy(f"write{k}", buffers[k], str(sizes[k]), target, steps[k], sizes[k], "%m", then)
            self.lines.append(f"{then}:")
        self.lines += [
            "  %after = add i64 %at, %m",
            "  br label %chunk",
            "end:",
            "  %next_row = add i64 %row, 1",
            "  br label %head",
        ]

    def _is_in_place(self, firsts: list[str]) -> str:
        """Whether an output is an input."""
        pairs = itertools.product(firsts[: self.inputs], firsts[self.inputs :])
        return self._any([self.new(f"icmp eq ptr {source}, {output}") for source, output in pairs])

    def _reads_much(self, repeated: list[str], row_steps: list[str]) -> str:
        """Whether an input is as large as the results. Else they fill the cache alone, and may stay there."""
        one_row = self.new("icmp eq i64 %rows, 1")
        much = []
        for is_one, row_step in zip(repeated, row_steps, strict=False):
            moves = self.new(f"icmp ne i64 {row_step}, 0")
            moves = self.new(f"or i1 {moves}, {one_row}")
            much.append(self.new(f"select i1 {is_one}, i1 false, i1 {moves}"))
        return self._any(much)

    def _by_groups(
        self, sizes: list[int], firsts: list[str], row_steps: list[str], repeated: list[str], buffers: list[str]
    ) -> None:
        """Compute some dense rows of less than a vector at a time, by way of the buffers."""
        counts = ["%n"] * len(sizes)
        for k, is_one in enumerate(repeated):  # of an operand of one element, nothing else is read
            counts[k] = self.new(f"select i1 {is_one}, i64 1, i64 %n")
        masks = [self._first(count) for count in counts]
        self.lines += [
            "  br label %group",
            "group:",
            "  %from = phi i64 [ 0, %groups ], [ %to, %written_group ]",
            "  %more_groups = icmp slt i64 %from, %rows",
            "  br i1 %more_groups, label %some_rows, label %done",
        ]
        self.begin("some_rows")
        self.lines += [
            f"  %most = add i64 %from, {BUFFER // self.width}",
            "  %over = icmp slt i64 %rows, %most",
            "  %to = select i1 %over, i64 %rows, i64 %most",
            "  %together = sub i64 %to, %from",
        ]
        inputs, outputs = slice(self.inputs), slice(self.inputs, None)
        self._each_row("read", firsts[inputs], row_steps[inputs], buffers[inputs], sizes[inputs], masks[inputs])
        together = self.new(f"mul i64 %together, {self.width}")
        self._call(buffers, [str(size * self.width) for size in sizes], ["0"] * len(sizes), together, "1")
        self._each_row("write", firsts[outputs], row_steps[outputs], buffers[outputs], sizes[outputs], masks[outputs])
        self.lines += ["  br label %written_group", "written_group:", "  br label %group"]

    def _each_row(
        self, how: str, firsts: list[str], row_steps: list[str], buffers: list[str], sizes: list[int], masks: list[str]
    ) -> None:
        """ "read" elements of the rows %from to %to under masks into vectors of the buffers, or "write" them from there."""
        before = self.block
        self.lines += [
            f"  br label %{how}_head",
            f"{how}_head:",
            f"  %{how}_row = phi i64 [ %from, %{before} ], [ %{how}_next, %{how}_one ]",
            f"  %{how}_more = icmp slt i64 %{how}_row, %to",
            f"  br i1 %{how}_more, label %{how}_one, label %{how}_done",
            f"{how}_one:",
            f"  %{how}_place = sub i64 %{how}_row, %from",
            f"  %{how}_next = add i64 %{how}_row, 1",
        ]
        places = self._rows_at(f"%{how}_row", firsts, row_steps)
        for place, buffer, size, mask in zip(places, buffers, sizes, masks, strict=True):
            kind, name = self._many(size), f"@llvm.masked.{{}}.v{self.width}i{8 * size}.p0"
            offset = self.new(f"mul i64 %{how}_place, {size * self.width}")
            there = self.new(f"getelementptr i8, ptr {buffer}, i64 {offset}")
            if (
                how == "read"
            ):  # and the first element again: no other number, which might raise a floating-point exception
                name = name.format("load")
                self.declared.add(f"declare {kind} {name}(ptr, i32, {self.bits}, {kind})")
                other = self._spread(size, place)
                value = self.new(f"call {kind} {name}(ptr {place}, i32 {size}, {self.bits} {mask}, {kind} {other})")
                self._store(size, value, there)
            else:
                name = name.format("store")
                self.declared.add(f"declare void {name}({kind}, ptr, i32, {self.bits})")
                value = self.new(f"load {kind}, ptr {there}, align {size}")
                self.lines.append(f"  call void {name}({kind} {value}, ptr {place}, i32 {size}, {self.bits} {mask})")
        self.lines.append(f"  br label %{how}_head")
        self.begin(f"{how}_done")

    def _rows_at(self, row: str, firsts: list[str], row_steps: list[str]) -> list[str]:
        """The addresses of a row in each array."""
        return self._moved(firsts, [self.new(f"mul i64 {row}, {step}") for step in row_steps])

    def _operands(self, sizes: list[int], steps: list[str]) -> tuple[str, list[str], list[str]]:
        """Whether whole vectors can be read and written where arrays lie, which inputs are one element, and the bytes to the
        next vector."""
        dense, repeated, advances = "true", [], []
        for k, size in enumerate(sizes):
            fits = self.new(f"icmp eq i64 {steps[k]}, {size}")
            advances.append(str(size * self.width))
            if k < self.inputs:
                repeated.append(self.new(f"icmp eq i64 {steps[k]}, 0"))
                fits = self.new(f"or i1 {fits}, {repeated[k]}")
                advances[k] = self.new(f"select i1 {repeated[k]}, i64 0, i64 {size * self.width}")
            dense = self.new(f"and i1 {dense}, {fits}")
        return dense, repeated, advances

    def _call(self, bases: Sequence[str], steps: Sequence[str], row_steps: Sequence[str], n: str, rows: str,
              streams: str = "false", in_place: str = "false") -> None:  # fmt: skip
        arrays = zip(bases, steps, row_steps, strict=True)
        args = ", ".join(f"ptr {base}, i64 {step}, i64 {row}" for base, step, row in arrays)
        self.lines.append(f"  call void @vectors({args}, i64 {n}, i64 {rows}, i1 {streams}, i1 {in_place})")

    def entry(self) -> str:
        """`ENTRY`: int64 (int64 *words, int64 first, int64 last), blocks [first, last) of the elements."""
        count = len(self.types)
        self.lines = [
            f"define i64 @{ENTRY}(ptr %words, i64 %first, i64 %last) {{",
            f"  %args = alloca [{count} x ptr], align 8",
            f"  %steps = alloca [{count} x i64], align 8",
            "  %n = load i64, ptr %words, align 8",
            f"  %start = mul i64 %first, {BLOCK}",
            f"  %stop = mul i64 %last, {BLOCK}",
            "  %over = icmp slt i64 %n, %stop",
            "  %limit = select i1 %over, i64 %n, i64 %stop",
            "  %m = sub i64 %limit, %start",
        ]
        for k in range(count):
            pointer = self._element("ptr", "%words", 1 + 2 * k)
            step = self._element("i64", "%words", 2 + 2 * k)
            offset = self.new(f"mul i64 %start, {step}")
            place = self.new(f"getelementptr i8, ptr {pointer}, i64 {offset}")
            slot = self.new(f"getelementptr ptr, ptr %args, i64 {k}")
            self.lines.append(f"  store ptr {place}, ptr {slot}, align 8")
            slot = self.new(f"getelementptr i64, ptr %steps, i64 {k}")
            self.lines.append(f"  store i64 {step}, ptr {slot}, align 8")
        self.lines += [
            "  call void @some(ptr %args, i64 %m, ptr %steps, i64 1, ptr %steps, i64 %n)",
            "  ret i64 0",
            "}",
        ]
        return "\n".join(self.lines)

    def rows(self) -> str:
        """`ROWS`: int64 (int64 *words, int64 first, int64 last), rows [first, last) of arrays that are broadcast.

        words: the elements of a row, the sizes of the last two of the three dimensions that rows have; then each array's
        address, its step in a row, and its steps along these three dimensions.
        """
        self.lines = [
            f"define i64 @{ROWS}(ptr %words, i64 %first, i64 %last) {{",
            "entry:",
            f"  %args = alloca [{len(self.types)} x ptr], align 8",
            f"  %steps = alloca [{len(self.types)} x i64], align 8",
            f"  %row_steps = alloca [{len(self.types)} x i64], align 8",
        ]
        n, size1, size2 = (self._element("i64", "%words", k) for k in range(3))
        places = []
        for k in range(len(self.types)):
            address, step, *strides = (self._element("i64", "%words", 3 + 5 * k + j) for j in range(5))
            for array, value in (("%steps", step), ("%row_steps", strides[2])):
                slot = self.new(f"getelementptr i64, ptr {array}, i64 {k}")
                self.lines.append(f"  store i64 {value}, ptr {slot}, align 8")
            places.append((self.new(f"inttoptr i64 {address} to ptr"), strides))
        self.lines += [
            "  br label %head",
            "head:",
            "  %row = phi i64 [ %first, %entry ], [ %next, %body ]",
            "  %left = sub i64 %last, %row",
            "  %more = icmp sgt i64 %left, 0",
            "  br i1 %more, label %body, label %done",
            "body:",
        ]
        rest = self.new(f"udiv i64 %row, {size2}")
        at = [self.new(f"udiv i64 {rest}, {size1}"), self.new(f"urem i64 {rest}, {size1}"),
              self.new(f"urem i64 %row, {size2}")]  # fmt: skip
        for k, (address, strides) in enumerate(places):
            for index, stride in zip(at, strides, strict=True):
                offset = self.new(f"mul i64 {index}, {stride}")
                address = self.new(f"getelementptr i8, ptr {address}, i64 {offset}")
            slot = self.new(f"getelementptr ptr, ptr %args, i64 {k}")
            self.lines.append(f"  store ptr {address}, ptr {slot}, align 8")
        together = self.new(f"sub i64 {size2}, {at[2]}")
        fewer = self.new(f"icmp slt i64 %left, {together}")
        together = self.new(f"select i1 {fewer}, i64 %left, i64 {together}")
        self.lines += [
            f"  call void @{LOOPS}(ptr %args, i64 {n}, ptr %steps, i64 {together}, ptr %row_steps)",
            f"  %next = add i64 %row, {together}",
            "  br label %head",
            "done:",
            "  ret i64 0",
            "}",
        ]
        return "\n".join(self.lines)


def _has_masks(types: str) -> bool:
    """Whether this processor has instructions that read and write vectors of these storage types under a mask."""
    return all(map(has_feature, ("avx512bw", "avx512vl"))) or (has_feature("avx2") and set(types) <= set("fd"))


def operations(expressions: Sequence[Expression]) -> set[int]:
    """The distinct nodes of expressions, without those that are rarely computed."""
    found: set[int] = set()
    stack = [*expressions]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found.add(id(node))
            stack += [a for a in (node.args[:2] if node.op == "rare" else node.args) if isinstance(a, Expression)]
    return found


def module(outputs: Sequence[Expression], types: str, width: int | None = None) -> str | None:
    """The IR of formulas, for the storage types of their inputs and outputs; None where this processor has no
    instructions to convert float16.

    width: float32 numbers in a vector; None: as many as this processor's registers hold, and 16 where results are bfloat16,
    whose words are joined sixteen at a time: on AVX2 they are computed in two registers, side by side.
    """
    if "e" in types and target_triple().startswith("x86") and not has_feature("f16c"):
        return None
    return Loops(outputs, types, width or (16 if types[-1] == "E" else vector_width())).module()
