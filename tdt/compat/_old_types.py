"""Legacy tensor types and constructors: `FloatTensor`, `Tensor(2, 3)`, `x.new(2, 3)`."""

from __future__ import annotations

import copyreg
import warnings
from typing import Any

import numpy as np

from tdt import _backend
from tdt._backend.device import CPU, device
from tdt._core import dtype as _dtype
from tdt._core.dtype import dtype
from tdt._core.from_data import array_of
from tdt._core.layout import strided
from tdt._core.methods import method
from tdt._core.size import Size
from tdt._core.storage import TypedStorage, UntypedStorage
from tdt._core.tensor import Tensor, wrap
from tdt._ops.shape.memory import to
from tdt.compat._absent import bind_removed


class TensorType(type):
    """A dtype and a device under one name: `FloatTensor([1, 2])` creates a tensor, `isinstance(x, FloatTensor)` tests for it.

    Its instances are classes, so that annotations such as `LongTensor | None` work; no tensor has one as its class.

    >>> import tdt
    >>> tdt.LongTensor([1.5, 2]), isinstance(tdt.zeros(1), tdt.LongTensor)
    (tensor([1, 2]), False)
    >>> isinstance(tdt.zeros(1), tdt.FloatTensor | None)
    True
    """

    layout: Any = strided
    dtype: Any
    device: Any
    is_cuda: bool

    def __new__(cls, kind: dtype, where: device) -> TensorType:
        module = "torch.cuda" if where.type == "cuda" else "torch"
        tensor_type = super().__new__(
            cls,
            f"{_dtype.SCALAR_NAMES[kind]}Tensor",
            (),
            {"__module__": module, "__doc__": f"Tensors of {kind} on {where.type}."},
        )
        tensor_type.dtype, tensor_type.device, tensor_type.is_cuda = kind, where, where.type == "cuda"
        return tensor_type

    def __init__(self, kind: dtype, where: device):
        super().__init__(self.__name__, (), {})

    def __call__(self, *args: Any, device: Any = None) -> Tensor:
        if self.is_cuda and not _backend.cuda_device_count():
            raise TypeError(
                f"type {self.full_name()} not available. Torch not compiled with CUDA enabled: CuPy sees no GPU."
            )
        tensor = wrap(_backend.on(self.device).empty(0, self.dtype.np))
        fill(tensor, args, self.dtype, self.device)
        return tensor

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, Tensor) and x.dtype is self.dtype and x.device.type == self.device.type

    def full_name(self) -> str:
        """'torch.FloatTensor', the name that `x.type()` returns."""
        return f"{self.__module__}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<class '{self.full_name()}'>"


copyreg.pickle(TensorType, lambda kind: (type_named, (kind.full_name(),)))

_KINDS = [kind for kind, name in _dtype.SCALAR_NAMES.items() if not name.startswith(("Complex", "UInt", "Float8"))]
TYPES = {t.__name__: t for t in (TensorType(kind, CPU) for kind in _KINDS)}
CUDA_TYPES = {t.__name__: t for t in (TensorType(kind, device("cuda")) for kind in _KINDS)}
globals().update(TYPES)
__all__ = ["set_default_tensor_type", "typename"]
__all__ += list(TYPES)


def type_named(name: Any) -> TensorType:
    """The type named 'torch.FloatTensor' or 'tdt.cuda.LongTensor'; ValueError for an unknown name."""
    for known in (*TYPES.values(), *CUDA_TYPES.values()):
        if name is known or name in (known.full_name(), known.full_name().replace("torch", "tdt")):
            return known
    raise ValueError(f"invalid type: '{name}'; write a dtype, or a name such as 'torch.FloatTensor'")


def fill(tensor: Tensor, args: tuple, kind: dtype, where: device) -> None:
    """Set the data of `tensor` as the legacy constructors do.

    `args` are sizes (the memory is uninitialised), a sequence of values, or a tensor or storage, whose memory is shared.

    Raises:
        TypeError: when a tensor has another dtype or device, or a single argument is neither a size nor a sequence.
        RuntimeError: when a size is negative.
    """
    first = args[0] if len(args) == 1 else None
    if isinstance(first, Tensor):
        if first.dtype is not kind or first.device.type != where.type:
            raise TypeError(
                f"expected a tensor of {kind} on {where}, got one of {first.dtype} on {first.device}; use .to()"
            )
        tensor._a, tensor._st = first._a, first._st
    elif isinstance(first, TypedStorage | UntypedStorage):
        memory = first.untyped() if isinstance(first, TypedStorage) else first
        tensor._a, tensor._st = memory._bytes.view(kind.np), memory.shared()
    elif len(args) == 1 and not isinstance(first, Size) and not _is_size(first):
        if isinstance(first, bool | float | complex | None):
            raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
        values = np.asarray(array_of(first, None, CPU))
        tensor._a = _backend.to_device(values.astype(kind.np), where)
    else:
        sizes = tuple(first) if isinstance(first, Size) else args or (0,)
        for place, n in enumerate(sizes, 1):
            if not hasattr(n, "__index__"):
                raise TypeError(
                    f"new(): argument 'size' failed to unpack the object at pos {place} with error \"type must be tuple of "
                    f'ints,but got {type(n).__name__}"'
                )
        if min(sizes, default=0) < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {list(sizes)}")
        tensor._a = _backend.on(where).empty(sizes, kind.np)


def _is_size(n: Any) -> bool:
    return hasattr(n, "__index__") and not isinstance(n, bool | np.ndarray)


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Legacy constructor `x.new(2, 3)`, `x.new([1, 2])` or `x.new(y)`: a tensor with the dtype and device of `x`."""
    tensor = wrap(self._a[:0] if self._a.ndim else self._a)
    fill(tensor, args, self.dtype, self.device)
    return tensor


def set_default_tensor_type(t: Any) -> None:
    """Legacy form of `set_default_dtype`: takes a tensor type such as `tdt.DoubleTensor`, or its name.

    Raises:
        TypeError: when `t` is neither such a type nor a string, is not floating-point, or is not on the CPU.
        ValueError: when a string names no type.

    >>> import tdt
    >>> tdt.set_default_tensor_type("torch.FloatTensor")
    """
    if not isinstance(t, str | TensorType):
        raise TypeError(f"invalid type object: only floating-point types are supported as the default type, got {t!r}")
    warnings.warn(
        "set_default_tensor_type() is deprecated; use set_default_dtype() and set_default_device()", UserWarning, 2
    )
    kind = type_named(t)
    if kind.is_cuda:
        raise TypeError(f"type {kind.full_name()} not available as the default; use set_default_device('cuda')")
    _dtype.set_default_dtype(kind.dtype)


@method("type")
def type_(input: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Convert to `dtype`, which may be an old type or its name; without it, return the old type's name.

    Shape: input (*); result the same, or a string.
    Raises:
        ValueError: when a string names no type.

    >>> import tdt
    >>> tdt.ones(1).type(tdt.int64).type()
    'torch.LongTensor'
    """
    if isinstance(dtype, str | TensorType):
        kind = type_named(dtype)
        return to(input, kind.device.type, kind.dtype)
    return typename(input) if dtype is None else to(input, dtype)


def typename(obj: Any) -> str:
    """The name of an object's type: 'torch.FloatTensor' for a tensor, the dotted name of a class otherwise.

    >>> import tdt
    >>> tdt.typename(tdt.zeros(1)), tdt.typename(tdt.nn.Linear(1, 1))
    ('torch.FloatTensor', 'tdt.nn.modules.linear.Linear')
    """
    if isinstance(obj, Tensor):
        kind = ("cuda." if obj.is_cuda else "") + ("sparse." if obj.is_sparse else "")
        return f"torch.{kind}{_dtype.SCALAR_NAMES[obj.dtype]}Tensor"
    if isinstance(obj, TensorType):
        return obj.full_name()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or ""
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"


setattr(Tensor, new.__name__, new)
Tensor._fill = staticmethod(fill)
bind_removed(Tensor)
