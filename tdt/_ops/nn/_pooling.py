"""Helpers of pooling: number of windows, padding, arguments."""

from __future__ import annotations

import functools
from typing import Any

from tdt._backend.layout import empty_output
from tdt._backend.windows import output_sizes
from tdt._core.calls import is_empty
from tdt._core.mode import state
from tdt._core.tensor import Tensor
from tdt._ops._common import at_once
from tdt._ops.nn._windows import tuple_of


@functools.lru_cache(1024)
def full_size(size: tuple, out: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> tuple:
    """The input's spatial size with its borders, far enough for the last window."""
    return tuple(max(n + 2 * p, (o - 1) * s + d * (k - 1) + 1)
                 for n, o, k, s, p, d in zip(size, out, kernel, stride, padding, dilation, strict=True))  # fmt: skip


def framed(xp: Any, x: Any, full: tuple, padding: tuple, fill: Any) -> Any:
    """`x` at offset `padding` in an array of spatial size `full` that is filled with `fill`."""
    if full == x.shape[2:]:
        return x
    frame = empty_output(xp, (*x.shape[:2], *full), x.dtype, x)
    frame[...] = fill
    frame[place(x.shape[2:], padding)] = x
    return frame


@functools.lru_cache(1024)
def place(size: tuple, padding: tuple) -> tuple:
    return (slice(None), slice(None), *(slice(p, p + n) for n, p in zip(size, padding, strict=True)))


def window_of(name: str, nd: int, input: Tensor, **sizes: Any) -> tuple[bool, Tensor, list[tuple[int, ...]]]:
    """Check and spell out the arguments of a pooling: (is unbatched, batched input, [kernel, stride, padding, …])."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if sizes["stride"] is None or is_empty(sizes["stride"]):
        sizes["stride"] = sizes["kernel_size"]
    values = []
    for what, value in sizes.items():
        try:
            values.append(tuple_of(value, nd, what))
        except RuntimeError as error:
            raise RuntimeError(
                f"{name}: {what} must either be a single int, or a tuple of {nd} ints, but got {value}"
            ) from error
    _check_window(name, *values)
    shape = input._a.shape
    single = len(shape) == nd + 1
    if (not single and len(shape) != nd + 2) or 0 in shape[0 if single else 1 :]:
        raise RuntimeError(f"{name}: non-empty {nd + 1}D or {nd + 2}D (batch mode) tensor expected for input, "
                           f"but got size {list(shape)}")  # fmt: skip
    return single, input.unsqueeze(0) if single else input, values


@functools.lru_cache(1024)
def _check_window(name: str, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple | None = None) -> None:
    """RuntimeError for a window that cannot be; a window that passed once is not checked again."""
    dilation = dilation or (1,) * len(kernel)
    for what, numbers, words in (
        ("kernel_size", kernel, "kernel size should be greater than zero"),
        ("stride", stride, "stride should not be zero"),
        ("dilation", dilation, "dilation should be greater than zero"),
    ):
        if min(numbers) <= 0:
            words = f"max_pool1d() {what} must be greater than zero" if name == "max_pool1d" else words
            raise RuntimeError(f"{words}, but got {min(numbers)}")
    if max(*kernel, *padding, *dilation, *(stride if name != "max_pool1d" else ())) >= 2**31:
        raise RuntimeError("value cannot be converted to type int without overflow")
    if min(padding) < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {min(padding)}")
    for k, p, d in zip(kernel, padding, dilation, strict=True):
        if p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and dilation={d}"
            )
        if p > k // 2:
            raise RuntimeError(
                f"pad should be smaller than or equal to half of kernel size, but got pad={p} and kernel_size={k}"
            )


def plain_windows(nd: int, input: Any, kernel: Any, stride: Any, padding: Any, dilation: Any,
                  ceil_mode: bool) -> dict[str, Any] | None:  # fmt: skip
    """The attributes of a pooling of a batch by `record_results`; None where arguments have to be checked first."""
    try:
        if not at_once(input) or input._a.ndim != nd + 2 or (nd == 3 and state.handler is not None):
            return None
        return _windows(nd, input._a.shape, kernel, stride, padding, dilation, ceil_mode)
    except (AttributeError, TypeError):  # no tensor, or lists
        return None


@functools.lru_cache(1024, typed=True)
def _windows(nd: int, shape: tuple, kernel: Any, stride: Any, padding: Any, dilation: Any,
             ceil_mode: bool) -> dict[str, Any] | None:  # fmt: skip
    """Attributes for images of a shape; None for windows that cannot be."""
    values = {"kernel": kernel, "stride": kernel if stride is None or is_empty(stride) else stride, "padding": padding,
              "dilation": dilation}  # fmt: skip
    try:
        how: dict[str, Any] = {what: tuple_of(value, nd, what) for what, value in values.items()}
        _check_window("", *how.values())
    except (RuntimeError, TypeError):
        return None
    out = output_sizes(shape[2:], *how.values(), ceil_mode)
    return {**how, "ceil_mode": ceil_mode} if all(shape) and min(out) > 0 else None


def check_size(x: Tensor, shape: tuple) -> None:
    if min(shape[2:]) < 1:
        input_size, output_size = ("x".join(map(str, s[1:])) for s in (x.shape, shape))
        raise RuntimeError(
            f"Given input size: ({input_size}). Calculated output size: ({output_size}). Output size is too small"
        )


def adaptive_size(name: str, nd: int, input: Tensor, output_size: Any) -> tuple[int, ...]:
    """The output size of an adaptive pooling in each dimension; None is the input's size."""
    if nd > 1 and isinstance(output_size, (tuple, list)) and input.ndim <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}; {name} got {list(input.shape)}")
    if input.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(f"{name}(): Expected {nd + 1}D or {nd + 2}D tensor, but got: {list(input.shape)}")
    requested = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * nd
    if len(requested) != nd:
        raise RuntimeError(f"{name}(): output_size.size() must be {nd}, but got {output_size}")
    out = tuple([n if w is None else int(w) for n, w in zip(input._a.shape[-nd:], requested, strict=True)])
    if out and min(out) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received {list(out)}"
        )
    return out
