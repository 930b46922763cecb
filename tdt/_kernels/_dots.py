"""Sums of products of bfloat16 pairs in blocks of 32 × 32 results, by AMX or AVX-512-BF16.

    c[i, j] (+)= Σ_k a[i, k] · b[k, j]          i, j < 32; k < 32 · steps

Both operands are packed (`_pairs`) in steps of 32 k. A step of the left one is two tiles of 16 rows × 16 pairs of
neighbouring k, of the right one two tiles of 16 pairs × 16 columns; a pair is 32 bits, a tile 1 KB. c is 32 × 32 floats.

The processor sums in float32. It takes bfloat16 and float32 numbers below 2⁻¹²⁶ as zero, rounds each product and sum to
nearest even, and raises no flags (Intel, Software Developer's Manual, TDPBF16PS and VDPBF16PS). A step of AMX sums the even
and the odd k of each element apart, from zero, and adds the two sums to c; AVX-512-BF16 adds the products of a pair to c one
by one, the odd one first. So results of the two may differ in their last bits.

`EMULATED` computes in the same order with ordinary vectors, on any processor, and keeps small numbers: for tests.
"""

from __future__ import annotations

import functools
import os
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tdt._kernels._code import Code, Value, Variable

SIDE, TILE, PAIRS = 32, 16, 16  # rows and columns of a block, of a tile; pairs of k in a step
TILE_BYTES = 1024
STEP_BYTES = 2 * TILE_BYTES  # of a packed operand, for 32 rows or columns
NAN = 0x7FC0  # the bits of bfloat16's
GROUP = 8  # rows whose sums are in vector registers at a time
UNROLLED = 4  # pairs in a round of the loop
# For LDTILECFG: palette 1, 16 bytes of zeros but that; bytes in a row of tiles 0 to 7, as words of 16 bits; rows of each.
CONFIGURATION = struct.pack("<B15x8H16x8B8x", 1, *[4 * PAIRS] * 8, *[TILE] * 8)
ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XTILEDATA = 158, 0x1023, 18  # asks Linux for permission to use AMX's registers


class Rows(NamedTuple):
    """16 rows of a left operand where they lie.

    Attributes:
        address: of the first row; pitch: bytes from a row to the next.
        table: address of words, two for each step, of which the first is the step's offset in bytes.
    """

    address: Value
    pitch: Value
    table: Value

    def at(self, code: Code, step: Value) -> tuple[Value, Value]:
        """The address of the tile of a step, and the pitch."""
        offset = code.load("i64", code.cast(self.table, "ptr"), step * 2)
        return code.cast(self.address + offset, "ptr"), self.pitch


class Amx:
    """AMX: tiles 0 to 3 hold the sums, 4 and 5 rows of the left operand, 6 and 7 columns of the right one.

    Attributes:
        IN_PLACE: rows of the left operand may lie anywhere at an equal distance.
    """

    IN_PLACE = True

    def __init__(self, code: Code):
        self.code = code

    def begin(self) -> None:
        """Configure this thread's tiles: 16 rows of 64 bytes each."""
        code = self.code
        layout = code.array("i8", len(CONFIGURATION))
        for k, (word,) in enumerate(struct.iter_unpack("<q", CONFIGURATION)):
            code.store(code.value(word, "i64"), layout, k)
        self.call("ldtilecfg", f"ptr {layout.name}", "ptr")

    def end(self) -> None:
        """Release the tiles."""
        self.call("tilerelease", "", "")

    def call(self, name: str, arguments: str, kinds: str) -> None:
        """Call an intrinsic; tiles are constants."""
        self.code.declared.add(f"declare void @llvm.x86.{name}({kinds})")
        self.code.lines.append(f"  call void @llvm.x86.{name}({arguments})")

    def zero(self, tile: int) -> None:
        """All elements 0."""
        self.call("tilezero", f"i8 {tile}", "i8 immarg")

    def load(self, tile: int, address: Value, pitch: int | Value) -> None:
        """Read 16 rows, `pitch` bytes apart."""
        step = self.code.value(pitch, "i64").name
        self.call("tileloadd64", f"i8 {tile}, ptr {address.name}, i64 {step}", "i8 immarg, ptr, i64")

    def save(self, tile: int, address: Value, pitch: int) -> None:
        """Write 16 rows, `pitch` bytes apart."""
        self.call("tilestored64", f"i8 {tile}, ptr {address.name}, i64 {pitch}", "i8 immarg, ptr, i64")

    def dot(self, sums: int, left: int, right: int) -> None:
        """Add the products of two tiles."""
        self.call("tdpbf16ps", f"i8 {sums}, i8 {left}, i8 {right}", "i8 immarg, i8 immarg, i8 immarg")

    def rounded(self, value: Value) -> Value:
        """A vector of 16 sums rounded to the bits of bfloat16."""
        return by_instruction(self.code, value)

    def block(self, a: Value, b: Value, steps: Value, c: Value, begins: Value, out: Value) -> None:
        """Write c, or zeros if `begins`, plus the sum of `steps` steps to `out`. a, b, c and out are addresses."""
        self._sum(
            lambda step, half: (self.code.at("i8", a, step * STEP_BYTES + half * TILE_BYTES), 64),
            b,
            steps,
            c,
            begins,
            out,
        )

    def block_in_place(self, rows: Sequence[Rows], b: Value, steps: Value, c: Value, begins: Value, out: Value) -> None:
        """As `block`, with two times 16 rows of the left operand where they lie."""
        self._sum(lambda step, half: rows[half].at(self.code, step), b, steps, c, begins, out)

    def _sum(self, left: Callable[[Value, int], tuple[Value, Any]], b: Value, steps: Value, c: Value, begins: Value,
             out: Value) -> None:  # fmt: skip
        """As `block`. left: the address and the pitch of the left operand's tile `half` at a step."""
        code, pitch = self.code, 4 * SIDE
        corners, targets = (
            [code.at("i8", block, 4 * (TILE * SIDE * i + TILE * j)) for i in range(2) for j in range(2)]
            for block in (c, out)
        )
        code.choose(
            begins,
            lambda: [self.zero(k) for k in range(4)] and None,
            lambda: [self.load(k, corner, pitch) for k, corner in enumerate(corners)] and None,
        )
        with code.loop(0, steps) as step:
            right = code.at("i8", b, step * STEP_BYTES)
            self.load(4, *left(step, 0))
            self.load(6, right, 64)
            self.dot(0, 4, 6)
            self.load(7, code.at("i8", right, TILE_BYTES), 64)
            self.dot(1, 4, 7)
            self.load(5, *left(step, 1))
            self.dot(2, 5, 6)
            self.dot(3, 5, 7)
        for k, target in enumerate(targets):
            self.save(k, target, pitch)


class EmulatedAmx(Amx):
    """AMX's instructions on memory."""

    def rounded(self, value: Value) -> Value:
        return nearest(self.code, value)

    def begin(self) -> None:
        self.tiles = [self.code.array("float", TILE * PAIRS) for _ in range(8)]

    def end(self) -> None:
        pass

    def zero(self, tile: int) -> None:
        with self.code.loop(0, TILE) as row:
            self.code.store(self.code.value(0.0, "<16 x float>"), self.tiles[tile], row * TILE)

    def load(self, tile: int, address: Value, pitch: int) -> None:
        self._copy(address, pitch, self.tiles[tile], 64)

    def save(self, tile: int, address: Value, pitch: int) -> None:
        self._copy(self.tiles[tile], 64, address, pitch)

    def _copy(self, source: Value, step: int, target: Value, pitch: int) -> None:
        code = self.code
        with code.loop(0, TILE) as row:
            line = code.load("float", code.at("i8", source, row * step), 0, TILE)
            code.store(line, code.at("i8", target, row * pitch))

    def dot(self, sums: int, left: int, right: int) -> None:
        code = self.code
        total, a, b = self.tiles[sums], self.tiles[left], self.tiles[right]
        with code.loop(0, TILE) as row:
            apart = [code.variable("<16 x float>", 0.0) for _ in range(2)]
            with code.loop(0, PAIRS) as pair:
                x = code.splat(code.load("i32", a, row * PAIRS + pair), TILE)
                y = code.load("i32", b, pair * TILE, TILE)
                for each, p, q in zip(apart, halves(code, x), halves(code, y), strict=True):
                    each.set(code.call("fma", p, q, each.get()))
            both = apart[0].get() + apart[1].get()
            code.store(code.load("float", total, row * TILE, TILE) + both, total, row * TILE)


class Avx512:
    """AVX-512-BF16: eight rows at a time, whose sums are 16 vectors of 16."""

    IN_PLACE = True

    def __init__(self, code: Code):
        self.code = code

    def begin(self) -> None:
        """Nothing to configure."""

    def end(self) -> None:
        """Nothing to release."""

    def dot(self, sums: Value, x: Value, y: Value) -> Value:
        """The sums and the products of vectors of pairs."""
        code = self.code
        # Pairs are words to LLVM 15; later ones read this too, and make vectors of bfloat16 of them.
        name, kinds = "llvm.x86.avx512bf16.dpbf16ps.512", "<16 x float>, <16 x i32>, <16 x i32>"
        code.declared.add(f"declare <16 x float> @{name}({kinds})")
        arguments = f"<16 x float> {sums.name}, <16 x i32> {x.name}, <16 x i32> {y.name}"
        return code.new("<16 x float>", f"call <16 x float> @{name}({arguments})")

    def rounded(self, value: Value) -> Value:
        """As `Amx.rounded`."""
        return by_instruction(self.code, value)

    def block(self, a: Value, b: Value, steps: Value, c: Value, begins: Value, out: Value) -> None:
        """As `Amx.block`."""
        pitch = self.code.value(4 * PAIRS, "i64")
        self._sum(
            lambda step, half: (self.code.at("i8", a, step * STEP_BYTES + half * TILE_BYTES), pitch),
            b,
            steps,
            c,
            begins,
            out,
        )

    def block_in_place(self, rows: Sequence[Rows], b: Value, steps: Value, c: Value, begins: Value, out: Value) -> None:
        """As `Amx.block_in_place`."""
        code = self.code

        def left(step: Value, half: Value) -> tuple[Value, Value]:
            chosen = Rows(*(code.select(half == 0, *both) for both in zip(*rows, strict=True)))
            return chosen.at(code, step)

        self._sum(left, b, steps, c, begins, out)

    def _sum(self, left: Callable[[Value, Value], tuple[Value, Value]], b: Value, steps: Value, c: Value, begins: Value,
             out: Value) -> None:  # fmt: skip
        """As `block`. left: the address and the pitch of the left operand's tile `half` at a step."""
        code = self.code
        with code.loop(0, SIDE // GROUP) as group:
            source, target = (code.at("i8", block, group * (GROUP * SIDE * 4)) for block in (c, out))
            zero = code.value(0.0, "<16 x float>")
            sums: list[Variable] = []
            for k in range(2 * GROUP):
                there = code.load("float", source, TILE * k, TILE)
                sums.append(code.variable("<16 x float>", code.select(begins, zero, there)))
            with code.loop(0, steps) as step:
                right = code.at("i8", b, step * STEP_BYTES)
                tile, pitch = left(step, group // 2)  # of which a group is a half
                lines = [code.at("i8", tile, ((group % 2) * GROUP + row) * pitch) for row in range(GROUP)]
                with code.loop(0, PAIRS, UNROLLED) as first:
                    for pair in range(UNROLLED):
                        ys = [code.load("i32", right, (first + pair) * TILE + k * TILE * PAIRS, TILE) for k in range(2)]
                        for row in range(GROUP):
                            x = code.splat(code.load("i32", lines[row], first + pair), TILE)
                            for k in range(2):
                                total = sums[2 * row + k]
                                total.set(self.dot(total.get(), x, ys[k]))
            for k, total in enumerate(sums):
                code.store(total.get(), target, TILE * k)


class EmulatedAvx512(Avx512):
    """AVX-512-BF16's instruction by two of any processor."""

    def rounded(self, value: Value) -> Value:
        return nearest(self.code, value)

    def dot(self, sums: Value, x: Value, y: Value) -> Value:
        (even_x, odd_x), (even_y, odd_y) = halves(self.code, x), halves(self.code, y)
        return self.code.call("fma", even_x, even_y, self.code.call("fma", odd_x, odd_y, sums))


def by_instruction(code: Code, value: Value) -> Value:
    """16 numbers of float32 rounded to the bits of bfloat16 by VCVTNEPS2BF16: as `nearest`, but below 2⁻¹²⁶ to zero."""
    name = "llvm.x86.avx512bf16.cvtneps2bf16.512"
    code.declared.add(f"declare <16 x i16> @{name}(<16 x float>)")  # words to LLVM 15, which later ones read too
    return code.new("<16 x i16>", f"call <16 x i16> @{name}(<16 x float> {value.name})")


def nearest(code: Code, value: Value) -> Value:
    """float32 rounded to the bits of bfloat16: to nearest, ties to even."""
    bits = code.bits(value, "i32")
    above = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16
    return code.cast(code.select(value != value, NAN, above), "i16")


def halves(code: Code, pairs: Value) -> tuple[Value, Value]:
    """The even and the odd numbers of a vector of pairs, as floats."""
    return code.bits(pairs << 16, "float"), code.bits(pairs & -0x10000, "float")


EMULATED = {"emulated-amx": EmulatedAmx, "emulated-avx512_bf16": EmulatedAvx512}
WAYS: dict[str, Callable[[Code], Amx | Avx512]] = {"amx": Amx, "avx512_bf16": Avx512, **EMULATED}


@functools.cache
def available() -> str:
    """The instructions that bfloat16 is summed by here, a key of WAYS; "" without any: it is computed in float32.

    The environment variable TDT_BFLOAT16 names them, or "0" for none; a processor that lacks them cannot run them.
    """
    chosen = os.environ.get("TDT_BFLOAT16")
    if chosen is not None:
        return chosen if chosen in WAYS and (chosen in EMULATED or chosen in supported()) else ""
    return next(iter(supported()), "")


def supported() -> list[str]:
    """What the processor and the operating system have, the fastest first."""
    found = []
    if processor_has("amx-tile", "amx-bf16", "avx512bf16") and amx_permitted():
        found.append("amx")
    if processor_has("avx512bf16"):
        found.append("avx512_bf16")
    return found


def processor_has(*features: str) -> bool:
    """Whether Linux names these features, in LLVM's spelling, of the processor, and Numba's settings, if any, do too."""
    from tdt._kernels._native import has_feature, vector_width

    names = {feature.replace("-", "_").replace("avx512bf16", "avx512_bf16") for feature in features}
    if not (names <= _processor_flags() and vector_width() == 16):
        return False
    if os.environ.get("NUMBA_CPU_NAME") or os.environ.get("NUMBA_CPU_FEATURES"):
        return all(map(has_feature, features))
    return True


@functools.cache
def _processor_flags() -> frozenset[str]:
    """Linux's names of the processor's features; none on other systems."""
    if not sys.platform.startswith("linux"):
        return frozenset()
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            line = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset(line.partition(":")[2].split())


@functools.cache
def amx_permitted() -> bool:
    """Ask Linux, once, for permission to use AMX in this process and its threads; whether it is given."""
    import ctypes

    try:
        syscall = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    syscall.restype = ctypes.c_long
    answer: int = syscall(ctypes.c_long(ARCH_PRCTL), ctypes.c_long(ARCH_REQ_XCOMP_PERM), ctypes.c_long(XTILEDATA))
    return answer == 0
