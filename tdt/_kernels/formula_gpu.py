"""Elementwise functions of CuPy's arrays, generated from formulas: one launch, whatever the operands' strides."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._kernels import _cuda
from tdt._kernels._cuda import LETTERS, STORED
from tdt._kernels._cuda_formula import FUNCTIONS, Emitter
from tdt._kernels.expression import Expression, as_expression

NUMBER, ABSENT, OTHER = "n", "-", "x"
KINDS = {float: NUMBER, int: NUMBER, type(None): ABSENT}
NUMBERS = frozenset((float, int))
REALS = frozenset("fdeE")
DTYPES = {letter: dtype for dtype, letter in LETTERS.items()}
MOST_PLACES = 2000  # ways to go over operands that a function keeps


class Elementwise:
    """A function of CuPy's floating-point arrays, computed as `formula(xp, *expressions, **attributes)` says of each element.

    It takes the operands that `generated.Elementwise` takes of NumPy.
    """

    def __init__(self, name: str, formula: Callable[..., Any]):
        self.name, self.formula = re.sub(r"\W", "_", name), formula
        self.functions: dict[tuple, _Function | None] = {}

    def __call__(self, arrays: tuple, attributes: dict[str, Any], out: Any = None) -> Any:
        """The result for operands that broadcast, in `out` if given; None for operands without a function."""
        key: Any = tuple([a.dtype if hasattr(a, "dtype") else a.__class__ for a in arrays])
        if out is not None:
            key += (out.dtype,)
        if attributes:
            key += tuple([NUMBERS if v.__class__ in NUMBERS else repr(v) for v in attributes.values()])
        if key not in self.functions:
            self.functions[key] = self._function(arrays, attributes, out)
        function = self.functions[key]
        if function is None:
            return None
        numbers = [float(a) for a in arrays if a.__class__ in NUMBERS]
        numbers += [float(v) for v in attributes.values() if v.__class__ in NUMBERS]
        return function([a for a in arrays if hasattr(a, "dtype")], numbers, out)

    def _function(self, operands: tuple, attributes: dict[str, Any], out: Any) -> _Function | None:
        """The function for such operands; None if there is none."""
        from tdt._kernels import functions
        from tdt._kernels._double import Double

        letters = [LETTERS.get(a.dtype, OTHER) if _backend.is_array(a) and a.__class__ is not np.ndarray
                   else KINDS.get(a.__class__, OTHER) for a in operands]  # fmt: skip
        stored = REALS.intersection(letters)
        if OTHER in letters or len(stored) != 1:
            return None
        (result,) = stored
        expressions: list[Any] = [None] * len(operands)
        places = [k for k, letter in enumerate(letters) if letter in STORED]
        numbers = [k for k, letter in enumerate(letters) if letter == NUMBER]
        for k, place in enumerate(places + numbers):
            expressions[place] = Expression("input", k, logical=letters[place] == "?")
        values, count = dict(attributes), len(places) + len(numbers)
        for name, value in attributes.items():
            if value.__class__ in NUMBERS:
                values[name] = Expression("input", count)
                count += 1
        try:
            output = as_expression(self.formula(functions if result != "d" else Double, *expressions, **values))
        except AttributeError:  # of a function that Double lacks
            if result != "d":
                raise
            return None
        target = ("?" if output.logical else result) if out is None else LETTERS.get(out.dtype)
        if target is None or (output.logical and target != "?"):
            return None
        return _Function(self.name, output, "".join([letters[place] for place in places]) + target, count - len(places))


class _Function:
    """A generated kernel: for each number of dimensions that cannot be joined in memory, one of CUDA C.

    Args:
        types: the letters of the arrays, and that of the result.
        numbers: how many numbers follow the arrays.
    """

    def __init__(self, name: str, output: Expression, types: str, numbers: int):
        self.name, self.output, self.types, self.numbers = name, output, types, numbers
        self.places: dict[tuple, tuple] = {}

    def __call__(self, arrays: list, numbers: list[float], out: Any) -> Any:
        key = tuple([(a.shape, a.strides) for a in arrays])
        if out is not None:
            key += (out.shape, out.strides)
        found = self.places.get(key)
        if found is None:
            if len(self.places) >= MOST_PLACES:
                self.places.clear()
            found = self.places[key] = self._place(arrays, out)
        kernel, blocks, count, steps, new, shape = found
        if out is None:
            out = new(arrays[0], shape)
        if count:
            kernel((blocks,), (_cuda.THREADS,), (count, *steps, out, *arrays, *numbers))
        return out

    def _place(self, arrays: list, out: Any) -> tuple:
        """(kernel, blocks, elements, sizes and strides, what makes the result, its shape) for arrays that lie so."""
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        xp, dtype = _backend.gpu(), DTYPES[self.types[-1]]
        if out is not None:
            if out.shape != shape:
                raise ValueError(f"the result has shape {shape}, and out {out.shape}")
            new, like = None, out
        elif arrays[0].shape == shape and not arrays[0].flags.c_contiguous and 0 not in arrays[0].strides:
            new, like = (lambda first, shape: xp.empty_like(first, dtype)), xp.empty_like(arrays[0], dtype)
        else:
            new, like = (lambda first, shape: xp.empty(shape, dtype)), xp.empty(shape, dtype)
        sizes, strides = joined(shape, [like, *arrays])
        count = int(np.prod(shape, dtype=np.int64))
        steps = [*sizes[1:], *(step for each in strides for step in each)]
        kernel = _cuda.compiled(self._source(len(sizes), _cuda.whole(like, *arrays)[0]), "elementwise_" + self.name)
        return kernel, _cuda.blocks_for(count), count, steps, new, shape

    def _source(self, rank: int, whole: str) -> str:
        """The kernel for arrays with so many dimensions, whose elements are counted in the type `whole`."""
        count = len(self.types) - 1
        emitter = Emitter("d" in self.types)
        loads = [f"x{k}" for k in range(count)] + [f"n{k}" for k in range(self.numbers)]
        value = emitter.value(self.output, loads, {})
        names = [*(f"a{k}" for k in range(count))]
        sizes = [f"long long size{d}" for d in range(1, rank)]
        steps = [f"long long {name}_{d}" for name in ("out", *names) for d in range(rank)]
        pointers = [f"{STORED[self.types[-1]]}* out"]
        pointers += [f"const {STORED[letter]}* {name}" for letter, name in zip(self.types, names, strict=False)]
        numbers = [f"double number{k}" for k in range(self.numbers)]
        lines = ["whole rest = (whole)i;"] if rank > 1 else ["const long long rest = i;"]
        for d in reversed(range(1, rank)):
            lines += [f"const whole i{d} = rest % (whole)size{d};", f"rest /= (whole)size{d};"]
        at = {name: " + ".join([f"{'rest' if d == 0 else f'i{d}'} * {name}_{d}" for d in range(rank)])
              for name in ("out", *names)}  # fmt: skip
        lines += [f"const auto x{k} = load(a{k}[{at[name]}]);" for k, name in enumerate(names)]
        lines += [*emitter.lines, f"store(out + ({at['out']}), {value});"]
        body = "\n        ".join(lines)
        rounded = "".join(
            [f"    const {emitter.real} n{k} = ({emitter.real})number{k};\n" for k in range(self.numbers)]
        )
        return (
            f"{FUNCTIONS if emitter.calls_parts else ''}\n{whole if rank > 1 else ''}"
            f'extern "C" __global__ void elementwise_{self.name}('
            f"{', '.join(['long long count', *sizes, *steps, *pointers, *numbers])}) {{\n{rounded}"
            "    const long long step = (long long)gridDim.x * blockDim.x;\n"
            "    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {\n"
            f"        {body}\n    }}\n}}\n"
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
