"""PyTorch's names in a file, what they stand for, and which of them a file may call; how tensors are taken apart."""

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
        raise ValueError(f"{_rebuild.str_of(name)} is no layout: expected one of {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def _encode(text: str, encoding: str = "") -> bytes:
    """Bytes as protocol 2 spells them: text in latin-1."""
    if type(text) is not str or encoding != "latin1":
        raise ValueError("bytes must be spelled as text in latin1")
    return text.encode("latin1")


def _size(sizes: Any = ()) -> Size:
    """A Size of integers."""
    return Size(_rebuild.sizes(sizes))


def _device(kind: Any, index: Any = None) -> device:
    """A device by a short name and perhaps a number."""
    if type(kind) is not str or len(kind) > 32 or not (index is None or (type(index) is int and 0 <= index < 2**15)):
        raise ValueError("a device must be a name such as 'cpu' or 'cuda', perhaps with a number")
    return device(kind, index)


def _ordered(pairs: Any = ()) -> OrderedDict:
    """An OrderedDict, empty or of pairs of keys and values."""
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError("an OrderedDict must be made of a list of pairs")
    hashes: Counter = Counter()
    return OrderedDict((checked_key(key, hashes), value) for key, value in pairs)


def _counter(counts: Any = None) -> Counter:
    """A Counter of a dictionary's keys and their counts."""
    if counts is not None and type(counts) is not dict:
        raise ValueError("a Counter must be made of a dictionary")
    made: Counter = Counter()
    made.update(counts or {})
    return made


def _set(items: Any = ()) -> set:
    """A set of a list's items."""
    if not isinstance(items, list | tuple):
        raise ValueError("a set must be made of a list")
    hashes: Counter = Counter()
    return {checked_key(item, hashes) for item in items}


def _bytearray(data: Any = b"", encoding: Any = None) -> bytearray:
    """A bytearray of bytes, or of text in latin-1; never of a number, which would allocate as many bytes."""
    data = data if encoding is None else _encode(data, "latin1" if encoding == "latin-1" else encoding)
    if not isinstance(data, bytes | bytearray):
        raise ValueError("a bytearray must be made of bytes, or of text in latin1")
    return bytearray(data)


def _complex(real: Any, imag: Any = 0) -> complex:
    """A complex number of two numbers."""
    if not all(type(part) in (int, float) for part in (real, imag)):
        raise ValueError("a complex number must be made of two numbers")
    return complex(real, imag)


SAME_HASH = 64  # keys of one hash in a dictionary or set: each is compared with all before it
HASH_MODULUS = sys.hash_info.modulus


def checked_key(key: Any, hashes: Counter[tuple[int, int]], container: int = 0) -> Any:
    """`key`, a dictionary's key or a set's element, if hashing it takes little time and stack; ValueError if not.

    Python hashes nested tuples by recursion, without a limit and every shared part anew. `hashes` counts the keys of each
    container by hash, but for those that a file cannot give equal hashes: text, whose hash is salted, and small integers.

    Raises:
        ValueError: the key is too large or nested too deeply, or the container has SAME_HASH keys of its hash already.
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


class Offered(NamedTuple):
    """What a name in a file stands for. call: what runs where the file calls it; None: it may not be called."""

    value: Any
    call: Callable[..., Any] | None
    why: str  # it is safe, whatever the file passes


_PURE = "a constant: a file can pass it on, but neither call nor change it"
# All that files may name without the user's leave. Values are pushed as they are; a call runs `call` alone, on arguments of
# the file's choice, and the machine charges the file's allowance for what a call copies.
OFFERED: dict[str, Offered] = {
    "torch._utils._rebuild_tensor_v2": Offered(
        _rebuild_tensor_v2, _rebuild_tensor_v2,
        "a view of a storage that the machine read; sizes, strides and offset are integers inside it, nothing is copied but for "
        "conjugated and negated tensors: each storage at most once per kind"),
    "torch._utils._rebuild_tensor": Offered(_rebuild_tensor_v2, _rebuild_tensor_v2, "the same, with PyTorch's older name"),
    "torch._utils._rebuild_tensor_v3": Offered(
        _rebuild_tensor_v3, _rebuild_tensor_v3, "the same, of an untyped storage and a dtype"),
    "torch._utils._rebuild_parameter": Offered(
        _rebuild_parameter, _rebuild_parameter, "wraps a tensor of this file; hooks are dropped"),
    "torch._utils._rebuild_parameter_with_state": Offered(
        _rebuild_parameter_with_state, _rebuild_parameter_with_state,
        "the same with attributes, whose names must be new: none that Tensor defines and none of two underscores"),
    "torch._utils._rebuild_sparse_tensor": Offered(
        _rebuild_sparse_tensor, _rebuild_sparse_tensor,
        "shapes are compared before, indices with the size after the bytes are read; allocates twice the column indices at most, "
        "which may not repeat memory"),
    "torch._utils._rebuild_meta_tensor_no_storage": Offered(
        _rebuild_meta_tensor_no_storage, _rebuild_meta_tensor_no_storage, "one element in memory, whatever the size"),
    "torch._tensor._rebuild_from_type_v2": Offered(
        _rebuild_from_type_v2, _rebuild_from_type_v2,
        "calls one of the functions above, compared by identity, and fills a new object of a subclass of Tensor that this table "
        "or the user offers; attributes as above"),
    "torch.serialization._get_layout": Offered(_get_layout, _get_layout, "looks up a table of six names, not a module"),
    "torch.nn.parameter.Parameter": Offered(parameter, None, "a class: only the functions above make one"),
    "torch.Tensor": Offered(Tensor, None, "a class: only the functions above make one, Tensor(n) could allocate any memory"),
    "torch.storage.UntypedStorage": Offered(
        UntypedStorage, None, "a class: only persistent ids make storages, of bytes that the file holds"),
    "torch.Size": Offered(Size, _size, "a tuple of the integers it is given"),
    "torch.device": Offered(device, _device, "one of three kinds by exact name; no device is opened"),
    "collections.OrderedDict": Offered(
        OrderedDict, _ordered, "a new dictionary of pairs whose keys are small; what is copied is charged"),
    "collections.Counter": Offered(Counter, _counter, "a new dictionary of a dictionary's items; what is copied is charged"),
    "_codecs.encode": Offered(_encode, _encode, "latin-1 alone, no codec is looked up; what is copied is charged"),
    "builtins.set": Offered(set, _set, "a new set of small keys; what is copied is charged"),
    "builtins.complex": Offered(complex, _complex, "two numbers; text is not parsed"),
    "builtins.bytearray": Offered(bytearray, _bytearray, "a copy of bytes, charged; a number, which would allocate, is refused"),
    **{f"torch.{kind.name}": Offered(kind, None, _PURE) for kind in _dtype.ALL_DTYPES + _dtype.FLOAT8},
    **{f"torch.{kind.__name__}": Offered(
        kind, None, "a class: only persistent ids make storages, FloatStorage(n) could allocate any memory")
       for kind in STORAGES.values()},
}  # fmt: skip
WRITTEN = {
    id(offered.value): name
    for name, offered in OFFERED.items()
    if name.startswith("torch") and name not in ("torch._utils._rebuild_tensor", "torch.nn.parameter.Parameter")
}
MOVED = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # where protocol 2 looks for Python's own
QUANTISED = (
    "a quantised tensor, which tdt does not have: load the file in PyTorch, replace it by tensor.dequantize(), or by "
    "tensor.int_repr() with its scale and zero point, and save again"
)
# What files hold that tdt knows but cannot make: how the message goes on.
UNSUPPORTED = {
    "torch._utils._rebuild_qtensor": QUANTISED,
    **{f"torch.{name}": QUANTISED for name in (
        "quint8", "qint8", "qint32", "quint4x2", "quint2x4", "QUInt8Storage", "QInt8Storage", "QInt32Storage", "QUInt4x2Storage",
        "QUInt2x4Storage", "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine", "per_channel_symmetric",
        "per_channel_affine_float_qparams")},
    "torch._utils._rebuild_nested_tensor": "a nested tensor, which tdt does not have: save tensor.unbind(), a tuple of tensors",
}  # fmt: skip


def offered(name: str) -> Offered | None:
    """What a name stands for in a file that may run no code; None for one that is not allowed."""
    found = OFFERED.get(name)
    return Offered(parameter(), None, found.why) if found is not None and found.value is parameter else found


def safe(name: str) -> Any:
    """The value of a name that is PyTorch's, for files that may run code; None for any other."""
    found = offered(name) if name.startswith("torch.") else None
    return None if found is None else found.value


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
