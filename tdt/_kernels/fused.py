"""Several formulas of the same arrays, whose elements are computed in one pass over memory.

Expressions are as of one op (`generated`); what stands between two ops stays in registers. An element has the value that the
ops give one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels._addresses import address_of
from tdt._kernels._compilable import ENTRY
from tdt._kernels._emit import digest
from tdt._kernels._emit_loops import BLOCK, LOOP, ROWS, module
from tdt._kernels._native import entry_at, linked
from tdt._kernels._pool import parallel
from tdt._kernels._threads import THREADS
from tdt._kernels.expression import Expression
from tdt._kernels.generated import GRAIN, LETTERS, ufunc_of

OUTER = 3  # dimensions of the rows of arrays that are broadcast
# Of so many elements, and rows of arrays that are broadcast, generated code has less to do between the rows than NumPy.
MANY, MANY_ROWS = 1 << 13, 64


class Layout(NamedTuple):
    """How an array lies in memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, array: np.ndarray) -> Layout:
        """That of an array."""
        return cls(array.shape, array.strides, array.dtype)

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
    if size >= min(THREADS.elementwise, MANY):
        words = words_of([*operands, *results])
        if words is not None and (size >= THREADS.elementwise or (words[0] >= MANY_ROWS and len(words[2]) > 1)):
            return _Threaded(code, words, operands, results)
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

    def __init__(self, code: _Code, words: tuple, operands: Sequence[Layout], results: Sequence[Layout]):
        self.ufunc, self.strides = code.ufunc, [each.strides for each in operands]
        self.name, self.templates, self.single = code.name, [each.like() for each in results], len(results) == 1
        self.blocks, self.grain, head, self.steps = words
        self.head = head
        letters = "q" * (len(head) + sum(1 + len(steps) for steps in self.steps))
        self.entry = entry_at(code.rows if len(head) > 1 else code.entry, letters)

    def __call__(self, *arrays: np.ndarray) -> Any:
        outs = [np.empty_like(t) for t in self.templates]
        if any(a.strides != strides for a, strides in zip(arrays, self.strides, strict=True)):  # an expanded gradient
            return self.ufunc(*arrays, out=tuple(outs))
        parallel(_Job(self), self.blocks, *arrays, *outs, grain=self.grain)  # type: ignore[arg-type]
        return outs[0] if self.single else tuple(outs)


class _Job:
    """A kernel as `parallel` calls it."""

    __slots__ = ("of", "name")

    def __init__(self, of: _Threaded):
        self.of, self.name = of, of.name

    def prepare(self, arrays: Sequence[np.ndarray]) -> tuple[Any, bytes]:
        """As `_jit.Kernel.prepare`."""
        words = [*self.of.head]
        for array, steps in zip(arrays, self.of.steps, strict=True):
            words += address_of(array), *steps
        return self.of.entry, self.of.entry.pack(*words)

    def __call__(self, first: int, last: int, *arrays: np.ndarray) -> None:
        entry, words = self.prepare(arrays)
        entry.call(words, first, last)


def words_of(arrays: Sequence[Layout]) -> tuple[int, int, tuple, list[tuple]] | None:
    """The blocks of a loop over arrays of which the last lies without gaps, the grain, the first words, each array's words.

    None where rows have more than three dimensions.
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
        return -(-dims[0][0] // BLOCK), GRAIN, (dims[0][0],), [(step,) for step in dims[0][1:]]
    if len(dims) - 1 > OUTER:
        return None
    *rows, inner = [[1, *[0] * len(arrays)]] * (OUTER + 1 - len(dims)) + dims
    head = (inner[0], rows[1][0], rows[2][0])
    steps = [(inner[k], *[row[k] for row in rows]) for k in range(1, len(arrays) + 1)]
    count = functools.reduce(lambda n, row: n * row[0], rows, 1)
    return count, max(1, GRAIN * BLOCK // max(inner[0], 1)), head, steps


def _stride(array: Layout, shape: tuple[int, ...], d: int) -> int:
    """The stride of an array along a dimension of the shape that it broadcasts to."""
    k = d - (len(shape) - len(array.shape))
    return 0 if k < 0 or array.shape[k] == 1 else array.strides[k]
