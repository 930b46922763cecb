"""PyTorch values as tdt values: the same numbers, dtype, shape and strides over a storage of their own."""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
from typing import Any

import ml_dtypes
import numpy as np
import torch

import tdt
from tdt._core.sparse import SparseCOO
from tdt._core.tensor import wrap
from tests.parity.rebind import over_tdt

DTYPES = {getattr(torch, name): getattr(tdt, name) for name in (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128")}  # fmt: skip
PRECISE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
           torch.complex64: torch.complex128}  # fmt: skip

NP_DTYPES = {t: d.np for t, d in DTYPES.items()}

# What both libraries share, looked for first: most of what a call is made of.
PLAIN = frozenset((bool, int, float, complex, str, type(None)))


class Unconvertible(Exception):
    """The value has no counterpart in tdt (a compressed layout, a complex32 tensor); the case cannot be run on tdt."""


def array_of(t: torch.Tensor, memo: dict | None = None) -> np.ndarray:
    """A NumPy array with the values and strides of `t`, over a copy of its storage: one for all calls with one `seen`."""
    t, np_dtype = _plain(t), NP_DTYPES.get(t.dtype)
    if np_dtype is None:
        raise Unconvertible(f"dtype {t.dtype}")
    if t.dim() > 64:
        raise Unconvertible("more than 64 dimensions")
    if t.numel() == 0:
        return np.empty(tuple(t.shape), np_dtype)
    storage = t.untyped_storage()
    memo, key = {} if memo is None else memo, ("storage", storage._cdata)
    if key not in memo:
        if _is_whole(t, storage):
            flat = _viewed(t).copy()
            memo[key] = flat, t
            return flat
        memo[key] = torch.empty(0, dtype=torch.uint8).set_(storage).numpy().copy(), t  # type: ignore[call-overload]
    flat, _ = memo[key]  # with t, whose storage's address stays its own while `seen` lives
    size = t.element_size()
    strides = tuple([s * size for s in t.stride()])
    return np.ndarray(tuple(t.shape), np_dtype, flat, t.storage_offset() * size, strides)


def sparse_of(t: torch.Tensor) -> SparseCOO:
    """The coordinates and values of a sparse tensor."""
    t = t.detach()
    if t.layout is torch.sparse_csr:
        if t.dim() != 2 or t.dense_dim():
            raise Unconvertible("batches of compressed rows")
        return SparseCOO.of_rows(*map(array_of, (t.crow_indices(), t.col_indices(), t.values())), tuple(t.shape))
    return SparseCOO(array_of(t._indices()), array_of(t._values()), tuple(t.shape), t.is_coalesced())


def _plain(t: torch.Tensor) -> torch.Tensor:
    """`t` without a graph and without lazy bits: numbers in memory."""
    if t.layout is not torch.strided:
        raise Unconvertible(f"layout {t.layout}")
    if not t.is_cpu:
        raise Unconvertible(f"device {t.device}")
    t = t.detach()
    if t.is_conj() or t.is_neg():
        t = t.resolve_conj().resolve_neg()
    if t._is_zerotensor():  # zeros without memory, as some of PyTorch's gradients are; a clone of some is one again
        t = torch.zeros(t.shape, dtype=t.dtype)
    return t


def _is_whole(t: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    """Whether `t` is all of its storage in order, so that a copy of it is one of the storage."""
    return t.is_contiguous() and t.numel() * t.element_size() == storage.nbytes()


def _viewed(t: torch.Tensor) -> np.ndarray:
    return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if t.dtype is torch.bfloat16 else t.numpy()


def values_of(t: torch.Tensor) -> np.ndarray:
    """The values of `t` to be read at once: where it can, a view of its memory."""
    t = _plain(t)
    if t.dtype not in DTYPES:
        raise Unconvertible(f"dtype {t.dtype}")
    return _viewed(t)


def to_tdt(value: Any, memo: dict[Any, Any] | None = None) -> Any:
    """`value` with every tensor, dtype, device, function and module from PyTorch exchanged for tdt's.

    A tensor that occurs twice stays one tensor. Raises Unconvertible for what tdt does not have.
    """
    if type(value) in PLAIN:
        return value
    memo = {} if memo is None else memo
    convert = functools.partial(to_tdt, memo=memo)
    if isinstance(value, torch.Tensor):
        if id(value) not in memo:
            x = wrap(
                sparse_of(value) if value.layout in (torch.sparse_coo, torch.sparse_csr) else array_of(value, memo)
            )
            if type(value) is not torch.Tensor and isinstance(value, torch.nn.Parameter):
                x = tdt.nn.Parameter(x, requires_grad=value.requires_grad)
            memo[id(value)] = x.requires_grad_(True) if value.requires_grad else x
        return memo[id(value)]
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise Unconvertible(f"dtype {value}")
        return DTYPES[value]
    if isinstance(value, torch.Size):
        return tdt.Size(value)
    if type(value) in (list, tuple, set):
        return type(value)([convert(v) for v in value])
    if isinstance(value, dict):
        return {k: convert(v) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(convert(value.start), convert(value.stop), convert(value.step))
    return _plain_to_tdt(value)


def _plain_to_tdt(value: Any) -> Any:
    if isinstance(value, torch.device):
        return tdt.device(str(value))
    if isinstance(value, torch.layout | torch.memory_format):
        name = str(value).removeprefix("torch.")
        if not hasattr(tdt, name):
            raise Unconvertible(f"no tdt.{name}")
        return getattr(tdt, name)
    if isinstance(value, torch.Generator):
        generator = tdt.Generator()
        generator.manual_seed(value.initial_seed())
        return generator
    if isinstance(value, torch.nn.Module):
        return _module(value)
    if isinstance(value, torch.nn.LinearCrossEntropyOptions):
        return tdt.nn.LinearCrossEntropyOptions(*map(to_tdt, dataclasses.astuple(value)))
    if isinstance(value, types.FunctionType) and hasattr(tdt.nn.functional, value.__name__):
        return getattr(tdt.nn.functional, value.__name__)
    if isinstance(value, types.FunctionType | functools.partial):
        return over_tdt(value)
    if isinstance(value, types.BuiltinFunctionType):
        for home in (tdt, tdt.nn.functional):
            if hasattr(home, value.__name__):
                return getattr(home, value.__name__)
        raise Unconvertible(f"no tdt.{value.__name__}")
    return value


def _module(value: torch.nn.Module) -> Any:
    """The tdt layer with the same attributes, parameters, buffers and layers inside."""
    kind = getattr(tdt.nn, type(value).__name__, getattr(tdt.nn.modules.linear, type(value).__name__, None))
    if kind is None:
        raise Unconvertible(f"no tdt.nn.{type(value).__name__}")
    layer = kind.__new__(kind)
    tdt.nn.Module.__init__(layer)
    for name, attribute in vars(value).items():
        if name in ("_parameters", "_buffers", "_modules"):
            vars(layer)[name].update(to_tdt(dict(attribute)))
        elif not name.startswith("_"):
            setattr(layer, name, to_tdt(attribute))
    return layer


def cloned(value: Any, dtypes: dict[torch.dtype, torch.dtype] | None = None, memo: dict[Any, Any] | None = None) -> Any:
    """A copy of PyTorch `value` on storages of its own, leaves again where it required grad.

    dtypes: exchanges tensor dtypes on the way, as in `twin(sample, PRECISE)`; strides are kept either way. A tensor that
    occurs twice stays one tensor, and tensors that share memory do so here.
    """
    if type(value) in PLAIN:
        return value
    memo = {} if memo is None else memo
    if isinstance(value, torch.Tensor):
        if id(value) not in memo:
            memo[id(value)] = _cloned_tensor(value, (dtypes or {}).get(value.dtype, value.dtype), memo)
        return memo[id(value)]
    if type(value) in (list, tuple):
        return type(value)([v if type(v) in PLAIN else cloned(v, dtypes, memo) for v in value])
    if isinstance(value, dict):
        return {k: cloned(v, dtypes, memo) for k, v in value.items()}
    if dtypes and isinstance(value, torch.dtype):
        return dtypes.get(value, value)
    return copy.deepcopy(value) if isinstance(value, torch.nn.Module) else value


def _cloned_tensor(t: torch.Tensor, dtype: torch.dtype, memo: dict) -> torch.Tensor:
    if t.layout is not torch.strided or not t.is_cpu:
        return t.detach().clone()
    d = _plain(t)
    storage = d.untyped_storage()
    key = ("storage", storage._cdata, dtype)
    if key not in memo:
        whole = d if _is_whole(d, storage) else torch.empty(0, dtype=d.dtype).set_(storage)  # type: ignore[call-overload]
        memo[key] = whole.to(dtype, copy=True), d
    copied, _ = memo[key]
    copy = torch.empty(0, dtype=dtype).set_(copied.untyped_storage(), d.storage_offset(), d.shape, d.stride())  # type: ignore[call-overload]
    if type(t) is not torch.Tensor and isinstance(t, torch.nn.Parameter):
        return torch.nn.Parameter(copy, t.requires_grad)
    return copy.requires_grad_() if t.requires_grad else copy


def tensors_in(value: Any, kind: type) -> list[Any]:
    """All tensors of type `kind` in nested lists, tuples and dicts, in order, each once."""
    found: dict[int, Any] = {}

    def walk(v: Any) -> None:
        if isinstance(v, kind):
            found.setdefault(id(v), v)
        elif isinstance(v, dict):
            walk(tuple(v.values()))
        elif isinstance(v, (list, tuple)):
            for item in v:
                if type(item) not in PLAIN:
                    walk(item)
        elif dataclasses.is_dataclass(v) and not isinstance(v, type):
            for field in dataclasses.fields(v):
                walk(getattr(v, field.name))

    walk(value)
    return list(found.values())
