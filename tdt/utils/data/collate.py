"""From a list of samples to a batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any, TypeVar

import numpy as np

from tdt._backend import namespace
from tdt._core import dtype as _dtype
from tdt._core.creation import tensor
from tdt._core.tensor import Tensor, wrap
from tdt._ops.shape.join import stack
from tdt.utils.data._types import CollateFunctions

Strings = TypeVar("Strings", bound=Sequence[str | bytes])


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack samples into a batch, looking inside dicts, tuples and lists.

    Tensors and arrays are stacked along a new first dimension, numbers become a tensor (float64, int64 or bool), strings
    and bytes stay as they are; a tuple of fields gives a list, a namedtuple and a dict keep their type. TypeError for
    anything else, RuntimeError for samples of unequal length.

    >>> import tdt
    >>> tdt.utils.data.default_collate([{"x": 1.0, "y": "a"}, {"x": 2.0, "y": "b"}])
    {'x': tensor([1., 2.], dtype=tdt.float64), 'y': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence[Any], *, collate_fn_map: CollateFunctions | None = None) -> Any:
    """`default_collate` with functions for further types.

    Args:
        collate_fn_map: type → `f(batch, *, collate_fn_map)`, tried in order.
    Raises:
        RuntimeError: when the samples are sequences of different lengths.
        TypeError: when a type has no function.

    >>> import tdt
    >>> tdt.utils.data.collate(["a", "b"], collate_fn_map={str: lambda batch, collate_fn_map: "+".join(batch)})
    'a+b'
    """
    first, kinds = batch[0], collate_fn_map or {}
    kind = kinds.get(type(first)) or next((f for cls, f in kinds.items() if isinstance(first, cls)), None)
    if kind is not None:
        return kind(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in first}
        return _mapping_like(first, columns)
    if not isinstance(first, Sequence):
        raise TypeError(_refusal(type(first)))
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collate(field, collate_fn_map=collate_fn_map) for field in zip(*batch, strict=False)))
    if set(map(len, batch)) != {len(first)}:
        raise RuntimeError("each element in list of batch should be of equal size")
    fields = [collate(field, collate_fn_map=collate_fn_map) for field in zip(*batch, strict=False)]
    return fields if isinstance(first, tuple) else _sequence_like(first, fields)


def default_convert(data: Any) -> Any:
    """Make tensors of the NumPy arrays in `data`, looking inside dicts, tuples and lists; the rest stays as it is.

    >>> import numpy as np
    >>> import tdt
    >>> tdt.utils.data.default_convert([np.arange(2), "a"])
    [tensor([0, 1]), 'a']
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else _as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(field) for field in data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        fields = [default_convert(field) for field in data]
        return fields if isinstance(data, tuple) else _sequence_like(data, fields)
    return data


def _mapping_like(example: Mapping, columns: dict) -> Any:
    """`columns` in the type of `example`, with the extra attributes that one may have; else a plain dict."""
    try:
        if isinstance(example, MutableMapping):
            collated = copy.copy(example)
            collated.update(columns)
            return collated
        return type(example)(columns)  # type: ignore[call-arg]
    except TypeError:  # a type that cannot be copied, updated or built from a dict
        return columns


def _sequence_like(example: Sequence, fields: list) -> Any:
    try:
        if isinstance(example, MutableSequence):
            collated = copy.copy(example)
            for i, field in enumerate(fields):
                collated[i] = field
            return collated
        return type(example)(fields)  # type: ignore[call-arg]
    except TypeError:  # such as range
        return fields


def _as_tensor(value: Any) -> Tensor:
    array = np.asarray(value)
    _dtype.of(array.dtype)  # raises for what tensors cannot hold
    return wrap(array)


def _refusal(kind: Any) -> str:
    return f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}"


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: CollateFunctions | None = None) -> Tensor:
    """Stack tensors of equal shape."""
    arrays = [t._a for t in batch]
    first, n = arrays[0], len(arrays)
    alike = [a.shape for a in arrays].count(first.shape) == [a.dtype for a in arrays].count(first.dtype) == n
    if (
        alike
        and first.ndim
        and list(map(type, arrays)).count(type(first)) == n
        and not any(t.requires_grad for t in batch)
    ):
        xp = namespace(first)
        rows = xp.empty((n * len(first), *first.shape[1:]), first.dtype)
        xp.concatenate(arrays, out=rows)  # five times as quick as stack: no view of each sample is made
        return wrap(rows.reshape(n, *first.shape))
    return stack(batch, 0)


def collate_numpy_array_fn(batch: Sequence[np.ndarray], *, collate_fn_map: CollateFunctions | None = None) -> Tensor:
    """Stack arrays of equal shape; TypeError for strings and objects."""
    if batch[0].dtype.kind in "SUO":
        raise TypeError(_refusal(batch[0].dtype))
    return collate([_as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[np.generic], *, collate_fn_map: CollateFunctions | None = None) -> Tensor:
    """A 1-d tensor of the scalars' own dtype."""
    return _as_tensor(batch)


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: CollateFunctions | None = None) -> Tensor:
    """A 1-d float64 tensor."""
    return wrap(np.array(batch, np.float64))


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: CollateFunctions | None = None) -> Tensor:
    """A 1-d int64 tensor (bool, if all are; of the default float type, if there are floats too)."""
    return tensor(list(batch))


def collate_str_fn(batch: Strings, *, collate_fn_map: CollateFunctions | None = None) -> Strings:
    """The strings as they are."""
    return batch


default_collate_fn_map: dict[type | tuple[type, ...], Callable[..., Any]] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    np.bool_: collate_numpy_scalar_fn,
    np.number: collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
