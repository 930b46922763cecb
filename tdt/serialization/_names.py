"""The globals that a file may refer to and call, by PyTorch's names; reduction of tensors for saving."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from tdt import _about, _backend
from tdt._backend.device import device
from tdt._core import dtype as _dtype
from tdt._core import layout as _layout
from tdt._core.size import Size
from tdt._core.sparse import SparseCOO
from tdt._core.storage import STORAGES, TypedStorage, UntypedStorage, own_bytes
from tdt._core.tensor import Tensor, alias, wrap
from tdt.serialization import _rebuild
from tdt.serialization._rebuild import (
    _rebuild_from_type_v2,
    _rebuild_meta_tensor_no_storage,
    _rebuild_parameter,
    _rebuild_parameter_with_state,
    _rebuild_sparse_tensor,
    _rebuild_tensor_v2,
    _rebuild_tensor_v3,
    parameter,
)  # fmt: skip

LAYOUTS = {f"torch.{kind.name}": kind for kind in (
    _layout.strided, _layout.sparse_coo, _layout.sparse_csr, _layout.sparse_csc, _layout.sparse_bsr, _layout.sparse_bsc
)}  # fmt: skip


def _get_layout(name: str) -> _layout.layout:
    """The layout of exactly this name, from a table of six."""
    if type(name) is not str or name not in LAYOUTS:
        raise ValueError(f"{_rebuild.str_of(name)} is not a layout: expected one of {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def _encode(text: str, encoding: str = "") -> bytes:
    """Bytes in the form of pickle protocol 2: a string in latin-1."""
    if type(text) is not str or encoding != "latin1":
        raise ValueError("bytes must be given as a string in latin1")
    return text.encode("latin1")


def _size(sizes: Any = ()) -> Size:
    """A Size of integers."""
    return Size(_rebuild.sizes(sizes))


def _device(kind: Any, index: Any = None) -> device:
    """A device by its type and optional index."""
    if type(kind) is not str or len(kind) > 32 or not (index is None or (type(index) is int and 0 <= index < 2**15)):
        raise ValueError("a device must be a type such as 'cpu' or 'cuda', with an optional index")
    return device(kind, index)


def _ordered(pairs: Any = ()) -> OrderedDict:
    """An OrderedDict, empty or of pairs of keys and values."""
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError("OrderedDict needs a list of pairs")
    hashes: Counter = Counter()
    return OrderedDict((checked_key(key, hashes), value) for key, value in pairs)


def _counter(counts: Any = None) -> Counter:
    """A Counter of a dictionary's keys and their counts."""
    if counts is not None and type(counts) is not dict:
        raise ValueError("Counter needs a dictionary")
    counter: Counter = Counter()
    counter.update(counts or {})
    return counter


def _set(items: Any = ()) -> set:
    """A set of a list's items."""
    if not isinstance(items, list | tuple):
        raise ValueError("set needs a list")
    hashes: Counter = Counter()
    return {checked_key(item, hashes) for item in items}


def _bytearray(data: Any = b"", encoding: Any = None) -> bytearray:
    """A bytearray of bytes, or of a string in latin-1; not of a number, which would allocate that many bytes."""
    data = data if encoding is None else _encode(data, "latin1" if encoding == "latin-1" else encoding)
    if not isinstance(data, bytes | bytearray):
        raise ValueError("bytearray needs bytes, or a string in latin1")
    return bytearray(data)


def _complex(real: Any, imag: Any = 0) -> complex:
    """A complex number from real and imaginary part."""
    if not all(type(part) in (int, float) for part in (real, imag)):
        raise ValueError("complex needs two numbers")
    return complex(real, imag)


SAME_HASH = 64  # largest number of keys with the same hash in a dictionary or set: each is compared with all before it
HASH_MODULUS = sys.hash_info.modulus


def checked_key(key: Any, hashes: Counter[tuple[int, int]], container: int = 0) -> Any:
    """`key`, a dictionary key or set element, if hashing it takes little time and stack; otherwise ValueError.

    Python hashes nested tuples recursively, without a depth limit, and shared parts repeatedly. `hashes` counts the keys of
    each container by hash, except for strings, whose hash is salted, and small integers: a file cannot make these collide.

    Raises:
        ValueError: when the key is too large or nested too deeply, or the container has SAME_HASH keys with the same hash.
    """
    if type(key) is str or (type(key) is int and 0 <= key < HASH_MODULUS):
        return key
    level, nodes = [key], 0
    for _ in range(20):
        nodes += len(level)
        if nodes > 1000 or any(type(part) is int and part.bit_length() > 4096 for part in level):
            break
        level = [part for outer in level if isinstance(outer, tuple) for part in outer[:1001]]
        if not level:
            place = container, hash(key)
            hashes[place] += 1
            if hashes[place] > SAME_HASH:
                raise ValueError(f"more than {SAME_HASH} keys of a dictionary or set have the same hash")
            return key
    raise ValueError("a dictionary's key is too large or nested too deeply")


class AllowedGlobal(NamedTuple):
    """A global that a file may refer to. call: the function that runs if the file calls it; None: it cannot be called."""

    value: Any
    call: Callable[..., Any] | None
    why: str  # the reason why it is safe for any arguments


_PURE = "a constant: a file can pass it as an argument, but cannot call or modify it"
# All globals that are allowed by default. Values are pushed unchanged; a call runs only `call`, with arguments from the file,
# and the unpickler counts the memory that a call copies.
ALLOWED_GLOBALS: dict[str, AllowedGlobal] = {
    "torch._utils._rebuild_tensor_v2": AllowedGlobal(
        _rebuild_tensor_v2, _rebuild_tensor_v2,
        "a view of a storage in the file; sizes, strides and offset are integers within its bounds; copies only for conjugated "
        "and negated tensors, each storage at most once per kind"),
    "torch._utils._rebuild_tensor": AllowedGlobal(_rebuild_tensor_v2, _rebuild_tensor_v2, "the same, under PyTorch's older name"),
    "torch._utils._rebuild_tensor_v3": AllowedGlobal(
        _rebuild_tensor_v3, _rebuild_tensor_v3, "the same, for an untyped storage and a dtype"),
    "torch._utils._rebuild_parameter": AllowedGlobal(
        _rebuild_parameter, _rebuild_parameter, "wraps a tensor of this file; hooks are dropped"),
    "torch._utils._rebuild_parameter_with_state": AllowedGlobal(
        _rebuild_parameter_with_state, _rebuild_parameter_with_state,
        "the same with attributes, whose names Tensor must not define and must not begin with two underscores"),
    "torch._utils._rebuild_sparse_tensor": AllowedGlobal(
        _rebuild_sparse_tensor, _rebuild_sparse_tensor,
        "shapes are checked before the data is read, indices after; allocates at most twice the size of the column indices, "
        "which must not have overlapping memory"),
    "torch._utils._rebuild_meta_tensor_no_storage": AllowedGlobal(
        _rebuild_meta_tensor_no_storage, _rebuild_meta_tensor_no_storage, "allocates one element, whatever the size"),
    "torch._tensor._rebuild_from_type_v2": AllowedGlobal(
        _rebuild_from_type_v2, _rebuild_from_type_v2,
        "calls one of the functions above, compared by identity, and sets attributes (as above) of a new instance of a subclass "
        "of Tensor that this table or the user allows"),
    "torch.serialization._get_layout": AllowedGlobal(_get_layout, _get_layout, "looks up a table of six names, not a module"),
    "torch.nn.parameter.Parameter": AllowedGlobal(parameter, None, "a class: only the functions above create instances"),
    "torch.Tensor": AllowedGlobal(
        Tensor, None, "a class: only the functions above create instances; Tensor(n) could allocate any amount of memory"),
    "torch.storage.UntypedStorage": AllowedGlobal(
        UntypedStorage, None, "a class: only persistent ids create storages, from data in the file"),
    "torch.Size": AllowedGlobal(Size, _size, "a tuple of its integer arguments"),
    "torch.device": AllowedGlobal(device, _device, "one of three types by exact name; does not open a device"),
    "collections.OrderedDict": AllowedGlobal(
        OrderedDict, _ordered, "a new dictionary of pairs with small keys; copied memory is counted"),
    "collections.Counter": AllowedGlobal(Counter, _counter, "a new dictionary of a dictionary's items; copied memory is counted"),
    "_codecs.encode": AllowedGlobal(_encode, _encode, "only latin-1, does not look up codecs; copied memory is counted"),
    "builtins.set": AllowedGlobal(set, _set, "a new set of small keys; copied memory is counted"),
    "builtins.complex": AllowedGlobal(complex, _complex, "two numbers; does not parse strings"),
    "builtins.bytearray": AllowedGlobal(
        bytearray, _bytearray, "a copy of bytes, whose memory is counted; rejects a number, which would allocate memory"),
    **{f"torch.{kind.name}": AllowedGlobal(kind, None, _PURE) for kind in _dtype.ALL_DTYPES + _dtype.FLOAT8},
    **{f"torch.{kind.__name__}": AllowedGlobal(
        kind, None, "a class: only persistent ids create storages; FloatStorage(n) could allocate any amount of memory")
       for kind in STORAGES.values()},
}  # fmt: skip
GLOBAL_NAMES = {
    id(allowed.value): name
    for name, allowed in ALLOWED_GLOBALS.items()
    if name.startswith("torch") and name not in ("torch._utils._rebuild_tensor", "torch.nn.parameter.Parameter")
}
RENAMED_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # Python 2's names, which pickle protocol 2 writes
QUANTISED = (
    "a quantized tensor, which tdt does not support: load the file in PyTorch, replace it by tensor.dequantize(), or by "
    "tensor.int_repr() with its scale and zero point, and save again"
)
# Globals of PyTorch that tdt does not support, with the end of the error message.
UNSUPPORTED = {
    "torch._utils._rebuild_qtensor": QUANTISED,
    **{f"torch.{name}": QUANTISED for name in (
        "quint8", "qint8", "qint32", "quint4x2", "quint2x4", "QUInt8Storage", "QInt8Storage", "QInt32Storage", "QUInt4x2Storage",
        "QUInt2x4Storage", "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric",
        "per_channel_affine_float_qparams")},
    "torch._utils._rebuild_nested_tensor": "a nested tensor, which tdt does not support: save the tuple tensor.unbind()",
}  # fmt: skip


def allowed_global(name: str) -> AllowedGlobal | None:
    """The allowed global of this name, for files that must not execute code; None if it is not allowed."""
    found = ALLOWED_GLOBALS.get(name)
    return AllowedGlobal(parameter(), None, found.why) if found is not None and found.value is parameter else found


def safe(name: str) -> Any:
    """The value of one of PyTorch's names, for files that may execute code; None for any other name."""
    found = allowed_global(name) if name.startswith("torch.") else None
    return None if found is None else found.value


def reduce_tensor(t: Tensor) -> tuple[Any, tuple]:
    """(function, arguments) that recreate the tensor, as PyTorch writes them."""
    plain = type(t) if _about.home(type(t)) != "tdt.nn.parameter" else Tensor
    state = {name: value for name, value in t.__dict__.items() if not name.startswith("_")}
    if type(t).__name__ == "Parameter" and plain is Tensor:
        data, hooks = alias(t._a, None, t._st), OrderedDict()  # type: ignore[var-annotated]
        if state:
            return _rebuild_parameter_with_state, (data, t.requires_grad, hooks, state)
        return _rebuild_parameter, (data, t.requires_grad, hooks)
    if type(t).__name__ == "Buffer" and plain is Tensor:
        state["_is_buffer"] = True
    function, args = _reduce_plain_tensor(t)
    if plain is not Tensor or state:
        return _rebuild_from_type_v2, (function, plain, args, state)
    return function, args


def _reduce_plain_tensor(t: Tensor) -> tuple[Any, tuple]:
    a, requires_grad = t._a, bool(t.requires_grad)
    if isinstance(a, SparseCOO):
        flag = (a.coalesced,) if a.layout == "sparse_coo" else ()
        return _rebuild_sparse_tensor, (t.layout, (*map(wrap, a.parts.values()), t.shape, *flag))
    if a.__class__ is _backend.MetaArray:
        return _rebuild_meta_tensor_no_storage, (t.dtype, tuple(a.shape), t.stride(), requires_grad)
    memory = UntypedStorage.on(own_bytes(t), t._st)
    offset = 0
    if a.size and not (a.flags.c_contiguous and a.nbytes == memory.nbytes()):
        offset = (_backend.byte_bounds(a)[0] - memory.data_ptr()) // a.itemsize
    place = (offset, tuple(a.shape), t.stride(), requires_grad, OrderedDict())  # type: ignore[var-annotated]
    if t.dtype not in STORAGES:
        return _rebuild_tensor_v3, (memory, *place, t.dtype)
    return _rebuild_tensor_v2, (TypedStorage(wrap_storage=memory, dtype=t.dtype), *place)
