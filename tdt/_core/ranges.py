"""Create tensors by formula: ranges, the identity matrix, the indices of triangles."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tdt import _backend
from tdt._backend import current, on
from tdt._backend.device import CPU, META, as_device
from tdt._core import dtype as _dtype
from tdt._core.aliases import Device, Number
from tdt._core.calls import front, integer
from tdt._core.creation import _finished, _into, _recorded
from tdt._core.dtype import dtype as Dtype
from tdt._core.from_data import LARGEST, check_bits, fill_number
from tdt._core.remembered_creation import creates
from tdt._core.tensor import Tensor, wrap
from tdt._kernels import spaced

if TYPE_CHECKING:
    from tdt._core.layout import layout as Layout

__all__ = ["arange", "eye", "linspace", "logspace", "range", "tril_indices", "triu_indices"]


@front
def arange(
    start: Number | Tensor | None = None, end: Number | Tensor | None = None, step: Number | Tensor = 1, *,
    out: Tensor | None = None, dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers start, start + step, … below `end` (above it for a negative step).

    Args:
        start: 0 when only one number is given, which is then `end`.
        dtype: by default int64 if all numbers are integers, else the default float dtype.
        pin_memory: has no effect.
    Shape: result (ceil((end - start) / step)).
    Raises:
        TypeError: when no number is given.
        RuntimeError: when `step` is 0 or NaN or leads away from `end`, a bound is not finite, or there are too many numbers.
        OverflowError: for an integer of more than 64 bits.
        ValueError: when `step` becomes 0 in an integer dtype.

    >>> import tdt
    >>> tdt.arange(1, 2.5, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    if start is None and end is None:
        raise TypeError('arange() missing 1 required positional arguments: "end"')
    start, end = (0, start) if end is None else (0 if start is None else start, end)
    whole: Any = start, end, step
    integers = {int}.issuperset(map(type, whole))
    if integers and dtype is out is None and whole[2] > 0 and -(2**53) < whole[0] <= whole[1] < 2**53:
        target = as_device(device)
        if target is CPU or (target.type == "cuda" and not target.index and not _backend.several_gpus()):
            created = (np if target is CPU else on(target)).arange(*whole, dtype=np.int64)
            return _recorded(_finished(created, requires_grad))
    if (
        dtype in FLOATS
        and not (integers and dtype is None)
        and out is device is None
        and as_device(None) is CPU
        and NUMBERS_ONLY.issuperset(map(type, whole))
    ):
        array = _floats(whole[0], whole[1], whole[2], dtype)
        if array is not None:
            return _recorded(_finished(array, requires_grad))
    first, limit, stride = (_real(v.item() if isinstance(v, (Tensor, np.number)) else v) for v in (start, end, step))
    dtype = out.dtype if dtype is None and out is not None else dtype
    if dtype is None:
        dtype = _dtype.int64 if all(isinstance(v, int) for v in (first, limit, stride)) else _dtype.get_default_dtype()
    first, limit, stride, count = _checked(first, limit, stride, dtype)
    with current(target := as_device(device)):
        created = _finished(_numbers(on(target), first, limit, stride, count, dtype), requires_grad, device)
    return _recorded(created) if out is None else _filled(out, created)


def _checked(first: Any, limit: Any, stride: Any, dtype: Dtype) -> tuple[Any, Any, Any, int]:
    """The numbers of `arange`, integers for an integer dtype, and the length of its result; raises what `arange` does."""
    for v in (first, limit, stride):
        if isinstance(v, int):
            check_bits(v)
    _dtype.check_category("arange", _dtype.REAL_NUMBERS, dtype)
    _dtype.check_category("arange", _dtype.ALL, dtype)
    if not (stride > 0 or stride < 0):
        raise RuntimeError("step must be nonzero")
    if dtype.category == _dtype.INT and int(stride) == 0:
        raise ValueError("step must be nonzero")
    if any(isinstance(v, float) and not math.isfinite(v) for v in (first, limit)):
        raise RuntimeError(f"unsupported range: {first} -> {limit}")
    _check_direction(first, limit, stride)
    # PyTorch computes the length before truncating to integers, except for int64, which floats cannot represent.
    count = math.ceil((limit - first) / stride)
    if dtype.category == _dtype.INT:
        first, limit, stride = int(first), int(limit), int(stride)
        count = -((first - limit) // stride) if dtype is _dtype.int64 else count
    if count >= 2**60:
        raise RuntimeError(f"invalid size, possible overflow? {first} to {limit} by {stride} are {count} elements")
    return first, limit, stride, count


def _check_direction(start: float, end: float, step: float) -> None:
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


def _floats(first: float, limit: float, stride: float, dtype: Dtype | None) -> np.ndarray | None:
    """The array of `arange` in float32 or float64; None where that is not the dtype, or there are no numbers between the ends."""
    dtype = _dtype.get_default_dtype() if dtype is None else dtype
    try:
        count = math.ceil((limit - first) / stride)
    except (ArithmeticError, ValueError):  # of which the caller raises PyTorch's error
        return None
    if dtype not in FLOATS or not 0 < count < 2**53:
        return None
    array = np.empty(count, dtype.np)
    spaced(array, first, stride)
    return array


FLOATS = (None, _dtype.float32, _dtype.float64)
NUMBERS_ONLY = frozenset((int, float))


def _numbers(xp: Any, first: Any, limit: Any, stride: Any, count: int, dtype: Dtype) -> Any:
    """first, first + stride, … in an array of `count` elements."""
    if dtype is _dtype.int64 and max(abs(first), abs(limit)) < 2**53:  # one launch on a GPU
        return xp.arange(first, limit, stride, dtype=np.int64)
    values = xp.arange(count, dtype=np.int64 if dtype.category == _dtype.INT else np.float64)
    return (values * stride + first).astype(dtype.np)


def range(
    start: float = 0, end: float | None = None, step: float = 1, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The numbers start, start + step, … up to `end` included; deprecated in favour of `arange`.

    Args:
        dtype: by default the default float dtype.
        pin_memory: has no effect.
    Shape: result (floor((end - start) / step) + 1).
    Raises:
        RuntimeError: when `step` is 0 or leads away from `end`.

    >>> import tdt
    >>> tdt.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    warnings.warn("range is deprecated, as it is not Python's; use arange(start, end + step, step)", UserWarning, 2)
    start, end = (0, start) if end is None else (start, end)
    dtype = (_dtype.get_default_dtype() if out is None else out.dtype) if dtype is None else dtype
    _dtype.check_category("range", _dtype.ALL, dtype)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    _check_direction(start, end, step)
    count = math.floor((end - start) / step) + 1
    with current(target := as_device(device)):
        values = on(target).arange(count) * step + start
        created = _finished(values.astype(dtype.np), requires_grad, device)
    return _recorded(created) if out is None else _filled(out, created)


def _filled(out: Tensor, created: Tensor) -> Tensor:
    """`out` with the numbers `created`, in its own shape where that has as many elements."""
    if out._a.size == created._a.size:
        created = wrap(created._a.reshape(out._a.shape))
    return _into(out, created)


def _real(value: Any) -> Any:
    if isinstance(value, complex):
        raise RuntimeError(f"value cannot be converted to type double without overflow: {value}")
    return value


def _spaced(start: Any, end: Any, steps: Any) -> Callable[[], np.ndarray] | None:
    """What creates the array of `linspace` in float32 on the CPU; None where that is not the default, or for other arguments."""
    if not (NUMBERS_ONLY.issuperset((start.__class__, end.__class__)) and steps.__class__ is int and steps > 1):
        return None
    if _dtype.get_default_dtype() is not _dtype.float32 or as_device(None) is not CPU:
        return None
    if not (-LARGEST <= start <= LARGEST and -LARGEST <= end <= LARGEST and abs(end - start) <= LARGEST):
        return None
    first, last, step = _bounds_and_step(start, end, steps, _dtype.float32)

    def make() -> np.ndarray:
        array = np.empty(steps, np.float32)
        spaced(array, first, step, last)
        return array

    return make


def _bounds_and_step(start: Any, end: Any, steps: int, dtype: Dtype) -> tuple[Any, Any, Any]:
    """The ends of `linspace` and the distance of its numbers, rounded to float32 for results of that type, as PyTorch's are."""
    if dtype is not _dtype.float32:
        return start, end, (end - start) / (steps - 1)
    first, last = np.float32(start), np.float32(end)
    return float(first), float(last), float((last - first) / np.float32(steps - 1))


@creates(_spaced)
def linspace(
    start: Number | Tensor, end: Number | Tensor, steps: int, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced numbers from `start` to `end`, both included.

    Args:
        dtype: by default the default float dtype, complex if a bound is.
        pin_memory: has no effect.
    Shape: start, end () if they are tensors; result (steps).
    Raises:
        TypeError: when `steps` is not an integer.
        RuntimeError: when `steps` is negative, a bound has dimensions or does not fit in `dtype`, or complex bounds meet a real
            `dtype`.

    >>> import tdt
    >>> tdt.linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if dtype is out is device is None and not requires_grad and (make := _spaced(start, end, steps)) is not None:
        return _recorded(_finished(make(), False))
    (start, end), steps = _ends("linspace", start, end, steps), integer(steps)
    dtype = out.dtype if dtype is None and out is not None else dtype
    has_complex = isinstance(start, complex) or isinstance(end, complex)
    if dtype is not None and has_complex and not dtype.is_complex:
        raise RuntimeError(f"linspace(): inferred a complex dtype, which can't be safely cast to passed dtype {dtype}")
    if dtype is None:
        dtype = _dtype.get_default_dtype().to_complex() if has_complex else _dtype.get_default_dtype()
    _dtype.check_category("linspace", _dtype.NUMBERS, dtype)
    start, end = (fill_number(v, dtype, "linspace()")[0] if n < steps else 0 for n, v in enumerate((start, end)))
    if dtype.category == _dtype.INT:
        start, end = int(start), int(end)
    # From both ends towards the middle, so that the numbers are symmetric.
    with current(target := as_device(device)), np.errstate(over="ignore", invalid="ignore"):
        xp, half = on(target), steps // 2
        values = xp.empty(steps, dtype.np)
        if steps > 1:
            start, end, step = _bounds_and_step(start, end, steps, dtype)
            values[:half] = (start + step * xp.arange(half)).astype(dtype.np)
            values[half:] = (end - step * xp.arange(steps - 1 - half, -1, -1)).astype(dtype.np)
        else:
            values[...] = start
        created = _finished(values, requires_grad, device)
    return _recorded(created) if out is None else _filled(out, created)


def _ends(name: str, start: Any, end: Any, steps: Any) -> tuple[Any, Any]:
    """The end points of `linspace` and `logspace` as Python numbers; PyTorch's errors for invalid ones."""
    if not hasattr(steps, "__index__"):
        got = ", ".join(type(v).__name__ for v in (start, end, steps))
        raise TypeError(f"{name}() received an invalid combination of arguments - got ({got}), but steps must be int")
    if operator.index(steps) < 0:
        raise RuntimeError("number of steps must be non-negative")
    if dims := [(w, v.ndim) for w, v in (("start", start), ("end", end)) if isinstance(v, Tensor) and v.ndim]:
        got = " and ".join(f"{which} with {n} dimension(s)" for which, n in dims)
        raise RuntimeError(f"linspace only supports 0-dimensional start and end tensors, but got {got}.")
    return tuple(v.item() if isinstance(v, Tensor) else v for v in (start, end))  # type: ignore[return-value]


@front
def logspace(
    start: Number | Tensor, end: Number | Tensor, steps: int, base: float = 10.0, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """`base` to the power of `steps` evenly spaced exponents from `start` to `end`.

    Args:
        dtype: by default the default float dtype.
        pin_memory: has no effect.
    Shape: start, end () if they are tensors; result (steps).
    Raises:
        TypeError: when `steps` is not an integer.
        RuntimeError: when `steps` is negative or a bound has dimensions.

    >>> import tdt
    >>> tdt.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    target = (_dtype.get_default_dtype() if out is None else out.dtype) if dtype is None else dtype
    _dtype.check_category("logspace", _dtype.NUMBERS, target)
    start, end = _ends("logspace", start, end, steps)
    if target.category < _dtype.FLOAT:
        start, end = int(start), int(end)  # type: ignore[arg-type]
    where = CPU if as_device(device) == META else device
    exponents = linspace(
        start, end, steps, dtype=_dtype.complex128 if target.is_complex else _dtype.float64, device=where
    )._a
    with current(as_device(where)):
        created = _finished((float(base) ** exponents).astype(target.np), requires_grad, device)
    return _recorded(created) if out is None else _filled(out, created)


@front
def eye(
    n: int, m: int | None = None, *, out: Tensor | None = None,
    dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """The matrix with ones on the diagonal and zeros elsewhere.

    Args:
        m: number of columns, by default `n`.
        pin_memory: has no effect.
    Shape: result (n, m).
    Raises:
        RuntimeError: when `n` or `m` is negative.

    >>> import tdt
    >>> tdt.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    m = n if m is None else m
    for name, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    if out is device is None and as_device(None) is CPU:
        array = np.zeros((n, m), (_dtype.get_default_dtype() if dtype is None else dtype).np)
        array.reshape(-1)[: min(n, m) * m : m + 1] = 1
        return _recorded(_finished(array, requires_grad))
    created = _finished(
        on(as_device(device)).eye(n, m, dtype=(_dtype.get_default_dtype() if dtype is None else dtype).np),
        requires_grad,
        device,
    )
    return _recorded(created) if out is None else _into(out, created)


def _triangle_indices(name: str, row: int, col: int, offset: int, dtype: Dtype, device: Device) -> Tensor:
    _dtype.check_category(name, frozenset((_dtype.int32, _dtype.int64)), dtype)
    if row < 0 or col < 0:
        which, n = ("row", row) if row < 0 else ("col", col)
        raise RuntimeError(f"{which} must be non-negative, got {n}")
    with current(target := as_device(device)):
        xp = on(target)
        if xp is np:
            rows, columns = np.arange(row)[:, None] + offset, np.arange(col)
            inside = rows >= columns if name == "tril_indices" else rows <= columns
            return _recorded(wrap(np.array(inside.nonzero(), dtype.np)))
        return _recorded(wrap(xp.stack(getattr(xp, name)(row, offset, col)).astype(dtype.np)))


@front
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Dtype = _dtype.int64, device: Device = None,
    layout: Layout | None = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Indices of the elements in the lower triangle of a matrix of `row` rows and `col` columns.

    Args:
        offset: the triangle's edge: 0 is the main diagonal, 1 the diagonal above it.
        layout, pin_memory: have no effect.
    Shape: result (2, number of elements): row indices, then column indices.
    Raises:
        RuntimeError: when `row` or `col` is negative, or `requires_grad` is set, as these are integers.
        NotImplementedError: when `dtype` is not int32 or int64.

    >>> import tdt
    >>> tdt.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _triangle_indices("tril_indices", row, col, offset, dtype, device).requires_grad_(requires_grad)


@front
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Dtype = _dtype.int64, device: Device = None,
    layout: Layout | None = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Indices of the elements in the upper triangle of a matrix of `row` rows and `col` columns.

    Args:
        offset: the triangle's edge: 0 is the main diagonal, 1 the diagonal above it.
        layout, pin_memory: have no effect.
    Shape: result (2, number of elements): row indices, then column indices.
    Raises:
        RuntimeError: when `row` or `col` is negative, or `requires_grad` is set, as these are integers.
        NotImplementedError: when `dtype` is not int32 or int64.

    >>> import tdt
    >>> tdt.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _triangle_indices("triu_indices", row, col, offset, dtype, device).requires_grad_(requires_grad)
