"""PyTorch's names in a file and what they stand for here; how tensors are taken apart and put together again."""

from __future__ import annotations

import importlib
from collections import Counter, OrderedDict
from typing import Any

from tdt import _about, _backend, _dtype, _layout
from tdt._device import META, device
from tdt._dtype import dtype
from tdt._size import Size
from tdt._sparse import SparseCOO
from tdt._storage import STORAGES, TypedStorage, UntypedStorage, own_bytes
from tdt._tensor import LEAF, Tensor, alias, wrap


def _rebuild_tensor_v2(
    storage: Any,
    offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """A view of a typed storage. metadata: {"conj": True} where the elements are meant conjugated, "neg" negated."""
    return _view(storage, storage.dtype, offset, size, stride, requires_grad, metadata)


def _rebuild_tensor_v3(
    storage: UntypedStorage, offset: int, size: tuple, stride: tuple, requires_grad: bool, hooks: Any, kind: dtype,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    """As version 2, for types without a storage class."""
    return _view(storage, kind, offset, size, stride, requires_grad, metadata)


def _view(
    storage: Any, kind: dtype, offset: int, size: tuple, stride: tuple, requires_grad: Any, metadata: Any
) -> Tensor:
    memory = storage.untyped() if isinstance(storage, TypedStorage) else storage
    size, stride, n = tuple(map(int, size)), tuple(map(int, stride)), kind.itemsize
    end = offset + 1 + sum((m - 1) * s for m, s in zip(size, stride, strict=True)) if 0 not in size else offset
    if offset < 0 or min((*size, *stride, 0)) < 0 or end * n > memory.nbytes():
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {n} "
            f"requiring a storage size of {end * n} are out of bounds for storage of size {memory.nbytes()}"
        )
    array = _backend.look_into(memory._bytes, kind.np, offset * n, size, tuple([s * n for s in stride]))
    if metadata:
        array = array.conj() if metadata.get("conj") else array
        array = -array if metadata.get("neg") else array
    return alias(array, LEAF if requires_grad else None, None if metadata else memory.shared())


def _rebuild_parameter(data: Tensor, requires_grad: bool, hooks: Any) -> Tensor:
    return _parameter()(data, requires_grad)


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, hooks: Any, state: Any) -> Tensor:
    return _set_attributes(_parameter()(data, requires_grad), state)


def _rebuild_sparse_tensor(kind: Any, data: tuple) -> Tensor:
    if kind is _layout.sparse_csr:
        starts, columns, values, size = data
        return wrap(SparseCOO.of_rows(starts._a, columns._a, values._a, tuple(size)))
    if kind is not _layout.sparse_coo:
        raise NotImplementedError(f"a tensor in layout {kind} was saved; tdt reads strided, sparse_coo and sparse_csr")
    indices, values, size, *coalesced = data
    return wrap(SparseCOO(indices._a, values._a, tuple(size), bool(coalesced and coalesced[0])))


def _rebuild_meta_tensor_no_storage(kind: dtype, size: tuple, stride: tuple, requires_grad: bool) -> Tensor:
    return alias(_backend.to_device(_backend.stand_in(tuple(size), kind.np), META), LEAF if requires_grad else None)


def _rebuild_from_type_v2(function: Any, kind: Any, args: tuple, state: Any) -> Tensor:
    """A tensor of a class of its own, or with attributes that the user gave it."""
    if function not in REBUILD.values() or not issubclass(kind, Tensor):
        raise TypeError(f"{kind} is no class of tensors, or {function} makes none")
    made = function(*args)
    if isinstance(state, dict) and state.pop("_is_buffer", False):
        kind = importlib.import_module("tdt.nn.parameter").Buffer
    if type(made) is not kind:
        plain, made = made, kind.__new__(kind)
        made._a, made._st, made._edge = plain._a, plain._st, plain._edge
    return _set_attributes(made, state)


def _set_attributes(made: Tensor, state: Any) -> Tensor:
    values, slots = state if isinstance(state, tuple) else (state, None)
    made.__dict__.update(values or {})
    for name, value in (slots or {}).items():
        setattr(made, name, value)
    return made


def _get_layout(name: str) -> Any:
    return getattr(_layout, name.rpartition(".")[2])


def _encode(text: str, encoding: str) -> bytes:
    """Bytes as protocol 2 spells them."""
    if encoding != "latin1":
        raise ValueError(f"bytes spelled in {encoding}, not latin1")
    return text.encode("latin1")


def _parameter() -> Any:
    return importlib.import_module("tdt.nn.parameter").Parameter


REBUILD: dict[str, Any] = {
    f"torch._utils.{function.__name__}": function
    for function in (_rebuild_tensor_v2, _rebuild_tensor_v3, _rebuild_parameter, _rebuild_parameter_with_state,
                     _rebuild_sparse_tensor, _rebuild_meta_tensor_no_storage)
} | {"torch._utils._rebuild_tensor": _rebuild_tensor_v2}  # fmt: skip

# What files may name that runs nobody's code.
SAFE: dict[str, Any] = {
    **REBUILD,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type_v2,
    "torch.serialization._get_layout": _get_layout,
    "torch.Tensor": Tensor, "torch.Size": Size, "torch.device": device, "torch.storage.UntypedStorage": UntypedStorage,
    "collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "_codecs.encode": _encode,
    "builtins.set": set, "builtins.complex": complex, "builtins.bytearray": bytearray,
    **{f"torch.{kind.name}": kind for kind in _dtype.ALL_DTYPES},
    **{f"torch.{kind.__name__}": kind for kind in STORAGES.values()},
}  # fmt: skip
WRITTEN = {
    id(value): name
    for name, value in SAFE.items()
    if name.startswith("torch") and name != "torch._utils._rebuild_tensor"
}
MOVED = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # where protocol 2 looks for Python's own


def safe(name: str) -> Any:
    """What a name stands for in a file that may run no code; None for one that is not allowed."""
    if name == "torch.nn.parameter.Parameter":
        return _parameter()
    return SAFE.get(name)


def apart(t: Tensor) -> tuple[Any, tuple]:
    """(function, arguments) that make the tensor again, as PyTorch writes them."""
    plain = type(t) if _about.home(type(t)) != "tdt.nn.parameter" else Tensor
    state = {name: value for name, value in t.__dict__.items() if not name.startswith("_")}
    if type(t).__name__ == "Parameter" and plain is Tensor:
        data, hooks = alias(t._a, None, t._st), OrderedDict()  # type: ignore[var-annotated]
        if state:
            return _rebuild_parameter_with_state, (data, t.requires_grad, hooks, state)  # type: ignore[attr-defined]
        return _rebuild_parameter, (data, t.requires_grad, hooks)  # type: ignore[attr-defined]
    if type(t).__name__ == "Buffer" and plain is Tensor:
        state["_is_buffer"] = True
    function, args = _plain_apart(t)
    if plain is not Tensor or state:
        return _rebuild_from_type_v2, (function, plain, args, state)
    return function, args


def _plain_apart(t: Tensor) -> tuple[Any, tuple]:
    a, wants = t._a, bool(t.requires_grad)  # type: ignore[attr-defined]
    if isinstance(a, SparseCOO):
        flag = (a.coalesced,) if a.layout == "sparse_coo" else ()
        return _rebuild_sparse_tensor, (t.layout, (*map(wrap, a.parts.values()), t.shape, *flag))  # type: ignore[attr-defined]
    if a.__class__ is _backend.MetaArray:
        return _rebuild_meta_tensor_no_storage, (t.dtype, tuple(a.shape), t.stride(), wants)
    memory = UntypedStorage.on(own_bytes(t), t._st)
    offset = (_backend.byte_bounds(a)[0] - memory.data_ptr()) // a.itemsize if a.size else 0
    place = (offset, tuple(a.shape), t.stride(), wants, OrderedDict())  # type: ignore[var-annotated]
    if t.dtype not in STORAGES:
        return _rebuild_tensor_v3, (memory, *place, t.dtype)
    return _rebuild_tensor_v2, (TypedStorage(wrap_storage=memory, dtype=t.dtype), *place)
