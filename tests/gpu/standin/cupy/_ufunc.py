"""The stand-in's ufuncs: NumPy's values in the dtypes that CuPy's loops give."""

from __future__ import annotations

import numpy as np

from cupy import _wheel
from cupy._array import SCALARS, host, launch, ndarray, wrapped

_WEAK = {bool: "?", int: "iu", float: "fc", complex: "c"}
_AT = {"add": "iIlLqQefd", "subtract": "iI", "maximum": "iIlLqQfd", "minimum": "iIlLqQfd",
       "bitwise_and": "iIlLqQ", "bitwise_or": "iIlLqQ", "bitwise_xor": "iIlLqQ"}  # fmt: skip
_REDUCES = {"add": ("sum", "cumsum"), "multiply": ("prod", "cumprod")}


class ufunc:
    """A function of arrays, element by element."""

    def __init__(self, name, function):
        self._function, self._loops = function, _wheel.LOOPS[name]
        self.__name__ = self.name = name.rpartition(".")[2]
        self.nin, self.nout = map(len, self._loops[0])

    def __call__(self, *args, out=None, dtype=None, casting="same_kind", **other):
        if other:
            raise TypeError(f"Wrong arguments {other}")
        if len(args) > self.nin:
            args, out = args[: self.nin], args[self.nin]
        if len(args) < self.nin:
            raise TypeError(f"Wrong number of arguments for {self.name!r}")
        for value in args:
            if not isinstance(value, (ndarray, np.ndarray, *SCALARS)):
                raise TypeError(f"Unsupported type {type(value)}")
        if out is not None:
            return self._into(args, out[0] if isinstance(out, tuple) else out, dtype, casting)
        kinds = self._results(host(args)) if dtype is None else None
        return launch(lambda *values: self._compute(values, kinds, dtype), *args, name=self.name)

    def _into(self, args, out, dtype, casting):
        if not isinstance(out, ndarray):
            raise TypeError("Output arguments type must be cupy.ndarray")
        if out.shape != np.broadcast_shapes(*map(np.shape, host(args)), out.shape):
            raise ValueError("Out shape is mismatched")
        kinds = self._results(host(args)) if dtype is None else [np.dtype(dtype)]
        if not np.can_cast(kinds[0], out.dtype, casting):
            raise TypeError(f"output (typecode {kinds[0]}) could not be coerced to {out.dtype} by {casting!r}")

        def write(target, *values):
            np.copyto(target, self._compute(values, kinds if dtype is None else None, dtype), casting=casting)

        return launch(write, out, *args, writes=out, name=self.name)

    def _compute(self, values, kinds, dtype):
        if dtype is not None:
            return self._function(*values, dtype=dtype)
        results = self._function(*values)
        if self.nout == 1:
            return np.asarray(results).astype(kinds[0], copy=False)
        return tuple(np.asarray(r).astype(kind, copy=False) for r, kind in zip(results, kinds, strict=True))

    def _results(self, values):
        """The dtypes of the results: those of the first loop that takes the operands, Python's numbers in any width."""
        kinds = [type(v) if type(v) in _WEAK else np.asarray(v).dtype for v in values]
        brief = [kind for kind in kinds if isinstance(kind, np.dtype) and kind.kind == "V"]
        if (
            brief
            and all(kind in (brief[0], bool, int) for kind in kinds)
            and any(ins[0] == "e" for ins, _ in self._loops)
        ):
            return [brief[0] if out.kind in "fc" else out for out in self._loops[-1][1]]
        if brief:
            kinds = [np.dtype("f") if kind is brief[0] else kind for kind in kinds]
        if not any(isinstance(kind, np.dtype) for kind in kinds):
            kinds = [np.asarray(v).dtype for v in values]
        strong = np.result_type(*(kind for kind in kinds if isinstance(kind, np.dtype)))
        for ins, outs in self._loops:
            if all(_takes(loop, kind, strong) for loop, kind in zip(ins, kinds, strict=True)):
                return outs
        raise TypeError(f"Wrong type ({kinds}) of arguments for cupy_{self.name}")

    def at(self, array, indices, values=None):
        if self.name not in _AT:
            raise NotImplementedError(f"`cupy_{self.name}.at` is not supported yet")
        if array.dtype.char not in _AT[self.name]:
            raise TypeError(f"cupy.{self.name}.at only supports {_AT[self.name]}, not {array.dtype}")
        index, _, _ = array._index(indices)
        launch(
            lambda x, v: self._function.at(x, wrapped(x, index), v), array, values, writes=array, name=f"{self.name}.at"
        )

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        return self._of(0, "reduce")(array, axis=axis, dtype=dtype, out=out, keepdims=keepdims)

    def accumulate(self, array, axis=0, dtype=None, out=None):
        return self._of(1, "accumulate")(array, axis=axis, dtype=dtype, out=out)

    def _of(self, which, method):
        if self.name not in _REDUCES:
            raise NotImplementedError(f"`cupy_{self.name}.{method}` is not supported yet")
        import cupy

        return getattr(cupy, _REDUCES[self.name][which])

    def outer(self, a, b, **options):
        return self(a.reshape(a.shape + (1,) * b.ndim), b.reshape((1,) * a.ndim + b.shape), **options)

    def __repr__(self):
        return f"<ufunc 'cupy_{self.name}'>"


def _takes(loop, kind, strong):
    if isinstance(kind, np.dtype):
        return np.can_cast(kind, loop)
    return np.can_cast(np.result_type(strong, kind(0)), loop)
