"""Machine code along dimensions as real NumPy ufuncs ("generalised ufuncs"): one short call for small arrays.

    @generalized("(n)->()")
    def _largest(code, operands, sizes):
        x, out = operands
        ...                                  # written with `_code`, for one row

    largest = _largest("ff")                 # float32 to float32; a function as NumPy's own
    largest(array)                           # over the last dimension of any array, with any strides

NumPy allocates the result, loops over the other dimensions and takes `out=`; a call costs about what one of its own
reductions costs, some 0.7 µs. Without NumPy it costs 0.2: `for_arrays` for arrays of known shapes, `_quick.quick` for others.
Many rows are shared by the pool's threads (`_jobs.shared_loop`).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tdt._kernels._addresses import address_of
from tdt._kernels._code import SIZES, Code, Value
from tdt._kernels._jobs import SHARED, shared_loop
from tdt._kernels._launches import PLAIN_UFUNCS, WATCH
from tdt._kernels._native import applied, linked, target_triple, ufunc_function

LOOP = "tdt_loop"
FROM_LOOP = 31  # the place of `PyUFunc_FromFuncAndDataAndSignature` in the table of functions that NumPy's C API fixes
# NumPy's letters of the types that arrays have, with "E" for bfloat16, for which NumPy has no loops: it is uint16 there.
AS_KNOWN = {"E": "H"}

MOST = 1 << 14  # elements of arrays for which a call does without NumPy, and other threads of Python's wait

_alive: list[Any] = []  # NumPy keeps pointers to these, and ufuncs live as long as the process
_loops: dict[Callable, tuple[int, int, str, str]] = {}  # by ufunc: addresses of its loop and data, signature, types
_shared: dict[Callable, tuple[int, int]] = {}  # those of `shared_loop`


class Operand(NamedTuple):
    """An operand at one place of the dimensions that NumPy loops over.

    Attributes:
        address: of its first element.
        strides: bytes from element to element, for each of the dimensions that the signature names.
    """

    address: Value
    strides: tuple[Value, ...]

    def place(self, code: Code, *index: Any) -> Value:
        """The address of the element with these indices."""
        offset: Any = code.value(0, "i64")
        for k, stride in zip(index, self.strides, strict=True):
            offset = offset + stride * k
        return code.at("i8", self.address, offset)


def generalized(signature: str, *, vectorize: bool = True) -> Callable[[Callable[..., None]], Callable[..., Callable]]:
    """Make `write(code, operands, sizes, *parameters)` a function `(types, *parameters)` that gives the ufunc.

    Args:
        signature: NumPy's, such as "(n),(n)->(n)", with names of one letter.
        vectorize: as in `native`.

    `write` computes one row: `operands` are its `Operand`s, inputs first, `sizes` the named dimensions in order of their
    first occurrence. `types` of the ufunc: the letter of each operand's elements, "E" for bfloat16 (given as uint16).
    """
    inputs = signature.partition("->")[0].count("(")

    def decorate(write: Callable[..., None]) -> Callable[..., Callable]:
        module = write.__module__.rpartition(".")[2]

        @functools.cache
        def ufunc_for(types: str, *parameters: Any) -> Callable:
            name = "-".join([f"{module}.{write.__name__}", types, *map(str, parameters)])
            [address] = linked(
                name, [LOOP], lambda: written(write, signature, types, parameters), optimize=True, vectorize=vectorize
            )
            return ufunc_at(address, signature, types, inputs, write.__name__.strip("_"), address_of(SHARED))

        functools.update_wrapper(ufunc_for, write)
        return ufunc_for

    return decorate


def written(write: Callable[..., None], signature: str, types: str, parameters: Sequence[Any]) -> str:
    """The IR of NumPy's inner loop: `void (char **operands, intp *sizes, intp *strides, void *)`."""
    code = Code()
    cores = named_sizes(signature)
    names = list(dict.fromkeys(itertools.chain(*cores)))
    assert len(cores) == len(types)
    pointers, counts, steps = (Value(code, name, "ptr") for name in ("%operands", "%sizes", "%strides"))
    addresses = [code.load("ptr", pointers, k) for k in range(len(cores))]
    outer = [code.load("i64", steps, k) for k in range(len(cores))]
    sizes = [code.load("i64", counts, 1 + k) for k in range(len(names))]
    places = iter(range(len(cores), len(cores) + sum(map(len, cores))))
    strides = [tuple([code.load("i64", steps, next(places)) for _ in core]) for core in cores]
    with code.loop(0, code.load("i64", counts, 0)) as k:
        moved = [code.at("i8", a, k * step) for a, step in zip(addresses, outer, strict=True)]
        write(code, [Operand(a, s) for a, s in zip(moved, strides, strict=True)], sizes, *parameters)
    head = [
        f'target triple = "{target_triple()}"',
        f"define void @{LOOP}(ptr %operands, ptr %sizes, ptr %strides, ptr %data) {{",
        "entry:",
    ]
    return "\n".join(
        [*head, *code.variables, *code.lines, "  ret void", "}", *code.functions, *sorted(code.declared), ""]
    )


def pool_of(code: Code) -> Value:
    """The address of `_jobs.SHARED`, in the code of a ufunc of `generalized`."""
    return Value(code, "%data", "ptr")


def contiguous(code: Code, operand: Operand, kind: str, start: Value, count: Value, buffer: Value) -> Value:
    """The address of `count` elements from `start` side by side: where they are, or else copied into `buffer`."""
    size = SIZES[kind]
    place = code.variable("ptr", operand.place(code, start))
    with code.when(operand.strides[0] != size):
        source = place.get()
        with code.loop(0, count) as i:
            code.store(code.load(kind, code.at("i8", source, operand.strides[0] * i)), buffer, i)
        place.set(buffer)
    return place.get()


def ufunc_at(
    address: int, signature: str, types: str, inputs: int, name: str, data: int = 0, weight: int = 1
) -> Callable:
    """The ufunc whose inner loop is at an address; the loop gets the address `data` as its last argument.

    weight: as of `_jobs.shared_loop`.
    """
    numbers = bytes(np.dtype(AS_KNOWN.get(letter, letter)).num for letter in types)
    shared = shared_loop(address, data, named_sizes(signature), weight)
    loops, last = ((ctypes.c_void_p * 1)(each) for each in shared)
    texts = name.encode(), signature.encode()
    _alive.append((loops, last, numbers, texts))
    ufunc = _from_loop()(loops, last, numbers, 1, inputs, len(types) - inputs, -1, texts[0], b"", 0, texts[1])
    PLAIN_UFUNCS.add(ufunc)
    _loops[ufunc], _shared[ufunc] = (address, data, signature, types), shared
    return ufunc


def loop_of(ufunc: Callable) -> tuple[int, int, str, str]:
    """Of a ufunc from here: the addresses of its shared loop and of what that gets last, its signature and types."""
    return *_shared[ufunc], *_loops[ufunc][2:]


def named_sizes(signature: str) -> list[list[str]]:
    """The names of each operand's dimensions."""
    return [part[: part.index(")")].split(",") if part[0] != ")" else [] for part in signature.split("(")[1:]]


def for_arrays(
    function: Callable[..., Any], ufunc: Callable, operands: Sequence[np.ndarray],
    results: Sequence[tuple[np.ndarray, np.ndarray]] = (), tables: int = 0,
) -> Callable[..., Any]:  # fmt: skip
    """`function`, which calls `ufunc`, for arrays of the operands' types and shapes, which it does not look at: in half the time.

    It is `function` itself where `ufunc` is not from here, arrays are large, or NumPy has to loop over more than two dimensions.

    Args:
        operands: of `ufunc`: the arguments of `function`, or views of them that begin with the same element.
        results: an array as each of the function's, and the view of it that the ufunc writes to; if they are not the ufunc's.
        tables: how many of the first operands may be large, as a call reads no more of them than it writes to the results.
    """
    read = [*operands[tables:], *[array for array, _ in results]]
    if ufunc not in _loops or not all(0 < each.size <= MOST for each in read) or not all(t.size for t in operands):
        return function
    if not results:
        found = ufunc(*operands)
        found = [np.empty(each.shape, each.dtype) for each in (found if found.__class__ is tuple else (found,))]
        results = [(each, each) for each in found]
    address, data, signature, _ = _loops[ufunc]
    cores = named_sizes(signature)
    views = [*operands, *[view for _, view in results]]
    sizes: dict[str, int] = {}
    for view, core in zip(views, cores, strict=True):
        sizes |= zip(core, view.shape[view.ndim - len(core) :], strict=True)
    loops = _loops_over([view[(..., *(0,) * len(core))] for view, core in zip(views, cores, strict=True)])
    if len(loops) > 2:
        return function
    (times, *steps), (count, *strides) = [(1, *(0,) * len(views))] * (2 - len(loops)) + loops
    for view, core in zip(views, cores, strict=True):
        strides += view.strides[view.ndim - len(core) :]
    new = [(array.dtype, array.shape) for array, _ in results]
    call = applied(address, data, (count, *sizes.values()), strides, times, steps, new)

    def run(*arrays: np.ndarray) -> Any:
        return call(*arrays) if WATCH.trace is None else function(*arrays)

    return run


def _loops_over(arrays: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    """The fewest loops over arrays that broadcast: how often each goes, and by how many bytes in each array."""
    loops: list[tuple[int, ...]] = []
    for n, *steps in zip(*_broadcast(arrays), strict=True):
        if n > 1 and loops and all(before == n * step for before, step in zip(loops[-1][1:], steps, strict=True)):
            loops[-1] = (loops[-1][0] * n, *steps)
        elif n > 1:
            loops.append((n, *steps))
    return loops


def _broadcast(arrays: Sequence[np.ndarray]) -> list[tuple[int, ...]]:
    """The shape of arrays that broadcast, and the strides of each."""
    shape = np.broadcast_shapes(*[each.shape for each in arrays])
    return [shape, *[np.broadcast_to(each, shape).strides for each in arrays]]


@functools.cache
def _from_loop() -> Any:
    """NumPy's function: (loops, data, types, ntypes, nin, nout, identity, name, doc, unused, signature) → ufunc."""
    number, text = ctypes.c_int, ctypes.c_char_p
    array = ctypes.c_void_p
    return ufunc_function(FROM_LOOP, array, array, text, number, number, number, number, text, text, number, text)
