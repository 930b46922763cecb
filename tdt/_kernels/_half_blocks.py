"""Kernels of float32 for images of bfloat16, where each block reads and writes a part of its own of two arrays.

Some blocks at a time are converted to memory on the stack, where the kernel finds them in a cache, and its results are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tdt._kernels._addresses import address_of
from tdt._kernels._bfloat16 import LANES, round_block, widen_line
from tdt._kernels._code import Code, Value, native
from tdt._kernels._launches import words_for
from tdt._kernels._native import NativeKernel
from tdt._kernels._pool import parallel, stays_on_caller

NEAR, MOST = 1 << 13, 1 << 15  # floats of each array that are computed at a time, and of a block
MOST_WORDS = 32  # of the kernel
WORDS = ("entry", "template", "count", "blocks", "together", "source_size", "target_size")


def half_blocks(
    kernel: NativeKernel, blocks: int, grain: int, sizes: tuple[int, int], numbers: tuple[int, ...]
) -> Callable[..., None] | None:
    """The kernel as a function of a contiguous source, weights, a bias and a contiguous result, source and result in bfloat16.

    None where a block is too large.

    Args:
        kernel: its arguments are such arrays of float32, and `numbers`.
        sizes: elements of the source that a block reads, and of the result that it writes, behind those of the block before.
        grain: blocks that a thread should at least have.
    """
    if max(sizes) > MOST:
        return None
    together = max(1, min(blocks, NEAR // max(sizes)))
    template = np.array(numbers, np.int64)
    assert len(template) + 4 <= MOST_WORDS
    words: Any = words_for(
        (kernel.entry.address, address_of(template), len(template), blocks, together, *sizes), (template,)
    )
    pieces, grain = -(-blocks // together), -(-grain // together)
    if stays_on_caller(pieces, grain):
        return _blocks().with_last(pieces, words)
    return lambda *arrays: parallel(_blocks(), pieces, *arrays, words, grain=grain)


@native("qqqqp", vectorize=False)
def _blocks(code: Code, first: Value, last: Value, arguments: list[Value]) -> None:
    """Pieces of `together` blocks each."""
    source, weights, bias, target, words = arguments
    p = code.words(words, WORDS)
    wide, sums = (code.cast(code.array("float", MOST + LANES), "i64") for _ in range(2))
    own, template = code.array("i64", MOST_WORDS), code.cast(p.template, "ptr")
    for k, value in ((1, weights), (2, bias)):
        code.store(value, own, k)
    with code.loop(0, p.count) as k:
        code.store(code.load("i64", template, k), own, k + 4)
    with code.loop(first, last) as piece:
        low = piece * p.together
        high = code.minimum(low + p.together, p.blocks)
        widen_line(code, (high - low) * p.source_size, source + 2 * low * p.source_size, wide)
        code.store(wide - 4 * low * p.source_size, own, 0)
        code.store(sums - 4 * low * p.target_size, own, 3)
        code.new("i64", f"call i64 {code.cast(p.entry, 'ptr').name}(ptr {own.name}, i64 {low.name}, i64 {high.name})")
        count = (high - low) * p.target_size
        round_block(code, code.value(1, "i64"), count, sums, count, target + 2 * low * p.target_size, count)
