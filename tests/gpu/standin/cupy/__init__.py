"""A stand-in for CuPy on machines without a GPU: arrays that are no NumPy arrays, streams that run late, and NCCL over MPI.

It refuses what CuPy refuses: NumPy arrays as operands, and conversion to them but by `get`. Work in a stream other than the
default one is done when something waits for it, and not before; until then results hold garbage, so that whoever does not
wait reads it. How many GPUs there are, and which is which: CUPY_STANDIN_GPUS (default: 1) and CUPY_STANDIN_BUS.
"""

from __future__ import annotations

import builtins
import types
import weakref

import numpy as np

from cupy import cuda

_VIEWS = {"reshape", "transpose", "view", "ravel", "swapaxes", "squeeze"}  # methods that need not launch anything
_allocated: dict[int, weakref.ref] = {}  # address → the NumPy array that owns the memory


def find(pointer: int, nbytes: int) -> np.ndarray | None:
    """The bytes of GPU memory at an address; None if they are not (all) memory of a GPU."""
    for start, reference in list(_allocated.items()):
        memory = reference()
        if memory is None:
            del _allocated[start]
        elif start <= pointer and pointer + nbytes <= start + memory.nbytes:
            return memory.view(np.uint8).reshape(-1)[pointer - start : pointer - start + nbytes]
    return None


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
    """NumPy values as an array of the GPU."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(on_gpu, value))
    return ndarray._of(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


def _check_device(value):
    """CuPy computes on the current device alone."""
    if isinstance(value, ndarray) and value.device.id != cuda.Device().id:
        raise ValueError(f"Array device must be same as the current device: array device = {value.device.id} while "
                         f"current = {cuda.Device().id}")  # fmt: skip
    if isinstance(value, (list, tuple)):
        for each in value:
            _check_device(each)


def launch(function, *args, writes=None, **options):
    """Compute in the current stream. writes: the operand that `function` changes, in place of a result."""
    _check_device([args, list(options.values())])
    args, options, out = host(args), {k: host(v) for k, v in options.items()}, options.get("out", writes)
    stream = cuda.get_current_stream()
    if out is None:
        result = function(*args, **options)  # of garbage, where the stream has still to compute the operands
        if isinstance(result, np.ndarray) and stream.is_late:
            stream.put(lambda: np.copyto(result, function(*args, **options)))
            if result.base is None:
                result.fill(77)
        return on_gpu(result)
    stream.put(lambda: function(*args, **options))
    return out


class ndarray:
    __slots__ = ("_h", "device", "__weakref__")
    __hash__ = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        self.device = cuda.Device()
        if memptr is not None:
            self._h = np.ndarray(shape, dtype, memptr.owner, memptr.offset, strides)
            return
        self._h = _owned(np.empty(shape, dtype, order=order))
        self._h.view(np.uint8)[...] = 0xAB if self._h.ndim and self._h.flags.c_contiguous else 0

    @classmethod
    def _of(cls, values):
        array = object.__new__(cls)
        array._h, array.device = _owned(values), cuda.Device()
        return array

    shape, strides, ndim, size, itemsize, nbytes, dtype = (
        property(lambda self, name=name: getattr(self._h, name))
        for name in ("shape", "strides", "ndim", "size", "itemsize", "nbytes", "dtype")
    )

    @property
    def flags(self):
        names = ("c_contiguous", "f_contiguous", "forc", "fnc", "owndata")
        return types.SimpleNamespace(**{name: getattr(self._h.flags, name) for name in names})

    @property
    def base(self):
        return None if self._h.base is None else ndarray._of(self._h.base)

    @property
    def data(self):
        return MemoryPointer(self._h)

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr, False), "version": 3}

    T = property(lambda self: on_gpu(self._h.T))
    real = property(lambda self: on_gpu(self._h.real))

    def __array__(self, *args, **options):
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __array_ufunc__(self, ufunc, method, *args, **options):
        if any(isinstance(value, np.ndarray) for value in args):
            return NotImplemented
        out = options.pop("out", (None,))[0]
        return getattr(_module, ufunc.__name__)(*args, **options, **({} if out is None else {"out": out}))

    def get(self, stream=None, order="C", out=None, blocking=True):
        cuda.get_current_stream().synchronize()
        return np.array(self._h, order="C")

    def item(self):
        return self.get().item()

    def fill(self, value):
        self[...] = value

    def __getitem__(self, index):
        return on_gpu(self._h[host(index)])

    def __setitem__(self, index, value):
        index = host(index)
        launch(lambda target, values: target.__setitem__(index, values), self, value, writes=self)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __len__(self):
        return len(self._h)

    def __bool__(self):
        return bool(self.get())

    def __float__(self):
        return float(self.get())

    def __int__(self):
        return int(self.get())

    def __getattr__(self, name):
        if name.startswith("_") or not callable(method := getattr(np.ndarray, name, None)):
            raise AttributeError(name)
        if name in _VIEWS:
            return lambda *args, **options: on_gpu(method(self._h, *args, **options))
        return lambda *args, **options: launch(method, self, *args, **options)


class MemoryPointer:
    def __init__(self, array):
        self.ptr = array.ctypes.data
        self.owner = array if array.base is None else array.base
        while isinstance(self.owner.base, np.ndarray):
            self.owner = self.owner.base
        self.offset = self.ptr - self.owner.ctypes.data
        self.owner = self.owner.reshape(-1).view(np.uint8)

    def __add__(self, count):
        moved = object.__new__(MemoryPointer)
        moved.ptr, moved.owner, moved.offset = self.ptr + count, self.owner, self.offset + count
        return moved


def _owned(values: np.ndarray) -> np.ndarray:
    """The values, whose memory is the GPU's from now on; a copy of those that cannot be written."""
    values = values if values.flags.writeable else values.copy()
    owner = values
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    _allocated[owner.ctypes.data] = weakref.ref(owner)
    return values


def _operator(name):
    function = getattr(np.ndarray, name)

    def apply(self, other=None):
        args = (self,) if other is None and name in ("__neg__", "__abs__", "__invert__", "__pos__") else (self, other)
        return launch(function, *args, **({"writes": self} if name.startswith("__i") and name != "__invert__" else {}))

    return apply


for _sign in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    for _form in ("__{}__", "__r{}__", "__i{}__"):
        if hasattr(np.ndarray, _form.format(_sign)):
            setattr(ndarray, _form.format(_sign), _operator(_form.format(_sign)))
for _sign in "neg abs invert pos lt le gt ge eq ne".split():
    setattr(ndarray, f"__{_sign}__", _operator(f"__{_sign}__"))


class ufunc:
    """A function of arrays, element by element."""

    def __init__(self, function):
        self._function, self.__name__, self.nin, self.nout = function, function.__name__, function.nin, function.nout

    def __call__(self, *args, **options):
        return launch(self._function, *args, **options)

    def __getattr__(self, name):
        method = getattr(self._function, name)
        return lambda *args, **options: launch(method, *args, **options)


def asarray(value, dtype=None, order=None):
    if isinstance(value, ndarray):
        return value if dtype is None or value.dtype == dtype else value.astype(dtype)
    return ndarray._of(np.array(value, dtype, order=order or "K"))


def array(value, dtype=None, copy=True, order="K"):
    return launch(np.array, value, dtype, order=order) if isinstance(value, ndarray) else asarray(value, dtype, order)


def ascontiguousarray(value, dtype=None):
    return (
        value
        if value.flags.c_contiguous and dtype in (None, value.dtype)
        else launch(np.ascontiguousarray, value, dtype)
    )


def empty(shape, dtype=float, order="C"):
    return ndarray(shape, dtype, order=order)


def _view_of(function):
    return lambda *args, **options: on_gpu(function(*host(args), **options))


lib = types.SimpleNamespace(
    stride_tricks=types.SimpleNamespace(
        as_strided=_view_of(np.lib.stride_tricks.as_strided),
        sliding_window_view=_view_of(np.lib.stride_tricks.sliding_window_view),
    )
)
broadcast_to, moveaxis, expand_dims = _view_of(np.broadcast_to), _view_of(np.moveaxis), _view_of(np.expand_dims)


class _Module(types.ModuleType):
    """Everything else that NumPy has, on arrays of the GPU."""

    def __getattr__(self, name):
        found = getattr(np, name)
        if isinstance(found, np.ufunc):
            found = ufunc(found)
        elif isinstance(found, builtins.type(np.sum)) or (callable(found) and not isinstance(found, type)):
            function = found
            found = lambda *args, **options: launch(function, *args, **options)  # noqa: E731
        setattr(self, name, found)
        return found


import sys  # noqa: E402

_module = sys.modules[__name__]
_module.__class__ = _Module
__version__ = "14.2.0"
