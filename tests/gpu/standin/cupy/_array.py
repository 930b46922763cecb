"""The stand-in's array: memory that NumPy reaches through `get` alone, and work that is done in streams."""

from __future__ import annotations

import sys
import types
from collections import Counter
from pathlib import Path

import numpy as np

from cupy import _wheel, cuda

SCALARS = (bool, int, float, complex, np.generic)
VIEWS = {"transpose", "view", "swapaxes", "squeeze", "diagonal"}  # methods that launch nothing
READS = {"item", "tolist", "tobytes", "nonzero"}  # methods that wait for the GPU
_WRITEABLE, _WARNS = 0x400, 0x80000000  # NumPy's flags
_TDT = str(Path(__file__).parents[4] / "tdt")

CAPTURED_NOT = {"uploads": "H2D transfers", "pinned uploads": "H2D transfers", "syncs": "D2H transfers"}
counts: Counter[str] = Counter()  # of launches, uploads (with those of pinned memory) and syncs
watched: list[tuple[str, str, str]] | None = None  # where a list is set: each (kind, function, line of tdt)


def note(kind: str, name: str) -> None:
    """Count a launch, an upload from the host or a wait of the host for the GPU."""
    if kind in CAPTURED_NOT and cuda.get_current_stream().is_capturing():
        raise RuntimeError(f"the current stream is capturing, so {CAPTURED_NOT[kind]} are disallowed")
    counts[kind] += 1
    if watched is not None:
        frame = sys._getframe(1)
        while frame and not frame.f_code.co_filename.startswith(_TDT):
            frame = frame.f_back
        place = f"{frame.f_code.co_filename[len(_TDT) - 3 :]}:{frame.f_lineno}" if frame else "outside of tdt"
        watched.append((kind, name, place))


def host(value):
    """The NumPy values of an operand, which must not be a NumPy array."""
    if isinstance(value, ndarray):
        return value._h
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)(map(host, value))
    return value


def on_gpu(value):
    """NumPy values as an array of the current GPU."""
    if isinstance(value, (list, tuple)):
        return type(value)(*map(on_gpu, value)) if hasattr(value, "_fields") else type(value)(map(on_gpu, value))
    return ndarray._of(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def _check_device(value):
    """CuPy computes on the current device alone."""
    if isinstance(value, ndarray) and value.device.id != cuda.Device().id:
        raise ValueError(f"Array device must be same as the current device: array device = {value.device.id} while "
                         f"current = {cuda.Device().id}")  # fmt: skip
    if isinstance(value, (list, tuple)):
        for each in value:
            _check_device(each)


def launch(function, *args, writes=None, name=None, **options):
    """Compute in the current stream. writes: the operand that `function` changes, in place of a result."""
    _check_device([args, list(options.values())])
    note("launches", name or getattr(function, "__name__", "?"))
    args, options, out = host(args), {k: host(v) for k, v in options.items()}, options.get("out", writes)
    stream = cuda.get_current_stream()
    if out is not None:
        stream.put(lambda: function(*args, **options))
        return out
    result = _rows(function(*args, **options))  # of garbage, where the stream has still to compute the operands
    result = np.array(result) if isinstance(result, np.generic) else result
    if isinstance(result, np.ndarray) and result.base is None:
        out = ndarray(result.shape, result.dtype)  # at an address as CuPy's
        if stream.is_late:
            values = out._h
            stream.put(lambda: np.copyto(values, function(*args, **options)))
            values.fill(77)
        else:
            np.copyto(out._h, result)
        return out
    if stream.is_late and isinstance(result, np.ndarray):
        stream.put(lambda: np.copyto(result, function(*args, **options)))
    return on_gpu(result)


def _rows(result):
    """A new result in C order, as CuPy's functions give it."""
    if isinstance(result, np.ndarray) and result.ndim:
        return np.ascontiguousarray(result)
    return [_rows(each) for each in result] if isinstance(result, list) else result


class Flags(types.SimpleNamespace):
    def __getitem__(self, name):
        return getattr(self, name.lower())


class ndarray:
    __slots__ = ("_h", "_base", "device", "__weakref__")
    __hash__ = None
    __array_priority__ = 100

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        if strides is not None and memptr is None:
            raise ValueError("memptr is required if strides is given.")
        self.device, self._base = cuda.Device() if memptr is None else memptr.device, memptr
        if memptr is not None:
            self._h = np.ndarray(shape, check_dtype(dtype), memptr.owner, memptr.offset, strides)
            return
        self._h = cuda.memory.aligned(shape, check_dtype(dtype), order)
        self._h.reshape(-1, order="A").view(np.uint8)[...] = 0xAB  # what it holds is not known
        cuda.memory.own(self._h, self, self._h.nbytes)

    _init = __init__

    @classmethod
    def _of(cls, values, base=None):
        array = object.__new__(cls)
        check_dtype(values.dtype)
        array.device, array._base = cuda.Device() if base is None else base.device, base
        array._h = values if base is not None else cuda.memory.own(values, array)
        return array

    def _view(self, values):
        """A view: of memory that can be written, which NumPy says of no broadcast array."""
        if not values.flags.num & _WRITEABLE or values.flags.num & _WARNS:
            memory = cuda.memory.MemoryPointer(values, self)
            values = np.ndarray(values.shape, values.dtype, memory.owner, memory.offset, values.strides)
        return ndarray._of(values, self if self._base is None else self.base)

    strides, ndim, size, itemsize, nbytes, dtype = (
        property(lambda self, name=name: getattr(self._h, name))
        for name in ("strides", "ndim", "size", "itemsize", "nbytes", "dtype")
    )

    @property
    def shape(self):
        return self._h.shape

    @shape.setter
    def shape(self, sizes):
        self._h.shape = sizes

    @property
    def flags(self):
        names = ("c_contiguous", "f_contiguous", "forc", "fnc")
        return Flags(owndata=self._base is None, **{name: getattr(self._h.flags, name) for name in names})

    @property
    def base(self):
        return self._base if isinstance(self._base, ndarray) else None

    @property
    def data(self):
        return cuda.memory.MemoryPointer(self._h, self)

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "version": 3}

    T = property(lambda self: self._view(self._h.T))
    mT = property(lambda self: self._view(self._h.mT))

    @property
    def real(self):
        return self._view(self._h.real) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value):
        self.real[...] = value

    @property
    def imag(self):
        return self._view(self._h.imag) if self.dtype.kind == "c" else launch(np.zeros_like, self)

    @imag.setter
    def imag(self, value):
        self.imag[...] = value

    def __array__(self, *args, **options):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __array_ufunc__(self, ufunc, method, *args, **options):
        import cupy

        if any(isinstance(value, np.ndarray) for value in args) or not hasattr(cupy, ufunc.__name__):
            return NotImplemented
        out = options.pop("out", (None,))[0]
        function = getattr(cupy, ufunc.__name__)
        function = function if method == "__call__" else getattr(function, method)
        return function(*args, **options, **({} if out is None else {"out": out}))

    def __array_function__(self, function, types, args, options):
        import cupy

        found = cupy
        for part in function.__module__.split(".")[1:]:
            found = getattr(found, part)
        return getattr(found, function.__name__)(*args, **options)

    def get(self, stream=None, order="C", out=None, blocking=True):
        if blocking or not cuda.memory.is_pinned(out):
            note("syncs", "get")
        (stream or cuda.get_current_stream()).synchronize()
        if out is None:
            return np.array(self._h, order=order)
        if not isinstance(out, np.ndarray) or out.dtype != self.dtype or out.shape != self.shape:
            raise TypeError("Only numpy.ndarray of the same shape and dtype can be obtained from cupy.ndarray")
        out[...] = self._h
        return out

    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype or arr.shape != self.shape:
            raise TypeError(f"{arr.dtype} {arr.shape} cannot be set to {self.dtype} {self.shape}")
        if not (self.flags.c_contiguous or self.flags.f_contiguous):
            raise RuntimeError("Cannot set to non-contiguous array")
        note("pinned uploads" if cuda.memory.is_pinned(arr) else "uploads", "set")
        values = self._h
        (stream or cuda.get_current_stream()).put(lambda: np.copyto(values, arr))

    def item(self, *args):
        return self.get().item(*args)

    def tolist(self):
        return self.get().tolist()

    def tobytes(self, order="C"):
        return self.get().tobytes(order)

    def fill(self, value):
        if not isinstance(value, SCALARS):
            raise TypeError(f"Unsupported type {type(value)}")
        launch(np.ndarray.fill, self, value, writes=self)

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if casting is not None or subok is not None:
            raise TypeError("casting and subok are not supported yet")
        dtype = check_dtype(dtype)
        if dtype == self.dtype and not copy and (order == "K" or self._h.flags.c_contiguous):
            return self
        return self._ordered(order, dtype)

    def copy(self, order="C"):
        if self.device.id != cuda.Device().id:  # the one call that takes an array of another GPU
            note("launches", "copy from another GPU")
            cuda.get_current_stream().synchronize()
            if not self.flags.forc:
                raise NotImplementedError("CuPy cannot copy non-contiguous array between devices.")
            return on_gpu(np.array(self._h, order="F" if self.flags.fnc and order in ("K", "F") else "C"))
        return self._ordered(order, self.dtype)

    def _ordered(self, order, dtype):
        out = np.empty_like(self._h, dtype, order=order or "K")
        out = ndarray(out.shape, dtype) if out.flags.c_contiguous else ndarray._of(out)
        return launch(lambda out, x: np.copyto(out, x, casting="unsafe"), out, self, writes=out, name="copy")

    def reshape(self, *shape, order="C"):
        result = self._h.reshape(*shape, order=order)
        return self._view(result) if np.shares_memory(result, self._h) or not self.size else self._copied(result)

    def _copied(self, values):
        return launch(lambda x: x.reshape(values.shape), self, name="reshape")

    def ravel(self, order="C"):
        return self.reshape(-1, order=order)

    def squeeze(self, axis=None):
        return self._view(self._h.squeeze(axis))

    def take(self, indices, axis=None, out=None):
        import cupy

        return cupy.take(self, indices, axis, out)

    def conj(self):
        import cupy

        return cupy.conjugate(self) if self.dtype.kind == "c" else self

    def sort(self, axis=-1, kind=None):
        if self.dtype.kind == "V":
            raise NotImplementedError(f"Sorting arrays with dtype '{self.dtype}' is not supported")
        launch(lambda x: x.sort(axis, kind="stable"), self, writes=self, name="sort")

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def __reduce__(self):
        import cupy

        return cupy.array, (self.get(),)

    def __getitem__(self, index):
        index, mask, gathers = self._index(index)
        if gathers:
            if mask:
                note("syncs", "index by mask")
            return launch(lambda x: x[wrapped(x, index)], self, name="gather")
        found = self._h[index]
        return self._view(found if isinstance(found, np.ndarray) else self._h[(*index, ...)])

    def __setitem__(self, index, value):
        index, mask, gathers = self._index(index)
        if isinstance(value, ndarray) and not gathers and _is_same(self._h[index], value._h):
            return
        if isinstance(value, np.ndarray):
            if not gathers and value.shape != ():
                raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
            note("uploads", "setitem")
            value = ndarray._of(value.copy())
        elif isinstance(value, (list, tuple)) and gathers:
            note("uploads", "setitem")
            value = ndarray._of(np.asarray(value))
        elif not isinstance(value, (ndarray, *SCALARS)):
            raise TypeError(f"Unsupported type {type(value)}")
        if mask and not isinstance(value, SCALARS):
            note("syncs", "assign by mask")

        def assign(target, values):
            target[wrapped(target, index)] = (
                values if isinstance(values, bool) else np.asarray(values).astype(target.dtype)
            )

        launch(assign, self, value, writes=self, name="setitem")

    def _index(self, parts):
        """(An index for `wrapped`, whether it has a mask, whether it gathers)."""
        parts = parts if isinstance(parts, tuple) else (parts,)
        index, masks, gathers = [], 0, False
        for part in parts:
            if isinstance(part, ndarray):
                _check_device(part)
                if part.dtype.kind not in "iub":
                    raise IndexError(f"arrays used as indices must be of integer or boolean type: {part.dtype}")
                part, gathers = part._h, True
            elif isinstance(part, (list, np.ndarray, bool, np.bool_)):
                note("uploads", "index")
                part, gathers = np.asarray(part), True
                part = part if part.size else part.astype(np.int64)
            elif not (part is None or part is Ellipsis or isinstance(part, (slice, int, np.integer))):
                raise IndexError(
                    f"only integers, slices, ellipsis, None and arrays are valid indices, got {type(part)}"
                )
            masks += isinstance(part, np.ndarray) and part.dtype.kind == "b"
            index.append(part)
        if masks > 1:
            raise NotImplementedError("more than one boolean array in an index")
        return tuple(index), bool(masks), gathers

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __len__(self):
        return len(self._h)

    def __bool__(self):
        return bool(self.get()) if self.size else False

    def __float__(self):
        return float(self.get())

    def __int__(self):
        return int(self.get())

    def __complex__(self):
        return complex(self.get())

    def __index__(self):
        return self.get().__index__()

    def __format__(self, spec):
        return format(self.get(), spec)

    def __repr__(self):
        return repr(self.get())

    def __getattr__(self, name):
        if name.startswith("_") or not callable(method := getattr(np.ndarray, name, None)):
            raise AttributeError(f"'cupy.ndarray' object has no attribute {name!r}")

        def call(*args, **options):
            _wheel.check(f"cupy.ndarray.{name}", args, options)
            if name in VIEWS:
                return self._view(method(self._h, *args, **options))
            if name in READS:
                note("syncs", name)
            out = options.get("out")
            if isinstance(out, ndarray) and name == "cumsum":
                return launch(method, self, *args, **options, name=name)
            return launch(method, self, *args, **options, name=name)

        return call


def _is_same(target, values):
    """Whether an assignment would copy memory to itself, as `x[part] += y` ends with."""
    return isinstance(target, np.ndarray) and all(
        getattr(target, name) == getattr(values, name) for name in ("shape", "strides", "dtype")
    ) and target.ctypes.data == values.ctypes.data  # fmt: skip


def check_dtype(dtype):
    """A dtype that CuPy has; it has none of texts, objects, records, times and long doubles."""
    dtype = np.dtype(dtype)
    if dtype.kind in "OSUMmT" or dtype.char in "gG" or dtype.names is not None or not dtype.isnative:
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype


def _operator(name, sign, reflected=False, writes=False):
    def apply(self, other):
        import cupy

        if not isinstance(other, (ndarray, np.ndarray, *SCALARS)):
            return NotImplemented
        operands = (other, self) if reflected else (self, other)
        return getattr(cupy, name)(*operands, **({"out": self} if writes else {}))

    setattr(ndarray, sign, apply)


_BINARY = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
           "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
           "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift"}  # fmt: skip
for _sign, _name in _BINARY.items():
    _operator(_name, f"__{_sign}__")
    _operator(_name, f"__r{_sign}__", reflected=True)
    if _sign != "matmul":
        _operator(_name, f"__i{_sign}__", writes=True)
_COMPARED = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
for _sign, _name in _COMPARED.items():
    _operator(_name, f"__{_sign}__")


def _unary(name, sign):
    def apply(self):
        import cupy

        return getattr(cupy, name)(self)

    setattr(ndarray, sign, apply)


for _sign, _name in {"neg": "negative", "abs": "absolute", "invert": "invert"}.items():
    _unary(_name, f"__{_sign}__")
ndarray.__pos__ = lambda self: self
ndarray.__hash__ = None
ndarray.conjugate = ndarray.conj


def wrapped(values, index):
    """An index of NumPy's array `values`; CuPy wraps indices that are too large. To be called when the work is done."""
    sizes = [
        part.ndim if isinstance(part, np.ndarray) and part.dtype.kind == "b" else part is not None for part in index
    ]
    known = sum(n for n, part in zip(sizes, index, strict=True) if part is not Ellipsis)
    dim, found = 0, []
    for part, n in zip(index, sizes, strict=True):
        is_gathered = isinstance(part, np.ndarray) and part.dtype.kind != "b" and values.shape[dim]
        found.append(part % values.shape[dim] if is_gathered else part)
        dim += values.ndim - known if part is Ellipsis else int(n)
    return tuple(found)
