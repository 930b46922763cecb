"""Ways in which a file is damaged: what a full disk, a power cut, a bad block or bad memory leave of it."""

from __future__ import annotations

import random
from collections.abc import Iterator


def damages(data: bytes, seed: int, every: int = 97, flips: int = 50) -> Iterator[tuple[str, bytes]]:
    """(kind, damaged copy of `data`), the same for the same seed.

    every: cuts at each multiple of so many bytes, and one byte short. flips: how many copies have wrong bits, one to
    eight of them; as many have a block of zeros, and as many a block of random bytes.
    """
    draw = random.Random(seed)
    yield "empty", b""
    yield "all zeros", bytes(len(data))
    yield "one byte more", data + b"\0"
    yield "twice", data * 2
    yield "backwards", data[::-1]
    for length in (*range(every, len(data), every), len(data) - 1):
        yield f"cut to {length} bytes", data[:length]
    for _ in range(flips):
        wrong = bytearray(data)
        places = draw.sample(range(len(data) * 8), draw.randint(1, 8))
        for place in places:
            wrong[place // 8] ^= 1 << place % 8
        yield f"bits {sorted(places)} flipped", bytes(wrong)
    for filler in ("zeros", "random bytes"):
        for _ in range(flips):
            start, length = draw.randrange(len(data)), draw.choice((1, 16, 512, 4096))
            block = bytes(length) if filler == "zeros" else draw.randbytes(length)
            wrong = (data[:start] + block + data[start + length :])[: len(data)]
            if wrong != data:
                yield f"{length} {filler} at {start}", wrong
