"""Whether a tdt result is PyTorch's: value, dtype, shape, strides, error class."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import tdt
from tests.parity.convert import DTYPES, Unconvertible, values_of

# The tolerances of torch.testing.assert_close: (relative, absolute).
TOLERANCE = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
             "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7)}  # fmt: skip
BY_DTYPE = {d.np: TOLERANCE.get(d.name, (0.0, 0.0)) for d in DTYPES.values()}


def difference(ours: Any, theirs: Any, values: bool = True) -> str | None:
    """What differs between a tdt and a PyTorch result, nested ones included; None where they agree.

    values=False compares dtypes and shapes alone, for results such as `empty` that have no defined values.
    """
    if isinstance(theirs, torch.Tensor):
        return _tensor_difference(ours, theirs, values)
    if isinstance(theirs, dict):
        pairs = [(ours.get(k), v) for k, v in theirs.items()] if isinstance(ours, dict) else None
    elif isinstance(theirs, list | tuple):
        pairs = list(zip(ours, theirs)) if isinstance(ours, list | tuple) and len(ours) == len(theirs) else None  # noqa: B905
    else:
        return _plain_difference(ours, theirs)
    if pairs is None:
        return f"tdt gives {_brief(ours)}, PyTorch {_brief(theirs)}"
    for i, (a, b) in enumerate(pairs):
        text = difference(a, b, values)
        if text:
            return f"result {i}: {text}"
    return None


def gradient_difference(ours: tuple, theirs: tuple) -> str | None:
    """`difference` of gradients, where None and zeros are the same answer: no influence."""
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a is None and b is None:
            continue
        a = tdt.zeros(b.shape, dtype=DTYPES[b.dtype]) if a is None else a
        text = difference(a, torch.zeros_like(torch.from_numpy(a.detach()._a)) if b is None else b)
        if text:
            return f"of argument {i}: {text}"
    return None


def _tensor_difference(ours: Any, theirs: torch.Tensor, values: bool) -> str | None:
    if not isinstance(ours, tdt.Tensor):
        return f"tdt gives {_brief(ours)}, PyTorch a tensor of {theirs.dtype} {tuple(theirs.shape)}"
    if str(ours.layout).partition(".")[2] != str(theirs.layout).partition(".")[2]:
        return f"layout: tdt {ours.layout}, PyTorch {theirs.layout}"
    if theirs.layout is not torch.strided:
        return _tensor_difference(ours.to_dense(), theirs.to_dense(), values)
    if theirs.dtype not in DTYPES:
        raise Unconvertible(f"dtype {theirs.dtype}")
    if ours.dtype is not DTYPES[theirs.dtype]:
        return f"dtype: tdt {ours.dtype}, PyTorch {theirs.dtype}"
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"shape: tdt {tuple(ours.shape)}, PyTorch {tuple(theirs.shape)}"
    if not values:
        return None
    a, b = ours._a, values_of(theirs)
    if a.dtype != b.dtype:
        return f"dtype of the array: tdt {a.dtype}, PyTorch {b.dtype}"
    if (a == b).all():
        return None
    wrong = disagreeing(a, b, *BY_DTYPE[a.dtype])
    if not wrong.any():
        return None
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"value at {list(where)}: tdt {a[where]!r}, PyTorch {b[where]!r} ({int(wrong.sum())} of {a.size} differ)"


def disagreeing(a: np.ndarray, b: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Where `a` is farther from `b` than `atol + rtol·|b|`; NaN agrees with NaN, an infinity with itself."""
    if a.dtype.kind in "biu":
        return a != b
    if a.dtype.kind not in "fc" or a.dtype.itemsize == 2:
        a, b = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        near = (a == b) | (np.abs(a - b) <= atol + rtol * np.abs(b))
        if a.dtype.kind == "c":
            return ~(near | (_same_special(a.real, b.real) & _same_special(a.imag, b.imag)))
        return ~(near & ~(np.isinf(b) & (a != b)) | (np.isnan(a) & np.isnan(b)))


def _same_special(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a == b) | (np.isnan(a) & np.isnan(b)) | (np.isfinite(a) & np.isfinite(b) & (abs(a - b) <= 1e-5 * abs(b)))


def as_accurate(ours: Any, theirs: Any, exact: Any) -> bool:
    """Whether tdt's largest error is within twice PyTorch's (plus one rounding) of a double-precision result.

    Decides where two orders of summation differ by more than the tolerances: neither library is then the truth.
    """
    if isinstance(theirs, list | tuple):
        return all(as_accurate(*each) for each in zip(ours, theirs, exact, strict=True))
    if not isinstance(theirs, torch.Tensor) or not (theirs.is_floating_point() or theirs.is_complex()):
        return difference(ours, theirs) is None
    promoted = np.complex128 if theirs.is_complex() else np.float64
    a, b, e = ours.detach()._a.astype(promoted), values_of(theirs).astype(promoted), values_of(exact).astype(promoted)
    if a.shape != e.shape or not (np.isfinite(b) == np.isfinite(a)).all():
        return False
    sure = np.isfinite(a) & np.isfinite(e)
    a, b, e = a[sure], b[sure], e[sure]
    eps = float(torch.finfo(theirs.dtype).eps)
    return bool(np.abs(a - e).max(initial=0) <= 2 * np.abs(b - e).max(initial=0) + eps * np.abs(e).max(initial=0))


def _plain_difference(ours: Any, theirs: Any) -> str | None:
    if isinstance(theirs, torch.dtype):
        return None if ours is DTYPES.get(theirs) else f"tdt {ours}, PyTorch {theirs}"
    if isinstance(theirs, float | complex) and isinstance(ours, float | complex):
        same = not disagreeing(np.asarray(ours), np.asarray(theirs), 1e-6, 1e-12).any()
    else:
        same = type(ours) is type(theirs) and ours == theirs
    return None if same else f"tdt gives {_brief(ours)}, PyTorch {_brief(theirs)}"


def _brief(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) < 120 else text[:117] + '...'}"


def strides_of(x: Any) -> tuple[int, ...] | None:
    """Strides in elements of the dimensions that have more than one index; None for an empty tensor."""
    if 0 in x.shape:
        return None
    return tuple(s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1)


def error_difference(ours: BaseException | None, theirs: BaseException | None) -> str | None:
    """What differs between how two calls failed: the class must be the same, or a subclass on our side."""
    if theirs is None and ours is None:
        return None
    if theirs is None:
        return f"tdt raises {describe(ours)}, PyTorch does not"
    if ours is None:
        return f"PyTorch raises {describe(theirs)}, tdt does not"
    expected = builtin_class(theirs)
    if isinstance(ours, expected) or (expected is NotImplementedError and isinstance(ours, RuntimeError)):
        return None
    return f"tdt raises {describe(ours)}, PyTorch {describe(theirs)}"


def builtin_class(error: BaseException) -> type[BaseException]:
    """The first builtin class among the error's bases: what `except` clauses of users name."""
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


def first_clause(error: BaseException) -> str:
    """The error's first words, up to the first mark of punctuation that ends a clause."""
    text = str(error).strip().replace("tdt.", "torch.")
    for mark in ("\n", ". ", ": ", "; ", ", "):
        text = text.partition(mark)[0]
    return text.rstrip(".:;,")


def describe(error: BaseException | None) -> str:
    """Class and first line of an error."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"
