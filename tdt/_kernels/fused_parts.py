"""Formulas of parts of arrays along a dimension, whose results are parts of others: joins and slices computed with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels._broadcast import Job, letters_of, plan_of
from tdt._kernels._native import entry_at
from tdt._kernels._pool import parallel
from tdt._kernels.expression import Expression
from tdt._kernels.fused import MANY, Layout, code_of

MOST_ARRAYS = 40  # operands and results of a part


class Read(NamedTuple):
    """What a part reads of an operand, by its number: the entries from `start` to `stop`, or all where they are None."""

    operand: int
    start: int | None
    stop: int | None


class Computed(NamedTuple):
    """The entries from `start` to `stop` of each result: expressions of the inputs 0, 1, …, which are `reads`."""

    start: int
    stop: int
    outputs: tuple[Expression, ...]
    reads: tuple[Read, ...]


def fused_parts(
    parts: Sequence[Computed], dim: int, operands: Sequence[Layout], results: Sequence[Layout]
) -> Callable[..., Any] | None:
    """The function of arrays that lie as `operands`, which gives an array for each output (one alone is no tuple).

    Args:
        parts: of the results, in order.
        dim: along which they are parts, counted from the last one, -1.
        results: how results lie; all alike and contiguous.
    Returns: None where the processor has no instructions for it.
    """
    found = []
    for part in parts:
        if not part.reads or len(part.reads) + len(results) > MOST_ARRAYS:
            return None
        reads = [
            operands[each.operand] if each.start is None else operands[each.operand].part(dim, each.start, each.stop)
            for each in part.reads
        ]
        one = _part(part, dim, reads, [each.part(dim, part.start, part.stop) for each in results])
        if one is None:
            return None
        found.append(one)
    return _InParts(found, operands, results)


class _Part(NamedTuple):
    """The code of a part: a ufunc, and the job of the pool's threads; the operands, and the index of each, None for all."""

    ufunc: Any
    job: Job | None
    reads: list[tuple[int, Any]]
    written: Any


def _part(part: Computed, dim: int, reads: Sequence[Layout], results: Sequence[Layout]) -> _Part | None:
    code = code_of(part.outputs, reads, results)
    if code is None:
        return None
    plan = plan_of([*reads, *results]) if np.prod(results[0].shape) >= MANY else None
    job = None
    if plan is not None:
        head, count = len(plan.head), len(reads) + len(results)
        job = Job(code.name, entry_at(code.rows if head > 1 else code.entry, letters_of(head, count)), plan)
    index = [(each.operand, None if each.start is None else _index(dim, each.start, each.stop)) for each in part.reads]
    return _Part(code.ufunc, job, index, _index(dim, part.start, part.stop))


def _index(dim: int, start: int, stop: int | None) -> tuple[Any, ...]:
    return (..., slice(start, stop), *(slice(None),) * (-dim - 1))


class _InParts:
    """The machine code of all parts."""

    def __init__(self, parts: Sequence[_Part], operands: Sequence[Layout], results: Sequence[Layout]):
        self.parts, self.strides = parts, [each.strides for each in operands]
        self.templates, self.single = [each.like() for each in results], len(results) == 1

    def __call__(self, *arrays: np.ndarray) -> Any:
        outs = [np.empty_like(t) for t in self.templates]
        lie_alike = all(a.strides == strides for a, strides in zip(arrays, self.strides, strict=True))
        for ufunc, job, reads, written in self.parts:
            values = [arrays[k] if index is None else arrays[k][index] for k, index in reads]
            targets = [out[written] for out in outs]
            if job is None or not lie_alike:  # as with an expanded gradient
                ufunc(*values, out=tuple(targets))
            else:
                parallel(job, job.plan.blocks, *values, *targets, grain=job.plan.grain)  # type: ignore[arg-type]
        return outs[0] if self.single else tuple(outs)
