"""Expressions to machine code: LLVM IR with explicit vectors and without fast-math flags, compiled by llvmlite.

An object file has these functions. `LOOP` has the form of NumPy's inner loops and takes any strides; `LOOPS` is the same for
several rows. `ENTRY` is called by the pool as every kernel is: its words are the number of elements, then address and stride
of each array. `ROWS` is called so for operands that are broadcast. All do whole vectors where arrays lie densely or an operand
is one element. What remains is read and written under a mask where the processor has masks for every type, and goes, as
strided arrays do, through small buffers to the same vector code elsewhere. No flag lets LLVM reorder or contract, so all of it
gives the same bits.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from tdt._kernels._angles import RESULTS, TABLE, TABLE_NAME, angle
from tdt._kernels._compilable import ENTRY
from tdt._kernels._native import has_feature, target_triple, vector_width
from tdt._kernels._syntax import constant, intrinsic, vector
from tdt._kernels.expression import Expression, is_constant

LOOP, LOOPS, ROWS = "tdt_loop", "tdt_loops", "tdt_rows"
BLOCK = 4096  # elements of a block of the pool's work
BUFFER = 256  # elements that go through buffers at a time; a multiple of every vector's width
UNROLLED = 100  # operations of a formula up to which two vectors are computed in a round

# Storage types by NumPy's letter, with "E" for bfloat16: bytes, LLVM's type.
STORED = {"f": (4, "float"), "d": (8, "double"), "e": (2, "half"), "E": (2, "bfloat"), "?": (1, "i8")}

BINARY = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
COMPARE = {
    "less": "olt", "less_equal": "ole", "greater": "ogt", "greater_equal": "oge", "equal": "oeq", "not_equal": "une",
}  # fmt: skip
CALLS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
         "fma": "fma", "copysign": "copysign"}  # fmt: skip

# AVX-512's instruction for x · 2^n, and the type of its mask, by vector.
SCALEF = {"<16 x float>": ("@llvm.x86.avx512.mask.scalef.ps.512", "i16"),
          "<8 x double>": ("@llvm.x86.avx512.mask.scalef.pd.512", "i8")}  # fmt: skip
CURRENT_ROUNDING = 4

# AVX-512's estimate of 1 / sqrt(x), within 2^-14, and the bits of the numbers between which square roots begin with it.
ROOT_VECTOR, ROOT_ESTIMATE = "<16 x float>", "@llvm.x86.avx512.rsqrt14.ps.512"
ROOT_FROM, ROOT_TO = (127 - 96) << 23, (127 + 96) << 23


def digest(outputs: Sequence[Expression], types: str) -> str:
    """A hash of formulas and storage types: the name under which their code is kept."""
    numbers: dict[tuple, int] = {}
    known: dict[int, int] = {}
    places = [_number(expression, numbers, known) for expression in outputs]
    return hashlib.sha256(repr((types, list(numbers), places)).encode()).hexdigest()[:24]


def _number(expression: Expression, numbers: dict[tuple, int], known: dict[int, int]) -> int:
    """The place of an expression in a list without repetition, operands first; equal expressions share one."""
    place = known.get(id(expression))
    if place is None:
        args = [_number(a, numbers, known) if isinstance(a, Expression) else a for a in expression.args]
        if expression.op in ("constant", "number"):  # a hexadecimal text tells -0 from 0, and NaN is equal to itself
            args = [struct.pack("<d", expression.args[0]).hex()]
        place = known[id(expression)] = numbers.setdefault((expression.op, *args), len(numbers))
    return place


class Emitter:
    """The IR of formulas of the same inputs for one vector width."""

    def __init__(self, outputs: Sequence[Expression], types: str, width: int):
        """types: the inputs' letters of `STORED`, then the outputs'."""
        self.outputs, self.types, self.inputs = outputs, types, len(types) - len(outputs)
        self.double = "d" in types
        self.real = "double" if self.double else "float"
        self.width = width // 2 if self.double else width
        self.vector, self.words = f"<{self.width} x {self.real}>", f"<{self.width} x i32>"
        self.bits = f"<{self.width} x i1>"
        self.masks = _has_masks(types)
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self.count = 0
        self.block = "entry"

    def new(self, text: str) -> str:
        """Append an instruction; the name of its value."""
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def begin(self, block: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{block}:")
        self.block = block

    def splat(self, value: float, kind: str) -> str:
        """A constant vector."""
        return constant(value, vector(kind, self.width))

    def intrinsic(self, name: str, args: Sequence[str], result: str, parameter: str) -> str:
        function = intrinsic(name, parameter)
        self.declared.add(f"declare {result} {function}({', '.join([parameter] * len(args))})")
        return self.new(f"call {result} {function}({', '.join(f'{parameter} {a}' for a in args)})")

    def value(self, expression: Expression, loads: Sequence[str], known: dict[Any, str], double: bool = False) -> str:
        """The name of an expression's value, computed from the inputs' vectors `loads`.

        Args:
            known: the names of the values that were computed before, by node and by operation.
            double: of a constant, or a selection of constants, whether it is of float64.
        """
        op = expression.op
        if op == "input":
            return loads[expression.args[0]]
        if op == "constant":
            return self.splat(expression.args[0], "double" if double else "float")
        if op == "number":
            return self.splat(expression.args[0], self.real)
        if id(expression) not in known:
            if not is_constant(expression):
                double = any(a.double for a in expression.args)
            double = double or self.double
            first = expression.args[:2] if op == "rare" else expression.args
            args = [self.value(a, loads, known, double) for a in first]
            if op == "rare":
                name = self.rare(args, expression.args[2], loads, known)
            else:
                key = (op, *args)
                if key not in known:
                    known[key] = self.operation(op, args, expression, "double" if double else "float")
                name = known[key]
            known[id(expression)] = name
        return known[id(expression)]

    def rare(self, args: list[str], otherwise: Expression, loads: Sequence[str], known: dict[Any, str]) -> str:
        """Elements of a value, replaced by those of `otherwise` where a condition holds, which is only then computed."""
        condition, value = args
        kind = "double" if self.double or otherwise.double else "float"
        vector = f"<{self.width} x {kind}>"
        mask = self.new(f"bitcast {self.bits} {condition} to i{self.width}")
        some = self.new(f"icmp ne i{self.width} {mask}, 0")
        before, there, after = self.block, f"rare{self.count}", f"common{self.count}"
        self.lines.append(f"  br i1 {some}, label %{there}, label %{after}")
        self.begin(there)
        other = self.value(otherwise, loads, dict(known), kind == "double")
        other = self.new(f"select {self.bits} {condition}, {vector} {other}, {vector} {value}")
        last = self.block
        self.lines.append(f"  br label %{after}")
        self.begin(after)
        return self.new(f"phi {vector} [ {value}, %{before} ], [ {other}, %{last} ]")

    def operation(self, op: str, args: list[str], expression: Expression, real: str) -> str:
        """The name of the value of one operation on vectors of `real` numbers."""
        v = f"<{self.width} x {real}>"
        if op in BINARY:
            return self.new(f"{BINARY[op]} {v} {args[0]}, {args[1]}")
        if op in COMPARE:
            return self.new(f"fcmp {COMPARE[op]} {v} {args[0]}, {args[1]}")
        if op == "sqrt" and v == ROOT_VECTOR and has_feature("avx512f"):
            return self.root(args[0])
        if op in CALLS:
            return self.intrinsic(CALLS[op], args, v, v)
        if op == "negative":
            return self.new(f"fneg {v} {args[0]}")
        if op == "where":
            kind = self.bits if expression.args[1].logical else v
            return self.new(f"select {self.bits} {args[0]}, {kind} {args[1]}, {kind} {args[2]}")
        if op in ("and", "or", "xor"):
            return self.new(f"{op} {self.bits} {args[0]}, {args[1]}")
        if op == "not":
            return self.new(f"xor {self.bits} {args[0]}, {self.splat(True, 'i1')}")
        if op == "to_double":
            return self.new(f"fpext {self.vector} {args[0]} to <{self.width} x double>")
        if op == "to_float":
            return self.new(f"fptrunc {v} {args[0]} to {self.vector}")
        if op == "scaled":
            return self.scaled(*args, real)
        if op in RESULTS:
            return angle(self, op, args[0])
        return self.parts(op, args[0], real)

    def root(self, x: str) -> str:
        """The square root, rounded as IEEE 754 says: by Newton's method from AVX-512's estimate, in half an instruction's time.

        The last step rounds correctly what is within a unit of the last place (P. Markstein, 1990), for the numbers from
        2^-96 to 2^96; where there are others, the instruction computes the vector.
        """
        v, words = self.vector, self.words
        place = self.new(f"bitcast {v} {x} to {words}")
        place = self.new(f"sub {words} {place}, {self.splat(ROOT_FROM, 'i32')}")
        usual = self.new(f"icmp ult {words} {place}, {self.splat(ROOT_TO - ROOT_FROM, 'i32')}")
        number = self.new(f"select {self.bits} {usual}, {v} {x}, {v} {self.splat(1.0, 'float')}")
        self.declared.add(f"declare {v} {ROOT_ESTIMATE}({v}, {v}, i16)")
        estimate = self.new(f"call {v} {ROOT_ESTIMATE}({v} {number}, {v} zeroinitializer, i16 -1)")
        root = self.new(f"fmul {v} {number}, {estimate}")
        half = self.new(f"fmul {v} {estimate}, {self.splat(0.5, 'float')}")
        less = self.new(f"fneg {v} {half}")
        error = self.intrinsic("fma", [less, root, self.splat(0.5, "float")], v, v)
        root = self.intrinsic("fma", [root, error, root], v, v)
        half = self.intrinsic("fma", [half, error, half], v, v)
        less = self.new(f"fneg {v} {root}")
        error = self.intrinsic("fma", [less, root, number], v, v)
        root = self.intrinsic("fma", [error, half, root], v, v)
        mask = self.new(f"bitcast {self.bits} {usual} to i{self.width}")
        all_usual = self.new(f"icmp eq i{self.width} {mask}, -1")
        before, there, after = self.block, f"unusual{self.count}", f"rooted{self.count}"
        self.lines.append(f"  br i1 {all_usual}, label %{after}, label %{there}")
        self.begin(there)
        other = self.intrinsic("sqrt", [x], v, v)
        self.lines.append(f"  br label %{after}")
        self.begin(after)
        return self.new(f"phi {v} [ {root}, %{before} ], [ {other}, %{there} ]")

    def scaled(self, x: str, n: str, real: str) -> str:
        """x · 2^n: one instruction of AVX-512, else two powers of 2, so that a subnormal result is rounded once."""
        v = f"<{self.width} x {real}>"
        if v in SCALEF and has_feature("avx512f"):
            function, mask = SCALEF[v]
            self.declared.add(f"declare {v} {function}({v}, {v}, {v}, {mask}, i32)")
            return self.new(f"call {v} {function}({v} {x}, {v} {n}, {v} {x}, {mask} -1, i32 {CURRENT_ROUNDING})")
        half = self.new(f"fmul {v} {n}, {self.splat(0.5, real)}")
        half = self.intrinsic("floor", [half], v, v)
        x = self.new(f"fmul {v} {x}, {self.parts('power_of_2', half, real)}")
        rest = self.new(f"fsub {v} {n}, {half}")
        return self.new(f"fmul {v} {x}, {self.parts('power_of_2', rest, real)}")

    def parts(self, op: str, x: str, real: str) -> str:
        """Operations on the bits of a number: powers of 2, mantissa and exponent, the lowest bits of an integer."""
        v, word = f"<{self.width} x {real}>", "i64" if real == "double" else "i32"
        words = f"<{self.width} x {word}>"
        double = real == "double"
        shift, magic, bias = (52, 6755399441055744.0, 1023) if double else (23, 12582912.0, 127)
        if op in (
            "power_of_2",
            "odd",
            "odd_half",
        ):  # adding 1.5 · 2^23 puts an integer into the lowest bits of the fraction
            number = self.new(f"fadd {v} {x}, {self.splat(magic + (bias if op == 'power_of_2' else 0), real)}")
            number = self.new(f"bitcast {v} {number} to {words}")
            if op != "power_of_2":
                number = self.new(f"and {words} {number}, {self.splat(1 if op == 'odd' else 2, word)}")
                return self.new(f"icmp ne {words} {number}, zeroinitializer")
            number = self.new(f"shl {words} {number}, {self.splat(shift, word)}")
            return self.new(f"bitcast {words} {number} to {v}")
        if op in ("mantissa", "exponent"):
            # 0x3f2aaaab: 2/3, so that the mantissa is nearest to 1.
            base = 0x3FE5555555555555 if double else 0x3F2AAAAB
            number = self.new(f"bitcast {v} {x} to {words}")
            high = self.new(f"sub {words} {number}, {self.splat(base, word)}")
            high = self.new(f"and {words} {high}, {self.splat(-(1 << shift), word)}")
            if op == "mantissa":
                number = self.new(f"sub {words} {number}, {high}")
                return self.new(f"bitcast {words} {number} to {v}")
            if double:  # AVX2 shifts and converts no signed 64-bit integers
                high = self.new(f"lshr {words} {high}, {self.splat(32, word)}")
                high = self.new(f"trunc {words} {high} to {self.words}")
            high = self.new(f"ashr {self.words} {high}, {self.splat(shift % 32, 'i32')}")
            return self.new(f"sitofp {self.words} {high} to {v}")
        raise NotImplementedError(f"no instruction for {op}")

    def load(self, letter: str, address: str) -> str:
        """A vector of an input, in the type that is computed in."""
        size, kind = STORED[letter]
        if letter == "?":
            raw = self.new(f"load <{self.width} x i8>, ptr {address}, align 1")
            return self.new(f"icmp ne <{self.width} x i8> {raw}, zeroinitializer")
        raw = self.new(f"load <{self.width} x {'i16' if letter == 'E' else kind}>, ptr {address}, align {size}")
        if letter == "E":  # the upper half of a float
            wide = self.new(f"zext <{self.width} x i16> {raw} to {self.words}")
            wide = self.new(f"shl {self.words} {wide}, {self.splat(16, 'i32')}")
            return self.new(f"bitcast {self.words} {wide} to {self.vector}")
        if kind != self.real:
            return self.new(f"fpext <{self.width} x {kind}> {raw} to {self.vector}")
        return raw

    def store(self, letter: str, value: str, address: str) -> None:
        size, kind = STORED[letter]
        many = f"<{self.width} x {kind}>"
        if letter == "?":
            value = self.new(f"zext <{self.width} x i1> {value} to {many}")
        elif letter == "E":  # to the nearest, ties to even; NaN keeps its sign
            value, many = self.to_bfloat16(value), f"<{self.width} x i16>"
        elif kind != self.real:
            value = self.new(f"fptrunc {self.vector} {value} to {many}")
        self.lines.append(f"  store {many} {value}, ptr {address}, align {size}")

    def to_bfloat16(self, value: str) -> str:
        words, w = self.words, self.width
        number = self.new(f"bitcast {self.vector} {value} to {words}")
        odd = self.new(f"lshr {words} {number}, {self.splat(16, 'i32')}")
        odd = self.new(f"and {words} {odd}, {self.splat(1, 'i32')}")
        rounded = self.new(f"add {words} {number}, {self.splat(0x7FFF, 'i32')}")
        rounded = self.new(f"add {words} {rounded}, {odd}")
        quiet = self.new(f"and {words} {number}, {self.splat(-0x80000000, 'i32')}")
        quiet = self.new(f"or {words} {quiet}, {self.splat(0x7FC00000, 'i32')}")
        nan = self.new(f"fcmp uno {self.vector} {value}, {value}")
        rounded = self.new(f"select <{w} x i1> {nan}, {words} {quiet}, {words} {rounded}")
        rounded = self.new(f"lshr {words} {rounded}, {self.splat(16, 'i32')}")
        return self.new(f"trunc {words} {rounded} to <{w} x i16>")

    def vectors(self) -> str:
        """`@vectors`: compute `n` vectors of each of some rows; inputs and outputs advance by bytes to the next vector, and row.

        An input that does not advance to the next vector is one element, which is spread over a vector.
        """
        arrays = [f"in{k}" if k < self.inputs else f"out{k - self.inputs}" for k in range(len(self.types))]
        parameters = ", ".join(f"ptr %{a}, i64 %{a}_step, i64 %{a}_row" for a in arrays)
        rounds = 2 if len(_operations(self.outputs)) <= UNROLLED else 1
        self.lines = [f"define internal void @vectors({parameters}, i64 %n, i64 %rows) noinline {{", "entry:"]
        sizes = [STORED[letter][0] for letter in self.types]
        ones = [self.new(f"alloca [{self.width * size} x i8], align 64") for size in sizes[: self.inputs]]
        repeated = [self.new(f"icmp eq i64 %{a}_step, 0") for a in arrays[: self.inputs]]
        self.lines += [f"  %whole = and i64 %n, {-rounds}", "  br label %row"]
        self.lines += ["row:", "  %r = phi i64 [ 0, %entry ], [ %next_r, %row_end ]"]
        self.lines += [f"  %{a}_at = phi ptr [ %{a}, %entry ], [ %{a}_next, %row_end ]" for a in arrays]
        self.lines += ["  %more_rows = icmp slt i64 %r, %rows", "  br i1 %more_rows, label %row_body, label %done", "row_body:"]
        places = {a: f"%{a}_at" for a in arrays}
        for a, one, is_one, size in zip(arrays, ones, repeated, sizes, strict=False):
            self._store(size, self._spread(size, places[a]), one)
            places[a] = self.new(f"select i1 {is_one}, ptr {one}, ptr {places[a]}")
        self.lines.append("  br label %head")
        before, first = "row_body", "0"
        for label, many, end in (("head", rounds, "%whole"), *((("tail", 1, "%n"),) if rounds > 1 else ())):
            here = {a: f"%{a}_{label}" for a in arrays}
            after = "tail" if label == "head" and rounds > 1 else "row_end"
            self.lines += [
                f"{label}:",
                f"  %i_{label} = phi i64 [ {first}, %{before} ], [ %next_{label}, %{label}_end ]",
                *[f"  {here[a]} = phi ptr [ {places[a]}, %{before} ], [ {here[a]}_next, %{label}_end ]" for a in arrays],
                f"  %more_{label} = icmp slt i64 %i_{label}, {end}",
                f"  br i1 %more_{label}, label %{label}_body, label %{after}",
            ]
            self.begin(f"{label}_body")
            results = []
            places = here
            for _ in range(many):
                inputs = zip(self.types, arrays[: self.inputs], strict=False)
                loads = [self.load(letter, places[a]) for letter, a in inputs]
                known: dict[Any, str] = {}
                for k, output in enumerate(self.outputs):
                    results.append((k, self.value(output, loads, known), places[f"out{k}"]))
                places = {a: self.new(f"getelementptr i8, ptr {places[a]}, i64 %{a}_step") for a in arrays}
            for k, value, place in results:
                self.store(self.types[self.inputs + k], value, place)
            self.lines += [
                f"  br label %{label}_end",
                f"{label}_end:",
                f"  %next_{label} = add i64 %i_{label}, {many}",
                *[f"  {here[a]}_next = getelementptr i8, ptr {places[a]}, i64 0" for a in arrays],
                f"  br label %{label}",
            ]
            before, first, places = label, f"%i_{label}", here
        self.lines += ["row_end:", "  %next_r = add i64 %r, 1"]
        self.lines += [f"  %{a}_next = getelementptr i8, ptr %{a}_at, i64 %{a}_row" for a in arrays]
        self.lines += ["  br label %row", "done:", "  ret void", "}"]
        return "\n".join(self.lines)

    def module(self, rows: bool) -> str:
        """The whole module's IR, with `ROWS` if wanted."""
        vectors = self.vectors()
        table = [TABLE] if TABLE_NAME in vectors else []
        functions = [vectors, self.loops(), self.loop(), self.entry(), *([self.rows()] if rows else [])]
        body = "\n".join((*table, *functions, *sorted(self.declared)))
        return f'target triple = "{target_triple()}"\n{body}\n'

    def loop(self) -> str:
        """`LOOP`: void (char **args, intp *dims, intp *steps, void *data)."""
        return "\n".join([
            f"define void @{LOOP}(ptr %args, ptr %dims, ptr %steps, ptr %data) {{",
            "  %n = load i64, ptr %dims, align 8",
            f"  call void @{LOOPS}(ptr %args, i64 %n, ptr %steps, i64 1, ptr %steps)",
            "  ret void",
            "}",
        ])  # fmt: skip

    def loops(self) -> str:
        """`LOOPS`: void (char **args, int64 n, int64 *steps, int64 rows, int64 *row_steps)."""
        self.lines = [f"define void @{LOOPS}(ptr %args, i64 %n, ptr %steps, i64 %rows, ptr %row_steps) {{", "entry:"]
        sizes = [STORED[letter][0] for letter in self.types]
        firsts, steps, row_steps, buffers = [], [], [], []
        for k, size in enumerate(sizes):
            firsts.append(self._element("ptr", "%args", k))
            steps.append(self._element("i64", "%steps", k))
            row_steps.append(self._element("i64", "%row_steps", k))
            buffers.append(self.new(f"alloca [{BUFFER * size} x i8], align 64"))
        dense, repeated, advances = self._operands(sizes, steps)
        whole = self.new(f"udiv i64 %n, {self.width}")
        whole = self.new(f"select i1 {dense}, i64 {whole}, i64 0")
        start = self.new(f"mul i64 {whole}, {self.width}")
        rest = self.new(f"icmp slt i64 {start}, %n")
        if self.masks:
            apart = self.new(f"and i1 {dense}, {rest}")
            self.lines += [f"  br i1 {apart}, label %groups, label %all", "groups:"]
            self._by_groups(sizes, (firsts, advances, row_steps), repeated, buffers, whole, start)
            self.lines.append("all:")
        self._call_some(firsts, advances, row_steps, whole, "%rows", "rests")
        self.lines += [f"  br i1 {rest}, label %head, label %done"]
        self.lines += [
            "head:",
            "  %row = phi i64 [ 0, %rests ], [ %next_row, %end ]",
            "  %more_rows = icmp slt i64 %row, %rows",
            "  br i1 %more_rows, label %begin, label %done",
            "begin:",
        ]
        pointers = self._rows_at("%row", firsts, row_steps)
        self.lines += [
            "  br label %chunk",
            "chunk:",
            f"  %at = phi i64 [ {start}, %begin ], [ %after, %written ]",
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
        several = self.new(f"add i64 %m, {self.width - 1}")
        several = self.new(f"sdiv i64 {several}, {self.width}")
        self._call(buffers, [str(size * self.width) for size in sizes], ["0"] * len(sizes), several, "1")
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
            "done:",
            "  ret void",
            "}",
        ]
        return "\n".join(self.lines)

    def _by_groups(
        self, sizes: list[int], arrays: tuple[list[str], list[str], list[str]], repeated: list[str], buffers: list[str],
        whole: str, start: str,
    ) -> None:  # fmt: skip
        """Compute some dense rows at a time: whole vectors, then what is left, less than a vector each, by way of the buffers."""
        firsts, advances, row_steps = arrays
        left = self.new(f"sub i64 %n, {start}")
        offsets = [self.new(f"mul i64 {start}, {size}") for size in sizes]
        counts = [left] * len(sizes)
        for k, is_one in enumerate(repeated):  # of an operand of one element, nothing else is read
            offsets[k] = self.new(f"select i1 {is_one}, i64 0, i64 {offsets[k]}")
            counts[k] = self.new(f"select i1 {is_one}, i64 1, i64 {left}")
        masks = [self._first(count) for count in counts]
        ends = self._moved(firsts, offsets)
        self.lines += [
            "  br label %group",
            "group:",
            "  %from = phi i64 [ 0, %groups ], [ %to, %written_group ]",
            "  %more_groups = icmp slt i64 %from, %rows",
            "  br i1 %more_groups, label %some_rows, label %done",
            "some_rows:",
            f"  %most = add i64 %from, {BUFFER // self.width}",
            "  %over = icmp slt i64 %rows, %most",
            "  %to = select i1 %over, i64 %rows, i64 %most",
            "  %together = sub i64 %to, %from",
        ]
        self._call_some(self._rows_at("%from", firsts, row_steps), advances, row_steps, whole, "%together", "fill")
        inputs, outputs = slice(self.inputs), slice(self.inputs, None)
        self._each_row("read", ends[inputs], row_steps[inputs], buffers[inputs], sizes[inputs], masks[inputs])
        self._call(buffers, [str(size * self.width) for size in sizes], ["0"] * len(sizes), "%together", "1")
        self._each_row("write", ends[outputs], row_steps[outputs], buffers[outputs], sizes[outputs], masks[outputs])
        self.lines += ["  br label %written_group", "written_group:", "  br label %group"]

    def _each_row(
        self, how: str, firsts: list[str], row_steps: list[str], buffers: list[str], sizes: list[int], masks: list[str]
    ) -> None:
        """"read" elements of the rows %from to %to under masks into vectors of the buffers, or "write" them from there."""
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
            kind, name = f"<{self.width} x i{8 * size}>", f"@llvm.masked.{{}}.v{self.width}i{8 * size}.p0"
            offset = self.new(f"mul i64 %{how}_place, {size * self.width}")
            there = self.new(f"getelementptr i8, ptr {buffer}, i64 {offset}")
            if how == "read":  # and the first element again: no other number, which might raise a floating-point exception
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

    def _moved(self, addresses: list[str], offsets: list[str]) -> list[str]:
        return [self.new(f"getelementptr i8, ptr {a}, i64 {k}") for a, k in zip(addresses, offsets, strict=True)]

    def _first(self, count: str) -> str:
        """The mask of a vector's first elements."""
        count = self.new(f"trunc i64 {count} to i32")
        count = self.new(f"insertelement {self.words} poison, i32 {count}, i64 0")
        count = self.new(f"shufflevector {self.words} {count}, {self.words} poison, {self.words} zeroinitializer")
        places = f"<{', '.join(f'i32 {k}' for k in range(self.width))}>"
        return self.new(f"icmp slt {self.words} {places}, {count}")

    def _spread(self, size: int, address: str) -> str:
        """A vector of one element, as integers of so many bytes."""
        kind = f"i{8 * size}"
        many = f"<{self.width} x {kind}>"
        first = self.new(f"load {kind}, ptr {address}, align {size}")
        first = self.new(f"insertelement {many} poison, {kind} {first}, i64 0")
        return self.new(f"shufflevector {many} {first}, {many} poison, <{self.width} x i32> zeroinitializer")

    def _store(self, size: int, value: str, address: str) -> None:
        self.lines.append(f"  store <{self.width} x i{8 * size}> {value}, ptr {address}, align {size}")

    def _element(self, kind: str, array: str, k: int) -> str:
        """The element `k` of an array of words."""
        slot = self.new(f"getelementptr i64, ptr {array}, i64 {k}")
        return self.new(f"load {kind}, ptr {slot}, align 8")

    def _operands(self, sizes: list[int], steps: list[str]) -> tuple[str, list[str], list[str]]:
        """Whether whole vectors can be read and written where arrays lie, which inputs are one element, and the bytes to the
        next vector.

        """
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

    def _fill(self, label: str, source: str, step: str, buffer: str, size: int, n: str, then: str) -> Iterator[str]:
        """Copy `n` elements into a buffer and repeat the last one up to a whole vector: what is computed of it is not kept,
        but may not be a number that would raise a floating-point exception of its own."""
        return self._copy(label, source, step, buffer, str(size), size, n, then, padded=True)

    def _copy(
        self, label: str, source: str, step: str, target: str, target_step: str, size: int, n: str, then: str,
        padded: bool = False,
    ) -> Iterator[str]:  # fmt: skip
        kind, name = f"i{8 * size}", f"{label}_copy"
        self.count += 1
        k = self.count
        lines = []
        count = n
        if padded and n == "%m":
            lines += [
                f"  %p{k} = add i64 {n}, {self.width - 1}",
                f"  %padded{k} = and i64 %p{k}, {-self.width}",
                f"  %last{k} = sub i64 {n}, 1",
            ]
            count = f"%padded{k}"
        lines += [
            f"  br label %{name}_enter",
            f"{name}_enter:",
            f"  br label %{name}",
            f"{name}:",
            f"  %j{k} = phi i64 [ 0, %{name}_enter ], [ %j_next{k}, %{name} ]",
        ]
        index = f"%j{k}"
        if count != n:
            lines += [
                f"  %in{k}_range = icmp slt i64 %j{k}, {n}",
                f"  %from{k} = select i1 %in{k}_range, i64 %j{k}, i64 %last{k}",
            ]
            index = f"%from{k}"
        lines += [
            f"  %so{k} = mul i64 {index}, {step}",
            f"  %s{k} = getelementptr i8, ptr {source}, i64 %so{k}",
            f"  %e{k} = load {kind}, ptr %s{k}, align {size}",
            f"  %to{k} = mul i64 %j{k}, {target_step}",
            f"  %t{k} = getelementptr i8, ptr {target}, i64 %to{k}",
            f"  store {kind} %e{k}, ptr %t{k}, align {size}",
            f"  %j_next{k} = add i64 %j{k}, 1",
            f"  %j_more{k} = icmp slt i64 %j_next{k}, {count}",
            f"  br i1 %j_more{k}, label %{name}, label %{then}",
        ]
        return iter(lines)

    def _call(self, bases: Sequence[str], steps: Sequence[str], row_steps: Sequence[str], n: str, rows: str) -> None:
        arrays = zip(bases, steps, row_steps, strict=True)
        args = ", ".join(f"ptr {base}, i64 {step}, i64 {row}" for base, step, row in arrays)
        self.lines.append(f"  call void @vectors({args}, i64 {n}, i64 {rows})")

    def _call_some(
        self, bases: list[str], steps: list[str], row_steps: list[str], n: str, rows: str, then: str
    ) -> None:
        """As `_call`, if there are whole vectors; goes on with the block `then`."""
        some = self.new(f"icmp sgt i64 {n}, 0")
        self.lines += [f"  br i1 {some}, label %to_{then}, label %{then}", f"to_{then}:"]
        self._call(bases, steps, row_steps, n, rows)
        self.lines.append(f"  br label %{then}")
        self.begin(then)

    def entry(self) -> str:
        """`ENTRY`: int64 (int64 *words, int64 first, int64 last), blocks [first, last) of the elements."""
        count = len(self.types)
        self.lines = [
            f"define i64 @{ENTRY}(ptr %words, i64 %first, i64 %last) {{",
            f"  %args = alloca [{count} x ptr], align 8",
            f"  %steps = alloca [{count} x i64], align 8",
            "  %dims = alloca i64, align 8",
            "  %n = load i64, ptr %words, align 8",
            f"  %start = mul i64 %first, {BLOCK}",
            f"  %stop = mul i64 %last, {BLOCK}",
            "  %over = icmp slt i64 %n, %stop",
            "  %limit = select i1 %over, i64 %n, i64 %stop",
            "  %m = sub i64 %limit, %start",
            "  store i64 %m, ptr %dims, align 8",
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
        self.lines += [f"  call void @{LOOP}(ptr %args, ptr %dims, ptr %steps, ptr null)", "  ret i64 0", "}"]
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


def _operations(expressions: Sequence[Expression]) -> set[int]:
    """The distinct nodes of expressions, without those that are rarely computed."""
    found: set[int] = set()
    stack = [*expressions]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found.add(id(node))
            stack += [a for a in (node.args[:2] if node.op == "rare" else node.args) if isinstance(a, Expression)]
    return found


def module(outputs: Sequence[Expression], types: str, width: int | None = None, rows: bool = False) -> str | None:
    """The IR of formulas, for the storage types of their inputs and outputs; None where this processor has no
    instructions to convert float16.

    rows: with the function `ROWS`.
    width: float32 numbers in a vector; None: as many as this processor's registers hold, and 16 where results are bfloat16,
    whose words are joined sixteen at a time: on AVX2 they are computed in two registers, side by side.
    """
    if "e" in types and target_triple().startswith("x86") and not has_feature("f16c"):
        return None
    return Emitter(outputs, types, width or (16 if types[-1] == "E" else vector_width())).module(rows)
