"""The words of the Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), many at a time.

NumPy makes one after the other; a state's 624 words can be made as vectors, since each follows from words that lie 227
places back, or ahead of it.
"""

from __future__ import annotations

import sys

import numpy as np

from tdt._kernels._jit import jit

SIZE, MIDDLE = 624, 397
UPPER, LOWER, TWIST = np.uint32(0x80000000), np.uint32(0x7FFFFFFF), np.uint32(0x9908B0DF)
MASK_7, MASK_15, NONE = np.uint32(0x9D2C5680), np.uint32(0xEFC60000), np.uint32(0)
ONE, SEVEN, ELEVEN, FIFTEEN, EIGHTEEN = map(np.uint32, (1, 7, 11, 15, 18))
HALF = np.uint64(32)


def words(state: np.ndarray, n: int) -> np.ndarray:
    """The next `n` words, in uint64. state: 624 words and the place of the next one, in uint32; it moves on."""
    out = np.empty(n, np.uint32)
    _words(0, 1, state, out)
    return out.astype(np.uint64)


def pairs(state: np.ndarray, n: int) -> np.ndarray:
    """The next `n` pairs of words in uint64, the first word of each as the high half."""
    out = np.empty(n, np.uint64)
    _words(0, 1, state, out.view(np.uint32))
    if sys.byteorder == "little":
        _swap(0, n, out)
    return out


@jit
def _twisted(word, following, other):
    y = (word & UPPER) | (following & LOWER)
    return np.uint32(other ^ (y >> ONE) ^ (TWIST if y & ONE else NONE))


@jit
def _words(first, last, state, out):
    key, place, done = state[:SIZE], np.int64(state[SIZE]), 0
    while done < out.size:
        if place == SIZE:
            for k in range(SIZE - MIDDLE):
                key[k] = _twisted(key[k], key[k + 1], key[k + MIDDLE])
            for k in range(SIZE - MIDDLE, SIZE - 1):
                key[k] = _twisted(key[k], key[k + 1], key[k + MIDDLE - SIZE])
            key[SIZE - 1] = _twisted(key[SIZE - 1], key[0], key[MIDDLE - 1])
            place = 0
        count = min(SIZE - place, out.size - done)
        source, target = key[place : place + count], out[done : done + count]
        for i in range(count):
            y = np.uint32(source[i] ^ (source[i] >> ELEVEN))
            y = np.uint32(y ^ ((y << SEVEN) & MASK_7))
            y = np.uint32(y ^ ((y << FIFTEEN) & MASK_15))
            target[i] = np.uint32(y ^ (y >> EIGHTEEN))
        place += count
        done += count
    state[SIZE] = np.uint32(place)


@jit
def _swap(first, last, pairs):
    for i in range(first, last):
        pairs[i] = (pairs[i] << HALF) | (pairs[i] >> HALF)
