"""`Variable`, what tensors were called before they could ask for gradients themselves."""

from __future__ import annotations

import warnings
from typing import Any

from tdt._core.tensor import Tensor


class _Meta(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_Meta):
    """`Variable(data, requires_grad=False)` is a tensor on the memory of `data`, outside its graph. TypeError for no tensor.

    >>> import tdt
    >>> from tdt.autograd.variable import Variable
    >>> Variable(tdt.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with tdt.no_grad():` instead.", stacklevel=2
            )
        if data is None:
            return Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
