"""Several formulas of the same arrays, whose elements are computed in one pass over memory.

Expressions are as of one op (`generated`); what stands between two ops stays in registers. An element has the value that the
ops give one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels._broadcast import Job, Plan, letters_of, plan_of
from tdt._kernels._compilable import ENTRY
from tdt._kernels._emit import digest
from tdt._kernels._emit_loops import LOOP, ROWS, module
from tdt._kernels._native import entry_at, linked
from tdt._kernels._pool import parallel
from tdt._kernels._threads import THREADS
from tdt._kernels.expression import Expression
from tdt._kernels.generated import LETTERS, ufunc_of

# Of so many elements, and rows of arrays that are broadcast, generated code has less to do between the rows than NumPy.
MANY, MANY_ROWS = 1 << 13, 64
LEAST_ROW = 8  # elements of rows with gaps between them, as those of parts of an array


class Layout(NamedTuple):
    """How an array lies in memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, array: np.ndarray) -> Layout:
        """That of an array."""
        return cls(array.shape, array.strides, array.dtype)

    @classmethod
    def contiguous(cls, array: np.ndarray) -> Layout:
        """That of an array whose elements lie in order."""
        strides = np.empty(array.shape, np.bool_).strides
        return cls(array.shape, tuple([n * array.itemsize for n in strides]), array.dtype)

    def part(self, dim: int, start: int, stop: int) -> Layout:
        """That of the entries from `start` to `stop` along a dimension, which is counted from the last one, -1."""
        shape = [*self.shape]
        shape[dim] = stop - start
        return Layout(tuple(shape), self.strides, self.dtype)

    @property
    def dense(self) -> bool:
        """Whether the elements lie without gaps and repetition, in any order of the dimensions."""
        size = self.dtype.itemsize
        for stride, n in sorted(zip(self.strides, self.shape, strict=True)):
            if n != 1 and stride != size:
                return False
            size *= n
        return True

    @property
    def unexpanded(self) -> Layout:
        """Without the dimensions in which all elements are one."""
        own = [d for d, stride in enumerate(self.strides) if stride]
        return Layout(tuple([self.shape[d] for d in own]), tuple([self.strides[d] for d in own]), self.dtype)

    def has_rows_of(self, other: Layout) -> bool:
        """Whether the elements that are neighbours in an array of the same shape are so here, in rows with gaps between them."""
        own, others = self.dtype.itemsize, other.dtype.itemsize
        inner = min((d for d, n in enumerate(other.shape) if n != 1), key=other.strides.__getitem__, default=None)
        return (
            inner is not None
            and self.shape[inner] >= LEAST_ROW
            and self.strides[inner] * others == other.strides[inner] * own
        )

    def like(self) -> np.ndarray:
        """An array that lies so; its elements must not be read."""
        return np.lib.stride_tricks.as_strided(np.empty(1, self.dtype), self.shape, self.strides)


def fused(
    outputs: Sequence[Expression], operands: Sequence[Layout], results: Sequence[Layout]
) -> Callable[..., Any] | None:
    """The function of arrays that lie as `operands`, which gives an array for each output (one alone is no tuple).

    Args:
        outputs: expressions of the inputs 0, 1, …, the operands, which broadcast to the results' shape.
        results: how results lie; all alike and without gaps.
    Returns: None where the processor has no instructions for it.
    """
    code = code_of(outputs, operands, results)
    if code is None:
        return None
    first, contiguous = results[0], np.empty(results[0].shape, np.bool_).strides
    size = int(np.prod(first.shape))
    if size >= min(THREADS.rows, MANY):
        plan = plan_of([*operands, *results])
        if plan is not None and (size >= THREADS.rows or (plan.blocks >= MANY_ROWS and len(plan.head) > 1)):
            return _Threaded(code, plan, operands, results)
    each_contiguous = (
        all(s == n * each.dtype.itemsize for s, n in zip(each.strides, contiguous, strict=True))
        for each in (*[o for o in operands if o.shape == first.shape], *results)
    )
    return code.ufunc if all(each_contiguous) else _WithLayout(code.ufunc, results)


class _Code(NamedTuple):
    ufunc: Any
    loop: int
    entry: int
    rows: int
    name: str


_codes: dict[str, _Code | None] = {}


def code_of(outputs: Sequence[Expression], operands: Sequence[Layout], results: Sequence[Layout]) -> _Code | None:
    """The machine code of formulas; None where the processor has no instructions for it."""
    types = "".join(LETTERS[each.dtype] for each in (*operands, *results))
    return _code(digest(outputs, types), types, len(outputs), lambda: module(outputs, types))


def _code(name: str, types: str, outputs: int, ir: Callable[[], str | None]) -> _Code | None:
    """The machine code of a module, which is made once."""
    if name not in _codes:
        addresses = linked(f"fused-{name}", [LOOP, ENTRY, ROWS], ir)
        _codes[name] = None
        if addresses:
            loop, entry, rows = addresses
            _codes[name] = _Code(ufunc_of("fused", loop, types, outputs), loop, entry, rows, name)
    return _codes[name]


class _WithLayout:
    """A ufunc whose results lie as given."""

    def __init__(self, ufunc: Any, results: Sequence[Layout]):
        self.ufunc, self.templates = ufunc, [each.like() for each in results]

    def __call__(self, *arrays: np.ndarray) -> Any:
        outs = tuple([np.empty_like(t) for t in self.templates])
        return self.ufunc(*arrays, out=outs)


class _Threaded:
    """The machine code, run by the pool's threads."""

    def __init__(self, code: _Code, plan: Plan, operands: Sequence[Layout], results: Sequence[Layout]):
        self.ufunc, self.strides, self.plan = code.ufunc, [each.strides for each in operands], plan
        self.templates, self.single = [each.like() for each in results], len(results) == 1
        count, head = len(operands) + len(results), len(plan.head)
        self.job = Job(code.name, entry_at(code.rows if head > 1 else code.entry, letters_of(head, count)), plan)

    def __call__(self, *arrays: np.ndarray) -> Any:
        outs = [np.empty_like(t) for t in self.templates]
        if any(a.strides != strides for a, strides in zip(arrays, self.strides, strict=True)):  # an expanded gradient
            return self.ufunc(*arrays, out=tuple(outs))
        parallel(self.job, self.plan.blocks, *arrays, *outs, grain=self.plan.grain)  # type: ignore[arg-type]
        return outs[0] if self.single else tuple(outs)
