"""Elementwise functions of CuPy's arrays, generated from formulas: one launch, whatever the operands' strides."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.waiting import CURRENT, launch_waiting
from tdt._kernels import _cuda
from tdt._kernels._cuda import LETTERS, STORED
from tdt._kernels.chains_gpu import Formula, Step, prepared
from tdt._kernels.expression import Expression, as_expression
from tdt._kernels.programs_gpu import MEMORY

NUMBER, ABSENT, OTHER = "n", "-", "x"
KINDS = {float: NUMBER, int: NUMBER, type(None): ABSENT}
NUMBERS = frozenset((float, int))
REALS = frozenset("fdeE")
DTYPES = {letter: dtype for dtype, letter in LETTERS.items()}
MOST_PLACES = 2000  # ways to go over operands that a function keeps


class Elementwise:
    """A function of CuPy's floating-point arrays, computed as `formula(xp, *expressions, **attributes)` says of each element.

    It takes the operands that `generated.Elementwise` takes of NumPy.

    Args:
        constants: numbers that are part of the formula, as it depends on them: `x ** 2` is a product.
    """

    def __init__(self, name: str, formula: Callable[..., Any], constants: Container[float] = ()):
        self.name, self.formula, self.constants = re.sub(r"\W", "_", name), formula, constants
        self.functions: dict[tuple, Callable[..., Any] | None] = {}

    def __call__(self, arrays: Sequence[Any], attributes: dict[str, Any], out: Any = None) -> Any:
        """The result for operands that broadcast, in `out` if given; None for operands without a function."""
        key: list[Any] = []
        tensors: list[Any] = []
        numbers: list[float] = []
        for a in arrays:
            kind = a.__class__
            if kind in NUMBERS and a not in self.constants:
                key.append(kind)
                numbers.append(a)
            elif kind in NUMBERS or not hasattr(a, "dtype"):
                key.append((kind, repr(a)))
            else:
                key.append(a.dtype)
                tensors.append(a)
        if attributes:
            for value in attributes.values():
                if value.__class__ in NUMBERS and value not in self.constants:
                    key.append(NUMBERS)
                    numbers.append(value)
                else:
                    key.append(repr(value))
        if out is not None:
            key.append((out.dtype,))
        types = tuple(key)
        function = self.functions.get(types, self)
        if function is self:
            function = self.functions[types] = self._function(arrays, attributes, out)
        return None if function is None else function(tensors, [*map(float, numbers)] if numbers else numbers, out)

    def _function(self, operands: Sequence[Any], attributes: dict[str, Any], out: Any) -> Callable[..., Any] | None:
        """The function for such operands; None if there is none."""
        from tdt._kernels import functions
        from tdt._kernels._double import Double

        letters = [LETTERS.get(a.dtype, OTHER) if _backend.is_array(a) and a.__class__ is not np.ndarray
                   else KINDS.get(a.__class__, OTHER) for a in operands]  # fmt: skip
        stored = REALS.intersection(letters)
        if OTHER in letters or len(stored) != 1:
            return None
        (result,) = stored
        expressions: list[Any] = [*operands]
        places = [k for k, letter in enumerate(letters) if letter in STORED]
        numbers = [k for k, letter in enumerate(letters) if letter == NUMBER and operands[k] not in self.constants]
        for k, place in enumerate(places + numbers):
            expressions[place] = Expression("input", k, logical=letters[place] == "?")
        values, count = dict(attributes), len(places) + len(numbers)
        for name, value in attributes.items():
            if value.__class__ in NUMBERS and value not in self.constants:
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
        if self.constants and output.op == "input" and out is None:
            return lambda arrays, numbers, out: arrays[output.args[0]]
        types = "".join([letters[place] for place in places]) + target
        return _Function(Formula(self.name, output, types, count - len(places)))


class _Function:
    """A generated kernel: for each number of dimensions that cannot be joined in memory, one of CUDA C."""

    def __init__(self, formula: Formula):
        self.formula = formula
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
        kernel, blocks, sizes, new, shape = found
        is_new = out is None
        if is_new:
            out = new(arrays[0], shape)
        if not sizes[0]:
            return out
        capture = CURRENT.capture
        if (
            capture is None
            or capture.chains is None
            or not capture.chains.take(self.formula, arrays, numbers, out, is_new)
        ):
            arguments = (*sizes, out, *arrays, *numbers)
            kernel((blocks,), (_cuda.THREADS,), arguments)
            if CURRENT.notes is not None:
                CURRENT.notes.launch(kernel, (blocks,), (_cuda.THREADS,), arguments)
        return out

    def _place(self, arrays: list, out: Any) -> tuple:
        """(kernel, blocks, its first arguments, what makes the result, its shape) for arrays that lie so."""
        shape = np.broadcast_shapes(*[a.shape for a in arrays])
        xp, dtype = _backend.gpu(), DTYPES[self.formula.types[-1]]
        if out is not None:
            if out.shape != shape:
                raise ValueError(f"the result has shape {shape}, and out {out.shape}")
            new, like = None, out
        elif arrays[0].shape == shape and not arrays[0].flags.c_contiguous and 0 not in arrays[0].strides:
            new, like = (lambda first, shape: MEMORY.empty_like(first, dtype)), xp.empty_like(arrays[0], dtype)
        else:
            new, like = (lambda first, shape: MEMORY.empty(shape, dtype)), xp.empty(shape, dtype)
        operands = range(len(arrays))
        name = "elementwise_" + self.formula.name
        return *prepared(name, [Step(self.formula, operands)], like, [like], arrays), new, shape


_COPY = Elementwise("copy", lambda xp, x: x)
CONVERTED = frozenset(
    [(a, b) for a in "fdeE" for b in "fdeE" if a != b and "f" in (a, b)]
)  # letters; others are rounded twice


def copied(x: Any, out: Any) -> Any:
    """`out`, to which the elements of an array are written, in its dtype."""
    launch_waiting()
    _COPY([x], {}, out)
    return out


def converted(x: Any, dtype: Any) -> Any:
    """An array in another dtype, in the order of its dimensions in memory; None for dtypes without a kernel."""
    if (LETTERS.get(x.dtype), LETTERS.get(dtype)) not in CONVERTED or 0 in x.strides:
        return None
    return copied(x, MEMORY.empty_like(x, dtype))


def contiguous(x: Any) -> Any:
    """A contiguous copy of an array; None for dtypes without a kernel."""
    return copied(x, MEMORY.empty(x.shape, x.dtype)) if LETTERS.get(x.dtype) in ("f", "d") else None
