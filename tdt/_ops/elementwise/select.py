"""where, clamp, masked_fill, lerp, addcmul, addcdiv; copy and fill."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from tdt import _backend
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOATING, FLOATING_AND_COMPLEX, INTS, NUMBERS, REAL, SCALAR_NAMES, check_category
from tdt._core.float8 import KINDS, astype
from tdt._core.from_data import fill_number
from tdt._core.methods import method
from tdt._core.old_arguments import takes_old_order
from tdt._core.tensor import Tensor
from tdt._ops._common import C_NAMES, Number, conj
from tdt._ops.elementwise._front import binary_op, check_operands, refuse_out
from tdt._ops.index.nonzero import nonzero
from tdt.autograd._dispatch import converted
from tdt.autograd._in_place_methods import by_copy, by_op
from tdt.autograd._node_names import by_number, label, node_name
from tdt.autograd._op import finish, op

__all__ = [
    "addcdiv", "addcmul", "atan2", "arctan2", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min",
    "clamp_min_", "clip", "clip_", "copysign", "fill", "heaviside",
    "hypot", "ldexp", "lerp", "logaddexp", "logaddexp2", "masked_fill", "where", "xlogy",
]  # fmt: skip


@method(aliases=("arctan2",), in_place=by_op)
@front
@binary_op(
    lambda xp, x, y: xp.arctan2(x, y),
    vjp={"x": lambda g, x, y: g * y / _norm2(x, y), "y": lambda g, x, y: g * -x / _norm2(x, y)},
    dtypes=REAL,
    numbers="none",
    to_float=True,
)
def atan2(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (other, input), in (-π, π].

    >>> import tdt
    >>> tdt.atan2(tdt.tensor([1.]), tdt.tensor([1.]))
    tensor([0.7854])
    """


arctan2 = atan2


@method(in_place=by_op)
@front
@binary_op(
    lambda xp, x, y: xp.hypot(x, y),
    vjp={"x": lambda g, x, out: g * (x / out), "y": lambda g, y, out: g * (y / out)},
    dtypes=FLOATING,
    numbers="none",
)
def hypot(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """sqrt(input² + other²) without overflow.

    >>> import tdt
    >>> tdt.hypot(tdt.tensor([3.]), tdt.tensor([4.]))
    tensor([5.])
    """


@method(in_place=by_op)
@front
@binary_op(
    lambda xp, x, y: xp.copysign(x, y),
    vjp={"x": lambda g, x, out: (g * (out / x)).masked_fill(x == 0, 0), "y": lambda g: g.new_zeros(g.shape)},
    dtypes=REAL,
    to_float=True,
    node=by_number("Copysign", 1, number=1),
)
def copysign(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """|input| with the sign of other.

    >>> import tdt
    >>> tdt.copysign(tdt.tensor([1., 2.]), tdt.tensor([-1., 1.]))
    tensor([-1.,  2.])
    """


@method()
@front
@binary_op(
    lambda xp, x, y: _logaddexp(xp, x, y),
    vjp={
        "x": lambda g, x, out: g * _away(x - out).exp().conj(),
        "y": lambda g, y, out: g * _away(y - out).exp().conj(),
    },
    dtypes=FLOATING_AND_COMPLEX,
    numbers="none",
)
def logaddexp(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)) without overflow.

    >>> import tdt
    >>> tdt.logaddexp(tdt.tensor([0.]), tdt.tensor([0.]))
    tensor([0.6931])
    """


@method()
@front
@binary_op(
    lambda xp, x, y: xp.logaddexp2(x, y),
    vjp={"x": lambda g, x, out: g * _away(x - out).exp2(), "y": lambda g, y, out: g * _away(y - out).exp2()},
    dtypes=FLOATING,
    numbers="none",
)
def logaddexp2(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """log2(2^input + 2^other) without overflow.

    >>> import tdt
    >>> tdt.logaddexp2(tdt.tensor([0.]), tdt.tensor([0.]))
    tensor([1.])
    """


@method(in_place=by_op, in_place_function=True)
@front
@binary_op(
    lambda xp, x, y: _xlogy(xp, x, y),
    vjp={"x": lambda g, x, y: (g * _log(y)).masked_fill((x == 0) & (y <= 0), 0), "y": lambda g, x, y: g * x / y},
    dtypes=REAL,
    to_float=True,
    numbers="any",
)
def xlogy(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """input · log(other), and 0 where input is 0.

    >>> import tdt
    >>> tdt.xlogy(tdt.tensor([2., 0.]), tdt.tensor([1., 0.]))
    tensor([0., 0.])
    """


@method(in_place=by_op)
@front
@binary_op(
    lambda xp, x, y: xp.where(x == 0, y, x > 0).astype(x.dtype),
    dtypes=REAL,
    numbers="none",
    check=lambda x, y: _one_dtype("heaviside", x, y),
    same_out=True,
)
def heaviside(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """0 below 0, 1 above, other at 0.

    >>> import tdt
    >>> tdt.heaviside(tdt.tensor([-1., 0.]), tdt.tensor([5., 5.]))
    tensor([0., 5.])
    """


def _xlogy(xp: ModuleType, x: Any, y: Any) -> Any:
    dtype = (x if hasattr(x, "dtype") else y).dtype
    x, y = xp.asarray(x, dtype), xp.asarray(y, dtype)  # the logarithm of a Python number would widen the result
    return xp.where(x == 0, xp.where(xp.isnan(y), y, xp.zeros_like(y)), x * xp.log(y))


def _one_dtype(name: str, x: Any, y: Any) -> None:
    if x != y:
        raise RuntimeError(f"{name} is not yet implemented for tensors with different dtypes.")


def _logaddexp(xp: ModuleType, x: Any, y: Any) -> Any:
    if x.dtype.kind != "c":
        return xp.logaddexp(x, y)
    swap = y.real > x.real
    larger, smaller = xp.where(swap, y, x), xp.where(swap, x, y)
    same = xp.isinf(larger.real) & (larger == smaller)
    return xp.where(same, larger, larger + xp.log1p(xp.exp(xp.where(same, 0, smaller - larger))))


def _norm2(x: Any, y: Any) -> Tensor:
    return x * x + y * y


def _away(difference: Tensor) -> Tensor:
    """x - out, where both are infinite: 0."""
    return difference.masked_fill(difference.isnan(), 0)


def _log(y: Any) -> Any:
    import math

    return y.log() if isinstance(y, Tensor) else math.log(y) if y > 0 else -math.inf if y == 0 else math.nan


@op(promote=(), dtypes=FLOATING, elementwise=True)
def _scale(xp: ModuleType, x: Any, exponent: Any) -> Any:
    """x · 2^exponent for integers: exact, where 2^exponent alone might not be a number of the type."""
    return xp.ldexp(x, xp.clip(exponent, -(2**30), 2**30).astype(xp.int32))


_scale.vjp("x")(lambda g, exponent: _scale(g, exponent))


@method(in_place=by_copy, in_place_function=True)
@front
@node_name("LdexpBackward0")
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input · 2^other.

    >>> import tdt
    >>> tdt.ldexp(tdt.tensor([1.0]), tdt.tensor([3]))
    tensor([8.])
    """
    from tdt._ops.elementwise.arithmetic import mul, pow

    check_operands("ldexp", input, other, numbers="none")
    if input.is_floating_point() and other.dtype.category <= _dtype.INT:
        check_category("ldexp", INTS, other.dtype)
        return finish(_scale, out, input, other)
    return mul(input, pow(2.0, other), out=out)


@op(promote=("x", "y"))
def _where(xp: ModuleType, condition: Any, x: Any, y: Any) -> Any:
    # As 0-d arrays of the promoted type: a bare number would widen half precision.
    if not hasattr(x, "dtype"):
        x = y.dtype.type(x)
    elif not hasattr(y, "dtype"):
        y = x.dtype.type(y)
    return _backend.where(xp, condition, x, y)


_where.vjp("x")(lambda g, condition: where(condition, g, 0))
_where.vjp("y")(lambda g, condition: where(condition, 0, g))
_where.fast_vjp("x")(lambda xp, g, condition: _backend.where(xp, condition, g, g.dtype.type(0)))
_where.fast_vjp("y")(lambda xp, g, condition: _backend.where(xp, condition, g.dtype.type(0), g))


@front
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Tensor | None = None) -> Any:
    """input where condition holds, other elsewhere, broadcast; with the condition alone its nonzero indices.

    >>> import tdt
    >>> tdt.where(tdt.tensor([True, False]), tdt.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if condition.dtype not in (_dtype.bool, _dtype.uint8):
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{SCALAR_NAMES[condition.dtype]}"
        )
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        common = _dtype.result_of([], [_dtype._PYTHON[type(input)], _dtype._PYTHON[type(other)]])
        input = condition.new_full((), input, dtype=common)
    if out is not None:
        given = [(v.dtype, not v.ndim) for v in (input, other) if isinstance(v, Tensor)]
        refuse_out(
            out, _dtype.result_of(given, [_dtype._PYTHON[type(v)] for v in (input, other) if not isinstance(v, Tensor)])
        )
    return finish(_where, out, condition, input, other)


def _bounds_of_bools(x: Any, low: Any, high: Any) -> None:
    """Bools have a maximum and a minimum, and that is all that clamp gives them: one bound, a tensor."""
    bools = {_dtype.bool.np, bool, type(None)}
    tensors = [t for t in (low, high) if not isinstance(t, type)]
    if {x, low, high} <= bools and len(tensors) != 1:
        raise NotImplementedError("\"clamp\" not implemented for 'Bool'")


@op(
    dtypes=REAL,
    check=_bounds_of_bools,
    node=lambda node: f"ClampBackward{0 if node.backward_plan.numbers & 6 == 6 else 1}",
)
def _clamp(xp: ModuleType, x: Any, low: Any = None, high: Any = None, *, out: Any = None) -> Any:
    if x.dtype.kind in "iu":
        for bound in (low, high):
            if isinstance(bound, int):
                fill_number(bound, _dtype.of(x.dtype), "a bound of clamp")
    if low is None:
        return xp.minimum(x, high, out=out)
    return xp.maximum(x, low, out=out) if high is None else xp.minimum(xp.maximum(x, low), high, out=out)


@_clamp.vjp("x")
def _(g: Tensor, x: Tensor, low: Any, high: Any) -> Tensor:
    inside = x >= low if high is None else x <= high if low is None else (x >= low) & (x <= high)
    return where(inside, g, 0)


@_clamp.vjp("low")
def _(g: Tensor, x: Tensor, low: Tensor, high: Any) -> Tensor:
    return where(x < low if high is None else (x < low) & (low < high), g, 0)


@_clamp.vjp("high")
def _(g: Tensor, x: Tensor, low: Any, high: Tensor) -> Tensor:
    return where(x > high if low is None else (x > high) | (high < low), g, 0)


@method(aliases=("clip",))
@front
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Each element moved into [min, max]; either bound may be left out, be a number or a tensor.

    Elements outside get no gradient. Where min > max the result is max.

    >>> import tdt
    >>> tdt.clamp(tdt.tensor([-1.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    return finish(_clamp, out, input, min, max)


@method()
@front
def clamp_min(input: Tensor, min: Any, *, out: Tensor | None = None) -> Tensor:
    """Each element, or min where it is below.

    >>> import tdt
    >>> tdt.clamp_min(tdt.tensor([-1.0, 2.0]), 0)
    tensor([0., 2.])
    """
    check_operands("clamp_min", input, min)
    return label(finish(_clamp, out, input, min, None), f"ClampMinBackward{int(isinstance(min, Tensor))}")


@method()
@front
def clamp_max(input: Tensor, max: Any, *, out: Tensor | None = None) -> Tensor:
    """Each element, or max where it is above.

    >>> import tdt
    >>> tdt.clamp_max(tdt.tensor([-1.0, 2.0]), 0)
    tensor([-1.,  0.])
    """
    check_operands("clamp_max", input, max)
    return label(finish(_clamp, out, input, None, max), f"ClampMaxBackward{int(isinstance(max, Tensor))}")


clip = clamp


@op(promote=(), elementwise=False, computes=False, repeats=True, node=by_number("MaskedFill", 2))
def _masked_fill(xp: ModuleType, x: Any, mask: Any, value: Any, *, out: Any = None) -> Any:
    value = fitting(xp, value, x.dtype)
    if out is not None:
        xp.copyto(out, value, where=mask)
        return out
    return xp.asarray(_backend.where(xp, mask, value, x), order="C")


_masked_fill.vjp("x")(lambda g, mask: g.masked_fill(mask, 0))
_masked_fill.vjp("value")(lambda g, mask, value_dtype: converted(where(mask, g, 0).sum(), _dtype.of(value_dtype)))


def fitting(xp: ModuleType, value: Any, np_dtype: Any) -> Any:
    """A number or 0-d array as a 0-d array of the dtype; RuntimeError where that does not hold the value."""
    if xp is not np and hasattr(value, "dtype") and value.dtype.kind != "c":  # on a GPU, looking at it would be waiting
        return value.astype(np_dtype)
    number = value.item() if isinstance(value, np.ndarray) else value
    return astype(xp.asarray(fill_number(number, _dtype.of(np_dtype), "value")[0]), np_dtype)


@method()
@front
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`input` with `value` (a number or a 0-d tensor) where the bool `mask` holds, broadcast.

    >>> import tdt
    >>> tdt.masked_fill(tdt.tensor([1.0, 2.0]), tdt.tensor([True, False]), 0)
    tensor([0., 2.])
    """
    return _masked_fill(input, *mask_and_value(mask, value))


def mask_and_value(mask: Tensor, value: Any) -> tuple[Tensor, Any]:
    """The operands of masked_fill, checked."""
    if mask.dtype is not _dtype.bool:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return mask, value


@op(dtypes=NUMBERS, promote=("x", "a", "b"))
def _addcmul(xp: ModuleType, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    return x + (a * b if value == 1 else a * b * value)


_addcmul.vjp("x")(lambda g: g)
_addcmul.vjp("a")(lambda g, b, value: g * conj(b) * conj(value))
_addcmul.vjp("b")(lambda g, a, value: g * conj(a) * conj(value))


@method()
@front
@takes_old_order(3, "value", stacklevel=3)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None) -> Tensor:
    """input + value · tensor1 · tensor2, broadcast.

    >>> import tdt
    >>> tdt.addcmul(tdt.ones(1), tdt.tensor([2.0]), tdt.tensor([3.0]), value=10)
    tensor([61.])
    """
    if max(x.dtype.category for x in (input, tensor1, tensor2)) < _dtype.FLOAT:
        value = int(value)  # as C converts it
    return finish(_addcmul, out, input, tensor1, tensor2, value=value)


@op(dtypes=FLOATING_AND_COMPLEX)
def _addcdiv(xp: ModuleType, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    return x + (a / b if value == 1 else value * (a / b))


_addcdiv.vjp("x")(lambda g: g)
_addcdiv.vjp("a")(lambda g, b, value: g * conj(value / b))
_addcdiv.vjp("b")(lambda g, a, b, value: -g * conj(value * a / (b * b)))


@method(in_place=by_copy)
@front
@takes_old_order(3, "value", stacklevel=3)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1, out: Tensor | None = None) -> Tensor:
    """input + value · tensor1 / tensor2, broadcast; RuntimeError for two integer tensors.

    >>> import tdt
    >>> tdt.addcdiv(tdt.ones(1), tdt.tensor([3.0]), tdt.tensor([2.0]))
    tensor([2.5000])
    """
    if tensor1.dtype.category <= _dtype.INT and tensor2.dtype.category <= _dtype.INT:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported; use tdt.addcmul with a rounded tdt.div, or "
            "convert a tensor to float"
        )
    return finish(_addcdiv, out, input, tensor1, tensor2, value=value)


@op(dtypes=FLOATING_AND_COMPLEX, node=by_number("Lerp", 2))
def _lerp(xp: ModuleType, x: Any, end: Any, weight: Any) -> Any:
    # From the nearer end, so that weights 0 and 1 give x and end exactly.
    near = abs(weight) < 0.5
    if isinstance(near, bool):
        return x + weight * (end - x) if near else end - (end - x) * (1 - weight)
    return xp.where(near, x + weight * (end - x), end - (end - x) * (1 - weight))


_lerp.vjp("x")(lambda g, weight: g * conj(1 - weight))
_lerp.vjp("end")(lambda g, weight: g * conj(weight))
_lerp.vjp("weight")(lambda g, x, end: g * (end - x).conj())


@method(in_place=by_copy)
@front
def lerp(input: Tensor, end: Tensor, weight: Any, *, out: Tensor | None = None) -> Tensor:
    """input + weight · (end - input). All tensors must have one dtype, but for a `weight` of no dimensions.

    >>> import tdt
    >>> tdt.lerp(tdt.tensor([0.0]), tdt.tensor([10.0]), 0.3)
    tensor([3.])
    """
    if isinstance(weight, Tensor) and not weight.ndim and weight.dtype is not input.dtype is end.dtype:
        kind = _dtype.result_of([(t.dtype, not t.ndim) for t in (input, end, weight)], [])
        input, end, weight = input.to(kind), end.to(kind), weight.to(kind)
    check_category("lerp", FLOATING_AND_COMPLEX, input.dtype)
    for name, tensor in (("end", end), ("weight", weight)):
        if isinstance(tensor, Tensor) and tensor.dtype is not input.dtype:
            wanted, got = (C_NAMES.get(d.name, d.name) for d in (input.dtype, tensor.dtype))
            raise RuntimeError(f"expected dtype {wanted} for `{name}` but got dtype {got}")
    return finish(_lerp, out, input, end, weight)


@op(promote=(), computes=False)
def _copy(xp: ModuleType, x: Any, source: Any, *, out: Any = None) -> Any:
    if out is None:
        return xp.array(xp.broadcast_to(_fitted(source, x), x.shape), dtype=x.dtype)
    xp.copyto(out, _fitted(source, x), casting="unsafe")
    return out


def _fitted(source: Any, x: Any) -> Any:
    """What of a complex source fits into a real tensor, and what of another type into one of float8."""
    if x.dtype in KINDS or source.dtype in KINDS:
        return astype(source, x.dtype)
    return source.real if source.dtype.kind == "c" and x.dtype.kind != "c" else source


_copy.vjp("x")(lambda g: g.new_zeros(g.shape))
_copy.vjp("source")(lambda g, source_dtype: converted(g, _dtype.of(source_dtype)))


@op(promote=(), computes=False, repeats=True)
def _fill(xp: ModuleType, x: Any, value: Any, *, out: Any = None) -> Any:
    value = fitting(xp, value, x.dtype)
    if out is None:
        return xp.full(x.shape, value, dtype=x.dtype)
    out[...] = value
    return out


_fill.vjp("x")(lambda g: g.new_zeros(g.shape))
_fill.vjp("value")(lambda g, value_dtype: converted(g.sum(), _dtype.of(value_dtype)))


@front
def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input` with every element `value`, a number or a 0-d tensor.

    >>> import tdt
    >>> tdt.fill(tdt.zeros(2), 3)
    tensor([3., 3.])
    """
    return _fill(input, value_of_fill(value))


def value_of_fill(value: Any) -> Any:
    """`value`, a number or a 0-d tensor; RuntimeError for more elements."""
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return value


@method(aliases=("clip_",))
def clamp_(input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
    """`clamp` in place.

    >>> import tdt
    >>> tdt.clamp_(tdt.tensor([-1.0, 3.0]), 0, 1)
    tensor([0., 1.])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    return _clamp.inplace(input, min, max)


@method()
def clamp_min_(input: Tensor, min: Tensor | Number) -> Tensor:
    """`clamp_min` in place.

    >>> import tdt
    >>> tdt.clamp_min_(tdt.tensor([-1.0, 3.0]), 0)
    tensor([0., 3.])
    """
    return clamp_(input, min, None)


@method()
def clamp_max_(input: Tensor, max: Tensor | Number) -> Tensor:
    """`clamp_max` in place.

    >>> import tdt
    >>> tdt.clamp_max_(tdt.tensor([-1.0, 3.0]), 0)
    tensor([-1.,  0.])
    """
    return clamp_(input, None, max)


clip_ = clamp_


@method()
def masked_fill_(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """`masked_fill` in place."""
    return _masked_fill.inplace(input, *mask_and_value(mask, value))


@method()
@takes_old_order(3, "value")
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """`addcmul` in place."""
    return _addcmul.inplace(input, tensor1, tensor2, value=value)


@method("where")
def _where_method(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
    """self where condition holds, other elsewhere."""
    return where(condition, self, other)
