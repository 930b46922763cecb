"""Expressions to CUDA C: the function of each element that `_emit` writes as machine code for the CPU.

Every operation rounds as IEEE 754 says on a GPU too, so an element has the bits that it has on a CPU. Bits differ only where
a NaN's do.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from tdt._kernels._angles import FIRST, RESULTS, WORDS, words_of_table
from tdt._kernels.expression import Expression, is_constant

BINARY = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "and": "&", "or": "|", "xor": "^", "less": "<",
          "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}  # fmt: skip
CALLS = {"abs": "fabs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "fma": "fma",
         "copysign": "copysign", "fmod": "fmod"}  # fmt: skip
PARTS = {"power_of_2", "odd", "odd_half", "mantissa", "exponent", "scaled", *RESULTS}

# Operations on the bits of a number, as `_emit.Emitter.parts` and `_angles.angle` explain them.
FUNCTIONS = (
    r"""
__device__ __forceinline__ float power_of_2(float n) {
    return __int_as_float((int)((unsigned int)__float_as_int(n + 12583039.0f) << 23));
}
__device__ __forceinline__ double power_of_2(double n) {
    return __longlong_as_double((long long)((unsigned long long)__double_as_longlong(n + 6755399441056767.0) << 52));
}
__device__ __forceinline__ bool odd(float n) { return __float_as_int(n + 12582912.0f) & 1; }
__device__ __forceinline__ bool odd_half(float n) { return __float_as_int(n + 12582912.0f) & 2; }
__device__ __forceinline__ bool odd(double n) { return __double_as_longlong(n + 6755399441055744.0) & 1; }
__device__ __forceinline__ bool odd_half(double n) { return __double_as_longlong(n + 6755399441055744.0) & 2; }
__device__ __forceinline__ int exponent_bits(float x) {  // 0x3F2AAAAB is 2/3, so that the mantissa is nearest to 1
    return (int)((unsigned int)__float_as_int(x) - 0x3F2AAAABu & 0xFF800000u);
}
__device__ __forceinline__ long long exponent_bits(double x) {
    return (long long)((unsigned long long)__double_as_longlong(x) - 0x3FE5555555555555ull & 0xFFF0000000000000ull);
}
__device__ __forceinline__ float mantissa(float x) {
    return __int_as_float((int)((unsigned int)__float_as_int(x) - (unsigned int)exponent_bits(x)));
}
__device__ __forceinline__ double mantissa(double x) {
    return __longlong_as_double((long long)((unsigned long long)__double_as_longlong(x) - (unsigned long long)exponent_bits(x)));
}
__device__ __forceinline__ float exponent(float x) { return (float)(exponent_bits(x) >> 23); }
__device__ __forceinline__ double exponent(double x) { return (double)(exponent_bits(x) >> 52); }
template <class T> __device__ __forceinline__ T scaled(T x, T n) {  // two powers of 2, so that a result is rounded once
    const T half = floor(n * (T)0.5);
    return x * power_of_2(half) * power_of_2(n - half);
}
"""
    + f"__device__ const unsigned int two_over_pi[{WORDS}] = {{{', '.join(f'{w}u' for w in words_of_table())}}};"
    + r"""
__device__ __forceinline__ unsigned long long turns(float x) {  // in units of 2^-62 quarters, modulo 4
    const unsigned int bits = (unsigned int)__float_as_int(x);
    const unsigned int place = (bits >> 23) - START;
    const unsigned long long m = ((bits & 0x7FFFFFu) | 0x800000u) << (place & 7u);
    const unsigned int* at = two_over_pi + (place >> 3);
    return ((m * at[0]) << 32) + m * at[4] + ((m * at[8]) >> 32);
}
__device__ __forceinline__ double angle_rest(float x) {
    const unsigned long long all = turns(x), quarter = (all + (1ull << 61)) >> 62;
    return (double)(long long)(all - (quarter << 62)) * (1.5707963267948966 / 4611686018427387904.0);
}
__device__ __forceinline__ float angle_quarter(float x) { return (float)((turns(x) + (1ull << 61)) >> 62); }
__device__ __forceinline__ float angle_high(float x) { return (float)angle_rest(x); }
__device__ __forceinline__ float angle_low(float x) {
    const double rest = angle_rest(x);
    return (float)(rest - (double)(float)rest);
}
""".replace("START", f"{152 - FIRST}u")
)


class Emitter:
    """The statements that compute a formula of one element.

    Attributes:
        lines: the statements so far; the block of one that is rarely computed is indented.
    """

    def __init__(self, double: bool):
        self.real = "double" if double else "float"
        self.lines: list[str] = []
        self.count = 0
        self.calls_parts = False

    def new(self, kind: str, text: str) -> str:
        """Append a variable of a type; its name."""
        self.count += 1
        self.lines.append(f"const {kind} v{self.count} = {text};")
        return f"v{self.count}"

    def value(self, expression: Expression, loads: Sequence[str], known: dict, double: bool = False) -> str:
        """The name of an expression's value; arguments as of `_emit.Emitter.value`."""
        op = expression.op
        if op == "input":
            return loads[expression.args[0]]
        if op == "constant":
            return number(expression.args[0], "double" if double or self.real == "double" else "float")
        if op == "number":
            return number(expression.args[0], self.real)
        if id(expression) not in known:
            if not is_constant(expression):
                double = any(a.double for a in expression.args)
            args = [
                self.value(a, loads, known, double) for a in (expression.args[:2] if op == "rare" else expression.args)
            ]
            if op == "rare":
                name = self.rare(args, expression.args[2], loads, known)
            else:
                key = (op, *args)
                if key not in known:
                    known[key] = self.operation(op, args, expression, double)
                name = known[key]
            known[id(expression)] = name
        return known[id(expression)]

    def rare(self, args: list[str], otherwise: Expression, loads: Sequence[str], known: dict) -> str:
        """A value, replaced by that of `otherwise` where a condition holds, which is only then computed."""
        condition, value = args
        kind = "double" if self.real == "double" or otherwise.double else "float"
        self.count += 1
        name = f"v{self.count}"
        self.lines += [f"{kind} {name} = {value};", f"if ({condition}) {{"]
        outer, self.lines = self.lines, []
        other = self.value(otherwise, loads, dict(known), kind == "double")
        outer += [f"    {line}" for line in (*self.lines, f"{name} = {other};")]
        self.lines = [*outer, "}"]
        return name

    def operation(self, op: str, args: list[str], expression: Expression, double: bool) -> str:
        """The name of the value of one operation."""
        kind = "bool" if expression.logical else "double" if double else self.real
        if op in BINARY:
            return self.new(kind, f"{args[0]} {BINARY[op]} {args[1]}")
        if op in CALLS:
            return self.new(kind, f"{CALLS[op]}({', '.join(args)})")
        if op in PARTS:
            self.calls_parts = True
            return self.new(kind, f"{op}({', '.join(args)})")
        if op == "where":
            kind = "bool" if expression.args[1].logical else kind
            return self.new(kind, f"{args[0]} ? {args[1]} : {args[2]}")
        if op == "to_double":
            return self.new("double", f"(double){args[0]}")
        if op == "to_float":
            return self.new("float", f"(float){args[0]}")
        if op in ("negative", "not"):
            return self.new(kind, f"{'-' if op == 'negative' else '!'}{args[0]}")
        raise NotImplementedError(f"no CUDA C for {op}")


def number(value: float, kind: str) -> str:
    """A constant; the shortest decimal number that a double reads as `value`, or as the float32 nearest to it."""
    value = float(value)
    if kind == "float" and math.isfinite(value):
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    if math.isfinite(value):
        text = repr(value) if value >= 0 and math.copysign(1, value) > 0 else f"({value!r})"
        return f"{text}f" if kind == "float" and text[-1] != ")" else text[:-1] + "f)" if kind == "float" else text
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return f"({kind})__int_as_float((int)0x{bits:08X}u)"
