"""Tensors to Python numbers, lists and NumPy arrays; copying and pickling."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import device
from tdt._core import dtype as _dtype
from tdt._core.float8 import plain
from tdt._core.sparse import SparseCOO
from tdt._core.storage import own_bytes
from tdt._core.tensor import LEAF, Storage, Tensor, alias


def item(self: Tensor) -> Any:
    """The only element, as a Python number; RuntimeError if there are more or none, or no values ("meta")."""
    if self._a.size != 1:
        raise RuntimeError(f"a Tensor with {self._a.size} elements cannot be converted to Scalar")
    if self._a.__class__ is _backend.MetaArray:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    value = self._a.item()
    return float(value) if self.dtype.category == _dtype.FLOAT else value


def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers (a number, for a 0-d tensor)."""
    a = _backend.to_device(self._a, _backend.CPU)
    return plain(a).tolist()


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The elements as a NumPy array that shares memory with the tensor.

    `force=True` detaches and copies from the GPU where needed; else RuntimeError for a tensor that wants gradients and
    TypeError for one on a GPU.
    """
    if not force and self.requires_grad:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if isinstance(self._a, SparseCOO):
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")
    if not force and self.device.type != "cpu":
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    return _backend.to_device(self._a, _backend.CPU)


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    a = self.numpy()
    return a if dtype is None and not copy else np.array(a, dtype=dtype, copy=bool(copy) or None)


def data_ptr(self: Tensor) -> int:
    """Address of the first element."""
    return self._a.ctypes.data if isinstance(self._a, np.ndarray) else self._a.data.ptr


def __len__(self: Tensor) -> int:
    if not self._a.ndim:
        raise TypeError("len() of a 0-d tensor")
    return self._a.shape[0]


def __bool__(self: Tensor) -> bool:
    if self._a.size != 1:
        what = "no values" if not self._a.size else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous; use .any() or .all()")
    return bool(self._a.item())


def _number(self: Tensor) -> Any:
    if self._a.size != 1:
        raise ValueError(f"only one element tensors can be converted to Python scalars, not one of {self.shape}")
    return self.item()


def _real_number(self: Tensor) -> Any:
    value = _number(self)
    if isinstance(value, complex):
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type double without overflow: {value}")
        return value.real
    return value


def __float__(self: Tensor) -> float:
    return float(_real_number(self))


def __int__(self: Tensor) -> int:
    return int(_real_number(self))


def __complex__(self: Tensor) -> complex:
    return complex(_number(self))


def __index__(self: Tensor) -> int:
    if self.dtype.category > _dtype.INT or self._a.size != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


def __format__(self: Tensor, spec: str) -> str:
    if type(self) is Tensor and not self._a.ndim:
        return format(self.item(), spec)
    return object.__format__(self, spec)


def __reduce_ex__(self: Tensor, protocol: Any) -> tuple:
    array = _backend.to_device(self._a, _backend.CPU)
    return _rebuild, (type(self), array, str(self.device), self.requires_grad, _attributes(self))


def __deepcopy__(self: Tensor, memo: dict) -> Tensor:
    """A copy whose memory is that of the copies of all tensors on the same memory, in one call of deepcopy."""
    wanted = _is_wanted(self)
    a, st = self._a, Storage()
    if isinstance(a, SparseCOO):
        copied = a.copy()
    elif isinstance(a, _backend.MetaArray):  # it has no memory
        copied = a
    else:
        whole = own_bytes(self)
        start = _backend.byte_bounds(whole)[0]
        memories = memo.setdefault("memories", {})
        if (start, whole.size) not in memories:
            memories[start, whole.size] = whole.copy(), st
        memory, st = memories[start, whole.size]
        offset = _backend.byte_bounds(a)[0] - start if a.size else 0
        copied = _backend.look_into(memory, a.dtype, offset, a.shape, a.strides)
    made = as_subclass(alias(copied, LEAF if wanted else None, st), type(self))
    memo[id(self)] = made
    made._grad = copy.deepcopy(self._grad, memo)
    made.__dict__.update(copy.deepcopy(_attributes(self), memo))
    return made


def as_subclass(self: Tensor, cls: type[Tensor]) -> Any:
    """The same tensor as one of `cls`, a class that inherits from Tensor: memory, graph and gradients are shared.

    Operations give plain tensors, whatever the classes of their operands. TypeError for any other class.
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class "
            f"inherits from Tensor; got {cls!r}."
        )
    made = Tensor.__new__(cls)
    made._a, made._st, made._edge, made._view = self._a, self._st, self._edge, self._view
    return made


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
    """A tensor of a class that inherits from Tensor on the memory of `data`, outside its graph."""
    return as_subclass(alias(data._a, LEAF if require_grad else None, data._st), cls)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `load_state_dict` puts in this tensor's place: `other` itself, or this tensor with its values."""
    if assign:
        return other.detach()  # type: ignore[attr-defined]
    return self.copy_(other).detach()  # type: ignore[attr-defined]


def _is_wanted(t: Tensor) -> bool:
    """Whether a leaf requires a gradient; RuntimeError for a non-leaf tensor, which cannot be copied."""
    if not t.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment; "
            "use .detach() first"
        )
    return t.requires_grad


def _attributes(t: Tensor) -> dict[str, Any]:
    """The attributes that the user set on the tensor; hooks are not copied."""
    return {name: value for name, value in t.__dict__.items() if not name.startswith("_")}


def _rebuild(cls: type, array: Any, where: str, requires_grad: bool, attributes: dict) -> Tensor:
    made = cls.__new__(cls)
    made._a = _backend.to_device(array, device(where))
    made._edge = LEAF if requires_grad else None
    made.__dict__.update(attributes)
    return made


Tensor.__nonzero__, Tensor.__long__ = __bool__, __int__
for _method in (item, tolist, numpy, data_ptr, __array__, __len__, __bool__, __float__, __int__, __complex__, __index__,
                __format__, __reduce_ex__, __deepcopy__, as_subclass, module_load):  # fmt: skip
    setattr(Tensor, _method.__name__, _method)
Tensor._cdata = property(id)  # type: ignore[attr-defined]  # PyTorch's number of a tensor, which no other has
Tensor.const_data_ptr = data_ptr  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
