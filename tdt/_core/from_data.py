"""Arrays from nested sequences of numbers, arrays and tensors, and the dtype they imply."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import as_device, device
from tdt._core import dtype as _dtype
from tdt._core.dtype import dtype as Dtype
from tdt._core.float8 import KINDS, astype
from tdt._core.tensor import Tensor

_NUMBERS = frozenset((float, int, bool))


def infer_dtype(data: Any, first: bool = True) -> Dtype | None:
    """The dtype of nested sequences of numbers and tensors; None if they have no element.

    RuntimeError for an element that is not a number.
    """
    if isinstance(data, Tensor):
        return data.dtype
    if isinstance(data, (np.ndarray, np.generic)):
        return _dtype.of(data.dtype)
    if isinstance(data, (bool, np.bool_)):
        return _dtype.bool
    if isinstance(data, int):
        return _dtype.int64
    if isinstance(data, float):
        return _dtype.get_default_dtype()
    if isinstance(data, complex):
        return _dtype.get_default_dtype().to_complex()
    if _is_sequence(data):
        found = None
        for i, item in enumerate(data):
            kind = infer_dtype(item, first and i == 0)
            if kind is not None:
                found = kind if found is None else _dtype.promote_types(found, kind)
        return found
    if isinstance(data, (str, bytes)):  # PyTorch takes the one it comes to first for a sequence
        raise ValueError("too many dimensions 'str'") if first else _no_number(data)
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


def _no_number(data: Any) -> TypeError:
    return TypeError(f"new(): invalid data type '{type(data).__name__}'")


def _is_sequence(data: Any) -> bool:
    return isinstance(data, (list, tuple, Sequence, memoryview)) and not isinstance(data, (str, bytes))


def _plain(data: Any, depth: int = 0) -> Any:
    """Convert nested sequences of arrays and tensors to nested lists of numbers."""
    if data.__class__ in _NUMBERS:
        return data
    if isinstance(data, Tensor):
        if depth and data.numel() != 1:
            raise ValueError(f"only one element tensors can be converted to Python scalars, not one of {data.shape}")
        return data.item() if depth else data.tolist()
    if isinstance(data, np.ndarray) and data.ndim:
        return data.tolist()
    if _is_sequence(data):
        return [_plain(item, depth + 1) for item in data]
    return data


def array_of(data: Any, dtype: Dtype | None, where: device | None) -> Any:
    """A new array with a copy of `data`."""
    if isinstance(data, Tensor):
        array = _backend.to_device(data._a, where) if where else data._a
        return astype(array, dtype.np if dtype else array.dtype)
    if isinstance(data, (str, bytes)):
        raise _no_number(data)
    if not isinstance(data, (np.ndarray, np.generic)) and hasattr(data, "__cuda_array_interface__"):
        return data.astype(dtype.np) if dtype else _backend.copied(data)
    if isinstance(data, (np.ndarray, np.generic)):
        source = np.asarray(data)
        kind = dtype.np if dtype else _dtype.of(source.dtype).np
        converts = kind in KINDS or source.dtype in KINDS or (kind == np.float16 and source.dtype == np.float64)
        array = np.asarray(astype(source, kind), order="C") if converts else np.array(source, dtype=kind, order="C")
        return _backend.to_device(array, as_device(where))
    kinds = {data.__class__} if data.__class__ in _NUMBERS else _kinds(data)
    if dtype is None:
        dtype = infer_dtype([kind() for kind in kinds] if kinds else data) or _dtype.get_default_dtype()
    if not kinds:
        data = _plain(data)
        _check_regular(data)
    return _backend.to_device(_from_numbers(data, dtype), as_device(where))


def _kinds(data: Any) -> set[type]:
    """The types of the numbers in nested lists; empty for any other data. The fast path of most calls."""
    flat = [data]
    while set(map(type, flat)) == {list}:
        flat = list(chain.from_iterable(flat))
    kinds = set(map(type, flat))
    return kinds if kinds <= _NUMBERS else set()


def _from_numbers(data: Any, dtype: Dtype) -> np.ndarray:
    if dtype in _dtype.FLOAT8 or dtype is _dtype.float16:
        return astype(_from_numbers(data, _dtype.float64), dtype.np)
    try:
        if dtype.category == _dtype.BOOL:
            return np.array(data, dtype=dtype.np)
        array = np.array(data) if dtype.category == _dtype.INT else np.array(data, dtype=dtype.np)
    except OverflowError:
        raise ValueError("Overflow when unpacking long long") from None
    except (ValueError, TypeError) as error:
        _check_regular(data)
        complex_numbers = "complex" in str(error)
        raise TypeError("must be real number, not complex" if complex_numbers else str(error)) from None
    if dtype.category != _dtype.INT or array.dtype == dtype.np:
        return array
    if array.dtype.kind == "c":
        raise TypeError("'complex' object cannot be interpreted as an integer")
    if array.dtype.kind == "O" or (array.dtype == np.uint64 and dtype is not _dtype.uint64):
        raise ValueError("Overflow when unpacking long long")
    if array.size and not _fits(array, dtype):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    return array.astype(dtype.np)


def _fits(values: Any, dtype: Dtype) -> bool:
    """Whether numbers fit an integer dtype; as in PyTorch, negative integers wrap in unsigned dtypes."""
    info = np.iinfo(dtype.np)
    low = -info.max if info.min == 0 and values.dtype.kind != "f" else info.min
    return bool(((values >= low) & (values <= info.max)).all())


def _check_regular(data: Any) -> None:
    """PyTorch's ValueError for nested lists of unequal length; TypeError for elements that are not numbers."""
    shape, first = [], data
    while isinstance(first, list):
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    for item in _leaves(data, shape, 0):
        if not isinstance(item, (bool, int, float, complex, np.generic)):
            raise TypeError(f"must be real number, not {type(item).__name__}")


def _leaves(item: Any, shape: list[int], depth: int) -> Iterator[Any]:
    """The innermost elements of nested lists of the given lengths."""
    if depth == len(shape):
        yield item
        return
    if not isinstance(item, list):
        raise TypeError("not a sequence")
    if len(item) != shape[depth]:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got {len(item)})")
    for sub in item:
        yield from _leaves(sub, shape, depth + 1)


BITS = 1 << 63  # integers below have 64 bits, with either sign
LARGE = 6e4  # every floating-point type of NumPy holds a smaller number


LARGEST = float(np.finfo(np.float32).max)


def fill_number(value: Any, dtype: Dtype | None, what: str) -> tuple[Any, Dtype]:
    """A number to fill with, checked, and the dtype of the result.

    Args:
        value: a Python or NumPy number, or a 0-d tensor.
    Raises:
        TypeError: when `value` is something else.
        OverflowError: for an integer of more than 64 bits.
        RuntimeError: for another number that the dtype does not hold.
    """
    if (
        value.__class__ is float
        and (dtype or _dtype.get_default_dtype()) is _dtype.float32
        and -LARGEST <= value <= LARGEST
    ):
        return value, _dtype.float32
    if value.__class__ is int and (dtype is None or dtype is _dtype.int64) and -(2**63) <= value < 2**63:
        return value, _dtype.int64
    if isinstance(value, Tensor) and not value._a.ndim and not value.requires_grad:
        dtype, value = dtype or value.dtype, value.item()
    if not isinstance(value, (bool, int, float, complex, np.number, np.bool_)):
        raise TypeError(f"{what} must be Number, not {type(value).__name__}")
    value = value.item() if isinstance(value, np.generic) else value
    dtype = dtype or infer_dtype(value) or _dtype.get_default_dtype()
    if isinstance(value, int):
        check_bits(value)
    if not _holds(dtype, value):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    if dtype is _dtype.bool:
        value = value != 0
    elif isinstance(value, complex) and dtype.category < _dtype.COMPLEX:
        value = value.real
    elif dtype is _dtype.bfloat16:  # which NumPy converts no integer of 64 bits to
        value = float(value)
    return value, dtype


def held(value: Any, dtype: Dtype, wide: bool = False) -> Any:
    """A number as elements of a dtype have it: truncated where these are integers, wrapped where they have no sign.

    Args:
        wide: whether it is computed with in float32 where elements are of half precision.
    Raises: what `fill_number` does.
    """
    kind = dtype.np.kind
    if value.__class__ is float and kind == "f" and -LARGE < value < LARGE:
        return value
    if wide and dtype.category == _dtype.FLOAT and dtype.itemsize == 2:
        dtype = _dtype.float32
    number = fill_number(value, dtype, "value")[0]
    return np.asarray(number).astype(dtype.np).item() if kind in "iu" else number


def check_numbers(values: Iterable[Any]) -> None:
    """`check_bits` of the integers among some values."""
    for value in values:
        if value.__class__ is int and not -BITS < value < BITS:
            check_bits(value)


def check_bits(value: int) -> None:
    """OverflowError for an integer that neither int64 nor uint64 holds."""
    if not -(2**63) <= value < 2**64:
        raise OverflowError("int too big to convert" if value > 0 else "can't convert negative int to unsigned")


def _holds(dtype: Dtype, value: Any) -> bool:
    if dtype.category == _dtype.BOOL:
        return True
    if isinstance(value, complex):
        if dtype.category == _dtype.COMPLEX:
            return _holds(dtype, value.real) and _holds(dtype, value.imag)
        return value.imag == 0 and _holds(dtype, value.real)
    if dtype.category == _dtype.INT:
        return _fits(np.asarray(value if isinstance(value, float) else int(value)), dtype)
    return abs(value) <= _largest(dtype) or value != value or abs(value) == float("inf")


@functools.cache
def _largest(dtype: Dtype) -> float:
    return _dtype.finfo(dtype).max
