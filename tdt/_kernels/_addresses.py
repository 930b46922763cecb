"""Addresses of arrays and of functions, through ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

# The offset of the data pointer in an array object, which NumPy's C API guarantees. `__array_interface__` and `ctypes`
# take six times as long.
ADDRESS = object.__basicsize__
from_address = ctypes.c_size_t.from_address


def address_of(array: np.ndarray) -> int:
    """The address of the first element."""
    return from_address(id(array) + ADDRESS).value


def function_address(capsule: Any, place: int) -> int:
    """The address of a function of a table of NumPy's C API by its place there."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return from_address(pointer(capsule, None) + 8 * place).value


def c_function(capsule: Any, place: int, *kinds: Any) -> Any:
    """The function at a place of a table of NumPy's C API; it returns an object of Python's."""
    return ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(function_address(capsule, place))
