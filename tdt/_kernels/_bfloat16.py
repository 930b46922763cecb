"""bfloat16 in machine code: 16-bit words that are read as float32, and float32 rounded to them, to the nearest, ties to even.

A NaN becomes the quiet NaN of its sign, as in `_emit`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tdt._kernels._emit import CLASS_OF, SUBNORMAL_OR_NAN, TO_BFLOAT16
from tdt._kernels._native import has_feature
from tdt._kernels._syntax import vector, vector_length

if TYPE_CHECKING:
    from tdt._kernels._code import Code, Value

LANES = 16


def widened(code: Code, words: Value) -> Value:
    """The floats of 16-bit words."""
    return code.bits(code.cast(words, "i32", signed=False) << 16, "float")


def rounded(code: Code, value: Value) -> Value:
    """Floats as 16-bit words."""
    if vector_length(value.kind) != LANES or not has_feature("avx512bf16"):
        return _nearest(code, value)
    # As `_emit.to_bfloat16`.
    for line in (f"<16 x i16> {TO_BFLOAT16}(<16 x float>)", f"<16 x i1> {CLASS_OF}(<16 x float>, i32)"):
        code.declared.add(f"declare {line}")
    found = code.variable(
        "<16 x i16>", code.new("<16 x i16>", f"call <16 x i16> {TO_BFLOAT16}(<16 x float> {value.name})")
    )
    text = f"call <16 x i1> {CLASS_OF}(<16 x float> {value.name}, i32 {SUBNORMAL_OR_NAN})"
    odd = code.new("i16", f"bitcast <16 x i1> {code.new('<16 x i1>', text).name} to i16")
    with code.when(odd != 0):
        found.set(_nearest(code, value))
    return found.get()


def _nearest(code: Code, value: Value) -> Value:
    bits = code.bits(value, "i32")
    nearest = bits + (((bits >> 16) & 1) + 0x7FFF)
    quiet = (bits & -0x80000000) | 0x7FC00000
    return code.cast(code.select(value != value, quiet, nearest) >> 16, "i16")


def load(code: Code, address: Value, i: Any, mask: Value | None, count: int = LANES, other: float = 0.0) -> Value:
    """As `_rows.load`, from bfloat16."""
    if mask is None:
        return widened(code, code.load("i16", address, i, count))
    kind, place = vector("i16", count), code.at("i16", address, i)
    name = f"@llvm.masked.load.v{count}i16.p0"
    code.declared.add(f"declare {kind} {name}(ptr, i32, {mask.kind}, {kind})")
    text = f"call {kind} {name}(ptr {place.name}, i32 2, {mask.kind} {mask.name}, {kind} zeroinitializer)"
    value = widened(code, code.new(kind, text))
    return value if not other else code.select(mask, value, other)


def store(code: Code, value: Value, address: Value, i: Any, mask: Value | None) -> None:
    """As `_rows.store`, rounded to bfloat16."""
    words = rounded(code, value)
    if mask is None:
        code.store(words, address, i)
        return
    place, name = code.at("i16", address, i), f"@llvm.masked.store.v{vector_length(words.kind)}i16.p0"
    code.declared.add(f"declare void {name}({words.kind}, ptr, i32, {mask.kind})")
    code.lines.append(
        f"  call void {name}({words.kind} {words.name}, ptr {place.name}, i32 2, {mask.kind} {mask.name})"
    )


def round_block(code: Code, rows: Value, columns: Value, source: Value, pitch: Value, out: Value, to: Value) -> None:
    """Round a block of float32, whose rows lie `pitch` elements apart, to bfloat16, whose rows lie `to` apart."""
    whole = columns & -LANES
    with code.loop(0, rows) as row:
        line, target = (code.cast(a, "ptr") for a in (source + 4 * row * pitch, out + 2 * row * to))
        with code.loop(0, whole, LANES) as i:
            store(code, code.load("float", line, i, LANES), target, i, None)
        with code.loop(whole, columns) as i:
            code.store(rounded(code, code.load("float", line, i)), target, i)


def widen_line(code: Code, count: Value, source: Value, out: Value, width: int = LANES) -> None:
    """Convert so many numbers of bfloat16 to float32, from one address to another; `width` at a time."""
    whole = count // width * width
    source, out = (code.cast(a, "ptr") for a in (source, out))
    with code.loop(0, whole, width) as i:
        code.store(widened(code, code.load("i16", source, i, width)), out, i)
    with code.loop(whole, count) as i:
        code.store(widened(code, code.load("i16", source, i)), out, i)
