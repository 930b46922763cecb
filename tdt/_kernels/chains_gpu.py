"""Chains of elementwise kernels in a CUDA graph: launched as one, which keeps what stands between them in registers.

During a capture nothing is computed, so that a launch may wait for the next ones. A generated kernel of an elementwise op
(`formula_gpu`) waits; one that reads its result, or is of results of the same shape, is added to it; all other work
launches what waits first. Of a chain only those results are written to memory that something refers to when it is launched.
Operations are those of the single kernels, in the same order, so an element has the same bits.

`dispatch` and the engine say where a kernel may wait (`Chains.defers`): where they launch all other work themselves. Work that
they do not know of is found by the nodes that the graph has then (`UnknownWorkError`).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any, NamedTuple

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels._cuda import LETTERS, STORED
from tdt._kernels._cuda_formula import FUNCTIONS, Emitter
from tdt._kernels.expression import Expression, operations

MOST_STEPS, MOST_ARRAYS, MOST_OPERATIONS = 48, 32, 600  # of a chain
AHEAD = 4  # elements that a thread reads before it computes: one each keeps a GPU's memory busy half of the time
LARGE, AHEAD_OPERATIONS = 1 << 20, 32  # of kernels that do so: elements at least, operations of each at most
FEW_OPERATIONS = 16  # of a chain that is computed again for each element that its result is broadcast to
ROUNDED = """
template <class T> __device__ __forceinline__ float rounded(float x) {  // as memory would have it
    T stored;
    store(&stored, x);
    return load(stored);
}
"""


KINDS = {"f": "float", "d": "double", "e": "float", "E": "float", "?": "bool"}  # of the values that are computed


class UnknownWorkError(RuntimeError):
    """Something was captured while kernels waited, which may depend on them: the capture must be repeated without chains."""


class Formula:
    """What a kernel computes of each element.

    Args:
        types: the letters of the arrays, and that of the result.
        numbers: how many numbers follow the arrays.
    """

    def __init__(self, name: str, output: Expression, types: str, numbers: int):
        self.name, self.output, self.types, self.numbers = name, output, types, numbers
        self.operations = operations(output)


class Step:
    """A formula within a kernel.

    Attributes:
        operands: for each of the formula's arrays, the number of the array that is read, or the step whose result it is.
        is_stored: whether the result is written to memory.
        is_repeated: whether the result's array is broadcast to the kernel's shape.
    """

    __slots__ = ("formula", "operands", "is_stored", "is_repeated")

    def __init__(
        self, formula: Formula, operands: Sequence[int | Step], is_stored: bool = True, is_repeated: bool = False
    ):
        self.formula, self.operands = formula, operands
        self.is_stored, self.is_repeated = is_stored, is_repeated


def source(name: str, steps: Sequence[Step], letters: str, rank: int, whole: str, ahead: int = 1) -> str:
    """The kernel `name` of steps, whose stored results come before the arrays that it reads in its parameters.

    Args:
        letters: the types of the arrays that are read.
        rank: dimensions that cannot be joined in memory.
        whole: the typedef of the type that counts elements.
        ahead: elements that a thread reads before it computes the first of them; of one dimension if more than one.
    """
    stored = [step for step in steps if step.is_stored]
    outs = ["out", *(f"out{k}" for k in range(1, len(stored)))]
    names = [*(f"a{k}" for k in range(len(letters)))]
    sizes = [f"long long size{d}" for d in range(1, rank)]
    places = [f"long long {each}_{d}" for each in (*outs, *names) for d in range(rank)]
    pointers = [f"{STORED[step.formula.types[-1]]}* {out}" for out, step in zip(outs, stored, strict=True)]
    pointers += [f"const {STORED[letter]}* {each}" for letter, each in zip(letters, names, strict=True)]
    lines = ["whole rest = (whole)i;"] if rank > 1 else ["const long long rest = i;"]
    for d in reversed(range(1, rank)):
        lines += [f"const whole i{d} = rest % (whole)size{d};", f"rest /= (whole)size{d};"]
    index = ["rest", *(f"i{d}" for d in range(1, rank))]
    at = {each: " + ".join([f"{i} * {each}_{d}" for d, i in enumerate(index)]) for each in (*outs, *names)}
    reads = [f"ahead{k}[e]" if ahead > 1 else f"load(a{k}[{at[each]}])" for k, each in enumerate(names)]
    lines += [f"const auto x{k} = {value};" for k, value in enumerate(reads)]
    values, body, numbers, calls_parts, rounds = _computation(steps)
    lines += body
    for out, step in zip(outs, stored, strict=True):
        once = "".join([f"if ({out}_{d} || !{i}) " for d, i in enumerate(index)]) if step.is_repeated else ""
        lines.append(f"{once}store({out} + ({at[out]}), {values[step]});")
    rounded = "".join([f"    const {kind} n{k} = ({kind})number{k};\n" for k, kind in enumerate(numbers)])
    parameters = [*sizes, *places, *pointers, *(f"double number{k}" for k in range(len(numbers)))]
    return (
        f"{FUNCTIONS if calls_parts else ''}{ROUNDED if rounds else ''}\n{whole if rank > 1 else ''}"
        f'extern "C" __global__ void {name}({", ".join(["long long count", *parameters])}) {{\n{rounded}'
        f"{_loop(lines, len(names), ahead)}}}\n"
    )


def _loop(lines: list[str], arrays: int, ahead: int) -> str:
    """The loop of a kernel over its elements i. lines: what it does with each. Other arguments: as of `source`."""
    inner = "\n        ".join(lines)
    each = f" * {ahead}" if ahead > 1 else ""
    loop = (
        f"    const long long step = (long long)gridDim.x * blockDim.x{each};\n"
        f"    for (long long at = (long long)blockIdx.x * blockDim.x{each} + threadIdx.x; at < count; at += step) {{\n"
    )
    if ahead == 1:
        return f"{loop}        const long long i = at;\n        {inner}\n    }}\n"
    several = f"        #pragma unroll\n        for (int e = 0; e < {ahead}; e++)\n"
    several += "        if (const long long i = at + e * blockDim.x; i < count) {\n        "
    buffers = "".join([f"        decltype(load(*a{k})) ahead{k}[{ahead}];\n" for k in range(arrays)])
    reads = " ".join([f"ahead{k}[e] = load(a{k}[i * a{k}_0]);" for k in range(arrays)])
    return f"{loop}{buffers}{several}{reads}\n        }}\n{several}{inner}\n        }}\n    }}\n"


def _computation(steps: Sequence[Step]) -> tuple[dict[Step, str], list[str], list[str], bool, bool]:
    """(the value of each step, statements, types of the numbers, whether they call `FUNCTIONS`, whether `rounded`)."""
    values: dict[Step, str] = {}
    read: dict[Step, str] = {}  # the value as memory would have it
    lines: list[str] = []
    numbers: list[str] = []
    calls_parts, rounds, count = False, False, 0
    for k, step in enumerate(steps):
        formula = step.formula
        emitter = Emitter("d" in formula.types)
        emitter.count = count
        loads = [read[x] if isinstance(x, Step) else f"x{x}" for x in step.operands]
        loads += [f"n{len(numbers) + j}" for j in range(formula.numbers)]
        values[step] = read[step] = emitter.value(formula.output, loads, {})
        numbers += [emitter.real] * formula.numbers
        lines += emitter.lines
        letter, computed = formula.types[-1], "bool" if formula.output.logical else emitter.real
        if (kind := KINDS[letter]) != computed or letter in "eE":
            narrow = f"rounded<{STORED[letter]}>" if letter in "eE" else f"({kind})"
            if any(step in other.operands for other in steps[k + 1 :]):
                lines.append(f"const {kind} r{k} = {narrow}({values[step]});")
                read[step], rounds = f"r{k}", rounds or letter in "eE"
        count, calls_parts = emitter.count, calls_parts or emitter.calls_parts
    return values, lines, numbers, calls_parts, rounds


class Place(NamedTuple):
    """How an array lies."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @classmethod
    def of(cls, a: Any) -> Place:
        """That of an array."""
        return cls(a.shape, a.strides, a.itemsize)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def fits(self, a: Any) -> bool:
        """Whether an array has this shape, and strides of as many elements."""
        if a.shape != self.shape:
            return False
        return all(s * self.itemsize == t * a.itemsize for s, t in zip(a.strides, self.strides, strict=True))


def launch(name: str, steps: Sequence[Step], place: Place, outs: list, arrays: list, numbers: list[float]) -> None:
    """Launch the kernel of steps, over elements that lie as `place` says. Other arguments: as of the kernel."""
    kernel, blocks, sizes = prepared(name, steps, place, outs, arrays)
    kernel((blocks,), (_cuda.THREADS,), (*sizes, *outs, *arrays, *numbers))


def prepared(
    name: str, steps: Sequence[Step], place: Any, outs: Sequence[Any], arrays: Sequence[Any]
) -> tuple[Callable[..., None], int, list[int]]:
    """(the kernel, blocks, its first arguments: the number of elements, sizes, strides) for arrays that lie so."""
    sizes, (_, *strides) = joined(place.shape, [place, *outs, *arrays])
    letters = "".join([LETTERS[a.dtype] for a in arrays])
    count = math.prod(place.shape)
    few = sum(step.formula.operations for step in steps) <= AHEAD_OPERATIONS
    ahead = AHEAD if few and len(sizes) == 1 and count >= LARGE else 1
    text = source(name, steps, letters, len(sizes), _cuda.whole(*outs, *arrays)[0], ahead)
    return (
        _cuda.bare(text, name),
        _cuda.blocks_for(count, _cuda.THREADS * ahead),
        [count, *sizes[1:], *itertools.chain(*strides)],
    )


def joined(shape: tuple[int, ...], arrays: Sequence[Any]) -> tuple[list[int], list[list[int]]]:
    """Sizes of the dimensions, and for each array their strides in elements, joined where memory allows it.

    The dimensions are in the order of the first array's memory, outermost first; one at least.
    """
    steps = [_steps(shape, a) for a in arrays]
    order = sorted((d for d in range(len(shape)) if shape[d] != 1), key=lambda d: -abs(steps[0][d]))
    sizes: list[int] = []
    strides: list[list[int]] = [[] for _ in arrays]
    for d in order:
        if sizes and all(own[-1] == each[d] * shape[d] for own, each in zip(strides, steps, strict=True)):
            sizes[-1] *= shape[d]
            for own, each in zip(strides, steps, strict=True):
                own[-1] = each[d]
        else:
            sizes.append(shape[d])
            for own, each in zip(strides, steps, strict=True):
                own.append(each[d])
    return sizes or [1], [own or [0] for own in strides]


def _steps(shape: tuple[int, ...], a: Any) -> list[int]:
    """The strides of an array in elements, broadcast to `shape`: 0 in dimensions that it lacks."""
    lead = len(shape) - a.ndim
    own = [0 if n == 1 else s // a.itemsize for n, s in zip(a.shape, a.strides, strict=True)]
    return [0] * lead + own


class Waiting:
    """A kernel that waits to be launched.

    Attributes:
        operands: arrays, and other kernels whose result is read.
        out: the array of its result.
        is_new: whether `out` was allocated for it.
    """

    __slots__ = ("formula", "operands", "numbers", "out", "is_new", "span")

    def __init__(self, formula: Formula, operands: list[Any], numbers: list[float], out: Any, is_new: bool):
        self.formula, self.operands, self.numbers, self.out, self.is_new = formula, operands, numbers, out, is_new
        self.span = _backend.byte_bounds(out)

    @property
    def is_used(self) -> bool:
        """Whether anything but the kernel refers to the result, or to its memory."""
        if not self.is_new or getrefcount(self.out) > 2:
            return True
        return getrefcount(self.out.data) > 2 or getrefcount(self.out.data.mem) > 2


class Chain:
    """Kernels that are launched as one.

    Attributes:
        place: how the results lie, but those that are broadcast to it.
        written: by key, the kernel that writes to an array last.
        arrays: by key, those that are read from memory.
    """

    def __init__(self, place: Place):
        self.place = place
        self.kernels: list[Waiting] = []
        self.written: dict[tuple, Waiting] = {}
        self.arrays: dict[tuple, Any] = {}
        self._reads: list[tuple[int, int, tuple]] = []

    def add(self, kernel: Waiting) -> None:
        """Append a kernel."""
        self.kernels.append(kernel)
        self.written[_key(kernel.out)] = kernel
        for a in kernel.operands:
            if not isinstance(a, Waiting) and (key := _key(a)) not in self.arrays:
                self.arrays[key] = a
                self._reads.append((*_backend.byte_bounds(a), key))

    @property
    def operations(self) -> int:
        """Of an element."""
        return sum(kernel.formula.operations for kernel in self.kernels)

    def meets(self, a: Any, writes: bool, as_it_lies: bool = True) -> bool:
        """Whether memory of an array is written to here, or read where the array is to be written to.

        as_it_lies: not by the same element of another array.
        """
        key, (low, high) = _key(a) if as_it_lies else None, _backend.byte_bounds(a)
        spans = [(*kernel.span, own) for own, kernel in self.written.items()]
        spans += self._reads if writes else []
        return any(own != key and first < high and low < last for first, last, own in spans)

    def may_join(self, out: Any) -> bool:
        """Whether the kernels may be computed for each element of a larger result that reads theirs."""
        smaller = math.prod(self.place.shape) < out.size
        return smaller and self.operations <= FEW_OPERATIONS and all(kernel.is_new for kernel in self.kernels)

    def launch(self) -> None:
        """Launch the kernels as one."""
        last = {id(kernel) for kernel in self.written.values()}
        stored = {id(kernel) for kernel in self.kernels if id(kernel) in last and kernel.is_used}
        needed = {*stored}
        for kernel in reversed(self.kernels):
            if id(kernel) in needed:
                needed.update([id(x) for x in kernel.operands if isinstance(x, Waiting)])
        kernels = [kernel for kernel in self.kernels if id(kernel) in needed]
        if not kernels:
            return
        places: dict[tuple, int] = {}
        steps: dict[int, Step] = {}
        for kernel in kernels:
            operands = [
                steps[id(x)] if isinstance(x, Waiting) else places.setdefault(_key(x), len(places))
                for x in kernel.operands
            ]
            is_repeated = kernel.out.shape != self.place.shape
            steps[id(kernel)] = Step(kernel.formula, operands, id(kernel) in stored, is_repeated)
        outs = [kernel.out for kernel in kernels if id(kernel) in stored]
        numbers = [number for kernel in kernels for number in kernel.numbers]
        name = "elementwise_" + (kernels[0].formula.name if len(kernels) == 1 else "chain")
        launch(name, [*steps.values()], self.place, outs, [self.arrays[key] for key in places], numbers)


class Chains:
    """The chains of a capture.

    Args:
        stream: the address of the one that is captured.

    Attributes:
        defers: whether a generated kernel may wait.
    """

    def __init__(self, stream: int):
        self.defers = False
        self._chains: list[Chain] = []
        self._stream = stream
        self._nodes: Any = None

    def take(self, formula: Formula, arrays: list, numbers: list[float], out: Any, is_new: bool) -> bool:
        """Let a kernel wait; False, with nothing done, where it may not."""
        if not self.defers or _backend.gpu().cuda.get_current_stream().ptr != self._stream:
            return False
        for chain in [*self._chains]:
            if any(chain.meets(a, False) for a in arrays) or (
                not is_new and chain.meets(out, True, chain.place.fits(out))
            ):
                self._launch(chain)
        joined = [chain for chain in self._chains if any(_key(a) in chain.written for a in arrays)]
        for chain in joined:
            if not chain.place.fits(out) and not chain.may_join(out):
                self._launch(chain)
        chosen = [chain for chain in self._chains if chain.place.fits(out) or chain in joined]
        if not _have_room(chosen, formula, arrays):
            for chain in chosen:
                self._launch(chain)
            chosen = []
        if not self._chains:
            self._nodes = nodes_of(self._stream)
        written = {key: kernel for chain in chosen for key, kernel in chain.written.items()}
        kernel = Waiting(formula, [written.get(_key(a), a) for a in arrays], numbers, out, is_new)
        whole = Chain(Place.of(out))
        for each in (*(kernel for chain in chosen for kernel in chain.kernels), kernel):
            whole.add(each)
        self._chains = [*(chain for chain in self._chains if chain not in chosen), whole]
        return True

    def launch(self) -> None:
        """Launch all that waits."""
        for chain in [*self._chains]:
            self._launch(chain)

    def _launch(self, chain: Chain) -> None:
        if self._nodes != nodes_of(self._stream):
            raise UnknownWorkError("work was captured while elementwise kernels waited")
        self._chains.remove(chain)
        chain.launch()
        self._nodes = nodes_of(self._stream)


def _have_room(chains: Sequence[Chain], formula: Formula, arrays: list) -> bool:
    """Whether one launch may compute all chains, and a formula of arrays."""
    if sum(len(chain.kernels) for chain in chains) >= MOST_STEPS:
        return False
    if sum(len(chain.arrays) + len(chain.kernels) for chain in chains) + len(arrays) >= MOST_ARRAYS:
        return False
    return sum(chain.operations for chain in chains) + formula.operations <= MOST_OPERATIONS


def _key(a: Any) -> tuple:
    """What two arrays have in common that are the same elements."""
    return a.data.ptr, a.shape, a.strides, a.dtype


@functools.cache
def _capture_info() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuStreamGetCaptureInfo_v2
    except (OSError, AttributeError):
        return None


def may_wait() -> bool:
    """Whether kernels may wait: a driver must say which nodes a graph has, else work that it did not see would go unnoticed."""
    return _capture_info() is not None or not _has_driver()


@functools.cache
def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def nodes_of(stream: int) -> tuple:
    """The nodes on which the next work of a stream depends that is captured; empty where the driver does not say."""
    info = _capture_info()
    if info is None:
        return ()
    status, number, graph = ctypes.c_int(), ctypes.c_ulonglong(), ctypes.c_void_p()
    nodes, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
    info(ctypes.c_void_p(stream), *map(ctypes.byref, (status, number, graph, nodes, count)))
    return tuple([nodes[k] for k in range(count.value)])
