"""The syntax of LLVM IR, for what writes it as text: types of vectors, constants, names of intrinsics."""

from __future__ import annotations

import math
import struct

FLOATS = ("half", "float", "double")


def element(kind: str) -> str:
    """The type of a vector's elements; of a scalar itself."""
    return kind.partition(" x ")[2][:-1] if kind[0] == "<" else kind


def vector_length(kind: str) -> int:
    """How many elements a vector has; 0 for a scalar."""
    return int(kind[1:].partition(" ")[0]) if kind[0] == "<" else 0


def vector(kind: str, count: int) -> str:
    """The type of a vector of `count` elements; the element's own for 0."""
    return f"<{count} x {kind}>" if count else kind


def as_float32(value: float) -> float:
    """The float32 that is nearest to a number; infinity beyond the largest."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def constant(value: float, kind: str) -> str:
    """A number as a constant of a type, a vector's elements being equal. LLVM reads floats exactly as the bits of a double,
    for a float one that a float holds."""
    inner, count = element(kind), vector_length(kind)
    if inner in FLOATS:
        if inner == "float":
            value = as_float32(value)
        text = "0x" + struct.pack(">d", value).hex().upper()
    else:
        text = str(int(value))
    return f"<{', '.join([f'{inner} {text}'] * count)}>" if count else text


def intrinsic(name: str, kind: str) -> str:
    """The name of LLVM's function `name` of a type, such as @llvm.sqrt.v8f32."""
    inner, count = element(kind), vector_length(kind)
    suffix = {"float": "f32", "double": "f64"}.get(inner, inner)
    return f"@llvm.{name}.v{count}{suffix}" if count else f"@llvm.{name}.{suffix}"
