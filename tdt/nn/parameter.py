"""Parameter: a tensor that a module trains; UninitializedParameter: one whose shape the first input decides.

Buffer: a tensor that a module keeps and does not train.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tdt import _backend
from tdt._device import as_device
from tdt._dtype import as_dtype, get_default_dtype
from tdt._size import Size
from tdt._tensor import Storage, Tensor


class Parameter(Tensor):
    """A tensor that a Module registers when it is assigned as an attribute, and that wants gradients.

    Shares memory with `data`. RuntimeError for an integer tensor unless `requires_grad=False`.

    >>> import tdt
    >>> tdt.nn.Parameter(tdt.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        if data is not None:
            self._a, self._st = data._a, data._st
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer when it is assigned as an attribute; see `Module.register_buffer`.

    Shares memory with `data`. Not `persistent`: kept out of `state_dict`.

    >>> import tdt
    >>> module = tdt.nn.Module()
    >>> module.mean = tdt.nn.Buffer(tdt.zeros(2))
    >>> module.state_dict()
    OrderedDict([('mean', tensor([0., 0.]))])
    """

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True):
        if data is not None:
            self._a, self._st = data._a, data._st
            self.requires_grad_(data.requires_grad)
        self.persistent = persistent


class UninitializedParameter(Parameter):
    """A Parameter without a shape yet; `materialize` gives it one and makes it an ordinary Parameter.

    >>> import tdt
    >>> p = tdt.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, tuple(p.shape)
    ('Parameter', (2, 3))
    """

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None):
        where = as_device(device)
        self._a = _backend.on(where).empty(0, as_dtype(dtype or get_default_dtype()).np)
        Parameter.requires_grad_(self, requires_grad)

    def materialize(self, shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        """Take `shape` and memory that is not filled yet; the object stays the same, so optimizers keep hold of it."""
        where = as_device(device) if device is not None else _backend.device_of(self._a)
        self._a = _backend.on(where).empty(tuple(shape), self._a.dtype if dtype is None else as_dtype(dtype).np)
        self._st = Storage()
        self.__class__ = Parameter  # type: ignore[assignment]

    @property
    def shape(self) -> Size:
        """Not known yet: RuntimeError."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` to "
            "initialize the parameters before accessing their attributes."
        )

    def __deepcopy__(self, memo: dict) -> UninitializedParameter:
        made = type(self)(self.requires_grad, dtype=self.dtype)
        memo[id(self)] = made
        return made

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


def _refuse(name: str) -> Callable[..., Any]:
    def refused(self: UninitializedParameter, *args: Any, **kwargs: Any) -> Any:
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {name}. Its shape comes with the first input: call the model "
            "once before you use it"
        )

    refused.__name__ = name
    return refused


# What a tensor without a shape can do; every other method refuses.
_ABLE = {"size", "to", "cpu", "cuda", "float", "double", "half", "bfloat16", "is_floating_point", "is_complex",
         "__new__", "__init__", "__hash__", "__repr__", "__format__", "__reduce_ex__"}  # fmt: skip
for _name, _method in vars(Tensor).items():
    if callable(_method) and _name not in _ABLE and _name not in vars(UninitializedParameter) and _name != "__class__":
        setattr(UninitializedParameter, _name, _refuse(_name))


def is_lazy(value: Any) -> bool:
    """Whether `value` is a parameter without a shape."""
    return isinstance(value, UninitializedParameter)


__all__ = ["Buffer", "Parameter", "UninitializedParameter", "is_lazy"]
