"""The functions that PyTorch's files call to create tensors. Each validates all of its arguments.

The arguments come from the file, so nothing here looks up attributes of modules by names from the file, uses a string from
it as a format, or allocates more memory than the file's storages. `weights_only=False` calls the same functions.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import META
from tdt._core import dtype as _dtype
from tdt._core import layout as _layout
from tdt._core.dtype import dtype
from tdt._core.sparse import SparseCOO
from tdt._core.storage import TypedStorage, UntypedStorage
from tdt._core.tensor import LEAF, Tensor, alias, wrap

LARGEST = 2**63 - 1
COPIES, LEEWAY = 4, 64 << 20  # limit of copied storage data: COPIES bytes per byte of the file plus LEEWAY


class _Loading(threading.local):
    """The state of the current load of this thread.

    steps: functions to call once the storages have their data. changed: conjugated and negated copies of storages. spend:
    subtracts bytes from the memory limit of the pickle's objects. room: bytes of storage data that may still be copied.
    """

    steps: list[Callable[[], None]] | None = None
    changed: dict[tuple, Any] | None = None
    spend: Callable[[int], None] | None = None
    room: float = math.inf


_loading = _Loading()


@contextmanager
def loading(size: int, *, values: bool = True) -> Iterator[None]:
    """Context manager in which one file of `size` bytes is loaded.

    Computations that need values run at its end, because old files store the data last; values=False skips them.
    """
    before = dict(vars(_loading))
    vars(_loading).update(steps=[], changed={}, spend=None, room=COPIES * size + LEEWAY)
    try:
        yield
        for step in (_loading.steps or ()) if values else ():
            step()
    finally:
        vars(_loading).clear()
        vars(_loading).update(before)


def charge_to(spend: Callable[[int], None]) -> None:
    """Count the memory of tensor attributes from the file with `spend`, until the block `loading` ends."""
    if _loading.steps is not None:
        _loading.spend = spend


def _spend(size: int) -> None:
    if _loading.spend is not None:
        _loading.spend(size)


def _spend_copy(size: int) -> None:
    """RuntimeError if copies of storage data become too large for the file."""
    _loading.room -= size
    if _loading.room < 0:
        raise RuntimeError("the file's tensors would allocate far more memory than a file of its size needs")


def _when_filled(step: Callable[[], None]) -> None:
    """Call `step` once the storages have their data."""
    if _loading.steps is None:
        step()
    else:
        _loading.steps.append(step)


def sizes(values: Any, what: str = "size") -> tuple[int, ...]:
    """`values` as a tuple of Python integers from 0 to 2**63 - 1; ValueError for anything else."""
    if not isinstance(values, tuple | list) or not all(type(n) is int and 0 <= n <= LARGEST for n in values):
        raise ValueError(f"a tensor's {what} must be a tuple of integers from 0 to 2**63 - 1")
    return tuple(values)


def flag(value: Any, what: str) -> bool:
    """`value`, a bool; TypeError for anything else."""
    if type(value) is not bool:
        raise TypeError(f"{what} must be True or False, not {type(value).__name__}")
    return value


def _tensor(value: Any, what: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{what} must be a tensor, not {type(value).__name__}")
    return value


def _leaf(requires_grad: Any, kind: dtype) -> Any:
    if flag(requires_grad, "requires_grad") and kind.category < _dtype.FLOAT:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    return LEAF if requires_grad else None


def _rebuild_tensor_v2(
    storage: Any, offset: int, size: tuple, stride: tuple, requires_grad: bool = False, hooks: Any = None, metadata: Any = None,
) -> Tensor:  # fmt: skip
    """A view of a typed storage. metadata: {"conj": True} if the elements are to be conjugated, "neg" if negated."""
    if not isinstance(storage, TypedStorage):
        raise TypeError(f"_rebuild_tensor_v2 needs a typed storage, not {type(storage).__name__}")
    return _view(storage.untyped(), storage.dtype, offset, size, stride, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: UntypedStorage, offset: int, size: tuple, stride: tuple, requires_grad: bool, hooks: Any, kind: dtype,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    """As version 2, for dtypes without a storage class."""
    memory = storage.untyped() if isinstance(storage, TypedStorage) else storage
    if not isinstance(memory, UntypedStorage) or not isinstance(kind, dtype):
        raise TypeError(
            f"_rebuild_tensor_v3 needs a storage and a dtype, not {type(memory).__name__} and {type(kind).__name__}"
        )
    return _view(memory, kind, offset, size, stride, requires_grad, metadata)


def _view(
    memory: UntypedStorage, kind: dtype, offset: int, size: tuple, stride: tuple, requires_grad: Any, metadata: Any
) -> Tensor:
    size, stride, (offset,), n = sizes(size), sizes(stride, "stride"), sizes((offset,), "storage offset"), kind.itemsize
    if len(size) != len(stride):
        raise ValueError(f"a tensor of {len(size)} dimensions has {len(stride)} strides")
    end = offset + 1 + sum((m - 1) * s for m, s in zip(size, stride, strict=True)) if 0 not in size else offset
    if end * n > memory.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {n} "
            f"requiring a storage size of {end * n} are out of bounds for storage of size {memory.nbytes()}"
        )
    if metadata:
        memory = _changed(memory, kind, metadata)
    edge = _leaf(requires_grad, kind)
    array = _backend.look_into(memory._bytes, kind.np, offset * n, size, tuple([s * n for s in stride]))
    return alias(array, edge, memory.shared())


def _changed(memory: UntypedStorage, kind: dtype, metadata: Any) -> UntypedStorage:
    """A copy of a storage with conjugated or negated elements, shared by all tensors that view it."""
    if type(metadata) is not dict or not metadata.keys() <= {"conj", "neg"}:
        raise ValueError('the metadata of a tensor may only contain "conj" and "neg"')
    conj, neg = (flag(metadata.get(key, False), key) for key in ("conj", "neg"))
    if not conj and not neg:
        return memory
    if (conj and kind.category != _dtype.COMPLEX) or kind.category < _dtype.FLOAT:
        raise ValueError(f"a tensor of {kind} cannot be conjugated or negated while loading")
    copies: dict[tuple, Any] = {} if _loading.changed is None else _loading.changed
    key = (id(memory), kind, conj, neg)
    if key not in copies:
        _spend_copy(memory.nbytes())
        copy = copies[key] = memory.clone()
        copies[(*key, "source")] = memory  # keeps it alive, so that no other storage gets its id

        def compute() -> None:
            whole = memory.nbytes() // kind.itemsize * kind.itemsize
            values = memory._bytes[:whole].view(kind.np)
            values = values.conj() if conj else values
            copy._bytes[:whole] = (-values if neg else values).view(np.uint8)

        _when_filled(compute)
    return copies[key]


def _rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any) -> Tensor:
    """A Parameter that shares the memory of a tensor."""
    _leaf(requires_grad, _tensor(data, "a Parameter's data").dtype)
    return parameter()(data, requires_grad)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, hooks: Any, state: Any) -> Tensor:
    """A Parameter with attributes set by the user."""
    return _set_attributes(_rebuild_parameter(data, requires_grad, hooks), state)


def _rebuild_sparse_tensor(kind: Any, data: tuple) -> Tensor:
    """A sparse COO or CSR tensor; its indices are validated once their data is loaded."""
    if kind is not _layout.sparse_coo and kind is not _layout.sparse_csr:
        name = kind.name if isinstance(kind, _layout.layout) else type(kind).__name__
        raise NotImplementedError(
            f"the file contains a tensor of layout {name}; tdt reads strided, sparse_coo and sparse_csr"
        )
    if not isinstance(data, tuple):
        raise TypeError(f"the parts of a sparse tensor must be a tuple, not {type(data).__name__}")
    if kind is _layout.sparse_csr:
        starts, columns, values, size = data
        a, b, c = (_tensor(part, "a part of a sparse tensor")._a for part in (starts, columns, values))
        return wrap(_rows(a, b, c, sizes(size)))
    indices, values, size, *rest = data
    coalesced = flag(rest[0], "is_coalesced") if rest and rest[0] is not None else False
    return wrap(_coordinates(_tensor(indices, "indices")._a, _tensor(values, "values")._a, sizes(size), coalesced))


def _coordinates(indices: Any, values: Any, size: tuple[int, ...], coalesced: bool) -> SparseCOO:
    """A COO tensor with matching shapes; its indices are validated once their data is loaded."""
    _check_indices("indices", indices, 2, ("int64",))
    dims = len(indices)
    fits = not _has_no_elements(values) and values.ndim and len(values) == indices.shape[1]
    if not fits or len(size) != dims + values.ndim - 1 or values.shape[1:] != size[dims:]:
        raise RuntimeError(
            f"a sparse tensor of size {list(size)} cannot have indices of shape {list(indices.shape)} and values of shape "
            f"{list(values.shape)}"
        )
    if math.prod(size[:dims]) > LARGEST:
        raise RuntimeError(f"a sparse tensor of size {list(size)} has more elements than a 64-bit index can address")
    _spend_copy(indices.nbytes + SPARSE)
    built = SparseCOO(indices, values, size, coalesced)

    def check() -> None:
        for n, row in zip(size, indices, strict=False):
            if row.size and (int(row.min()) < 0 or int(row.max()) >= n):
                raise RuntimeError(
                    f"indices of a sparse tensor are out of bounds for size {list(size)}: the file is damaged"
                )
        places = built.places
        if coalesced and not bool((places[1:] > places[:-1]).all()):
            raise RuntimeError("a sparse tensor is marked as coalesced, but its indices are not sorted or not unique")

    _when_filled(check)
    return built


SPARSE = 2000  # memory overhead of a sparse tensor in bytes, without its arrays


def _rows(starts: Any, columns: Any, values: Any, size: tuple[int, ...]) -> SparseCOO:
    """A CSR matrix with matching shapes; its indices are computed and validated once the data is loaded."""
    for name, part in (("crow_indices", starts), ("col_indices", columns)):
        _check_indices(name, part, 1, ("int32", "int64"))
    fits = not _has_no_elements(values) and values.ndim == 1 and len(size) == 2
    if not fits or values.shape != columns.shape or starts.shape != (size[0] + 1,) or math.prod(size) > LARGEST:
        raise RuntimeError(
            f"a sparse matrix of size {list(size)} cannot have crow_indices, col_indices and values of shapes "
            f"{[list(part.shape) for part in (starts, columns, values)]}"
        )
    xp, nnz = _backend.namespace(values), len(columns)
    _spend_copy(16 * nnz + SPARSE)
    built = SparseCOO(xp.zeros((2, nnz), "int64"), values, size, True, "sparse_csr")

    def compute() -> None:
        if int(starts[0]) != 0 or int(starts[-1]) != nnz or bool((starts[1:] < starts[:-1]).any()):
            raise RuntimeError(
                f"crow_indices must increase from 0 to the number of entries, {nnz}: the file is damaged"
            )
        built.indices[...] = SparseCOO.of_rows(starts, columns, values, size).indices
        places = built.places
        if nnz and (int(columns.min()) < 0 or int(columns.max()) >= size[1]):
            raise RuntimeError(f"col_indices are out of bounds for {size[1]} columns: the file is damaged")
        if bool((places[1:] <= places[:-1]).any()):
            raise RuntimeError("col_indices must increase within each row: the file is damaged")

    _when_filled(compute)
    return built


def _has_no_elements(array: Any) -> bool:
    """Whether an array is sparse or on the meta device."""
    return isinstance(array, SparseCOO) or array.__class__ is _backend.MetaArray


def _check_indices(name: str, array: Any, ndim: int, kinds: tuple[str, ...]) -> None:
    """RuntimeError for indices of a wrong shape or dtype, or with overlapping memory (they would be larger than the file)."""
    if _has_no_elements(array) or array.ndim != ndim or array.dtype.name not in kinds:
        raise RuntimeError(
            f"{name} of a sparse tensor must be a dense tensor of {' or '.join(kinds)} in {ndim} dimensions"
        )
    low, high = _backend.byte_bounds(array)
    if array.size * array.itemsize > high - low:
        raise RuntimeError(f"{name} of a sparse tensor have overlapping memory: the file is damaged")


def _rebuild_meta_tensor_no_storage(kind: dtype, size: tuple, stride: tuple, requires_grad: bool) -> Tensor:
    """A meta tensor: shape and dtype without memory."""
    if not isinstance(kind, dtype):
        raise TypeError(f"a meta tensor needs a dtype, not {type(kind).__name__}")
    edge = _leaf(requires_grad, kind)
    return alias(_backend.to_device(_backend.stand_in(sizes(size), kind.np), META), edge)


def _rebuild_from_type_v2(function: Any, kind: Any, args: tuple, state: Any) -> Tensor:
    """An instance of a subclass of Tensor, or a tensor with attributes set by the user."""
    if not any(function is known for known in FUNCTIONS):
        raise TypeError(f"{type(function).__name__} is not a function that creates tensors")
    if not isinstance(kind, type) or not issubclass(kind, Tensor) or not isinstance(args, tuple):
        raise TypeError("_rebuild_from_type_v2 needs a subclass of Tensor and a tuple of arguments")
    tensor = function(*args)
    if type(state) is dict and state.get("_is_buffer") is True:
        state = {name: value for name, value in state.items() if name != "_is_buffer"}
        kind = importlib.import_module("tdt.nn.parameter").Buffer
    if type(tensor) is not kind:
        base, tensor = tensor, kind.__new__(kind)
        tensor._a, tensor._st, tensor._edge = base._a, base._st, base._edge
    return _set_attributes(tensor, state)


def _set_attributes(tensor: Tensor, state: Any) -> Tensor:
    """Set the attributes of `state`: a dictionary, or a pair of a dictionary and the values of slots."""
    values, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    tensor.__dict__.update(attributes(values, Tensor))
    for name, value in attributes(slots, Tensor).items():
        setattr(tensor, name, value)
    return tensor


def attributes(values: Any, owner: type) -> dict[str, Any]:
    """Validated attributes of an object in a file; ValueError for a name that its class defines."""
    values = {} if values is None else values
    if type(values) is not dict:
        raise TypeError(f"attributes must be a dictionary, not {type(values).__name__}")
    _spend(100 * len(values))
    for name in values:
        if type(name) is not str or name.startswith("__") or hasattr(owner, name):
            raise ValueError(f"the file sets an attribute of {owner.__name__} that it may not set: {str_of(name)}")
    return values


def str_of(value: Any) -> str:
    """A string from a file for an error message: short, without control characters; for other values their type."""
    if type(value) is not str:
        return f"an object of type {type(value).__name__}"
    return value if value.isprintable() and len(value) <= 200 else repr(value[:200])


def parameter() -> Any:
    """The class Parameter, imported on use: this module must not import tdt.nn."""
    return importlib.import_module("tdt.nn.parameter").Parameter


FUNCTIONS = (_rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter, _rebuild_parameter_with_state,
             _rebuild_sparse_tensor, _rebuild_meta_tensor_no_storage)  # fmt: skip
