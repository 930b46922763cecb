"""What functions of CuPy's arrays launch, noted once and repeated for other arrays that lie alike.

To decide on a launch takes Python many times as long as the launch: which kernel, how many blocks, how the result lies. All of it
follows from shapes, strides, types and attributes. So the second call with these is noted: the memory that it takes, and its
launches with their arguments. Its program takes such memory and repeats the launches, with the arrays of another call.

Noted are launches of tdt's own kernels (`_cuda`), products (`_cublas_lt`) and convolutions (`_cudnn`), in `MEMORY`. There is no
program where a result was made otherwise, or where a forward or rule that is not generated from a formula is not marked as
`repeatable`: what CuPy itself writes is not seen. Nothing is noted or repeated while a CUDA graph is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tdt import _backend
from tdt._backend.layout import empty_in_order
from tdt._backend.waiting import CURRENT
from tdt._kernels import _cuda
from tdt._kernels._registry import SWITCHES

MOST = 2000  # calls of a function that are remembered
ALIGNED = 255  # the bits of an address that plans of libraries depend on
FIRST, LAST = 2, 4  # the calls that are noted, until one has a program: the first one plans and compiles


class OutdatedProgramError(Exception):
    """A launch of a program cannot be repeated now, though nothing is wrong: the call must be decided on anew."""


class Repeated:
    """A function of arrays that lie alike in all calls.

    Attributes:
        program: a function of the nested arrays that computes what the function does; None without one.
    """

    __slots__ = ("program", "_calls")

    def __init__(self) -> None:
        self.program: Callable[[Any], Any] | None = None
        self._calls = 0

    def __call__(self, function: Callable[[], Any], inputs: Any) -> Any:
        """function(), or what its program computes. inputs: the nested arrays that it computes with."""
        if self.program is not None:
            try:
                return self.program(inputs)
            except OutdatedProgramError:
                self.program = None
        return self.noted(function, inputs) if self.takes_notes() else function()

    def takes_notes(self) -> bool:
        """Whether the coming call is to be noted."""
        self._calls += 1
        return FIRST <= self._calls <= LAST

    def noted(self, function: Callable[[], Any], inputs: Any, twice: bool = False) -> Any:
        """function(), whose launches become the program. Other arguments: as of `Notes`."""
        notes = CURRENT.notes = Notes(inputs, twice)
        try:
            result = function()
        finally:
            CURRENT.notes = None
        self.program = notes.program(result)
        return result


class Programs(dict[tuple, Repeated]):
    """Functions of arrays and constants, by these and by how the arrays lie on the only GPU."""

    def of(self, constants: Sequence[Any], arrays: Sequence[Any]) -> Repeated | None:
        """What repeats a function of such constants and arrays, or None; None where it may not be repeated."""
        if CURRENT.capture is not None or CURRENT.notes is not None:
            return None
        key: list[Any] = [*constants, SWITCHES.changes]  # nodes keep calls that ops have forgotten
        gpu: Any = _backend.GpuArray
        for a in arrays:
            if a.__class__ is gpu:
                key += a.dtype, a.shape, a.strides, a.data.ptr & ALIGNED
            elif a is None:
                key.append(None)
            else:
                return None
        found = self.get(layout := tuple(key))
        if found is None:
            if len(self) >= MOST:
                self.clear()
            found = self[layout] = Repeated()
        return found


class Notes:
    """The launches of one call, as lines of a program.

    Args:
        inputs: the nested arrays that it computes with.
        twice: whether all calls get one array twice in a list, where this one does.
    """

    def __init__(self, inputs: Any, twice: bool = False):
        self._twice = twice
        self._lines: list[str] = []
        self._values: dict[str, Any] = {}  # what the lines refer to
        self._known: list[tuple[str, Any]] = []  # arrays, by what they are called
        self._new: dict[str, Any] = {}  # those of them that were allocated
        self._alive: list[Any] = []  # as long as it is noted, no memory is used twice
        self._returns: dict[str, Any] = {}  # the results that are new memory
        self._failed = False
        self._add_inputs("a", inputs)

    def refuse(self) -> None:
        """Make no program: the call did what a program cannot repeat."""
        self._failed = True

    def allocated(self, array: Any) -> None:
        """Note memory that launches write to."""
        name = f"o{len(self._new)}"
        self._new[name] = array
        self._known.append((name, array))

    def depends(self, array: Any, function: Callable[..., Any], *args: Any) -> None:
        """Note an array that function(*args) gives in each call. args: arrays that are known, and constants."""
        name = self._value(array)
        values = [self._known_array(x) if x.__class__ is _backend.GpuArray else self._value(x) for x in args]
        self._lines.append(f"{name} = {self._value(function)}({', '.join(values)})")
        self._known.append((name, array))
        del self._values[name]

    def launch(
        self, kernel: Any, blocks: tuple, threads: tuple, arguments: Iterable[Any], further: Callable | None = None
    ) -> None:
        """Note the launch of a kernel. further: gives the last arguments in each call."""
        values = "".join([f"{self._argument(_cuda.as_constant(x))}, " for x in arguments])
        if further is not None:
            values += f"*{self._value(further)}()"
        self._lines.append(f"{self._value(kernel.kernel)}({blocks!r}, {threads!r}, ({values}))")

    def call(self, function: Callable[..., None], arguments: Iterable[Any]) -> None:
        """Note the call of a function of the addresses of arrays, or None."""
        values = ["None" if x is None else f"({self._memory(x)}).ptr" for x in arguments]
        self._lines.append(f"{self._value(function)}({', '.join(values)})")

    def program(self, result: Any) -> Callable[[Any], Any] | None:
        """A function of inputs that lie as those of the call, which gives what it gave; None where there is none."""
        returned = self._returned(result)
        if self._failed:
            return None
        memory: list[str] = []
        for name, array in self._new.items():
            shape, dtype, strides = map(self._value, (array.shape, array.dtype, array.strides))
            lies = "" if array.flags.c_contiguous else f", {strides}"
            # What array(shape, dtype) does, in two thirds of the time.
            memory += f"{name} = new(array)", f"{name}._init({shape}, {dtype}, alloc({array.nbytes}){lies})"
        lines = [*memory, *self._lines, f"return {returned}"]
        kind: Any = _backend.GpuArray
        self._values |= {"array": kind, "new": super(kind, kind).__new__, "alloc": _backend.gpu().cuda.alloc}
        exec("def program(a):\n    " + "\n    ".join(lines), self._values)
        found: Callable[[Any], Any] = self._values.pop("program")
        return found

    def _add_inputs(self, name: str, value: Any) -> None:
        if value.__class__ is _backend.GpuArray:
            for other, known in self._known:
                if value is known:
                    if not self._twice or other.rpartition("[")[0] != name.rpartition("[")[0]:
                        self.refuse()  # which of the two is meant later?
                    return
            self._known.append((name, value))
        elif isinstance(value, (tuple, list)):
            for k, each in enumerate(value):
                self._add_inputs(f"{name}[{k}]", each)

    def _value(self, value: Any) -> str:
        """The name of a value that is the same in each call."""
        if value.__class__ in (int, bool, type(None)):
            return repr(value)
        name = f"v{len(self._alive)}"
        self._values[name] = value
        self._alive.append(value)
        return name

    def _known_array(self, value: Any) -> str:
        for name, array in self._known:
            if array is value:
                return name
        self.refuse()
        return "None"

    def _argument(self, value: Any) -> str:
        """What an argument of a launch is called; of an array that is not known, its memory: a kernel takes the address alone."""
        if not hasattr(value, "__cuda_array_interface__"):
            return self._value(value)
        same = [name for name, array in self._known if array is value]
        return same[0] if same else self._memory(value)

    def _memory(self, value: Any) -> str:
        """Where an array lies, which is known or a part of one."""
        same = [name for name, array in self._known if array is value]
        if same:
            return f"{same[0]}.data"
        self._alive.append(value)
        low, high = _backend.byte_bounds(value)
        for name, array in self._known:
            first, end = _backend.byte_bounds(array)
            if first <= low and high <= end:
                same.append(name)
                offset = low - first
        if len(same) != 1 or low != value.data.ptr:
            self.refuse()
            return "None"
        return f"{same[0]}.data + {offset}" if offset else f"{same[0]}.data"

    def _returned(self, value: Any) -> str:
        """A result, or several; new memory lies as the result does that has all of it."""
        if isinstance(value, (tuple, list)):
            parts = "".join([f"{self._returned(each)}, " for each in value])
            return f"[{parts}]" if isinstance(value, list) else f"({parts})"
        if value is None:
            return "None"
        for name, array in self._known:
            if name not in self._new:
                if array is value:
                    return name
                if _is_all_of(value, array) and value.flags.c_contiguous and array.flags.c_contiguous:
                    return f"{name}.reshape({self._value(value.shape)})"
            elif _is_all_of(value, array) and self._returns.setdefault(name, value) is value:
                self._new[name] = value
                return name
        self.refuse()  # another array, or a number, which may depend on elements
        return "None"


def _is_all_of(value: Any, array: Any) -> bool:
    """Whether an array has the memory of another one, and all of it."""
    if value is array:
        return True
    return (
        value.__class__ is array.__class__
        and value.dtype == array.dtype
        and value.nbytes == array.nbytes > 0
        and _backend.byte_bounds(value) == _backend.byte_bounds(array)
    )


def depending(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args), an array that a program asks for anew."""
    array = function(*args)
    if CURRENT.notes is not None:
        CURRENT.notes.depends(array, function, *args)
    return array


def launched(plan: Callable[..., None], *arrays: Any) -> None:
    """Call a plan of a library with the addresses of arrays, or None."""
    plan(*[None if x is None else x.data.ptr for x in arrays])
    if CURRENT.notes is not None:
        CURRENT.notes.call(plan, arrays)


class _Memory:
    """Arrays of CuPy's for results of tdt's own launches: nothing else writes to them before they are returned."""

    def empty(self, shape: Any, dtype: Any) -> Any:
        """An array in the order of its dimensions."""
        array = _backend.gpu().ndarray(shape, dtype)
        if CURRENT.notes is not None:
            CURRENT.notes.allocated(array)
        return array

    def empty_like(self, like: Any, dtype: Any = None) -> Any:
        """An array that lies as another one, without its gaps, as PyTorch's `empty_like` does."""
        if like.flags.c_contiguous:
            return self.empty(like.shape, like.dtype if dtype is None else dtype)
        array = empty_in_order(_backend.gpu(), like, dtype)
        if CURRENT.notes is not None:
            CURRENT.notes.allocated(array)
        return array


MEMORY = _Memory()
