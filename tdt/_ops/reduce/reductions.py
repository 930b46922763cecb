"""Reductions to fewer elements: sums, means, variances, products, norms, extremes, any and all."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

from tdt import _backend
from tdt._core import dtype as _dtype
from tdt._core.calls import front
from tdt._core.dtype import FLOAT, FLOATING_AND_COMPLEX, REAL, REAL_NUMBERS, SCALAR_NAMES
from tdt._core.methods import method
from tdt._core.return_types import return_type
from tdt._core.tensor import Tensor
from tdt._ops._common import Dims, count, keep, store_into, wrap_dims
from tdt._ops.elementwise._front import named, refuse_out, tensor_argument
from tdt.autograd._dispatch import unary
from tdt.autograd._node_names import by_dim, label, node_name
from tdt.autograd._op import Op, finish, op

__all__ = [
    "all", "amax", "amin", "aminmax", "any", "argmax", "argmin", "count_nonzero", "hash_tensor", "logsumexp",
    "mean", "nanmean", "nansum", "prod", "std", "std_mean", "sum", "var", "var_mean",
]  # fmt: skip

AllDims = tuple[int, ...] | None


def _whole(x: Any, dtype: Any) -> Any:
    """The dtype to add up in: the one asked for, else int64 for integers and bools."""
    return dtype.np if dtype is not None else "int64" if x.dtype.kind in "biu" else None


@op(packed=True, node=by_dim("Sum"))
def _sum(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return _backend.total(x, dim, _whole(x, dtype), keepdim)


def _integer(dtype: Any) -> Any:
    """A dtype asked for, where the default rule would widen it."""
    return dtype if dtype is not None and dtype.category < FLOAT else None


def spread(xp: ModuleType, g: Any, x_shape: tuple[int, ...], dim: AllDims, keepdim: bool) -> Any:
    """The gradient (array) of a sum: each input element's is that of the sum it went into. A read-only view of g."""
    return xp.broadcast_to(keep(g, dim, x_shape, keepdim), x_shape)


@_sum.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dim: AllDims, keepdim: bool) -> Tensor:
    return keep(g, dim, x_shape, keepdim).expand(x_shape)


_sum.fast_vjp("x")(spread)


@method()
@front
def sum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The sum over `dim` (one, several, or all), as int64 for integers; `dtype` converts first.

    >>> import tdt
    >>> tdt.sum(tdt.tensor([[1, 2], [3, 4]]), 0)
    tensor([4, 6])
    """
    if dim is None and dtype is None and out is None and not keepdim:
        return unary(_sum, input)
    x = tensor_argument("sum", input) if dtype is None else input.to(dtype)
    return finish(_sum, out, x, dim=wrap_dims(dim, x._a.ndim), keepdim=keepdim, dtype=_integer(dtype))


@method()
@front
@node_name("NansumBackward0")
def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """As `sum`, with nan counted as 0.

    >>> import tdt
    >>> tdt.nansum(tdt.tensor([1.0, float("nan")]))
    tensor(1.)
    """
    if input.is_complex():
        raise RuntimeError("nansum does not support complex inputs")
    return sum(input.masked_fill(input.isnan(), 0), dim, keepdim, dtype=dtype, out=out)


def _float_only(name: str, x: Tensor) -> None:
    if x.dtype.category < FLOAT:
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {SCALAR_NAMES[x.dtype]}"
        )


@op(dtypes=FLOATING_AND_COMPLEX, packed=True, node=by_dim("Mean"))
def _mean(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
    n = x.size if dim is None else count(x.shape, dim)
    return _backend.total(x, dim, None, keepdim) / (n or math.nan)


@_mean.vjp("x")
def _(g: Tensor, x_shape: tuple[int, ...], dim: AllDims, keepdim: bool) -> Tensor:
    return (keep(g, dim, x_shape, keepdim) / (count(x_shape, dim) or math.nan)).expand(x_shape)


@_mean.fast_vjp("x")
def _(xp: ModuleType, g: Any, x_shape: tuple[int, ...], dim: AllDims, keepdim: bool) -> Any:
    return spread(xp, xp.asarray(g / (count(x_shape, dim) or math.nan)), x_shape, dim, keepdim)


@method()
@front
def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The mean over `dim` (one, several, or all); RuntimeError for integers without `dtype`.

    >>> import tdt
    >>> tdt.mean(tdt.tensor([1.0, 3.0]))
    tensor(2.)
    """
    x = tensor_argument("mean", input) if dtype is None else input.to(dtype)
    _float_only("mean", x)
    return finish(_mean, out, x, dim=wrap_dims(dim, x._a.ndim), keepdim=keepdim)


@method()
@front
def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The mean of the elements that are not nan.

    >>> import tdt
    >>> tdt.nanmean(tdt.tensor([1.0, float("nan"), 3.0]))
    tensor(2.)
    """
    if input.dtype.category < FLOAT:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {SCALAR_NAMES[input.dtype]}"
        )
    result = nansum(input, dim, keepdim, dtype=dtype) / input.isnan().logical_not().sum(dim, keepdim)
    return result if out is None else store_into(out, result)


@op(dtypes=FLOATING_AND_COMPLEX, packed=True)
def _var(xp: ModuleType, x: Any, *, dim: AllDims = None, correction: float = 1, keepdim: bool = False) -> Any:
    n = count(x.shape, dim)
    away = x - _backend.total(x, dim, None, True) / (n or math.nan)
    square = (away * away.conj()).real if x.dtype.kind == "c" else away * away
    free = n - correction
    return _backend.total(square, dim, None, keepdim) / (free if free > 0 else 0.0 if n else math.nan)


@_var.vjp("x")
def _(g: Tensor, x: Tensor, dim: AllDims, correction: float, keepdim: bool) -> Tensor:
    n = count(x.shape, dim)
    free = n - correction
    centred = x - x.mean(dim, keepdim=True)
    scale = 2.0 / free if free > 0 else math.inf if n else math.nan
    return keep(g, dim, x.shape, keepdim) * scale * centred


@op(dtypes=FLOATING_AND_COMPLEX, packed=True)
def _std(xp: ModuleType, x: Any, *, dim: AllDims = None, correction: float = 1, keepdim: bool = False) -> Any:
    return xp.sqrt(_var.forward(xp, x, dim=dim, correction=correction, keepdim=keepdim))


@_std.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, dim: AllDims, correction: float, keepdim: bool) -> Tensor:
    of_var = (g / (out * 2)).masked_fill(out == 0, 0)
    return _var.rules["x"].function(of_var, x, dim, correction, keepdim)


def _spread_options(name: str, x: Tensor, dim: Any, unbiased: Any, correction: Any, keepdim: bool) -> dict[str, Any]:
    """The attributes of var and std from their two signatures: (dim, unbiased, keepdim) and (dim, *, correction, keepdim)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if tensor_argument(name, x).dtype.category < FLOAT:
        raise RuntimeError(f"{name} only support floating point and complex dtypes")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return {"dim": wrap_dims(dim, x.ndim), "correction": correction, "keepdim": keepdim}


def _spreads(name: str, record: Op, doc: str, values: tuple[str, str]) -> tuple[Any, Any]:
    """`var` or `std`, and the same together with the mean; `values`: of 1 and 3, with correction 1 and 0."""

    def function(
        input: Tensor,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: Any = None,
        out: Tensor | None = None,
    ) -> Tensor:
        return finish(record, out, input, **_spread_options(name, input, dim, unbiased, correction, keepdim))

    def with_mean(
        input: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
    ) -> tuple:
        options = _spread_options(f"{name}_mean", input, dim, unbiased, correction, keepdim)
        mean = _mean(input, dim=options["dim"], keepdim=keepdim)
        shown = f"{name.capitalize()}MeanBackward0"
        return label(record(input, **options), shown), label(mean, shown)

    one, zero = values
    example = f"""
    >>> import tdt
    >>> tdt.{name}(tdt.tensor([1.0, 3.0])), tdt.{name}(tdt.tensor([1.0, 3.0]), correction=0)
    ({one}, {zero})
    """
    both = f"""({name}, mean) over `dim`.

    >>> import tdt
    >>> tdt.{name}_mean(tdt.tensor([1.0, 3.0]), correction=0)
    ({zero}, tensor(2.))
    """
    return named(function, name, f"{doc}\n{example}"), named(with_mean, f"{name}_mean", both)


var, var_mean = _spreads(
    "var",
    _var,
    "The variance over `dim`: squared distances from the mean, added and divided by n - correction (1 if not given).",
    ("tensor(2.)", "tensor(1.)"),
)
std, std_mean = _spreads("std", _std, "The square root of `var`.", ("tensor(1.4142)", "tensor(1.)"))


@op(packed=True, node=by_dim("Prod"), autocast="float32")
def _prod(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return x.prod(dim, _whole(x, dtype), None, keepdim)


@_prod.vjp("x")
def _(g: Tensor, x: Tensor, dim: AllDims, keepdim: bool) -> Tensor:
    """Each element's gradient is the product of all others, taken from both sides so that a zero does no harm."""
    if not x.ndim or not x.numel():
        return g if not x.ndim else x * keep(g, dim, x.shape, keepdim)
    ends = tuple(range(-len(dim or ()), 0))
    flat = x.reshape(-1) if dim is None else x.movedim(dim, ends).flatten(ends[0])
    ones = flat.new_ones((*flat.shape[:-1], 1))
    from tdt._ops.shape.join import cat

    before = cat([ones, flat[..., :-1]], -1).cumprod(-1)
    after = cat([flat[..., 1:], ones], -1).flip(-1).cumprod(-1).flip(-1)
    others = before * after
    others = (
        others.reshape(x.shape) if dim is None else others.unflatten(-1, [x.shape[d] for d in dim]).movedim(ends, dim)
    )
    return keep(g, dim, x.shape, keepdim) * others.conj()


@method()
@front
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None, out: Tensor | None = None
) -> Tensor:
    """The product over `dim` (one, or all), as int64 for integers; `dtype` converts first.

    >>> import tdt
    >>> tdt.prod(tdt.tensor([2, 3, 4]))
    tensor(24)
    """
    tensor_argument("prod", input)
    x = input if dtype is None else input.to(dtype)
    return finish(_prod, out, x, dim=wrap_dims(dim, x.ndim), keepdim=keepdim, dtype=_integer(dtype))


@op(dtypes=FLOATING_AND_COMPLEX, to_float=True, packed=True)
def _logsumexp(xp: ModuleType, x: Any, *, dim: AllDims, keepdim: bool = False) -> Any:
    if not x.size:
        return xp.log(xp.exp(x).sum(dim, None, None, keepdim))
    top = x.real.max(dim, None, True)
    top = xp.where(xp.isfinite(top), top, 0).astype(top.dtype)
    total = xp.log(xp.exp(x - top).sum(dim, None, None, True)) + top
    return total if keepdim else total.squeeze(dim)


@_logsumexp.vjp("x")
def _(g: Tensor, x: Tensor, out: Tensor, dim: AllDims, keepdim: bool) -> Tensor:
    total = keep(out, dim, x.shape, keepdim)
    return keep(g, dim, x.shape, keepdim) * (x - total).masked_fill((x == total) & x.isinf(), 0).exp().conj()


@method()
@front
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """log(Σ exp(x)) over `dim`, without overflow.

    >>> import tdt
    >>> tdt.logsumexp(tdt.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    return finish(_logsumexp, out, input, dim=wrap_dims(dim, input.ndim), keepdim=keepdim)


def _extreme(name: str) -> tuple[Any, Any]:
    method = name[1:]

    @op(name=name, dtypes=REAL, packed=True)
    def extreme(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
        return getattr(x, method)(dim, None, keepdim)

    @extreme.vjp("x")
    def _(g: Tensor, x: Tensor, out: Tensor, dim: AllDims, keepdim: bool) -> Tensor:
        top = keep(out, dim, x.shape, keepdim)
        ties = (x == top) | (x.isnan() & top.isnan())
        return keep(g, dim, x.shape, keepdim) * ties / ties.sum(dim, keepdim=True)

    def function(input: Tensor, dim: Dims = (), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
        dims = wrap_dims(dim, tensor_argument(name, input).ndim)
        refuse_empty(name, input, dims)
        refuse_out(out, input)
        return finish(extreme, out, input, dim=dims, keepdim=keepdim)

    doc = f"""The {"largest" if name == "amax" else "smallest"} element over `dim`: one, several, or all.

    Ties share the gradient.

    >>> import tdt
    >>> tdt.{name}(tdt.tensor([[1, 5], [3, 2]]), 1)
    tensor([{"5, 3" if name == "amax" else "1, 2"}])
    """
    return extreme, named(function, name, doc)


def refuse_empty(name: str, x: Tensor, dim: AllDims, whole: type[Exception] = RuntimeError) -> None:
    """IndexError where there is nothing to choose from; `whole` where that is the whole tensor."""
    if x._a.size:
        return
    if dim is None:
        raise whole(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
            "with the 'dim' argument."
        )
    for d in dim:
        if not x._a.shape[d]:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


_amax, amax = _extreme("amax")
_amin, amin = _extreme("amin")


@method()
@front
@node_name("AminmaxBackward0")
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None) -> Any:
    """(min, max) over `dim`, or of all elements.

    >>> import tdt
    >>> tdt.aminmax(tdt.tensor([1, 5, 3])).max
    tensor(5)
    """
    dims = wrap_dims(dim, input.ndim)
    refuse_empty("aminmax", input, dims)
    options = {"dim": dims, "keepdim": keepdim}
    results = _amin(input, **options), _amax(input, **options)
    if out is not None:
        results = tuple([store_into(t, r, exact=True) for t, r in zip(out, results, strict=True)])
    return return_type("aminmax", ("min", "max"))(*results)


def _arg(name: str) -> Any:
    @op(name=name, dtypes=REAL_NUMBERS)
    def arg(xp: ModuleType, x: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
        return getattr(x, name)(dim, keepdims=keepdim)

    def function(input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
        dims = wrap_dims(dim, tensor_argument(name, input).ndim)
        refuse_empty(name, input, dims, IndexError)
        refuse_out(out, _dtype.int64)
        return finish(
            arg,
            out,
            input,
            dim=None if dims is None else dims[0],
            keepdim=keepdim and (dim is not None or input.ndim == 0),
        )

    doc = f"""The index of the {"largest" if name == "argmax" else "smallest"} element.

    Along `dim`, or in the flattened tensor; of equals the first.

    >>> import tdt
    >>> tdt.{name}(tdt.tensor([1, 5, 3]))
    tensor({1 if name == "argmax" else 0})
    """
    return named(function, name, doc)


argmax, argmin = _arg("argmax"), _arg("argmin")


def _truth(name: str) -> Any:
    @op(name=name, packed=True)
    def truth(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
        result = getattr(x.astype(bool), name)(axis=dim, keepdims=keepdim)
        return result.astype(x.dtype) if x.dtype == xp.uint8 else result

    def function(input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
        dims = wrap_dims(dim, tensor_argument(name, input).ndim) if dim != () else ()
        refuse_out(out, out if out is not None and out.dtype is _dtype.uint8 else _dtype.bool)
        return finish(truth, out, input, dim=dims, keepdim=keepdim)

    doc = f"""Whether {"every" if name == "all" else "any"} element over `dim` (one, several, or all) is non-zero.

    >>> import tdt
    >>> tdt.{name}(tdt.tensor([True, False]))
    tensor({"False" if name == "all" else "True"})
    """
    return named(function, name, doc)


all, any = _truth("all"), _truth("any")


@op
def _count_nonzero(xp: ModuleType, x: Any, *, dim: AllDims = None) -> Any:
    return (x != 0).sum(dim, dtype="int64")


@method()
@front
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """How many elements over `dim` are not 0.

    >>> import tdt
    >>> tdt.count_nonzero(tdt.tensor([0, 3, 4]))
    tensor(2)
    """
    return _count_nonzero(input, dim=wrap_dims(dim, input.ndim))


@op(name="hash_tensor", dtypes=REAL, packed=True)
def _hash_tensor(xp: ModuleType, x: Any, *, dim: AllDims = None, keepdim: bool = False) -> Any:
    bits = x.astype(xp.int64 if x.dtype.kind in "biu" else xp.float64).view(xp.uint64)
    dims = tuple(range(x.ndim)) if dim is None else dim
    for d in dims:
        bits = bits.swapaxes(d, 0)
        while (n := len(bits)) > 1:  # CuPy's ufuncs have no reduce
            bits = xp.concatenate([bits[: n // 2] ^ bits[n - n // 2 :], bits[n // 2 : n - n // 2]])
        bits = bits.swapaxes(d, 0)
    return bits if keepdim else bits.squeeze(dims)


@method()
@front
def hash_tensor(
    input: Tensor, dim: Dims = (), *, keepdim: bool = False, mode: int = 0, out: Tensor | None = None
) -> Tensor:
    """Exclusive or over `dim` (one, several, all) of the elements' bits, as float64 or int64: uint64. `mode`: 0.

    >>> import tdt
    >>> tdt.hash_tensor(tdt.tensor([5, 3]))
    tensor(6, dtype=tdt.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: unknown mode {mode}; there is 0, exclusive or")
    dims = wrap_dims(dim, input.ndim)
    refuse_empty("hash_tensor", input, dims)
    refuse_out(out, _dtype.uint64)
    return finish(_hash_tensor, out, input, dim=dims, keepdim=keepdim)


var = method()(front(var))
std = method()(front(std))
argmin = method()(front(argmin))
argmax = method()(front(argmax))
any = method()(front(any))
amin = method()(front(amin))
amax = method()(front(amax))
all = method()(front(all))
std_mean = front(std_mean)
var_mean = front(var_mean)
