"""Operations on vectors of integers, as LLVM IR: what `_emit` does for floating-point numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tdt._kernels._native import has_feature
from tdt._kernels._syntax import constant

if TYPE_CHECKING:
    from tdt._kernels._emit import Emitter

# Storage types by NumPy's letter: bytes, LLVM's type.
INTEGERS = {"b": (1, "i8"), "B": (1, "i8"), "h": (2, "i16"), "H": (2, "i16"), "i": (4, "i32"), "I": (4, "i32"), "l": (8, "i64"),
            "L": (8, "i64")}  # fmt: skip
BINARY = {"add": "add", "subtract": "sub", "multiply": "mul", "shift_left": "shl"}
COMPARE = {
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
SMALL = 1 << 51  # integers below, with either sign, whose quotient float64 rounds towards 0 exactly
# The bits of a float64 to which such an integer is added as an integer or as a number.
MAGIC_BITS, MAGIC = 0x4338000000000000, 6755399441055744.0


def operation(emitter: Emitter, op: str, args: list[str]) -> str | None:
    """The name of the value of one operation; None for what is done as to floating-point numbers."""
    v, signed = emitter.vector, emitter.signed
    if op in BINARY:
        return emitter.new(f"{BINARY[op]} {v} {args[0]}, {args[1]}")
    if op in COMPARE:
        how = COMPARE[op] if op in ("equal", "not_equal") else f"{'s' if signed else 'u'}{COMPARE[op]}"
        return emitter.new(f"icmp {how} {v} {args[0]}, {args[1]}")
    if op == "shift_right":
        return emitter.new(f"{'a' if signed else 'l'}shr {v} {args[0]}, {args[1]}")
    if op == "negative":
        return emitter.new(f"sub {v} zeroinitializer, {args[0]}")
    if op == "abs":
        if not signed:
            return args[0]
        name = f"@llvm.abs.v{emitter.width}{emitter.real}"
        emitter.declared.add(f"declare {v} {name}({v}, i1)")
        return emitter.new(f"call {v} {name}({v} {args[0]}, i1 false)")
    if op == "quotient":
        return _quotient(emitter, *args)
    if op in ("where", "and", "or", "xor", "not"):
        return None
    raise NotImplementedError(f"no instruction for {op} of integers")


def _quotient(emitter: Emitter, x: str, y: str) -> str:
    """x / y rounded towards 0: exactly, from floating-point numbers that hold more digits."""
    if emitter.real == "i64":
        return _long_quotient(emitter, x, y)
    v, sign = emitter.vector, "s" if emitter.signed else "u"
    many = f"<{emitter.width} x {'double' if emitter.real == 'i32' else 'float'}>"
    a, b = (emitter.new(f"{sign}itofp {v} {each} to {many}") for each in (x, y))
    ratio = emitter.new(f"fdiv {many} {a}, {b}")
    if emitter.real == "i32" and emitter.signed:  # -2^31 / -1 wraps round
        over = emitter.new(f"fcmp oeq {many} {ratio}, {constant(2.0**31, many)}")
        ratio = emitter.new(f"select {emitter.bits} {over}, {many} {constant(-(2.0**31), many)}, {many} {ratio}")
    # By integers of 32 bits, or more, of which the lowest bits are the quotient's, if -128 / -1 wraps round.
    wide = f"<{emitter.width} x {'i64' if emitter.real == 'i32' and not emitter.signed else 'i32'}>"
    ratio = emitter.new(f"fptosi {many} {ratio} to {wide}")
    return ratio if wide == v else emitter.new(f"trunc {wide} {ratio} to {v}")


def _long_quotient(emitter: Emitter, x: str, y: str) -> str:
    """`_quotient` of 64 bits: by float64 where it holds all of a vector's numbers, else by division of integers."""
    v, doubles, bits = emitter.vector, f"<{emitter.width} x double>", emitter.bits
    fits = [_is_small(emitter, each) for each in (x, y)]
    small = emitter.new(f"and {bits} {fits[0]}, {fits[1]}")
    mask = emitter.new(f"bitcast {bits} {small} to i{emitter.width}")
    short = emitter.new(f"icmp eq i{emitter.width} {mask}, -1")
    k = emitter.count
    emitter.lines.append(f"  br i1 {short}, label %short{k}, label %long{k}")
    emitter.begin(f"short{k}")
    a, b = (_as_double(emitter, each) for each in (x, y))
    ratio = emitter.new(f"fdiv {doubles} {a}, {b}")
    ratio = emitter.intrinsic("trunc", [ratio], doubles, doubles)
    ratio = emitter.new(f"fadd {doubles} {ratio}, {constant(MAGIC, doubles)}")
    found = emitter.new(f"bitcast {doubles} {ratio} to {v}")
    found = emitter.new(f"sub {v} {found}, {constant(MAGIC_BITS, v)}")
    emitter.lines.append(f"  br label %divided{k}")
    emitter.begin(f"long{k}")
    # The processor stops a program that divides by 0, or the least integer by -1, whose quotient wraps round.
    negated = emitter.new(f"icmp eq {v} {y}, {constant(-1, v)}") if emitter.signed else constant(0, bits)
    minus = emitter.new(f"sub {v} zeroinitializer, {x}")
    top = emitter.new(f"select {bits} {negated}, {v} {minus}, {v} {x}")
    none = emitter.new(f"icmp eq {v} {y}, zeroinitializer")
    one = emitter.new(f"or {bits} {negated}, {none}")
    bottom = emitter.new(f"select {bits} {one}, {v} {constant(1, v)}, {v} {y}")
    other = emitter.new(f"{'s' if emitter.signed else 'u'}div {v} {top}, {bottom}")
    emitter.lines.append(f"  br label %divided{k}")
    emitter.begin(f"divided{k}")
    return emitter.new(f"phi {v} [ {found}, %short{k} ], [ {other}, %long{k} ]")


def _is_small(emitter: Emitter, x: str) -> str:
    """Whether integers are in [-SMALL, SMALL)."""
    if not emitter.signed:
        high = emitter.new(f"lshr {emitter.vector} {x}, {constant(51, emitter.vector)}")
        return emitter.new(f"icmp eq {emitter.vector} {high}, zeroinitializer")
    moved = emitter.new(f"add {emitter.vector} {x}, {constant(SMALL, emitter.vector)}")
    high = emitter.new(f"lshr {emitter.vector} {moved}, {constant(52, emitter.vector)}")
    return emitter.new(f"icmp eq {emitter.vector} {high}, zeroinitializer")


def _as_double(emitter: Emitter, x: str) -> str:
    """Small integers as float64: AVX2 has no instruction for it."""
    doubles = f"<{emitter.width} x double>"
    moved = emitter.new(f"add {emitter.vector} {x}, {constant(MAGIC_BITS, emitter.vector)}")
    moved = emitter.new(f"bitcast {emitter.vector} {moved} to {doubles}")
    return emitter.new(f"fsub {doubles} {moved}, {constant(MAGIC, doubles)}")


def from_integers(emitter: Emitter, letter: str, x: str) -> str:
    """Integers of a type in the one that is computed in: wider integers, or floating-point numbers."""
    kind, many = INTEGERS[letter][1], emitter.width
    if emitter.integers:
        how = "sext" if letter.islower() else "zext"
    else:
        how = "sitofp" if letter.islower() else "uitofp"
    if how != "sitofp" or kind != "i64" or has_feature("avx512dq"):
        return emitter.new(f"{how} <{many} x {kind}> {x} to {emitter.vector}")
    low = emitter.new(f"trunc <{many} x i64> {x} to {emitter.words}")
    again = emitter.new(f"sext {emitter.words} {low} to <{many} x i64>")
    fits = emitter.new(f"icmp eq <{many} x i64> {again}, {x}")
    return _if_all(emitter, fits, emitter.vector, [f"sitofp {emitter.words} {low} to {emitter.vector}"],
                   [f"sitofp <{many} x i64> {x} to {emitter.vector}"])  # fmt: skip


def to_integers(emitter: Emitter, letter: str, x: str) -> str:
    """Numbers of the type that is computed in as integers of another one, as C converts them: those that are too large for 32
    bits, or for the type's own if it has more, have the result of the processor's instruction; then the lowest bits are kept.
    """
    kind, many = INTEGERS[letter][1], emitter.width
    target = f"<{many} x {kind}>"
    if emitter.integers:
        return emitter.new(f"trunc {emitter.vector} {x} to {target}")
    if kind != "i64":
        words = emitter.new(f"fptosi {emitter.vector} {x} to {emitter.words}")
        return words if kind == "i32" else emitter.new(f"trunc {emitter.words} {words} to {target}")
    if has_feature("avx512dq"):
        return emitter.new(f"fptosi {emitter.vector} {x} to {target}")
    size = emitter.intrinsic("fabs", [x], emitter.vector, emitter.vector)
    fits = emitter.new(f"fcmp olt {emitter.vector} {size}, {constant(2.0**31, emitter.vector)}")
    words = f"fptosi {emitter.vector} {x} to {emitter.words}"
    return _if_all(emitter, fits, target, [words, f"sext {emitter.words} {{}} to {target}"],
                   [f"fptosi {emitter.vector} {x} to {target}"])  # fmt: skip


def _if_all(emitter: Emitter, tests: str, kind: str, few: list[str], many: list[str]) -> str:
    """The value of the instructions `few` where tests of all elements hold, else that of `many`; `{}` is the value before."""
    k = emitter.count
    mask = emitter.new(f"bitcast {emitter.bits} {tests} to i{emitter.width}")
    holds = emitter.new(f"icmp eq i{emitter.width} {mask}, -1")
    emitter.lines.append(f"  br i1 {holds}, label %short{k}, label %long{k}")
    found = []
    for block, instructions in ((f"short{k}", few), (f"long{k}", many)):
        emitter.begin(block)
        value = ""
        for instruction in instructions:
            value = emitter.new(instruction.format(value))
        found.append(f"[ {value}, %{block} ]")
        emitter.lines.append(f"  br label %converted{k}")
    emitter.begin(f"converted{k}")
    return emitter.new(f"phi {kind} {', '.join(found)}")
