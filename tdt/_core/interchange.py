"""Tensors to Python numbers, lists and NumPy arrays; copying and pickling."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import device
from tdt._core import dtype as _dtype
from tdt._core.float8 import plain
from tdt._core.methods import method
from tdt._core.mode import state, values_read
from tdt._core.sparse import SparseCOO
from tdt._core.storage import own_bytes
from tdt._core.tensor import LEAF, Storage, Tensor, alias

NUMBERS = {np.dtype(kind) for kind in "fdl?"}  # types whose elements NumPy gives as Python's numbers


@method()
def item(self: Tensor) -> bool | int | float | complex:
    """The only element, as a Python number.

    Shape: self with one element; result a number.
    Raises:
        RuntimeError: when there is not exactly one element, or the tensor is on device "meta".

    >>> import tdt
    >>> tdt.tensor([2.5]).item()
    2.5
    """
    a = self._a
    if a.dtype in NUMBERS and a.__class__ is np.ndarray and a.size == 1 and state.recording is None:
        return _backend.number(a)
    if self._a.size != 1:
        raise RuntimeError(f"a Tensor with {self._a.size} elements cannot be converted to Scalar")
    if self._a.__class__ is _backend.MetaArray:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    values_read("Tensor.item()")
    value = _backend.number(self._a)
    return float(value) if self.dtype.category == _dtype.FLOAT else value


@method()
def tolist(self: Tensor) -> Any:
    """The elements as nested lists of Python numbers; a number for a 0-d tensor.

    Shape: self (*); result lists nested as deep as there are dimensions.

    >>> import tdt
    >>> tdt.tensor([[1, 2], [3, 4]]).tolist()
    [[1, 2], [3, 4]]
    """
    values_read("Tensor.tolist()")
    a = _backend.to_device(self._a, _backend.CPU)
    return plain(a).tolist()


@method()
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The elements as a NumPy array that shares memory with the tensor.

    Args:
        force: detach a tensor that requires grad, and copy from a GPU.
    Shape: self (*); result the same.
    Raises:
        RuntimeError: when the tensor requires grad, gradients are enabled and `force` is False.
        TypeError: when the tensor is sparse, or not on the CPU and `force` is False.

    >>> import tdt
    >>> tdt.tensor([1, 2]).numpy()
    array([1, 2])
    """
    if not force and state.grad and self.requires_grad:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if isinstance(self._a, SparseCOO):
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")
    if not force and self.device.type != "cpu":
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    values_read("Tensor.numpy()")
    return _backend.to_device(self._a, _backend.CPU)


@method()
def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """The elements as a NumPy array, for `numpy.asarray(tensor)`."""
    a = self.numpy()
    return a if dtype is None and not copy else np.array(a, dtype=dtype, copy=bool(copy) or None)


@method(aliases=("const_data_ptr",))
def data_ptr(self: Tensor) -> int:
    """Address of the first element in memory.

    Shape: self (*); result an int.

    >>> import tdt
    >>> x = tdt.arange(3)
    >>> x[1:].data_ptr() - x.data_ptr()
    8
    """
    values_read("Tensor.data_ptr()")
    return self._a.ctypes.data if isinstance(self._a, np.ndarray) else self._a.data.ptr


@method()
def __len__(self: Tensor) -> int:
    """Size of the first dimension.

    Raises:
        TypeError: when the tensor is 0-d.
    """
    if not self._a.ndim:
        raise TypeError("len() of a 0-d tensor")
    return self._a.shape[0]


@method(aliases=("__nonzero__",))
def __bool__(self: Tensor) -> bool:
    """Whether the only element is not 0.

    Raises:
        RuntimeError: when there is not exactly one element.
    """
    a = self._a
    if a.dtype in NUMBERS and a.__class__ is np.ndarray and a.size == 1 and state.recording is None:
        return bool(_backend.number(a))
    if self._a.size != 1:
        what = "no values" if not self._a.size else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous; use .any() or .all()")
    values_read("bool(tensor)")
    return bool(_backend.number(self._a))


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


@method()
def __float__(self: Tensor) -> float:
    """The only element as a float."""
    return float(_real_number(self))


@method(aliases=("__long__",))
def __int__(self: Tensor) -> int:
    """The only element as an int."""
    return int(_real_number(self))


@method()
def __complex__(self: Tensor) -> complex:
    """The only element as a complex number."""
    return complex(_number(self))


@method()
def __index__(self: Tensor) -> int:
    """The only element of an integer tensor, as an index.

    Raises:
        TypeError: when the dtype is not an integer one, or there is not exactly one element.
    """
    if self.dtype.category > _dtype.INT or self._a.size != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


@method()
def __format__(self: Tensor, spec: str) -> str:
    """The only element of a 0-d tensor by a format, as in f"{x:.2f}"."""
    if type(self) is Tensor and not self._a.ndim:
        return format(self.item(), spec)
    return object.__format__(self, spec)


@method()
def __reduce_ex__(self: Tensor, protocol: Any) -> tuple:
    """What pickle stores: the class, an array, the device, `requires_grad` and attributes."""
    array = _backend.to_device(self._a, _backend.CPU)
    return _rebuild, (type(self), array, str(self.device), self.requires_grad, _attributes(self))


@method()
def __deepcopy__(self: Tensor, memo: dict) -> Tensor:
    """A copy whose memory is that of the copies of all tensors on the same memory, in one call of deepcopy."""
    requires_grad = _leaf_requires_grad(self)
    a, st = self._a, Storage()
    copied: Any
    if isinstance(a, SparseCOO):
        copied = _backend.copied(a)
    elif isinstance(a, _backend.MetaArray):  # it has no memory
        copied = a
    else:
        whole = own_bytes(self)
        start = _backend.byte_bounds(whole)[0]
        memories = memo.setdefault("memories", {})
        if (start, whole.size) not in memories:
            memories[start, whole.size] = _backend.copied(whole), st
        memory, st = memories[start, whole.size]
        offset = _backend.byte_bounds(a)[0] - start if a.size else 0
        copied = _backend.look_into(memory, a.dtype, offset, a.shape, a.strides)
    created = _of_class(alias(copied, LEAF if requires_grad else None, st), type(self))
    memo[id(self)] = created
    created._grad = copy.deepcopy(self._grad, memo)
    created.__dict__.update(copy.deepcopy(_attributes(self), memo))
    return created


@method()
def as_subclass(self: Tensor, cls: type[Tensor]) -> Any:
    """The same tensor as an instance of a subclass of Tensor; memory, graph and gradient are shared.

    Shape: self (*); result the same.
    Raises:
        TypeError: when `cls` is not a subclass of Tensor.

    >>> import tdt
    >>> class Weight(tdt.Tensor): pass
    >>> type(tdt.zeros(2).as_subclass(Weight)).__name__
    'Weight'
    """
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not possible. Make sure your class "
            f"inherits from Tensor; got {cls!r}."
        )
    if self._edge is LEAF and state.grad:
        self = self[...]  # whose gradient goes to the leaf
    return _of_class(self, cls)


def _of_class(tensor: Tensor, cls: type[Tensor]) -> Tensor:
    """A tensor of this class that shares all with another."""
    created = Tensor.__new__(cls)
    created._a, created._st, created._edge, created._view = tensor._a, tensor._st, tensor._edge, tensor._view
    return created


def _make_subclass(cls: type[Tensor], data: Tensor, require_grad: bool = False) -> Any:
    """A tensor of a class that inherits from Tensor on the memory of `data`, outside its graph."""
    return _of_class(alias(data._a, LEAF if require_grad else None, data._st), cls)


@method()
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """The tensor that `load_state_dict` stores in place of this one.

    Args:
        assign: True: `other` itself, detached; False: this tensor with the values of `other`.
    Shape: self (*), other the same; result the same.

    >>> import tdt
    >>> tdt.zeros(2).module_load(tdt.ones(2))
    tensor([1., 1.])
    """
    if assign:
        return other.detach()
    return self.copy_(other).detach()


def _leaf_requires_grad(t: Tensor) -> bool:
    """Whether a leaf requires a gradient; RuntimeError for a non-leaf tensor, which cannot be copied."""
    if not t.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment; "
            "use .detach() first"
        )
    return t.requires_grad


def _attributes(t: Tensor) -> dict[str, Any]:
    """The attributes that the user set on the tensor; hooks are not copied."""
    return {name: value for name, value in t.__dict__.items() if not name.startswith("_") or name in MARKS}


MARKS = frozenset(("_is_param", "_is_buffer"))  # of tensors of other classes that Parameter or Buffer was called with


def _rebuild(cls: type[Tensor], array: Any, where: str, requires_grad: bool, attributes: dict) -> Tensor:
    created = cls.__new__(cls)
    created._a = _backend.to_device(array, device(where))
    created._edge = LEAF if requires_grad else None
    created.__dict__.update(attributes)
    return created


Tensor._cdata = property(id)  # type: ignore[assignment, method-assign]  # PyTorch's number of a tensor, which no other has
Tensor._of_class = staticmethod(_of_class)  # type: ignore[assignment, method-assign]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[assignment, method-assign]
