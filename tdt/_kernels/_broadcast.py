"""Loops over arrays that broadcast, as `_emit_loops.ROWS` runs them for the pool's threads."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from tdt._kernels._addresses import address_of
from tdt._kernels._emit_loops import BLOCK
from tdt._kernels._native import Entry

OUTER = 3  # dimensions of the rows of arrays that are broadcast
HEAD = 3  # first words of `ROWS`
GRAIN, GRAIN_OF_FEW = 4, 16  # blocks a thread should at least have; of formulas of few operations
FEW = 3  # operations


class Layout(Protocol):
    """What lies in memory: an array, or a layout."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...


class Plan(NamedTuple):
    """A loop: its blocks, those that a thread should at least have, its first words, and the words behind each array's address.

    One first word: all arrays are one row, which `ENTRY` runs.
    """

    blocks: int
    grain: int
    head: tuple[int, ...]
    steps: list[tuple[int, ...]]


class Job:
    """A loop as `parallel` calls it."""

    __slots__ = ("name", "entry", "plan")

    def __init__(self, name: str, entry: Entry, plan: Plan):
        self.name, self.entry, self.plan = name, entry, plan

    def prepare(self, arrays: Sequence[Any]) -> tuple[Entry, bytes]:
        """As `_jit.Kernel.prepare`."""
        words = [*self.plan.head]
        for array, steps in zip(arrays, self.plan.steps, strict=True):
            words += address_of(array), *steps
        return self.entry, self.entry.pack(*words)

    def __call__(self, first: int, last: int, *arrays: Any) -> None:
        entry, words = self.prepare(arrays)
        entry.call(words, first, last)


def letters_of(head: int, arrays: int) -> str:
    """The types of the words of a loop with so many first words, as `entry_at` takes them."""
    return "q" * (head + arrays * (2 if head == 1 else 2 + OUTER))


def plan_of(arrays: Sequence[Layout], grain: int = GRAIN, cut: bool = False) -> Plan | None:
    """The loop over arrays that broadcast to the shape of the last one; None where rows have more than three dimensions.

    grain: blocks that a thread should have, of as many elements as a block of one row has.
    cut: long rows are cut, so that threads share them.
    """
    shape, last = arrays[-1].shape, arrays[-1]
    order = sorted((d for d in range(len(shape)) if shape[d] != 1), key=lambda d: -last.strides[d])
    dims: list[list[int]] = []  # [size, each array's stride], of dimensions that are one for all arrays
    for d in order:
        steps = [_stride(each, shape, d) for each in arrays]
        if dims and all(s == t * shape[d] for s, t in zip(dims[-1][1:], steps, strict=True)):
            dims[-1] = [dims[-1][0] * shape[d], *steps]
        else:
            dims.append([shape[d], *steps])
    if len(dims) == 1:
        return Plan(-(-dims[0][0] // BLOCK), grain, (dims[0][0],), [(step,) for step in dims[0][1:]])
    if len(dims) - 1 > OUTER:
        return None
    if cut and 1 < len(dims) <= OUTER and (piece := _piece(dims[-1][0])):
        n, *steps = dims.pop()
        dims += [[n // piece, *[step * piece for step in steps]], [piece, *steps]]
    *rows, inner = [[1, *[0] * len(arrays)]] * (OUTER + 1 - len(dims)) + dims
    head = (inner[0], rows[1][0], rows[2][0])
    words = [(inner[k], *[row[k] for row in rows]) for k in range(1, len(arrays) + 1)]
    count = functools.reduce(lambda n, row: n * row[0], rows, 1)
    return Plan(count, max(1, grain * BLOCK // max(inner[0], 1)), head, words)


def _stride(array: Layout, shape: tuple[int, ...], d: int) -> int:
    """The stride of an array along a dimension of the shape that it broadcasts to."""
    k = d - (len(shape) - len(array.shape))
    return 0 if k < 0 or array.shape[k] == 1 else array.strides[k]


def _piece(n: int) -> int:
    """The elements of a part of a long row; 0 where it is short, or has no such part."""
    if n < 2 * BLOCK:
        return 0
    fewest = -(-n // BLOCK)
    return next((n // k for k in range(fewest, 4 * fewest) if n % k == 0), 0)
