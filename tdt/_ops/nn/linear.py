"""`linear`: x Wᵀ + b as one op."""

from __future__ import annotations

import math
from typing import Any

from tdt import _kernels
from tdt._backend.waiting import repeatable
from tdt._core.dtype import NUMBERS, SCALAR_NAMES, bfloat16, float32
from tdt._core.mode import state
from tdt._core.tensor import Tensor, wrap_new
from tdt._ops.elementwise._front import refuse_out, tensor_argument
from tdt._ops.elementwise.arithmetic import add
from tdt.autograd._autocast import autocast, called_below_autocast, cast_operands, casts_on
from tdt.autograd._dispatch import ternary
from tdt.autograd._node_names import ranks
from tdt.autograd._op import op
from tdt.autograd._record import repeated

_WEIGHT_GRADIENTS = (_kernels.gpu_kernel("product_gpu:weight_gradients", _kernels.lazy("product_gpu:fits")),)


def _shape(x: tuple, w: tuple, b: Any) -> tuple:
    return (*x[:-1], *w[:-1])


def _flops(x: tuple, w: tuple, b: Any) -> int:
    return math.prod(x) * math.prod(w[:-1])


def _linear_node_name(node: Any) -> str:
    rank, biased = ranks(node)[0], node.backward_plan.numbers & 4 == 0 and len(node.edges) > 2
    if rank == 2:
        return "AddmmBackward0" if biased else "MmBackward0"
    return "ViewBackward0" if biased or rank == 1 else "UnsafeViewBackward0"


@op(
    dtypes=NUMBERS,
    promote=(),
    broadcasts=False,
    shape=_shape,
    flops=_flops,
    node=_linear_node_name,
    autocast="lower",
    half=True,
    float32_weights="packed",
)
@repeatable
def _linear(xp, x, w, b=None):
    # Half precision may meet weights in float32.
    # One product of two matrices: NumPy multiplies a stack of matrices one by one.
    matrix = w if w.ndim == 2 else w.reshape(1, -1)
    y = _kernels.product(xp, _rows(x, w), matrix.T, b if b is None or b.ndim else b.reshape(1), x.dtype)
    return y if x.ndim == w.ndim == 2 else y.reshape(_shape(x.shape, w.shape, b))


def _rows(x: Any, w: Any) -> Any:
    """The input as a matrix."""
    return x if x.ndim == 2 else _kernels.reshaped(x, (math.prod(x.shape[:-1]), w.shape[-1]))


@_linear.vjp("x", "w", "b")
def _(g, needs, x, w):
    if x.ndim == 2 == w.ndim and x._a.dtype == w._a.dtype and w._a.dtype.kind == "f":
        gx, gw = g @ w if needs[0] else None, g.t() @ x if needs[1] else None
        return gx, gw, g.sum(0) if needs[2] else None
    low = x.dtype
    g, x = (t if t.dtype is w.dtype else t.to(w.dtype) for t in (g, x))
    matrix, count = w if w.ndim == 2 else w.unsqueeze(0), math.prod(x.shape[:-1])
    rows, inputs = _as(g, count, matrix.shape[0]), _as(x, count, matrix.shape[1])
    gx = _as(rows @ matrix.conj(), *x.shape).to(low) if needs[0] else None
    gw = _as(rows.transpose(0, 1) @ inputs.conj(), *w.shape) if needs[1] else None
    return gx, gw, _as(rows.sum(0), *w.shape[:-1]) if needs[2] else None


def _as(x: Tensor, *shape: int) -> Tensor:
    """A tensor of a shape; itself if it has that, for a view would be one more node of the graph."""
    return x if x.shape == shape else x.reshape(shape)


@_linear.fast_vjp("x", "w", "b")
@repeatable
def _(xp, g, needs, x, w):
    if w.dtype.kind == "c":
        x, w = x.conj(), w.conj()
    count, out, inside = math.prod(x.shape[:-1]), math.prod(w.shape[:-1]), w.shape[-1]
    rows, x_rows = _kernels.reshaped(g, (count, out)), _kernels.reshaped(x, (count, inside))
    gx = _kernels.product(xp, rows, w.reshape(out, inside), dtype=x.dtype).reshape(x.shape) if needs[0] else None
    if needs[1] and needs[2] and w.ndim == 2 and (fast := _kernels.chosen(_WEIGHT_GRADIENTS, xp, rows, x)):
        return gx, *fast(rows, x_rows)
    gw = _kernels.product(xp, rows.T, x_rows, dtype=w.dtype) if needs[1] else None
    gb = _kernels.total(rows, 0, None if rows.dtype == w.dtype else w.dtype) if needs[2] else None
    if w.ndim == 2:  # a leaf adopts these, where it would copy a view
        return gx, gw, gb
    return gx, None if gw is None else gw.reshape(w.shape), None if gb is None else gb.reshape(())


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """input · weightᵀ + bias: a fully connected layer.

    Shape: input (*, in), weight (out, in) or (in,), bias (out,) or (), or what expands to the result; result (*, out) or (*).
    Raises:
        RuntimeError: when sizes or dtypes do not fit.
        TypeError: when `input` or `weight` is not a tensor.

    >>> import tdt
    >>> tdt.nn.functional.linear(tdt.ones(1, 2), tdt.tensor([[1.0, 2.0], [3.0, 4.0]]), tdt.zeros(2))
    tensor([[3., 7.]])
    """
    if _linear.layouts and out is None:
        result, _ = repeated(_linear, (input, weight, bias), {})
        if result is not None:
            return result
    if state.handler is not None and out is None:
        result = called_below_autocast(linear, _linear, input, weight, bias, mixed=_of_float32_weights)
        if result is not None:
            return result
    try:
        x, w = input._a, weight._a
        fits = (
            x.shape[-1] == w.shape[-1]
            and (x.dtype == w.dtype or _weights_stay_float32(input, weight))
            and (bias is None or (bias._a.shape == w.shape[:-1] and bias._a.dtype == w.dtype))
        )
    except (AttributeError, IndexError):
        fits = False
    if (
        fits and out is None and w.ndim == 2 and state.handler is None and not state.fast_record
    ):  # nothing is recorded: matrices need no call of the op
        found = _kernels.matrix_product(_rows(x, w), w.T, None if bias is None else bias._a)
        if found is not None:
            return wrap_new(found if x.ndim == 2 else found.reshape(_shape(x.shape, w.shape, bias)))
    if not fits or w.ndim > 2:
        input, weight, bias = cast_operands(_linear, input, weight, bias)
        bias = _explain(input, weight, bias)
        if bias is not None and bias.ndim > 1:  # rows of their own
            return add(linear(input, weight), bias, out=out)
    if out is None:
        return ternary(_linear, input, weight, bias)
    refuse_out(out, input)
    return _linear.into(out, input, weight, bias)


def _of_float32_weights(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor | None:
    """`linear` of an input in bfloat16 and weights in float32; None for those that do not fit, and for vectors."""
    x, w = input._a, weight._a
    fits = x.ndim and w.ndim == 2 and x.shape[-1] == w.shape[-1] and (bias is None or bias._a.shape == w.shape[:-1])
    return ternary(_linear, input, weight, bias) if fits else None


def _weights_stay_float32(input: Tensor, weight: Tensor) -> bool:
    """Whether autocast is active, and the weights may stay float32."""
    return casts_on(input.device.type) and input.dtype is bfloat16 and weight.dtype is float32


def _explain(input: Any, weight: Any, bias: Any) -> Tensor | None:
    """Raise the error for invalid arguments, or return the bias if it only has to be broadcast."""
    for value, name, position in ((input, "input", 1), (weight, "weight", 2)):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"linear(): argument '{name}' (position {position}) must be Tensor, not {type(value).__name__}"
            )
    x, w = tuple(input.shape), tuple(weight.shape)
    if not 1 <= len(w) <= 2 or not x:
        raise RuntimeError(f"linear: expected input (*, in) and weight (out, in), but got input {x}, weight {w}")
    if x[-1] != w[-1]:
        raise RuntimeError(
            f"linear: input has {x[-1]} features but weight expects {w[-1]}; input {x}, weight {w} "
            f"(mat1 and mat2 shapes cannot be multiplied, {math.prod(x[:-1])}x{x[-1]} and {w[-1]}x{math.prod(w[:-1])}). "
            "Did you forget Flatten or the size of the layer before?"
        )
    like = weight if _weights_stay_float32(input, weight) else input
    for other, name in ((weight, "weight"), (bias, "bias")):
        if other is not None and other.dtype is not like.dtype:
            raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {SCALAR_NAMES[input.dtype].lower()} != "
                               f"{SCALAR_NAMES[other.dtype].lower()} (the {name} of linear)")  # fmt: skip
    if bias is not None:
        try:
            bias = bias.expand((*x[:-1], *w[:-1]) if bias.ndim > 1 else w[:-1])
        except RuntimeError as error:
            raise RuntimeError(f"linear: the bias must have the size of the output, {list(w[:-1])}, but has {list(bias.shape)}; "
                               f"weight {w}. {error}") from error  # fmt: skip
    return bias


@autocast("keep")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1ᵀ · weight[o] · input2 + bias[o] for each output feature o.

    Shape: input1 (*, in1), input2 (*, in2), weight (out, in1, in2), bias (out,); result (*, out).
    Raises:
        RuntimeError: when sizes or dtypes do not fit.
        IndexError: when `weight` is not 3-D.

    >>> import tdt
    >>> tdt.bilinear(tdt.tensor([1.0, 2.0]), tdt.tensor([3.0]), tdt.ones(1, 2, 1))
    tensor([9.])
    """
    _check_bilinear(input1, input2, weight, bias)
    out, in1, in2 = weight.shape
    rows = linear(input1, weight.transpose(1, 2).reshape(out * in2, in1)).unflatten(-1, (out, in2))  # (*, out, in2)
    y = (rows @ input2.unsqueeze(-1)).squeeze(-1)
    return y if bias is None else y + bias


def _check_bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    for i, (name, x) in enumerate((("input1", input1), ("input2", input2), ("weight", weight)), 1):
        tensor_argument("bilinear", x, name, i)
    if not input1.dtype is input2.dtype is weight.dtype:
        raise RuntimeError(f"All tensors must have the same dtype, got input1: {input1.dtype}, input2: {input2.dtype}, "
                           f"weight: {weight.dtype}")  # fmt: skip
    a, b, w = tuple(input1.shape), tuple(input2.shape), tuple(weight.shape)
    if len(w) != 3:
        raise IndexError(f"bilinear(): weight must be (out, in1, in2), but has the shape {w}")
    if len(a) != len(b):
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {len(a)} and {len(b)}")
    for d, (m, n) in enumerate(zip(a[:-1], b[:-1], strict=True)):
        if m != n:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {d}: got {m} and {n}")
    for name, shape, size in (("input1", a, w[1]), ("input2", b, w[2])):
        if not shape or shape[-1] != size:
            raise RuntimeError(f"bilinear(): {name} size does not match weight size: got {shape[-1:]} but expected {size}; "
                               f"input1 {a}, input2 {b}, weight {w}")  # fmt: skip
    if bias is not None and tuple(bias.shape) != w[:1]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {list(bias.shape)} but expected {w[0]}"
        )


__all__ = ["bilinear"]
