"""Search in sorted rows: a generalised ufunc."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from tdt._kernels._code import SIZES, Code, Value
from tdt._kernels._gufunc import Operand, contiguous, for_arrays, generalized
from tdt._kernels._row_index import INDICES, KINDS
from tdt._kernels._syntax import vector, vector_length

SEARCHED = 32  # elements of a row that are searched for together; fewer, one by one, wait less for their edges
COMPARED = 64  # edges that are all compared with such elements in less time than a search reads some of them


class _Search:
    """How many edges are before an element: less than it, or with `right` not greater."""

    def __init__(self, code: Code, edges: Operand, n: Value, kind: str, right: bool):
        self.code, self.edges, self.n, self.kind, self.right = code, edges, n, kind, right
        self.steps = code.variable("i64", 0)
        rest = code.variable("i64", n)
        with code.forever() as leave:
            leave(rest.get() <= 0)
            rest.set(rest.get() >> 1)
            self.steps.set(self.steps.get() + 1)

    def is_behind(self, edge: Value, value: Value) -> Value:
        """Whether the search goes left of an edge. It goes right of a NaN, and for one."""
        return edge > value if self.right else edge >= value

    def halving(self, value: Value) -> Value:
        """The places of an element, or of a vector of them, whose branches would be guessed wrong half the time."""
        code, many = self.code, vector_length(value.kind)
        word = "i32" if many else "i64"
        spread = lambda number: code.splat(code.cast(number, word), many)  # noqa: E731
        words = vector(word, many)
        last, stride = spread(self.n - 1), spread(self.edges.strides[0])
        low, high = code.variable(words, 0), code.variable(words, spread(self.n))
        # Always as many steps, of which the last may do nothing.
        with code.loop(0, self.steps.get()):
            middle = (low.get() + high.get()) >> 1
            offset = code.minimum(middle, last) * stride
            if many:
                edge = code.gather_at(self.kind, self.edges.address, offset, "i8")
            else:
                edge = code.load(self.kind, code.at("i8", self.edges.address, offset))
            stop = self.is_behind(edge, value) | (middle >= high.get())
            high.set(code.select(stop, middle, high.get()))
            low.set(code.select(stop, low.get(), middle + 1))
        return low.get()

    def comparing(self, value: Value) -> Value:
        """The places of a vector of elements among edges that are in order."""
        code, many = self.code, vector_length(value.kind)
        found = code.variable(vector("i32", many), 0)
        with code.loop(0, self.n) as e:
            edge = code.splat(code.load(self.kind, self.edges.place(code, e)), many)
            found.set(found.get() + code.cast(~self.is_behind(edge, value), "i32"))
        return found.get()

    def in_order(self) -> Value:
        """Whether there are few edges, none below the one before, and no NaN."""
        code, n = self.code, self.n
        wrong = code.variable("i1", n > COMPARED)
        with code.when(n <= COMPARED), code.loop(0, n) as e:
            edge, before = (code.load(self.kind, self.edges.place(code, k)) for k in (e, code.maximum(e - 1, 0)))
            wrong.set(wrong.get() | ~(before <= edge))
        return ~wrong.get()


@generalized("(n),(m)->(m)")
def row_search(code: Code, operands: list[Operand], sizes: list[Value], letter: str, target: str, right: bool) -> None:
    """Sorted edges, x: how many edges are less than x, or with `right` not greater. The search goes right of a nan."""
    edges, x, out = operands
    n, m = sizes
    kind, integer = KINDS[letter], INDICES[target]
    search = _Search(code, edges, n, kind, right)
    values, places = code.array(kind, SEARCHED), code.array(integer, SEARCHED)

    def several(k: Value, find: Callable[[Value], Value]) -> None:
        source = contiguous(code, x, kind, k, code.value(SEARCHED, "i64"), values)
        found = code.cast(find(code.load(kind, source, 0, SEARCHED)), integer)

        def one_by_one() -> None:
            code.store(found, places)
            with code.loop(0, SEARCHED) as each:
                code.store(code.load(integer, places, each), out.place(code, k + each))

        dense = out.strides[0] == SIZES[integer]
        code.choose(dense, lambda: code.store(found, out.place(code, k)), one_by_one)

    def vectors(find: Callable[[Value], Value]) -> None:
        with code.loop(0, m - SEARCHED, SEARCHED) as k:
            several(k, find)
        several(m - SEARCHED, find)  # which may overlap the one before

    def singly() -> None:
        with code.loop(0, m) as k:
            place = search.halving(code.load(kind, x.place(code, k)))
            code.store(code.cast(place, integer), out.place(code, k))

    def many() -> None:
        code.choose(search.in_order(), lambda: vectors(search.comparing), lambda: vectors(search.halving))

    fits = (n * edges.strides[0] < (1 << 31)) & (edges.strides[0] > 0)  # so that 32 bits hold offsets
    code.choose(fits & (m >= SEARCHED), many, singly)


def search(edges: np.ndarray, x: np.ndarray, target: str, right: bool) -> np.ndarray:
    """The places of x (*, m) in the sorted edges (n) or (*, n), as integers of the type `target`."""
    code, x = _search_code(x.dtype.char, target, right), np.ascontiguousarray(x)
    return code(edges, x) if edges.ndim > 1 else code(edges, x.reshape(-1)).reshape(x.shape)


def prepared_search(edges: np.ndarray, x: np.ndarray, target: str, right: bool) -> Callable[..., np.ndarray]:
    """`search`; see `prepares`."""
    code = _search_code(x.dtype.char, target, right)
    if edges.ndim > 1 or not x.flags.c_contiguous:
        return for_arrays(code, code, [edges, x], tables=1)
    out, general = np.empty(x.shape, target), functools.partial(search, target=target, right=right)
    return for_arrays(general, code, [edges, x.reshape(-1)], [(out, out.reshape(-1))], tables=1)


def _search_code(letter: str, target: str, right: bool) -> Callable[..., np.ndarray]:
    return row_search(letter + letter + target, letter, target, right)
