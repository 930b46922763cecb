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
from tdt._core.torch_function import disabled
from tdt.nn._types import Device, Dtype


class _MarkedInstances(type):
    """Class whose instances are also the tensors of other classes that it marked when it was called with them."""

    mark: str  # the attribute of such a tensor

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, Tensor):
            return False
        # A subclass has no other instances than its own.
        return type.__instancecheck__(cls, instance) or ("mark" in cls.__dict__ and hasattr(instance, cls.mark))


def _marked(data: Tensor, mark: str, requires_grad: bool) -> Tensor:
    """`data`, of a class of the user's, as a new leaf that is marked.

    Raises:
        RuntimeError: when `detach` returns another class.
    """
    leaf = data.detach().requires_grad_(requires_grad)
    if type(leaf) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter or Buffer from an instance of type {type(data).__name__} requires that detach() returns "
            f"an instance of the same type, but it returned one of type {type(leaf).__name__}."
        )
    setattr(leaf, mark, True)
    return leaf


def _is_of_another_class(data: Any) -> bool:
    kind = type(data)
    return kind not in PLAIN and isinstance(data, Tensor) and not issubclass(kind, UninitializedTensorMixin)


class _WrappedTensor(Tensor, metaclass=_MarkedInstances):
    """A tensor whose constructor takes another tensor and options, which the subclass handles."""

    __torch_function__ = disabled

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return Tensor.__new__(cls)


class Parameter(_WrappedTensor):
    """Tensor that a module registers for training when it is assigned as an attribute.

    Args:
        data: tensor whose memory it shares; None for an empty one. Of a tensor of a class of yours the result has that class,
            and is an instance of Parameter too.
    Shape: that of `data`; (0,) without it.
    Raises:
        TypeError: when `data` is not a tensor.
        RuntimeError: when an integer tensor is to require gradients, or `data.detach()` is of another class than `data`.

    >>> import tdt
    >>> tdt.nn.Parameter(tdt.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    mark = "_is_param"

    # As in PyTorch not in __init__: a subclass whose __new__ takes other arguments need not define __init__ too.
    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        if data is not None and _is_of_another_class(data):
            return _marked(data, cls.mark, requires_grad)
        parameter = Tensor.__new__(cls)
        if data is not None:
            _share(parameter, data)
        return parameter.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(_WrappedTensor):
    """Tensor that a module registers as state, not for training, when it is assigned as an attribute.

    Args:
        data: tensor whose memory it shares; None for an empty one. Of a tensor of a class of yours the result has that class,
            and is an instance of Buffer too.
        persistent: whether `state_dict` contains it.
    Shape: that of `data`; (0,) without it.
    Raises:
        TypeError: when `data` is not a tensor.
        RuntimeError: when `data.detach()` is of another class than `data`.

    >>> import tdt
    >>> module = tdt.nn.Module()
    >>> module.mean = tdt.nn.Buffer(tdt.zeros(2))
    >>> module.state_dict()
    OrderedDict([('mean', tensor([0., 0.]))])
    """

    mark = "_is_buffer"
    persistent: bool

    def __new__(cls, data: Tensor | None = None, *args: Any, persistent: bool = True, **options: Any) -> Any:
        if data is None or not _is_of_another_class(data):
            return super().__new__(cls)
        if args or options:  # __init__ does not see them, as the result is no instance by class
            raise TypeError(f"{cls.__name__}() takes a tensor and `persistent`, not {[*args, *options]}")
        marked: Any = _marked(data, cls.mark, data.requires_grad)
        marked.persistent = persistent
        return marked

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


PLAIN = frozenset((Tensor, Parameter, Buffer))


class UninitializedTensorMixin:
    """What a parameter and a buffer without a shape have in common: little can be done with them but `materialize`."""

    _a: Any
    _st: Storage
    requires_grad: bool
    cls_to_become: type[Tensor]

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return Tensor.__new__(cls)  # type: ignore[arg-type]  # the other base is one

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
