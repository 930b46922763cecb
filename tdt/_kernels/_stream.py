"""Results that are written past the cache, to memory.

An ordinary store reads its line of the cache from memory before, so a large result costs as much as two. A vector that
fills the line and is stored past the cache does without; a reader finds it in memory, not in the cache.
"""

from __future__ import annotations

import functools
import platform
import sys

LAST_CACHE = "/sys/devices/system/cpu/cpu0/cache/index3/size"  # of Linux
USUAL_CACHE = 1 << 25  # bytes, where the system tells none

# In LLVM IR: a store that goes past the cache says PAST_CACHE, and its module STREAMED. Other threads see it after END_STREAMS.
PAST_CACHE, STREAMED, END_STREAMS = "!nontemporal !0", "!0 = !{i32 1}", "@llvm.x86.sse.sfence"


@functools.cache
def stream_from() -> int:
    """The bytes of a result from which on it is written past the cache: a quarter of the last cache, which other programs use
    too. A smaller one is still there when the next op reads it. On processors without x86's instructions, of no result."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return sys.maxsize
    try:
        with open(LAST_CACHE, encoding="ascii") as file:
            last = int(file.read().strip().removesuffix("K")) << 10
    except (OSError, ValueError):
        last = USUAL_CACHE
    return last // 4
