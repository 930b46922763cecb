"""`torch._foreach_*`: one operation on every tensor of a list, for optimizers that are written with these functions.

Each function calls the tensor method of that name once per tensor. `_foreach_add` returns a tuple of new tensors;
in-place functions, with a trailing underscore as in `_foreach_add_`, change the tensors and return the list.

>>> import tdt
>>> from tdt.compat._foreach import _foreach_add, _foreach_mul_
>>> weights, gradients = [tdt.ones(2), tdt.zeros(1)], [tdt.ones(2), tdt.ones(1)]
>>> weights = _foreach_add(weights, gradients, alpha=-0.5); weights
(tensor([0.5000, 0.5000]), tensor([-0.5000]))
>>> _foreach_mul_(weights, [2, 3])
(tensor([1., 1.]), tensor([-1.5000]))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tdt
from tdt._core.tensor import Tensor

UNARY = [
    "abs", "acos", "asin", "atan", "ceil", "clone", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac",
    "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc", "zero_",
]  # fmt: skip
# Name after `_foreach_` → the tensor's method for a list or numbers, and the names of the second operand.
BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "clamp_max": "clamp_max", "clamp_min": "clamp_min",
    "maximum": "clamp_min", "minimum": "clamp_max", "pow": "pow",
}  # fmt: skip
SECOND = ("other", "scalar", "scalars", "exponent", "tensor")


def _checked(tensors: Sequence[Tensor], *others: Any) -> list[Sequence[Any]]:
    """Each of `others` as a sequence with an entry for each of `tensors`."""
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return [_entries(other, len(tensors)) for other in others]


def _entries(other: Any, count: int) -> Sequence[Any]:
    if isinstance(other, Tensor):
        if other.ndim:
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {other.ndim} dimensions and {other.numel()} elements."
            )
        return [other] * count
    if not isinstance(other, (list, tuple)):
        return [other] * count
    if not other:
        raise RuntimeError("Tensor list must have at least one tensor.")
    if len(other) != count and isinstance(other[0], Tensor):
        raise RuntimeError(f"Tensor lists must have the same number of tensors, got {count} and {len(other)}")
    if len(other) != count:
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return other


def _unary(method: str) -> Callable[..., Any]:
    def function(self: Sequence[Tensor], **options: Any) -> tuple[Tensor, ...]:
        _checked(self)
        return tuple([getattr(t, method)(**options) for t in self])

    return function


def _second(args: tuple, options: dict[str, Any]) -> Any:
    """The second operand, passed by position or by one of its names."""
    if args:
        return args[0]
    for name in SECOND:
        if name in options:
            return options.pop(name)
    raise TypeError("missing the second operand: a list of tensors, a number, or a list of numbers")


def _binary(method: str) -> Callable[..., Any]:
    def function(self: Sequence[Tensor], *args: Any, **options: Any) -> tuple[Tensor, ...]:
        (others,) = _checked(self, _second(args, options))
        return tuple([getattr(t, method)(other, **options) for t, other in zip(self, others, strict=True)])

    return function


def _pow(self: Any, *args: Any, **options: Any) -> tuple[Tensor, ...]:
    exponent = _second(args, options)
    if isinstance(self, (list, tuple)):
        return _binary("pow")(self, exponent)
    _checked(exponent)  # a number to the power of each tensor
    return tuple([tdt.pow(self, t) for t in exponent])


def _ternary(method: str) -> Callable[..., Any]:
    """addcdiv and addcmul: `scalars` is one number for all, a list, or a tensor with a number for each."""

    def function(
        self: Sequence[Tensor], tensor1: Any, tensor2: Any, scalars: Any = None, *, value: Any = 1
    ) -> tuple[Tensor, ...]:
        factors = value if scalars is None else scalars
        if isinstance(factors, Tensor) and factors.ndim:
            factors = factors.tolist()
            if len(factors) != len(self):
                raise RuntimeError(
                    f"Expected length of scalars to match input of length {len(self)} but got {len(factors)} instead."
                )
        rows = zip(self, *_checked(self, tensor1, tensor2, factors), strict=True)
        return tuple([getattr(t, method)(first, second, value=factor) for t, first, second, factor in rows])

    return function


def _lerp(method: str) -> Callable[..., Any]:
    def function(
        self: Sequence[Tensor], tensors1: Any, weight: Any = None, *, weights: Any = None
    ) -> tuple[Tensor, ...]:
        rows = zip(self, *_checked(self, tensors1, weight if weights is None else weights), strict=True)
        return tuple([getattr(t, method)(end, share) for t, end, share in rows])

    return function


def _copy_(self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False) -> tuple[Tensor, ...]:
    (sources,) = _checked(self, src)
    return tuple([t.copy_(source, non_blocking) for t, source in zip(self, sources, strict=True)])


def _norm(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    _checked(self)
    return tuple([tdt.linalg.vector_norm(t, ord, dtype=dtype) for t in self])


def _powsum(self: Sequence[Tensor], ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    _checked(self)
    return tuple([t.abs().pow(ord).sum(dtype=dtype) for t in self])


def _mm(self: Sequence[Tensor], mat2: Sequence[Tensor]) -> tuple[Tensor, ...]:
    (others,) = _checked(self, mat2)
    return tuple([t.mm(other) for t, other in zip(self, others, strict=True)])


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """An in-place function, which returns the list of its tensors; autograd would have to record each tensor separately."""

    def changing(self: Sequence[Tensor], *args: Any, **options: Any) -> Sequence[Tensor]:
        function(self, *args, **options)
        return self

    return changing


def _table() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {name: _unary(name) for name in UNARY}
    table["max"] = _unary("max")
    table |= {f"{name}_": _unary(f"{name}_") for name in UNARY if name not in ("clone", "zero_")}
    for name, method in BINARY.items():
        table |= {name: _binary(method), f"{name}_": _binary(f"{method}_")}
    for name in ("addcdiv", "addcmul"):
        table |= {name: _ternary(name), f"{name}_": _ternary(f"{name}_")}
    table |= {"lerp": _lerp("lerp"), "lerp_": _lerp("lerp_"), "pow": _pow, "copy_": _copy_}
    return table | {"norm": _norm, "powsum": _powsum, "mm": _mm}


for _name, _function in _table().items():
    _public = _in_place(_function) if _name.endswith("_") else _function
    _public.__name__ = _public.__qualname__ = f"_foreach_{_name}"
    globals()[_public.__name__] = _public

__all__ = [name for name in globals() if name.startswith("_foreach_")]
