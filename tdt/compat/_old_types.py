"""Legacy tensor types and constructors: `FloatTensor`, `Tensor(2, 3)`, `x.new(2, 3)`."""

from __future__ import annotations

import copyreg
import warnings
from typing import Any

from tdt import _backend
from tdt._backend.device import CPU, device
from tdt._core import dtype as _dtype
from tdt._core.dtype import dtype
from tdt._core.layout import strided
from tdt._core.legacy_constructor import fill
from tdt._core.methods import method
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


bind_removed(Tensor)
