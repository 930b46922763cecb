"""A stand-in for CuPy on machines without a GPU: own arrays over NumPy's memory, late streams, several GPUs, NCCL over MPI.

It has what the real wheel has (`wheel.txt`: names, parameters, loops of ufuncs) and refuses what that refuses: NumPy arrays
as operands, conversion to them but by `get`, operands of another GPU than the current one. It counts launches, uploads and
waits of the host (`counts`). Work in a stream other than the default one is done when something waits for it, and not
before; until then results hold garbage, so that whoever does not wait reads it. How many GPUs there are, which is which and
how much memory they have: CUPY_STANDIN_GPUS (default: 1), CUPY_STANDIN_BUS, CUPY_STANDIN_MEMORY (bytes).

It computes with NumPy on the host: values, dtypes, layouts and where arrays lie are shown, not CUDA's arithmetic, speed, races.
"""

from __future__ import annotations

import sys
import types

import numpy as np

from cupy import _array, _wheel, cuda
from cupy._array import SCALARS, host, launch, ndarray, note, on_gpu
from cupy._raw import RawKernel as RawKernel
from cupy._ufunc import ufunc

from cupy import _cublas_lt as _cublas_lt  # isort: skip

__version__ = _wheel.VERSION
newaxis, inf, nan, pi, e = None, np.inf, np.nan, np.pi, np.e
counts = _array.counts

_VIEWS = {"moveaxis", "flip", "expand_dims", "swapaxes", "transpose", "squeeze", "diagonal", "broadcast_arrays",
          "rollaxis", "reshape", "ravel", "atleast_1d", "atleast_2d", "atleast_3d", "fliplr", "flipud", "rot90", "split",
          "array_split", "as_strided", "sliding_window_view", "broadcast_to"}  # fmt: skip
_READS = {"unique", "nonzero", "flatnonzero", "argwhere", "intersect1d", "extract", "bincount", "histogram", "isin"}
_HOST_TAKEN = {"tril_indices", "triu_indices", "linspace", "logspace", "eye", "identity", "tri", "indices", "dtype"}


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    if isinstance(obj, ndarray):
        fits = dtype is None or np.dtype(dtype) == obj.dtype
        if not copy and fits and obj.ndim >= ndmin and (order in ("K", None) or obj.flags.c_contiguous):
            return obj
        return obj.astype(obj.dtype if dtype is None else dtype, order=order or "K")
    if isinstance(obj, (list, tuple)) and any(isinstance(value, ndarray) for value in obj):
        return stack([asarray(value, dtype) for value in obj])
    values = np.array(obj, dtype, ndmin=ndmin)
    fortran = order == "F" or (order in ("K", "A") and values.flags.f_contiguous and not values.flags.c_contiguous)
    pinned = cuda.memory.is_pinned(obj) and not blocking
    note("pinned uploads" if pinned else "uploads", "array")
    out = ndarray(values.shape, values.dtype, order="F" if fortran else "C")
    source = obj if pinned and obj.dtype == out.dtype and obj.ndim == out.ndim else values
    into = out._h
    cuda.get_current_stream().put(lambda: np.copyto(into, source))
    return out


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return array(a, dtype, copy=bool(copy), order=order or "K", blocking=blocking)


asanyarray = asarray


def ascontiguousarray(a, dtype=None):
    if isinstance(a, ndarray) and a.flags.c_contiguous and dtype in (None, a.dtype):
        return a if a.ndim else a.reshape(1)
    return array(a, dtype, order="C", ndmin=1)


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a, order=order)


def empty(shape, dtype=float, order="C"):
    return ndarray(shape, dtype, order=order)


def _filled(value):
    def make(shape, dtype=float, order="C"):
        out = ndarray(shape, dtype, order=order)
        out.fill(value)
        return out

    return make


zeros, ones = _filled(0), _filled(1)


def full(shape, fill_value, dtype=None, order="C"):
    if dtype is None:
        dtype = fill_value.dtype if isinstance(fill_value, ndarray) else np.asarray(fill_value).dtype
    out = ndarray(shape, dtype, order=order)
    out[...] = fill_value
    return out


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None):
    return _like(prototype, dtype, order, subok, shape)


def _like(prototype, dtype, order, subok, shape):
    if subok is not None:
        raise TypeError("subok is not supported yet")
    if not isinstance(prototype, ndarray):
        raise TypeError(f"Unsupported type {type(prototype)}")
    layout = np.empty_like(prototype._h, dtype, order or "K", shape=shape)
    if layout.dtype.kind in "fc":
        layout.fill(np.nan)
    return on_gpu(layout)


def full_like(a, fill_value, dtype=None, order="K", subok=None, shape=None):
    out = _like(a, dtype, order, subok, shape)
    out[...] = fill_value
    return out


def zeros_like(a, dtype=None, order="K", subok=None, shape=None):
    return full_like(a, 0, dtype, order, subok, shape)


def ones_like(a, dtype=None, order="K", subok=None, shape=None):
    return full_like(a, 1, dtype, order, subok, shape)


def arange(start, stop=None, step=1, dtype=None):
    if any(isinstance(value, ndarray) for value in (start, stop, step)):
        raise TypeError("arange takes numbers of the host")
    start, stop = (0, start) if stop is None else (start, stop)
    return launch(np.arange, start, stop, 1 if step is None else step, dtype, name="arange")


def where(condition, x=None, y=None):
    if x is None and y is None:
        return _self.nonzero(condition)
    if not isinstance(condition, (ndarray, np.generic)):
        raise TypeError(f"Unsupported type {type(condition)}")
    for value in (x, y):
        if not isinstance(value, (ndarray, np.ndarray, *SCALARS)):
            raise TypeError(f"Unsupported type {type(value)}")
    brief = any(getattr(value, "dtype", None) is not None and value.dtype.kind == "V" for value in (x, y))
    return launch(lambda *v: np.where(*v).astype("f") if brief else np.where(*v), condition, x, y, name="where")


def clip(a, a_min=None, a_max=None, out=None):
    if a_min is None and a_max is None:
        raise ValueError("array_clip: must set either max or min")
    return launch(np.clip, a, a_min, a_max, **({} if out is None else {"out": out}))


def concatenate(tup, axis=0, out=None, *, dtype=None, casting="same_kind"):
    tup = list(tup)
    if not all(isinstance(a, ndarray) for a in tup):
        raise TypeError("Only cupy arrays can be concatenated")
    options = {"dtype": dtype} if dtype is not None else {}
    if len(tup) <= 8 or len({a.dtype for a in tup}) > 1:  # copied one by one
        for _ in tup[1:]:
            note("launches", "concatenate")
    return launch(np.concatenate, tup, axis, casting=casting, **options, **({} if out is None else {"out": out}))


def stack(tup, axis=0, out=None, *, dtype=None, casting="same_kind"):
    tup = [_self.expand_dims(a, axis) for a in tup]
    return concatenate(tup, axis, out, dtype=dtype, casting=casting)


def take(a, indices, axis=None, out=None):
    if not isinstance(indices, ndarray):
        note("uploads", "take")
        indices = on_gpu(np.array(indices))
    length = a.size if axis is None else a.shape[axis]
    # Not by mode="wrap": it counts up from an index far outside, of which garbage has many.
    return launch(lambda x, i: np.take(x, i % max(length, 1), axis), a, indices, name="take")


def take_along_axis(a, indices, axis):
    return launch(
        lambda x, i: np.take_along_axis(x, i % max(a.shape[axis], 1), axis), a, indices, name="take_along_axis"
    )


def repeat(a, repeats, axis=None):
    if isinstance(repeats, ndarray):
        raise ValueError("cupy.ndarray cannot be specified as `repeats` argument.")
    return launch(np.repeat, a, repeats, axis)


def copyto(dst, src, casting="same_kind", where=None):
    if not isinstance(dst, ndarray):
        raise TypeError(f"Unsupported type {type(dst)}")
    where = True if where is None else where
    launch(lambda out, x, mask: np.copyto(out, x, casting, where=mask), dst, src, where, writes=dst, name="copyto")


def matmul(a, b, /, out=None, **options):
    for value in (a, b):
        if not isinstance(value, ndarray):
            raise TypeError(f"Unsupported type {type(value)}")
    if cuda.get_current_stream().is_capturing():
        raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
    if max(a.ndim, b.ndim) > 2:
        for _ in range(sum(not value.flags.c_contiguous for value in (a, b))):
            note("launches", "copy")
        for _ in range(3 if a.shape[:-2] != b.shape[:-2] else 0):
            note("launches", "addresses of matrices")
    return launch(np.matmul, a, b, **options, **({} if out is None else {"out": out}))


def may_share_memory(a, b, max_work=None):
    return bool(np.may_share_memory(a._h, b._h))


shares_memory = may_share_memory


def result_type(*values):
    return np.result_type(*(value.dtype if isinstance(value, ndarray) else value for value in values))


def can_cast(from_, to, casting="safe"):
    return np.can_cast(from_.dtype if isinstance(from_, ndarray) else from_, to, casting)


def get_array_module(*args):
    return sys.modules[__name__] if any(isinstance(value, ndarray) for value in args) else np


def get_default_memory_pool():
    return cuda.memory.pool


def from_dlpack(array, *, device=None, copy=None):
    return array if isinstance(array, ndarray) else asarray(array)


_WITHOUT_BFLOAT16 = {"sort", "argsort", "partition", "argpartition", "lexsort", "cumsum", "cumprod", "unique"}


def function_of(name, of):
    """A function or ufunc of the wheel, `name`, that computes with `of`; AttributeError if the wheel has none."""
    last = name.rpartition(".")[2]
    if name in _wheel.LOOPS:
        return ufunc(name, of)
    if isinstance(of, type) or not callable(of):
        return of
    _wheel.signature(name)

    def call(*args, **options):
        _wheel.check(name, args, options)
        options = {key: value for key, value in options.items() if not (key == "out" and value is None)}
        if last in _VIEWS:
            return _view(of, args, options)
        if last in _READS:
            note("syncs", last)
        if last in _WITHOUT_BFLOAT16 and any(getattr(value, "dtype", np.dtype("?")).kind == "V" for value in args):
            raise NotImplementedError(f"{name} has no kernel for bfloat16")
        if last not in _HOST_TAKEN and not any(isinstance(value, ndarray) for value in _flat([args, options])):
            raise TypeError(f"{name}: none of the operands is an array of CuPy: {[type(value) for value in args]}")
        return launch(of, *args, **options, name=last)

    call.__name__ = last
    return call


def _view(function, args, options):
    arrays = [value for value in _flat(args) if isinstance(value, ndarray)]
    if not arrays:
        raise TypeError(f"{function.__name__}: no array of CuPy among {[type(value) for value in args]}")
    found = function(*host(args), **options)
    if isinstance(found, (list, tuple)):
        owners = arrays if len(arrays) == len(found) else arrays[:1] * len(found)
        return type(found)(_as_view(of, values) for of, values in zip(owners, found, strict=True))
    return _as_view(arrays[0], found)


def _as_view(of, values):
    return of._view(values) if np.may_share_memory(values, of._h) or not values.size else on_gpu(values)


def _flat(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _flat(each)
    else:
        yield value


class Module(types.ModuleType):
    """A module of CuPy whose functions are made when they are first asked for."""

    numpy: types.ModuleType

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            of = getattr(self.numpy, name)
        except AttributeError:
            _wheel.signature(f"{self.__name__}.{name}")  # raises if the wheel has it not either
            raise
        found = function_of(f"{self.__name__}.{name}", of)
        setattr(self, name, found)
        return found


def module(name, of):
    """The module `name` of CuPy, which computes with the functions of NumPy's or SciPy's module `of`."""
    new = Module(name)
    new.numpy, new.__path__ = of, []
    sys.modules[name] = new
    return new


_self = sys.modules[__name__]
_self.__class__, _self.numpy = Module, np
linalg, fft, lib = module("cupy.linalg", np.linalg), module("cupy.fft", np.fft), types.ModuleType("cupy.lib")
sys.modules["cupy.lib"] = lib
lib.stride_tricks = module("cupy.lib.stride_tricks", np.lib.stride_tricks)
for _name in ("float16", "float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64", "uint8",
              "uint16", "uint32", "uint64", "bool_"):  # fmt: skip
    setattr(_self, _name, getattr(np, _name))
