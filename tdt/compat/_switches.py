"""PyTorch's process-wide settings. Where tdt has only one behaviour, a setting is stored without effect or raises an error.

Results are deterministic with all settings: kernels are selected by shape, dtype and device, and their results are
bit-identical for any number of threads.
"""

from __future__ import annotations

import warnings

from tdt._kernels import allow_tf32
from tdt._kernels._pool import get_num_threads

__all__ = [
    "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
    "get_float32_matmul_precision", "get_num_interop_threads", "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode", "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads",
    "use_deterministic_algorithms",
]  # fmt: skip

PRECISIONS = ("highest", "high", "medium")
DEBUG_MODES = ("default", "warn", "error")

_precision = "highest"
_debug_mode = 0
_warn_only = False
_interop_threads: int | None = None


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Set whether operations must use deterministic algorithms. It changes no result: all operations of tdt are deterministic.

    Args:
        mode: whether an operation that has no deterministic algorithm should raise RuntimeError.
        warn_only: it should warn instead. Both are stored, and `get_deterministic_debug_mode` returns them as one number.
    Raises:
        TypeError: when `mode` is not a bool.

    >>> import tdt
    >>> tdt.use_deterministic_algorithms(True, warn_only=True)
    >>> tdt.get_deterministic_debug_mode()
    1
    >>> tdt.use_deterministic_algorithms(False)
    """
    global _debug_mode, _warn_only
    if not isinstance(mode, bool):
        raise TypeError(f"use_deterministic_algorithms(): argument 'mode' must be bool, not {type(mode).__name__}")
    _debug_mode, _warn_only = 0 if not mode else 1 if warn_only else 2, warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms(True)` was called last.

    >>> import tdt
    >>> tdt.are_deterministic_algorithms_enabled()
    False
    """
    return _debug_mode > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether `use_deterministic_algorithms` was called with warn_only=True.

    >>> import tdt
    >>> tdt.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set `use_deterministic_algorithms` by number or name: 0 "default", 1 "warn", 2 "error".

    Raises:
        TypeError: when `debug_mode` is neither a string nor an integer.
        RuntimeError: when it is another string or number.

    >>> import tdt
    >>> tdt.set_deterministic_debug_mode("default")
    """
    global _debug_mode, _warn_only
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in DEBUG_MODES:
            raise RuntimeError(
                f"invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got {debug_mode}"
            )
        debug_mode = DEBUG_MODES.index(debug_mode)
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    _debug_mode, _warn_only = debug_mode, debug_mode == 1


def get_deterministic_debug_mode() -> int:
    """How `use_deterministic_algorithms` is set, as a number.

    Returns: 0 if it is off, 1 if operations without a deterministic algorithm should warn, 2 if they should raise an error.

    >>> import tdt
    >>> tdt.get_deterministic_debug_mode()
    0
    """
    return _debug_mode


def set_float32_matmul_precision(precision: str) -> None:
    """Set how products of float32 matrices are computed on a GPU: "highest" in float32, "high" and "medium" in TF32.

    TF32 rounds the operands to ten bits of the mantissa and sums in float32, several times as fast. Products on the CPU are
    float32 in each; `tdt.backends.cudnn.allow_tf32` is the switch of convolutions. Warns about another value.

    >>> import tdt
    >>> tdt.set_float32_matmul_precision("highest")
    """
    global _precision
    if precision in PRECISIONS:
        _precision = precision
        allow_tf32(precision != "highest")
    else:
        warnings.warn(f"{precision} is not one of 'highest', 'high', or 'medium'; nothing is changed", stacklevel=2)


def get_float32_matmul_precision() -> str:
    """The precision that `set_float32_matmul_precision` set.

    >>> import tdt
    >>> tdt.get_float32_matmul_precision()
    'highest'
    """
    return _precision


def set_flush_denormal(mode: bool) -> bool:
    """Return False: tdt does not support flushing subnormal numbers to zero.

    >>> import tdt
    >>> tdt.set_flush_denormal(True)
    False
    """
    return False


def set_num_interop_threads(num: int) -> None:
    """Store the number that `get_num_interop_threads` returns; no other effect, as tdt runs one operation at a time.

    Raises:
        RuntimeError: when `num` is below 1, or the number was set before.

    >>> import tdt
    >>> tdt.set_num_interop_threads(0)
    Traceback (most recent call last):
    RuntimeError: set_num_interop_threads expects a positive integer, got 0
    """
    global _interop_threads
    if num < 1:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, got {num}")
    if _interop_threads is not None:
        raise RuntimeError("Error: cannot set number of interop threads after set_num_interop_threads called")
    _interop_threads = num


def get_num_interop_threads() -> int:
    """The number stored by `set_num_interop_threads`; by default the number of threads of an operation.

    >>> import tdt
    >>> tdt.get_num_interop_threads() > 0
    True
    """
    return _interop_threads or get_num_threads()
