"""Expressions to machine code: LLVM IR with explicit vectors and without fast-math flags, compiled by llvmlite.

No flag lets LLVM reorder or contract, so an element has one value, whatever the vector that it is computed in.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import Any

from tdt._kernels._angles import RESULTS, angle
from tdt._kernels._emit_integers import INTEGERS, from_integers, to_integers
from tdt._kernels._emit_integers import operation as integer_operation
from tdt._kernels._native import has_feature
from tdt._kernels._stream import PAST_CACHE
from tdt._kernels._syntax import constant, intrinsic, vector
from tdt._kernels.expression import Expression, is_constant

# Storage types by NumPy's letter, with "E" for bfloat16: bytes, LLVM's type.
STORED = {"f": (4, "float"), "d": (8, "double"), "e": (2, "half"), "E": (2, "bfloat"), "?": (1, "i8"), **INTEGERS}

BINARY = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
COMPARE = {
    "less": "olt", "less_equal": "ole", "greater": "ogt", "greater_equal": "oge", "equal": "oeq", "not_equal": "une",
}  # fmt: skip
CALLS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint",
         "fma": "fma", "copysign": "copysign"}  # fmt: skip

# AVX-512's instruction for x · 2^n, and the type of its mask, by vector.
TO_BFLOAT16, CLASS_OF = "@llvm.x86.avx512bf16.cvtneps2bf16.512", "@llvm.x86.avx512.fpclass.ps.512"
SUBNORMAL_OR_NAN = 0x20 | 0x80 | 0x01  # classes of VFPCLASSPS
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
    """The IR of formulas of the same inputs for one vector width.

    Attributes:
        integers, signed: whether formulas are of integers, and of such that have a sign.
    """

    integers = signed = False

    def __init__(self, outputs: Sequence[Expression], types: str, width: int):
        """types: the inputs' letters of `STORED`, then the outputs'."""
        self.outputs, self.types, self.inputs = outputs, types, len(types) - len(outputs)
        self.double = "d" in types
        # Formulas of integers are of one type of them, and of bools; only conversions have two types of numbers.
        integers = [letter for letter in types if letter in INTEGERS]
        self.integers = bool(integers) and set(types) <= {"?", *integers}
        widest = max(integers, key=lambda letter: STORED[letter][0], default="")
        self.signed = self.integers and widest.islower()
        size, self.real = STORED[widest if self.integers else "d" if self.double else "f"]
        self.width = 4 * width // size
        self.vector, self.words = f"<{self.width} x {self.real}>", f"<{self.width} x i32>"
        self.floats = f"<{self.width} x float>"
        self.bits = f"<{self.width} x i1>"
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
            return self.splat(expression.args[0], self.real if self.integers else "double" if double else "float")
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
                    kind = self.real if self.integers else "double" if double else "float"
                    known[key] = self.operation(op, args, expression, kind)
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
        if self.integers and (found := integer_operation(self, op, args)) is not None:
            return found
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
        if op == "fmod":
            return self.new(f"frem {v} {args[0]}, {args[1]}")
        if op == "where":
            kind = self.bits if expression.args[1].logical else v
            return self.new(f"select {self.bits} {args[0]}, {kind} {args[1]}, {kind} {args[2]}")
        kind = self.bits if expression.logical else v
        if op in ("and", "or", "xor"):
            return self.new(f"{op} {kind} {args[0]}, {args[1]}")
        if op == "not":
            return self.new(f"xor {kind} {args[0]}, {constant(True if expression.logical else -1, kind)}")
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
        if letter in INTEGERS:
            return raw if kind == self.real else from_integers(self, letter, raw)
        if letter == "E":  # the upper half of a float
            wide = self.new(f"zext <{self.width} x i16> {raw} to {self.words}")
            wide = self.new(f"shl {self.words} {wide}, {self.splat(16, 'i32')}")
            raw, kind = self.new(f"bitcast {self.words} {wide} to {self.floats}"), "float"
        elif letter == "e":
            raw, kind = self.new(f"fpext <{self.width} x half> {raw} to {self.floats}"), "float"
        return raw if kind == self.real else self.new(f"fpext {self.floats} {raw} to {self.vector}")

    def store(self, letter: str, value: str, address: str, streamed: bool = False) -> None:
        """streamed: past the cache, to an address that is a multiple of the vector's bytes."""
        size, kind = STORED[letter]
        many = f"<{self.width} x {kind}>"
        if letter == "?":
            value = self.new(f"zext <{self.width} x i1> {value} to {many}")
        elif letter in INTEGERS:
            value = value if kind == self.real else to_integers(self, letter, value)
        else:
            if self.double and letter != "d":
                value = self.new(f"fptrunc {self.vector} {value} to {self.floats}")
            if letter == "E":  # to the nearest, ties to even; NaN keeps its sign
                value, many = self.to_bfloat16(value), f"<{self.width} x i16>"
            elif letter == "e":
                value = self.new(f"fptrunc {self.floats} {value} to {many}")
        how = f"{size * self.width}, {PAST_CACHE}" if streamed else size
        self.lines.append(f"  store {many} {value}, ptr {address}, align {how}")

    def to_bfloat16(self, value: str) -> str:
        if not (self.floats == ROOT_VECTOR and has_feature("avx512bf16")):
            return self.nearest(value)
        # The instruction takes subnormal numbers for 0 and keeps digits of a NaN: the rare vectors that have one go without.
        self.declared.add(f"declare <16 x i16> {TO_BFLOAT16}({self.floats})")
        self.declared.add(f"declare {self.bits} {CLASS_OF}({self.floats}, i32)")
        found = self.new(f"call <16 x i16> {TO_BFLOAT16}({self.floats} {value})")
        odd = self.new(f"call {self.bits} {CLASS_OF}({self.floats} {value}, i32 {SUBNORMAL_OR_NAN})")
        some = self.new(f"icmp ne i16 {self.new(f'bitcast {self.bits} {odd} to i16')}, 0")
        before, there, after = self.block, f"odd{self.count}", f"rounded{self.count}"
        self.lines.append(f"  br i1 {some}, label %{there}, label %{after}")
        self.begin(there)
        other = self.nearest(value)
        self.lines.append(f"  br label %{after}")
        self.begin(after)
        return self.new(f"phi <16 x i16> [ {found}, %{before} ], [ {other}, %{there} ]")

    def nearest(self, value: str) -> str:
        """float32 rounded to the words of bfloat16."""
        words, w = self.words, self.width
        number = self.new(f"bitcast {self.floats} {value} to {words}")
        odd = self.new(f"lshr {words} {number}, {self.splat(16, 'i32')}")
        odd = self.new(f"and {words} {odd}, {self.splat(1, 'i32')}")
        rounded = self.new(f"add {words} {number}, {self.splat(0x7FFF, 'i32')}")
        rounded = self.new(f"add {words} {rounded}, {odd}")
        quiet = self.new(f"and {words} {number}, {self.splat(-0x80000000, 'i32')}")
        quiet = self.new(f"or {words} {quiet}, {self.splat(0x7FC00000, 'i32')}")
        nan = self.new(f"fcmp uno {self.floats} {value}, {value}")
        rounded = self.new(f"select <{w} x i1> {nan}, {words} {quiet}, {words} {rounded}")
        rounded = self.new(f"lshr {words} {rounded}, {self.splat(16, 'i32')}")
        return self.new(f"trunc {words} {rounded} to <{w} x i16>")
