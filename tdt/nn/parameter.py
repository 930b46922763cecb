"""Parameter: a tensor that a module trains; Buffer: one that it keeps and does not train.

UninitializedParameter, UninitializedBuffer: such a tensor whose shape the first input decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt import _backend
from tdt._backend.device import as_device
from tdt._core.dtype import as_dtype, get_default_dtype
from tdt._core.size import Size
from tdt._core.tensor import Storage, Tensor
from tdt.nn._types import Device, Dtype


class _WrappedTensor(Tensor):
    """A tensor whose constructor takes another tensor and options, which the subclass handles."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return Tensor.__new__(cls)


class Parameter(_WrappedTensor):
    """Tensor that a module registers for training when it is assigned as an attribute.

    Args:
        data: tensor whose memory it shares; None for an empty one.
    Shape: that of `data`; (0,) without it.
    Raises:
        TypeError: when `data` is not a tensor.
        RuntimeError: when an integer tensor is to require gradients.

    >>> import tdt
    >>> tdt.nn.Parameter(tdt.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        if data is not None:
            _share(self, data)
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(_WrappedTensor):
    """Tensor that a module registers as state, not for training, when it is assigned as an attribute.

    Args:
        data: tensor whose memory it shares; None for an empty one.
        persistent: whether `state_dict` contains it.
    Shape: that of `data`; (0,) without it.
    Raises:
        TypeError: when `data` is not a tensor.

    >>> import tdt
    >>> module = tdt.nn.Module()
    >>> module.mean = tdt.nn.Buffer(tdt.zeros(2))
    >>> module.state_dict()
    OrderedDict([('mean', tensor([0., 0.]))])
    """

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True):
        if data is not None:
            _share(self, data)
            self.requires_grad_(data.requires_grad)
        self.persistent = persistent


def _share(target: Tensor, data: Any) -> None:
    """Make `target` share the memory of `data`. Raises TypeError if `data` is not a tensor."""
    name = type(target).__name__
    if not isinstance(data, Tensor):
        raise TypeError(f"{name} expects a Tensor, got {type(data).__name__}: make one with tensor(...) first")
    target._a, target._st = data._a, data._st


class UninitializedTensorMixin:
    """What a parameter and a buffer without a shape have in common: little can be done with them but `materialize`."""

    _a: Any
    _st: Storage
    requires_grad: bool
    cls_to_become: type[Tensor]

    def _start(self, requires_grad: bool, device: Device, dtype: Dtype) -> None:
        where = as_device(device)
        kind = as_dtype(dtype or get_default_dtype()).np
        is_meta = where.type == "meta"
        self._a = (
            _backend.to_device(_backend.stand_in((0,), kind), where) if is_meta else _backend.on(where).empty(0, kind)
        )
        Tensor.requires_grad_(self, requires_grad)  # type: ignore[arg-type]

    def materialize(self, shape: tuple[int, ...], device: Device = None, dtype: Dtype = None) -> None:
        """Allocate uninitialised memory of `shape`; the object stays the same, so optimizers keep their reference to it."""
        where = as_device(device) if device is not None else _backend.device_of(self._a)
        kind = self._a.dtype if dtype is None else as_dtype(dtype).np
        if where.type == "meta":
            self._a = _backend.to_device(_backend.stand_in(tuple(shape), kind), where)
        else:
            self._a = _backend.on(where).empty(tuple(shape), kind)
        self._st = Storage()
        self.__class__ = self.cls_to_become  # type: ignore[assignment]

    @property
    def shape(self) -> Size:
        """Not known yet: RuntimeError."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        """Not possible before `materialize`.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters before "
            "calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """Parameter without a shape; `materialize` gives it one and makes it a plain Parameter.

    >>> import tdt
    >>> p = tdt.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, tuple(p.shape)
    ('Parameter', (2, 3))
    """

    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Device = None, dtype: Dtype = None):
        self._start(requires_grad, device, dtype)


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """Buffer without a shape; `materialize` gives it one and makes it a plain Buffer.

    >>> import tdt
    >>> b = tdt.nn.UninitializedBuffer(dtype=tdt.int64)
    >>> b.materialize(())
    >>> b.fill_(0)
    tensor(0)
    """

    cls_to_become = Buffer

    def __init__(
        self, requires_grad: bool = False, device: Device = None, dtype: Dtype = None, persistent: bool = True
    ):
        self._start(requires_grad, device, dtype)
        self.persistent = persistent


def _refuse(name: str) -> Callable[..., Any]:
    def refused(self: UninitializedTensorMixin, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {name}. Its shape comes with the first input: call the model "
            "once before you use it"
        )

    refused.__name__ = name
    return refused


# What a tensor without a shape can do; every other method refuses.
_ABLE = {"size", "to", "cpu", "cuda", "float", "double", "half", "bfloat16", "is_floating_point", "is_complex", "requires_grad_",
         "__new__", "__init__", "__hash__", "__format__", "__class__", "__reduce_ex__", "__deepcopy__"}  # fmt: skip
for _name, _method in vars(Tensor).items():
    if callable(_method) and _name not in _ABLE and _name not in vars(UninitializedTensorMixin):
        setattr(UninitializedTensorMixin, _name, _refuse(_name))


def is_lazy(param: Any) -> bool:
    """Whether `param` is a parameter or a buffer without a shape.

    >>> import tdt
    >>> tdt.nn.parameter.is_lazy(tdt.nn.UninitializedParameter()), tdt.nn.parameter.is_lazy(tdt.nn.Parameter())
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]
