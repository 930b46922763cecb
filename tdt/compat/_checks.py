"""`torch._check` and its relatives: conditions that raise an error of a given class.

>>> from tdt.compat._checks import _check
>>> _check(1 + 1 == 2, lambda: "wrong sum")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt._core.tensor import Tensor

__all__ = ["_assert_async", "_check", "_check_index", "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with",
           "_check_type", "_check_value", "_check_with"]  # fmt: skip

Message = Callable[[], Any] | None


def _check_with(error_type: type[Exception], cond: bool, message: Message = None) -> None:
    """Raise `error_type` with the text that `message` returns unless `cond` is True; TypeError if it is no bool."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise error_type("Expected cond to be True, but got False." if message is None else str(message()))


def _check(cond: bool, message: Message = None) -> None:
    """RuntimeError unless `cond` is True."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Message = None) -> None:
    """IndexError unless `cond` is True."""
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Message = None) -> None:
    """ValueError unless `cond` is True."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Message = None) -> None:
    """TypeError unless `cond` is True."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Message = None) -> None:
    """NotImplementedError unless `cond` is True."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: Message = None) -> None:
    """Raise `error_type` unless all elements of the bool tensor `cond` are True."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor, message: Message = None) -> None:
    """RuntimeError unless all elements of the bool tensor `cond` are True."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """RuntimeError unless the one element of `input` is nonzero."""
    if not input.item():
        raise RuntimeError(assert_msg)
