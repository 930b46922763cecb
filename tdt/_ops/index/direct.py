"""Reads and writes by square brackets that are not recorded, at the usual keys, without an op."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core import dtype as _dtype
from tdt._core.from_data import LARGE
from tdt._core.mode import INFERENCE, state, values_read
from tdt._core.tensor import Tensor, wrap_new
from tdt._ops.shape.views import ALL_OF, WHOLE, decoded, slice_view
from tdt.autograd._inplace import is_unrecorded
from tdt.autograd._views import may_require_grad
from tdt.autograd._writes_on_gpu import may_write

PLAIN = {int, type(None)}
MANY = 1 << 12  # elements that a kernel places in less time than NumPy
INT64 = np.dtype(np.int64)
UNPLACED = _dtype.float8_e8m0fnu.np  # the type to whose elements at places PyTorch does not write


def picked_by(x: Tensor, key: Tensor) -> Tensor | None:
    """x[key] for contiguous NumPy tensors and integers or a mask, where nothing is recorded; None for all others."""
    record = state.fast_record
    if record is None and (record := state.uncast_record) is not INFERENCE:
        return None
    if record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None)):
        return None
    a, k = x._a, key._a
    if a.__class__ is not np.ndarray or k.__class__ is not np.ndarray or not a.flags.c_contiguous or not a.ndim:
        return None
    if (k.ndim == 1 or (k.ndim and k.flags.c_contiguous)) and (
        k.dtype == np.int64 or (k.dtype == np.bool_ and k.shape == a.shape[: k.ndim])
    ):
        try:
            return wrap_new(a[k])
        except IndexError:  # of which `index` says more
            return None
    return None


def picked_at(x: Tensor, key: tuple) -> Tensor | None:
    """x[key] for NumPy tensors, and keys with tensors that `_in_two_steps` takes, where nothing is recorded; else None."""
    record, a = state.fast_record, x._a
    if record is None and (record := state.uncast_record) is not INFERENCE:
        return None
    if record and (x._edge is not None or (x._view is not None and x._view.base._edge is not None)):
        return None
    if a.__class__ is not np.ndarray or (steps := _two_steps(a.shape, key)) is None:
        return None
    part = a if steps[0] is None else a[steps[0]]
    places = [k for k in steps[1] if k is not WHOLE]
    if not part.size or not _descends(part, steps[1]):
        return None
    if len(places) > 1 and any(k.shape != places[0].shape or k.dtype == np.bool_ for k in places):
        return None
    try:
        picked = part[steps[1]]
    except IndexError:  # of which `index` says more
        return None
    return wrap_new(picked if picked.flags.c_contiguous else np.ascontiguousarray(picked))


def _descends(a: Any, key: tuple) -> bool:
    """Whether the dimensions that a key of tensors and WHOLE leaves whole lie in memory in their order, each in steps."""
    d, dims = 0, []
    for k in key:
        if k is WHOLE:
            dims.append(d)
        d += 1 if k is WHOLE or k.dtype is INT64 else k.ndim
    before = 1 << 62
    for whole in (*dims, *range(d, a.ndim)):
        step = a.strides[whole]
        if not 0 < step <= before or (step == before and a.shape[whole] > 1):
            return False
        before = step
    return True


def with_numbers(key: tuple) -> tuple | None:
    """A key with the numbers that NumPy's 0-d tensors of int64 in it are in their places; None if it has none."""
    found = [k._a.item() if k.__class__ is Tensor and not k._a.ndim and _is_number(k._a) else k for k in key]
    for before, after in zip(key, found, strict=True):
        if before is not after:
            values_read("a key with a tensor of no dimensions")
            return tuple(found)
    return None


def _is_number(a: Any) -> bool:
    return a.__class__ is np.ndarray and a.dtype is INT64


def _of_list(key: list) -> np.ndarray | None:
    """A list of integers as an array; None for any other."""
    if not key or not all(k.__class__ is int for k in key):
        return None
    try:
        return np.array(key, INT64)
    except OverflowError:
        return None


def _two_steps(shape: tuple[int, ...], key: tuple) -> tuple | None:
    """`_in_two_steps`, and for keys whose tensors are of int64 what they index and `plain_spec` of the first index.

    These depend on the other parts of a key alone, by which they are remembered.
    """
    kinds: list[Any] = [shape]
    places: list[np.ndarray] = []
    for k in key:
        kind = k.__class__
        if kind is Tensor and k._a.dtype is INT64 and k._a.ndim and k._a.__class__ is np.ndarray:
            if k._a.ndim > 1 and not k._a.flags.c_contiguous:
                return None
            kinds.append(Tensor)
            places.append(k._a)
        elif kind is slice and k.start.__class__ in PLAIN and k.stop.__class__ in PLAIN and k.step.__class__ in PLAIN:
            kinds.append((k.start, k.stop, k.step))
        elif kind is int or k is None or k is ...:
            kinds.append(k)
        else:
            return _in_two_steps(shape, key)
    found = _REMEMBERED.get(signature := tuple(kinds))
    if found is None:
        if (steps := _in_two_steps(shape, key)) is None:
            return None
        dims = tuple([d for d, k in enumerate(steps[1]) if k is not WHOLE])
        if len(_REMEMBERED) >= MOST_REMEMBERED:
            _REMEMBERED.clear()
        spec = None if steps[0] is None else plain_spec(shape, steps[0])
        found = _REMEMBERED[signature] = steps[0], len(steps[1]), dims, spec
    first, count, dims, spec = found
    if len(dims) == count:
        return first, tuple(places), dims, spec
    second: list[Any] = [WHOLE] * count
    for d, each in zip(dims, places, strict=True):
        second[d] = each
    return first, tuple(second), dims, spec


_REMEMBERED: dict[tuple, tuple] = {}
MOST_REMEMBERED = 1000


def _in_two_steps(shape: tuple[int, ...], key: tuple) -> tuple[tuple | None, tuple] | None:
    """Two NumPy indices for a key of integers, slices, None, one Ellipsis, lists of integers, and tensors of int64 or bools.

    Returns:
        An index that takes a view, None where the view is the whole array, and one that picks entries of the view. NumPy
        would count an integer among the tensors. None for any other key, which `parse` takes apart.
    """
    first: list[Any] = []
    second: list[Any] = []
    d, basic, tensors, expanded = 0, False, False, False
    for k in key:
        kind = k.__class__
        if kind is Tensor or kind is list:
            i = _of_list(k) if kind is list else k._a
            if i.__class__ is not np.ndarray or not i.ndim or not (i.ndim == 1 or i.flags.c_contiguous):
                return None
            n, tensors = 1, True
            if i.dtype is not INT64:
                n = i.ndim
                if i.dtype != np.bool_ or i.shape != shape[d : d + n]:
                    return None
            first += (WHOLE,) * n
            second.append(i)
            d += n
        elif kind is slice:
            if k.start is None and k.stop is None and k.step is None:
                k = WHOLE
            elif k.step is not None and (k.step.__class__ is not int or k.step <= 0):
                return None
            basic = basic or k is not WHOLE
            first.append(k)
            second.append(WHOLE)
            d += 1
        elif k is None:
            basic = True
            first.append(None)
            second.append(WHOLE)
        elif kind is int:
            if d >= len(shape) or not -shape[d] <= k < shape[d]:
                return None
            basic = True
            first.append(k)
            d += 1
        elif k is ... and not expanded and (rest := len(shape) - sum(map(width, key))) >= 0:
            expanded = True
            first += (WHOLE,) * rest
            second += (WHOLE,) * rest
            d += rest
        else:
            return None
    return (tuple(first) if basic else None, tuple(second)) if tensors and d <= len(shape) else None


def spec_and_places(shape: tuple[int, ...], key: tuple) -> tuple[tuple | None, tuple[int, ...], list[Tensor]] | None:
    """The spec of the view that a key takes, and the dimensions and tensors of int64 that index it; None for any other key."""
    if (steps := _two_steps(shape, key)) is None or len(steps) == 2:
        return None
    return steps[3], steps[2], [k for k in key if k.__class__ is Tensor]


def plain_spec(shape: tuple[int, ...], key: tuple) -> tuple | None:
    """The spec of a key of integers in range, slices, None and one Ellipsis; None for any other, which `parse` takes apart."""
    spec: list[Any] = []
    d, ndim, expanded = 0, len(shape), False
    for k in key:
        kind = k.__class__
        if k is None:
            spec.append(None)
        elif k is ... and not expanded:
            expanded, rest = True, ndim - sum([k is not None and k is not ... for k in key])
            if rest < 0:
                return None
            spec += (ALL_OF,) * rest
            d += rest
        elif d >= ndim or (kind is not int and kind is not slice):
            return None
        else:
            if kind is slice:
                whole = k.start is None and k.stop is None and k.step is None
                spec.append(ALL_OF if whole else range_of(k))
            elif -shape[d] <= k < shape[d]:
                spec.append(k)
            else:
                return None
            d += 1
    return (*spec, ...)


def range_of(key: slice) -> tuple[Any, Any, Any]:
    """A slice as a hashable triple of ints; ValueError for a step that is not positive."""
    start, stop, step = key.start, key.stop, key.step
    if start.__class__ not in PLAIN or stop.__class__ not in PLAIN or step.__class__ not in PLAIN:
        start, stop, step = [None if v is None else operator.index(v) for v in (start, stop, step)]
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return start, stop, step


def width(p: Any) -> int:
    """How many dimensions one part of a key takes up."""
    if p is None or p is ...:
        return 0
    if isinstance(p, Tensor) and p.dtype in (_dtype.bool, _dtype.uint8):
        return p.ndim
    return 1


def set_directly(x: Tensor, key: Any, value: Any) -> bool:
    """Write to the elements that integers and slices name: a number that fits, or a tensor of their shape and dtype.

    Returns: False, with nothing done, for all others.
    """
    a = x._a
    if key.__class__ is Tensor:
        return _set_at(x, key, value)
    key = key if key.__class__ is tuple else (key,)
    spec = plain_spec(a.shape, key)
    if spec is None and (numbers := with_numbers(key)) is not None:
        return set_directly(x, numbers, value)
    if spec is None:
        return _set_in_two_steps(x, key, value)
    if value.__class__ is Tensor:
        if value._view is not None and value._view.base is x and _is_part(value, x, spec):  # as of x[i] += 1
            x._st.bump_version()
            return True
        view = a[decoded(spec)]
        if not _is_source(value, x) or value._a.shape != view.shape:
            return False
        if value._st is x._st and np.may_share_memory(view, value._a):
            return False
        view[...] = value._a
    elif _fits(value, a):
        a[decoded(spec)] = value
    else:
        return False
    x._st.bump_version()
    return True


def set_on_gpu(x: Tensor, key: Any, value: Any) -> bool:
    """Write a tensor of their shape and dtype to the elements that integers and slices name, by CuPy's copy on the only GPU.

    Returns: False, with nothing done, for all others.
    """
    if value.__class__ is not Tensor or not may_write(x) or (state.fast_record and may_require_grad(value)):
        return False
    a, b = x._a, value._a
    if b.__class__ is not a.__class__ or b.dtype != a.dtype or 0 in a.strides:
        return False
    if value._st is x._st or _backend.may_overlap(a, b):
        return False
    shape = a.shape
    if key.__class__ is slice and shape and range_of(key):
        if b.shape != (len(range(*key.indices(shape[0]))), *shape[1:]):
            return False
        a[key] = b
    else:
        spec = plain_spec(shape, key if key.__class__ is tuple else (key,))
        if spec is None or (part := a[decoded(spec)]).shape != b.shape:
            return False
        part[...] = b
    x._st.bump_version()
    return True


def _set_at(x: Tensor, key: Tensor, value: Any) -> bool:
    """As `_set_directly`, to the elements that a mask or a tensor of integers names."""
    a, k = x._a, key._a
    if k.__class__ is not np.ndarray or not k.ndim or not a.ndim or key._st is x._st:
        return False
    if not (k.dtype == np.bool_ and k.shape == a.shape[: k.ndim]) and k.dtype != np.int64:
        return False
    if value.__class__ is Tensor:
        v = value._a
        fits = v.shape == k.shape + a.shape[1:] if k.dtype == np.int64 else v.shape[1:] == a.shape[k.ndim :] and v.ndim
        if not fits or value._st is x._st or a.dtype is UNPLACED or not _is_source(value, x):
            return False
        value = v
    elif not _fits(value, a):
        return False
    try:
        a[k] = value
    except (IndexError, ValueError):  # of which `index_put_` says more
        return False
    x._st.bump_version()
    return True


def _set_in_two_steps(x: Tensor, key: tuple, value: Any) -> bool:
    """As `_set_directly`, to the elements that keys with tensors name."""
    a = x._a
    if (steps := _two_steps(a.shape, key)) is None or any(k.__class__ is Tensor and k._st is x._st for k in key):
        return False
    if value.__class__ is Tensor:
        if value._st is x._st or a.dtype is UNPLACED or not _is_source(value, x):
            return False
        value = value._a
        if steps[0] is None and value.size >= MANY and a.flags.c_contiguous:
            return False
    elif not _fits(value, a):
        return False
    try:
        (a if steps[0] is None else a[steps[0]])[steps[1]] = value
    except (IndexError, TypeError, ValueError):  # of which `index_put_` says more
        return False
    x._st.bump_version()
    return True


def _is_part(value: Tensor, x: Tensor, spec: tuple) -> bool:
    """Whether `value`, a view whose base is `x`, is the part of x that a spec takes, of which nothing is recorded."""
    view, a = value._view, x._a
    op, attributes, _ = view.step  # type: ignore[union-attr]
    if op is not slice_view or view.source is not None or view.base_array is not a or attributes["spec"] != spec:  # type: ignore[union-attr]
        return False
    return value._a.base is (a if a.base is None else a.base) and is_unrecorded(value)


def _is_source(value: Tensor, x: Tensor) -> bool:
    """Whether NumPy can copy from `value` to `x`: a NumPy tensor of its dtype, of which nothing is recorded.

    What shares memory with `x` is contiguous: PyTorch refuses some of what overlaps.
    """
    v = value._a
    if v.__class__ is not np.ndarray or v.dtype is not x._a.dtype or not is_unrecorded(value):
        return False
    return value._st is not x._st or v.flags.c_contiguous


def _fits(value: Any, a: Any) -> bool:
    """Whether NumPy writes a Python number to an array as PyTorch does: without rounding it, or an error."""
    kind, dtype = value.__class__, a.dtype
    if kind is bool:
        return dtype.kind in "bifu"
    if dtype.kind == "f":
        if kind is float and value - value != 0:  # an infinity or NaN
            return dtype.itemsize >= 4
        return kind in (float, int) and dtype.itemsize >= 4 and -LARGE < value < LARGE
    return kind is int and (-LARGE < value < LARGE if dtype == np.int64 else dtype.kind in "iu" and 0 <= value < 128)
