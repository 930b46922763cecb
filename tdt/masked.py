"""Reductions and normalisations of the elements that a mask leaves: `tdt.masked.mean(x, 1, mask=mask)`.

What is masked out counts as the operation's neutral element (0 for a sum, -inf for a maximum), so it changes neither the
result nor, NaN or not, a gradient. `mask`: bool, or truthy numbers; broadcast to the input's shape; None for all True.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from tdt._core.calls import is_bool, is_empty
from tdt._core.dtype import bool as bool_dtype
from tdt._core.dtype import dtype as Dtype
from tdt._core.dtype import float32, iinfo, int64
from tdt._core.layout import strided
from tdt._core.tensor import Tensor
from tdt._ops._common import wrap_dim, wrap_dims
from tdt._ops.elementwise.arithmetic import maximum
from tdt._ops.elementwise.binary_math import logaddexp as whole_logaddexp
from tdt._ops.elementwise.select import where
from tdt._ops.nn import functional
from tdt._ops.nn import softmax as normal
from tdt._ops.reduce import cumulative, extremes, order, product
from tdt._ops.reduce import reductions as reduce
from tdt.linalg import vector_norm

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

Dims = int | Sequence[int] | None


def __getattr__(name: str) -> NoReturn:
    absent = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")
    why = "; tdt has no masked tensors: give a tensor and its mask=" if name in absent else ""
    raise AttributeError(f"module 'tdt.masked' has no attribute '{name}'{why}")


def _bound(name: str, kind: Dtype, sign: int) -> float | None:
    """The end of a dtype's range: its infinity, or its last integer. None for bool; TypeError for complex numbers."""
    if kind.is_floating_point or (kind.is_complex and name == "logsumexp"):
        return sign * math.inf
    if kind is bool_dtype:
        return None
    return iinfo(kind).max if sign > 0 else iinfo(kind).min


# The element that changes nothing, by operation and dtype.
NEUTRAL: dict[str, Callable[[str, Dtype], float | None]] = {
    **dict.fromkeys(("sum", "norm"), lambda name, kind: 0),
    "prod": lambda name, kind: 1,
    **dict.fromkeys(("amax", "argmax", "logaddexp", "logsumexp"), lambda name, kind: _bound(name, kind, -1)),
    **dict.fromkeys(("amin", "argmin"), lambda name, kind: _bound(name, kind, 1)),
    "median": lambda name, kind: math.nan,
}


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """`mask` as bools in the shape of `input`. IndexError where it has more dimensions."""
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.ndim > input.ndim:
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input): mask "
            f"{tuple(mask.shape)}, input {tuple(input.shape)}"
        )
    return mask.to(bool_dtype).broadcast_to(input.shape)


def _output_mask(op: Any, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Where a function of this module, called so, has a result: where its mask leaves an element to it."""
    left = _input_mask(input, mask=kwargs["mask"])
    if op.__name__ in ("softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"):
        return left
    args = args[1:] if op.__name__ == "norm" else args
    dims = _all_dims(args[0] if args else kwargs.get("dim"), input.ndim)
    return left.any(dims, kwargs.get("keepdim", False)) if dims else left


def _count(input: Tensor, mask: Tensor | None, dim: Dims, keepdim: bool) -> Tensor:
    """How many elements the mask leaves over `dim`."""
    left = input.new_ones((), dtype=bool_dtype) if mask is None else mask
    return _input_mask(input, mask=left).sum(_all_dims(dim, input.ndim), keepdim)


def _left(name: str, input: Tensor, mask: Tensor | None, neutral: float | None = None) -> Tensor:
    """`input` with the neutral element of operation `name` where `mask` is False."""
    if input.layout is not strided:
        raise ValueError(f"masked {name} expects strided tensor (got {input.layout} tensor)")
    if mask is None:
        return input
    left = _input_mask(input, mask=mask)
    neutral = NEUTRAL[name](name, input.dtype) if neutral is None else neutral
    if neutral is None:
        raise NotImplementedError(f"identity of {name} on {input.dtype} input")
    return where(left, input, input.new_full((), neutral))


def _all_dims(dim: Dims, ndim: int) -> tuple[int, ...]:
    """The dimensions to reduce over, in order; all of them for None and ()."""
    dims = _integers(dim)
    return tuple(range(ndim)) if dims is None or is_empty(dims) else tuple(sorted(wrap_dims(dims, max(ndim, 1)) or ()))


def _integers(dim: Any) -> Any:
    """Dimensions, among which bools count as integers: PyTorch's functions compute them in Python, too."""
    return int(dim) if dim.__class__ is bool else tuple([int(d) for d in dim]) if is_bool(dim) else dim


def _sum_type(input: Tensor, dtype: Dtype | None) -> Dtype:
    exact = input.dtype.is_floating_point or input.dtype.is_complex
    return dtype or (input.dtype if exact else int64)


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The sum over `dim` (one, several, all) of what the mask leaves; of nothing it is 0.

    >>> import tdt
    >>> tdt.masked.sum(tdt.tensor([[1, 2], [3, 4]]), 1, mask=tdt.tensor([True, False]))
    tensor([1, 3])
    """
    left = _left("sum", input, mask)
    return reduce.sum(left, _all_dims(dim, input.ndim), keepdim, dtype=_sum_type(input, dtype))


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The product over `dim` (one, several, all) of what the mask leaves; of nothing it is 1.

    >>> import tdt
    >>> tdt.masked.prod(tdt.tensor([[1, 2], [3, 4]]), mask=tdt.tensor([True, False]))
    tensor(3)
    """
    left = _left("prod", input, mask).to(_sum_type(input, dtype))
    for d in reversed(_all_dims(dim, input.ndim)):
        left = product.prod(left, d, keepdim)
    return left


def _extreme(name: str) -> Any:
    reduce_all, best = getattr(extremes, name), "largest" if name == "amax" else "smallest"

    def extreme(
        input: Tensor,
        dim: Dims = None,
        *,
        keepdim: bool = False,
        dtype: Dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        left = _left(name, input, mask)
        return reduce_all(left, _all_dims(dim, input.ndim), keepdim).to(dtype or input.dtype)

    doc = f"""The {best} element over `dim` (one, several, all) that the mask leaves; of none, the other end of the dtype.

    >>> import tdt
    >>> tdt.masked.{name}(tdt.tensor([4.0, 9.0, 1.0, 2.0]), mask=tdt.tensor([True, False, False, True]))
    tensor({4 if name == "amax" else 2}.)
    """
    return _named(extreme, name, doc)


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


amax, amin = _extreme("amax"), _extreme("amin")


def _arg(name: str) -> Any:
    reduce_all, best = getattr(extremes, name), "largest" if name == "argmax" else "smallest"

    def arg(
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: bool = False,
        dtype: Dtype | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        return reduce_all(_left(name, input, mask), dim, keepdim).to(dtype or input.dtype)

    doc = f"""The index of the {best} element that the mask leaves, along `dim` or in all; in the input's dtype.

    >>> import tdt
    >>> tdt.masked.{name}(tdt.tensor([4, 9, 1, 2]), mask=tdt.tensor([True, False, False, True]))
    tensor({0 if name == "argmax" else 3})
    """
    return _named(arg, name, doc)


argmax, argmin = _arg("argmax"), _arg("argmin")


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The mean over `dim` (one, several, all) of what the mask leaves; of nothing it is NaN.

    ValueError for integers without a `dtype`.

    >>> import tdt
    >>> tdt.masked.mean(tdt.tensor([1.0, 2.0, 9.0]), mask=tdt.tensor([True, True, False]))
    tensor(1.5000)
    """
    kind = dtype or input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        source = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {kind}"
        )
    return sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask) / _count(input, mask, dim, keepdim)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """The median along `dim` of what the mask leaves, the lower of two; of nothing it is NaN.

    ValueError for integers where a row is masked out as a whole.

    >>> import tdt
    >>> tdt.masked.median(tdt.tensor([7.0, 5.0, 1.0, 9.0]), mask=tdt.tensor([True, True, True, False]))
    tensor(5.)
    """
    d, floating = wrap_dim(_integers(dim), input.ndim), input.dtype.is_floating_point
    left = _left("median", input if floating else input.to(float32), mask)
    middle = order.nanmedian(left, d, keepdim)[0]
    if floating:
        return middle
    if middle.isnan().any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return middle.to(dtype or input.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """log(Σ exp(x)) over `dim` (one, several, all) of what the mask leaves; of nothing it is -inf.

    >>> import tdt
    >>> tdt.masked.logsumexp(tdt.tensor([0.0, 0.0, 8.0]), mask=tdt.tensor([True, True, False]))
    tensor(0.6931)
    """
    left = _left("logsumexp", input, mask)
    return reduce.logsumexp(left, _all_dims(dim, input.ndim), keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Dtype | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), where what a mask leaves out adds nothing.

    >>> import tdt
    >>> tdt.masked.logaddexp(tdt.zeros(2), tdt.zeros(2), other_mask=tdt.tensor([True, False]))
    tensor([0.6931, 0.0000])
    """
    left, right = _left("logaddexp", input, input_mask), _left("logaddexp", other, other_mask)
    return whole_logaddexp(left, right).to(dtype or input.dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims = None,
    *,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over `dim` (one, several, all) of what the mask leaves.

    >>> import tdt
    >>> tdt.masked.norm(tdt.tensor([3.0, 4.0, 9.0]), mask=tdt.tensor([True, True, False]))
    tensor(5.)
    """
    ord = 2.0 if ord is None else ord
    if ord == -math.inf and mask is not None and not input.dtype.is_floating_point:
        raise AssertionError(f"input must be floating point, got {input.dtype}")
    left = _left("norm", input, mask, math.inf if ord == -math.inf else 0)
    return vector_norm(left, ord, _all_dims(dim, input.ndim), keepdim, dtype=dtype or input.dtype)


def var(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance over `dim` (one, several, all) of what the mask leaves: the squares' sum by their count - correction.

    correction: 1 unless given, or 0 for unbiased=False. NaN where nothing is left. Integers give float32.

    >>> import tdt
    >>> tdt.masked.var(tdt.tensor([1.0, 3.0, 9.0]), mask=tdt.tensor([True, True, False]))
    tensor(2.)
    """
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 0 if unbiased is False else 1
    inexact = input.dtype.is_floating_point or input.dtype.is_complex
    kind = dtype or (input.dtype if inexact else float32)
    kind_computed = kind if kind.is_floating_point or kind.is_complex else float32
    count, left = _count(input, mask, dim, True), _left("sum", input, mask)
    off = left - sum(left, dim, keepdim=True, dtype=kind) / count
    total = sum(off * off.conj(), dim, keepdim=keepdim, dtype=kind_computed, mask=mask)
    count = count.reshape(total.shape)
    if correction != 0:
        count = (count.to(kind_computed.to_real()) - float(correction)).clamp(min=0)
    return (total / count).to(kind)


def std(
    input: Tensor,
    dim: Dims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Dtype | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation over `dim` of what the mask leaves: the root of `var`, with its arguments.

    >>> import tdt
    >>> tdt.masked.std(tdt.tensor([1.0, 5.0, 9.0]), unbiased=False, mask=tdt.tensor([True, True, False]))
    tensor(2.)
    """
    return var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask).sqrt()


def _along(name: str, like: str, reduce_all: Any, doc: str, example: tuple[str, str]) -> Any:
    """A function of the elements along one dimension, where what is masked out is as neutral as in `like`."""

    def along(input: Tensor, dim: int, *, dtype: Dtype | None = None, mask: Tensor | None = None) -> Tensor:
        return reduce_all(_left(like, input, mask), wrap_dim(_integers(dim), input.ndim), dtype=dtype or input.dtype)

    values, result = example
    doc = f"""{doc}

    >>> import tdt
    >>> tdt.masked.{name}(tdt.tensor({values}), 0, mask=tdt.tensor([True, False, True]))
    tensor({result})
    """
    return _named(along, name, doc)


cumsum = _along(
    "cumsum", "sum", cumulative.cumsum, "Running sums along `dim` of what the mask leaves.", ("[1, 2, 3]", "[1, 1, 4]")
)
cumprod = _along(
    "cumprod",
    "prod",
    cumulative.cumprod,
    "Running products along `dim` of what the mask leaves.",
    ("[2, 3, 4]", "[2, 2, 8]"),
)
softmax = _along(
    "softmax", "amax", functional.softmax,
    "exp(x) / Σ exp(x) along `dim` of what the mask leaves, elsewhere 0; NaN where it leaves nothing.",
    ("[1.0, 7.0, 1.0]", "[0.5000, 0.0000, 0.5000]"),
)  # fmt: skip
log_softmax = _along(
    "log_softmax", "amax", functional.log_softmax,
    "x - log(Σ exp(x)) along `dim` of what the mask leaves, elsewhere -inf; NaN where it leaves nothing.",
    ("[1.0, 7.0, 1.0]", "[-0.6931,    -inf, -0.6931]"),
)  # fmt: skip
softmin = _along(
    "softmin", "amin", normal.softmin,
    "softmax(-x) along `dim` of what the mask leaves, elsewhere 0; NaN where it leaves nothing.",
    ("[1.0, -7.0, 1.0]", "[0.5000, 0.0000, 0.5000]"),
)  # fmt: skip


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Dtype | None = None, mask: Tensor | None = None
) -> Tensor:
    """x by its norm along `dim`, or by `eps` where that is larger, of what the mask leaves; elsewhere 0.

    >>> import tdt
    >>> tdt.masked.normalize(tdt.tensor([3.0, 4.0, 9.0]), 2, 0, mask=tdt.tensor([True, True, False]))
    tensor([0.6000, 0.8000, 0.0000])
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype or input.dtype, mask=mask)
    return _left("sum", input, mask) / maximum(length, length.new_full((), eps))
