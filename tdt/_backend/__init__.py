"""Array libraries: which one (NumPy or CuPy) an array belongs to, and how arrays are moved between devices."""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

from tdt._backend._gpu_memory import explain_failures
from tdt._backend._gpu_memory import free_after as free_after
from tdt._backend._malloc import keep_freed_memory
from tdt._backend.device import CPU, META, device
from tdt._backend.pending import add as add_pending  # noqa: F401
from tdt._backend.pending import expect_below as expect_below
from tdt._backend.pending import largest_index as largest_index
from tdt._backend.pending import over_replays as pending_over_replays  # noqa: F401
from tdt._backend.pending import raise_pending as raise_pending
from tdt._backend.pending import swap as swap_pending  # noqa: F401
from tdt._backend.scatter import add_at as add_at
from tdt._backend.scatter import unordered_sums as unordered_sums
from tdt._backend.sums import complex_product as complex_product
from tdt._backend.sums import dot as dot
from tdt._backend.sums import scan as scan
from tdt._backend.sums import total as total
from tdt._backend.waiting import launch_waiting, refuse_program

# Infinities and NaN are valid results: no warnings. np.errstate around each op would take longer than most ops.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"tdt\.")

keep_freed_memory()


class _NoArray:
    """The class of arrays on a GPU, as long as CuPy is not loaded."""


GpuArray: type = _NoArray
_pooled: type | None = None  # the class of CuPy's pieces of memory from its pool, which do not overlap


@functools.cache
def _cupy() -> ModuleType | None:
    global GpuArray, _pooled
    try:
        import cupy
    except ImportError:
        return None
    explain_failures(cupy)
    GpuArray, _pooled = cupy.ndarray, getattr(cupy.cuda.memory, "PooledMemory", None)
    return cupy


@functools.cache
def cuda_device_count() -> int:
    """The number of GPUs that CuPy can use; 0 if CuPy, the driver or a GPU is missing."""
    cupy = _cupy()
    if cupy is None:
        return 0
    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


def gpu() -> ModuleType:
    """CuPy, for functions that need a GPU. AssertionError, with PyTorch's message, if there is no GPU."""
    cupy = _cupy()
    if cupy is None or not cuda_device_count():
        raise AssertionError(
            "Torch not compiled with CUDA enabled: CuPy sees no GPU; "
            "install the extra cuda12 or cuda13, or use device 'cpu'"
        )
    return cupy


def gpu_index(target: device) -> int:
    """The index of the GPU `target`; "cuda" without an index is the current device."""
    return gpu().cuda.Device().id if target.index is None else target.index


def is_array(value: Any) -> bool:
    """Whether `value` is a NumPy or CuPy array."""
    kind = value.__class__
    return (
        kind is np.ndarray
        or kind is GpuArray
        or (hasattr(kind, "__cuda_array_interface__") and kind.__module__.startswith("cupy"))
    )


def as_array(result: Any) -> Any:
    """The result of an op as an array: NumPy scalars become 0-d arrays, arrays (also sparse ones) are returned unchanged."""
    if result.__class__ is np.ndarray:
        return result
    if isinstance(result, np.generic):
        return np.asarray(result)
    return result if is_array(result) or getattr(result, "is_sparse", False) else np.asarray(result)


def is_gpu(xp: Any) -> bool:
    """Whether an array library is CuPy."""
    return getattr(xp, "__name__", "") == "cupy"


def namespace(array: Any) -> ModuleType:
    """The module of an array: numpy or cupy."""
    if isinstance(array, (np.ndarray, np.generic)):
        return np
    cupy = _cupy()
    assert cupy is not None, f"not an array: {type(array)}"
    return cupy


def device_of(array: Any) -> device:
    """The device that holds `array`."""
    if array.__class__ is np.ndarray:
        return CPU
    array = getattr(array, "values", array) if getattr(array, "is_sparse", False) else array
    if isinstance(array, np.ndarray):
        return META if array.__class__ is MetaArray else CPU
    return _gpu(array.device.id)


@functools.cache
def _gpu(index: int) -> device:
    return device("cuda", index)


def to_device(array: Any, target: device) -> Any:
    """`array` on the device `target`: the same object if it is there already, else a copy.

    AssertionError without any GPU, RuntimeError without that one, NotImplementedError from "meta", where no values are;
    IndexError from a GPU on which an index was out of range since the last read from it.
    """
    if getattr(array, "is_sparse", False):
        return array.to_device(target)
    if target.type == "meta":
        return array if array.__class__ is MetaArray else stand_in(array.shape, array.dtype).view(MetaArray)
    if array.__class__ is MetaArray:
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Use to_empty() of a module, or empty_like(x, device=…), to get memory "
            "that is not filled yet."
        )
    if target.type == "cpu":
        return array if isinstance(array, np.ndarray) else _downloaded(array)
    index = known_gpu(target)
    if not isinstance(array, np.ndarray) and array.device.id == index:
        return array
    cupy, (dense, back) = gpu(), _dense(array)
    if not isinstance(array, np.ndarray):
        return _across(dense, index).transpose(back)
    with cupy.cuda.Device(index):
        return cupy.asarray(dense).transpose(back)


def _across(array: Any, index: int) -> Any:
    """A copy of CuPy's dense `array` on another GPU. Each GPU's stream waits for the other's, the host for neither."""
    cuda = gpu().cuda
    with array.device:
        here = cuda.get_current_stream()
        written = here.record()
    with cuda.Device(index):
        there = cuda.get_current_stream()
        there.wait_event(written)
        copy = array.copy()
        read = there.record()
    with array.device:
        here.wait_event(read)  # else the memory of `array` may be used again before it is read
    return copy


def number(array: Any) -> Any:
    """The only element of `array`, as a Python number. IndexError as of `to_device`."""
    refuse_program()
    value = array.item()
    if array.__class__ is not np.ndarray:
        raise_pending()
    return value


def _downloaded(array: Any) -> np.ndarray:
    """A copy of CuPy's `array` on the host. IndexError if an index on a GPU was out of range since the last one."""
    refuse_program()
    dense, back = _dense(array)
    copy: np.ndarray = dense.get().transpose(back)
    raise_pending()
    return copy


def _dense(array: Any) -> tuple[Any, list[int]]:
    """`array` with its dimensions in the order of memory, contiguous, and the permutation that restores their order."""
    order = list(range(array.ndim))
    if not array.flags.c_contiguous:
        order.sort(key=lambda d: -array.strides[d])
        array = array.transpose(order)
        if not array.flags.c_contiguous:
            with nullcontext() if isinstance(array, np.ndarray) else array.device:
                array = array.copy()
    return array, sorted(range(len(order)), key=order.__getitem__)


def known_gpu(target: device) -> int:
    """The index of the GPU `target`. AssertionError without any GPU, RuntimeError without that one."""
    gpu()  # raises if there is none
    index = gpu_index(target)
    if index >= cuda_device_count():
        raise RuntimeError(f"CUDA error: invalid device ordinal: {target}; CuPy sees {cuda_device_count()} GPUs")
    return index


def on(target: device) -> Any:
    """The library whose `empty`, `arange`, … make arrays on `target`."""
    if target.type == "cuda":
        launch_waiting()
        index, cupy = known_gpu(target), gpu()
        return cupy if index == cupy.cuda.runtime.getDevice() else _OnGpu(cupy, index)
    return np


class _OnGpu:
    """CuPy, whose functions run with another GPU than the current one as the current one."""

    def __init__(self, cupy: ModuleType, index: int) -> None:
        self._cupy, self._index = cupy, index

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            with self._cupy.cuda.Device(self._index):
                return getattr(self._cupy, name)(*args, **options)

        return call


_HERE: AbstractContextManager[Any] = nullcontext()


def current(target: device) -> AbstractContextManager[Any]:
    """Context manager in which CuPy creates arrays and runs kernels on `target`; does nothing for the CPU."""
    return gpu().cuda.Device(known_gpu(target)) if target.type == "cuda" else _HERE


def several_gpus() -> bool:
    """Whether arrays may be on another GPU than the current one; False as long as CuPy is not loaded."""
    return "cupy" in sys.modules and cuda_device_count() > 1


def elsewhere(arrays: Iterable[Any]) -> Any:
    """CuPy's device of the first array on a GPU, if that is not the current one; else None.

    CuPy launches kernels, and takes memory for results, on the current device alone.
    """
    for a in arrays:
        where = getattr(a, "device", None)
        if where is not None and where != "cpu":  # the device of NumPy's arrays
            return None if where.id == gpu().cuda.runtime.getDevice() else where
    return None


def on_gpu_of(array: Any) -> AbstractContextManager[Any]:
    """Context manager in which the GPU of `array` is the current device; does nothing for arrays of NumPy."""
    if array.__class__ is np.ndarray or not several_gpus():
        return _HERE
    return elsewhere([array]) or _HERE


def copied(array: Any) -> Any:
    """A copy of an array, on its device."""
    with on_gpu_of(array):
        return array.copy()


def current_gpu() -> Any:
    """CuPy's current device."""
    return gpu().cuda.Device()


def make_current(value: Any) -> None:
    """Make the GPU of an array, or of a tensor's, the current device, until another is set."""
    if (where := elsewhere([getattr(value, "_a", value)])) is not None:
        where.use()


def shared(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Copies in one piece of memory that other processes can map."""
    from tdt._backend import _shared  # loads multiprocessing

    starts = [0]
    for array in arrays:
        starts.append(-(-(starts[-1] + array.nbytes) // 64) * 64)
    memory = _shared.new(max(starts[-1], 1))
    copies = [
        np.ndarray(array.shape, array.dtype, memory, start, np.empty_like(array).strides)
        for array, start in zip(arrays, starts, strict=False)
    ]
    for copy, array in zip(copies, arrays, strict=True):
        copy[...] = array
    return copies


def owner(array: Any) -> Any:
    """The array that owns the memory of the view `array`."""
    base = array.base
    while base is not None:  # `as_strided` inserts a helper object between the arrays
        array = base if isinstance(base, type(array)) else array
        base = getattr(base, "base", None)
    return array


def raw(array: Any) -> Any:
    """All bytes of the memory that `array` is a view of, as a flat uint8 array."""
    whole = owner(array)
    if whole.flags.c_contiguous:
        return whole.reshape(-1).view(np.uint8)
    if not whole.flags.forc and (size := byte_bounds(whole)[1] - byte_bounds(whole)[0]) > whole.nbytes:  # it has gaps
        return as_strided(whole, (size // whole.itemsize,), (whole.itemsize,)).view(np.uint8)
    return whole.transpose(sorted(range(whole.ndim), key=lambda d: -whole.strides[d])).reshape(-1).view(np.uint8)


def look_into(memory: Any, dtype: Any, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """The elements of `dtype` that begin at byte `offset` of flat uint8 `memory`; strides in bytes, as the offset."""
    if isinstance(memory, np.ndarray):
        return np.ndarray(shape, dtype, memory, offset, strides)
    cupy = _cupy()
    assert cupy is not None
    return cupy.ndarray(shape, dtype, memory.data + offset, strides)


def strides(array: Any) -> tuple[int, ...]:
    """Strides in bytes, with those of C order where NumPy has zeros instead: in new arrays without elements, and in new
    dimensions of size 1.
    """
    if 0 not in array.strides:
        return array.strides
    shape, known = array.shape, list(array.strides)
    fresh = not (array.size or any(known) or owner(array).size)
    for d in reversed(range(array.ndim)):
        if known[d] == 0 and (fresh or shape[d] == 1):
            after = (known[d + 1], max(shape[d + 1], fresh)) if d + 1 < array.ndim else (array.itemsize, 1)
            known[d] = math.prod(after)
    return tuple(known)


def with_strides(array: Any) -> Any:
    """An array without elements as a view that has the strides of `strides`, so that its views have theirs."""
    return as_strided(array, array.shape, strides(array))


def as_strided(array: Any, shape: tuple[int, ...], strides: Any) -> Any:
    """A view of an array with other sizes and strides (in bytes), without bounds checks."""
    if array.__class__ is np.ndarray and array.flags.c_contiguous and array.dtype.char in BUFFERED:
        try:
            return np.ndarray(shape, array.dtype, array, 0, strides)  # in a tenth of the time
        except (TypeError, ValueError):  # it ends behind the array
            pass
    make = namespace(array).lib.stride_tricks.as_strided
    if array.dtype.str == "<f1":  # float8_e5m2, whose name in NumPy's array interface NumPy itself does not know
        return make(array.view(np.uint8), shape, strides).view(array.dtype)
    return make(array, shape, strides)


BUFFERED = frozenset("?bBhHiIlLefdFD")  # types of arrays whose memory others may be created in


class MetaArray(np.ndarray):
    """An array of the device "meta": ops with such an operand return one."""


def stand_in(shape: tuple[int, ...], np_dtype: Any) -> np.ndarray:
    """Zeros of any shape in the memory of one element: all strides are 0. Tensors hold these during shape inference."""
    return np.broadcast_to(np.zeros((), np_dtype), shape)


def where(xp: Any, condition: Any, x: Any, y: Any) -> Any:
    """`xp.where` of arrays and scalars of one dtype, in that dtype. CuPy's has no bfloat16 and would give float32."""
    if xp is np or x.dtype.kind != "V":
        return xp.where(condition, x, y)
    return xp.where(condition, _bits(x), _bits(y)).view(x.dtype)


def _bits(x: Any) -> Any:
    """Values viewed as integers of the same size, which CuPy's `where` does not convert."""
    kind = np.dtype(f"i{x.dtype.itemsize}")
    return np.asarray(x).view(kind)[()] if isinstance(x, np.generic) else x.view(kind)


def byte_bounds(array: Any) -> tuple[int, int]:
    """The addresses of the first byte of `array` and of the byte after its last; a sparse array has no memory range."""
    if getattr(array, "is_sparse", False):
        return 0, 0
    low = high = array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
    if array.flags.c_contiguous or array.size == 0:
        return low, low + array.nbytes
    for n, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (n - 1) * stride
        else:
            high += (n - 1) * stride
    return low, high + array.itemsize


def may_overlap(a: Any, b: Any) -> bool:
    """Whether two arrays may share memory, judged by their bounds."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return np.may_share_memory(a, b)
    kind = type(a)
    if kind is GpuArray:
        own, other = a.data.mem, b.data.mem
        if own is not other and own.__class__ is other.__class__ is _pooled:
            return False
    (a0, a1), (b0, b1) = byte_bounds(a), byte_bounds(b)
    return a0 < b1 and b0 < a1


def overlaps_itself(array: Any) -> bool:
    """Whether several elements of `array` share memory (stride 0, as after `expand`): writes would be ambiguous."""
    if 0 not in array.strides or array.size < 2 or getattr(array, "is_sparse", False):
        return False
    return any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
