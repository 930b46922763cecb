"""Selection, limits and interpolation: where, clamp, masked_fill, lerp, addcmul, addcdiv."""

from __future__ import annotations

from types import ModuleType
from typing import Any, overload

import numpy as np

from tdt import _backend, _kernels
from tdt._backend.waiting import takes_numbers
from tdt._core import dtype as _dtype
from tdt._core.calls import check_call, plain_number
from tdt._core.dtype import FLOAT8S, FLOATING_AND_COMPLEX, NUMBERS, REAL, SCALAR_NAMES, check_category
from tdt._core.from_data import LARGE, check_bits, held
from tdt._core.methods import function_alias, method
from tdt._core.old_arguments import accepts_old_order
from tdt._core.tensor import Tensor
from tdt._kernels import LOWER, rounded
from tdt._kernels.expression import as_number
from tdt._ops._common import C_NAMES, Number, conj
from tdt._ops.elementwise._front import check_operands, refuse_out
from tdt._ops.elementwise.fills import fitting
from tdt._ops.index.nonzero import nonzero
from tdt.autograd._dispatch import apply, converted, number_key, ufunc_of
from tdt.autograd._in_place_methods import by_op_of_floats
from tdt.autograd._inplace import is_plain
from tdt.autograd._node_names import by_number, label
from tdt.autograd._op import finish, op
from tdt.autograd._remembered import calls_by_shape, calls_one_op

__all__ = [
    "addcdiv", "addcmul", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min", "clamp_min_", "clip", "clip_", "lerp",
    "masked_fill", "where",
]  # fmt: skip


@op(promote=("x", "y"), float8=FLOAT8S, formula=True)
def _where(xp: ModuleType, condition: Any, x: Any, y: Any) -> Any:
    # As 0-d arrays of the promoted type: a Python number would promote half precision.
    if not hasattr(x, "dtype"):
        x = y.dtype.type(x)
    elif not hasattr(y, "dtype"):
        y = x.dtype.type(y)
    return _backend.where(xp, condition, x, y)


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(
    condition: Tensor, input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None
) -> Tensor: ...
@calls_one_op
def where(
    condition: Tensor,
    input: Tensor | Number | None = None,
    other: Tensor | Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Elements of `input` where `condition` is True, of `other` elsewhere.

    With `condition` alone, the indices of its nonzero elements: one tensor for each dimension.

    Shape: condition (*), input and other broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when `condition` is neither bool nor uint8, or the dtype of `out` differs from the result's.

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
    if not (isinstance(input, Tensor) and isinstance(other, Tensor)):
        input, other = plain_number(input), plain_number(other)
    if not isinstance(input, Tensor) and not isinstance(other, Tensor):
        common = _dtype.result_of([], [_dtype._PYTHON[type(input)], _dtype._PYTHON[type(other)]])
        input = condition.new_full((), input, dtype=common)
    if input.__class__ is int:
        input = _as_operand(input, other)
    elif other.__class__ is int:
        other = _as_operand(other, input)
    if out is not None:
        operands = [(v.dtype, not v.ndim) for v in (input, other) if isinstance(v, Tensor)]
        refuse_out(
            out,
            _dtype.result_of(operands, [_dtype._PYTHON[type(v)] for v in (input, other) if not isinstance(v, Tensor)]),
        )
    return apply(_where, (condition, input, other), {}) if out is None else _where.into(out, condition, input, other)


def _as_operand(number: int, x: Any) -> int:
    """An integer as elements of integers like x have it; as it is beside others."""
    return held(number, x.dtype) if x._a.dtype.kind in "iu" else number


_where.vjp("x")(lambda g, condition: where(condition, g, 0))
_where.vjp("y")(lambda g, condition: where(condition, 0, g))
_where.fast_vjp("x")(lambda xp, g, condition: _chosen(xp, condition, g, 0))
_where.fast_vjp("y")(lambda xp, g, condition: _chosen(xp, condition, 0, g))


def _chosen(xp: ModuleType, condition: Any, x: Any, y: Any) -> Any:
    """The values of `where`, one of which may be a number. On the CPU by its generated code: NumPy branches at each element."""
    return (_where.forward if xp is np else _where.forward.formula[0])(xp, condition, x, y)


def _check_bool_bounds(x: Any, low: Any, high: Any) -> None:
    """NotImplementedError for bools, unless they have one bound, a tensor."""
    bools = {_dtype.bool.np, bool, type(None)}
    tensors = [t for t in (low, high) if not isinstance(t, type)]
    if {x, low, high} <= bools and len(tensors) != 1:
        raise NotImplementedError("\"clamp\" not implemented for 'Bool'")


@op(
    dtypes=REAL,
    check=_check_bool_bounds,
    node=lambda node: f"ClampBackward{int(node.backward_plan.numbers & 6 == 6)}",
    formula=True,
)
def _clamp(xp: ModuleType, x: Any, low: Any = None, high: Any = None, *, out: Any = None) -> Any:
    if x.dtype.kind in "iu":
        for bound in (low, high):
            if isinstance(bound, int) and not 0 <= bound < 128:  # which all types hold
                held(bound, _dtype.of(x.dtype))
    into = {} if out is None else {"out": out}
    if low is None:
        return xp.minimum(x, high, **into)
    return xp.maximum(x, low, **into) if high is None else xp.minimum(xp.maximum(x, low), high, **into)


def _bounds(input: Tensor, low: Any, high: Any) -> tuple[Any, Any]:
    """The bounds, numbers beside half precision rounded to it; RuntimeError for one that the result's dtype cannot hold."""
    for bound in (low, high):
        kind = bound.__class__
        if (kind is float or kind is int) and not -LARGE < bound < LARGE:
            held(bound, _dtype.result_of([(input.dtype, not input.ndim)], [_dtype._PYTHON[kind]]))
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        return low, high
    return rounded(low, input._a.dtype), rounded(high, input._a.dtype)


def _inside(x: Any, low: Any, high: Any) -> Any:
    return x >= low if high is None else x <= high if low is None else (x >= low) & (x <= high)


def _below(x: Any, low: Any, high: Any) -> Any:
    return x < low if high is None else (x < low) & (low < high)


def _above(x: Any, low: Any, high: Any) -> Any:
    return x > high if low is None else (x > high) | (high < low)


def _clamp_rules(operand: str, passes: Any) -> None:
    """The rules of an operand: its gradient is the result's where that is the operand."""
    _clamp.vjp(operand)(lambda g, x, low, high: where(passes(x, low, high), g, 0))
    _clamp.fast_vjp(operand)(lambda xp, g, x, low, high: xp.where(passes(x, low, high), g, g.dtype.type(0)))


for _operand, _passes in (("x", _inside), ("low", _below), ("high", _above)):
    _clamp_rules(_operand, _passes)


@method(aliases=("clip",))
@calls_one_op
def clamp(
    input: Tensor,
    min: Tensor | Number | None = None,
    max: Tensor | Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Each element limited to the interval [min, max]; where min > max the result is max.

    Elements outside the interval get no gradient.

    Args:
        min, max: a number, a tensor, or None for no limit on that side.
    Shape: input (*), min and max broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when both `min` and `max` are None.

    >>> import tdt
    >>> tdt.clamp(tdt.tensor([-1.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    min, max = _bounds(input, min, max)
    if out is not None and not (isinstance(min, Tensor) or isinstance(max, Tensor)):
        refuse_out(out, input)
    return apply(_clamp, (input, min, max), {}) if out is None else _clamp.into(out, input, min, max)


@method()
@calls_one_op
def clamp_min(input: Tensor, min: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The larger of each element and `min`.

    Shape: input (*), min broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.clamp_min(tdt.tensor([-1.0, 2.0]), 0)
    tensor([0., 2.])
    """
    if input.__class__ is not Tensor:
        check_operands("clamp_min", input, min)
    min, _ = _bounds(input, min, None)
    result = apply(_clamp, (input, min, None), {}) if out is None else _clamp.into(out, input, min, None)
    return result if result._edge is None else label(result, f"ClampMinBackward{int(isinstance(min, Tensor))}")


@method()
@calls_one_op
def clamp_max(input: Tensor, max: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """The smaller of each element and `max`.

    Shape: input (*), max broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.clamp_max(tdt.tensor([-1.0, 2.0]), 0)
    tensor([-1.,  0.])
    """
    if input.__class__ is not Tensor:
        check_operands("clamp_max", input, max)
    _, max = _bounds(input, None, max)
    result = apply(_clamp, (input, None, max), {}) if out is None else _clamp.into(out, input, None, max)
    return result if result._edge is None else label(result, f"ClampMaxBackward{int(isinstance(max, Tensor))}")


clip = function_alias("clip", of=clamp)


@op(promote=(), elementwise=False, computes=False, repeats=True, node=by_number("MaskedFill", 2))
def _masked_fill(xp: ModuleType, x: Any, mask: Any, value: Any, *, out: Any = None) -> Any:
    value = fitting(xp, value, x.dtype)
    if out is not None:
        if xp is np and x.dtype.kind in "iuf" and x.dtype not in LOWER and not _backend.overlaps_itself(out):
            return _where.forward(np, mask, value.item(), x, out=out)  # NumPy branches at each element
        xp.copyto(out, value, where=mask)
        return out
    return xp.asarray(_chosen(xp, mask, value.item() if xp is np else value, x), order="C")


@_kernels.prepares(_masked_fill.forward)
def _(x: Any, mask: Any, value: Any, *, recorded: bool) -> Any:
    if value.__class__ is not float and value.__class__ is not int:
        return None
    fitting(np, value, x.dtype)  # raises for a value that the dtype cannot hold
    ufunc, numbers, _, _ = ufunc_of(_where, [mask.dtype, number_key(value), x.dtype], [mask, value, x], {})
    return None if ufunc is None else lambda x, mask, value: ufunc(mask, x, *numbers)


_masked_fill.traced.update(
    forward=takes_numbers(lambda xp, x, mask, value: xp.where(mask, as_number(value), x)),
    x=lambda xp, g, mask: xp.where(mask, 0, g),
)
_masked_fill.vjp("x")(lambda g, mask: g.masked_fill(mask, 0))
_masked_fill.fast_vjp("x")(lambda xp, g, mask: _masked_fill.forward(xp, g, mask, 0))
_masked_fill.vjp("value")(lambda g, mask, value_dtype: converted(where(mask, g, 0).sum(), _dtype.of(value_dtype)))


@method()
@calls_by_shape
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """`input` with `value` where `mask` is True.

    Args:
        mask: a bool tensor.
        value: a number or 0-d tensor.
    Shape: input (*), mask broadcastable with it, value (); result the broadcast shape of input and mask.
    Raises:
        RuntimeError: when `mask` is not bool, `value` has dimensions, or the dtype of `input` cannot hold it.

    >>> import tdt
    >>> tdt.masked_fill(tdt.tensor([1.0, 2.0]), tdt.tensor([True, False]), 0)
    tensor([0., 2.])
    """
    return _masked_fill(input, *mask_and_value(input, mask, value))


def mask_and_value(input: Tensor, mask: Tensor, value: Tensor | Number) -> tuple[Tensor, Tensor | Number]:
    """The operands of masked_fill, checked."""
    if mask.dtype is not _dtype.bool:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if value.__class__ is int:
        check_bits(value)
    if not isinstance(value, Tensor):
        fitting(np, value, input._a.dtype)  # raises for a value that the dtype cannot hold: no kernel looks
    return mask, value


@op(dtypes=NUMBERS, promote=("x", "a", "b"), formula=True)
def _addcmul(xp: ModuleType, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    return x + (a * b if value.__class__ is int and value == 1 else value * a * b)


_addcmul.vjp("x")(lambda g: g)
_addcmul.fast_vjp("x")(lambda g: g)
_addcmul.vjp("a")(lambda g, b, value: g * conj(b * value))
_addcmul.fast_vjp("a")(lambda g, b, value: g * (b * value).conjugate())
_addcmul.vjp("b")(lambda g, a, value: g * conj(a * value))
_addcmul.fast_vjp("b")(lambda g, a, value: g * (a * value).conjugate())


@method()
@calls_one_op
@accepts_old_order(3, "value", stacklevel=3)
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1, out: Tensor | None = None) -> Tensor:
    """The sum input + value · tensor1 · tensor2.

    Args:
        value: factor of the product.
    Shape: input (*), tensor1 and tensor2 broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.addcmul(tdt.ones(1), tdt.tensor([2.0]), tdt.tensor([3.0]), value=10)
    tensor([61.])
    """
    return finish(_addcmul, out, input, tensor1, tensor2, value=_factor(value, input, tensor1, tensor2))


@op(dtypes=FLOATING_AND_COMPLEX, formula=True)
def _addcdiv(xp: ModuleType, x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    return x + (a / b if value.__class__ is int and value == 1 else value * a / b)


_addcdiv.vjp("x")(lambda g: g)
_addcdiv.fast_vjp("x")(lambda g: g)
_addcdiv.vjp("a")(lambda g, b, value: g * conj(value / b))
_addcdiv.fast_vjp("a")(lambda g, b, value: g * (value / b).conjugate())
_addcdiv.vjp("b")(lambda g, a, b, value: -g * conj(value * a / (b * b)))
_addcdiv.fast_vjp("b")(lambda g, a, b, value: -g * (value * a / (b * b)).conjugate())


@method(in_place=by_op_of_floats)
@calls_one_op
@accepts_old_order(3, "value", stacklevel=3)
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1, out: Tensor | None = None) -> Tensor:
    """The sum input + value · tensor1 / tensor2.

    Args:
        value: factor of the quotient.
    Shape: input (*), tensor1 and tensor2 broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when `tensor1` and `tensor2` are both integer tensors.

    >>> import tdt
    >>> tdt.addcdiv(tdt.ones(1), tdt.tensor([3.0]), tdt.tensor([2.0]))
    tensor([2.5000])
    """
    if tensor1._a.dtype.kind != "f" and tensor1.dtype.category <= _dtype.INT and tensor2.dtype.category <= _dtype.INT:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported; use tdt.addcmul with a rounded tdt.div, or "
            "convert a tensor to float"
        )
    return finish(_addcdiv, out, input, tensor1, tensor2, value=_factor(value, input, tensor1, tensor2))


@op(dtypes=FLOATING_AND_COMPLEX, node=by_number("Lerp", 2), formula=True)
def _lerp(xp: ModuleType, x: Any, end: Any, weight: Any) -> Any:
    # Computed from the nearer end, so that weights 0 and 1 give x and end exactly.
    near = abs(weight) < 0.5
    if isinstance(near, bool):
        return x + weight * (end - x) if near else end - (end - x) * (1 - weight)
    return xp.where(near, x + weight * (end - x), end - (end - x) * (1 - weight))


_lerp.vjp("x")(lambda g, weight: g * conj(1 - weight))
_lerp.fast_vjp("x")(lambda g, weight: g * (1 - weight).conjugate())
_lerp.vjp("end")(lambda g, weight: g * conj(weight))
_lerp.fast_vjp("end")(lambda g, weight: g * weight.conjugate())
_lerp.vjp("weight")(lambda g, x, end: g * (end - x).conj())
_lerp.fast_vjp("weight")(lambda g, x, end: g * (end - x).conjugate())


@method(in_place=by_op_of_floats)
@calls_one_op
def lerp(input: Tensor, end: Tensor, weight: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Linear interpolation from `input` to `end`: input + weight · (end - input).

    Args:
        weight: a number or tensor; 0 gives `input`, 1 gives `end`.
    Shape: input (*), end and weight broadcastable with it; result the broadcast shape.
    Raises:
        RuntimeError: when the dtypes differ; a 0-d `weight` may have another one.

    >>> import tdt
    >>> tdt.lerp(tdt.tensor([0.0]), tdt.tensor([10.0]), 0.3)
    tensor([3.])
    """
    if (
        weight.__class__ is float
        and -LARGE < weight < LARGE
        and input._a.dtype is end._a.dtype
        and input._a.dtype.kind == "f"
    ):
        return apply(_lerp, (input, end, weight), {}) if out is None else _lerp.into(out, input, end, weight)
    if isinstance(weight, Tensor) and not weight.ndim and weight.dtype is not input.dtype is end.dtype:
        kind = _dtype.result_of([(t.dtype, not t.ndim) for t in (input, end, weight)], [])
        input, end, weight = input.to(kind), end.to(kind), weight.to(kind)
    check_category("lerp", FLOATING_AND_COMPLEX, input.dtype)
    weight = weight if isinstance(weight, Tensor) else held(weight, input.dtype, wide=True)
    for name, tensor in (("end", end), ("weight", weight)):
        if isinstance(tensor, Tensor) and tensor.dtype is not input.dtype:
            expected, got = (C_NAMES.get(d.name, d.name) for d in (input.dtype, tensor.dtype))
            raise RuntimeError(f"expected dtype {expected} for `{name}` but got dtype {got}")
    return finish(_lerp, out, input, end, weight)


@method(aliases=("clip_",))
def clamp_(input: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Tensor:
    """In-place version of `clamp`.

    Raises:
        RuntimeError: when both `min` and `max` are None.

    >>> import tdt
    >>> tdt.clamp_(tdt.tensor([-1.0, 3.0]), 0, 1)
    tensor([0., 1.])
    """
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    return _clamp.inplace(input, *_bounds(input, min, max))


@method()
def clamp_min_(input: Tensor, min: Tensor | Number) -> Tensor:
    """In-place version of `clamp_min`.

    >>> import tdt
    >>> tdt.clamp_min_(tdt.tensor([-1.0, 3.0]), 0)
    tensor([0., 3.])
    """
    return clamp_(input, min, None)


@method()
def clamp_max_(input: Tensor, max: Tensor | Number) -> Tensor:
    """In-place version of `clamp_max`.

    >>> import tdt
    >>> tdt.clamp_max_(tdt.tensor([-1.0, 3.0]), 0)
    tensor([-1.,  0.])
    """
    return clamp_(input, None, max)


clip_ = function_alias("clip_", of=clamp_)


@method()
def masked_fill_(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """In-place version of `masked_fill`."""
    mask, value = mask_and_value(input, mask, value)
    if (
        value.__class__ in (float, int)
        and is_plain(input)
        and input._a.dtype.kind == "f"
        and _fill_plain(input, mask, value)
    ):
        return input
    return _masked_fill.inplace(input, mask, value)


def _fill_plain(x: Tensor, mask: Tensor, value: Any) -> bool:
    """Fill a tensor as `is_plain` says, by its generated function; False, with nothing done, where there is none."""
    a, m = x._a, mask._a
    if m.__class__ is not np.ndarray or mask._st is x._st:
        return False
    ufunc, numbers, _, _ = ufunc_of(_where, [m.dtype, number_key(value), a.dtype], [m, value, a], {})
    try:
        if ufunc is None:
            return False
        ufunc(m, a, *numbers, a)
    except ValueError:  # shapes, of which the op raises PyTorch's error
        return False
    x._st.bump_version()
    return True


@method()
@accepts_old_order(3, "value")
def addcmul_(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """In-place version of `addcmul`."""
    return _addcmul.inplace(input, tensor1, tensor2, value=_factor(value, input, tensor1, tensor2))


def _factor(value: Number, *tensors: Tensor) -> Number:
    """A factor of tensors as their dtype holds it; RuntimeError where it does not."""
    if value.__class__ is float and tensors[0]._a.dtype.kind == "f" and -LARGE < value < LARGE:
        return value
    if not all(isinstance(x, Tensor) for x in tensors):
        check_call()
    dtype = _dtype.result_of([(x.dtype, not x.ndim) for x in tensors], [])
    return held(value, dtype, wide=True)


@method("where")
def _where_method(self: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
    """Elements of the tensor where `condition` is True, of `other` elsewhere: `tdt.where(condition, self, other)`.

    Shape: self (*), condition and other broadcastable with it; result the broadcast shape.

    >>> import tdt
    >>> tdt.tensor([1.0, 2.0]).where(tdt.tensor([True, False]), 0)
    tensor([1., 0.])
    """
    return where(condition, self, other)
