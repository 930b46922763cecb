"""Bind ops as methods and operators of Tensor, on import."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tdt._core import creation as _creation
from tdt._core import dtype as _dtype
from tdt._core import interchange as _interchange
from tdt._core.mode import state
from tdt._core.old_arguments import takes_old_order
from tdt._core.tensor import Tensor
from tdt._node_names import label
from tdt._ops import elementwise  # fmt: skip
from tdt._ops.elementwise import arithmetic, piecewise, select, special
from tdt._ops.elementwise._front import TAKES, tensor_argument
from tdt._ops.index import getitem as index
from tdt._ops.index import nonzero, pick, scatter
from tdt._ops.linalg import decompositions, householder, least_squares, lu, matrix_functions, solve, triangular
from tdt._ops.linalg import products as linalg
from tdt._ops.nn import softmax
from tdt._ops.random import creation as random
from tdt._ops.random import fill as random_fill
from tdt._ops.reduce import counting, order, statistics
from tdt._ops.reduce import reductions as reduce
from tdt._ops.shape import join, memory, resize, split, view_copies, view_scatter
from tdt._ops.shape import views as shape
from tdt._ops.spectral import frames
from tdt._ops.spectral import stft as spectral
from tdt.autograd import _variable
from tdt.autograd._dispatch import binary
from tdt.autograd._node import sum_to
from tdt.autograd._op import Op
from tdt.autograd._op_table import OPS
from tdt.compat._absent import bind_removed
from tdt.compat._old_types import type_
from tdt.sparse import _methods as sparse

assert _variable and _interchange  # they bind theirs

# Functions whose first parameter is the tensor become methods of the same name.
METHODS: dict[Any, str] = {
    piecewise: "hardshrink prelu relu relu_",
    softmax: "log_softmax softmax",
    elementwise: """
        abs absolute acos acosh add addcdiv addcmul allclose angle arccos arccosh arcsin arcsinh arctan arctan2 arctanh
        asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor
        ceil clamp clamp_max clamp_min clip conj conj_physical copysign cos cosh deg2rad digamma div divide eq equal erf
        erfc erfinv exp exp2 expm1 fix float_power floor floor_divide fmax fmin fmod frac frexp gcd ge greater greater_equal gt
        heaviside hypot isclose isfinite isinf isnan isneginf isposinf isreal lcm ldexp le lerp less less_equal lgamma log
        log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt masked_fill maximum
        minimum mul multiply nan_to_num ne neg negative nextafter not_equal positive pow rad2deg reciprocal remainder resolve_conj
        resolve_neg round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square sub subtract tan tanh true_divide trunc
        xlogy""",
    special: "i0 igamma igammac mvlgamma",
    reduce: """
        all amax amin aminmax any argmax argmin count_nonzero hash_tensor logsumexp mean nanmean nansum prod std sum
        var""",
    order: """
        argsort cummax cummin cumprod cumsum diff kthvalue logcumsumexp max median min mode msort nanmedian sort topk unique
        unique_consecutive""",
    shape: """
        adjoint broadcast_to diagonal expand flatten moveaxis movedim narrow ravel select squeeze swapaxes swapdims t
        transpose unflatten unsqueeze view""",
    frames: "unfold",
    spectral: "istft stft",
    split: """
        as_strided chunk dsplit hsplit split split_with_sizes storage_offset tensor_split unbind unsafe_chunk unsafe_split
        unsafe_split_with_sizes vsplit""",
    join: "diag diag_embed diagflat fliplr flipud repeat repeat_interleave roll rot90 tril triu",
    memory: "clone contiguous copy_ cpu cuda fill_ is_contiguous to type_as zero_",
    index: "fill_diagonal_ index_put index_put_",
    nonzero: "argwhere nonzero nonzero_static",
    pick: """
        index_add index_copy index_fill index_reduce index_select masked_scatter masked_select put take take_along_dim""",
    counting: "bincount histc histogram",
    statistics: "corrcoef cov nanquantile quantile renorm",
    view_copies: "narrow_copy",
    view_scatter: "as_strided_scatter diagonal_scatter select_scatter slice_scatter",
    scatter: "gather scatter scatter_ scatter_add scatter_add_ scatter_reduce",
    linalg: """
        addbmm addmm addmv addr baddbmm bmm cross dist dot ger inner kron matmul mm mv norm outer trace vdot""",
    random: "bernoulli multinomial",
    decompositions: "cholesky qr svd",
    solve: "det inverse logdet slogdet",
    triangular: "cholesky_inverse cholesky_solve triangular_solve",
    lu: "lu lu_solve",
    householder: "geqrf orgqr ormqr",
    least_squares: "pinverse",
    matrix_functions: "matrix_exp matrix_power",
    _creation: "new_empty new_empty_strided new_full new_ones new_tensor new_zeros",
}  # fmt: skip

# In-place methods `name_` that run the op of that name on the tensor's own memory; attributes go by keyword.
IN_PLACE = """
    acos acosh add addcmul asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor ceil copysign conj_physical cos cosh deg2rad digamma eq erf erfc erfinv exp
    exp2 expm1 floor fmod frac gcd ge gt heaviside hypot i0 igamma igammac lcm le lgamma log log10 log1p log2
    logical_and logical_not logical_or logical_xor lt mul ne neg nextafter pow rad2deg reciprocal remainder
    round rsqrt sgn sigmoid sign sin sinc sinh sqrt square sub tan tanh trunc xlogy"""  # fmt: skip
# Of these, the ones that take numbers before tensors too, as PyTorch did before 1.5: how many tensors, which number.
OLD_ORDER = {"add": (2, "alpha"), "addcmul": (3, "value"), "sub": (2, "alpha")}

# Those whose arguments must be looked at first: `name_(…)` is `name(…)` written back by `copy_`'s rules.
BY_FUNCTION: dict[str, Callable[..., Any]] = {
    "addcdiv": select.addcdiv, "addbmm": linalg.addbmm, "addmm": linalg.addmm, "addmv": linalg.addmv,
    "addr": linalg.addr, "baddbmm": linalg.baddbmm, "cumprod": order.cumprod, "cumsum": order.cumsum,
    "index_add": pick.index_add, "index_copy": pick.index_copy,
    "index_fill": pick.index_fill, "index_reduce": pick.index_reduce, "ldexp": select.ldexp, "lerp": select.lerp,
    "logit": elementwise.logit,
    "masked_scatter": pick.masked_scatter, "mvlgamma": special.mvlgamma, "nan_to_num": elementwise.nan_to_num, "put": pick.put,
    "renorm": statistics.renorm,
    "scatter_reduce": scatter.scatter_reduce, "tril": join.tril, "triu": join.triu,
}  # fmt: skip
ALIASES = {"absolute_": "abs_", "arccos_": "acos_", "arccosh_": "acosh_", "arcsin_": "asin_", "arcsinh_": "asinh_",
           "arctan_": "atan_", "arctan2_": "atan2_", "arctanh_": "atanh_", "clip_": "clamp_", "divide_": "div_",
           "fix_": "trunc_", "greater_": "gt_", "greater_equal_": "ge_", "less_": "lt_", "less_equal_": "le_",
           "multiply_": "mul_", "negative_": "neg_", "not_equal_": "ne_", "subtract_": "sub_",
           "true_divide_": "div_"}  # fmt: skip


def _in_place(record: Op) -> Callable[..., Tensor]:
    tensors_only = TAKES.get(record.name) == "none"

    def method(self: Tensor, *operands: Any, **attributes: Any) -> Tensor:
        if tensors_only and operands:
            tensor_argument(f"{record.name}_", operands[0], "other")
        return record.inplace(self, *operands, **attributes)

    method.__doc__ = f"`{record.name}` in place."
    return _called(method, f"{record.name}_")


def _written_back(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # The op may keep its input for backward; a copy stays as it was.
        return memory.overwrite(self, function(memory.clone(self) if state.grad else self, *args, **kwargs))

    method.__doc__ = f"`{name}` in place."
    return _called(method, f"{name}_")


def _called(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    return method


def div_(self: Tensor, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """`div` in place."""
    return arithmetic.division(rounding_mode).inplace(self, other)


def floor_divide_(self: Tensor, other: Any) -> Tensor:
    """`floor_divide` in place."""
    return arithmetic.division("floor").inplace(self, other)


def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """`float_power` in place; RuntimeError unless the tensor is double precision already."""
    base, exponent = arithmetic.widened(self, exponent)
    if base.dtype is not self.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {_dtype.SCALAR_NAMES[self.dtype]} but the operation's result "
            f"requires dtype {_dtype.SCALAR_NAMES[base.dtype]}"
        )
    return OPS["pow"].inplace(self, exponent)


def abs_(self: Tensor) -> Tensor:
    """`abs` in place; RuntimeError for complex numbers."""
    if self.is_complex():
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return OPS["abs"].inplace(self)


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """`clamp` in place."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    return OPS["clamp"].inplace(self, min, max)


def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`masked_fill` in place."""
    return OPS["masked_fill"].inplace(self, *select.mask_and_value(mask, value))


def reshape(self: Tensor, *sizes: Any) -> Tensor:
    """The elements in another shape: `x.reshape(2, -1)` or `x.reshape((2, -1))`."""
    return shape.reshape(self, sizes if len(sizes) != 1 else sizes[0])


def permute(self: Tensor, *dims: Any) -> Tensor:
    """The dimensions in another order: `x.permute(2, 0, 1)` or `x.permute((2, 0, 1))`."""
    return shape.permute(self, dims[0] if len(dims) == 1 and not hasattr(dims[0], "__index__") else dims)


def tile(self: Tensor, *dims: Any) -> Tensor:
    """`tdt.tile`."""
    return join.tile(self, dims[0] if len(dims) == 1 and not hasattr(dims[0], "__index__") else dims)


def flip(self: Tensor, *places: Any, dims: Any = None) -> Tensor:
    """The entries along each of `dims` in reverse order: `x.flip(0, 1)` or `x.flip((0, 1))`."""
    dims = places if dims is None else dims
    return join.flip(self, dims[0] if len(dims) == 1 and not hasattr(dims[0], "__index__") else dims)


def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """self where condition holds, other elsewhere."""
    return select.where(condition, self, other)


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the dimensions along which `size` would be broadcast to self."""
    target = tuple(size[0]) if len(size) == 1 and not hasattr(size[0], "__index__") else size
    if target == ():
        return self.sum()
    if tuple(shape.broadcast_shapes(target, self.shape)) != self.shape or len(target) > self.ndim:
        raise RuntimeError(f"size {{{list(target)}}} is not expandable to size {{{list(self.shape)}}}.")
    return sum_to(self, target) if target != self._a.shape else self


def _turned(name: str) -> Callable[..., Tensor]:
    """A view op in place: the tensor itself gets the view's shape and strides."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return memory.take_over(self, lambda: getattr(self, name)(*args, **kwargs))

    method.__doc__ = f"`{name}` in place: the same memory, seen in another way."
    return _called(method, f"{name}_")


def t_(self: Tensor) -> Tensor:
    """`t` in place."""
    if self.ndim > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return memory.take_over(self, lambda: shape.t(self))


def polygamma(self: Tensor, n: int) -> Tensor:
    """`tdt.polygamma(n, self)`."""
    return elementwise.polygamma(n, self)


def _like(method: str) -> Callable[..., Tensor]:
    def function(self: Tensor, other: Tensor) -> Tensor:
        return getattr(self, method)(other._a.shape)

    function.__doc__ = f"`{method}` to the shape of another tensor."
    return _called(function, f"{method}_as")


def _cast(name: str, dtype: _dtype.dtype) -> Callable[..., Tensor]:
    def function(self: Tensor, memory_format: Any = memory.preserve_format) -> Tensor:
        return memory.to(self, dtype, memory_format=memory_format)

    function.__doc__ = f"The tensor as {dtype}: itself if it is that already."
    return _called(function, name)


def _shown(self: Tensor) -> str:
    from tdt._core.printing import tensor_repr  # only where something is printed

    return tensor_repr(self)


def _iter(self: Tensor) -> Iterator[Tensor]:
    if not self.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(split.unbind(self, 0))


def _delitem(self: Tensor, key: Any) -> None:
    raise TypeError("Tensor does not support deleting items")


def _contains(self: Tensor, element: Any) -> bool:
    if not isinstance(element, (Tensor, bool, int, float, complex)):
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")
    return bool((self == element)._a.any())


NUMBERS = (Tensor, bool, int, float, complex, np.number, np.bool_)


def _operator(record: Op) -> Callable[..., Any]:
    """A binary operator: for what is neither tensor nor number Python gets to ask the other operand."""

    def method(self: Tensor, other: Any) -> Any:
        if other.__class__ is Tensor or isinstance(other, NUMBERS):
            return binary(record, self, other)
        return NotImplemented

    return method


def _equality(record: Op) -> Callable[..., Any]:
    """`==` or `!=`, which compare with the elements of an array too: Python would find the two different objects."""
    operator = _operator(record)

    def method(self: Tensor, other: Any) -> Any:
        return operator(self, _creation.from_numpy(other) if isinstance(other, np.ndarray) else other)

    return method


def _rmatmul(self: Tensor, other: Any) -> Any:
    return linalg.matmul(other, self) if isinstance(other, Tensor) else NotImplemented


def _augmented(record: Op) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        return record.inplace(self, other) if isinstance(other, NUMBERS) else NotImplemented

    return method


def _reflected(name: str, record: Op) -> Callable[..., Any]:
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(self, Tensor):
            if name in ("add", "mul", "and", "or", "xor"):
                raise TypeError(f"'__r{name}__' of Tensor doesn't apply to a '{type(self).__name__}' object")
            if name == "truediv":
                raise AttributeError(f"'{type(self).__name__}' object has no attribute 'reciprocal'")
            return NotImplemented
        if not isinstance(other, NUMBERS):
            return NotImplemented
        return label(record(other, self), "RsubBackward1") if name == "sub" else record(other, self)

    return method


OPERATORS: dict[str, Any] = {
    "add": OPS["add"], "sub": OPS["sub"], "mul": OPS["mul"], "truediv": OPS["div"], "floordiv": OPS["div_floor"],
    "mod": OPS["remainder"], "pow": OPS["pow"], "and": OPS["bitwise_and"], "or": OPS["bitwise_or"],
    "xor": OPS["bitwise_xor"], "lshift": OPS["bitwise_left_shift"], "rshift": OPS["bitwise_right_shift"],
}  # fmt: skip


def _invert(self: Tensor) -> Tensor:
    if self.dtype.category > _dtype.INT:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return elementwise.bitwise_not(self)


COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
FOR_UNARY = {
    "neg": elementwise.neg,
    "pos": elementwise.positive,
    "abs": elementwise.abs,
    "invert": _invert,
}
PROPERTIES: dict[str, Callable[[Tensor], Any]] = {
    "T": lambda self: OPS["permute"](self, dims=tuple(range(self._a.ndim))[::-1]),
    "mT": lambda self: _matrices(self, "mT").transpose(-2, -1),
    "H": lambda self: shape.t(self).conj(),
    "mH": lambda self: _matrices(self, "mH").transpose(-2, -1).conj(),
    "real": elementwise.real,
    "imag": elementwise.imag,
}


def _matrices(self: Tensor, name: str) -> Tensor:
    if self.ndim < 2:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {self.ndim}-D tensor."
        )
    return self


def bind() -> None:
    """Put everything above on Tensor."""
    for module, names in METHODS.items():
        for name in names.split():
            setattr(Tensor, name, getattr(module, name))
    for name in IN_PLACE.split():
        setattr(Tensor, f"{name}_", _in_place(OPS[name]))
    for name, old in OLD_ORDER.items():
        setattr(Tensor, f"{name}_", takes_old_order(*old)(getattr(Tensor, f"{name}_")))
    for name, function in BY_FUNCTION.items():
        setattr(Tensor, f"{name}_", _written_back(name, function))
    for method in (*random_fill.METHODS, *resize.METHODS, *sparse.METHODS):
        setattr(Tensor, method.__name__, method)
    for method in (
        polygamma,
        abs_,
        float_power_,
        div_,
        floor_divide_,
        clamp_,
        masked_fill_,
        reshape,
        permute,
        tile,
        flip,
        where,
        sum_to_size,
        t_,
    ):
        setattr(Tensor, method.__name__, method)
    for name in ("squeeze", "unsqueeze", "transpose", "swapaxes", "swapdims", "as_strided"):
        setattr(Tensor, f"{name}_", _turned(name))
    Tensor.polygamma_ = _written_back("polygamma", polygamma)
    for alias, name in ALIASES.items():
        setattr(Tensor, alias, getattr(Tensor, name))
    for name in ("view", "expand", "reshape"):
        setattr(Tensor, f"{name}_as", _like(name))
    for name, dtype in memory.SHORT.items():
        setattr(Tensor, name, _cast(name, dtype))
    for name, record in OPERATORS.items():
        setattr(Tensor, f"__{name}__", _operator(record))
        setattr(Tensor, f"__r{name}__", _reflected(name, record))
        setattr(Tensor, f"__i{name}__", _augmented(record))
    for name in COMPARISONS:
        setattr(Tensor, f"__{name}__", (_equality if name in ("eq", "ne") else _operator)(OPS[name]))
    for name, function in FOR_UNARY.items():
        setattr(Tensor, f"__{name}__", lambda self, function=function: function(self))
    for name, getter in PROPERTIES.items():
        setattr(Tensor, name, property(getter))
    Tensor.__nonzero__, Tensor.__long__ = Tensor.__bool__, Tensor.__int__
    Tensor.__reversed__ = lambda self: join.flip(self, 0) if self.ndim else self
    Tensor.__div__, Tensor.__rdiv__, Tensor.__idiv__ = Tensor.__truediv__, Tensor.__rtruediv__, Tensor.__itruediv__
    Tensor.__matmul__, Tensor.__rmatmul__ = linalg.matmul, _rmatmul
    Tensor.__getitem__, Tensor.__setitem__ = index.getitem, index.setitem
    Tensor.__delitem__ = _delitem
    Tensor.__iter__, Tensor.__contains__, Tensor.__repr__ = _iter, _contains, _shown
    Tensor.type = type_
    bind_removed(Tensor)
    Tensor.clamp_min_ = lambda self, min: clamp_(self, min, None)
    Tensor.clamp_max_ = lambda self, max: clamp_(self, None, max)


bind()
