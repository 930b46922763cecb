"""`assert_close`: compares nested containers of tensors and numbers, and reports where they differ."""

from __future__ import annotations

import cmath
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tdt import Tensor
from tdt._core import dtype as _dtype
from tdt._core.creation import as_tensor, tensor

# Default (rtol, atol) by dtype; values of other dtypes must be equal.
TOLERANCES = {
    _dtype.float16: (1e-3, 1e-5), _dtype.bfloat16: (1.6e-2, 1e-5), _dtype.float32: (1.3e-6, 1e-5),
    _dtype.float64: (1e-7, 1e-7), _dtype.complex64: (1.3e-6, 1e-5), _dtype.complex128: (1e-7, 1e-7),
}  # fmt: skip
OLD_TOLERANCES = {_dtype.float16: (1e-3, 1e-3), _dtype.float32: (1e-4, 1e-5), _dtype.float64: (1e-5, 1e-8)}
_OF_NUMBERS = {int: _dtype.int64, float: _dtype.float64, complex: _dtype.complex128}
_UNSIGNED = (_dtype.uint16, _dtype.uint32, _dtype.uint64)

Message = str | Callable[[str], str] | None
Place = tuple[Any, ...]


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
    check_stride: bool = False, msg: Message = None,
) -> None:  # fmt: skip
    """AssertionError unless |actual - expected| <= atol + rtol · |expected| everywhere; equal infinities are close.

    Args:
        actual, expected: tensors, NumPy arrays, numbers, bools, None, or sequences and mappings of these. Shapes must be
            equal, and the attributes that the check_ arguments name.
        rtol, atol: give both or none. Default: by dtype, and for two dtypes the larger: float64 1e-7 and 1e-7, float32
            1.3e-6 and 1e-5, float16 1e-3 and 1e-5, bfloat16 1.6e-2 and 1e-5, complex dtypes as their real parts, integers
            and bools 0.
        msg: message of the error, or a function from the default message to the message.
    Raises:
        AssertionError: when the values differ.
        TypeError: when actual and expected are of different kinds.
        ValueError: when only one of rtol and atol is given.

    >>> import tdt
    >>> tdt.testing.assert_close(tdt.tensor([1.0, 2.0]), tdt.tensor([1.0, 2.0 + 1e-6]))
    >>> tdt.testing.assert_close({"a": 1.0}, {"a": 1.5})
    Traceback (most recent call last):
        ...
    AssertionError: Scalars are not close!
    <BLANKLINE>
    Expected 1.5 but got 1.0.
    Absolute difference: 0.5 (up to 1e-07 allowed)
    Relative difference: 0.3333333333333333 (up to 1e-07 allowed)
    <BLANKLINE>
    The failure occurred for item ['a']
    """
    __tracebackhide__ = True  # pytest then shows the line that called
    how = _Rules(allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride)
    # Build all pairs first: errors for types that cannot be compared come before differences.
    for place, compare in list(_pairs(actual, expected, how, ())):
        if wrong := compare():
            wrong += _at(place)
            raise AssertionError(wrong if msg is None else msg(wrong) if callable(msg) else msg)


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = True,
    msg: str = "",
) -> None:  # fmt: skip
    """Deprecated form of `assert_close`: converts to tensors, ignores dtypes, NaN equals NaN, larger default tolerances.

    >>> import warnings, tdt
    >>> with warnings.catch_warnings(action="ignore"):
    ...     tdt.testing.assert_allclose(tdt.ones(2), [1, 1.00001])
    """
    __tracebackhide__ = True
    warnings.warn("assert_allclose() is deprecated; use tdt.testing.assert_close()", FutureWarning, stacklevel=2)
    a = actual if isinstance(actual, Tensor) else tensor(actual)
    b = expected if isinstance(expected, Tensor) else tensor(expected, dtype=a.dtype)
    if rtol is None and atol is None:
        rtol, atol = map(max, zip(*(OLD_TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (a, b)), strict=True))
    assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


@dataclass
class _Rules:
    """The arguments of `assert_close`."""

    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    device: bool
    dtype: bool
    layout: bool
    stride: bool

    def tolerances(self, place: Place, *dtypes: Any) -> tuple[float, float]:
        if (self.rtol is None) != (self.atol is None):
            missing = "rtol" if self.rtol is None else "atol"
            raise ValueError(
                f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}.{_at(place)}"
            )
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        rtols, atols = zip(*(TOLERANCES.get(d, (0.0, 0.0)) for d in dtypes), strict=True)
        return max(rtols), max(atols)


def _at(place: Place) -> str:
    return f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in place)}" if place else ""


def _pairs(a: Any, b: Any, how: _Rules, place: Place) -> Iterator[tuple[Place, Callable[[], str | None]]]:
    """Each pair of leaves: its path, and a function that returns the message if they differ."""
    if all(isinstance(x, Sequence) and not isinstance(x, str) for x in (a, b)):
        if len(a) != len(b):
            raise AssertionError(f"The length of the sequences mismatch: {len(a)} != {len(b)}{_at(place)}")
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _pairs(x, y, how, (*place, i))
    elif isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.keys() != b.keys():
            missing, more = sorted(b.keys() - a.keys(), key=repr), sorted(a.keys() - b.keys(), key=repr)
            raise AssertionError(
                f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {more}{_at(place)}"
            )
        for key in sorted(a, key=repr):
            yield from _pairs(a[key], b[key], how, (*place, key))
    else:
        yield place, _leaf(a, b, how, place)


def _leaf(a: Any, b: Any, how: _Rules, place: Place) -> Callable[[], str | None]:
    if a is None or b is None:
        return lambda: None if a is b else f"None mismatch: {a} is not {b}"
    truths = [isinstance(x, bool | np.bool_) for x in (a, b)]
    if all(truths):
        return lambda: None if bool(a) is bool(b) else f"Booleans mismatch: {a} is not {b}"
    if not any(truths) and all(isinstance(x, int | float | complex | np.number) for x in (a, b)):
        x, y = (v.item() if isinstance(v, np.number) else v for v in (a, b))
        tolerances = how.tolerances(
            place, *(next(d for t, d in _OF_NUMBERS.items() if isinstance(v, t)) for v in (x, y))
        )
        return lambda: _numbers_differ(x, y, how, *tolerances)
    related = type(a) is type(b) or (how.allow_subclasses and (isinstance(a, type(b)) or isinstance(b, type(a))))
    if related and all(isinstance(x, Tensor | np.ndarray) for x in (a, b)):
        s, t = as_tensor(a).detach(), as_tensor(b).detach()
        tolerances = how.tolerances(place, s.dtype, t.dtype)
        return lambda: _attributes_differ(s, t, how) or _tensors_differ(s, t, how, *tolerances)
    raise TypeError(
        f"No comparison pair was able to handle inputs of type {type(a)} and {type(b)}: both must be tensors, arrays, "
        f"numbers, bools or None.{_at(place)}"
    )


def _numbers_differ(a: Any, b: Any, how: _Rules, rtol: float, atol: float) -> str | None:
    if how.dtype and type(a) is not type(b):
        return f"The (d)types do not match: {type(a)} != {type(b)}."
    if a == b or (how.equal_nan and cmath.isnan(a) and cmath.isnan(b)):
        return None
    gap = abs(a - b)
    if cmath.isfinite(gap) and gap <= atol + rtol * abs(b):
        return None
    return _about_numbers("Scalars", a, b, rtol, atol)


def _attributes_differ(a: Tensor, b: Tensor, how: _Rules) -> str | None:
    strided = not a.is_sparse and not b.is_sparse
    for name, x, y, checked in (
        ("shape", a.shape, b.shape, True),
        ("layout", a.layout, b.layout, how.layout),
        ("stride()", strided and a.stride(), strided and b.stride(), how.stride),
        ("device", a.device, b.device, how.device),
        ("dtype", a.dtype, b.dtype, how.dtype),
    ):
        if checked and x != y:
            return f"The values for attribute '{name}' do not match: {x} != {y}."
    return None


def _tensors_differ(a: Tensor, b: Tensor, how: _Rules, rtol: float, atol: float) -> str | None:
    if "meta" in (a.device.type, b.device.type):
        return None
    if a.device != b.device:
        a, b = a.cpu(), b.cpu()
    if a.dtype is not b.dtype:
        # No signed dtype can represent all of uint64; int64 is enough for the comparison.
        common = _dtype.promote_types(*(_dtype.int64 if x.dtype in _UNSIGNED else x.dtype for x in (a, b)))
        a, b = a.to(common), b.to(common)
    if a.is_sparse and b.is_sparse:
        return _sparse_differ(a, b, how, rtol, atol)
    a, b = (x.to_dense() if x.is_sparse else x for x in (a, b))
    return _values_differ("Tensor-likes", a, b, rtol, atol, how.equal_nan)


def _sparse_differ(a: Tensor, b: Tensor, how: _Rules, rtol: float, atol: float) -> str | None:
    places = a._indices(), b._indices()
    for what, x, y in (("dimensions", *map(len, places)), ("specified values", *(p.shape[1] for p in places))):
        if x != y:
            kind = "sparse dimensions" if what == "dimensions" else what
            return f"The number of {kind} in sparse COO tensors does not match: {x} != {y}"
    return _values_differ("Sparse COO indices", *places, 0, 0, False) or _values_differ(
        "Sparse COO values", a._values(), b._values(), rtol, atol, how.equal_nan
    )


def _values_differ(what: str, a: Tensor, b: Tensor, rtol: float, atol: float, equal_nan: bool) -> str | None:
    matches = a.isclose(b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(matches.all()):
        return None
    if not a.ndim:
        return _about_numbers("Scalars" if what == "Tensor-likes" else what, a.item(), b.item(), rtol, atol)
    x, y = (v if v.dtype.category >= _dtype.FLOAT else v.to(_dtype.int64) for v in (a.flatten(), b.flatten()))
    gap = (x - y).abs().masked_fill(matches.flatten(), 0)
    ratio = (gap / y.abs()).masked_fill(matches.flatten(), 0)
    wrong, count = int((~matches).sum()), matches.numel()
    gaps: list[tuple[float, str]] = []
    for values in (gap, ratio):
        value, at = values.max(0)
        place = tuple(map(int, np.unravel_index(int(at), a.shape)))
        gaps.append((value.item(), f" at index {place}"))
    head = f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})"
    return _about(what, head, "Greatest {} difference", gaps, rtol, atol)


def _about_numbers(what: str, a: Any, b: Any, rtol: float, atol: float) -> str:
    gap = abs(a - b)
    gaps = [(gap, ""), (float("inf") if b == 0 else gap / abs(b), "")]
    return _about(what, f"Expected {b} but got {a}.", "{} difference", gaps, rtol, atol)


def _about(what: str, head: str, line: str, gaps: list[tuple[float, str]], rtol: float, atol: float) -> str:
    exact = rtol == atol == 0
    lines = [f"{what} are not {'equal' if exact else 'close'}!", "", head]
    for kind, (gap, place), allowed in zip(("absolute", "relative"), gaps, (atol, rtol), strict=True):
        begin = line.format(kind)
        lines.append(f"{begin[0].upper()}{begin[1:]}: {gap}{place}" + ("" if exact else f" (up to {allowed} allowed)"))
    return "\n".join(lines)
