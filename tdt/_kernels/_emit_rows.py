"""Loops over short rows of broadcast operands: x + bias, x · column.

`_emit_loops` prepares much before each row, which takes longer than a row of a few vectors. These loops have one index for all
arrays, and are emitted for each set of operands that are one number in a row, which stays in a register.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tdt._kernels._emit import STORED

if TYPE_CHECKING:
    from tdt._kernels._emit_loops import Loops

MOST_OPERATIONS = 12  # of a formula
LONGEST = 512  # elements of a row; beyond, two vectors in a round are faster


def patterns(inputs: int, types: str, count: int) -> list[tuple[bool, ...]]:
    """Which operands are one number in a row, for each function of a formula of `count` operations; none for other formulas than
    those of two operands, which may be broadcast against each other."""
    if inputs != 2 or types not in ("fff", "ddd") or count > MOST_OPERATIONS:
        return []
    return [(False, False), (True, False), (False, True)]


def name_of(pattern: tuple[bool, ...]) -> str:
    """The name of a pattern's function."""
    return "@short_" + "".join("01"[one] for one in pattern)


def short_rows(loops: Loops, pattern: tuple[bool, ...]) -> str:
    """The function for a pattern: void (ptr in0, i64 in0_row, …, ptr out, i64 out_row, i64 n, i64 rows), of rows of at least a
    vector; the last one ends where the row ends."""
    size, kind = STORED[loops.types[0]]
    arrays = [f"%a{k}" for k in range(len(loops.types))]
    parameters = ", ".join(f"ptr {a}, i64 {a}_row" for a in arrays)
    loops.lines = [
        f"define internal void {name_of(pattern)}({parameters}, i64 %n, i64 %rows) noinline {{",
        "entry:",
        f"  %before = sub i64 %n, {loops.width}",
        f"  %last = mul i64 %before, {size}",
        "  br label %row",
        "row:",
        "  %r = phi i64 [ %rows, %entry ], [ %next_r, %row_end ]",
        *[f"  {a}_at = phi ptr [ {a}, %entry ], [ {a}_next, %row_end ]" for a in arrays],
    ]
    ones = {}
    for k, one in enumerate(pattern):
        if one:
            value = loops.new(f"load {kind}, ptr {arrays[k]}_at, align {size}")
            value = loops.new(f"insertelement {loops.vector} poison, {kind} {value}, i64 0")
            ones[k] = loops.new(
                f"shufflevector {loops.vector} {value}, {loops.vector} poison, {loops.words} zeroinitializer"
            )
    loops.lines.append("  br label %vector")
    loops.begin("vector")
    loops.lines.append("  %i = phi i64 [ 0, %row ], [ %next, %more ]")
    places = [loops.new(f"getelementptr i8, ptr {a}_at, i64 %i") for a in arrays]
    loads = [ones[k] if k in ones else loops.load(loops.types[k], places[k]) for k in range(len(pattern))]
    loops.store(loops.types[-1], loops.value(loops.outputs[0], loads, {}), places[-1])
    loops.lines += [
        "  %at_end = icmp eq i64 %i, %last",
        "  br i1 %at_end, label %row_end, label %more",
        "more:",
        f"  %further = add i64 %i, {loops.width * size}",
        "  %over = icmp sgt i64 %further, %last",
        "  %next = select i1 %over, i64 %last, i64 %further",
        "  br label %vector",
        "row_end:",
        "  %next_r = sub i64 %r, 1",
        *[f"  {a}_next = getelementptr i8, ptr {a}_at, i64 {a}_row" for a in arrays],
        "  %any_left = icmp ne i64 %next_r, 0",
        "  br i1 %any_left, label %row, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(loops.lines)


def call_short_rows(
    loops: Loops, firsts: list[str], row_steps: list[str], repeated: list[str], streams: str, in_place: str
) -> None:
    """Call the function for short rows of such operands and go to %done, if there is one; else go on.

    It computes the last elements of a row twice, so that a result may not be an operand there.
    """
    rest = loops.new(f"urem i64 %n, {loops.width}")
    once = loops.new(f"icmp eq i64 {rest}, 0")
    apart = loops.new(f"xor i1 {in_place}, true")
    may = loops.new(f"or i1 {once}, {apart}")
    for test in ("icmp sgt i64 %rows, 1", f"icmp sle i64 %n, {LONGEST}", f"xor i1 {streams}, true"):
        may = loops.new(f"and i1 {may}, {loops.new(test)}")

    def call_one() -> None:
        for pattern in loops.short_patterns:
            name, fits = name_of(pattern).removeprefix("@"), "true"
            for is_one, expected in zip(repeated, pattern, strict=True):
                fits = loops.new(f"and i1 {fits}, {is_one if expected else loops.new(f'xor i1 {is_one}, true')}")
            loops.lines.append(f"  br i1 {fits}, label %{name}, label %no_{name}")
            loops.begin(name)
            args = ", ".join(f"ptr {first}, i64 {step}" for first, step in zip(firsts, row_steps, strict=True))
            loops.lines += [f"  call void @{name}({args}, i64 %n, i64 %rows)", "  br label %done"]
            loops.begin(f"no_{name}")

    loops.when(may, "short", call_one)
